"""One session under several policies: where its money went, and what each policy would have changed.

What comes out holds figures only and no message of the session, so that it can go from one process to another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Protocol

from ..types import FormatName
from .cost import Bill, Charge
from .loss.recorded import ComparedCompaction, compare_compactions
from .money import Money, money_of, prices_for
from .run import SessionResult, replay
from .session import Session
from .texts import texts_of
from .walk import Call, Factory
from .weights import Weights

BASE = "none"
"""The policy that changes nothing: what the others are compared with."""


class Finding(Protocol):
    """A measure that ends in a result.

    The result is picklable, and results of several sessions can be added. Where it has `lost`, pairs of a turn and a
    word for what was missing there, the page shows them in its timeline.
    """

    def see(self, call: Call, /) -> None: ...
    @property
    def result(self) -> Any: ...


Measures = Mapping[str, Callable[[Session], Finding]]
"""By name what else is measured at each call; made anew for each walk."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """How far the size that `fit` tells before a call is from what the provider then counts.

    The first call of a session is left out: nothing is known then of system prompt and tools.
    """

    calls: int
    median_ratio: float
    worst_ratio: float
    """With its sign: below 0 the request was larger than thought."""
    worst_turn: int


@dataclass(slots=True)
class Row:
    """One session under one policy."""

    result: SessionResult
    charges: list[Charge]
    without: list[Charge]
    """The same calls without compaction."""
    found: dict[str, Any] = field(default_factory=dict)
    """What the measures found, by name."""

    @property
    def usd(self) -> float:
        return sum(c.usd for c in self.charges)

    @property
    def without_usd(self) -> float:
        return sum(c.usd for c in self.without)

    @property
    def tokens(self) -> float:
        return sum(c.tokens for c in self.charges)


@dataclass(slots=True)
class Replayed:
    """What is known of one session after its replay."""

    name: str
    path: str | None
    reader: str
    format: FormatName
    model: str | None
    notes: list[str]
    money: Money
    prediction: Prediction | None
    """None where the file holds no usage."""
    without_tokens: list[float]
    """Size of each call without compaction, on the scale of the provider's counts."""
    window_starts: list[int]
    rows: list[Row] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    """What stood right before some of its calls, and its title: only where asked for (see `texts`)."""
    compactions: tuple[ComparedCompaction, ...] = ()
    """The agent's own, as far as the file has their summaries."""

    @property
    def turns(self) -> int:
        return len(self.without_tokens)


def compared(
    session: Session,
    policies: Sequence[str],
    factory: Factory,
    *,
    window_tokens: int | None = None,
    recorded: bool = True,
    with_text: bool = False,
    measures: Measures | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> Replayed:
    """Replay a session under each policy, and once without any. `recorded=False` simulates the money spent."""
    weights, prices = Weights(session), prices_for(session)

    def walked(policy: str) -> Row:
        bill = Bill(weights, prices)
        more = {name: make(session) for name, make in (measures or {}).items()}
        result = replay(
            session,
            policy=policy,
            window_tokens=window_tokens,
            compactor_factory=factory,
            measures=[bill, *more.values()],
            weights=weights,
            progress=(lambda done, _: progress(policy, done)) if progress else None,
        )
        return Row(result, bill.charges, [], {name: measure.result for name, measure in more.items()})

    base = walked(BASE)
    rows = [base if policy == BASE else walked(policy) for policy in policies]
    money = money_of(session, weights, recorded=recorded)
    told = {m.turn for m in money.misses} | {b.turn for row in rows for b in row.result.batches}
    return Replayed(
        name=session.name,
        path=session.path,
        reader=session.reader,
        format=session.format,
        model=session.model,
        notes=session.notes,
        money=money,
        prediction=_prediction(base.result),
        without_tokens=[c.tokens for c in base.charges],
        window_starts=base.result.segment_starts,
        rows=[replace(row, without=base.charges) for row in rows],
        texts=texts_of(session, told) if with_text else {},
        compactions=compare_compactions(session),
    )


def _prediction(result: SessionResult) -> Prediction | None:
    """Of the walk without compaction: there the request is the recorded one, and so is its usage."""
    pairs = zip(result.before_tokens[1:], result.recorded_tokens[1:], strict=True)
    errors = [(told / counted - 1, turn) for turn, (told, counted) in enumerate(pairs, 1) if counted]
    if not errors:
        return None
    worst, turn = max(errors, key=lambda e: abs(e[0]))
    return Prediction(len(errors), median(abs(e) for e, _ in errors), worst, turn)
