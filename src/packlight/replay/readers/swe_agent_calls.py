"""SWE-agent's log of model calls: a `request` record with the whole prompt, then its `response`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..session import Notes, Session, Turn, seconds_of
from .chat_log import first_text
from .lines import kind_of
from .snapshots import segments_of
from .values import mapping, mappings

Record = dict[str, Any]

_HEAD_KEYS = ("tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p")


def recognise(records: list[Record]) -> bool:
    """True when these are requests and responses."""
    return any(kind_of(r) == "request" and _sent(r) for r in records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """The one session that a file holds."""
    first = next((r for r in records if kind_of(r) == "request" and _sent(r)), {})
    segments = segments_of(_calls(records, notes))
    models = [t.model for s in segments for t in s.turns if t.model]
    sent = _sent(first)
    return [
        Session(
            name=name or "session",
            reader="swe-agent-calls",
            format="chat",
            segments=segments,
            model=models[0] if models else first_text(sent.get("model")),
            head={k: sent[k] for k in _HEAD_KEYS if sent.get(k) is not None},
            notes=notes.lines(),
        )
    ]


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
            yield waiting, Turn(0, usage, seconds_of(record.get("timestamp")), first_text(reply.get("model")))
            waiting = None
        else:
            notes.add(f"record of type {kind!r} skipped")
    notes.add("request without its response left out", waiting is not None)


def _sent(record: Record) -> Record:
    params = mapping(record.get("request_params"))
    return params if isinstance(params.get("messages"), list) else {}
