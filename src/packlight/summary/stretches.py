"""Stretches of the old turns, each with one reference under which all of it comes back.

A stretch is as much as one recall shows at once. It is kept as a list of the references of its texts, so nothing is
stored twice: recall answers it with the texts themselves. A text that came before is not listed again, thinking never.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ..formats import encode_as_is
from ..types import Part
from ..view import View, plain_reference
from .progress import Progress, put_down, resumed
from .rules import rule
from .wording import one_line, target_at, target_of

KIND = "stretch"
"""Of the document that lists one."""
PAGE_CHARS = 19_000
"""Of a stretch, with the titles that its texts get when they are shown."""
_LEAST_ARGUMENTS_CHARS = 200
"""Shorter arguments are no text of their own: they stand in the list."""
_TITLE_CHARS = 110
_LEAST_SLICE_CHARS = 4_000
_LISTED = rule(r"^([0-9a-f]{12,64})(?:\[(\d{1,12}):(\d{1,12})\])? ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stretch:
    last: int
    """The source message in which it ends."""
    text: str
    """Its list."""


def texts_of(part: Part) -> Iterator[tuple[str, str]]:
    """(kind, text) of what is kept of a part under a reference of its own."""
    if part.text.strip():
        yield "result" if part.kind == "result" else "message", part.text
    elif part.kind == "call" and len(text := _arguments(part)) >= _LEAST_ARGUMENTS_CHARS:
        yield "arguments", text


def stretches(view: View, start: int, end: int, kept: Collection[int] = ()) -> list[Stretch]:
    """The stretches of source messages [start, end), oldest first. Where one begins does not depend on `end`."""
    pages, others = resumed(view, KIND, lambda p: p.leads_to(start, end, kept), lambda: _Pages(start=start, end=start))
    for i in range(pages.end, end):
        for k, part in enumerate(() if i in kept else view.messages[i].parts):
            if part.kind == "thinking":
                continue
            about = ""
            for _, text in texts_of(part):
                if text not in pages.seen:
                    pages.seen.add(text)
                    about = about or _about(view, i, k)
                    pages.add(i, plain_reference(text)[0], about, text)
            if part.kind == "call" and len(text := _arguments(part)) < _LEAST_ARGUMENTS_CHARS:
                pages.line(i, f"- {part.tool[:80]} {one_line(text, _LEAST_ARGUMENTS_CHARS)}", 0)
    pages.reached(end, kept)
    put_down(view, KIND, pages, others)
    return [*pages.done, *pages.open()]


def listed(text: str) -> Iterator[tuple[str, slice]]:
    """The references in the list of a stretch, and which characters of each text."""
    for ref, first, stop in _LISTED.findall(text):
        yield ref, slice(int(first), int(stop)) if stop else slice(None)


@dataclass(slots=True)
class _Pages(Progress):
    """Lists of texts, each with as many as one recall shows."""

    done: list[Stretch] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    room: int = PAGE_CHARS
    last: int = 0
    seen: set[str] = field(default_factory=set)

    def open(self) -> list[Stretch]:
        """The page that is being filled."""
        return [Stretch(self.last, "\n".join(self.lines))] if self.lines else []

    def turn(self) -> None:
        self.done += self.open()
        self.lines, self.room = [], PAGE_CHARS

    def line(self, message: int, line: str, shown_chars: int) -> None:
        size = len(line) + 1 + shown_chars
        if size > self.room:
            self.turn()
        self.lines.append(line)
        self.room, self.last = self.room - size, message

    def add(self, message: int, ref: str, about: str, text: str) -> None:
        """List a text, cut into slices at line ends where it is too long for a page."""
        title = _TITLE_CHARS + 3 * len(about)
        if len(text) + title <= max(self.room, PAGE_CHARS // 2):
            return self.line(message, f"{ref} {about}", len(text) + title)
        at = 0
        while at < len(text):
            if self.room - title < _LEAST_SLICE_CHARS:
                self.turn()
            stop = min(len(text), at + self.room - title)
            if stop < len(text):
                stop = max(text.rfind("\n", at + 1, stop) + 1, 0) or stop
            self.line(message, f"{ref}[{at}:{stop}] {about}", stop - at + title - len(about) - 32)
            at = stop
        return None


def _about(view: View, i: int, k: int) -> str:
    part = view.messages[i].parts[k]
    if part.kind in ("call", "result"):
        call = part if part.kind == "call" else view.call_of(i, k)
        target = target_of(part) if part.kind == "call" else target_at(view, i, k)
        return one_line(f"{call.tool if call else 'a tool'} {target}", 120)
    return view.messages[i].role


def _arguments(part: Part) -> str:
    return part.arguments_text or (encode_as_is(part.arguments).decode() if part.arguments else "")
