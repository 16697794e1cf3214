"""Edits stick: made once, and made again byte for byte on every request that begins the same."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import sqlite3
from dataclasses import replace

import pytest

import checker
from engine import MODELS, body, compactor, frozen, key_of, lawful, packlight, seen
from packlight.store import MemoryStore
from packlight.view import plain_reference
from store_help import in_python, output_of
from talk import (
    MANY,
    TASK,
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

every_wire = pytest.mark.parametrize("wire", WIRES)


def agent(wire, **options):
    return compactor(wire, window_tokens=WINDOW, **options)


def compacted(wire, **options):
    """A compactor, a request over its window, and what it made of it."""
    made = agent(wire, **options)
    given = request(wire)
    c = made.fit(given)
    assert c.report.new_edits and c.report.error is None
    return made, given, c


def onward(given, wire, *more):
    return {**given, key_of(wire): [*given[key_of(wire)], *more]}


# the full history, sent each time


@pytest.mark.parametrize("policy", ["default", "classic", "nano"])
@every_wire
def test_recorded_only_plans_nothing(wire, policy):
    """Whatever the policy says: edits that are there are made again, and the rest is as given."""
    made, given = agent(wire, policy=policy), request(wire)
    untouched = made.fit(given, recorded_only=True)
    assert untouched.request is given and not untouched.fits and untouched.report.outcome == "unchanged"
    c = made.fit(given)
    grown = onward(given, wire, *turn(wire, MANY, output(MANY, 2_000)))
    again = made.fit(grown, recorded_only=True)
    assert again.report.outcome == "reapplied" and not again.report.new_edits
    assert begins_with(sent(again, wire), sent(c, wire)) and frozen(again.messages[-1]) in frozen(grown)
    assert sent(asyncio.run(made.afit(grown, recorded_only=True)), wire) == sent(again, wire)
    assert made.fit(grown).report.new_edits, "it was due all the time"


@every_wire
def test_recorded_only_can_be_recovered_and_counted(wire):
    made, given = agent(wire), request(wire)
    c = made.fit(given, recorded_only=True)
    made.record_usage(c, {"input_tokens": 77_000, "prompt_tokens": 77_000})
    assert made.fit(given, recorded_only=True).report.tokens_after == 77_000
    smaller = made.recover(c)
    assert smaller.report.new_edits and smaller.fits and checker.check(smaller.request, wire) == []
    assert sent(made.fit(given, recorded_only=True), wire) == sent(smaller, wire)


@pytest.mark.parametrize("policy", ["default", "thrifty"])
@every_wire
def test_prefix_grows_between_batches(wire, policy):
    """A stateless client that knows nothing of compaction: what was sent is a prefix of what is sent next."""
    made, before, batches = agent(wire, policy=policy), [], 0
    for messages in grown(wire, MANY):
        given = body(messages, wire)
        c = made.fit(given)
        lawful(given, c, wire)
        now = sent(c, wire)
        assert c.fits and (c.report.new_edits or begins_with(now, before))
        batches += bool(c.report.new_edits) and not begins_with(now, before)
        before = now
    assert 1 <= batches <= MANY // 5


@every_wire
def test_same_request_gets_same_bytes(wire):
    made, given, c = compacted(wire)
    for again in (given, copied(given), json.loads(json.dumps(given, indent=2))):
        repeated = made.fit(again)
        assert frozen(repeated.request) == frozen(c.request)
        assert repeated.report.outcome == "reapplied" and not repeated.report.new_edits
        assert repeated.conversation == c.conversation


@every_wire
def test_cache_marks_may_move(wire):
    made, given, c = compacted(wire)
    marked = copied(given)
    for n in (0, 7):
        content = marked[key_of(wire)][n].get("content")
        if wire == "anthropic" and isinstance(content, list):
            content[-1]["cache_control"] = {"type": "ephemeral"}
        elif content:
            marked[key_of(wire)][n]["content"] = [{"type": "text", "text": content}] if n == 0 else content
    assert sent(made.fit(marked), wire)[1:] == sent(c, wire)[1:]
    assert not made.fit(marked).report.new_edits


def test_marks_do_not_grow_in_number():
    """At most four cache marks, wherever the client puts them."""
    made, given, _ = compacted("anthropic")
    messages = copied(given)["messages"]
    for place in itertools.chain(range(1, len(messages), 25), [len(messages) - 1]):
        blocks = messages[place]["content"]
        blocks[-1]["cache_control"] = {"type": "ephemeral"}
    c = made.fit(body(messages, "anthropic"))
    assert 1 <= frozen(c.request).count("cache_control") <= frozen(messages).count("cache_control")
    assert not c.report.new_edits


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
def test_string_equals_one_text_block(wire):
    made, given, c = compacted(wire)
    spelled = copied(given)
    spelled[key_of(wire)][0]["content"] = [{"type": "text", "text": TASK}]
    again = made.fit(spelled)
    assert not again.report.new_edits and again.report.outcome == "reapplied"
    assert sent(again, wire)[1:] == sent(c, wire)[1:]


def test_sdk_objects_are_their_dicts():
    types = pytest.importorskip("anthropic").types
    made, given, c = compacted("anthropic")
    as_objects = copied(given)
    for message in as_objects["messages"]:
        if message["role"] == "assistant":
            text, call = message["content"]
            message["content"] = [types.TextBlock(**text), types.ToolUseBlock(**call)]
    again = made.fit(as_objects)
    assert not again.report.new_edits
    assert sent(again, "anthropic") == sent(c, "anthropic")


def test_chat_objects_are_their_dicts():
    chat = pytest.importorskip("openai").types.chat
    made, given, c = compacted("chat")
    messages = [chat.ChatCompletionMessage(**m) if m["role"] == "assistant" else m for m in copied(given)["messages"]]
    again = made.fit(body(messages, "chat"))
    assert not again.report.new_edits
    assert sent(again, "chat") == sent(c, "chat")


@every_wire
def test_head_does_not_matter(wire):
    """System, tools and model may change: the conversation is the same."""
    made, given, c = compacted(wire)
    more = {"system": "Be brief."} if wire == "anthropic" else {"temperature": 0.5}
    again = made.fit({**given, "model": MODELS[wire], "max_tokens": 500, **more})
    assert sent(again, wire) == sent(c, wire) and not again.report.new_edits


def test_owners_are_apart(tmp_path):
    _, given, c = compacted("chat", store=tmp_path / "s", owner="ann")
    other = agent("chat", store=tmp_path / "s", owner="bob").fit(given)
    assert other.report.new_edits
    same = agent("chat", store=tmp_path / "s", owner="ann").fit(given)
    assert not same.report.new_edits and frozen(same.request) == frozen(c.request)


# forks and rewinds


@every_wire
def test_fork_behind_batch_keeps_it(wire):
    """A fork may go on with batches of its own; the other line does not see them."""
    made, given, c = compacted(wire)
    left, right = (onward(given, wire, {"role": "user", "content": text}) for text in ("Go left.", "Go right."))
    for fork in (left, right):
        forked = made.fit(copied(fork))
        assert not forked.report.new_edits and begins_with(sent(forked, wire), sent(c, wire))
    far_left = onward(left, wire, *turns(wire, MANY, start=100))
    own = made.fit(far_left)
    assert own.report.new_edits and own.fits
    lawful(far_left, own, wire)
    far_right = made.fit(copied(right))
    assert not far_right.report.new_edits and begins_with(sent(far_right, wire), sent(c, wire))
    assert "Go left." not in seen(far_right)
    own_right = made.fit(onward(right, wire, *turns(wire, MANY, start=200)))
    assert own_right.report.new_edits and "Go right." in seen(own_right) and "file_130" not in seen(own_right)
    assert frozen(made.fit(copied(far_left)).request) == frozen(own.request)


@every_wire
def test_rewind_before_batch_has_none_of_it(wire):
    made, given, c = compacted(wire)
    size = len(turn(wire, 0))
    early = {**given, key_of(wire): given[key_of(wire)][: 1 + 8 * size]}
    rewound = made.fit(copied(early))
    assert not rewound.changed and rewound.report.outcome == "unchanged"
    other = onward(early, wire, {"role": "user", "content": "Another way."}, *turns(wire, MANY, start=300))
    own = made.fit(other)
    assert own.report.new_edits and own.fits
    lawful(other, own, wire)
    again = made.fit(copied(given))
    assert frozen(again.request) == frozen(c.request)


@every_wire
def test_message_edited_by_caller_is_fork(wire):
    """A middle message rewritten by its owner: the batch is not ours to make on it."""
    made, given, _ = compacted(wire)
    edited = copied(given)
    edited[key_of(wire)][len(turn(wire, 0)) * 3] = {"role": "user", "content": "I changed my mind: use tabs."}
    c = made.fit(edited)
    assert c.report.outcome != "reapplied"
    assert checker.new_violations(edited, c.request, wire) == []
    assert frozen(c.restore()) == frozen(edited)


def test_edit_behind_batch_keeps_it():
    made = agent("anthropic")
    given = request("anthropic", 40)
    c = made.fit(given)
    longer = onward(given, "anthropic", *turns("anthropic", 2, start=40))
    made.fit(longer)
    changed = copied(longer)
    changed["messages"][-1]["content"][0]["content"] = "replaced"
    again = made.fit(changed)
    assert begins_with(sent(again, "anthropic"), sent(c, "anthropic")) and not again.report.new_edits


# our output written back


@pytest.mark.parametrize("parsed_anew", [False, True], ids=["same objects", "parsed anew"])
@every_wire
def test_write_back_is_recognised(wire, parsed_anew):
    """Twenty-three rounds: no edit is made twice, every summary is made of the true source."""
    made, messages, batches, before = agent(wire), opening(), 0, []
    for n in range(23):
        messages += turns(wire, 12, start=12 * n)
        messages = copied(messages) if parsed_anew else messages
        c = made.fit(body(messages, wire))
        assert c.report.error is None and c.fits and checker.check(c.request, wire) == []
        batches += bool(c.report.new_edits)
        assert c.report.new_edits or begins_with(sent(c, wire), before)
        text = seen(c)
        assert text.count("ORCHID-7731") == 1, "the user's words stand once"
        messages = list(c.messages)
        repeated = made.fit(body(copied(messages), wire))
        assert not repeated.report.new_edits and frozen(repeated.request) == frozen(c.request)
        before = sent(c, wire)
    assert 5 <= batches <= 23
    assert c.report.tokens_before > c.report.tokens_after


@every_wire
def test_write_back_summarises_the_source(wire):
    """What a caller has who writes back is what one has who sends everything each time."""
    back, full = agent(wire), agent(wire)
    mine, whole = opening(), opening()
    for n in range(12):
        more = turns(wire, 12, start=12 * n)
        whole = [*whole, *more]
        mine = [*mine, *more]
        c, d = back.fit(body(mine, wire)), full.fit(body(whole, wire))
        assert sent(c, wire) == sent(d, wire)
        mine = list(c.messages)


def test_write_back_in_new_process(tmp_path):
    """The source behind a written-back list comes out of the store."""
    first = agent("chat", store=tmp_path / "s")
    c = first.fit(request("chat"))
    later = body([*c.messages, *turns("chat", MANY, start=100)], "chat")
    second = agent("chat", store=tmp_path / "s").fit(later)
    assert second.report.new_edits and second.fits and second.report.error is None
    whole = body([*talk("chat"), *turns("chat", MANY, start=100)], "chat")
    assert sent(agent("chat", store=tmp_path / "s").fit(whole), "chat") == sent(second, "chat")
    undone = packlight.restore(second.request, tmp_path / "s")
    assert frozen(undone) == frozen(later)
    everything = packlight.restore(second.request, tmp_path / "s", all=True)
    assert frozen(everything) == frozen(whole)


def test_text_is_never_parsed_for_markers():
    """A tool that prints what we write makes nothing recognised that is not ours."""
    made, _, c = compacted("chat")
    forged = body([*opening(), *turns("chat", 1, text=seen(c))], "chat")
    again = made.fit(forged)
    assert again.report.outcome in ("unchanged", "compacted") and again.conversation != c.conversation


# other processes, later versions

CHILD = """
    import json
    from talk import *
    import packlight
    wire, folder = sys.argv[1:3]
    agent = packlight.Compactor(store=folder, window_tokens=WINDOW)
    c = agent.fit(request(wire), format=wire)
    print(json.dumps([c.report.outcome, str(c.report.error or ""), sent(c, wire)]))
