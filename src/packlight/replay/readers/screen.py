"""What an agent showed while it worked: recognised, and refused, with a word on where the session itself is."""

from __future__ import annotations

from typing import NoReturn

from ...errors import InvalidRequest
from ..session import Notes
from .lines import kind_of
from .values import Record, mapping

_CODEX = "what codex exec --json prints is not what its model saw: replay the rollout in ~/.codex/sessions"
_CURSOR = "a Cursor transcript has no tool calls, results or usage: what its model saw can't be rebuilt from it"
_GEMINI = "what gemini --output-format stream-json prints is not what its model saw: replay the chat in ~/.gemini/tmp"
_KIMI = "this has what Kimi CLI's screen showed; its model saw what stands in context.jsonl beside it"
_OPENCODE = "what opencode run --format json prints lacks the user's words: replay what opencode export writes"


def recognise(records: list[Record]) -> bool:
    return bool(_why_not(records))


def read(records: list[Record], *, name: str, notes: Notes) -> NoReturn:
    """Raises InvalidRequest: there is nothing to replay."""
    raise InvalidRequest(_why_not(records) or "this is no record of what an agent showed")


def _why_not(records: list[Record]) -> str:
    if records and all(r.keys() == {"role", "message"} and isinstance(r["message"], dict) for r in records[:50]):
        return _CURSOR
    for record in records[:20]:
        kind = kind_of(record)
        if kind == "thread.started":
            return _CODEX
        if kind == "init" and {"session_id", "model"} <= record.keys():
            return _GEMINI
        if "sessionID" in record and isinstance(record.get("part"), dict):
            return _OPENCODE
        if not kind and kind_of(mapping(record.get("message"))) == "TurnBegin":
            return _KIMI
    return ""
