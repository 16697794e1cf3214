"""OpenAI Chat Completions (`/v1/chat/completions`), and everybody who speaks it.

Calls stand in `tool_calls` of an assistant message, each result is a message of its own. Fields that are not
known here (`reasoning_content`, `annotations`, ...) pass through. Source: types of the `openai` SDK 3.57.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ..media import read_media
from ..types import FormatName, Json, Part, Role
from ..view import without_mark
from .common import decoded, joined_text

name: FormatName = "chat"
list_key = "messages"

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_MEDIA = frozenset({"image_url", "input_audio", "file", "image", "document"})


def role(data: Mapping[str, Json]) -> Role:
    return _ROLES.get(str(data.get("role")), "user")


def parts(data: Mapping[str, Json]) -> tuple[Part, ...]:
    if role(data) == "tool":
        return (_result(data),)
    return tuple(_message_parts(data))


def _result(data: Mapping[str, Json]) -> Part:
    content = data.get("content")
    media = tuple(m for b in content for m in read_media(b)) if isinstance(content, list) else ()
    legacy = data.get("role") == "function"
    call_id = f"function:{data.get('name')}" if legacy else str(data.get("tool_call_id") or "")
    return Part("result", -1, joined_text(content), call_id=call_id, media=media, type=str(data.get("role")))


def _message_parts(data: Mapping[str, Json]) -> Iterator[Part]:
    for key in ("reasoning_content", "reasoning"):
        if isinstance(data.get(key), str) and data[key]:
            yield Part("thinking", -1, data[key], type=key)
    content = data.get("content")
    if isinstance(content, str):
        yield Part("text", -1, content, type="content")
    elif isinstance(content, list):
        yield from (_content_part(b, i) for i, b in enumerate(content))
    if isinstance(data.get("refusal"), str) and data["refusal"]:
        yield Part("text", -1, data["refusal"], type="refusal")
    calls = data.get("tool_calls")
    for i, call in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(call, dict):
            yield _call(call, i)
    legacy = data.get("function_call")
    if isinstance(legacy, dict):
        yield _call({"id": f"function:{legacy.get('name')}", "function": legacy}, 0, "function_call")


def _content_part(block: Json, i: int) -> Part:
    kind = str(block.get("type", "text")) if isinstance(block, dict) else "text"
    if kind in _MEDIA:
        media = tuple(read_media(block))
        return Part("media" if media else "opaque", i, media=media, type=kind)
    if kind in ("text", "refusal"):
        text = joined_text([block]) if kind == "text" else str(block.get("refusal") or "")
        return Part("text", i, text, type=kind)
    if kind == "thinking" and isinstance(block, dict):
        return Part("thinking", i, joined_text(block.get("thinking")), type=kind)
    return Part("opaque", i, type=kind)


def _call(call: Mapping[str, Json], i: int, kind: str = "") -> Part:
    body = call.get("function") or call.get("custom") or {}
    text = body.get("arguments", body.get("input")) if isinstance(body, dict) else None
    return Part(
        "call",
        -1,
        call_id=str(call.get("id") or ""),
        tool=str(body.get("name") or "") if isinstance(body, dict) else "",
        arguments=decoded(text) if "custom" not in call else None,
        arguments_text=text if isinstance(text, str) else "",
        type=kind or str(call.get("type") or "function"),
        index=i,
    )


def canonical(data: dict[str, Json]) -> Json:
    content = data.get("content")
    if "cache_control" in data:
        data = without_mark(data)
    if content is None and "content" in data:
        return {k: v for k, v in data.items() if k != "content"}
    if isinstance(content, list):
        if len(content) == 1 and isinstance(content[0], dict) and set(content[0]) <= {"type", "text", "cache_control"}:
            text = content[0].get("text")
            if content[0].get("type") == "text" and isinstance(text, str):
                return {**data, "content": text}
        if any(isinstance(b, dict) and "cache_control" in b for b in content):
            return {**data, "content": [without_mark(b) for b in content]}
    return data


def blocks(data: Mapping[str, Json]) -> list[Json] | None:
    content = data.get("content")
    return content if isinstance(content, list) and role(data) != "tool" else None


def with_blocks(data: Mapping[str, Json], blocks: Sequence[Json]) -> dict[str, Json]:
    return {**data, "content": list(blocks)}


def reference(text: str) -> dict[str, Json]:
    return {"role": "user", "content": text}


def replace_result(data: Mapping[str, Json], part: Part, text: str) -> Json | None:
    return {**without_mark(data), "content": text}


def replace_text(data: Mapping[str, Json], part: Part, text: str) -> Json:
    if part.block >= 0:
        return {"type": "text", "text": text}
    return {**without_mark(data), "content": text}


def replace_arguments(data: Mapping[str, Json], arguments: Mapping[int, Mapping[str, Json]]) -> dict[str, Json]:
    read = parts(data)
    data = dict(data)
    for place, value in arguments.items():
        part = read[place]
        if part.type == "function_call":
            data["function_call"] = {**data["function_call"], "arguments": _encoded(value)}
            continue
        calls = list(data["tool_calls"])
        key, field = ("custom", "input") if "custom" in calls[part.index] else ("function", "arguments")
        text = str(value.get("input", "")) if key == "custom" else _encoded(value)
        calls[part.index] = {**calls[part.index], key: {**calls[part.index][key], field: text}}
        data["tool_calls"] = calls
    return data


def _encoded(value: Mapping[str, Json]) -> str:
    return msgspec.json.encode(value).decode()
