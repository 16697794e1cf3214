"""What an overflow error asks for: a shorter answer, or a smaller request, and how much smaller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .budget import ROOM_KEYS, Limits
from .overflow import Overflow

MAX_ATTEMPTS = 3
"""Tries after an overflow, each strictly smaller."""
_SHARE = (0.9, 0.7, 0.5)
"""How large the request may be at each try, where the error names no limit."""
MARGIN_RATIO = 0.02
MIN_ANSWER_TOKENS = 256


def shorter_answer(head: Mapping[str, Any], found: Overflow) -> dict[str, int] | None:
    """The field of the request that must be smaller where input and answer together were too much; None where not.

    Providers count the room for the answer (`max_tokens`) against the window; the cure is a smaller one, not
    compaction.
    """
    key = next((k for k in ROOM_KEYS if isinstance(head.get(k), int)), None)
    if found.kind != "max_tokens" or key is None or found.limit_tokens is None or found.used_tokens is None:
        return None
    room = found.limit_tokens - found.used_tokens - round(found.limit_tokens * MARGIN_RATIO)
    room = min(room, head[key] - 1)
    return {key: room} if room >= MIN_ANSWER_TOKENS else None


def narrowed(
    limits: Limits, found: Overflow | None, *, size_tokens: int, size_bytes: int, images: int, attempt: int
) -> Limits:
    """The limits for the next try: what the error names, less a margin, and smaller than the last try in any case.

    Where it names nothing, the budget that is known holds: a request of three windows is not tried at nine tenths.
    """
    share = _SHARE[attempt]
    limit = found.limit_tokens if found else None
    roomy = max(limits.budget_tokens or 0, 2 * size_tokens)
    budget = round(size_tokens * share)
    if limit is None:
        budget = min(budget, limits.budget_tokens or budget)
    else:
        budget = min(budget, round((limit - min(limits.room_tokens, limit // 4)) * 0.95))
    if found is not None and found.kind == "request_bytes":
        most = min(found.limit_bytes or size_bytes, size_bytes)
        return replace(limits, budget_tokens=roomy, max_bytes=round(most * share))
    if found is not None and found.kind == "media":
        most = min(found.limit_images or images - 1, images - 1)
        return replace(limits, budget_tokens=roomy, max_images=max(0, round(most * (1, 0.5, 0)[attempt])))
    return replace(limits, budget_tokens=max(1, budget))
