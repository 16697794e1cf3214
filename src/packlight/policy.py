"""What is done when: a policy is four lists of layers in the order they run, and the rule when a batch is due.

It is data. Take a preset and change it with `dataclasses.replace`:

    policy = replace(PRESETS["default"], when_due=(MicroCompact(keep_recent_tokens=20_000), CompactHistory()))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from .errors import PacklightError
from .layers import (
    ClassicHistory,
    ClassicMicroCompact,
    ClassicToolResultBudget,
    CompactHistory,
    MicroCompact,
    NanoHistory,
    ProviderHistory,
    ReactiveCompact,
    ReadAgain,
    SnipCompact,
    ToolResultBudget,
)
from .types import Layer, Writer

__all__ = ["PRESETS", "Due", "Policy", "Size", "preset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A request measured, and what is known about its cost."""

    tokens: int
    """Calibrated: usage of the last reply and what came since."""
    budget_tokens: int | None
    """None when the model's window is not known: then nothing is due ahead of an error."""
    chars: int
    """Of its messages as JSON."""
    cold: bool = False
    """The provider's cache has expired since the last request: a batch costs no rewrite."""
    base_tokens: int = 0
    """What a batch is expected to leave: what the last one left, and what is new."""
    carried_tokens: int = 0
    """Sum over the calls since then of what each carried beyond the base."""
    fixed_tokens: int = 0
    """Of system and tools, which no batch changes."""
    paid_tokens: float = 0.0
    unedited_paid_tokens: float = 0.0
    """What the input of the conversation's requests cost so far, and would have cost without any batch: in tokens of
    plain input."""
    cache_read_ratio: float | None = None
    """Price of a cached read against plain input; None when not known."""
    cache_write_ratio: float = 1.0

    def price_of(self, tokens: int, cached_tokens: int) -> float:
        """The input of a request of which so many tokens are in the cache, in tokens of plain input."""
        cached = min(tokens, cached_tokens)
        read = 1.0 if self.cache_read_ratio is None else self.cache_read_ratio
        return cached * read + (tokens - cached) * self.cache_write_ratio


Due = Callable[[Size], "str | None"]
"""The reason why a batch is due, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which layers run when, in the order they run, and the rule when a batch is due."""

    name: str
    on_arrival: tuple[Layer, ...] = ()
    """On results that were never sent: costs no cache."""
    each_call: tuple[Layer, ...] = ()
    """Before every request."""
    when_due: tuple[Layer, ...] = ()
    """One batch, in this order, until the target is reached."""
    on_overflow: tuple[Layer, ...] = ()
    """When the request could not be sent otherwise."""
    due: Due
    target_ratio: float = 0.4
    """Where a batch ends, as a share of the budget: low, so that the next one is far."""
    target_tokens: int | None = None
    """And never above this, beyond system and tools."""


def over_budget(size: Size) -> str | None:
    if size.budget_tokens is not None and size.tokens > size.budget_tokens:
        return f"{size.tokens:,} tokens are over the budget of {size.budget_tokens:,}"
    return None


MIN_FREED_TOKENS = 4_000
MOST_PAID_RATIO = 1.09
"""Wherever a session ends, a batch for the rent has not made its input cost more than a tenth more than without any;
a little less here, for the error of the count."""


def thrifty(size: Size) -> str | None:
    """Over budget; or the cache is cold and enough would be freed; or rent exceeds purchase.

    Rent is what was paid for carrying the removable part since the last batch, purchase the price of writing what
    stays into the cache again, system and tools included: they stay cached, but a batch costs more than money. And a
    session that ends right after it must not have cost much more than without any batch.
    """
    if reason := over_budget(size):
        return reason
    removable = size.tokens - size.base_tokens
    if removable < MIN_FREED_TOKENS or size.cache_read_ratio is None:
        return None
    if size.cold:
        return f"the cache is cold and about {removable:,} tokens can go"
    rent = size.carried_tokens * size.cache_read_ratio
    if rent < size.base_tokens * (size.cache_write_ratio - size.cache_read_ratio):
        return None
    batch = size.price_of(size.base_tokens, size.fixed_tokens)
    if size.paid_tokens + batch > MOST_PAID_RATIO * (size.unedited_paid_tokens + size.tokens * size.cache_read_ratio):
        return None
    return f"carrying {removable:,} removable tokens has cost more than taking them out"


def classic(size: Size, max_chars: int = 50_000) -> str | None:
    return f"{size.chars:,} characters are over the article's {max_chars:,}" if size.chars > max_chars else None


def never(size: Size) -> str | None:
    return None


PRESETS: Mapping[str, Policy] = MappingProxyType(
    {
        "default": Policy(
            name="default",
            on_arrival=(ReadAgain(), ToolResultBudget()),
            when_due=(MicroCompact(), CompactHistory()),
            on_overflow=(ReactiveCompact(),),
            due=over_budget,
        ),
        "thrifty": Policy(
            name="thrifty",
            on_arrival=(ReadAgain(), ToolResultBudget()),
            when_due=(CompactHistory(keep_recent_tokens=4_000),),
            on_overflow=(ReactiveCompact(),),
            due=thrifty,
            target_tokens=30_000,
        ),
        "classic": Policy(
            name="classic",
            each_call=(ClassicToolResultBudget(), SnipCompact(), ClassicMicroCompact()),
            when_due=(ClassicHistory(),),
            on_overflow=(ReactiveCompact(),),
            due=classic,
        ),
        "nano": Policy(name="nano", each_call=(NanoHistory(),), on_overflow=(ReactiveCompact(),), due=never),
        "none": Policy(name="none", due=never),
    }
)
"""The policies by name: what packlight advises, the two articles', and none."""


RECORDED = Policy(name="recorded", on_arrival=(ReadAgain(),), due=never)
"""Only what is recorded, and what its edits make necessary."""


def preset(policy: str | Policy, writer: Writer | ProviderHistory | None = None) -> Policy:
    """The policy of that name, or the policy itself; with another writer in its summaries when one is given.

    A provider that compacts by itself is asked first; the policy's own layers come when it gives nothing.

    Raises PacklightError for an unknown name, and for what is neither.
    """
    if isinstance(policy, str) and policy in PRESETS:
        policy = PRESETS[policy]
    elif not isinstance(policy, Policy):
        raise PacklightError(f"unknown policy {policy!r}: a Policy, or one of {', '.join(PRESETS)}")
    return _with_writer(policy, writer) if writer is not None else policy


def _with_writer(policy: Policy, writer: Writer | ProviderHistory) -> Policy:
    if isinstance(writer, ProviderHistory):
        if policy.each_call:
            raise PacklightError(f"{policy.name!r} edits at each call: a provider compacts for the other policies only")
        recent = next((x.keep_recent_tokens for x in policy.when_due if isinstance(x, CompactHistory)), None)
        return replace(policy, when_due=(replace(writer, keep_recent_tokens=recent), *policy.when_due))

    def written(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
        return tuple(
            replace(x, writer=writer) if isinstance(x, (CompactHistory, ClassicHistory, NanoHistory)) else x
            for x in layers
        )

    return replace(policy, each_call=written(policy.each_call), when_due=written(policy.when_due))
