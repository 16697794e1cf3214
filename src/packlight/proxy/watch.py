"""What passes through the proxy, in figures: for the log, the live page, the metrics and the words at the end.

No text of a conversation is kept here.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ..tokens import cache_read_tokens, input_tokens, output_tokens
from .engine import Exchange
from .identity import credential_kind

__all__ = ["Thread", "Turn", "Watch"]

MAX_THREADS = 256
MAX_TURNS = 2_000
"""Of a conversation; older ones are forgotten here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request and its reply."""

    at_seconds: float
    format: str
    does: str
    model: str
    status: int
    outcome: str
    """As in `Report.outcome`; `passed` where nothing of ours looked at it."""
    reason: str
    tokens_before: int
    """Size of the conversation as the client has it."""
    tokens_after: int
    """Size of what was sent, or in shadow mode would have been."""
    window_tokens: int | None
    new_edits: int
    edits: int
    rescues: int
    """How often it was sent again after a refusal."""
    input_tokens: int
    """What the provider counted; 0 where it did not say."""
    cached_tokens: int
    output_tokens: int
    seconds: float
    """What we took before it was sent."""
    credential: str
    """Its kind: an API key, a login, none."""
    error: str


@dataclass(slots=True)
class Thread:
    """A conversation."""

    id: str
    owner: str
    first_seconds: float
    model: str = ""
    turns: deque[Turn] = field(default_factory=lambda: deque(maxlen=MAX_TURNS))
    requests: int = 0
    compactions: int = 0
    rescues: int = 0


class Watch:
    """Collects turns. Safe to share between threads; `listeners` are told of each turn."""

    def __init__(self) -> None:
        self.threads: OrderedDict[str, Thread] = OrderedDict()
        self.listeners: list[Callable[[Thread, Turn], None]] = []
        self.requests = 0
        self._lock = threading.Lock()

    def note(self, exchange: Exchange, status: int) -> None:
        turn = _turn(exchange, status)
        id = exchange.thread
        with self._lock:
            self.requests += 1
            thread = self.threads.pop(id, None) or Thread(id=id, owner=exchange.owner, first_seconds=turn.at_seconds)
            self.threads[id] = thread
            thread.turns.append(turn)
            thread.model = turn.model
            thread.requests += 1
            thread.compactions += turn.outcome == "compacted"
            thread.rescues += turn.rescues
            while len(self.threads) > MAX_THREADS:
                self.threads.popitem(last=False)
        for listener in self.listeners:
            listener(thread, turn)


def _turn(exchange: Exchange, status: int) -> Turn:
    report = exchange.c.report if exchange.c is not None else None
    usage = exchange.usage
    return Turn(
        at_seconds=time.time(),
        format=exchange.endpoint.format,
        does=exchange.endpoint.does,
        model=str(exchange.body.request.get("model", ""))[:100] if exchange.body else "",
        status=status,
        outcome=report.outcome if report else "passed",
        reason=exchange.left or (report.reason if report else ""),
        tokens_before=report.tokens_before if report else 0,
        tokens_after=report.tokens_after if report else 0,
        window_tokens=report.window_tokens if report else None,
        new_edits=len(report.new_edits) if report else 0,
        edits=len(report.edits) if report else 0,
        rescues=exchange.attempts,
        input_tokens=input_tokens(usage) or 0,
        cached_tokens=cache_read_tokens(usage),
        output_tokens=output_tokens(usage) or 0,
        seconds=exchange.seconds,
        credential=credential_kind(exchange.headers),
        error=f"{type(exchange.error).__name__}: {exchange.error}"[:300] if exchange.error else "",
    )
