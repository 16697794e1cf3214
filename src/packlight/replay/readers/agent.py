"""Sessions of `packlight agent`: the whole conversation, as it was before anything was taken out of it."""

from __future__ import annotations

from ...errors import InvalidRequest
from ...formats import FORMATS
from ...types import Json
from ..session import Notes, Segment, Session, Turn
from .sessions import session_of
from .values import Record, first_text, mapping, seconds

VERSION = 1


def begins(record: Record) -> bool:
    """Whether this is the first record of such a session."""
    return record.get("type") == "session" and "version" in record and record.get("format") in FORMATS


def recognise(records: list[Record]) -> bool:
    return bool(records) and begins(records[0])


def messages_in(records: list[Record]) -> list[Json]:
    return [r["message"] for r in records if r.get("type") == "message" and isinstance(r.get("message"), dict)]


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session. What was counted for a request with edits says nothing about the whole: it is left out."""
    about = records[0] if records else {}
    if about.get("version") != VERSION:
        raise InvalidRequest(f"a session of version {about.get('version')!r}, which is not known here")
    messages: list[Json] = []
    turns: list[Turn] = []
    for record in records[1:]:
        kind = record.get("type")
        if kind == "usage" and messages:
            usage = record.get("usage")
            counted = isinstance(usage, dict) and not record.get("packed")
            turns.append(Turn(len(messages), usage if counted else None, seconds(record.get("seconds"))))
        elif kind == "message" and isinstance(record.get("message"), dict):
            messages.append(record["message"])
        elif kind != "usage":
            notes.add("unknown record left out")
    head, model, names = mapping(about.get("head")), first_text(about.get("model")), (name, about.get("id"))
    return [session_of("agent", about["format"], [Segment(messages, turns)], notes, *names, model=model, head=head)]
