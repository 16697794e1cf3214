"""Anthropic Messages (`/v1/messages`): content blocks inside user and assistant messages.

Source of the rules: types of the `anthropic` SDK 2.14 and platform.claude.com, late 2026. `system` entries may
stand inside `messages`. Blocks of a type that is not known here are opaque and pass through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from ..media import read_media
from ..types import FormatName, Json, Part, Role
from ..view import without_mark
from .common import joined_text

name: FormatName = "anthropic"
list_key = "messages"


def role(data: Mapping[str, Json]) -> Role:
    who = data.get("role")
    if who == "assistant":
        return "assistant"
    if who in ("system", "developer"):
        return "system"
    content = data.get("content")
    if isinstance(content, list) and content and {"tool_result"}.issuperset(map(_type, content)):
        return "tool"
    return "user"


def parts(data: Mapping[str, Json]) -> tuple[Part, ...]:
    content = data.get("content")
    if isinstance(content, str):
        return (Part("text", 0, content, type="text"),)
    if not isinstance(content, list):
        return ()
    return tuple([_part(block, i) for i, block in enumerate(content)])


def _type(block: Json) -> str:
    kind = block.get("type", "") if isinstance(block, dict) else ""
    return kind if type(kind) is str else str(kind)


def _part(block: Json, i: int) -> Part:
    kind = _type(block)
    if kind == "text":
        return Part("text", i, str(block.get("text") or ""), type=kind)
    if kind == "thinking":
        return Part("thinking", i, str(block.get("thinking") or ""), signed=bool(block.get("signature")), type=kind)
    if kind == "redacted_thinking":
        return Part("thinking", i, signed=True, type=kind)
    if kind.endswith("tool_use"):
        return _call(block, i, kind)
    if kind.endswith("tool_result"):
        return _result(block, i, kind)
    media = tuple(read_media(block)) if kind in ("image", "document") else ()
    if media:
        return Part("media", i, media=media, type=kind)
    return Part("opaque", i, joined_text([block]), type=kind)


def _call(block: dict[str, Any], i: int, kind: str) -> Part:
    arguments = block.get("input")
    return Part(
        "call",
        i,
        call_id=str(block.get("id") or ""),
        tool=str(block.get("name") or ""),
        arguments=arguments if isinstance(arguments, dict) else None,
        arguments_text="" if isinstance(arguments, dict) else str(arguments or ""),
        server=kind != "tool_use",
        type=kind,
    )


def _result(block: dict[str, Any], i: int, kind: str) -> Part:
    content = block.get("content")
    media = tuple(m for b in content for m in read_media(b)) if isinstance(content, list) else ()
    return Part(
        "result",
        i,
        joined_text(content) if not isinstance(content, dict) else _typed_text(content),
        call_id=str(block.get("tool_use_id") or ""),
        is_error=bool(block.get("is_error")),
        server=kind != "tool_result",
        media=media,
        type=kind,
    )


def _typed_text(content: Mapping[str, Json]) -> str:
    """What can be read of a result of the provider's own tools: an output, a file, a page."""
    inner = content.get("content")
    texts = [content.get("stdout"), content.get("stderr"), joined_text([inner] if isinstance(inner, dict) else inner)]
    return "\n".join(t for t in texts if isinstance(t, str) and t)


def canonical(data: dict[str, Json]) -> Json:
    content = data.get("content")
    if isinstance(content, str):
        return {**data, "content": [{"type": "text", "text": content}]}
    if isinstance(content, list):
        blocks = list(map(_canonical_block, content))
        if not all(map(is_, blocks, content)):
            return {**data, "content": blocks}
    return data


def _canonical_block(block: Json) -> Json:
    if not isinstance(block, dict):
        return block
    if "cache_control" in block:
        block = without_mark(block)
    if block.get("type") == "tool_result":
        content = block.get("content")
        if isinstance(content, str):
            return {**block, "content": [{"type": "text", "text": content}]}
        if isinstance(content, list) and any(isinstance(b, dict) and "cache_control" in b for b in content):
            return {**block, "content": [without_mark(b) for b in content]}
    return block


def blocks(data: Mapping[str, Json]) -> list[Json] | None:
    content = data.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def with_blocks(data: Mapping[str, Json], blocks: Sequence[Json]) -> dict[str, Json]:
    return {**data, "content": list(blocks)}


def reference(text: str) -> dict[str, Json]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def replace_result(data: Mapping[str, Json], part: Part, text: str) -> Json | None:
    if part.server:  # its content is typed and partly encrypted: the provider takes no text there
        return None
    return {**without_mark(data["content"][part.block]), "content": text}


def replace_text(data: Mapping[str, Json], part: Part, text: str) -> Json:
    return {"type": "text", "text": text}


def replace_arguments(data: Mapping[str, Json], arguments: Mapping[int, Mapping[str, Json]]) -> dict[str, Json]:
    content = list(data["content"])
    for i, value in arguments.items():
        content[i] = {**content[i], "input": dict(value)}
    return {**data, "content": content}