"""


@every_wire
def test_new_process_sends_the_same(wire, tmp_path):
    outcome, error, first = json.loads(output_of(in_python(CHILD, wire, tmp_path / "s")))
    assert (outcome, error) == ("compacted", "")
    outcome, error, second = json.loads(output_of(in_python(CHILD, wire, tmp_path / "s")))
    assert (outcome, error) == ("reapplied", "") and second == first
    here = agent(wire, store=tmp_path / "s").fit(onward(request(wire), wire, *turn(wire, MANY)))
    assert begins_with(sent(here, wire), first)


def test_two_processes_agree(tmp_path):
    """Started at once on one folder: whoever commits first, both send the same."""
    running = [in_python(CHILD, "anthropic", tmp_path / "s") for _ in range(4)]
    results = [json.loads(output_of(process)) for process in running]
    assert {error for _, error, _ in results} == {""}
    assert len({frozen(messages) for *_, messages in results}) == 1


def test_loser_sends_the_winners(tmp_path):
    """Two that planned different batches on the same conversation: the first commit holds for both."""
    given = request("chat")
    winner = agent("chat", store=tmp_path / "s")
    loser = compactor("chat", window_tokens=WINDOW // 2, store=tmp_path / "s")
    planned = loser._batch
    won = []

    def overtaken(*arguments, **options):
        won.append(winner.fit(given))
        return planned(*arguments, **options)

    loser._batch = overtaken
    c = loser.fit(copied(given))
    assert won[0].report.new_edits and not c.report.new_edits
    assert sent(c, "chat") == sent(won[0], "chat")
    assert "first" in c.report.reason and c.report.error is None


def test_batch_of_other_process_is_seen(tmp_path):
    """One process rescued the conversation after both had looked: the other sends its edits at the next turn."""
    given = request("chat", 20)
    one, two = (compactor("chat", window_tokens=10**6, store=tmp_path / "s") for _ in range(2))
    first = one.fit(given)
    assert not first.changed and not two.fit(given).changed
    rescued = two.fit(given, force=True)
    assert rescued.report.new_edits
    again = one.fit(onward(given, "chat", *turn("chat", 20)))
    assert begins_with(sent(again, "chat"), sent(rescued, "chat"))


@every_wire
def test_newer_version_sends_recorded_bytes(wire, tmp_path, monkeypatch):
    """Placeholders and summaries are worded anew in a later version: what was recorded stays."""
    _, given, c = compacted(wire, store=tmp_path / "s")
    from packlight.formats import FORMATS

    fmt, reworded = FORMATS[wire], []

    def newer(render):
        def rendered(*arguments, **options):
            reworded.append(1)
            return render(*(f"v2 {a}" if isinstance(a, str) else a for a in arguments), **options)

        return rendered

    for name in ("reference", "replace_result", "replace_text"):
        monkeypatch.setattr(fmt, name, newer(getattr(fmt, name)))
    monkeypatch.setattr("packlight.journal.VERSION", 2)
    later = agent(wire, store=tmp_path / "s")
    again = later.fit(copied(given))
    assert sent(again, wire) == sent(c, wire) and not reworded
    far = onward(given, wire, *turns(wire, MANY, start=100))
    next_batch = later.fit(far)
    assert next_batch.report.new_edits and reworded
    assert begins_with(sent(later.fit(onward(far, wire, *turn(wire, 200))), wire), sent(next_batch, wire))


def test_batch_of_newer_version_is_applied(tmp_path):
    _, given, c = compacted("chat", store=tmp_path / "s")
    change(tmp_path / "s", "UPDATE batches SET version = 99")
    again = agent("chat", store=tmp_path / "s").fit(copied(given))
    assert sent(again, "chat") == sent(c, "chat") and again.report.error is None


# when the store is not as it was left


def change(folder, statement, *values):
    connection = sqlite3.connect(folder / "store.db", isolation_level=None)
    connection.execute(statement, values)
    connection.close()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\xff\x00rubbish",
        b"[]",
        b"{}",
        b'{"edits": [1], "originals": []}',
        b'{"edits": null, "originals": []}',
        b'{"edits": [{"layer": "x"}], "originals": []}',
    ],
)
def test_corrupted_batch_changes_nothing(damage, tmp_path):
    """A row that can't be read stands typed in the report; the request goes out as it came."""
    _, given, _ = compacted("anthropic", store=tmp_path / "s")
    change(tmp_path / "s", "UPDATE batches SET body = ?", damage)
    again = agent("anthropic", store=tmp_path / "s").fit(given)
    assert isinstance(again.report.error, packlight.StoreError)
    assert again.request is given and not again.changed and again.report.outcome == "failed"
    assert "\n" not in str(again.report.error)


