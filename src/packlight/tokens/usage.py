"""What a provider says it counted: the `usage` of a reply, of whichever API, as one number each.

The three APIs disagree about the cache. Anthropic's `input_tokens` leaves out what was read from and written to
it (platform.claude.com, prompt caching: total = input + cache_read + cache_creation); OpenAI's `prompt_tokens`
and `input_tokens` include it. They are told apart by their fields, since a gateway may use either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_CACHE_FIELDS = ("cache_read_input_tokens", "cache_creation_input_tokens")


def input_tokens(usage: Any) -> int | None:
    """Everything that was sent, cached or not: the size of the request. None when the usage does not say."""
    usage = _context(usage)
    if (prompt := _number(usage, "prompt_tokens")) is not None:
        return prompt
    if (fresh := _number(usage, "input_tokens")) is not None:
        if _get(usage, "input_tokens_details") is not None:
            return fresh
        return fresh + sum(_number(usage, field) or 0 for field in _CACHE_FIELDS)
    cached = [_number(usage, field) for field in _CACHE_FIELDS]
    if any(cached):
        return sum(count or 0 for count in cached)
    return _number(usage, "promptTokenCount")


def output_tokens(usage: Any) -> int | None:
    """What the model wrote, its reasoning included. None when the usage does not say."""
    usage = _context(usage)
    for field in ("output_tokens", "completion_tokens"):
        if (count := _number(usage, field)) is not None:
            return count
    written = _number(usage, "candidatesTokenCount")
    return None if written is None else written + (_number(usage, "thoughtsTokenCount") or 0)


def cache_read_tokens(usage: Any) -> int:
    """How much of the input came from the prompt cache; 0 when the usage does not say."""
    return _first(_context(usage), _READ_FIELDS, "cached_tokens") or 0


def cache_write_tokens(usage: Any) -> int:
    """How much of the input was written to the prompt cache; 0 when the usage does not say."""
    return _first(_context(usage), _WRITE_FIELDS, "cache_write_tokens") or 0


def cache_write_hour_tokens(usage: Any) -> int:
    """How much of what was written is kept for an hour, at Anthropic's higher price; 0 when the usage does not say."""
    return _number(_get(_context(usage), "cache_creation"), "ephemeral_1h_input_tokens") or 0


def tells_cache(usage: Any) -> bool:
    """True when a usage says what came from the prompt cache, be it nothing."""
    usage = _context(usage)
    told = _first(usage, _READ_FIELDS, "cached_tokens"), _first(usage, _WRITE_FIELDS, "cache_write_tokens")
    return any(count is not None for count in told)


_READ_FIELDS = ("cache_read_input_tokens", "prompt_cache_hit_tokens", "cachedContentTokenCount", "cached_input_tokens")
"""Anthropic, DeepSeek, Gemini, and Codex in its session files."""
_WRITE_FIELDS = ("cache_creation_input_tokens",)


def _first(usage: Any, fields: Iterable[str], detail: str) -> int | None:
    """The first of these fields that is there, or the detail of that name."""
    for field in fields:
        if (count := _number(usage, field)) is not None:
            return count
    for field in ("prompt_tokens_details", "input_tokens_details"):
        if (count := _number(_get(usage, field), detail)) is not None:
            return count
    return None


def _context(usage: Any) -> Any:
    """The part of a usage that describes the request as the model last saw it.

    With server-side compaction Anthropic lists each sampling step in `iterations` (platform.claude.com,
    compaction: the compaction step is billed there and is not in the top-level fields). The last step of type
    `message` is what the context held in the end.
    """
    iterations = _get(usage, "iterations")
    if isinstance(iterations, (list, tuple)):
        for step in reversed(iterations):
            if _get(step, "type") in (None, "message") and _number(step, "input_tokens") is not None:
                return step
    return usage


def _get(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def _number(value: Any, name: str) -> int | None:
    count = _get(value, name)
    if isinstance(count, bool) or not isinstance(count, (int, float)) or not 0 <= count < 1e15:
        return None
    return int(count)
