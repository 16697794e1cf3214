"""How large a request is: the provider's last count, and an estimate of what came after it.

The estimate's ratio to the truth is learned from usage, never clamped away from it. What a bare list does not show
(system and tools) is learned as a constant.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from .budget import Limits
from .errors import StoreError
from .journal import Batch
from .policy import Size
from .reading import Seen
from .store import Store
from .tokens import input_tokens
from .types import Json
from .view import View

MAX_FACTS = 4_096
_MIN_ESTIMATE_TOKENS = 200
_MAX_RATIO = 40
"""What a whole request weighs beyond this many times its estimate was not in it: somebody adds to it on the way."""
_MIN_STEP_TOKENS = 5_000
_LOOKED_BACK = 64
_USUALLY_LEFT_TOKENS = 22_000
"""By a first batch, beyond system, tools and what is new: a guess until one was planned."""
_HEAD_KEYS = ("system", "instructions", "tools", "functions", "response_format", "text")


@dataclass(slots=True)
class Facts:
    """What is known about one conversation."""

    counted: int = 0
    """The provider's count of the last request; 0 while there is none."""
    ratio: float = 1.0
    first_estimated: int = 0
    first_counted: int = 0
    """The same of the first request since the last batch: the ratio is learned over that stretch."""
    taken_tokens: int = 0
    taken_ratio: float = 0.0
    """Of what the edits took out: estimated tokens, and true tokens for one of them; 0 while that is not known."""
    before_tokens: int = 0
    """What the newest batch was made of, until the provider has counted what it left."""
    overhead_tokens: float = 0.0
    """True tokens that every request holds beyond what was shown to us."""
    base_tokens: int = 0
    """What the last batch left, without what was new then; or what one would have left that was not worth its price."""
    carried_tokens: int = 0
    paid_tokens: float = 0.0
    unedited_paid_tokens: float = 0.0
    """What the input of all requests so far cost, and would have cost without any batch: in tokens of plain input."""
    sent_tokens: int = 0
    sent_unedited_tokens: int = 0
    sent_seconds: float | None = None
    sent_length: int = 0
    """Messages of the last request."""
    floor_tokens: int = 0
    """Where the last batch ended that could not make the request fit; 0 when it could."""

    def base_of(self, view: View) -> int:
        """What a batch is expected to leave."""
        return (self.base_tokens or view.fixed_tokens + _USUALLY_LEFT_TOKENS) + _new_tokens(view)

    def take(self, view: View) -> None:
        """A batch was made: what it took out has the ratio of now, since what is learned later is of what stayed."""
        taken = view.saved_tokens
        if self.counted and taken > 0:
            old = min(self.taken_tokens, taken) if self.taken_ratio else 0
            self.taken_ratio = (old * self.taken_ratio + (taken - old) * view.ratio) / taken
            self.before_tokens = replace(view, taken_ratio=self.taken_ratio).original_tokens
        self.taken_tokens = taken

    def left(self, view: View, counted: int) -> None:
        """The provider counted what the newest batch left: the rest of what there was before is what it took out."""
        taken = view.saved_tokens
        if taken == self.taken_tokens > 0 and counted < self.before_tokens:
            self.taken_ratio = (self.before_tokens - counted) / taken
        self.before_tokens = 0


def _new_tokens(view: View) -> int:
    """What no batch may clear: the model has not seen it."""
    first = view.first_unseen
    saved = sum(e.tokens_before - e.tokens_after for e in view.edits if e.start[0] >= first)
    return round((sum(m.tokens for m in view.messages[first:]) - saved) * view.ratio)