def test_crossing_edits_are_corruption(tmp_path):
    _, given, _ = compacted("anthropic", store=tmp_path / "s")
    edit = {"layer": "x", "action": "cleared", "replacement": []}
    crossing = [{**edit, "start": [1], "end": [5]}, {**edit, "start": [3], "end": [9]}]
    damaged = json.dumps({"edits": crossing, "originals": []}).encode()
    change(tmp_path / "s", "UPDATE batches SET body = ?", damaged)
    again = agent("anthropic", store=tmp_path / "s").fit(given)
    assert isinstance(again.report.error, packlight.StoreError) and again.request is given


@pytest.mark.parametrize("fresh", [False, True], ids=["running", "new process"])
@every_wire
def test_store_purged_between_calls(wire, fresh, tmp_path):
    """The user's purge takes the past; the conversation goes on, valid and with a batch of its own."""
    made, given, c = compacted(wire, store=tmp_path / "s")
    packlight.open_store(tmp_path / "s").purge(all=True)
    if fresh:
        made = agent(wire, store=tmp_path / "s")
    again = made.fit(copied(given))
    assert again.fits and again.report.error is None
    if not fresh:
        assert sent(again, wire) == sent(c, wire), "what was sent before is sent again"
    far = onward(given, wire, *turns(wire, MANY, start=100))
    after = made.fit(far)
    assert after.report.new_edits and after.report.error is None and after.fits
    lawful(far, after, wire)
    third = agent(wire, store=tmp_path / "s").fit(copied(far))
    assert sent(third, wire) == sent(after, wire), "the batch stands whole in the store"


