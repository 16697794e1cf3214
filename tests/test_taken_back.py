"""What a provider refused for something else than its length: edits taken back, thinking taken out for good."""

from __future__ import annotations

import json

import pytest

import checker
from engine import body, compactor, frozen, key_of, packlight, seen
from loopback import BOUND
from packlight.overflow import classify, names_changed_thinking
from packlight.store import MemoryStore, open_store
from talk import TASK, WINDOW, WIRES, begins_with, copied, output, request, sent, talk, thinking, turn, turns
from test_full_store import Full
from test_recovery import Refused, too_long

every_wire = pytest.mark.parametrize("wire", WIRES)
every_store = pytest.mark.parametrize("kind", ["memory", "folder"])
FAULT = Refused("messages.3: this is not what we expect")


def agent(wire, store, **options):
    return compactor(wire, window_tokens=WINDOW, store=store, **options)


def store_of(kind, tmp_path):
    return MemoryStore() if kind == "memory" else open_store(tmp_path / "store")


def onward(given, wire, *more):
    return {**given, key_of(wire): [*given[key_of(wire)], *more]}


def twice(wire, made):
    """A conversation with a batch that was taken, one with a second batch on it, and what was made of both."""
    given = request(wire)
    first = made.fit(given)
    longer = onward(given, wire, *turns(wire, 60, start=100))
    second = made.fit(longer)
    assert first.report.new_edits and second.report.new_edits and not begins_with(sent(second, wire), sent(first, wire))
    return first, longer, second


# edits taken back


@every_store
@every_wire
def test_undo_gives_the_edits_of_before(wire, kind, tmp_path):
    """Now and in later calls, in another process too; and nothing new is planned although it is due."""
    store = store_of(kind, tmp_path)
    made = agent(wire, store)
    first, longer, second = twice(wire, made)
    before = frozen(second.request)
    c = made.undo(second, FAULT)
    assert frozen(second.request) == before and c.report.error is FAULT and not c.report.new_edits
    assert begins_with(sent(c, wire), sent(first, wire)) and not c.fits
    assert c.report.edits == first.report.edits and frozen(c.restore()) == frozen(longer)
    later = onward(longer, wire, *turns(wire, 10, start=200))
    for again in (made, agent(wire, store), agent(wire, store, policy="nano")):
        after = again.fit(later)
        assert begins_with(sent(after, wire), sent(c, wire)) and not after.report.new_edits and not after.fits
        assert "left alone" in after.report.reason and after.report.error is None
    assert frozen(packlight.restore(after.request, store, all=True, format=wire)) == frozen(later)
    assert made.fit({**later, key_of(wire): after.messages}).report.reason == after.report.reason


@every_wire
def test_undo_of_the_first_batch_is_the_request_as_given(wire):
    store, given = MemoryStore(), request(wire)
    made = agent(wire, store)
    c = made.undo(made.fit(given))
    assert c.request is given and not c.changed and c.report.outcome == "unchanged"
    later = onward(given, wire, *turn(wire, 99))
    for again in (made, agent(wire, store)):
        assert again.fit(later).request is later
    rewound = body(talk(wire, 20), wire)
    assert made.fit(rewound).report.new_edits, "another conversation, before what was refused"


@every_wire
def test_restore_goes_behind_what_was_taken_back(wire):
    """Of a caller who writes the result back: the record of an undo leaves what an earlier batch left."""
    store, given, more = MemoryStore(), request(wire), turns(wire, 60, start=100)
    made = agent(wire, store)
    second = made.fit(onward(made.fit(given).request, wire, *more))
    assert second.report.new_edits
    c = made.undo(second, FAULT)
    for every in (False, True):
        back = packlight.restore(c.request, store, all=every, format=wire)
        assert frozen(back) == frozen(onward(given, wire, *more))


@every_wire
def test_left_alone_is_rescued_from_an_overflow_and_stays_alone(wire):
    store = MemoryStore()
    made = agent(wire, store)
    _, longer, second = twice(wire, made)
    c = made.recover(made.undo(second), too_long(90_000, WINDOW))
    assert c.report.new_edits and c.fits and checker.check(c.request, wire) == [] and TASK in seen(c)
    later = onward(longer, wire, *turns(wire, 40, start=200))
    for again in (made, agent(wire, store)):
        after = again.fit(later)
        assert begins_with(sent(after, wire), sent(c, wire)) and not after.report.new_edits
    assert agent(wire, store).fit(later, force=True).report.new_edits, "who asks for it gets it"


@every_wire
def test_tentative_records_nothing(wire):
    made = agent(wire, MemoryStore())
    first, longer, second = twice(wire, made)
    c = made.undo(second, FAULT, tentative=True)
    assert begins_with(sent(c, wire), sent(first, wire))
    assert sent(made.fit(longer), wire) == sent(second, wire)
    made.record_usage(c, {"input_tokens": 70_000, "prompt_tokens": 70_000})
    assert sent(made.undo(second), wire) == sent(c, wire)
    assert made.fit(longer, recorded_only=True).report.tokens_after == 70_000


@every_wire
def test_nothing_new_is_the_provider_s_own_error(wire):
    made, given = agent(wire, MemoryStore()), request(wire)
    made.fit(given)
    again = made.fit(given)
    with pytest.raises(Refused):
        made.undo(again, FAULT)
    with pytest.raises(packlight.InvalidRequest):
        made.undo(again)
    assert made.fit(onward(given, wire, *turns(wire, 60, start=100))).report.new_edits


