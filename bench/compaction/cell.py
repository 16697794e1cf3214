"""One session under one policy in one window: a walk, and what is measured on it."""

from __future__ import annotations

import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from packlight.replay.cost import Bill, Marks, Prices
from packlight.replay.foreign import ForeignEngine
from packlight.replay.loss import ConstraintSurvival, Losses, MessageTexts
from packlight.replay.loss.constraints import RULES, Survival
from packlight.replay.run import SessionResult, replay
from packlight.replay.walk import Call, walk

from .rows import Row, Setting
from .sessions import Log

MARKS: tuple[Marks, ...] = ("trailing", "best")
COMPACTIONS = (1, 3)
"""The planted rules are looked for after the first batch, and after the third."""


@dataclass(slots=True)
class Sizes:
    """A measure: how large each request was, as a provider would count."""

    log: Log
    tokens: list[int] = field(default_factory=list)

    def see(self, call: Call) -> None:
        self.tokens.append(round(self.log.weights.request(call.messages, call.window)))


@dataclass(slots=True)
class Side:
    """A measure: the tokens of a summariser so far, at each request."""

    policy: Any
    input_tokens: list[float] = field(default_factory=list)
    output_tokens: list[float] = field(default_factory=list)

    def see(self, call: Call) -> None:
        self.input_tokens.append(getattr(self.policy, "side_input_tokens", 0.0))
        self.output_tokens.append(getattr(self.policy, "side_output_tokens", 0.0))


@dataclass
class Clocked:
    """An engine that tells how long it took."""

    engine: Any
    policy: Any = None
    """The policy inside a `ForeignEngine`: its own time counts, not that of the copies made for it."""
    cpu_seconds: float = 0.0

    @property
    def store(self) -> Any:
        return self.engine.store

    def fit(self, request: Any, /, *, now_seconds: float | None = None, format: str | None = None) -> Any:
        start = time.process_time()
        compaction = self.engine.fit(request, now_seconds=now_seconds, format=format)
        self.cpu_seconds += time.process_time() - start
        return compaction

    def record_usage(self, compaction: Any, usage: Any, /) -> object:
        return self.engine.record_usage(compaction, usage)


@dataclass
class Timed:
    """A policy that tells how long it took."""

    policy: Any
    cpu_seconds: float = 0.0

    def __call__(self, messages: list[Any], *, format: str) -> list[Any]:
        start = time.process_time()
        sent: list[Any] = self.policy(messages, format=format)
        self.cpu_seconds += time.process_time() - start
        return sent


def setting_of(log: Log, window_tokens: int, cache_read_ratio: float | None) -> Setting:
    session = log.session
    model = session.model or "unnamed"
    return Setting(
        format=session.format,
        model=model,
        models=frozenset({model, *(t.model for s in session.segments for t in s.turns if t.model)}),
        window_tokens=window_tokens,
        head_tokens=round(log.weights.head(0)),
        tokens_per_char=log.tokens_per_char,
        count=log.weights.message,
        cache_read_ratio=cache_read_ratio,
    )


class Walked:
    """A row on a session: figures as a JSON object."""

    def __init__(
        self,
        log: Log,
        row: Row,
        window_tokens: int,
        cache_read_ratio: float | None = 0.1,
        limits_tokens: Sequence[int] = (),
    ) -> None:
        self._log, self._row = log, row
        self._limits = limits_tokens or (window_tokens,)
        self._setting = setting_of(log, window_tokens, cache_read_ratio)

    def figures(self) -> dict[str, Any]:
        bills = [Bill(self._log.weights, Prices(), marks) for marks in MARKS]
        engine, policy = self._made()
        sizes, side, texts = Sizes(self._log), Side(policy), MessageTexts(self._log.session.format)
        losses, rules = Losses(texts, engine.store), ConstraintSurvival(texts, RULES)
        try:
            result = replay(
                self._log.session,
                policy=self._row.name,
                window_tokens=self._setting.window_tokens,
                compactor_factory=lambda *_: engine,
                measures=(*bills, sizes, side, losses, rules),
                weights=self._log.weights,
            )
        finally:
            close(policy)
        return {
            "turns": result.turns,
            **_checked(result),
            **self._sized(sizes.tokens),
            **{f"charge_{b.marks}": _charged(b) for b in bills},
            "side_input_tokens": round(max(side.input_tokens, default=0.0)),
            "side_output_tokens": round(max(side.output_tokens, default=0.0)),
            **_lost(losses, rules.result, sizes.tokens),
            **self._clocked(engine, policy),
            "by_turn": _by_turn(result, bills[0], side, losses),
        }

    def memory(self) -> dict[str, float]:
        """What the policy holds at its most, from a walk of its own without measures; of a package, its process."""
        engine, policy = self._made()
        tracemalloc.start()
        try:
            for _ in walk(self._log.session, engine, self._log.weights):
                pass
            peak = tracemalloc.get_traced_memory()[1] / 1e6
            return {"peak_mb": round(getattr(policy, "peak_mb", peak), 1)}
        finally:
            tracemalloc.stop()
            close(policy)

    def _made(self) -> tuple[Clocked, Any]:
        made = self._row.make(self._setting)
        if self._row.is_ours:
            return Clocked(made), None
        policy = Timed(made) if self._row.kind in ("control", "rule") else made
        name, model, window = self._row.name, self._setting.model, self._setting.window_tokens
        # the policies here change nothing that they are given; a package gets its own copy through its pipe
        return Clocked(ForeignEngine(policy, name, model, window, copies=False), policy), made

    def _clocked(self, engine: Clocked, policy: Any) -> dict[str, float]:
        own = engine if engine.policy is None else engine.policy
        return {"ms_per_turn": round(1000 * own.cpu_seconds / max(1, self._log.session.turns), 2)}

    def _sized(self, tokens: Sequence[int]) -> dict[str, Any]:
        return {
            "mean_tokens": round(sum(tokens) / max(1, len(tokens))),
            "largest_tokens": max(tokens, default=0),
            "over": {str(limit): sum(n > limit for n in tokens) for limit in self._limits},
        }