@every_wire
def test_what_went_with_a_purge_is_recalled_from_the_next_batch(wire, tmp_path):
    made, given, c = compacted(wire, store=tmp_path / "s")
    store = packlight.open_store(tmp_path / "s")
    store.purge(all=True)
    after = made.fit(onward(given, wire, *turns(wire, MANY, start=100)))
    taken = [t for e in after.report.new_edits if e.action == "summarised" for t in texts_in(after, e)]
    assert len(taken) > len([t for e in c.report.edits for t in texts_in(c, e)]) > 0
    assert all(text in [d.text for d in packlight.recall(store, plain_reference(text)[0])] for text in taken)


def texts_in(compaction, edit):
    """What results say in the messages that an edit took out."""
    messages = compaction.state.view.messages[edit.start[0] : edit.end[0]]
    return [p.text for m in messages for p in m.parts if p.kind == "result" and p.text]


# repair


def broken(wire="anthropic"):
    """A call that nobody answered, in the middle of a long conversation."""
    messages = talk(wire)
    del messages[2 if wire != "responses" else 3]
    return messages


@every_wire
def test_repair_sticks_and_restores(wire, tmp_path):
    given = body(broken(wire), wire)
    before = copy.deepcopy(given)
    made = agent(wire, store=tmp_path / "s", repair=True)
    c = made.fit(given)
    assert checker.check(given, wire) and checker.check(c.request, wire) == []
    assert given == before and frozen(c.restore()) == frozen(before)
    again = made.fit(copied(given))
    assert sent(again, wire) == sent(c, wire) and not again.report.new_edits
    longer = onward(given, wire, *turn(wire, 90))
    assert begins_with(sent(made.fit(longer), wire), sent(c, wire))
    assert frozen(packlight.restore(c.request, tmp_path / "s")) == frozen(before)
    appended = onward(c.request, wire, *turn(wire, 91))
    assert frozen(packlight.restore(appended, tmp_path / "s")) == frozen(onward(given, wire, *turn(wire, 91)))


