"""What passes through the proxy, in figures: for the log, the live page, the metrics and the words at the end.

No text of a conversation is kept here, but for the edits of the newest batches: they stay in memory, for the page.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields

from ..compaction import Compaction
from ..tokens import cache_read_tokens, cache_write_tokens, input_tokens, output_tokens
from ..types import Edit
from .engine import Exchange
from .identity import credential_kind
from .money import usd_of

__all__ = ["BUCKETS_SECONDS", "Batch", "Thread", "Totals", "Turn", "Watch"]

MAX_THREADS = 256
MAX_TURNS = 2_000
"""Of a conversation; older ones are forgotten here, as are the oldest conversations when all have more than:"""
MAX_ALL_TURNS = 20_000
MAX_BATCHES = 100
MAX_BATCH_TOKENS = 2_000_000
"""Of the text in them, about 8 MB."""
BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request and its reply."""

    at_seconds: float
    """When it ended."""
    format: str
    does: str
    model: str
    status: int
    outcome: str
    """As in `Report.outcome`; `passed` where nothing of ours looked at it."""
    reason: str
    is_side: bool
    """No turn of an agent's conversation: a title, a token count."""
    tokens_before: int
    """Size of the conversation as the client has it."""
    tokens_after: int
    """Size of what was sent, or in shadow mode would have been."""
    window_tokens: int | None
    new_edits: int
    edits: int
    layers: tuple[str, ...]
    """That made the new edits."""
    batch: str
    """Names the batch of new edits, if one was made."""
    rescues: int
    """How often it was sent again after a refusal."""
    recalls: int
    """The model's calls of recall that were answered here."""
    input_tokens: int
    """What the provider counted, over all its replies; 0 where it did not say."""
    cached_tokens: int
    written_tokens: int
    """To the provider's cache."""
    output_tokens: int
    usd: float | None
    """At list prices; None where the price or the usage is not known."""
    calls: int
    """Of the agent's tools, in the model's newest answer."""
    refetches: int
    """How many of them fetch again what was taken out."""
    seconds: float
    """What we took before it was sent."""
    credential: str
    """Its kind: an API key, a login, none."""
    error: str


@dataclass(slots=True)
class Totals:
    """Sums over turns; those of several can be added up field by field."""

    requests: int = 0
    compactions: int = 0
    rescues: int = 0
    recalls: int = 0
    errors: int = 0
    """Of ours."""
    refused: int = 0
    """Replies with a status of 400 and above."""
    tokens_before: int = 0
    tokens_after: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    """Answers whose price is not known."""
    calls: int = 0
    refetches: int = 0
    seconds: float = 0.0

    def add(self, turn: Turn) -> None:
        self.requests += 1
        self.compactions += turn.outcome == "compacted"
        self.errors += bool(turn.error)
        self.refused += turn.status >= 400
        self.usd += turn.usd or 0.0
        self.unpriced += turn.usd is None and turn.does == "answer" and turn.status < 400
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(turn, name))


_SUMMED = [f.name for f in fields(Totals) if f.name in Turn.__slots__ and f.name != "usd"]


@dataclass(slots=True)
class Thread:
    """A conversation."""

    id: str
    owner: str
    first_seconds: float
    model: str = ""
    turns: deque[Turn] = field(default_factory=lambda: deque(maxlen=MAX_TURNS))
    totals: Totals = field(default_factory=Totals)


@dataclass(frozen=True, slots=True)
class Batch:
    """What stands in place of what since one request."""

    id: str
    thread: str
    turn: Turn
    edits: tuple[Edit, ...]
    tokens: int
    """Of what stands there, not calibrated, as those of the edits."""
    ratio: float
    """True tokens per counted token."""


