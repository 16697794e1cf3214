"""After the provider's refusal, and when something of ours fails: nothing is lost, nothing is silent."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import checker
from engine import body, compactor, frozen, key_of, lawful, packlight, seen
from packlight.layers import CompactHistory
from packlight.store import MemoryStore
from talk import MANY, TASK, WINDOW, WIRES, begins_with, copied, opening, output, request, sent, talk, turn, turns

every_wire = pytest.mark.parametrize("wire", WIRES)


class Refused(Exception):
    """A provider's 400, as the SDKs raise it."""

    status_code = 400

    def __init__(self, message):
        super().__init__(message)
        self.message = message
        self.body = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def too_long(used, limit):
    return Refused(f"prompt is too long: {used} tokens > {limit} maximum")


# overflow


@every_wire
def test_recover_is_smaller_and_valid(wire):
    made, given = compactor(wire, model="nobody-knows"), {**request(wire), "model": "nobody-knows"}
    before = copy.deepcopy(given)
    c = made.fit(given)
    assert not c.changed
    rescued = made.recover(c, too_long(65_000, 20_000))
    assert rescued.changed and rescued.report.new_edits and rescued.attempt == 1
    assert rescued.report.tokens_after < 20_000 and TASK in seen(rescued)
    assert checker.check(rescued.request, wire) == []
    assert given == before and frozen(rescued.restore()) == frozen(before)


@every_wire
def test_first_try_keeps_the_known_window_where_the_error_names_none(wire):
    """A request of three windows is not tried at nine tenths of itself."""
    made = compactor(wire, window_tokens=20_000)
    c = made.fit(request(wire), recorded_only=True)
    assert not c.fits and c.report.tokens_after > 40_000
    rescued = made.recover(c, Refused("prompt is too long"))
    assert rescued.fits and rescued.attempt == 1 and checker.check(rescued.request, wire) == []


@every_wire
def test_each_try_is_strictly_smaller(wire):
    """Each refusal is by a little only; after three tries the figures are raised."""
    made = compactor(wire, window_tokens=10**6)
    c = made.fit(request(wire))
    sizes = [len(frozen(c.request))]
    for attempt in (1, 2, 3):
        used = c.report.tokens_after
        c = made.recover(c, too_long(used, used - 100))
        assert c.attempt == attempt and checker.check(c.request, wire) == []
        sizes.append(len(frozen(c.request)))
    assert sizes == sorted(set(sizes), reverse=True)
    with pytest.raises(packlight.ContextWindowExceeded) as raised:
        made.recover(c, too_long(900, 800))
    assert (raised.value.needed_tokens, raised.value.limit_tokens) == (900, 800)
    assert isinstance(raised.value.__cause__, Refused)


def test_nothing_more_to_take_out_raises():
    made = compactor("anthropic", window_tokens=10**6)
    c = made.fit(body(opening("go"), "anthropic", system="rule " * 3_000))
    with pytest.raises(packlight.ContextWindowExceeded) as raised:
        made.recover(c, too_long(4_000, 2_000))
    assert raised.value.limit_tokens == 2_000 and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "error", [ValueError("no"), Refused("messages.1: roles must alternate"), Refused("Overloaded"), KeyboardInterrupt()]
)
def test_what_is_no_overflow_is_raised_again(error):
    made, given = compactor("anthropic"), request("anthropic", 5)
    c = made.fit(given)
    with pytest.raises(type(error)) as raised:
        made.recover(c, error)
    assert raised.value is error
    assert made.fit(given).request is given, "nothing was learned from it"


def test_recovery_sticks():
    """The next turn goes on from the rescued request; its prefix stands."""
    made, given = compactor("chat", model="nobody-knows"), {**request("chat"), "model": "nobody-knows"}
    rescued = made.recover(made.fit(given), too_long(65_000, 20_000))
    after = made.fit({**given, "messages": [*given["messages"], *turn("chat", MANY)]})
    assert begins_with(sent(after, "chat"), sent(rescued, "chat")) and not after.report.new_edits


def test_window_is_learned_and_remembered(tmp_path):
    """One refusal teaches the window of an unknown model: also to a new process over the same store."""
    given = {**request("chat"), "model": "nobody-knows"}
    made = packlight.Compactor(store=tmp_path / "s")
    made.recover(made.fit(given), too_long(65_000, 20_000))
    other = {**body([{"role": "user", "content": "Another one."}, *turns("chat", MANY, start=300)], "chat")}
    for later in (
        made,
        packlight.Compactor(store=tmp_path / "s"),
        packlight.Compactor("nobody-knows", store=made.store),
    ):
        c = later.fit({**other, "model": "nobody-knows"})
        assert c.report.window_tokens == 20_000 and c.report.window_source == "learned from an error"
        assert c.fits and c.changed and c.report.tokens_after < 20_000
    unlike = packlight.Compactor(store=tmp_path / "s").fit(
        {**body(talk("chat", 70)[1:], "chat"), "model": "somebody-else"}
    )
    assert not unlike.changed and unlike.report.window_tokens is None


