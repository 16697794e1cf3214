"""Where the input money of a session went: why each token of each call was paid, and what for.

From the usage that the file records, priced by the model's sheet; where the file does not tell of the cache, from the
simulation of `cost`. A call sends three things: what the cache still holds (read), what was never sent before (new),
and what was sent before but is not found again. The last is what is worth knowing about: the cache had expired (cold),
the client had changed or the provider had dropped what stood before (broken), or the agent had begun a new window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from .. import models
from ..summary.words import said
from ..tokens.usage import (
    cache_read_tokens,
    cache_write_hour_tokens,
    cache_write_tokens,
    input_tokens,
    tells_cache,
)
from .content import Filling, content_of, dearest_first, views_of
from .cost import Prices, PromptCache, Units, prices_of
from .session import Session, Turn
from .weights import Weights

Reason = Literal["read", "new", "cold", "broken", "window", "rest"]
REASONS: Mapping[Reason, tuple[str, str]] = {
    "read": ("cache reads", "sent before, still cached"),
    "new": ("new text", "sent for the first time"),
    "cold": ("cold restarts", "sent before, cache expired"),
    "broken": ("broken prefixes", "sent before, cache warm"),
    "window": ("new windows", "a compaction or a rewind"),
    "rest": ("uncached rest", "not put into the cache"),
}
"""Each with its name and what it means."""

HOUR_SECONDS = 3600.0
HOUR_WRITE_RATIO = 2.0
"""Price of a write that lives an hour, by that of plain input (platform.claude.com, prompt caching, 2026-10)."""
_LEAST_MISS_TOKENS = 1024
_LEAST_MISS_RATIO = 0.02
"""Less than this share of what was sent before is a matter of steps and marks, no miss."""
_FULL_MISS_RATIO = 0.05
UNPRICED = Prices(), Prices(cache_write_usd=1.0, automatic=True)
"""For a model whose price is not known, with marks and without: as if input cost 1 USD for a million tokens."""


@dataclass(frozen=True, slots=True)
class Paid:
    """The input of one call by price, as recorded or simulated."""

    read_tokens: float
    write_tokens: float
    hour_tokens: float
    """Written as well, for an hour."""
    plain_tokens: float

    @property
    def tokens(self) -> float:
        return self.read_tokens + self.unread_tokens

    @property
    def unread_tokens(self) -> float:
        return self.write_tokens + self.hour_tokens + self.plain_tokens

    def usd(self, prices: Prices) -> tuple[float, float, float]:
        """Reads, writes, the rest."""
        prices = prices.at(self.tokens)
        read = prices.input_usd if prices.cache_read_usd is None else prices.cache_read_usd
        write = self.write_tokens * prices.cache_write_usd + self.hour_tokens * prices.input_usd * HOUR_WRITE_RATIO
        return self.read_tokens * read / 1e6, write / 1e6, self.plain_tokens * prices.input_usd / 1e6


@dataclass(frozen=True, slots=True)
class Miss:
    """A call that paid again for what had been sent before."""

    turn: int
    why: Literal["cold", "broken"]
    sent_tokens: float
    """Size of the call before: what the cache could have held."""
    read_tokens: float
    missed_tokens: float
    usd: float
    """What it cost beyond reading it."""
    gap_seconds: float | None
    before: str
    """What stood right before: what was added since the last call."""
    changed: str
    """What else the client asked for: "another model", "another thinking level"; empty where that is not known."""

    @property
    def is_full(self) -> bool:
        return self.read_tokens <= _FULL_MISS_RATIO * self.sent_tokens


@dataclass(slots=True, kw_only=True)
class Money:
    """The input of a session in tokens and USD. Output is not part of it."""

    is_recorded: bool
    """From the usage in the file; else simulated."""
    is_priced: bool
    """The model's prices are known; else `UNPRICED` stands in, and only shares mean something."""
    tokens: dict[Reason, float] = field(default_factory=lambda: dict.fromkeys(REASONS, 0.0))
    usd: dict[Reason, float] = field(default_factory=lambda: dict.fromkeys(REASONS, 0.0))
    usd_by_turn: list[float] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)
    content: list[Filling] = field(default_factory=list)
    simulated_usd: float = 0.0
    """The same requests under a cache that never loses a prefix before its time."""
    billed_usd: float | None = None
    """What the file says that the input was billed; None where it does not say, for every call."""

    @property
    def total_usd(self) -> float:
        return sum(self.usd.values())

    @property
    def total_tokens(self) -> float:
        return sum(self.tokens.values())

    def extra_usd(self, why: Literal["cold", "broken"]) -> float:
        """What such misses cost beyond reading what had been sent before."""
        return sum(m.usd for m in self.misses if m.why == why)


