"""OpenAI Responses (`/v1/responses`): a flat list of items.

A call and its output are items of their own, tied by `call_id`; a reasoning item belongs to the item behind it.
An item type ending in `_call` that carries a `call_id` waits for the client; without one it was done by the
provider. Unknown items pass through. Source: types of the `openai` SDK 3.57 (late 2026) and what Codex sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..media import read_media
from ..types import FormatName, Json, Part, Role
from ..view import without_mark
from .common import decoded, joined_text

name: FormatName = "responses"
list_key = "input"

_APPROVAL = "mcp_approval_request"
_SERVER_CALLS = frozenset({"mcp_call"})
_TEXT = frozenset({"text", "input_text", "output_text"})
_SETTINGS = frozenset({"additional_tools", "configuration_update"})
"""What the client changes on the way: said by no model, and in force from there on."""


def kind_of(data: Mapping[str, Json]) -> str:
    """The item's type; an easy message `{role, content}` has none on the wire."""
    return str(data.get("type") or ("message" if "role" in data else ""))


def role(data: Mapping[str, Json]) -> Role:
    kind = kind_of(data)
    if kind == "message":
        who = data.get("role")
        return "assistant" if who == "assistant" else "system" if who in ("system", "developer") else "user"
    if kind.endswith("_output") or kind == "mcp_approval_response":
        return "tool"
    if kind.startswith("compaction") or kind in _SETTINGS:
        return "system"
    return "assistant"


def parts(data: Mapping[str, Json]) -> tuple[Part, ...]:
    kind = kind_of(data)
    if kind == "message":
        return _message_parts(data)
    if kind == "reasoning":
        texts = [joined_text(data.get("summary")), joined_text(data.get("content"))]
        signed = bool(data.get("encrypted_content") or data.get("id"))
        return (Part("thinking", -1, "\n".join(t for t in texts if t), signed=signed, type=kind),)
    if kind.endswith("_call") or kind == _APPROVAL:
        call, output = _call(data, kind), _own_output(data)
        return (call, Part("result", -1, output, server=True, type=kind)) if output and call.server else (call,)
    if kind.endswith("_output") or kind == "mcp_approval_response":
        return (_result(data, kind),)
    return (Part("opaque", -1, type=kind),)


def _message_parts(data: Mapping[str, Json]) -> tuple[Part, ...]:
    content = data.get("content")
    if isinstance(content, str):
        return (Part("text", -1, content, type="content"),)
    if not isinstance(content, list):
        return ()
    return tuple(_content_part(b, i) for i, b in enumerate(content))


def _content_part(block: Json, i: int) -> Part:
    kind = str(block.get("type", "")) if isinstance(block, dict) else "text"
    if kind in _TEXT:
        return Part("text", i, joined_text([block]), type=kind)
    if kind == "refusal":
        return Part("text", i, str(block.get("refusal") or ""), type=kind)
    media = tuple(read_media(block))
    return Part("media" if media else "opaque", i, media=media, type=kind)


def _call(data: Mapping[str, Json], kind: str) -> Part:
    call_id = data.get("id") if kind == _APPROVAL else data.get("call_id")
    raw = data.get("arguments", data.get("input", data.get("action", data.get("operation"))))
    arguments = decoded(raw) if kind != "custom_tool_call" else None
    return Part(
        "call",
        -1,
        call_id=str(call_id or ""),
        tool=str(data.get("name") or kind.removesuffix("_call")),
        arguments=arguments,
        arguments_text=raw if isinstance(raw, str) else "",
        server=not call_id or kind in _SERVER_CALLS,
        type=kind,
    )


def _own_output(data: Mapping[str, Json]) -> str:
    """What a call holds of its outcome, where the provider made it and there is no item for that."""
    outputs = data.get("output", data.get("outputs", data.get("results")))
    if not isinstance(outputs, list):
        return outputs if isinstance(outputs, str) else ""
    texts = (o.get(key) for o in outputs if isinstance(o, dict) for key in ("logs", "text"))
    return "\n".join(t for t in texts if isinstance(t, str) and t)


def _result(data: Mapping[str, Json], kind: str) -> Part:
    call_id = data.get("approval_request_id") if kind == "mcp_approval_response" else data.get("call_id")
    output = data.get("output")
    media = tuple(m for b in output for m in read_media(b)) if isinstance(output, list) else ()
    if isinstance(output, dict):
        media = tuple(read_media(output))
    return Part(
        "result",
        -1,
        _output_text(output),
        call_id=str(call_id or (data.get("id") if kind == "local_shell_call_output" else "") or ""),
        is_error=data.get("status") == "failed",
        server=not (call_id or kind == "local_shell_call_output"),
        media=media,
        type=kind,
    )


def _output_text(output: Json) -> str:
    if isinstance(output, list) and output and isinstance(output[0], dict) and "stdout" in output[0]:
        return "\n".join(
            str(o.get(k) or "") for o in output if isinstance(o, dict) for k in ("stdout", "stderr") if o.get(k)
        )
    return joined_text(output)


def canonical(data: dict[str, Json]) -> Json:
    if kind_of(data) != "message":
        return data
    content = data.get("content")
    if isinstance(content, str):
        kind = "output_text" if data.get("role") == "assistant" else "input_text"
        return {**data, "type": "message", "content": [{"type": kind, "text": content}]}
    return data if "type" in data else {**data, "type": "message"}


def blocks(data: Mapping[str, Json]) -> list[Json] | None:
    content = data.get("content")
    return content if isinstance(content, list) and kind_of(data) == "message" else None


def with_blocks(data: Mapping[str, Json], blocks: Sequence[Json]) -> dict[str, Json]:
    return {**data, "content": list(blocks)}


def reference(text: str) -> dict[str, Json]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def replace_result(data: Mapping[str, Json], part: Part, text: str) -> Json | None:
    if part.type in ("computer_call_output", "mcp_approval_response", "tool_search_output") or part.server:
        return None
    output: Any = text
    if part.type == "shell_call_output":
        first = data["output"][0] if isinstance(data.get("output"), list) and data["output"] else {}
        output = [{**first, "stdout": text, "stderr": ""}]
    return {**without_mark(data), "output": output}


def replace_text(data: Mapping[str, Json], part: Part, text: str) -> Json:
    kind = "output_text" if data.get("role") == "assistant" else "input_text"
    if part.block >= 0:
        extra: dict[str, Json] = {"annotations": []} if kind == "output_text" else {}
        return {"type": kind, "text": text, **extra}
    return {**data, "content": text}


def replace_arguments(data: Mapping[str, Json], arguments: Mapping[int, Mapping[str, Json]]) -> dict[str, Json]:
    (value,) = arguments.values()
    if data.get("type") == "custom_tool_call":
        return {**data, "input": str(value.get("input", ""))}
    if "arguments" not in data:  # a shell's or a computer's action has a form of its own
        return dict(data)
    return {**data, "arguments": msgspec.json.encode(value).decode()}
