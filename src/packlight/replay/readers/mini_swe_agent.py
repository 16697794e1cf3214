"""mini-swe-agent trajectories (`.traj.json`): Chat messages, what the agent knows of each under `extra`."""

from __future__ import annotations

from typing import Any

from ..session import Notes, Session, Turn
from .chat_log import ChatLog, calls_of
from .sessions import runs_of, session_of
from .values import first_text, mapping, mappings, seconds

Record = dict[str, Any]

_ROLES = ("system", "developer", "user")


def recognise(records: list[Record]) -> bool:
    return any(_is_trajectory(r) for r in records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session for each trajectory; a file has one."""
    return [_session(*entry) for entry in runs_of(records, _is_trajectory, name=name, notes=notes)]


def _session(record: Record, name: str, notes: Notes) -> Session:
    log = ChatLog(notes)
    for message in mappings(record["messages"]):
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            _answer(log, message)
        elif role == "tool":
            log.result(message.get("tool_call_id"), content)
        elif role in _ROLES:
            log.say(str(role), content)
        else:  # `exit`: how it ended
            notes.add(f"message of the agent itself ({role!r}) left out")
    session = session_of("mini-swe-agent", "chat", [log.segment()], notes, name, record.get("instance_id"))
    config = mapping(mapping(record.get("info")).get("config"))
    session.model = first_text(mapping(config.get("model")).get("model_name"))
    return session


def _answer(log: ChatLog, message: Record) -> None:
    extra = mapping(message.get("extra"))
    response = mapping(extra.get("response"))
    usage = mapping(response.get("usage")) or None
    turn = Turn(0, usage, seconds(extra.get("timestamp")), first_text(response.get("model")))
    calls = calls_of(message.get("tool_calls"))
    log.answer(message.get("content"), calls, turn=turn, reasoning=message.get("reasoning_content"))


def _is_trajectory(record: Record) -> bool:
    if not isinstance(record.get("messages"), list):
        return False
    named = str(record.get("trajectory_format", "")).startswith("mini-swe-agent")
    return named or "mini_version" in mapping(record.get("info"))