def money_of(session: Session, weights: Weights, *, recorded: bool = True) -> Money:
    """Where the money of a session went. `recorded=False` leaves the recorded usage aside and simulates the cache."""
    return _Account(session, weights, recorded).money()


def total(moneys: Sequence[Money]) -> Money:
    """Of several sessions. Billed only where each of them is."""
    content: dict[tuple[str, str], Filling] = {}
    whole = Money(
        is_recorded=all(m.is_recorded for m in moneys),
        is_priced=all(m.is_priced for m in moneys),
        misses=[miss for m in moneys for miss in m.misses],
        simulated_usd=sum(m.simulated_usd for m in moneys),
    )
    billed = [m.billed_usd for m in moneys if m.billed_usd is not None]
    whole.billed_usd = sum(billed) if billed and len(billed) == len(moneys) else None
    for money in moneys:
        whole.usd_by_turn += money.usd_by_turn
        for reason in REASONS:
            whole.tokens[reason] += money.tokens[reason]
            whole.usd[reason] += money.usd[reason]
        for filling in money.content:
            key = filling.kind, filling.tool
            content[key] = content[key] + filling if key in content else filling
    whole.content = dearest_first(content.values())
    return whole


@lru_cache(maxsize=64)
def sheet(model: str | None) -> Prices | None:
    """The prices of a model id; None when they are not known."""
    return prices_of(models.lookup(model)) if model else None


def prices_for(session: Session) -> Prices:
    """The prices and rules of a session's cache: of its model, and for an hour where its client writes for an hour."""
    prices = sheet(session.model) or UNPRICED[session.format != "anthropic"]
    usages = [t.usage for s in session.segments for t in s.turns]
    hour, written = sum(map(cache_write_hour_tokens, usages)), sum(map(cache_write_tokens, usages))
    if hour * 2 <= written:
        return prices
    return replace(prices, cache_write_usd=prices.input_usd * HOUR_WRITE_RATIO, lifetime_seconds=HOUR_SECONDS)


