"""What `fit` promises: hands off what fits, objects never changed, the provider's count is the truth, budgets kept."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

import cases
import checker
from engine import MODELS, POLICIES, body, compactor, frozen, key_of, lawful, packlight, seen, size_tokens
from packlight.replay.readers import read_sessions
from packlight.replay.walk import walk
from packlight.replay.weights import Weights
from packlight.store import MemoryStore
from packlight.tokens import counter_for, input_tokens
from talk import (
    MANY,
    WINDOW,
    WIRES,
    begins_with,
    copied,
    grown,
    opening,
    output,
    request,
    sent,
    talk,
    turn,
    turns,
)

EXAMPLES = Path(__file__).parent.parent / "examples"
every_wire = pytest.mark.parametrize("wire", WIRES)
every_policy = pytest.mark.parametrize("policy", [*POLICIES, "none"])
USAGES = {
    "anthropic": lambda n: {
        "input_tokens": 10,
        "cache_read_input_tokens": n - 20,
        "cache_creation_input_tokens": 10,
        "output_tokens": 99,
    },
    "chat": lambda n: {
        "prompt_tokens": n,
        "completion_tokens": 99,
        "prompt_tokens_details": {"cached_tokens": n // 2},
    },
    "responses": lambda n: {
        "input_tokens": n,
        "output_tokens": 99,
        "input_tokens_details": {"cached_tokens": n // 2},
    },
}


def objects(value):
    """A usage as the SDKs give it: attributes all the way down."""
    return SimpleNamespace(**{k: objects(v) if isinstance(v, dict) else v for k, v in value.items()})


# hands off


@every_wire
def test_what_fits_is_the_same_object(wire):
    given = request(wire, 3)
    c = compactor(wire).fit(given)
    assert c.request is given and c.restore() is given and not c.changed and c.fits
    assert c.report.outcome == "unchanged" and c.report.tokens_before == c.report.tokens_after > 0
    bare = given[key_of(wire)]
    alone = compactor(wire).fit(bare)
    assert alone.request is bare and alone.restore() is bare


@every_wire
def test_unchanged_parts_are_the_same_objects(wire):
    system = {"system": "Be brief."} if wire == "anthropic" else {"metadata": {"a": "b"}}
    given = request(wire, MANY, **system)
    c = compactor(wire, window_tokens=WINDOW).fit(given)
    assert c.report.new_edits
    by_id = {id(m) for m in given[key_of(wire)]}
    assert id(c.messages[-1]) in by_id and id(c.messages[-2]) in by_id
    for name in given.keys() - {key_of(wire)}:
        assert c.request[name] is given[name]
    assert list(c.request) == list(given), "the order of the keys stays"
    assert c.request[key_of(wire)] is c.messages


@every_policy
@every_wire
def test_input_is_never_mutated(wire, policy):
    given = request(wire)
    before = copy.deepcopy(given)
    made = compactor(wire, window_tokens=WINDOW, policy=policy)
    c = made.fit(given)
    made.record_usage(c, USAGES[wire](c.report.tokens_after))
    made.fit({**given, key_of(wire): [*given[key_of(wire)], *turns(wire, 30, start=100)]})
    assert given == before
    lawful(given, c, wire)
    c.messages.append("the list is the caller's own")
    assert given == before and made.fit(copied(given)).messages[-1] != "the list is the caller's own"


@pytest.mark.parametrize("junk", [None, 7, "text", {}, {"messages": 5}, {"messages": [3]}, [[]], {"messages": [None]}])
def test_what_is_no_request_raises(junk):
    with pytest.raises(packlight.InvalidRequest):
        packlight.Compactor().fit(junk)


def test_mistakes_in_options_raise():
    with pytest.raises(ValueError, match="recall"):
        packlight.Compactor(recall="magic")
    with pytest.raises(packlight.PacklightError, match="unknown policy"):
        packlight.Compactor(policy="magic")
    with pytest.raises(packlight.UnknownFormat):
        packlight.Compactor().fit(opening(), format="gopher")


def test_report_is_immutable():
    c = compactor("chat").fit(request("chat", 1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        c.report.reason = "other"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        c.fits = False  # type: ignore[misc]


@every_wire
def test_nothing_is_due_for_none(wire):
    given = request(wire)
    c = compactor(wire, window_tokens=WINDOW, policy="none").fit(given)
    assert c.request is given and not c.fits
    assert c.report.tokens_before > WINDOW


@every_wire
def test_empty_list_fits(wire):
    c = compactor(wire).fit(body([], wire))
    assert c.fits and not c.changed


# the provider's count


@pytest.mark.parametrize("shape", [dict, objects], ids=["dict", "object"])
@every_wire
def test_usage_is_the_truth(wire, shape):
    """What was sent weighs what the provider counted; what came since is estimated on its scale."""
    tool = {"type": "function", "function": {"name": "Read"}, "name": "Read"}
    head = {"system": "Be brief."} if wire == "anthropic" else {"tools": [tool]}
    made, given = compactor(wire, window_tokens=10**6), request(wire, 10, **head)
    c = made.fit(given)
    estimated = c.report.tokens_before
    made.record_usage(c, shape(USAGES[wire](2 * estimated)))
    assert made.fit(copied(given)).report.tokens_before == pytest.approx(2 * estimated, rel=0.01)
    longer = {**given, key_of(wire): [*given[key_of(wire)], *turns(wire, 10, start=10)]}
    assert made.fit(longer).report.tokens_before == pytest.approx(4 * estimated, rel=0.05)


def test_usage_of_real_sdks():
    anthropic, openai = pytest.importorskip("anthropic"), pytest.importorskip("openai")
    usages = {
        "anthropic": anthropic.types.Usage(
            input_tokens=3, cache_read_input_tokens=148_000, cache_creation_input_tokens=1_200, output_tokens=500
        ),
        "chat": openai.types.CompletionUsage(prompt_tokens=149_203, completion_tokens=500, total_tokens=149_703),
    }
    for wire, usage in usages.items():
        made, given = compactor(wire, window_tokens=10**6), request(wire, 10)
        made.record_usage(made.fit(given), usage)
        assert made.fit(given).report.tokens_before == pytest.approx(149_203, rel=0.001)


def test_cached_tokens_and_the_answer_count():
    """B63: 3 fresh, 148,000 read, 1,200 written and 500 answered are 149,703 in the next request."""
    usage = cases.bug("B63")["input"]["usage"]
    given = request("anthropic", 10, system="Be brief.")
    made = compactor("anthropic", window_tokens=10**6)
    made.record_usage(made.fit(given), usage)
    scale = 149_203 / size_tokens(given, "anthropic")
    answer = {"role": "assistant", "content": [{"type": "text", "text": "word " * round(480 / scale)}]}
    weighed = made.fit({**given, "messages": [*given["messages"], answer]}).report.tokens_before
    assert weighed == pytest.approx(149_703, abs=250)


@pytest.mark.parametrize(
    "junk", [None, {}, {"input_tokens": None}, {"prompt_tokens": 0}, "12", 5, {"input_tokens": -4}]
)
def test_what_is_no_usage_is_ignored(junk):
    made, given = compactor("chat"), request("chat", 5)
    c = made.fit(given)
    made.record_usage(c, junk)
    assert made.fit(given).report.tokens_before == c.report.tokens_before


def provider_count(request):
    """Of a provider for which results weigh twice what they weigh for us, all else as much."""
    parts = [part for m in request["messages"] for part in (m["content"] if isinstance(m["content"], list) else [m])]
    return sum(len(str(p)) // (2 if p.get("type") == "tool_result" else 4) for p in parts)


@pytest.mark.parametrize("restarts", [False, True])
def test_size_of_what_was_taken_out_stays_as_it_was_counted(restarts):
    """After each batch the conversation weighs what it weighed before, although what is left is of another kind."""
    store = packlight.store.MemoryStore()
    new = lambda: compactor("anthropic", window_tokens=16_000, store=store)  # noqa: E731
    made, batches, sizes = new(), 0, []
    for messages in grown("anthropic", 60):
        made = new() if restarts else made
        c = made.fit({**body(messages, "anthropic")})
        made.record_usage(c, {"input_tokens": provider_count(c.request)})
        batches += bool(c.report.new_edits)
        sizes.append(c.report.tokens_before / provider_count(c.given))
    assert batches >= 3
    assert sizes[8:] == pytest.approx([1] * len(sizes[8:]), rel=0.05)


def test_size_of_a_recorded_conversation_does_not_jump_after_a_batch():
    """By the usage that its file states."""
    (session,) = read_sessions(EXAMPLES / "claude-code-chinese-web.jsonl")
    made = packlight.Compactor(session.model, policy="thrifty", window_tokens=120_000)
    reports = [(call.compaction.report, call.recorded.usage) for call in walk(session, made, Weights(session))]
    errors = [r.tokens_before / input_tokens(usage) - 1 for r, usage in reports if r.outcome == "reapplied"]
    assert len(errors) >= 8 and max(map(abs, errors)) < 0.05


class Twice:
    """Counts two tokens where the usual counter counts one."""

    name = "twice"

    def __init__(self, wire):
        self.usual = counter_for(MODELS[wire])

    def count(self, text):
        return 2 * self.usual.count(text)


@every_wire
@pytest.mark.parametrize("is_back", [False, True])
def test_edits_are_counted_as_the_model_of_the_request_counts(wire, is_back):
    """A conversation goes on with another model: what is recorded of sizes is the first one's."""
    store, given = MemoryStore(), request(wire)
    first = compactor(wire, window_tokens=WINDOW, store=store).fit(given)
    other = compactor(wire, window_tokens=10**6, store=store, counter=Twice(wire))
    c = other.fit(first.request if is_back else given)
    weighed = compactor(wire, window_tokens=10**6, counter=Twice(wire)).fit(first.request)
    assert frozen(c.request) == frozen(first.request) and c.changed is not is_back
    assert c.report.tokens_after == pytest.approx(weighed.report.tokens_after, rel=0.02)