@every_wire
def test_one_shot_is_found_by_its_result_only(wire, tmp_path):
    given = request(wire)
    c = packlight.compact(given, format=wire, window_tokens=WINDOW, store=tmp_path / "s")
    assert c.report.new_edits
    stands = agent(wire, store=tmp_path / "s").fit(copied(given))
    assert stands.report.new_edits, "a one-shot batch holds for no other request"
    later = onward(c.request, wire, *turn(wire, 95, output(95)))
    assert frozen(packlight.restore(later, tmp_path / "s", format=wire)) == frozen(
        onward(given, wire, *turn(wire, 95, output(95)))
    )


def test_cut_at_the_end_is_no_write_back():
    """A batch that only takes away the newest: the full history begins with its result, and is still the source."""

    def forget(view, target):
        return [] if view.edits else [view.replace("mine", "removed", ((3,), (5,)), ())]

    policy = replace(packlight.PRESETS["none"], each_call=(forget,))
    said = [{"role": ("user", "assistant")[n % 2], "content": f"said {n} " * 50} for n in range(7)]
    given = body([*said[:5], said[6]], "chat")
    made = compactor("chat", policy=policy)
    c = made.fit(given)
    assert len(c.messages) == 4 and c.report.new_edits
    again = made.fit(copied(given))
    assert frozen(again.request) == frozen(c.request)


def test_a_line_of_many_batches_is_read_at_once():
    """`classic` makes one at nearly every call: hundreds on one another, read by another compactor later."""
    store = MemoryStore()
    messages, made = opening(), compactor("chat", policy="classic", window_tokens=10**6, store=store)
    for n in range(800):
        messages += turn("chat", n, output(n, 2))
        c = made.fit(body(messages, "chat"))
    again = compactor("chat", policy="classic", window_tokens=10**6, store=store)
    assert frozen(again.fit(body(list(messages), "chat")).request) == frozen(c.request)
    assert frozen(packlight.restore(c.request, store, all=True)) == frozen(body(messages, "chat"))
