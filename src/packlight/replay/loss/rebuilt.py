"""Whether the copies of files that a digest shows are true: what the next real read of the file says to them.

Only for policies whose summary is our digest with a section of copies. After a batch the lines that the digest shows
wait for the next read of their file that the agent made; what the agent itself changed until then is taken off, and
all of a file that a command of its own set anew (a checkout, a rebase, a script that names it). Of a
partial read those lines are compared whose number lies in it, of a whole read all. A line is confirmed when the read
shows it anywhere, and confirmed in place when it stands under the number that the copy gives it. Each line counts once
for each batch that shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...summary.effect import Effect
from ...summary.files import FileEvent, file_events
from ...summary.follow import normal, shown_lines
from ...summary.frame import BEGIN, END, TITLES
from ...summary.shell import is_absolute
from ...view import View
from ..walk import Call
from .calls import LEAST_LINE_CHARS
from .texts import MessageTexts, common_length, view_of

_PLACE = re.compile(r"@(\d+|\?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltLines:
    """Lines of copies that a later read could be compared with. Results of several sessions can be added."""

    compared: int = 0
    confirmed: int = 0
    numbered: int = 0
    """Of the confirmed: those that the copy gives a number."""
    in_place: int = 0
    """Of the numbered: those that stood under it."""
    reads: int = 0

    @property
    def ratio(self) -> float | None:
        return self.confirmed / self.compared if self.compared else None

    def __add__(self, other: RebuiltLines) -> RebuiltLines:
        return RebuiltLines(
            compared=self.compared + other.compared,
            confirmed=self.confirmed + other.confirmed,
            numbered=self.numbered + other.numbered,
            in_place=self.in_place + other.in_place,
            reads=self.reads + other.reads,
        )


class CopyLine(NamedTuple):
    number: int
    """0 when it is not known."""
    text: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """A line of a copy that the next read did not show."""

    turn: int
    path: str
    line: CopyLine


class CopyTruth:
    """The measure."""

    def __init__(self, texts: MessageTexts) -> None:
        self._texts = texts
        self._raw: Sequence[Any] = ()
        self._paths: dict[str, None] = {}
        self._waiting: dict[str, list[CopyLine]] = {}
        self._shows_copies = False
        self._result = RebuiltLines()
        self.wrong: list[Wrong] = []

    @property
    def result(self) -> RebuiltLines | None:
        """None for a policy that shows no copies."""
        return self._result if self._shows_copies else None

    def see(self, call: Call) -> None:
        same = common_length(self._raw, call.source)
        if same < len(self._raw):
            self._waiting.clear()
        self._raw = list(call.source)
        view = view_of(self._texts.format, call.source[same:])
        for event in file_events(view):
            if event.path:
                self._paths[normal(event.path)] = None
                self._happened(view, event, call.turn)
            elif event.effects:
                self._upset(event.effects)
        if call.is_batch:
            self._waiting = self._shown(call)
            self._shows_copies |= bool(self._waiting)

    def _shown(self, call: Call) -> dict[str, list[CopyLine]]:
        copies: dict[str, list[CopyLine]] = {}
        for message in call.messages:
            text = self._texts(message).user_text
            if BEGIN in text:
                for path, line in copied_lines(text, self._paths):
                    copies.setdefault(path, []).append(line)
        return copies

    def _happened(self, view: View, event: FileEvent, turn: int) -> None:
        path = next((p for p in self._waiting if _same(p, normal(event.path))), None)
        if path is None:
            return
        if event.action == "read" and event.ok and not event.hint and _surely_same(path, normal(event.path)):
            self._compare(view, event, path, turn)
        elif event.action == "edit" and not event.hint and not event.effects:
            self._waiting[path] = [CopyLine(0, x.text) for x in self._waiting[path] if not _touches(event.old, x.text)]
        elif event.action in ("edit", "write", "delete"):
            del self._waiting[path]

    def _upset(self, effects: Sequence[Effect]) -> None:
        """What commands did to files that they do not name: whatever they may have changed waits no more."""
        for effect in effects:
            if effect.kind == "named":
                self._waiting = {p: x for p, x in self._waiting.items() if p.rpartition("/")[2] not in effect.text}
            elif effect.kind in ("all", "stash", "unstash"):
                self._waiting.clear()

    def _compare(self, view: View, event: FileEvent, path: str, turn: int) -> None:
        text, first, whole = shown_lines(view.messages[event.result_message].parts[event.result_place], event)
        lines = text.split("\n")
        known = set(lines)
        compared = [x for x in self._waiting[path] if whole or (first and first <= x.number < first + len(lines))]
        if not compared:
            return
        taken = set(compared)
        self._waiting[path] = [x for x in self._waiting[path] if x not in taken]
        confirmed = [x for x in compared if x.text in known]
        numbered = [x for x in confirmed if x.number]
        at = {first + i: line for i, line in enumerate(lines)}
        self.wrong += [Wrong(turn, path, x) for x in compared if x.text not in known]
        self._result += RebuiltLines(
            compared=len(compared),
            confirmed=len(confirmed),
            numbered=len(numbered),
            in_place=sum(at.get(x.number) == x.text for x in numbered),
            reads=1,
        )


def copied_lines(text: str, paths: Any) -> Iterator[tuple[str, CopyLine]]:
    """The lines of the copies in a digest, with their path; `paths` holds those that a copy can be of, normal."""
    _, _, section = text.partition(f"\n{TITLES['copies']}\n")
    section = section.partition(f"\n{END}")[0]
    path, number, known = "", 0, False
    for line in section.split("\n"):
        if line.startswith("--- ") and normal(line[4:]) in paths:
            path, known = normal(line[4:]), False
        elif path and (place := _PLACE.fullmatch(line)):
            known = place[1] != "?"
            number = int(place[1]) if known else 0
        elif path:
            if len(line) >= LEAST_LINE_CHARS:
                yield path, CopyLine(number if known else 0, line)
            number += 1


def _touches(old: str, line: str) -> bool:
    """Whether an edit of this text changes a line: it is one of its lines, or its first or last is a part of it."""
    first, *inner = old.split("\n")
    last = inner[-1] if inner else first
    return line in inner or bool(first and first in line) or bool(last and last in line)


def _same(one: str, other: str) -> bool:
    """Whether two spellings may name one file: equal, or one the end of the other."""
    return one == other or one.endswith("/" + other) or other.endswith("/" + one)


def _surely_same(one: str, other: str) -> bool:
    """Of two relative ones only when they are equal: nobody knows the folders that they begin in."""
    return one == other or is_absolute(one) != is_absolute(other)