@every_wire
def test_bare_list_learns_its_overhead(wire):
    """System and tools that we never see: the first count tells what they weigh."""
    made, items = compactor(wire, window_tokens=10**6), talk(wire, 3)
    c = made.fit(items)
    made.record_usage(c, USAGES[wire](c.report.tokens_before + 30_000))
    longer = [*items, *turns(wire, 3, start=3)]
    weighed = made.fit(longer).report.tokens_before
    assert weighed == pytest.approx(2 * c.report.tokens_before + 30_000, rel=0.05)


def test_overhead_may_be_given():
    plain, weighed = compactor("chat"), compactor("chat", overhead_tokens=12_345)
    items = talk("chat", 2)
    assert weighed.fit(items).report.tokens_before - plain.fit(items).report.tokens_before == 12_345


@every_wire
def test_old_usage_triggers_no_second_batch(wire):
    """B68: a count from before the batch says nothing of the request after it."""
    made, given = compactor(wire, window_tokens=10**5), request(wire)
    first = made.fit(given)
    assert not first.changed
    made.record_usage(first, USAGES[wire](99_000))
    longer = {**given, key_of(wire): [*given[key_of(wire)], *turns(wire, 1, start=MANY)]}
    batch = made.fit(longer)
    assert batch.report.new_edits and batch.fits
    for n in range(1, 6):
        longer = {**longer, key_of(wire): [*longer[key_of(wire)], *turns(wire, 1, start=MANY + n)]}
        after = made.fit(longer)
        assert not after.report.new_edits and begins_with(sent(after, wire), sent(batch, wire))
    written = made.fit({**longer, key_of(wire): list(after.messages)})
    assert not written.report.new_edits and written.fits


