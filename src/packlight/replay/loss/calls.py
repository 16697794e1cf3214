"""What the recorded calls of a reply need: the names in their arguments, the files, the text that their edits quote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...summary.files import FileEvent, file_events
from ...types import Format
from .identifiers import identifiers
from .texts import argument_texts, view_of

LEAST_LINE_CHARS = 8
"""Shorter lines prove nothing."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """The old text of an edit, without its short lines."""

    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallNeeds:
    names: frozenset[str]
    paths: tuple[str, ...]
    """Files that it reads or changes, as it spells them."""
    quotes: tuple[Quoted, ...]


def needs_of(fmt: Format, reply: Sequence[Any]) -> list[CallNeeds]:
    """One entry for each call in a reply."""
    view = view_of(fmt, reply)
    events: dict[tuple[int, int], list[FileEvent]] = {}
    for event in file_events(view):
        events.setdefault((event.message, event.place), []).append(event)
    needs = []
    for i, message in enumerate(view.messages):
        for k, part in enumerate(message.parts):
            if part.kind == "call":
                own = events.get((i, k), [])
                names = frozenset().union(*map(identifiers, argument_texts(part)))
                needs.append(CallNeeds(names, tuple(dict.fromkeys(e.path for e in own if e.path)), _quotes(own)))
    return needs


def _quotes(events: Sequence[FileEvent]) -> tuple[Quoted, ...]:
    found = (Quoted(e.path, long_lines(e.old)) for e in events if e.action == "edit" and e.old)
    return tuple(quote for quote in found if quote.lines)


def long_lines(text: str) -> tuple[str, ...]:
    """The lines of a text that are long enough to prove something, each once."""
    return tuple(line for line in dict.fromkeys(text.split("\n")) if len(line) >= LEAST_LINE_CHARS)
