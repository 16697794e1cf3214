"""How large a request may be: the model's window less the room for its answer and the counter's margin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import models

MAX_ROOM_TOKENS = 20_000
SMALL_ROOM_TOKENS = 8_000
"""Enough for nearly every answer: of 7,002 that agents recorded, 0.17 % were longer, and 0.03 % than 16,000."""
MARGIN_ESTIMATED = 0.08
"""Share of the window kept free while sizes are estimates: about the estimate's mean error (bench/tokens.py)."""
MARGIN_CALIBRATED = 0.02
ROOM_KEYS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    window_tokens: int | None
    window_source: str
    room_tokens: int
    """Kept free for the answer."""
    budget_tokens: int | None
    """What the request may weigh; None when the window is not known."""
    max_bytes: int | None = None
    max_images: int | None = None
    max_image_pixels: int | None = None
    cache_seconds: float = 300.0
    cache_read_ratio: float | None = None
    cache_write_ratio: float = 1.0


def limits_of(
    model: str | None,
    head: Mapping[str, Any],
    *,
    window_tokens: int | None,
    max_input_tokens: int | None,
    overrides: Mapping[str, Any] | None,
    learned: int | None,
    calibrated: bool,
) -> Limits:
    """The limits of one request: what the user set, else what is known of the model, less what an error taught."""
    known = models.lookup(model, overrides) if model else None
    window, source = window_tokens, "argument"
    if window is None and known is not None and known.context_window_tokens:
        window, source = known.context_window_tokens, "model data"
    if learned is not None and (window is None or learned < window):
        window, source = learned, "learned from an error"
    if window is None:
        source = "argument" if max_input_tokens else "unknown"
    room = _room(head, known.max_output_tokens if known else None, window)
    margin = MARGIN_CALIBRATED if calibrated else MARGIN_ESTIMATED
    budget = max(1, round(window - room - window * margin)) if window is not None else None
    if max_input_tokens is not None:
        budget = max_input_tokens
    return Limits(
        window_tokens=window,
        window_source=source,
        room_tokens=room,
        budget_tokens=budget,
        max_bytes=known.max_request_bytes if known else None,
        max_images=known.max_images if known else None,
        max_image_pixels=known.max_image_pixels_many if known else None,
        cache_seconds=(known.cache_seconds if known else None) or 300.0,
        cache_read_ratio=_ratio(known.cache_read_usd, known.input_usd) if known else None,
        cache_write_ratio=(_ratio(known.cache_write_usd, known.input_usd) if known else None) or 1.0,
    )


def _room(head: Mapping[str, Any], max_output_tokens: int | None, window: int | None) -> int:
    """The request's own `max_tokens`, else what an answer needs.

    At most the model's output, 20,000 and a quarter of the window; nor more than an eighth of it, but where that is
    less than nearly every answer fits in.
    """
    asked = next((head[k] for k in ROOM_KEYS if isinstance(head.get(k), int) and head[k] > 0), None)
    if asked is not None and (window is None or asked < window * 3 // 4):
        return int(asked)
    share = min(window // 4, max(SMALL_ROOM_TOKENS, window // 8)) if window else MAX_ROOM_TOKENS
    return min(max_output_tokens or MAX_ROOM_TOKENS, MAX_ROOM_TOKENS, share)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