def test_error_corrects_a_window_too_large():
    made, given = compactor("chat", window_tokens=10**6), request("chat")
    made.recover(made.fit(given), too_long(65_000, 20_000))
    assert made.fit(copied(given)).report.budget_tokens < 20_000


@pytest.mark.parametrize("told", ["recover", "usage"])
def test_older_result_is_not_touched_by_newer_fit(told):
    """Two calls in flight on one history: what comes back for the first concerns the first."""
    made, whole = compactor("chat", window_tokens=10**6), talk("chat", 40)
    first = made.fit(body(whole[:41], "chat", tools=[{"type": "function", "function": {"name": "Read"}}]))
    second = made.fit(body(whole, "chat", tools=first.request["tools"]))
    if told == "recover":
        rescued = made.recover(first, too_long(20_000, 15_000))
        assert rescued.messages[-1] is whole[40] and "file_30" not in seen(rescued)
    else:
        made.record_usage(first, {"prompt_tokens": 3 * first.report.tokens_before})
        weighed = made.fit(second.request).report.tokens_before
        assert weighed == pytest.approx(3 * second.report.tokens_before, rel=0.05)


@every_wire
def test_arecover_is_recover(wire):
    made, twin = (packlight.Compactor(window_tokens=10**6) for _ in range(2))
    given = request(wire)
    c = made.recover(made.fit(given, format=wire), too_long(65_000, 20_000))

    async def rescue():
        return await twin.arecover(await twin.afit(given, format=wire), too_long(65_000, 20_000))

    waited = asyncio.run(rescue())
    assert sent(waited, wire) == sent(c, wire) and waited.report.new_edits == c.report.new_edits
    with pytest.raises(ValueError, match="no overflow"):
        asyncio.run(twin.arecover(waited, ValueError("no overflow")))


def test_too_many_bytes_are_recovered():
    made, given = compactor("anthropic", window_tokens=10**6), request("anthropic")
    refusal = Refused("Request exceeds the maximum size")
    refusal.status_code, refusal.body["error"]["type"] = 413, "request_too_large"
    c = made.recover(made.fit(given), refusal)
    assert len(frozen(c.request)) < len(frozen(given)) * 0.9
    lawful(given, c, "anthropic")


# failures of ours


def broken_layer(view, target):
    raise ZeroDivisionError("a layer of somebody")


def crossing_layer(view, target):
    span = ((1,), (4,)), ((2,), (6,))
    return [view.replace("mine", "removed", s, ()) for s in span]


def orphaning_layer(view, target):
    return [view.replace("mine", "removed", ((2,), (3,)), ())]


def growing_layer(view, target):
    return [view.replace("mine", "inserted", ((1,), (1,)), [{"role": "user", "content": "more " * 50}])]


@pytest.mark.parametrize("layer", [broken_layer, crossing_layer])
def test_failing_layer_stands_in_the_report(layer):
    policy = replace(packlight.PRESETS["default"], when_due=(layer,), on_overflow=())
    given = request("chat")
    c = compactor("chat", window_tokens=WINDOW, policy=policy).fit(given)
    assert c.request is given and c.report.outcome == "failed" and not c.fits
    assert isinstance(c.report.error, (ZeroDivisionError, ValueError)) and c.report.reason


@pytest.mark.parametrize("layer", [orphaning_layer, growing_layer])
def test_batch_that_is_worse_is_not_made(layer):
    policy = replace(packlight.PRESETS["default"], on_arrival=(), when_due=(layer,), on_overflow=())
    given = request("chat")
    made = compactor("chat", window_tokens=WINDOW, policy=policy)
    c = made.fit(given)
    assert c.request is given and c.report.outcome == "unchanged" and "no batch" in c.report.reason
    assert made.fit(given).request is given, "nothing was recorded"


def writer_that(act):
    def writer(job):
        reply = yield packlight.SummaryRequest(system="s", prompt="p", max_tokens=100)
        return act(reply)

    return writer


def crash(reply):
    raise TimeoutError("the writer hung up")


@pytest.mark.parametrize(
    "writer",
    [
        writer_that(crash),
        writer_that(lambda reply: packlight.Summary(text="")),
        writer_that(lambda reply: None),
    ],
    ids=["raises", "empty", "nothing"],
)
def test_failing_writer_loses_nothing(writer):
    """The request stays whole, or goes out by layers that need no writer; the failure is told."""
    given = request("anthropic")
    policy = replace(packlight.PRESETS["default"], when_due=(CompactHistory(),))
    made = compactor("anthropic", window_tokens=WINDOW, policy=policy, writer=writer)
    c = made.fit(given)
    assert checker.check(c.request, "anthropic") == [] and frozen(c.restore()) == frozen(given) and TASK in seen(c)
    if c.changed:
        assert c.report.tokens_after < c.report.tokens_before
    else:
        assert c.request is given
    assert c.report.error is not None
    rescued = made.recover(c, too_long(65_000, 16_000))
    assert rescued.report.tokens_after < 16_000, "recovery needs no model"


