"""The three wire formats: telling which one a request is, and reading its messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from ..errors import InvalidRequest, UnknownFormat
from ..types import Format, FormatName, Json, Message
from . import anthropic, chat, responses
from .common import plain

__all__ = [
    "FORMATS",
    "detect",
    "encode",
    "encode_as_is",
    "format_named",
    "identity",
    "plain",
    "read_message",
    "split",
]

FORMATS: dict[str, Format] = {m.name: cast(Format, m) for m in (anthropic, chat, responses)}

_encoder = msgspec.json.Encoder(order="sorted")

_ANTHROPIC_KEYS = frozenset({"system", "stop_sequences", "anthropic_version", "anthropic_beta", "thinking", "top_k"})
_ANTHROPIC_BLOCKS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "document"}
)
_CHAT_BLOCKS = frozenset({"image_url", "input_audio", "file"})
_CHAT_KEYS = frozenset({"tool_calls", "function_call", "tool_call_id", "reasoning_content", "refusal"})
_RESPONSES_BLOCKS = frozenset({"input_text", "output_text", "input_image", "input_file"})


def format_named(name: str) -> Format:
    """The format of that name. Raises UnknownFormat."""
    try:
        return FORMATS[name]
    except KeyError:
        raise UnknownFormat(f"unknown format {name!r}: one of {', '.join(FORMATS)}") from None


def split(request: Json, name: str | None = None) -> tuple[Format, list[Any], Mapping[str, Any]]:
    """A request as its format, its list (the caller's own objects) and the rest of its body.

    Raises InvalidRequest when it is neither a body with a list nor a list, UnknownFormat when it can't be told.
    """
    if isinstance(request, (list, tuple)):
        items = list(request)
        fmt = format_named(name) if name else detect(items, {})
        return fmt, items, {}
    if not isinstance(request, Mapping):
        raise InvalidRequest(f"a request is an object or a list, not {type(request).__name__}")
    key = "input" if "input" in request and "messages" not in request else "messages"
    if key not in request:
        raise InvalidRequest("a request has `messages` (Anthropic, Chat Completions) or `input` (Responses)")
    head = {k: v for k, v in request.items() if k != key}
    items = request[key]
    if isinstance(items, str) and key == "input":
        items = [{"role": "user", "content": items}]
    if not isinstance(items, (list, tuple)):
        raise InvalidRequest(f"`{key}` must be a list, not {type(items).__name__}")
    fmt = format_named(name) if name else FORMATS["responses"] if key == "input" else detect(items, head)
    return fmt, list(items), head


def detect(items: Iterable[Any], head: Mapping[str, Any]) -> Format:
    """The format that a list is in; plain ambiguous text is `chat`."""
    return FORMATS[_by_head(head) or next(filter(None, map(_by_message, items)), None) or "chat"]


def _by_head(head: Mapping[str, Any]) -> FormatName | None:
    if _ANTHROPIC_KEYS & head.keys() and not isinstance(head.get("system"), bool):
        return "anthropic"
    if "max_tokens" in head and str(head.get("model")).startswith("claude"):
        return "anthropic"  # who calls Claude through another API names it `anthropic/claude-...`
    tools = head.get("tools")
    first = tools[0] if isinstance(tools, (list, tuple)) and tools else None
    if isinstance(first, Mapping):
        if "function" in first:
            return "chat"
        if "input_schema" in first:
            return "anthropic"
    return None


def _by_message(item: Any) -> FormatName | None:
    if not isinstance(item, dict):
        item = plain(item)
    kind = item.get("type")
    if isinstance(kind, str) and (kind == "message" or "role" not in item):
        return "responses"
    if item.get("role") in ("tool", "function") or _CHAT_KEYS & item.keys():
        return "chat"
    content = item.get("content")
    if not isinstance(content, list):
        return None
    return next(filter(None, map(_by_block, content)), None)


def _by_block(block: Any) -> FormatName | None:
    kind = block.get("type") if isinstance(block, dict) else getattr(block, "type", None)
    if not isinstance(kind, str):
        return None
    if kind in _ANTHROPIC_BLOCKS or kind.endswith("_tool_result"):
        return "anthropic"
    if kind == "image":
        return "anthropic"
    if kind in _CHAT_BLOCKS and (kind != "file" or (isinstance(block, dict) and "file" in block)):
        return "chat"
    return "responses" if kind in _RESPONSES_BLOCKS else None


def encode(value: Json) -> bytes:
    """Compact JSON with sorted keys; lone surrogates as escapes, so that it is always UTF-8."""
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, msgspec.MsgspecError, ValueError, OverflowError):
        return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=True).encode()


def encode_as_is(value: Json) -> bytes:
    """Compact JSON in the order of its keys, for what is to come back exactly as it was."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, msgspec.MsgspecError, ValueError, OverflowError):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()


@dataclass(slots=True)
class Identity:
    """What makes a message the same message again."""

    hash: bytes
    size_bytes: int
    lone_surrogates: bool


def identity(fmt: Format, data: dict[str, Json]) -> Identity:
    """The hash of a message's canonical form, and its size."""
    canonical = fmt.canonical(data)
    try:
        body, lone = _encoder.encode(canonical), False
    except UnicodeEncodeError:
        body, lone = encode(canonical), True
    except (msgspec.MsgspecError, ValueError, OverflowError):
        body, lone = encode(canonical), False
    return Identity(hashlib.sha256(body).digest(), len(body), lone)


def read_message(fmt: Format, raw: Any, count: Callable[[Json], int], known: Identity | None = None) -> Message:
    """A message read once: its parts, its size, its identity. Raises InvalidRequest when it is no object.

    Whoever knows its identity has made it plain.
    """
    data = raw if known is not None else plain(raw)
    who = known or identity(fmt, data)
    parts = fmt.parts(data)
    return Message(
        data=data,
        role=fmt.role(data),
        parts=parts,
        tokens=count(data),
        size_bytes=who.size_bytes,
        hash=who.hash,
        images=sum([len(p.media) for p in parts]),
        lone_surrogates=who.lone_surrogates,
    )
