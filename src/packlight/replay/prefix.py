"""Whether one request begins with another, as a prompt cache sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import jsonio
from ..types import Json


def begins_with(sent: Sequence[Any], before: Sequence[Any]) -> bool:
    """True when a request begins with the one before, byte for byte, cache marks aside."""
    return len(sent) >= len(before) and all(
        a is b or bytes_of(a) == bytes_of(b) for a, b in zip(sent, before, strict=False)
    )


def bytes_of(value: Json) -> bytes:
    """Its compact JSON without cache marks."""
    return jsonio.dump(without_marks(value))


def without_marks(value: Json) -> Json:
    if isinstance(value, dict):
        return {k: without_marks(v) for k, v in value.items() if k != "cache_control"}
    if isinstance(value, list):
        return [without_marks(v) for v in value]
    return value
