"""smolagents benchmark records: a question a line, its `intermediate_steps` as messages; calls are text.

What smolagents sends merges neighbours of one role, a `tool-call` being the assistant's and a `tool-response` the
user's (`get_clean_message_list`); so do the messages here.
"""

from __future__ import annotations

from typing import Any

from ...types import Json
from ..session import Notes, Segment, Session, Turn
from .chat_log import clean_content, joined
from .sessions import runs_of, session_of
from .values import Record, first_text, mapping, mappings, usage_of

_ROLES = {"system": "system", "assistant": "assistant", "tool-call": "assistant"}


def recognise(records: list[Record]) -> bool:
    return any(isinstance(r.get("intermediate_steps"), list) and "agent_action_type" in r for r in records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session for each question."""
    return [_session(*entry) for entry in runs_of(records, _steps, name=name, notes=notes)]


def _session(record: Record, name: str, notes: Notes) -> Session:
    model = first_text(record.get("model_id"))
    return session_of("smolagents", "chat", [_segment(_steps(record))], notes, name, model=model)


def _steps(record: Record) -> list[Record]:
    return mappings(record.get("intermediate_steps"))


def _segment(steps: list[Record]) -> Segment | None:
    messages: list[Record] = []
    turns: list[Turn] = []
    asked = False
    for step in steps:
        role = _ROLES.get(str(step.get("role")), "user")
        content = clean_content(step.get("content"))
        if not content:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] = joined(messages[-1]["content"], content)
            continue
        if role == "assistant" and asked:
            turns.append(Turn(len(messages), _usage(step.get("token_usage"))))
        asked = asked or role == "user"
        messages.append({"role": role, "content": content})
    return Segment(messages, turns) if turns else None


def _usage(usage: Json) -> Any:
    return usage_of(mapping(usage).get("input_tokens"), mapping(usage).get("output_tokens"))
