"""SWE-agent trajectories (`.traj`): the conversation is in `history`, in the 0.x form (actions are text) or with tool
calls.

Each step of `trajectory` repeats its prompt, old outputs shortened by the agent's history processors. `history` has
them whole; that is what is read. Usage stands in the file as totals only.
"""

from __future__ import annotations

from ... import jsonio
from ...errors import InvalidRequest
from ...types import Json
from ..session import Notes, Session, Turn
from .chat_log import ChatLog, calls_of, clean_content
from .sessions import runs_of, session_of
from .values import Record, first_text, mapping, mappings


def recognise(records: list[Record]) -> bool:
    return any(isinstance(r.get("history"), list) and isinstance(r.get("trajectory"), list) for r in records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session for each trajectory; a file has one."""
    return [_session(*entry) for entry in runs_of(records, _history, name=name, notes=notes)]


def _history(record: Record) -> list[Record]:
    return mappings(record.get("history"))


def _session(record: Record, name: str, notes: Notes) -> Session:
    history = _history(record)
    told = [m for m in history if not m.get("is_demo")]
    notes.add("message of a demonstration left out", len(history) - len(told))
    notes.add("output that the agent shortened later on: read whole", _shortened(record, history))
    model = _model(record)
    log = ChatLog(notes)
    for message in told:
        _take(log, message, model)
    return session_of("swe-agent", "chat", [log.segment()], notes, name, record.get("environment"), model=model)


def _take(log: ChatLog, message: Record, model: str | None) -> None:
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        turn = Turn(0, None, None, model)
        log.answer(content, calls_of(message.get("tool_calls")), turn=turn, reasoning=message.get("reasoning_content"))
    elif role == "tool":
        ids = message.get("tool_call_ids")
        for call_id in ids if isinstance(ids, list) else [message.get("tool_call_id")]:
            log.result(call_id, content)
    else:
        log.say("system" if role == "system" else "user", content)


def _shortened(record: Record, history: list[Record]) -> int:
    """How many messages of the last prompt are not as the history has them."""
    steps = mappings(record.get("trajectory"))
    prompt = (steps[-1].get("query") or steps[-1].get("messages")) if steps else None
    return sum(
        clean_content(sent.get("content")) != clean_content(kept.get("content"))
        for sent, kept in zip(mappings(prompt), history, strict=False)
    )


def _model(record: Record) -> str | None:
    config: Json = record.get("replay_config")
    if isinstance(config, str):
        try:
            config = jsonio.load(config.encode("utf-8", "replace"))
        except InvalidRequest:
            return None
    return first_text(mapping(mapping(mapping(config).get("agent")).get("model")).get("name"))
