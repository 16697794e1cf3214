"""What the input of a session costs under a provider's prompt cache, simulated request by request.

A request is a row of units: its head (system and tools), then the blocks of its messages. A provider finds the longest
prefix that it holds and that is still alive, reads it at the price of a cached read, writes what the marks cover, and
charges the rest as plain input. Output is not part of it: a policy does not change it.

Rules: Anthropic (platform.claude.com, prompt caching, 2026-10): at most four marks, a mark is looked up at its block
and up to 20 blocks before it, prefixes shorter than the model's minimum are not cached, a read prolongs the life.
OpenAI (developers.openai.com, prompt caching, 2026-10): automatic, exact prefix in steps of 128 tokens from 1,024 on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Literal

from .. import jsonio
from ..models import Model, PriceStep
from .prefix import bytes_of
from .walk import Call
from .weights import Weights

Marks = Literal["trailing", "best"]
"""Where the cache marks stand: behind system and at the end, as most clients set them; or wherever a prefix will be
found again (the longest common prefix), which is also how automatic caches work."""

LOOKBACK_BLOCKS = 20
AUTOMATIC_STEP_TOKENS = 128
_DEFAULT_LIFETIME_SECONDS = 300.0
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """USD for a million tokens of input, and the rules of the cache."""

    input_usd: float = 1.0
    cache_read_usd: float | None = 0.1
    """None: no cache."""
    cache_write_usd: float = 1.25
    min_tokens: int = 1024
    lifetime_seconds: float = _DEFAULT_LIFETIME_SECONDS
    """Of a prefix after its last use."""
    steps: tuple[PriceStep, ...] = ()
    """Higher prices for the whole request from a size on."""
    automatic: bool = False
    """The provider places the marks: found again in steps of 128 tokens, whatever the client does."""

    def at(self, tokens: float) -> Prices:
        """The prices of a request of this size."""
        step = next((s for s in reversed(self.steps) if tokens > s.above_tokens), None)
        if step is None:
            return self
        return replace(
            self,
            input_usd=step.input_usd or self.input_usd,
            cache_read_usd=self.cache_read_usd if step.cache_read_usd is None else step.cache_read_usd,
            cache_write_usd=step.cache_write_usd or self.cache_write_usd,
        )


def prices_of(model: Model | None) -> Prices | None:
    """The price sheet of a model; None when its price is not known."""
    if model is None or model.input_usd is None:
        return None
    return Prices(
        input_usd=model.input_usd,
        cache_read_usd=model.cache_read_usd,
        cache_write_usd=model.cache_write_usd if model.cache_write_usd is not None else model.input_usd,
        min_tokens=model.cache_min_tokens or 0,
        lifetime_seconds=model.cache_seconds or _DEFAULT_LIFETIME_SECONDS,
        steps=model.price_steps,
        automatic=model.provider != "anthropic",
    )


@dataclass(frozen=True, slots=True)
class Charge:
    """The input of one request, by price."""

    read_tokens: float
    write_tokens: float
    plain_tokens: float
    usd: float

    @property
    def tokens(self) -> float:
        return self.read_tokens + self.write_tokens + self.plain_tokens


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a request that the cache tells apart: the head, or one block."""

    digest: bytes
    tokens: float


class PromptCache:
    """One provider's cache during one session."""

    def __init__(self, prices: Prices, marks: Marks = "trailing") -> None:
        self.prices = prices
        self._everywhere = marks == "best" or prices.automatic
        self._alive_until: dict[bytes, float] = {}

    def charge(self, units: Sequence[Unit], now_seconds: float) -> Charge:
        """Price a request and remember what it leaves in the cache. The first unit is the head."""
        links, sums = _chained(units)
        total = sums[-1] if sums else 0.0
        prices = self.prices.at(total)
        if prices.cache_read_usd is None or not units:
            return Charge(0.0, 0.0, total, total * prices.input_usd / _MILLION)
        hit = self._longest(links, sums, now_seconds)
        read = self._rounded(sums[hit]) if hit >= 0 else 0.0
        written = total - read if total >= prices.min_tokens else 0.0
        self._remember(links, sums, hit, now_seconds)
        plain = total - read - written
        usd = (read * prices.cache_read_usd + written * prices.cache_write_usd + plain * prices.input_usd) / _MILLION
        return Charge(read, written, plain, usd)

    def _longest(self, links: Sequence[bytes], sums: Sequence[float], now: float) -> int:
        """The last unit of the longest prefix that is found; -1 for none."""
        last = len(links) - 1
        places = range(last, -1, -1) if self._everywhere else [*range(last, max(0, last - LOOKBACK_BLOCKS), -1), 0]
        for place in places:
            if self._alive_until.get(links[place], -1.0) >= now and sums[place] >= self.prices.min_tokens:
                return place
        return -1

    def _remember(self, links: Sequence[bytes], sums: Sequence[float], hit: int, now: float) -> None:
        until = now + self.prices.lifetime_seconds
        kept = range(len(links)) if self._everywhere else {0, hit, len(links) - 1} - {-1}
        for place in kept:
            if sums[place] >= self.prices.min_tokens:
                self._alive_until[links[place]] = until

    def _rounded(self, tokens: float) -> float:
        return tokens // AUTOMATIC_STEP_TOKENS * AUTOMATIC_STEP_TOKENS if self.prices.automatic else tokens


def _chained(units: Sequence[Unit]) -> tuple[list[bytes], list[float]]:
    links, sums, link, total = [], [], b"", 0.0
    for unit in units:
        link = hashlib.blake2b(link + unit.digest, digest_size=16).digest()
        total += unit.tokens
        links.append(link)
        sums.append(total)
    return links, sums


class Units:
    """Cuts the requests of one session into units, each message object once.

    A system prompt that stands at the beginning of the list is part of the head, as it is where a format has it beside.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._cut: dict[int, tuple[Any, tuple[Unit, ...]]] = {}

    def __call__(self, messages: Sequence[Any], window: int, thinking: str = "") -> list[Unit]:
        system = list(takewhile(_is_system, messages))
        tokens = self._weights.head(window) + sum(self._weights.message(m) for m in system)
        units = [Unit(b"".join([b"head", *map(bytes_of, system)]), tokens), Unit(thinking.encode(), 0.0)]
        for message in messages[len(system) :]:
            known = self._cut.get(id(message))
            if known is None:
                known = self._cut[id(message)] = message, tuple(self._units(message))
            units += known[1]
        return units

    def _units(self, message: Any) -> list[Unit]:
        tokens = self._weights.message(message)
        content = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(content, list) or len(content) < 2:
            return [Unit(_hash(bytes_of(message)), tokens)]
        frame = jsonio.dump({k: v for k, v in message.items() if k != "content"})
        bodies = [bytes_of(block) for block in content]
        whole = sum(map(len, bodies))
        return [Unit(_hash(frame + body), tokens * len(body) / whole) for body in bodies]


def _is_system(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


@dataclass(slots=True)
class Bill:
    """A measure: what the calls of a session cost, call by call."""

    weights: Weights
    prices: Prices
    marks: Marks = "trailing"
    charges: list[Charge] = field(default_factory=list)
    _cache: PromptCache = field(init=False)
    _units: Units = field(init=False)

    def __post_init__(self) -> None:
        self._cache = PromptCache(self.prices, self.marks)
        self._units = Units(self.weights)

    def see(self, call: Call) -> None:
        self.charges.append(
            self._cache.charge(self._units(call.messages, call.window, call.recorded.thinking), call.now_seconds)
        )

    @property
    def usd(self) -> float:
        return sum(c.usd for c in self.charges)
