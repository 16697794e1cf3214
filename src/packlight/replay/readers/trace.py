"""Traces of sessions without their text, as `packlight replay --trace` writes them (see `replay.trace`)."""

from __future__ import annotations

from ...errors import InvalidRequest
from ...formats import FORMATS
from ..session import Notes, Segment, Session, Turn
from ..trace import KIND, VERSION
from .lines import kind_of
from .values import Record, mapping, string


def recognise(records: list[Record]) -> bool:
    return bool(records) and kind_of(records[0]) == KIND


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """The sessions of a file, one for each head."""
    sessions: list[Session] = []
    for record in records:
        kind = kind_of(record)
        if kind == KIND:
            sessions.append(_session(record, name))
        elif kind == "segment":
            sessions[-1].segments.append(Segment([], []))
        elif not sessions[-1].segments:
            raise InvalidRequest("a trace whose messages stand before its first segment")
        elif kind == "message" and isinstance(record.get("message"), dict):
            sessions[-1].segments[-1].messages.append(record["message"])
        elif kind == "turn" and isinstance(record.get("end"), int):
            sessions[-1].segments[-1].turns.append(_turn(record, len(sessions[-1].segments[-1].messages)))
        else:
            notes.add(f"record of unknown type {kind!r} skipped")
    for session in sessions:
        session.notes = notes.lines()
    return sessions


def _session(record: Record, name: str) -> Session:
    if record.get("version") != VERSION:
        raise InvalidRequest(f"a trace of version {record.get('version')}; {VERSION} is known")
    if record.get("format") not in FORMATS:
        raise InvalidRequest(f"a trace in the format {record.get('format')!r}, which is not known")
    return Session(
        name=name or "trace",
        reader=string(record.get("reader")) or "trace",
        format=record["format"],
        segments=[],
        model=string(record.get("model")) or None,
        head=mapping(record.get("head")),
    )


def _turn(record: Record, messages: int) -> Turn:
    usage, seconds = record.get("usage"), record.get("seconds")
    return Turn(
        min(max(record["end"], 0), messages),
        usage if isinstance(usage, dict) else None,
        float(seconds) if isinstance(seconds, (int, float)) else None,
        string(record.get("model")) or None,
    )
