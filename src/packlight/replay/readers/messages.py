"""Plain conversations: a list of messages or a request body in one of the three formats, a log of Chat completions
(`{"messages", "response"}`), runs that hold such lists; Kimi's control lines between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...errors import InvalidRequest, UnknownFormat
from ...formats import FORMATS, split
from ...types import Format, Json
from ..session import Notes, Segment, Session, Turn
from .sessions import segments_of, session_of
from .values import Record, first_text, mapping, seconds

_HEAD_KEYS = frozenset({"model", "system", "tools", "instructions"})
_LIST_KEYS = frozenset({"messages", "input"})
_RUN_KEYS = ("traj", "trajectory", "messages", "input")
_BY_MODEL_ITEMS = frozenset({"reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call"})
_ITEMS = frozenset({
    "message", "reasoning", "item_reference", "compaction", "mcp_list_tools", "mcp_approval_request",
    "mcp_approval_response",
})  # fmt: skip
_FOREIGN_KEYS = frozenset({"data", "kwargs", "lc", "source", "parts"})
"""Of records that have a `type` too: LangChain's, agents' events."""
_LOG_KEYS = frozenset({"response", "kwargs", "args", "timestamp", "cost", "messages"})


def recognise(records: list[Record]) -> bool:
    if all(_is_spoken(r) for r in records) or all(_run_of(r) for r in records):
        return True
    if len(records) == 1 and not {"type", "role"} & records[0].keys():
        return bool(_LIST_KEYS & records[0].keys())
    return all(_is_message(r, FORMATS["responses"]) for r in records)


def read(records: list[Record], *, name: str, notes: Notes, format: str | None = None) -> list[Session]:
    """One session of a list of messages, or of a request; else one each run. `format` is that of the messages."""
    if len(records) == 1 and not {"type", "role"} & records[0].keys():
        return [_of_one(records[0], _LIST_KEYS, name=name, notes=notes, format=format)]
    if records and all(map(_is_log, records)):
        session = _of_logs(records, name=name, notes=notes, format=format)
        if session:
            return [session]
    if records and all(_run_of(r) for r in records):
        return [
            _of_one(record, _HEAD_KEYS, name=f"{name}#{i}", notes=Notes() if i else notes, format=format)
            for i, record in enumerate(records)
        ]
    return [_of_messages(records, name=name, notes=notes, format=format)]


def _of_messages(records: list[Record], *, name: str, notes: Notes, format: str | None) -> Session:
    """Those whose role begins with `_` are the client's own (Kimi); one of them is its system prompt."""
    messages: list[Record] = []
    usage_at: dict[int, Mapping[str, Json]] = {}
    for record in records:
        role = str(record.get("role"))
        if role == "_usage":
            usage_at[len(messages)] = {"prompt_tokens": record.get("token_count")}
        elif role == "_system_prompt":
            messages.append({"role": "system", "content": record.get("content")})
        elif not role.startswith("_"):
            messages.append(record)
    session = _session(messages, name=name, notes=notes, format=format)
    for turn in session.segments[0].turns:
        turn.usage = usage_at.get(turn.end)
    return session


def _of_one(value: Record, keys_of_request: frozenset[str], *, name: str, notes: Notes, format: str | None) -> Session:
    """A log of a request, a request, or a run of which only the list counts."""
    if _is_log(value):
        return _log(value, name=name, notes=notes, format=format)
    run = None if keys_of_request & value.keys() else _run_of(value)
    return _session(run or value, name=name, notes=notes, format=format)


def _run_of(value: Record) -> list[Record] | None:
    """The list of messages inside an entry of a result file."""
    if "role" in value or "type" in value:
        return None
    for key in _RUN_KEYS:
        run = value.get(key)
        if isinstance(run, list) and run and all(isinstance(m, dict) for m in run):
            return run
    return None


def _is_log(value: Record) -> bool:
    return isinstance(value.get("response"), dict) and isinstance(value.get("messages"), list)


def _of_logs(records: list[Record], *, name: str, notes: Notes, format: str | None) -> Session | None:
    """Calls of one agent, each logged with all that it sent; None when none of them goes on from the one before."""
    logs = [_log(r, name=name, notes=notes, format=format) for r in records]
    calls = [(log.segments[0].messages, log.segments[0].turns[-1]) for log in logs if log.turns]
    segments = segments_of(calls)
    is_one = len(segments) < len(calls) and len({log.format for log in logs}) == 1
    return replace(logs[0], segments=segments) if is_one else None


def _log(value: Record, *, name: str, notes: Notes, format: str | None) -> Session:
    """One logged call: the request and the reply to it."""
    response, sent = value["response"], value.get("kwargs")
    head = {k: v for k, v in value.items() if k not in _LOG_KEYS}
    head.update({k: sent[k] for k in ("tools", "tool_choice") if isinstance(sent, dict) and k in sent})
    session = _session({"messages": value["messages"], **head}, name=name, notes=notes, format=format)
    session.model = first_text(response.get("model"), value.get("model"))
    for turn in session.segments[0].turns[-1:]:
        turn.usage, turn.model = mapping(response.get("usage")) or None, session.model
        turn.seconds = seconds(value.get("timestamp"))
    return session


def _session(value: Json, *, name: str, notes: Notes, format: str | None) -> Session:
    fmt, items, head = split(value, format)
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidRequest(f"message {index} must be an object, not {type(item).__name__}")
        if not _is_message(item, fmt):
            raise UnknownFormat(f"entry {index} of the list is no message of any format that is read here")
    if not items:
        notes.add("empty conversation")
    head = dict(head)
    model = first_text(head.pop("model", None))
    segment = Segment(items, _turns(items, fmt))
    return session_of("messages", fmt.name, [segment], notes, name, model=model, head=head)


def _is_message(item: Record, fmt: Format) -> bool:
    return _is_spoken(item) or (fmt.name == "responses" and _is_item(item))


def _is_spoken(item: Record) -> bool:
    """Cursor's transcripts have `message` instead, and no results: nothing that a model saw."""
    return isinstance(item.get("role"), str) and ("message" not in item or "content" in item)


def _is_item(item: Record) -> bool:
    kind = str(item.get("type"))
    return (kind in _ITEMS or kind.endswith(("_call", "_output"))) and not _FOREIGN_KEYS & item.keys()


def _turns(items: list[Record], fmt: Format) -> list[Turn]:
    """A model call before each of its answers, and one at the end when the last word is not the model's."""
    ends = []
    asked = False
    by_model_before = False
    for index, item in enumerate(items):
        by_model = _by_model(item, fmt)
        if by_model and asked and (fmt.name == "chat" or not by_model_before):
            ends.append(index)
        asked = asked or (not by_model and fmt.role(item) != "system")
        by_model_before = by_model
    if items and asked and not by_model_before:
        ends.append(len(items))
    return [Turn(end) for end in ends]


def _by_model(item: Record, fmt: Format) -> bool:
    if fmt.name == "responses" and item.get("type", "message") != "message":
        return item.get("type") in _BY_MODEL_ITEMS
    return item.get("role") == "assistant"
