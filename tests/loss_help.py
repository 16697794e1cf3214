"""Small recorded sessions in each wire format, made from a script, and walked through controls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from packlight.replay.loss import MessageTexts
from packlight.replay.session import Segment, Session, Turn
from packlight.replay.walk import Engine, walk
from packlight.types import FormatName

FORMATS: tuple[FormatName, ...] = ("anthropic", "chat", "responses")
Step = tuple[Any, ...]
"""`("user", text)`, `("say", text)` or `("call", tool, arguments, result)`."""


def call(tool: str, result: str = "ok", **arguments: Any) -> Step:
    return ("call", tool, arguments, result)


def recorded(steps: Sequence[Step], format: FormatName = "anthropic") -> Session:
    """A session of one window with a model call before everything that the model said."""
    messages: list[dict[str, Any]] = []
    turns = []
    for n, (kind, *rest) in enumerate(steps):
        if kind != "user":
            turns.append(Turn(len(messages), {"input_tokens": 100 * len(messages)}, 10.0 * n))
        messages += _written(format, f"call_{n}", kind, rest)
    return Session("made", "messages", format, [Segment(messages, turns)])


def _written(format: FormatName, id: str, kind: str, rest: list[Any]) -> list[dict[str, Any]]:
    if kind in ("user", "say"):
        return [{"role": "user" if kind == "user" else "assistant", "content": rest[0]}]
    tool, arguments, result = rest
    if format == "anthropic":
        return [
            {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": tool, "input": arguments}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": result}]},
        ]
    body = {"name": tool, "arguments": json.dumps(arguments)}
    if format == "chat":
        calls = [{"id": id, "type": "function", "function": body}]
        return [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": id, "content": result},
        ]
    return [
        {"type": "function_call", "call_id": id, **body},
        {"type": "function_call_output", "call_id": id, "output": result},
    ]


def measured(measure: Any, session: Session, engine: Engine) -> Any:
    """The measure (a class, or a function that makes one of `MessageTexts`) behind the walk."""
    made = measure(MessageTexts(session.format))
    for each in walk(session, engine):
        made.see(each)
    return made


def padding(count: int) -> list[Step]:
    """Calls that name nothing."""
    return [call("Bash", "done", command="make") for _ in range(count)]
