"""What a scripted model says, as the body that each of the three APIs answers with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Json = Any
Wire = Literal["anthropic", "chat", "responses"]
PATHS: dict[str, Wire] = {"/messages": "anthropic", "/chat/completions": "chat", "/responses": "responses"}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. Arguments given as text go out as they are, broken JSON too (not to Anthropic's clients)."""

    name: str
    arguments: Mapping[str, Json] | str = field(default_factory=dict)
    is_custom: bool = False
    """Of a custom tool, whose input is text (Responses only)."""

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(dict(self.arguments))


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model: text, calls, thinking."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    is_cut: bool = False
    """It stopped for its length."""
    output_tokens: int = 80


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error instead of an answer."""

    status: int = 400
    message: str = "some field is not what it should be"
    code: str = "invalid_value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What goes into `usage`."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int


def body_of(wire: Wire, reply: Reply, number: int, counted: Counted, model: str) -> Json:
    """The whole answer, as it comes without streaming. `number` makes its ids."""
    return _BODIES[wire](reply, number, counted, model)


def refusal_body(wire: Wire, refusal: Refusal) -> Json:
    if wire == "anthropic":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": refusal.message}}
    error = {"message": refusal.message, "type": "invalid_request_error", "code": refusal.code, "param": None}
    return {"error": error}


def is_compaction(wire: Wire, request: Json) -> bool:
    """It asks the provider to compact (Codex 0.171)."""
    items = request.get("input")
    return wire == "responses" and isinstance(items, list) and items[-1:] == [{"type": "compaction_trigger"}]


def compaction_item(number: int) -> Json:
    return {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": f"gAAA-compacted-{number}"}


def _anthropic(reply: Reply, number: int, counted: Counted, model: str) -> Json:
    content: list[Json] = []
    if reply.thinking:
        content.append({"type": "thinking", "thinking": reply.thinking, "signature": f"sig-{number}"})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    content += [
        {
            "type": "tool_use",
            "id": f"toolu_{number}_{n}",
            "name": call.name,
            "input": json.loads(call.text),
        }
        for n, call in enumerate(reply.calls)
    ]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "max_tokens" if reply.is_cut else "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": counted.input_tokens - counted.cached_tokens,
            "cache_read_input_tokens": counted.cached_tokens,
            "cache_creation_input_tokens": 0,
            "output_tokens": counted.output_tokens,
        },
    }


def _chat(reply: Reply, number: int, counted: Counted, model: str) -> Json:
    message: Json = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = [
            {"id": f"call_{number}_{n}", "type": "function", "function": {"name": call.name, "arguments": call.text}}
            for n, call in enumerate(reply.calls)
        ]
    finish = "length" if reply.is_cut else "tool_calls" if reply.calls else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": counted.input_tokens,
            "completion_tokens": counted.output_tokens,
            "total_tokens": counted.input_tokens + counted.output_tokens,
            "prompt_tokens_details": {"cached_tokens": counted.cached_tokens},
        },
    }


def _responses(reply: Reply, number: int, counted: Counted, model: str) -> Json:
    output: list[Json] = []
    if reply.thinking:
        output.append({"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"gAAA{number}"})
    if reply.text:
        text = {"type": "output_text", "text": reply.text, "annotations": []}
        output.append(
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}
        )
    for n, call in enumerate(reply.calls):
        kind = {"type": "custom_tool_call"} if call.is_custom else {"type": "function_call"}
        said = {"input": call.text} if call.is_custom else {"arguments": call.text}
        ids = {"id": f"{'ctc' if call.is_custom else 'fc'}_{number}_{n}", "call_id": f"call_{number}_{n}"}
        output.append({**kind, **ids, "name": call.name, **said, "status": "completed"})
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "status": "incomplete" if reply.is_cut else "completed",
        "model": model,
        "output": output,
        "usage": {
            "input_tokens": counted.input_tokens,
            "input_tokens_details": {"cached_tokens": counted.cached_tokens},
            "output_tokens": counted.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": counted.input_tokens + counted.output_tokens,
        },
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if reply.is_cut else None,
        "instructions": None,
        "metadata": {},
    }


_BODIES: dict[str, Callable[[Reply, int, Counted, str], Json]] = {
    "anthropic": _anthropic,
    "chat": _chat,
    "responses": _responses,
}
