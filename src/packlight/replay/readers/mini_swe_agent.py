"""mini-swe-agent trajectories (`.traj.json`): Chat messages, what the agent knows of each under `extra`.

Models that are asked through the Responses API leave its whole reply in the place of a message, and items behind it.
"""

from __future__ import annotations

from ...types import FormatName
from ..session import Notes, Segment, Session, Turn
from .chat_log import ChatLog, calls_of
from .lines import kind_of
from .sessions import runs_of, session_of
from .values import Record, first_text, mapping, mappings, seconds

_ROLES = ("system", "developer", "user")


def recognise(records: list[Record]) -> bool:
    return any(_is_trajectory(r) for r in records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session for each trajectory; a file has one."""
    return [_session(*entry) for entry in runs_of(records, _is_trajectory, name=name, notes=notes)]


def _session(record: Record, name: str, notes: Notes) -> Session:
    messages = mappings(record["messages"])
    if any(_is_reply(m) for m in messages):
        return _of(record, "responses", _items(messages, notes), name, notes)
    log = ChatLog(notes)
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            _answer(log, message)
        elif role == "tool":
            log.result(message.get("tool_call_id"), content)
        elif role in _ROLES:
            log.say(str(role), content)
        else:  # `exit`: how it ended
            notes.add(f"message of the agent itself ({role!r}) left out")
    return _of(record, "chat", log.segment(), name, notes)


def _of(record: Record, format: FormatName, segment: Segment | None, name: str, notes: Notes) -> Session:
    session = session_of("mini-swe-agent", format, [segment], notes, name, record.get("instance_id"))
    config = mapping(mapping(record.get("info")).get("config"))
    session.model = first_text(mapping(config.get("model")).get("model_name"), session.model)
    return session


def _is_reply(message: Record) -> bool:
    return message.get("object") == "response"


def _items(messages: list[Record], notes: Notes) -> Segment:
    """The items of the Responses API, one call a reply."""
    items: list[Record] = []
    turns: list[Turn] = []
    for message in messages:
        extra = mapping(message.get("extra"))
        if _is_reply(message):
            usage, model = mapping(message.get("usage")) or None, first_text(message.get("model"))
            turns += [Turn(len(items), usage, seconds(extra.get("timestamp")), model)] if items else []
            items += mappings(message.get("output"))
        elif message.get("role") in _ROLES or kind_of(message) == "function_call_output":
            items.append({k: v for k, v in message.items() if k != "extra"})
        else:
            notes.add(f"message of the agent itself ({message.get('role')!r}) left out")
    return Segment(items, turns)


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
