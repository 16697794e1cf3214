"""SWE-agent's log of model calls: a `request` record with the whole prompt, then its `response`."""

from __future__ import annotations

from collections.abc import Iterator

from ..session import Notes, Session, Turn
from .lines import kind_of
from .sessions import segments_of, session_of
from .values import Record, first_text, mapping, mappings, seconds

_HEAD_KEYS = ("tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p")


def recognise(records: list[Record]) -> bool:
    return any(kind_of(r) == "request" and _sent(r) for r in records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    first = next((r for r in records if kind_of(r) == "request" and _sent(r)), {})
    segments = segments_of(_calls(records, notes))
    sent = _sent(first)
    head = {k: sent.get(k) for k in _HEAD_KEYS}
    model = first_text(sent.get("model"))
    return [session_of("swe-agent-calls", "chat", segments, notes, name, model=model, head=head)]


def _calls(records: list[Record], notes: Notes) -> Iterator[tuple[list[Record], Turn]]:
    waiting: list[Record] | None = None
    for record in records:
        kind = kind_of(record)
        if kind == "request":
            notes.add("request without its response left out", waiting is not None)
            waiting = mappings(_sent(record).get("messages"))
        elif kind == "response" and waiting:
            reply = mapping(record.get("response"))
            usage = mapping(reply.get("usage")) or None
            yield waiting, Turn(0, usage, seconds(record.get("timestamp")), first_text(reply.get("model")))
            waiting = None
        else:
            notes.add(f"record of type {kind!r} skipped")
    notes.add("request without its response left out", waiting is not None)


def _sent(record: Record) -> Record:
    params = mapping(record.get("request_params"))
    return params if isinstance(params.get("messages"), list) else {}
