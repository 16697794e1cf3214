"""mini-swe-agent trajectories (`.traj.json`): Chat messages, what the agent knows of each under `extra`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...types import Json
from ..session import Notes, Session, Turn, seconds_of
from .chat_log import ChatLog, calls_of, dicts, entries, first_text

Record = dict[str, Any]

_ROLES = frozenset({"system", "developer", "user"})


def recognise(records: list[Record]) -> bool:
    """True when these are mini-swe-agent's."""
    return any(_is_trajectory(r) for r in records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session for each trajectory; a file has one."""
    return [_session(*entry) for entry in entries(records, _is_trajectory, name=name, notes=notes)]


def _session(record: Record, name: str, notes: Notes) -> Session:
    log = ChatLog(notes)
    for message in dicts(record["messages"]):
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            _answer(log, message)
        elif role == "tool":
            log.result(message.get("tool_call_id"), content)
        elif role in _ROLES:
            log.say(str(role), content)
        else:  # `exit`: how it ended
            notes.add(f"message of the agent itself ({role!r}) left out")
    segment = log.segment()
    return Session(
        name=name or first_text(record.get("instance_id")) or "session",
        reader="mini-swe-agent",
        format="chat",
        segments=[segment] if segment else [],
        model=_at(record, "info", "config", "model", "model_name"),
        notes=notes.lines(),
    )


def _answer(log: ChatLog, message: Record) -> None:
    extra = message.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    usage: Any = _at(extra, "response", "usage", kind=dict)
    turn = Turn(0, usage, seconds_of(extra.get("timestamp")), _at(extra, "response", "model"))
    calls = calls_of(message.get("tool_calls"))
    log.answer(message.get("content"), calls, turn=turn, reasoning=message.get("reasoning_content"))


def _is_trajectory(record: Mapping[str, Json]) -> bool:
    if not isinstance(record.get("messages"), list):
        return False
    named = str(record.get("trajectory_format", "")).startswith("mini-swe-agent")
    return named or _at(record, "info", "mini_version") is not None


def _at(value: Json, *path: str, kind: type = str) -> Any:
    """What stands at the end of a path of keys; None when it is nothing of that kind."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, kind) else None
