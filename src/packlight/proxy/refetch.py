"""How often the agent fetches again what was taken out: what compaction costs it beyond tokens.

A call counts when it has the same tool and target as a call whose result our edits took out, or reads the same file.
Some would have come anyway (tests that are run again), so the rate is an upper bound. Calls that change a file fetch
nothing. Only hashes of what was taken out are kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..summary.files import file_events
from ..summary.wording import target_of
from ..types import Edit
from ..view import Place, View

__all__ = ["Refetches"]

MAX_THREADS = 256
MAX_KEYS = 4_000
"""Of a conversation: the newest of what was taken out."""
_TAKEN_OUT = frozenset({"stored", "cleared", "summarised", "shortened", "removed"})
_CHANGES = frozenset({"write", "edit", "delete"})


class Refetches:
    """What was taken out of each conversation, worked out once a batch. Safe to use from several threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[object, frozenset[int]]] = OrderedDict()
        self._lock = threading.Lock()

    def count(
        self, thread: str, view: View, edits: Sequence[Edit], *, is_new: bool, without: str = ""
    ) -> tuple[int, int]:
        """The agent's calls of the model's newest answer, and how many of them fetch again what was out of its sight.

        `edits` are those in effect; with `is_new` the model has not seen them yet, but those before. Calls of the tool
        `without` are not the agent's.
        """
        start, end = _newest_answer(view)
        part_of = replace(
            view, messages=view.messages[start:], edits=(), memo={}, memory={}
        )  # results tell what was read
        calls = [keys for _, keys in _calls(part_of, end - start, without)]
        with self._lock:
            known = self._known.get(thread)
        taken = self._taken(thread, view, edits) if edits and (is_new or calls) else frozenset()
        if is_new:
            taken = known[1] if known else frozenset()
        return len(calls), sum(not keys.isdisjoint(taken) for keys in calls)

    def _taken(self, thread: str, view: View, edits: Sequence[Edit]) -> frozenset[int]:
        batch = (len(edits), edits[0].end, edits[-1].end, sum(e.tokens_after for e in edits))
        with self._lock:
            known = self._known.get(thread)
            if known is not None and known[0] == batch:
                self._known.move_to_end(thread)
                return known[1]
        taken = _taken_out(view, edits)
        with self._lock:
            self._known[thread] = batch, taken
            self._known.move_to_end(thread)
            while len(self._known) > MAX_THREADS:
                self._known.popitem(last=False)
        return taken


def _newest_answer(view: View) -> tuple[int, int]:
    end = len(view.messages)
    while end and view.messages[end - 1].role != "assistant":
        end -= 1
    start = end
    while start and view.messages[start - 1].role == "assistant":
        start -= 1
    return start, end


def _calls(view: View, end: int, without: str = "") -> Iterator[tuple[Place, set[int]]]:
    """Each call in the messages before `end`, and what it fetches as hashes."""
    reads: dict[Place, set[int]] = {}
    changing = set()
    for event in file_events(view, 0, end):
        place = event.message, event.place
        if event.action == "read" and event.path:
            reads.setdefault(place, set()).add(hash(("read", event.path)))
        elif event.action in _CHANGES:
            changing.add(place)
    for i in range(end):
        for k, part in enumerate(view.messages[i].parts):
            if part.kind != "call" or part.server or part.tool == without:
                continue
            keys = reads.get((i, k), set())
            if keys or (i, k) not in changing:
                keys.add(hash((part.tool, target_of(part))))
            yield (i, k), keys


def _taken_out(view: View, edits: Sequence[Edit]) -> frozenset[int]:
    """What the calls fetched whose results stand no more as they were."""
    view = replace(view, edits=tuple(e for e in edits if e.action in _TAKEN_OUT))
    if not view.edits:
        return frozenset()
    found: list[int] = []
    answers = view.pairs.answer
    for call, keys in _calls(view, min(len(view.messages), view.edits[-1].end[0] + 1)):
        at = answers.get(call)
        if at is not None and view.edit_of(at[0], view.messages[at[0]].parts[at[1]].block) is not None:
            found += keys
    return frozenset(found[-MAX_KEYS:])