@every_wire
def test_undo_while_the_store_takes_nothing(wire):
    """It holds in memory, of a batch in the store and of one in memory; and comes into the store later."""
    for full_from_the_start in (False, True):
        store = Full()
        made = agent(wire, store)
        first = made.fit(request(wire))
        store.full = full_from_the_start
        longer = onward(request(wire), wire, *turns(wire, 60, start=100))
        second = made.fit(longer)
        store.full = True
        c = made.undo(second)
        assert "full" in str(c.report.error) and begins_with(sent(c, wire), sent(first, wire))
        assert sent(made.fit(longer), wire) == sent(c, wire)
        store.full = False
        assert sent(made.fit(longer), wire) == sent(c, wire)
        other = agent(wire, store).fit(longer)
        assert sent(other, wire) == sent(c, wire) and "left alone" in other.report.reason


@every_wire
def test_undo_counts_whoever_else_went_on(wire):
    """Another process has made a batch on the refused one: it is taken back with it."""
    store = MemoryStore()
    made = agent(wire, store)
    _, longer, second = twice(wire, made)
    other = agent(wire, store).fit(onward(longer, wire, *turns(wire, 60, start=200)))
    assert other.report.new_edits
    c = made.undo(second)
    assert sent(agent(wire, store).fit(longer), wire) == sent(c, wire)
    assert sent(made.undo(second), wire) == sent(c, wire), "it is the same to do it twice"


@every_wire
def test_undo_after_a_purge_stays_in_this_process(wire, tmp_path):
    store = open_store(tmp_path / "store")
    made = agent(wire, store)
    _, longer, second = twice(wire, made)
    c = made.undo(second)
    store.purge(all=True)
    later = onward(longer, wire, *turn(wire, 300))
    assert begins_with(sent(made.fit(later), wire), sent(c, wire))
    rescued = made.recover(made.fit(later), too_long(90_000, WINDOW))
    assert "left alone" in agent(wire, store).fit(onward(later, wire, *turn(wire, 301))).report.reason
    assert rescued.fits and rescued.report.error is None


@every_wire
def test_one_shot_is_taken_back_without_a_record(wire):
    made, given = agent(wire, MemoryStore()), request(wire)
    first = made.fit_once(given, format=wire, force=True)
    assert made.undo(first).request is given
    assert made.fit(given).report.new_edits


# thinking that is bound to what stands before it


def thoughts(value):
    return frozen(value).count('"signature"')


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (Refused(BOUND), True),
        (json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": BOUND}}), True),
        ("messages.9.content.1: Invalid `signature` in `redacted_thinking` block", True),
        (Refused("messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`"), False),
        (too_long(9, 8), False),
        ("Invalid signature", False),
        (None, False),
    ],
)
def test_error_that_names_changed_thinking(error, is_it):
    assert names_changed_thinking(error) is is_it
    assert not is_it or classify(error) is None


def test_all_thinking_goes_once_and_stays_away():
    store, given = MemoryStore(), body([*talk("anthropic", 2), *thinking(5)], "anthropic")
    made = agent("anthropic", store)
    c = made.fit(given)
    assert thoughts(c.request) == 5
    smaller = made.unbind(c, Refused(BOUND))
    assert thoughts(smaller.request) == 0 and checker.check(smaller.request, "anthropic") == []
    assert frozen(smaller.restore()) == frozen(given) and smaller.report.new_edits
    later = onward(given, "anthropic", *thinking(3, start=20))
    for again in (made, agent("anthropic", store)):
        after = again.fit(later)
        assert begins_with(sent(after, "anthropic"), sent(smaller, "anthropic")) and thoughts(after.request) == 3
    assert frozen(packlight.restore(after.request, store, all=True, format="anthropic")) == frozen(later)
    with pytest.raises(Refused):
        made.unbind(smaller, Refused(BOUND))
    with pytest.raises(packlight.InvalidRequest):
        made.unbind(smaller)


@every_wire
def test_without_thinking_it_is_the_provider_s_own_error(wire):
    made = agent(wire, MemoryStore())
    c = made.fit(body(talk(wire, 3), wire))
    with pytest.raises(Refused):
        made.unbind(c, Refused(BOUND))


def test_thinking_that_an_older_model_wants_is_never_taken():
    """Manual thinking: the message whose calls are being answered begins with it."""
    more = {"model": "claude-sonnet-4-5", "thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 4_000}
    given = {**body([*talk("anthropic", 0), *thinking(3)], "anthropic"), **more}
    made = agent("anthropic", MemoryStore())
    c = made.fit(given)
    with pytest.raises(Refused):
        made.unbind(c, Refused(BOUND))
    assert frozen(made.fit(given).request) == frozen(given)


def test_thinking_goes_while_the_store_takes_nothing():
    store, given = Full(), body([*talk("anthropic", 2), *thinking(5)], "anthropic")
    made = agent("anthropic", store)
    c = made.fit(given)
    store.full = True
    smaller = made.unbind(c)
    assert thoughts(smaller.request) == 0 and "full" in str(smaller.report.error)
    assert frozen(made.fit(copied(given)).request) == frozen(smaller.request)


def test_thinking_beside_edits_of_before():
    """What is summarised stays so; what is out already is not taken out again."""
    made, given = agent("anthropic", MemoryStore()), body([*talk("anthropic", 60), *thinking(2)], "anthropic")
    c = made.fit(given)
    longer = onward(given, "anthropic", *thinking(4, start=70))
    next_one = made.fit(longer)
    assert c.report.new_edits and not next_one.report.new_edits and thoughts(next_one.request) == 4
    smaller = made.unbind(next_one)
    assert thoughts(smaller.request) == 0 and checker.check(smaller.request, "anthropic") == []
    assert output(3) not in seen(smaller) and TASK in seen(smaller)