class _Account:
    def __init__(self, session: Session, weights: Weights, recorded: bool) -> None:
        self._session, self._weights = session, weights
        self._prices = prices_for(session)
        self._views = views_of(session)
        self._simulated = self._simulate()
        turns = [t for s in session.segments for t in s.turns]
        self._recorded = recorded and any(map(_recorded, turns))
        billed = [t.billed_usd for t in turns]
        self._money = Money(
            is_recorded=self._recorded,
            is_priced=sheet(session.model) is not None,
            simulated_usd=sum(sum(paid.usd(self._prices)) for paid in self._simulated),
            billed_usd=sum(b for b in billed if b is not None) if any(b is not None for b in billed) else None,
        )

    def money(self) -> Money:
        turn, last = 0, _Last()
        shared: list[list[tuple[float, float]]] = []
        for window, segment in enumerate(self._session.segments):
            shared.append([])
            for place, call in enumerate(segment.turns):
                paid = (_recorded(call) if self._recorded else None) or self._simulated[turn]
                start = segment.turns[place - 1].end if place else 0
                added = (window, start, call.end)
                usd = self._account(turn, call, paid, last, added, is_window=bool(window) and not place)
                shared[-1].append((paid.tokens, usd))
                last = last.after(call, paid)
                turn += 1
        self._money.content = content_of(self._session, self._views, self._weights, shared)
        return self._money

    def _account(
        self, turn: int, call: Turn, paid: Paid, last: _Last, added: tuple[int, int, int], *, is_window: bool
    ) -> float:
        """Book one call; returns its price."""
        prices = sheet(call.model) or self._prices
        read_usd, write_usd, plain_usd = paid.usd(prices)
        rest = 0.0 if prices.automatic else paid.plain_tokens  # without marks all that is not read is plain
        rest_usd = 0.0 if prices.automatic else plain_usd
        unread, unread_usd = paid.unread_tokens - rest, write_usd + plain_usd - rest_usd
        again = 0.0 if is_window else max(0.0, min(last.tokens, paid.tokens) - paid.read_tokens - rest)
        again = min(again, unread)
        reason: Reason = "rest"
        least = max(_LEAST_MISS_TOKENS, _LEAST_MISS_RATIO * last.tokens)
        if again > least and last.tokens >= prices.min_tokens:
            gap = _gap(last, call)
            reason = "cold" if gap is not None and gap > last.lifetime(prices) else "broken"
            extra_usd = again * (unread_usd / unread - _read_rate(prices, paid))
            told = self._before(*added), _changed(last, call)
            miss = Miss(turn, reason, last.tokens, paid.read_tokens, again, extra_usd, gap, *told)
            self._money.misses.append(miss)
        again_usd = unread_usd * again / unread if unread else 0.0
        self._book("read", paid.read_tokens, read_usd)
        self._book("rest", rest, rest_usd)
        self._book(reason, again, again_usd)
        self._book("window" if is_window else "new", unread - again, unread_usd - again_usd)
        usd = read_usd + write_usd + plain_usd
        self._money.usd_by_turn.append(usd)
        return usd

    def _book(self, reason: Reason, tokens: float, usd: float) -> None:
        self._money.tokens[reason] += tokens
        self._money.usd[reason] += usd

    def _before(self, window: int, start: int, end: int) -> str:
        view = self._views[window]
        kinds = {words.kind for words in said(view, start, end)}
        parts = {p.kind for m in view.messages[start:end] if m.role != "assistant" for p in m.parts}
        if "typed" in kinds or ("media" in parts and "result" not in parts):
            return "a user message"
        if "result" in parts:
            return "tool results"
        return "a note of the client" if kinds else "nothing new"

    def _simulate(self) -> list[Paid]:
        cache, units, now = PromptCache(self._prices), Units(self._weights), self._session.asked_seconds
        found = []
        for window, segment in enumerate(self._session.segments):
            for turn in segment.turns:
                now = max(now, turn.asked_seconds or 0.0)
                charge = cache.charge(units(segment.messages[: turn.end], window, turn.thinking), now)
                found.append(Paid(charge.read_tokens, charge.write_tokens, 0.0, charge.plain_tokens))
        return found


@dataclass(frozen=True, slots=True)
class _Last:
    """The call before."""

    tokens: float = 0.0
    seconds: float | None = None
    model: str | None = None
    for_an_hour: bool = False
    thinking: str = ""

    def after(self, call: Turn, paid: Paid) -> _Last:
        wrote = paid.write_tokens + paid.hour_tokens
        hour = paid.hour_tokens > paid.write_tokens if wrote else self.for_an_hour
        seconds = call.asked_seconds if call.seconds is not None else self.seconds
        return _Last(paid.tokens or self.tokens, seconds, call.model or self.model, hour, call.thinking)

    def lifetime(self, prices: Prices) -> float:
        return HOUR_SECONDS if self.for_an_hour else prices.lifetime_seconds


def _changed(last: _Last, call: Turn) -> str:
    """What the client asked for otherwise than before, by which a provider's cache goes as well."""
    if last.model not in (None, call.model):
        return "another model"
    return "another thinking level" if last.tokens and last.thinking != call.thinking else ""


def _gap(last: _Last, call: Turn) -> float | None:
    """Seconds between two requests, 0 where the second was begun first; None when a time is not known."""
    asked = call.asked_seconds
    return None if asked is None or last.seconds is None else max(0.0, asked - last.seconds)


def _read_rate(prices: Prices, paid: Paid) -> float:
    """USD for a token from the cache, in a request of this size."""
    return Paid(1.0, 0.0, 0.0, 0.0).usd(prices.at(paid.tokens))[0]


def _recorded(turn: Turn) -> Paid | None:
    """None where the file does not say what came from the cache."""
    tokens = input_tokens(turn.usage)
    if not tokens or not tells_cache(turn.usage):
        return None
    read, write = cache_read_tokens(turn.usage), cache_write_tokens(turn.usage)
    hour = min(write, cache_write_hour_tokens(turn.usage))
    return Paid(read, write - hour, hour, max(0, tokens - read - write))
