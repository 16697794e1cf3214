"""Cline SDK sessions: `{version, sessionId, system_prompt, messages}`, the messages in Anthropic's form with a few
blocks of its own.
"""

from __future__ import annotations

from typing import Any

from ...types import Json
from ..session import Notes, Session, Turn
from .claude_window import Window, clean_blocks
from .sessions import runs_of, session_of
from .values import Record, anthropic_usage, as_text, count, first_text, mapping, mappings, seconds

_BY_MODEL = ("tool_use", "thinking", "redacted_thinking")
_RESULT_KEYS = frozenset({"type", "tool_use_id", "is_error"})


def recognise(records: list[Record]) -> bool:
    return any(_is_session(r) for r in records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session for each record; a file has one."""
    return [_session(*entry) for entry in runs_of(records, _is_session, name=name, notes=notes)]


def _session(record: Record, name: str, notes: Notes) -> Session:
    window = Window(notes)
    for index, message in enumerate(mappings(record["messages"])):
        blocks = clean_blocks(_blocks(message.get("content"), notes))
        if message.get("role") != "assistant":
            window.user([b for b in blocks if b.get("type") not in _BY_MODEL])
            continue
        entry, is_new = window.assistant(str(message.get("id") or index), blocks)
        entry.turn = _turn(message) if is_new else entry.turn
    head = {"system": first_text(record.get("system_prompt"))}
    return session_of("cline", "anthropic", [window.segment()], notes, name, record.get("sessionId"), head=head)


def _is_session(record: Record) -> bool:
    return isinstance(record.get("messages"), list) and {"version", "sessionId"} <= record.keys()


def _turn(message: Record) -> Turn:
    stamp, model = seconds(message.get("ts")), first_text(mapping(message.get("modelInfo")).get("id"))
    return Turn(0, _usage(message.get("metrics")), stamp / 1000 if stamp is not None else None, model)


def _usage(metrics: Json) -> Any:
    """Cline's `inputTokens` are with those of the cache."""
    told = mapping(metrics)
    whole, read, written = (count(told.get(k)) for k in ("inputTokens", "cacheReadTokens", "cacheWriteTokens"))
    return anthropic_usage(max(0, whole - read - written), read, written, told.get("outputTokens"))


def _blocks(content: Json, notes: Notes) -> Json:
    if not isinstance(content, list):
        return content
    return [_block(b, notes) for b in mappings(content)]


def _block(block: Record, notes: Notes) -> Record:
    kind, content = block.get("type"), block.get("content")
    if kind == "file":
        notes.add("file put into a message: the words around it are not in the session file")
        return {"type": "text", "text": f"{block.get('path')}\n{content}"}
    if kind != "tool_result":
        return block
    is_plain = isinstance(content, str) or (bool(mappings(content)) and all("type" in b for b in mappings(content)))
    shown = content if is_plain else "" if content is None else as_text(content)
    return {**{k: v for k, v in block.items() if k in _RESULT_KEYS}, "content": shown}
