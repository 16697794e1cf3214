"""Future-reference recall (FRR): whether what the agent names later still stands in what would have been sent.

A reference is a name in the arguments of a recorded call that first came from a tool result or from a later message
of the user, not from the first prompt, the system prompt or the agent itself, and that the agent's own window still
held. It is visible when it stands in the request that the policy sends. Visible *in place* means more than a bag of
names: it stands on a line with at least half of the other words of a line that it came from.

Not seen: plans and reasons, and what an agent would have named if it had seen more. Age is counted in calls since the
last mention in the full history; recent references are most and easy, so read the rows by age. The chance level is the
share that is visible of names drawn at random from the same history with the same age: what a policy gets that keeps
as much without knowing what will be needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from ..walk import Call
from .calls import needs_of
from .history import History
from .identifiers import spellings, stands_in
from .lines import lines_with, tells, words_of
from .texts import MessageTexts, Standing

AGES = (0, 5, 10, 30)
"""Rows of the result: references older than so many calls."""
DRAWS = 2
"""Random names for each reference."""
_TRIES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRow:
    """References older than `over_calls`."""

    over_calls: int
    references: int = 0
    visible: int = 0
    in_place: int = 0
    drawn: int = 0
    """Names drawn at random from the same history, with the same age."""
    drawn_visible: int = 0

    @property
    def ratio(self) -> float | None:
        return self.visible / self.references if self.references else None

    @property
    def in_place_ratio(self) -> float | None:
        return self.in_place / self.references if self.references else None

    @property
    def chance_ratio(self) -> float | None:
        return self.drawn_visible / self.drawn if self.drawn else None

    def __add__(self, other: ReferenceRow) -> ReferenceRow:
        return ReferenceRow(
            over_calls=self.over_calls,
            references=self.references + other.references,
            visible=self.visible + other.visible,
            in_place=self.in_place + other.in_place,
            drawn=self.drawn + other.drawn,
            drawn_visible=self.drawn_visible + other.drawn_visible,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRecall:
    """What was found of the later references of a session. Results of several sessions can be added."""

    rows: Mapping[int, ReferenceRow]
    """By age: row 10 holds the references older than ten calls, row 0 all."""
    calls: int = 0
    """Calls of the model with at least one reference."""
    calls_whole: int = 0
    """Those of which every reference was visible."""

    def __add__(self, other: ReferenceRecall) -> ReferenceRecall:
        rows = {age: row + other.rows[age] for age, row in self.rows.items()}
        return ReferenceRecall(
            rows=rows, calls=self.calls + other.calls, calls_whole=self.calls_whole + other.calls_whole
        )


@dataclass(frozen=True, slots=True)
class Reference:
    """A name that a call needed."""

    turn: int
    name: str
    age_calls: int
    visible: bool
    in_place: bool


class FutureReferences:
    """The measure."""

    def __init__(self, texts: MessageTexts) -> None:
        self._texts = texts
        self._history = History(texts)
        self._sent = Standing(texts)
        self._drawn: list[tuple[int, bool]] = []
        self.references: list[Reference] = []
        """Each of them, in order."""

    def see(self, call: Call) -> None:
        self._history.see(call)
        self._sent.see(call.messages)
        random = Random(call.turn)
        named = frozenset().union(*(needs.names for needs in needs_of(self._texts.format, call.reply)))
        for name in sorted(named):
            last = self._history.last_mention(name)
            if last is None or not self._history.is_given(name):
                continue
            age = call.turn - last + 1
            visible = stands_in(name, self._sent.keys)
            self.references.append(Reference(call.turn, name, age, visible, visible and self._is_in_place(name)))
            self._draw(random, call.turn, age)

    def _draw(self, random: Random, turn: int, age: int) -> None:
        """Random names of the same history as old as this one, by the rows of the result."""
        row, given = _row_of(age), self._history.given
        for _ in range(DRAWS):
            for _ in range(_TRIES):
                name = given[int(random.random() * len(given))]
                last = self._history.last_mention(name)
                if last is not None and _row_of(turn - last + 1) == row:
                    self._drawn.append((age, stands_in(name, self._sent.keys)))
                    break

    def _is_in_place(self, name: str) -> bool:
        keys = spellings(name)
        holders = [m for m in reversed(self._sent.messages) if not m.keys.isdisjoint(keys)]
        whole = {id(m) for m in self._history.messages}
        if any(id(m) in whole and tells(m, keys) for m in holders):
            return True
        sources = [m for m in self._history.messages if not m.keys.isdisjoint(keys)]
        told = [m for m in sources if tells(m, keys)]
        origins = list(lines_with(name, told, ("result", "user"))) or list(lines_with(name, sources))
        shown = list(lines_with(name, holders))
        own = words_of(name)
        return any(2 * len((line - own) & other) >= len(line - own) for line in origins for other in shown)

    @property
    def result(self) -> ReferenceRecall:
        by_turn: dict[int, bool] = {}
        for r in self.references:
            by_turn[r.turn] = by_turn.get(r.turn, True) and r.visible
        return ReferenceRecall(
            rows={age: self._row(age) for age in AGES}, calls=len(by_turn), calls_whole=sum(by_turn.values())
        )

    def _row(self, over: int) -> ReferenceRow:
        older = [r for r in self.references if r.age_calls > over]
        drawn = [visible for age, visible in self._drawn if age > over]
        return ReferenceRow(
            over_calls=over,
            references=len(older),
            visible=sum(r.visible for r in older),
            in_place=sum(r.in_place for r in older),
            drawn=len(drawn),
            drawn_visible=sum(drawn),
        )


def _row_of(age: int) -> int:
    return sum(age > over for over in AGES)