def close(policy: Any) -> None:
    if hasattr(policy, "close"):
        policy.close()


def _checked(result: SessionResult) -> dict[str, Any]:
    return {
        "invalid": result.invalid_requests,
        "rules_broken": sorted({v.rule for _, v in result.invalid}),
        "errors": len(result.errors),
        "error": result.errors[0] if result.errors else "",
        "restored": result.restored,
        "batches": len(result.batches),
        "prefix_breaks": result.prefix_breaks,
    }


def _charged(bill: Bill) -> dict[str, int]:
    return {
        "read": round(sum(c.read_tokens for c in bill.charges)),
        "write": round(sum(c.write_tokens for c in bill.charges)),
        "plain": round(sum(c.plain_tokens for c in bill.charges)),
    }


def _lost(losses: Losses, rules: Survival, tokens: Sequence[int]) -> dict[str, Any]:
    loss = losses.result
    missing = set().union(*_missed(losses).values())
    rows = {str(age): _row(row) for age, row in loss.references.rows.items()}
    found, copies, words = loss.found, loss.copies, loss.words.at_end
    return {
        "references": rows,
        "quotes": {"quotable": loss.quotes.quotable, "quoted": loss.quotes.quoted},
        "misses": {"turns": len(missing), "context_tokens": sum(tokens[t] for t in missing)},
        "recall": None
        if found is None
        else [found.names.found + found.quotes.found, found.names.missed + found.quotes.missed],
        "copies": None if copies is None else [copies.confirmed, copies.compared],
        "rules": {str(n): _counted(rules, n) for n in COMPACTIONS},
        "rules_at_end": _share([c.present[-1] for c in rules.constraints]),
        "words_at_end": None if words is None else [words.chars_kept, words.chars],
    }


def _missed(losses: Losses) -> dict[str, Counter[int]]:
    """How many names and quotes each turn misses."""
    return {
        "names_missed": Counter(r.turn for r in losses.references.references if not r.visible),
        "quotes_missed": Counter(q.turn for q in losses.quotes.quotes if q.missing and not q.missing_at_source),
    }


def _by_turn(result: SessionResult, bill: Bill, side: Side, losses: Losses) -> dict[str, list[int]]:
    """A number for each request; those in tokens add up to the figures of the session."""
    flags = {
        "batch": Counter({batch.turn for batch in result.batches}),
        "prefix_break": Counter([*result.breaks_at_batch, *result.breaks_elsewhere]),
    }
    return {
        "read": _steps(accumulate(c.read_tokens for c in bill.charges)),
        "write": _steps(accumulate(c.write_tokens for c in bill.charges)),
        "plain": _steps(accumulate(c.plain_tokens for c in bill.charges)),
        "side_input": _steps(side.input_tokens),
        "side_output": _steps(side.output_tokens),
        **{name: [of[turn] for turn in range(result.turns)] for name, of in {**flags, **_missed(losses)}.items()},
    }


def _steps(so_far: Iterable[float]) -> list[int]:
    return [after - before for before, after in pairwise([0, *map(round, so_far)])]


def _counted(rules: Survival, compactions: int) -> list[int]:
    """Of the rules that went through so many compactions: those that stood, and all."""
    return _share(
        [c.after_compactions[compactions - 1] for c in rules.constraints if len(c.after_compactions) >= compactions]
    )


def _share(stood: Sequence[bool]) -> list[int]:
    return [sum(stood), len(stood)]


def _row(row: Any) -> dict[str, int]:
    keys = ("references", "visible", "in_place", "drawn", "drawn_visible")
    return {key: getattr(row, key) for key in keys}
