"""tau2-bench results: simulations of a customer and an agent. What is read is what the agent saw: the customer is a
model too, whose own calls and their results are left out.
"""

from __future__ import annotations

from typing import Any

from ..session import Notes, Session, Turn
from .chat_log import ChatLog, call_of
from .sessions import runs_of, session_of
from .values import Record, first_text, mapping, mappings, seconds, usage_of


def recognise(records: list[Record]) -> bool:
    return any(_simulations(r) for r in records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session for each simulation."""
    sessions = []
    for record, named, own in runs_of(records, _simulations, name=name, notes=notes):
        simulations = _simulations(record)
        info = mapping(record.get("info"))
        model = first_text(mapping(info.get("agent_info")).get("llm"))
        policy = first_text(mapping(info.get("environment_info")).get("policy"))
        for i, simulation in enumerate(simulations):
            known = f"{simulation.get('task_id', i)}.{simulation.get('trial', 0)}"
            sim_name = named if len(simulations) == 1 else f"{named}#{known}"
            sessions.append(_session(simulation, model, policy, sim_name, Notes() if i else own))
    return sessions


def _session(simulation: Record, model: str | None, policy: str | None, name: str, notes: Notes) -> Session:
    log = ChatLog(notes)
    log.say("system", first_text(simulation.get("policy"), policy))
    for message in mappings(simulation.get("messages")):
        _take(log, message, notes)
    return session_of("tau2", "chat", [log.segment()], notes, name, model=model)


def _take(log: ChatLog, message: Record, notes: Notes) -> None:
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        calls = [call_of(c.get("id"), c.get("name"), c.get("arguments")) for c in mappings(message.get("tool_calls"))]
        model = first_text(mapping(message.get("raw_data")).get("model"))
        log.answer(content, calls, turn=Turn(0, _usage(message), seconds(message.get("timestamp")), model))
    elif role == "tool":
        for result in mappings(message.get("tool_messages")) or [message]:
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
    usage, told = mapping(message.get("usage")), mapping(mapping(message.get("raw_data")).get("usage"))
    cached = mapping(told.get("prompt_tokens_details")).get("cached_tokens")
    return usage_of(usage.get("prompt_tokens"), usage.get("completion_tokens"), cached=cached)


def _simulations(record: Record) -> list[Record]:
    """Those of a results file; newer files are a bare list of them."""
    if isinstance(record.get("simulations"), list):
        return mappings(record["simulations"])
    is_one = isinstance(record.get("messages"), list) and "termination_reason" in record
    return [record] if is_one else []