def test_usage_survives_in_the_store(tmp_path):
    given = request("chat", 10)
    first = compactor("chat", store=tmp_path / "s", window_tokens=10**6)
    c = first.fit(given)
    first.record_usage(c, {"prompt_tokens": 3 * c.report.tokens_before})
    second = compactor("chat", store=tmp_path / "s", window_tokens=10**6)
    assert second.fit(given).report.tokens_before == pytest.approx(3 * c.report.tokens_before, rel=0.01)


# budgets


@pytest.mark.parametrize("room", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_budget_leaves_room_for_the_answer(room):
    c = compactor("chat", window_tokens=100_000).fit(request("chat", 1, **{room: 9_000}))
    assert 80_000 <= c.report.budget_tokens <= 91_000
    assert c.report.window_tokens == 100_000 and c.report.window_source == "argument"


def test_margin_is_smaller_once_calibrated():
    made, given = compactor("chat", window_tokens=100_000), request("chat", 5, max_tokens=1_000)
    c = made.fit(given)
    made.record_usage(c, {"prompt_tokens": c.report.tokens_before})
    assert made.fit(given).report.budget_tokens > c.report.budget_tokens


@pytest.mark.parametrize(
    ("window", "room"), [(16_000, 4_000), (32_000, 8_000), (64_000, 8_000), (128_000, 16_000), (200_000, 20_000)]
)
def test_room_for_an_answer_of_no_stated_length(window, room):
    c = compactor("chat", window_tokens=window).fit(request("chat", 1))
    assert c.report.budget_tokens == round(window * 0.92 - room)


def test_room_is_at_most_what_the_model_writes():
    own = {"mine": {"context_window_tokens": 200_000, "max_output_tokens": 4_096}}
    c = compactor("chat", model="mine", model_overrides=own).fit({**request("chat", 1), "model": "mine"})
    assert c.report.budget_tokens == round(200_000 * 0.92 - 4_096)


def test_room_never_eats_the_window():
    """A `max_tokens` as large as the window, as some clients send it."""
    c = compactor("chat", window_tokens=8_192).fit(request("chat", 1, max_tokens=8_192))
    assert c.fits and c.report.budget_tokens >= 4_000


def test_max_input_tokens_is_the_budget():
    given = request("anthropic")
    c = compactor("anthropic", max_input_tokens=9_000).fit(given)
    assert c.report.budget_tokens == 9_000 and c.report.new_edits and c.report.tokens_after <= 9_000
    unknown = packlight.Compactor("nobody-knows", max_input_tokens=9_000).fit({**given, "model": "nobody-knows"})
    assert unknown.report.budget_tokens == 9_000 and unknown.fits and unknown.changed


@every_wire
def test_budget_is_kept(wire):
    for window in (6_000, 12_000, 20_000):
        c = compactor(wire, window_tokens=window).fit(request(wire))
        assert c.fits and c.report.tokens_after <= c.report.budget_tokens < window


def test_model_of_the_request_counts_before_ours():
    c = compactor("anthropic", model="gpt-4o").fit({**request("anthropic", 1), "model": "claude-sonnet-4-5"})
    assert c.report.window_tokens == 200_000


@every_wire
def test_unknown_model_is_left_alone(wire):
    given = {**request(wire, 400), "model": "nobody-knows"}
    c = packlight.Compactor(policy="default").fit(given, format=wire)
    assert c.request is given and c.fits
    assert (c.report.budget_tokens, c.report.window_tokens, c.report.window_source) == (None, None, "unknown")


# law 3: the smallest valid form, and never a worse one


@every_wire
def test_hopeless_request_is_sent_at_its_smallest(wire):
    given = body([{"role": "user", "content": "Do it. " * 30_000}], wire)
    given["tools" if wire != "anthropic" else "system"] = (
        "rule " * 20_000
        if wire == "anthropic"
        else [{"type": "function", "function": {"name": "f", "description": "word " * 20_000}}]
    )
    c = compactor(wire, window_tokens=8_000).fit(given)
    assert not c.fits and c.report.error is None
    assert c.report.tokens_after <= c.report.tokens_before
    assert checker.check(c.request, wire) == []
    lawful(given, c, wire)


def test_one_huge_result_comes_down():
    """1.5 MB that the model has not seen yet: shortened, since it could not be sent otherwise."""
    given = body([*opening(), *turns("anthropic", 1, text=output(0, 40_000))], "anthropic")
    c = compactor("anthropic", window_tokens=50_000).fit(given)
    assert c.fits and c.report.new_edits
    lawful(given, c, "anthropic")


def test_no_batch_for_a_gain_of_nothing():
    """Over the budget with nothing but what must stay: unchanged, not a batch at every call."""
    made = compactor("chat", window_tokens=4_000)
    messages = [{"role": "system", "content": "rule " * 6_000}, *opening("go")]
    for n in range(5):
        c = made.fit(body(messages, "chat"))
        assert not c.fits and not c.report.new_edits and c.report.reason
        messages += [{"role": "assistant", "content": f"ok {n}"}, {"role": "user", "content": "on"}]


# other limits


def test_request_bytes_are_a_limit():
    overrides = {"small-bytes": {"context_window_tokens": 10**7, "max_request_bytes": 60_000}}
    given = {**request("anthropic"), "model": "small-bytes"}
    assert len(frozen(given)) > 100_000
    c = packlight.Compactor("small-bytes", model_overrides=overrides).fit(given)
    assert c.report.new_edits and "bytes" in c.report.reason and len(frozen(c.request)) <= 60_000
    assert checker.check(c.request, "anthropic") == []
    again = packlight.Compactor("small-bytes", model_overrides=overrides)
    first = again.fit(given)
    after = again.fit({**given, "messages": [*given["messages"], *turn("anthropic", 99)]})
    assert not after.report.new_edits and begins_with(sent(after, "anthropic"), sent(first, "anthropic"))


def pictures(count, side=64):
    source = {"type": "base64", "media_type": "image/png", "data": cases.png(side, side)}
    messages = []
    for n in range(count):
        blocks = [{"type": "text", "text": f"picture {n}"}, {"type": "image", "source": source}]
        messages += [{"role": "user", "content": blocks}, {"role": "assistant", "content": "ok"}]
    return [*messages, {"role": "user", "content": "next"}]


def images_in(c):
    return sum(b["type"] == "image" for m in c.messages if isinstance(m["content"], list) for b in m["content"])


def test_number_of_images_is_a_limit():
    """Anthropic takes 100: the oldest go, as references; the text beside them stays."""
    made, given = compactor("anthropic"), body(pictures(120, 400), "anthropic")
    c = made.fit(given)
    assert images_in(c) == 100 and "picture 0" in seen(c) and "image" in c.report.reason
    lawful(given, c, "anthropic")
    assert frozen(made.fit(copied(given)).request) == frozen(c.request)


def test_large_images_go_when_there_are_many():
    """Over 2,000 pixels a side is refused only in requests of more than 20 images."""
    few = body(pictures(20, 2_100), "anthropic")
    assert images_in(compactor("anthropic").fit(few)) == 20
    many = body([*pictures(3, 2_100), {"role": "assistant", "content": "ok"}, *pictures(30)], "anthropic")
    c = compactor("anthropic").fit(many)
    assert images_in(c) == 30
    lawful(many, c, "anthropic")


# the async twins, and threads


@every_wire
def test_afit_is_fit(wire):
    given = request(wire)
    plain = compactor(wire, window_tokens=WINDOW).fit(given)
    async_made = packlight.Compactor("claude-opus-5-5", window_tokens=WINDOW)
    waited = asyncio.run(async_made.afit(given, format=wire, force=False, conversation=None, now_seconds=None))
    assert sent(waited, wire) == sent(plain, wire)
    assert waited.report.outcome == plain.report.outcome == "compacted"


@every_wire
def test_threads_share_one_compactor(wire):
    """Eight threads, twenty conversations, each grown turn by turn: as if each had a compactor of its own."""
    shared = compactor(wire, window_tokens=WINDOW)

    def run(made, name):
        messages, before, digests = opening(f"Task {name}. ORCHID-{name}"), [], []
        for n in range(8):
            messages = [*messages, *turns(wire, 9, start=9 * n)]
            c = made.fit(body(messages, wire))
            assert c.report.error is None and c.fits and f"ORCHID-{name}" in seen(c)
            assert c.report.new_edits or begins_with(sent(c, wire), before)
            before = sent(c, wire)
            digests.append(frozen(before))
            made.record_usage(c, USAGES[wire](c.report.tokens_after))
        return digests

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda name: run(shared, name), range(20)))
    alone = compactor(wire, window_tokens=WINDOW)
    for name in (0, 7, 19):
        assert [len(d) for d in run(alone, name)] == [len(d) for d in together[name]]


