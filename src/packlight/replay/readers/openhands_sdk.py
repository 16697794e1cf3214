"""OpenHands V1 (software-agent-sdk): events with a `kind`, one call an `ActionEvent`. They hold no usage; the results
of an evaluation do, by response.

Each event is put into the form of the V0 events, which stand for the same things.
"""

from __future__ import annotations

from ...types import Json
from ..session import Notes, Session
from .openhands import events_of, read_runs
from .values import Record, mapping, mappings, string

_RESULTS = {"ObservationEvent": "observation", "AgentErrorEvent": "error", "UserRejectObservation": "rejection_reason"}
"""Kinds of events that answer a call, and the field that has the answer."""
_KINDS = frozenset({"SystemPromptEvent", "MessageEvent", "ActionEvent", "Condensation", *_RESULTS})


def recognise(records: list[Record]) -> bool:
    return any(map(_is_event, [*records[:20], *(e for r in records[:20] for e in events_of(r)[:20])]))


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session for each instance of an evaluation, or the one that the events are."""
    return read_runs("openhands-sdk", records, _is_event, name, notes, _as_v0)


def _as_v0(events: list[Record], notes: Notes) -> list[Record]:
    seen = [e for e in events if _is_event(e)]
    notes.add("event that the model does not see skipped", len(events) - len(seen))
    return [_one_as_v0(e) for e in seen]


def _is_event(event: Record) -> bool:
    return string(event.get("kind")) in _KINDS


def _one_as_v0(event: Record) -> Record:
    kind = string(event.get("kind"))
    v0 = {k: v for k, v in event.items() if k in ("id", "timestamp", "source")}
    if kind == "SystemPromptEvent":
        content = _parts([event.get("system_prompt"), event.get("dynamic_context")])
        tools = [t for t in mappings(event.get("tools")) if "function" in t]
        v0.update(action="system", args={"content": content, "tools": tools})
    elif kind == "MessageEvent":
        said = _parts(mapping(event.get("llm_message")).get("content"))
        v0.update(action="message", args={"content": [*said, *_parts(event.get("extended_content"))]})
    elif kind == "ActionEvent":
        v0.update(action="call", source="agent", tool_call_metadata=_metadata(event))
    elif kind == "Condensation":
        v0.update(action="condensation", args=event)
    else:
        content = [*_answer(event.get(_RESULTS[kind]), kind), *_parts(event.get("extended_content"))]
        v0.update(observation="call", content=content, tool_call_metadata=_metadata(event))
    return v0


def _metadata(event: Record) -> Record:
    call = mapping(event.get("tool_call"))
    function = mapping(call.get("function")) or call
    named = {"name": function.get("name") or event.get("tool_name"), "arguments": function.get("arguments")}
    message = {
        "content": _parts(event.get("thought")),
        "reasoning_content": event.get("reasoning_content"),
        "tool_calls": [{"id": event.get("tool_call_id"), "function": named}],
    }
    return {
        "tool_call_id": event.get("tool_call_id"),
        "function_name": event.get("tool_name"),
        "model_response": {"id": event.get("llm_response_id"), "choices": [{"message": message}]},
    }


def _answer(value: Json, kind: str) -> list[Json]:
    """What a tool gave back: its `content`; in the first versions each tool had fields of its own."""
    if isinstance(value, dict):
        content = value.get("content") or value.get("output") or value.get("error")
        return [*([_text("Tool Execution Error. ")] if value.get("is_error") else []), *_parts(content)]
    return [_text(f"Action rejected: {value}" if kind == "UserRejectObservation" else str(value))]


def _parts(content: Json) -> list[Json]:
    if isinstance(content, str):
        return [_text(content)] if content.strip() else []
    parts: list[Json] = []
    for part in mappings(content):
        if isinstance(part.get("text"), str) and part["text"].strip():
            parts.append(_text(part["text"]))
        urls = part.get("image_urls")
        parts += [{"type": "image_url", "image_url": {"url": str(u)}} for u in (urls if isinstance(urls, list) else ())]
    return parts


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
