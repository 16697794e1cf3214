"""What kinds of content filled the windows of a session, weighed by the calls that they were sent with.

A result that is read once and carried through a hundred calls is paid a hundred times, so tokens are counted once for
each call (`token_turns`), and each call's price is shared among what its request held.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

from .. import models
from ..formats import format_named, read_message
from ..summary.files import FileEvent, file_events
from ..summary.words import said
from ..tokens import IMAGE_RULES, media_tokens
from ..types import Message, Part
from ..view import Place, View
from .session import Session
from .weights import Weights, counting

Kind = Literal["system", "user", "notes", "assistant", "thinking", "calls", "results", "images", "other"]
KINDS: Mapping[Kind, str] = {
    "system": "system prompt and tools",
    "user": "the user's words",
    "notes": "instructions and notes of the client",
    "assistant": "the assistant's text",
    "thinking": "thinking",
    "calls": "arguments of calls",
    "results": "results of tools",
    "images": "images and documents",
    "other": "other",
}


@dataclass(slots=True)
class Filling:
    """One kind of content; results apart by tool."""

    kind: Kind
    tool: str = ""
    token_turns: float = 0.0
    """Tokens, counted once for each call that sent them."""
    usd: float = 0.0
    """Its share in the price of these calls."""
    superseded_token_turns: float = 0.0
    """What was carried on although the same file had been read again or written, or the same output came again."""
    superseded_usd: float = 0.0

    def __add__(self, other: Filling) -> Filling:
        return Filling(
            self.kind,
            self.tool,
            self.token_turns + other.token_turns,
            self.usd + other.usd,
            self.superseded_token_turns + other.superseded_token_turns,
            self.superseded_usd + other.superseded_usd,
        )


def dearest_first(fillings: Iterable[Filling]) -> list[Filling]:
    return sorted((f for f in fillings if f.token_turns), key=lambda f: (-f.usd, f.kind, f.tool))


def views_of(session: Session) -> list[View]:
    """The messages of each window, read."""
    fmt, count = format_named(session.format), counting(session.model)
    known: dict[int, Message] = {}

    def reading(raw: Any) -> Message:
        if id(raw) not in known:  # windows share the session's own objects
            known[id(raw)] = read_message(fmt, raw, lambda _: 0)
        return known[id(raw)]

    return [View(format=fmt, messages=[reading(m) for m in s.messages], count=count) for s in session.segments]


def content_of(
    session: Session, views: Sequence[View], weights: Weights, paid: Sequence[Sequence[tuple[float, float]]]
) -> list[Filling]:
    """The fillings, dearest first. `paid` is the tokens and the price of each call, by window: they add up to it."""
    found: dict[tuple[Kind, str], Filling] = {}
    shares = _Shares(session.model)
    for window, (segment, view) in enumerate(zip(session.segments, views, strict=True)):
        held = [*accumulate(map(weights.message, segment.messages), initial=weights.head(window))]
        carried = _Carried([(t.end, held[t.end]) for t in segment.turns], paid[window])
        gone = superseded(view)
        _add(found, ("system", ""), weights.head(window), carried.since(-1))
        for i, raw in enumerate(segment.messages):
            turns = carried.since(i)
            tokens = weights.message(raw)
            for kind, tool, place, share in shares(view, i):
                later = carried.since(gone[place]) if place in gone and kind == "results" else (0.0, 0.0)
                _add(found, (kind, tool), tokens * share, turns, later)
    return dearest_first(found.values())


def _add(
    found: dict[tuple[Kind, str], Filling],
    key: tuple[Kind, str],
    tokens: float,
    turns: tuple[float, float],
    superseded: tuple[float, float] = (0.0, 0.0),
) -> None:
    filling = found.setdefault(key, Filling(*key))
    filling.token_turns += tokens * turns[0]
    filling.usd += tokens * turns[1]
    filling.superseded_token_turns += tokens * superseded[0]
    filling.superseded_usd += tokens * superseded[1]


class _Carried:
    """What one token of our weights was in the calls of a window that sent it: tokens as paid for, and their price."""

    def __init__(self, calls: Sequence[tuple[int, float]], paid: Sequence[tuple[float, float]]) -> None:
        self._ends = [end for end, _ in calls]
        rates = [(t / held, u / held) if held else (0.0, 0.0) for (_, held), (t, u) in zip(calls, paid, strict=True)]
        self._sums = [(0.0, 0.0), *accumulate(reversed(rates), lambda a, b: (a[0] + b[0], a[1] + b[1]))]

    def since(self, message: int) -> tuple[float, float]:
        return self._sums[len(self._ends) - bisect_right(self._ends, message)]


class _Shares:
    """What share of a message is what."""

    def __init__(self, model: str | None) -> None:
        self._count = counting(model)
        self._rule = IMAGE_RULES[models.image_rule(model)]

    def __call__(self, view: View, i: int) -> list[tuple[Kind, str, Place, float]]:
        found: list[tuple[Kind, str, Place, float]] = []
        message = view.messages[i]
        for k, part in enumerate(message.parts):
            for kind, tool, size in self._of_part(view, i, k, part):
                found.append((kind, tool, (i, k), size))
        whole = sum(size for *_, size in found)
        if not whole:
            return [("other", "", (i, 0), 1.0)]
        return [(kind, tool, place, size / whole) for kind, tool, place, size in found]

    def _of_part(self, view: View, i: int, k: int, part: Part) -> Iterator[tuple[Kind, str, float]]:
        pictures = sum(media_tokens(m, self._rule) for m in part.media)
        if pictures:
            yield "images", "", pictures
        if part.kind == "result":
            call = view.call_of(i, k)
            yield "results", call.tool if call else "", self._count(part.text) + 1
        elif part.kind == "call":
            yield "calls", "", self._size(view, i, part) + 1
        elif part.kind == "thinking":
            yield "thinking", "", self._size(view, i, part) + 1
        elif part.kind == "text":
            yield from self._of_text(view, i, part)
        elif part.kind == "opaque":
            yield "other", "", self._size(view, i, part) + 1

    def _of_text(self, view: View, i: int, part: Part) -> Iterator[tuple[Kind, str, float]]:
        tokens = self._count(part.text) + 1
        if view.messages[i].role == "assistant":
            yield "assistant", "", tokens
            return
        chars = {"user": 0, "notes": 0}
        for words in said(view, i, i + 1):
            chars["user" if words.kind == "typed" else "notes"] += len(words.text)
        whole = sum(chars.values()) or 1
        yield "user", "", tokens * chars["user"] / whole
        yield "notes", "", tokens * chars["notes"] / whole

    def _size(self, view: View, i: int, part: Part) -> int:
        """Of a block its JSON, seals included; of a field that is no block its text."""
        blocks = view.format.blocks(view.messages[i].data) if part.block >= 0 else None
        return self._count(blocks[part.block] if blocks else part.text + part.arguments_text)


def superseded(view: View) -> dict[Place, int]:
    """Results that a later one makes useless, with the message from which on they are."""
    found: dict[Place, int] = {}
    later: dict[tuple[str, str], int] = {}
    for result in reversed(list(view.results())):
        text = result.part.text
        if text and not result.part.media:
            if (result.tool, text) in later:
                found[result.message, result.place] = later[result.tool, text]
            later[result.tool, text] = result.message
    for place, since in _read_again(view):
        found[place] = min(since, found.get(place, since))
    return found


def _read_again(view: View) -> Iterator[tuple[Place, int]]:
    """Reads of a file that is read again as a whole, or written anew."""
    by_path: dict[str, list[FileEvent]] = defaultdict(list)
    for event in file_events(view):
        if event.ok and event.path and event.action in ("read", "write"):
            by_path[event.path].append(event)
    for events in by_path.values():
        for n, read in enumerate(events):
            if read.action == "read":
                since = next((e.result_message for e in events[n + 1 :] if _replaces(view, e, read)), None)
                if since is not None:
                    yield (read.result_message, read.result_place), since


def _replaces(view: View, later: FileEvent, read: FileEvent) -> bool:
    if later.result_message <= read.result_message:
        return False
    if later.action == "write":
        return True
    if later.offset or later.limit:
        return (later.offset, later.limit) == (read.offset, read.limit)
    old = view.messages[read.result_message].parts[read.result_place].text
    new = view.messages[later.result_message].parts[later.result_place].text
    return len(new) * 2 >= len(old)  # "file unchanged" shows nothing