class Gauge:
    """Measures requests of one owner and learns from usage."""

    def __init__(self, store: Store, owner: str, overhead_tokens: int) -> None:
        self._store = store
        self._owner = owner
        self._overhead = overhead_tokens
        self._facts: OrderedDict[bytes, Facts] = OrderedDict()
        self._heads: OrderedDict[tuple[int, ...], tuple[tuple[Any, ...], int]] = OrderedDict()
        self._ratios: dict[str, float] = {}
        self._windows: dict[str, int | None] = {}
        self._lock = threading.RLock()

    # --- sizes ----------------------------------------------------------------------------------------------------

    def head_tokens(self, head: Mapping[str, Any], count: Callable[[Json], int]) -> int:
        """Tokens of system and tools; counted again only when they are other objects."""
        values = tuple(head.get(k) for k in _HEAD_KEYS)
        key = tuple(map(id, values))
        with self._lock:
            held = self._heads.get(key)
            if held is None:
                same = next((n for old, n in self._heads.values() if old == values), None)
                tokens = sum(count(v) for v in values if v is not None) if same is None else same
                held = self._heads[key] = (values, tokens)
                while len(self._heads) > 64:
                    self._heads.popitem(last=False)
            return held[1]

    def facts(self, seen: Seen) -> Facts:
        """What is known of the conversation that this list continues."""
        with self._lock:
            for link in reversed(seen.chain):
                if (known := self._facts.get(link)) is not None:
                    return known
            facts = self._stored(seen) or Facts(overhead_tokens=float(self._overhead))
            self._facts[seen.chain[-1]] = facts
            return facts

    def _stored(self, seen: Seen) -> Facts | None:
        try:
            rows = self._store.usage_at(set(seen.chain[-_LOOKED_BACK:]), owner=self._owner)
        except StoreError:
            return None  # a size is estimated then; the journal reports a store that can't be read
        for link in reversed(seen.chain[-_LOOKED_BACK:]):
            if link in rows:
                row = msgspec.json.decode(rows[link])
                return Facts(**{k: v for k, v in row.items() if k in Facts.__slots__})
        return None

    def measured(self, seen: Seen, source: Seen, view: View, limits: Limits, now: float) -> tuple[View, Size]:
        """The view with its ratio, and its size."""
        facts = self.facts(seen)
        model = str(view.head.get("model") or "")
        ratio = facts.ratio if facts.counted else self._ratios.get(model, 1.0)
        tokens, size_bytes, _ = source.total
        view = replace(
            view,
            ratio=ratio,
            taken_ratio=facts.taken_ratio or None,
            head_tokens=view.head_tokens + round(facts.overhead_tokens / ratio),
            counted_tokens=tokens,
        )
        cold = facts.sent_seconds is not None and now - facts.sent_seconds > limits.cache_seconds
        size = Size(
            tokens=view.tokens,
            budget_tokens=limits.budget_tokens,
            chars=size_bytes,
            cold=cold,
            base_tokens=facts.base_of(view),
            carried_tokens=facts.carried_tokens,
            fixed_tokens=view.fixed_tokens,
            paid_tokens=facts.paid_tokens,
            unedited_paid_tokens=facts.unedited_paid_tokens,
            cache_read_ratio=limits.cache_read_ratio,
            cache_write_ratio=limits.cache_write_ratio,
        )
        return view, size

    # --- learning -------------------------------------------------------------------------------------------------

    def sent(
        self, seen: Seen, view: View, size: Size, now: float, batch: Batch | None = None, *, rewritten: bool = True
    ) -> None:
        """A request is about to be sent; `rewritten` when its batch changes what was sent before."""
        facts = self.facts(seen)
        again = self._facts.get(seen.chain[-1]) is facts and facts.sent_length == len(seen)
        facts.sent_length = len(seen)
        tokens = view.tokens
        if again and batch is None:
            return  # the same request once more carries nothing further
        found, kept = (0, 0) if size.cold else (facts.sent_unedited_tokens, facts.sent_tokens)
        if batch is not None:
            facts.take(view)
        if batch is not None and rewritten:
            facts.base_tokens, facts.carried_tokens, facts.first_counted = tokens - _new_tokens(view), 0, 0
            kept = min(kept, view.fixed_tokens)
        else:
            facts.carried_tokens += max(0, tokens - facts.base_of(view))
        facts.paid_tokens += size.price_of(tokens, kept)
        facts.unedited_paid_tokens += size.price_of(view.original_tokens, found)
        facts.sent_tokens, facts.sent_unedited_tokens = tokens, view.original_tokens
        facts.sent_seconds = now
        self._keep(seen.chain[-1], facts)

    def ended(self, seen: Seen, view: View, limits: Limits, leaves_tokens: int) -> None:
        """A batch was planned down to this view; `leaves_tokens` of one that was not worth its price yet."""
        facts = self.facts(seen)
        over = limits.budget_tokens is not None and view.tokens > limits.budget_tokens
        facts.floor_tokens = view.tokens if over else 0
        if leaves_tokens:
            facts.base_tokens = leaves_tokens - _new_tokens(view)

    def record(self, seen: Seen, view: View, usage: Any, *, whole: bool, now_seconds: float, conversation: str) -> None:
        """Learn from what the provider counted. A whole request hides nothing, a bare list system and tools."""
        counted = input_tokens(usage)
        if not counted:
            return
        facts = self.facts(seen)
        if facts.before_tokens and facts.sent_length == len(seen):
            facts.left(view, counted)
        estimated = view.source_tokens - view.saved_tokens - round(facts.overhead_tokens / view.ratio)
        if whole and estimated >= _MIN_ESTIMATE_TOKENS and counted <= estimated * _MAX_RATIO:
            facts.ratio, facts.overhead_tokens = counted / estimated, 0.0
            self._ratios[str(view.head.get("model") or "")] = facts.ratio
        else:
            if not facts.first_counted or estimated < facts.first_estimated:
                facts.first_estimated, facts.first_counted = estimated, counted
            step, grown = estimated - facts.first_estimated, counted - facts.first_counted
            if step > _MIN_STEP_TOKENS and grown > 0:
                facts.ratio = grown / step
            if counted < facts.ratio * estimated:
                facts.ratio = counted / max(1, estimated)
            facts.overhead_tokens = counted - facts.ratio * estimated
        facts.counted = counted
        self._keep(seen.chain[-1], facts)
        row = msgspec.json.encode({k: getattr(facts, k) for k in Facts.__slots__})
        try:
            self._store.put_usage(
                seen.chain[-1], row, owner=self._owner, conversation=conversation, now_seconds=now_seconds
            )
        except StoreError:
            return  # a size is estimated in the next process; nothing else hangs on it

    def _keep(self, link: bytes, facts: Facts) -> None:
        with self._lock:
            self._facts[link] = facts
            self._facts.move_to_end(link)
            while len(self._facts) > MAX_FACTS:
                self._facts.popitem(last=False)

    def is_calibrated(self, seen: Seen) -> bool:
        return bool(self.facts(seen).counted)

    # --- windows --------------------------------------------------------------------------------------------------

    def learned_window(self, model: str | None) -> int | None:
        """The window that an error named for this model, if one did."""
        if not model:
            return None
        if model not in self._windows:
            try:
                row = self._store.fact(f"window:{model}")
            except StoreError:
                row = None  # as if nothing was learned
            self._windows[model] = int(row) if row else None
        return self._windows[model]

    def learn_window(self, model: str, window_tokens: int) -> None:
        self._windows[model] = window_tokens
        try:
            self._store.put_fact(f"window:{model}", str(window_tokens).encode())
        except StoreError:
            return  # known to this process at least