# a store that can't be written


class FullStore(MemoryStore):
    """A disk with no room left."""

    def put_batch(self, *arguments, **options):
        raise packlight.StoreError("No space left on device")

    def write_file(self, text):
        raise packlight.StoreError("No space left on device")


@every_wire
def test_full_store_holds_content_in_memory(wire):
    """It must shrink: what is taken out stays in this process, and the report says so."""
    made, given = compactor(wire, window_tokens=WINDOW, store=FullStore()), request(wire)
    c = made.fit(given)
    assert c.fits and c.report.new_edits and "memory" in c.report.reason
    assert isinstance(c.report.error, packlight.StoreError)
    assert checker.check(c.request, wire) == [] and frozen(c.restore()) == frozen(given)
    again = made.fit(copied(given))
    assert sent(again, wire) == sent(c, wire)
    far = {**given, key_of(wire): [*given[key_of(wire)], *turns(wire, MANY, start=100)]}
    after = made.fit(far)
    assert after.fits and checker.check(after.request, wire) == []
    assert begins_with(
        sent(made.fit({**far, key_of(wire): [*far[key_of(wire)], *turn(wire, 300)]}), wire), sent(after, wire)
    )


def test_full_store_leaves_what_fits_alone():
    """An optional batch (a large new result) is not worth breaking a promise for."""
    made = compactor("anthropic", window_tokens=10**6, store=FullStore())
    given = body([*opening(), *turns("anthropic", 1, text=output(0, 9_000))], "anthropic")
    with_room = compactor("anthropic", window_tokens=10**6).fit(given)
    assert with_room.report.new_edits, "with a store the result is shortened before it is first sent"
    c = made.fit(given)
    assert c.request is given and not c.changed and isinstance(c.report.error, packlight.StoreError)


def test_store_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    try:
        made = compactor("chat", window_tokens=WINDOW, store=tmp_path / "file" / "s")
    except packlight.StoreError as error:
        assert "\n" not in str(error)
        return
    given = request("chat")
    c = made.fit(given)
    assert isinstance(c.report.error, packlight.StoreError) and frozen(c.restore()) == frozen(given)


# placeholders that name files


def named_files(c):
    return [Path(p) for p in re.findall(r"full text: (\S+?)[\])\s\"\\]", frozen(c.request) + "\n")]


@every_wire
def test_named_files_hold_exactly_the_text(wire, tmp_path):
    made, given = compactor(wire, window_tokens=WINDOW, store=tmp_path / "s", recall="files"), request(wire)
    c = made.fit(given)
    texts = {output(n) for n in range(MANY)}
    named = named_files(c)
    assert named
    for path in named:
        assert path.is_absolute() and path.is_file()
    assert sum(path.read_text("utf-8") in texts for path in named) >= len(named) - 1  # one may be a whole summary's
    plain = compactor(wire, window_tokens=WINDOW, store=tmp_path / "other").fit(given)
    assert not named_files(plain) and not (tmp_path / "other" / "transcripts").exists()


@every_wire
def test_with_files_the_whole_conversation_lies_beside_them(wire, tmp_path):
    made, given = compactor(wire, window_tokens=WINDOW, store=tmp_path / "s", recall="files"), request(wire)
    made.fit(given)
    (path,) = (tmp_path / "s" / "transcripts").glob("**/*.jsonl")
    written = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert all(m in written for m in talk(wire))


def test_no_file_is_named_that_could_not_be_written():
    made = compactor("chat", window_tokens=WINDOW, store=FullStore(), recall="files")
    c = made.fit(request("chat"))
    assert c.fits and not named_files(c) and "ref " in seen(c)


def test_memory_store_names_no_files():
    c = compactor("chat", window_tokens=WINDOW, recall="files").fit(request("chat"))
    assert c.changed and not named_files(c)


def test_everything_taken_out_can_be_recalled(tmp_path):
    """Each reference of the request answers with text that the conversation held."""
    made, given = compactor("anthropic", window_tokens=WINDOW, store=tmp_path / "s"), request("anthropic")
    c = made.fit(given)
    refs = {e.ref for e in c.report.edits if e.ref}
    assert refs and refs <= set(re.findall(r"\b[0-9a-f]{12}\b", seen(c)))
    whole = "\n".join(frozen(m) for m in talk("anthropic"))
    for ref in refs:
        (document,) = packlight.recall(made.store, ref, conversation=c.conversation)
        assert document.ref == ref and document.text
        assert all(frozen(line)[1:-1] in whole for line in document.text.splitlines()[:3] if "value_" in line)
