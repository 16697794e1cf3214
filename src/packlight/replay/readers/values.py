"""Values of records as the kind that is expected there: files hold anything anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import jsonio
from ...types import Json
from ..session import seconds_of

Record = dict[str, Any]
"""An object of a file: a record, an event, a message."""


def mapping(value: Json) -> Record:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def mappings(value: Json) -> list[Record]:
    """The objects of a list."""
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def strings(value: Json) -> list[str]:
    """The texts of a list."""
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


def string(value: Json) -> str:
    return value if isinstance(value, str) else ""


def first_text(*values: Json) -> str | None:
    """The first of them that is a text, and not empty."""
    return next((v for v in values if isinstance(v, str) and v), None)


def as_text(value: Json) -> str:
    """A value as its JSON."""
    return jsonio.dump(value).decode("utf-8")


def seconds(timestamp: Json) -> float | None:
    """An ISO time or a number as seconds since the epoch; None when it is neither."""
    return seconds_of(timestamp) if isinstance(timestamp, str) else number(timestamp)


def count(value: Json) -> int:
    """A number of tokens; 0 for what is none."""
    return int(number(value) or 0)


def number(value: Json) -> float | None:
    """A finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
        return None
    return float(value)


def anthropic_usage(fresh: Json, cache_read: Json, cache_write: Json, output: Json) -> Mapping[str, Json] | None:
    """Counts that leave each other out, under the names that `packlight.tokens.usage` knows; None when nothing was
    sent."""
    usage = {
        "input_tokens": count(fresh),
        "cache_read_input_tokens": count(cache_read),
        "cache_creation_input_tokens": count(cache_write),
        "output_tokens": count(output),
    }
    return usage if sum(usage.values()) > usage["output_tokens"] else None


def usage_of(prompt: Json, output: Json, *, cached: Json = 0, written: Json = 0) -> Mapping[str, Json] | None:
    """A usage in the form of Chat Completions. None when it says nothing.

    `prompt` should have the cached tokens in it. Some writers leave them out: it can't be the whole when it is
    smaller than its parts.
    """
    if number(prompt) is None:
        return None
    sent, read, stored = count(prompt), count(cached), count(written)
    if sent < read + stored:
        sent += stored if sent >= read else read + stored
    return {
        "prompt_tokens": sent,
        "completion_tokens": count(output),
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": stored},
    }
