"""Conversations as agents have them, grown turn by turn, and what of a request is compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from engine import body, frozen, key_of

WIRES = ("anthropic", "chat", "responses")
TASK = "Fix the parser. Never touch migrations/. The code word is ORCHID-7731."
MANY = 60
"""Turns that are about 60,000 tokens, far over `WINDOW`."""
WINDOW = 16_000
Json = Any


def opening(task: str = TASK) -> list[Json]:
    return [{"role": "user", "content": task}]


def output(n: int, lines: int = 40, word: str = "value") -> str:
    """What a tool prints at turn n: different each time."""
    return "\n".join(f"src/file_{n}.py:{line}: {word}_{n}_{line} = {n * line % 997}" for line in range(lines))


def turn(wire: str, n: int, text: str | None = None, tool: str = "Read") -> list[Json]:
    """One call and its result."""
    path, text = f"src/file_{n}.py", output(n) if text is None else text
    if wire == "anthropic":
        call = {"type": "tool_use", "id": f"t{n}", "name": tool, "input": {"file_path": path}}
        return [
            {"role": "assistant", "content": [{"type": "text", "text": f"Step {n}."}, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{n}", "content": text}]},
        ]
    arguments = json.dumps({"file_path": path})
    if wire == "chat":
        call = {"id": f"t{n}", "type": "function", "function": {"name": tool, "arguments": arguments}}
        return [
            {"role": "assistant", "content": f"Step {n}.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"t{n}", "content": text},
        ]
    return [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"Step {n}."}]},
        {"type": "function_call", "call_id": f"t{n}", "name": tool, "arguments": arguments},
        {"type": "function_call_output", "call_id": f"t{n}", "output": text},
    ]


def turns(wire: str, count: int, start: int = 0, **options: Any) -> list[Json]:
    return [message for n in range(start, start + count) for message in turn(wire, n, **options)]


def thinking(count: int, start: int = 0) -> list[Json]:
    """Turns of a model whose thinking is signed."""
    messages = turns("anthropic", count, start=start)
    for n, message in enumerate(messages):
        if message["role"] == "assistant":
            block = {"type": "thinking", "thinking": f"hm {start + n}", "signature": f"s{start + n}"}
            message["content"].insert(0, block)
    return messages


def talk(wire: str, count: int = MANY) -> list[Json]:
    return [*opening(), *turns(wire, count)]


def request(wire: str, count: int = MANY, **more: Json) -> Json:
    return body(talk(wire, count), wire, **more)


def grown(wire: str, count: int) -> Iterator[list[Json]]:
    """The same conversation before each of its model calls, parsed anew each time as a stateless client sends it."""
    whole, size = talk(wire, count), len(turn(wire, 0))
    for n in range(count + 1):
        yield copied(whole[: 1 + n * size])


def copied(value: Json) -> Json:
    return json.loads(json.dumps(value))


def sent(c: Any, wire: str) -> list[str]:
    """The list that goes to the provider, each entry as a text without cache marks."""
    items = c.request[key_of(wire)] if isinstance(c.request, dict) else c.request
    return unmarked(items)


def unmarked(items: list[Any]) -> list[str]:
    """Entries as texts to compare by, without cache marks."""
    return [frozen(_unmarked(json.loads(frozen(m)))) for m in items]


def _unmarked(value: Json) -> Json:
    if isinstance(value, dict):
        return {k: _unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [_unmarked(v) for v in value] if isinstance(value, list) else value


def begins_with(now: list[str], before: list[str]) -> bool:
    return now[: len(before)] == before
