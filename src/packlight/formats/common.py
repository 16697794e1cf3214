"""What the three formats share: reading text out of content, cache marks, SDK objects as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import InvalidRequest
from ..types import Json

_PLAIN = frozenset({str, int, float, bool, type(None), dict})
_TEXT_TYPES = ("text", "input_text", "output_text", "summary_text", "reasoning_text")


def joined_text(content: Json) -> str:
    """The text of a content value: a string as it is, what can be read of blocks joined by a newline, else nothing.

    Documents and search results count with the text that they hold.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    if len(content) == 1:
        return _text(content[0])
    return "\n".join(t for t in map(_text, content) if t)


def _text(block: Json) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, dict) and block.get("type", "text") in _TEXT_TYPES:
        text = block.get("text")
        return text if isinstance(text, str) else ""
    if not isinstance(block, dict):
        return ""
    source = block.get("source")
    if block.get("type") == "document" and isinstance(source, dict) and source.get("type") in ("text", "content"):
        return joined_text(source.get("data", source.get("content")))
    return joined_text(block.get("content")) if block.get("type") == "search_result" else ""


def decoded(arguments: Json) -> dict[str, Json] | None:
    """Tool arguments as an object, or None when they are no JSON object."""
    if isinstance(arguments, dict):
        return arguments
    if not isinstance(arguments, str):
        return None
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def plain(message: Any) -> dict[str, Json]:
    """A message as a plain dict: the same object when it is one, an SDK object dumped as its SDK would send it.

    Raises InvalidRequest for anything that is neither.
    """
    if type(message) is dict and _is_plain(message):
        return message
    if type(message) is not dict:
        message = _dumped(message)
        if not isinstance(message, dict):
            raise InvalidRequest(f"a message must be an object, not {type(message).__name__}")
    changed = {k: v for k, v in ((k, _plain_value(v)) for k, v in message.items()) if v is not message[k]}
    return {**message, **changed} if changed else message


def _is_plain(message: dict[str, Any]) -> bool:
    """Whether `_plain_value` would give each value back as it is: every message is asked, most are."""
    for value in message.values():
        kind = type(value)
        if kind is list:
            for item in value:
                if type(item) not in _PLAIN:
                    return False
        elif kind not in _PLAIN:
            return False
    return True


def _plain_value(value: Any) -> Json:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        if all(type(v) in _PLAIN for v in value):
            return value
        return [_plain_value(v) for v in value]
    return _dumped(value)


def _dumped(value: Any) -> Json:
    if isinstance(value, Mapping):
        return {str(k): _plain_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_value(v) for v in value]
    if hasattr(value, "model_dump"):  # pydantic, as both official SDKs send it
        return value.model_dump(mode="json", exclude_unset=True, by_alias=True)
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    raise InvalidRequest(f"cannot read a {type(value).__name__} as part of a message")