@pytest.fixture
def impatient():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_share_one_conversation(impatient):
    """The same message objects, at different lengths, at once: each gets back what it gave."""
    made, whole = compactor("chat", window_tokens=10**7), talk("chat", 200)
    lengths = [1 + 2 * random.Random(n).randrange(1, 200) for n in range(400)]

    def run(length):
        given = body(whole[:length], "chat")
        c = made.fit(given)
        return len(c.messages) - length

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(run, lengths)) == {0}


def test_threads_agree_on_one_batch():
    """Eight at once over the window with one conversation: one batch, the same bytes for all."""
    made, given = compactor("anthropic", window_tokens=WINDOW), request("anthropic")
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: made.fit(copied(given)), range(16)))
    assert {r.report.error for r in results} == {None}
    assert len({frozen(r.request) for r in results}) == 1


@every_wire
def test_one_shot_leaves_nothing_for_the_next_fit(wire):
    """`fit_once` in between neither loses the recorded edits nor adds its own."""
    made, given = compactor(wire, window_tokens=WINDOW), request(wire)
    first = made.fit(given)
    assert first.report.new_edits
    once = made.fit_once(given, format=wire, force=True)
    assert once.report.new_edits and checker.check(once.request, wire) == []
    again = made.fit(given)
    assert not again.report.new_edits and frozen(again.request) == frozen(first.request)