class Watch:
    """Collects turns. Safe to share between threads; `listeners` are told of each turn, `tracer` of each exchange."""

    def __init__(self, tracer: Callable[[Exchange, Turn], None] | None = None) -> None:
        self.threads: OrderedDict[str, Thread] = OrderedDict()
        """Least recently used first."""
        self.listeners: list[Callable[[Thread, Turn], None]] = []
        self.totals = Totals()
        self.by_outcome: Counter[tuple[str, str, str, int]] = Counter()
        """Requests by format, what they do, outcome and status."""
        self.seconds_buckets = [0] * (len(BUCKETS_SECONDS) + 1)
        self.batches: deque[Batch] = deque(maxlen=MAX_BATCHES)
        self.open = 0
        """Requests that have not ended, streams included."""
        self.unreachable = 0
        """Requests that found no upstream."""
        self._tracer = tracer
        self._kept_turns = 0
        self.lock = threading.Lock()
        """Held while turns come in: who reads several of these together holds it."""

    @property
    def requests(self) -> int:
        return self.totals.requests

    @contextmanager
    def opened(self) -> Iterator[None]:
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    def note(self, exchange: Exchange, status: int) -> None:
        id = exchange.thread
        with self.lock:
            turn = _turn(exchange, status, f"{os.getpid()}-{self.requests}")
            thread = self.threads.pop(id, None) or Thread(id=id, owner=exchange.owner, first_seconds=turn.at_seconds)
            self.threads[id] = thread
            self._keep(thread, turn)
            thread.model = turn.model
            thread.totals.add(turn)
            self.totals.add(turn)
            self.by_outcome[turn.format, turn.does, turn.outcome, status] += 1
            self.seconds_buckets[bisect_left(BUCKETS_SECONDS, turn.seconds)] += 1
            if turn.batch and exchange.c is not None:
                self._keep_batch(id, turn, exchange.c)
        for listener in self.listeners:
            listener(thread, turn)
        if self._tracer is not None:
            self._tracer(exchange, turn)

    def _keep(self, thread: Thread, turn: Turn) -> None:
        self._kept_turns += len(thread.turns) < MAX_TURNS
        thread.turns.append(turn)
        while len(self.threads) > 1 and (len(self.threads) > MAX_THREADS or self._kept_turns > MAX_ALL_TURNS):
            self._kept_turns -= len(self.threads.popitem(last=False)[1].turns)

    def _keep_batch(self, thread: str, turn: Turn, c: Compaction) -> None:
        edits, ratio = c.report.new_edits, c.state.view.ratio
        self.batches.append(Batch(turn.batch, thread, turn, edits, sum(e.tokens_after for e in edits), ratio))
        while sum(b.tokens for b in self.batches) > MAX_BATCH_TOKENS:
            self.batches.popleft()


def _turn(exchange: Exchange, status: int, batch: str) -> Turn:
    report = exchange.c.report if exchange.c is not None else None
    usages = exchange.usages
    model = str(exchange.body.request.get("model", ""))[:100] if exchange.body else ""
    calls, refetches = exchange.calls if status < 400 else (0, 0)
    return Turn(
        at_seconds=time.time(),
        format=exchange.endpoint.format,
        does=exchange.endpoint.does,
        model=model,
        status=status,
        outcome=report.outcome if report else "passed",
        reason=exchange.left or (report.reason if report else ""),
        is_side=bool(exchange.side),
        tokens_before=report.tokens_before if report else 0,
        tokens_after=report.tokens_after if report else 0,
        window_tokens=report.window_tokens if report else None,
        new_edits=len(report.new_edits) if report else 0,
        edits=len(report.edits) if report else 0,
        layers=report.layers if report else (),
        batch=batch if report and report.new_edits else "",
        rescues=exchange.attempts,
        recalls=exchange.turn.recalls if exchange.turn else 0,
        input_tokens=sum(input_tokens(usage) or 0 for usage in usages),
        cached_tokens=sum(map(cache_read_tokens, usages)),
        written_tokens=sum(map(cache_write_tokens, usages)),
        output_tokens=sum(output_tokens(usage) or 0 for usage in usages),
        usd=_summed([usd_of(model, usage) for usage in usages]),
        calls=calls,
        refetches=refetches,
        seconds=exchange.seconds,
        credential=credential_kind(exchange.headers),
        error=f"{type(exchange.error).__name__}: {exchange.error}"[:300] if exchange.error else "",
    )


def _summed(costs: list[float | None]) -> float | None:
    """None where one is not known, or there is none."""
    known = [usd for usd in costs if usd is not None]
    return sum(known) if known and len(known) == len(costs) else None
