"""Walks a recorded session through an engine, call by call, as its agent would have.

Each call gets the request that the agent sent then, in full and unedited. Nothing is written: journal and store live
in memory and end with the walk. What a call is worth knowing for (its cost, what it lost, whether it is valid) is read
off the `Call` by measures that know nothing of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..formats import format_named
from ..store import Store
from ..types import Edit, Format
from .session import Segment, Session, Turn
from .weights import Weights


class Report(Protocol):
    @property
    def tokens_before(self) -> int: ...
    @property
    def tokens_after(self) -> int: ...
    @property
    def new_edits(self) -> Sequence[Edit]: ...
    @property
    def error(self) -> object: ...


class Compaction(Protocol):
    """What a replay asks of one."""

    @property
    def request(self) -> Any: ...
    @property
    def changed(self) -> bool: ...
    @property
    def fits(self) -> bool: ...
    @property
    def report(self) -> Report: ...
    def restore(self) -> Any: ...


class Engine(Protocol):
    """What a replay walks through: `packlight.Compactor`, or anybody's policy in its shape."""

    @property
    def store(self) -> Store | None:
        """Where it keeps what it takes out; None for one that keeps nothing."""
        ...

    def fit(self, request: Any, /, *, now_seconds: float | None = None, format: str | None = None) -> Any:
        """A `Compaction`."""
        ...

    def record_usage(self, compaction: Any, usage: Any, /) -> object: ...


Factory = Callable[[str | None, str, int | None], Engine]
"""Makes a fresh engine, with an empty journal, from model, policy and window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One model call of a session, as it was sent under a policy."""

    turn: int
    """Index among all calls of the session."""
    window: int
    """Index of its segment: the agent's own compactions and rewinds begin a new one."""
    is_first: bool
    """The first call of its window: it does not go on from the call before."""
    recorded: Turn
    given: Any
    """The request that the agent sent then; not to be changed."""
    sent: Any
    """The request under the policy."""
    source: Sequence[Any]
    """Messages of `given`."""
    messages: Sequence[Any]
    """Messages of `sent`; those that are unchanged are the same objects as in `source`."""
    reply: Sequence[Any]
    """Messages with which the model answered, as recorded."""
    now_seconds: float
    compaction: Compaction

    @property
    def is_batch(self) -> bool:
        return bool(self.compaction.report.new_edits)


def walk(session: Session, engine: Engine, weights: Weights | None = None) -> Iterator[Call]:
    """Every call of a session in order, each after the engine has fitted it.

    The engine is told the usage that the file records while its request is what the agent sent; for a changed
    request, what `weights` says a provider would have counted (nothing without them).
    """
    fmt = format_named(session.format)
    turn, now = 0, session.asked_seconds
    for window, segment in enumerate(session.segments):
        for place, recorded in enumerate(segment.turns):
            given = session.request(segment, recorded)
            now = max(now, recorded.asked_seconds or 0.0)  # a replay never reads the clock
            compaction: Compaction = engine.fit(given, now_seconds=now, format=session.format)
            call = Call(
                turn=turn,
                window=window,
                is_first=place == 0,
                recorded=recorded,
                given=given,
                sent=compaction.request,
                source=messages_of(given, session),
                messages=messages_of(compaction.request, session),
                reply=reply_to(fmt, segment, recorded),
                now_seconds=now,
                compaction=compaction,
            )
            yield call
            if not compaction.changed:
                engine.record_usage(compaction, recorded.usage)
            elif weights is not None:
                engine.record_usage(compaction, {"input_tokens": round(weights.request(call.messages, window))})
            turn += 1


def messages_of(request: Any, session: Session) -> Sequence[Any]:
    messages: Sequence[Any] = request[session.list_key] if isinstance(request, Mapping) else request
    return messages


def reply_to(fmt: Format, segment: Segment, turn: Turn) -> Sequence[Any]:
    """The model's messages behind a call, up to the next message of somebody else."""
    end = turn.end
    while end < len(segment.messages) and fmt.role(segment.messages[end]) == "assistant":
        end += 1
    return segment.messages[turn.end : end]
