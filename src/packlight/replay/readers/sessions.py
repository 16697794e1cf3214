"""What readers make: the sessions of a file, and the windows of a session one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from ...types import FormatName, Json
from ..session import Notes, RecordedCompaction, Segment, Session, Turn
from .values import Record, first_text


class _Window(Protocol):
    def segment(self) -> Segment | None: ...


W = TypeVar("W", bound=_Window)


class Windows(Generic[W]):
    """The windows of a session while its records are read: those that have ended, and the one that stands open."""

    def __init__(self, make: Callable[[Notes], W], notes: Notes) -> None:
        self.segments: list[Segment] = []
        self.notes = notes
        self.window = make(notes)
        self._make = make
        self.begun_by: RecordedCompaction | None = None

    def take(self, record: Record) -> None:
        """What a record does to the window."""
        raise NotImplementedError

    def read(self, records: Iterable[Record]) -> list[Segment]:
        """The segments that all the records make."""
        for record in records:
            self.take(record)
        self.end()
        return self.segments

    def end(self) -> bool:
        """Close the window; True when a model call belongs to it."""
        segment = self.window.segment()
        if segment:
            segment.compaction = self.begun_by
            self.segments.append(segment)
        return segment is not None

    def begin(self, compaction: RecordedCompaction) -> None:
        """A new window, which the agent made so out of the one before."""
        self.end()
        self.window, self.begun_by = self._make(self.notes), compaction


def session_of(
    reader: str,
    format: FormatName,
    segments: Iterable[Segment | None],
    notes: Notes,
    *names: Json,
    model: str | None = None,
    head: Mapping[str, Any] | None = None,
) -> Session:
    """A session: its name is the first that is one, its model that of the first call that tells it, else `model`.
    What is None does not stand in the head."""
    found = [s for s in segments if s is not None]
    models = (t.model for s in found for t in s.turns if t.model)
    return Session(
        name=first_text(*names) or "session",
        reader=reader,
        format=format,
        segments=found,
        model=next(models, model),
        head={k: v for k, v in (head or {}).items() if v is not None},
        notes=notes.lines(),
    )


def runs_of(
    records: list[Record], is_run: Callable[[Record], Any], *, name: str, notes: Notes
) -> list[tuple[Record, str, Notes]]:
    """The runs that a file holds, each with the name and the notes of its session; what is said of the file stands
    with the first one."""
    found = [r for r in records if is_run(r)]
    notes.add("record of unknown kind skipped", len(records) - len(found))
    return [
        (record, name if len(found) == 1 else f"{name}#{i}", Notes() if i else notes) for i, record in enumerate(found)
    ]


def segments_of(calls: Iterable[tuple[list[Record], Turn]]) -> list[Segment]:
    """Of a log that holds the whole request of every call: a new window wherever one does not begin with the one
    before it."""
    segments: list[Segment] = []
    for messages, turn in calls:
        if not messages:
            continue
        before = segments[-1].messages if segments else []
        if segments and messages[: len(before)] == before:
            before += messages[len(before) :]
        else:
            segments.append(Segment(list(messages), []))
        turn.end = len(messages)
        segments[-1].turns.append(turn)
    return segments
