"""A store that takes nothing for a while: batches are held in memory, line up, and reach the store when it can be
written again."""

from __future__ import annotations

import json
import re

import pytest

import checker
from engine import body, compactor, frozen, key_of, packlight
from packlight.errors import StoreError
from packlight.store import MemoryStore
from talk import WIRES, begins_with, copied, opening, output, request, sent, turn, turns

SIZES = [20, 30, 2_500, 20, 100, 4_000, 30, 3_000, 20, 5_000, 40, 60]
WINDOW = 26_000
every_wire = pytest.mark.parametrize("wire", WIRES)


class Full(MemoryStore):
    """Takes no batch while `full`."""

    full = False

    def put_batch(self, *args, **options):
        if self.full:
            raise StoreError("the disk is full")
        return super().put_batch(*args, **options)


def walked(wire, store, full):
    """A conversation, call by call; the store is full at the turns of `full`. Yields each call's compaction."""
    made = compactor(wire, window_tokens=WINDOW, store=store)
    messages = opening()
    for n, size in enumerate(SIZES * 3):
        store.full = n in full
        messages += turn(wire, n, output(n, size))
        yield n, copied(messages), made, made.fit(body(copied(messages), wire), conversation="x")


@every_wire
def test_every_request_fits_and_nothing_is_lost(wire):
    store, full, batches = Full(), range(6, 22), []
    for n, messages, made, c in walked(wire, store, full):
        assert c.fits and checker.check(c.request, wire) == []
        assert frozen(c.restore()) == frozen(body(messages, wire))
        batches += [n] if c.report.new_edits else []
        recall = packlight.recall_tool(wire, made, "x")
        for place in range(max(0, n - 2), n + 1):
            taken = output(place, (SIZES * 3)[place])
            shown = json.dumps(taken)[1:-1] in frozen(c.request)
            assert shown or taken[:15_000] in recall({"query": f"src/file_{place}.py"})
    assert sum(n in full for n in batches) >= 3 and sum(n > 22 for n in batches) >= 2
    last = packlight.restore(c.request, store, all=True, format=wire)
    assert frozen(last) == frozen(body(messages, wire))
    assert packlight.recall(store, "src/file_9.py", conversation="x")[0].text == output(9, 5_000)


@every_wire
def test_another_process_sends_the_same_as_soon_as_the_store_takes_it(wire):
    """At the first call after it, without a new batch: who is killed then has lost nothing."""
    store, is_first = Full(), True
    for n, messages, _, c in walked(wire, store, range(6, 23)):
        if n > 22:
            assert not (is_first and c.report.new_edits), "what is tested is a call without a batch"
            is_first = False
            again = compactor(wire, window_tokens=WINDOW, store=store).fit(body(messages, wire), conversation="x")
            assert frozen(again.request) == frozen(c.request)
            refs = set(re.findall(r"\bref ([0-9a-f]{12,})", frozen(c.request)))
            assert refs and all(packlight.recall(store, ref, conversation="x") for ref in refs)


@every_wire
def test_fork_keeps_what_the_store_took_late(wire):
    """It holds where it held in memory, not only behind the call at which it was written."""
    store = Full()
    made = compactor(wire, window_tokens=WINDOW, store=store)
    messages = opening() + [m for n in range(30) for m in turn(wire, n, output(n, 100))]
    store.full = True
    held = made.fit(body(messages, wire))
    store.full = False
    made.fit(body([*messages, *turn(wire, 31), *turn(wire, 32)], wire))
    fork = body([*messages, *turn(wire, 33, output(33, word="other"))], wire)
    for again in (made, compactor(wire, window_tokens=WINDOW, store=store)):
        assert begins_with(sent(again.fit(fork), wire), sent(held, wire))


@every_wire
def test_batch_of_another_process_meanwhile(wire):
    """What this process sent stays what it sends; the other comes round to it, and nothing is lost."""
    store, given = Full(), body([*opening(), *(m for n in range(30) for m in turn(wire, n, output(n, 100)))], wire)
    store.full = True
    made = compactor(wire, window_tokens=WINDOW, store=store)
    held = made.fit(given)
    store.full = False
    other = compactor(wire, window_tokens=WINDOW, store=store, policy="nano", recall="none")
    theirs = other.fit(given)
    assert held.report.new_edits and theirs.report.new_edits and sent(theirs, wire) != sent(held, wire)
    more = {**given, key_of(wire): [*given[key_of(wire)], *turn(wire, 31)]}
    for again in (made, other, compactor(wire, window_tokens=WINDOW, store=store)):
        c = again.fit(more, recorded_only=True)
        assert c.report.error is None and begins_with(sent(c, wire), sent(held, wire))
        assert checker.check(c.request, wire) == []
    restored = packlight.restore(c.request, store, all=True, format=wire)
    assert frozen(restored) == frozen(more)


@every_wire
def test_what_was_held_reaches_the_store_from_a_list_that_was_written_back(wire):
    """The caller's list has no more of it: only memory does, until the store can be written."""
    store, given = Full(), request(wire)
    made, store.full = compactor(wire, window_tokens=WINDOW, store=store), True
    c = made.fit(given)
    assert c.report.new_edits and isinstance(c.report.error, StoreError)
    store.full, written = False, [*c.messages, *turns(wire, 1, start=100)]
    again = made.fit({**given, key_of(wire): written})
    assert not again.report.new_edits and begins_with(again.messages, c.messages)
    assert packlight.recall(store, "src/file_3.py")[0].text == output(3)
    whole = packlight.restore(again.request, store, all=True, format=wire)
    assert frozen(whole) == frozen({**given, key_of(wire): [*given[key_of(wire)], *turns(wire, 1, start=100)]})
