"""A recorded session as what its model saw: windows, and the requests inside them.

A log is append-only; the window that a model saw is not. A `Segment` is one lineage of the window, in which each
request begins with the one before it; a recorded compaction, a rewind or results cleared by the client start a new
one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ..tokens.usage import output_tokens
from ..types import FormatName, Json

_MOST_NOTES = 40
_MOST_NOTE_CHARS = 200
_TOKENS_A_SECOND = 50.0
"""How fast a model writes: three recorded sessions of pi, which note both times, have medians of 40, 46 and 54."""


@dataclass(slots=True)
class Turn:
    """One model call."""

    end: int
    """Its request is `segment.messages[:end]`."""
    usage: Mapping[str, Json] | None = None
    """As the file has it; under names that `packlight.tokens.usage` knows."""
    seconds: float | None = None
    """When it was answered, since the epoch."""
    model: str | None = None
    billed_usd: float | None = None
    """What the provider, or the agent by its price list, says that the input cost: fresh, read from and written to
    the cache; not the output."""
    thinking: str = ""
    """The thinking level asked for, where the file tells: another one than before makes Anthropic's cache of the
    messages miss, system and tools apart (platform.claude.com, prompt caching, 2026-10)."""

    @property
    def asked_seconds(self) -> float | None:
        """When its request was sent, as far as that can be told: the answer's time less what writing it took."""
        if self.seconds is None:
            return None
        return self.seconds - (output_tokens(self.usage) or 0) / _TOKENS_A_SECOND


@dataclass(frozen=True, slots=True)
class RecordedCompaction:
    """How an agent itself made a new window out of the one before."""

    kind: str
    """"compaction" (a summary stands for what went), "microcompaction" (results were cleared), "rewind" (the user
    went back)."""
    summary: str = ""
    """As the file has it; empty where there is none, or where it is encrypted."""
    preserved_messages: int = 0
    """How many messages of the window before came along: of the file's, which can differ from the segment's where
    neighbours became one message."""
    tokens_before: int | None = None
    """Size of the window before, where the file has it."""


@dataclass(slots=True)
class Segment:
    """One lineage of the window."""

    messages: list[dict[str, Any]]
    turns: list[Turn]
    compaction: RecordedCompaction | None = None
    """How it began; None where there was nothing before it, or the file does not say."""


@dataclass(slots=True)
class Session:
    """What one file, or one entry of a file, holds."""

    name: str
    reader: str
    """Name of the reader that read it, as in `readers.FORMAT_NAMES`."""
    format: FormatName
    segments: list[Segment]
    model: str | None = None
    head: dict[str, Any] = field(default_factory=dict)
    """What the request holds beside its messages, as far as the file has it: system, instructions, tools."""
    notes: list[str] = field(default_factory=list)
    """What could not be read, or had to be left out; one sentence each."""
    path: str | None = None

    @property
    def turns(self) -> int:
        return sum(len(s.turns) for s in self.segments)

    @property
    def asked_seconds(self) -> float:
        """When the first request was sent whose time is known; 0 where none is. Calls before it count as no older."""
        return next((at for s in self.segments for t in s.turns if (at := t.asked_seconds) is not None), 0.0)

    @property
    def list_key(self) -> str:
        return "input" if self.format == "responses" else "messages"

    def request(self, segment: Segment, turn: Turn) -> Any:
        """What a model call sent: its body, or the bare list where the file holds neither system nor tools.

        The messages are the session's own objects: do not change them.
        """
        messages = segment.messages[: turn.end]
        if not self.head:
            return messages
        model = turn.model or self.model
        return {**({"model": model} if model else {}), **self.head, self.list_key: messages}


def as_if(session: Session, model: str) -> Session:
    """The session as if all of it had gone to this model. The usage stays what it was: tokens of the other one."""
    segments = [replace(s, turns=[replace(t, model=model) for t in s.turns]) for s in session.segments]
    return replace(session, model=model, segments=segments)


class Notes:
    """Notes that are counted instead of repeated."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, what: str, count: int = 1) -> None:
        """`what` is read behind its count: "result without its call left out"."""
        self._counts[what] += count

    def lines(self) -> list[str]:
        """One each kind; a file can be so strange that these are cut off too."""
        noted = [(what, count) for what, count in self._counts.items() if count]
        shown = [f"{count:,} x {_cut(what)}" for what, count in noted[:_MOST_NOTES]]
        more = len(noted) - len(shown)
        return [*shown, f"{more:,} more kinds of notes"] if more else shown


def _cut(what: str) -> str:
    return what if len(what) <= _MOST_NOTE_CHARS else f"{what[:_MOST_NOTE_CHARS]}..."


def seconds_of(timestamp: Json) -> float | None:
    """An ISO time or a number as seconds since the epoch; None when it is neither."""
    if isinstance(timestamp, (int, float)) and not isinstance(timestamp, bool):
        return float(timestamp)
    if not isinstance(timestamp, str):
        return None
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError):
        return None
