"""A window that was put together from blocks, as messages of Chat Completions.

For agents whose provider's own form is none of the three that packlight reads (Gemini, Copilot's gateway, LangChain):
what was said, called and returned is the same, what belongs to the provider alone (thoughts, signatures) is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ... import jsonio
from ...types import Json
from ..session import Segment
from .claude_window import Block
from .lines import kind_of
from .values import mapping, string


def in_chat_form(segments: Iterable[Segment | None], system: str = "") -> list[Segment]:
    """The same segments, with `system` as their first message."""
    known: dict[int, list[dict[str, Any]]] = {}  # windows share what did not change between them
    return [_segment(s, [{"role": "system", "content": system}] if system else [], known) for s in segments if s]


def _segment(segment: Segment, messages: list[dict[str, Any]], known: dict[int, list[dict[str, Any]]]) -> Segment:
    place_of = []
    for message in segment.messages:
        place_of.append(len(messages))
        if id(message) not in known:
            blocks = message["content"]
            known[id(message)] = [_assistant(blocks)] if message["role"] == "assistant" else _user(blocks)
        messages += known[id(message)]
    place_of.append(len(messages))
    turns = [replace(t, end=place_of[t.end]) for t in segment.turns]
    return Segment(messages, turns, segment.compaction)


def _assistant(blocks: list[Block]) -> dict[str, Any]:
    calls = [_call(b) for b in blocks if kind_of(b) == "tool_use"]
    said, thought = _content(blocks), "".join(string(b.get("thinking")) for b in blocks if kind_of(b) == "thinking")
    told = {"role": "assistant", "content": said or None, **({"reasoning_content": thought} if thought else {})}
    return {**told, "tool_calls": calls} if calls else told


def _call(block: Block) -> dict[str, Any]:
    arguments = block["input"] if isinstance(block["input"], str) else jsonio.dump(block["input"]).decode()
    return {
        "id": block["id"],
        "type": "function",
        "function": {"name": string(block.get("name")), "arguments": arguments},
    }


def _user(blocks: list[Block]) -> list[dict[str, Any]]:
    """Each result is a message of its own."""
    results = [b for b in blocks if kind_of(b) == "tool_result"]
    said = _content(blocks)
    return [
        *({"role": "tool", "tool_call_id": b["tool_use_id"], "content": _content(b["content"])} for b in results),
        *([{"role": "user", "content": said}] if said else []),
    ]


def _content(content: Json) -> str | list[dict[str, Any]]:
    """Text where there is nothing else."""
    if isinstance(content, str):
        return content
    parts = [p for b in content if (p := _part(b))]
    return parts[0]["text"] if len(parts) == 1 and "text" in parts[0] else parts or ""


def _part(block: Block) -> dict[str, Any] | None:
    if kind_of(block) == "text":
        return {"type": "text", "text": block["text"]}
    if kind_of(block) == "image":
        source = mapping(block.get("source"))
        return {
            "type": "image_url",
            "image_url": {"url": f"data:{source.get('media_type')};base64,{source.get('data')}"},
        }
    return None
