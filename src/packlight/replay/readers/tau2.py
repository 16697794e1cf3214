"""tau2-bench results: simulations of a customer and an agent. What is read is what the agent saw: the customer is a
model too, whose own calls and their results are left out.
"""

from __future__ import annotations

from typing import Any

from ...types import Json
from ..session import Notes, Session, Turn, seconds_of
from .chat_log import ChatLog, call_of, dicts, entries, first_text, usage_of

Record = dict[str, Any]


def recognise(records: list[Record]) -> bool:
    """True when these are results of tau2-bench, or simulations out of them."""
    return any(_simulations(r) for r in records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session for each simulation."""
    sessions = []
    for record, named, own in entries(records, _simulations, name=name, notes=notes):
        simulations = _simulations(record)
        model, policy = _at(record, "agent_info", "llm"), _at(record, "environment_info", "policy")
        for i, simulation in enumerate(simulations):
            known = f"{simulation.get('task_id', i)}.{simulation.get('trial', 0)}"
            sim_name = named if len(simulations) == 1 else f"{named}#{known}"
            sessions.append(_session(simulation, model, policy, sim_name, Notes() if i else own))
    return sessions


def _session(simulation: Record, model: str | None, policy: str | None, name: str, notes: Notes) -> Session:
    log = ChatLog(notes)
    log.say("system", first_text(simulation.get("policy"), policy))
    for message in dicts(simulation.get("messages")):
        _take(log, message, notes)
    segment = log.segment()
    turns = segment.turns if segment else []
    return Session(
        name=name or "session",
        reader="tau2",
        format="chat",
        segments=[segment] if segment else [],
        model=next((t.model for t in turns if t.model), model),
        notes=notes.lines(),
    )


def _take(log: ChatLog, message: Record, notes: Notes) -> None:
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        calls = [call_of(c.get("id"), c.get("name"), c.get("arguments")) for c in dicts(message.get("tool_calls"))]
        raw = message.get("raw_data")
        model = first_text(raw.get("model")) if isinstance(raw, dict) else None
        log.answer(content, calls, turn=Turn(0, _usage(message), seconds_of(message.get("timestamp")), model))
    elif role == "tool":
        for result in dicts(message.get("tool_messages")) or [message]:
            if result.get("requestor") == "user":
                notes.add("result of the customer's own tool left out")
            else:
                log.result(result.get("id"), result.get("content"))
    elif role == "user" and message.get("tool_calls"):
        notes.add("call of the customer's own tool left out")
    else:
        log.say("system" if role == "system" else "user", content)


def _usage(message: Record) -> Any:
    """The message's own count; what came from the cache stands in the provider's reply only."""
    usage, raw = message.get("usage"), message.get("raw_data")
    told = raw.get("usage") if isinstance(raw, dict) else None
    details = told.get("prompt_tokens_details") if isinstance(told, dict) else None
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    if not isinstance(usage, dict):
        return None
    return usage_of(usage.get("prompt_tokens"), usage.get("completion_tokens"), cached=cached)


def _simulations(record: Record) -> list[Record]:
    """Those of a results file; newer files are a bare list of them."""
    if isinstance(record.get("simulations"), list):
        return dicts(record["simulations"])
    is_one = isinstance(record.get("messages"), list) and "termination_reason" in record
    return [record] if is_one else []


def _at(record: Record, part: str, key: str) -> str | None:
    info: Json = record.get("info")
    found = info.get(part) if isinstance(info, dict) else None
    return first_text(found.get(key)) if isinstance(found, dict) else None
