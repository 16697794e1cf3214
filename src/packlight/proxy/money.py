"""What a request costs, from what the provider counted, at its list prices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..models import Model, lookup
from ..replay.cost import prices_of
from ..replay.money import Paid
from ..tokens import cache_read_tokens, cache_write_tokens, input_tokens, output_tokens
from ..tokens.usage import cache_write_hour_tokens

__all__ = ["usd_of"]


def usd_of(model: str, usage: Mapping[str, Any]) -> float | None:
    """Input and output of one request in USD; None where the model's price or its usage is not known.

    Discounts, tiers and subscriptions are not known here.
    """
    known, total = _known(model), input_tokens(usage)
    prices = prices_of(known)
    if known is None or prices is None or total is None:
        return None
    read, write, hour = cache_read_tokens(usage), cache_write_tokens(usage), cache_write_hour_tokens(usage)
    paid = Paid(read, max(0, write - hour), hour, max(0, total - read - write))
    step = next((s.output_usd for s in reversed(known.price_steps) if total > s.above_tokens), None)
    output_usd = (output_tokens(usage) or 0) * (step or known.output_usd or 0.0) / 1e6
    return sum(paid.usd(prices)) + output_usd


@lru_cache(maxsize=64)
def _known(model: str) -> Model | None:
    try:
        return lookup(model)
    except (OSError, ValueError):  # a file of the user's own that can't be read
        return None
