"""Planning a batch: which layers run, how far, and whether what they plan is worth making."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .budget import Limits
from .formats import encode
from .journal import Batch
from .layers import (
    ClassicHistory,
    CompactHistory,
    MediaLimits,
    NanoHistory,
    ProviderHistory,
    ReadAgain,
    ToolResultBudget,
)
from .layers.read_again import is_pointer
from .policy import Policy, Size
from .reading import Reader, Seen
from .rescue import MAX_ATTEMPTS
from .tokens import Counter
from .types import Edit, Json, Layer, SummaryCall, SummaryReply, SummaryRequest, Target, Violation
from .view import View

MIN_GAIN_RATIO = 0.05
"""A batch that does not make the request fit must free at least this share of the budget: else each call made one."""

SHARES = (1.0, 0.85, 0.7)
"""Shares of the budget that the layers of last resort aim at, one try after the other."""
SHARES_AFTER_OVERFLOW = (0.7, 0.6, 0.5)
"""The same after an error: our count was wrong once already, and a batch should not follow at once."""

Steps = Generator[SummaryRequest, SummaryReply, View]


@dataclass(frozen=True, slots=True)
class Counting:
    """How the requests of a model are counted, and the reader that remembers the counts."""

    counter: Counter
    count: Callable[[Json], int]
    reader: Reader


@dataclass(slots=True)
class Work:
    """One request on its way through a fit."""

    request: Any
    head: Mapping[str, Any]
    seen: Seen
    """As given."""
    source: Seen
    """The conversation behind it: the same, unless the caller wrote our output back."""
    batch: Batch | None
    view: View
    limits: Limits
    size: Size
    counter: Counting
    conversation: str
    now_seconds: float
    mended: list[tuple[int, int, tuple[Json, ...]]]
    fresh: bool = False
    attempt: int = 0
    error: Exception | None = None
    """What a layer failed with; the others went on."""
    focus: str = ""
    calls: list[SummaryCall] = field(default_factory=list)
    """Of a summarising model, for this batch."""
    before: View | None = None
    """Without the edits that this fit planned; set at its end."""
    leaves_tokens: int = 0
    """Of a batch that was not made because it is not due after all: what it would have left."""
    other_limit: bool = False
    """The request breaks a limit that is not of tokens: bytes, or number or size of images."""

    def run(self, layer: Layer, view: View, target: Target) -> Steps:
        """The view with what a layer plans; one that writes a summary is driven step by step."""
        try:
            if isinstance(layer, (CompactHistory, ClassicHistory, NanoHistory, ProviderHistory)):
                edits, error = yield from self._noted(layer.steps(view, target))
                self.error = error or self.error
            else:
                edits = layer(view, target)
        except Exception as error:  # the other layers go on: an overflow must not depend on a writer
            self.error = error
            return view
        return view.with_edits(edits)

    def _noted(
        self, steps: Generator[SummaryRequest, SummaryReply, tuple[list[Edit], Exception | None]]
    ) -> Generator[SummaryRequest, SummaryReply, tuple[list[Edit], Exception | None]]:
        """The same steps, with every call noted that was made."""
        try:
            question = next(steps)
            while True:
                reply = yield question
                if reply.seconds:
                    self.calls.append(
                        SummaryCall(
                            model=reply.model,
                            input_tokens=reply.input_tokens,
                            output_tokens=reply.output_tokens,
                            seconds=reply.seconds,
                            error=reply.error,
                        )
                    )
                question = steps.send(reply)
        except StopIteration as done:
            edits: tuple[list[Edit], Exception | None] = done.value
            return edits


def looks_at(layer: Layer, view: View, budget: int, largest: float) -> bool:
    """Whether an `on_arrival` layer should look at the unseen results; `largest` is the biggest message's tokens."""
    if isinstance(layer, ToolResultBudget):
        return largest > layer.limit_tokens(budget)
    if isinstance(layer, ReadAgain):
        return bool(view.edits) and any(is_pointer(r.part.text) for r in view.results(view.first_unseen))
    return True


def planned(work: Work, policy: Policy, reason: str | None, force: bool) -> Steps:
    """The view that the policy's layers come to; the one of `work` when they find nothing."""
    view = work.view
    target = target_of(work, policy, force)
    if work.attempt:
        view = yield from work.run(MediaLimits(), view, target)
        return (yield from squeezed(work, policy, view))
    for layer in policy.on_arrival if work.limits.budget_tokens is not None else ():
        view = yield from work.run(layer, view, target)
    for layer in policy.each_call if reason is not None else ():
        view = yield from work.run(layer, view, target)
    size, arrived = size_of(work, policy, view), view
    batch_due = force or policy.due(size) is not None
    for layer in policy.when_due if batch_due else ():
        if view.tokens > target.target_tokens or policy.each_call:
            view = yield from work.run(layer, view, target)
    if batch_due and not force and not work.calls and policy.due(replace(size, base_tokens=view.tokens)) is None:
        work.leaves_tokens, view = view.tokens, arrived  # what it leaves was a guess until now
    if policy.on_overflow:
        view = yield from work.run(MediaLimits(), view, target)
        view = yield from squeezed(work, policy, view)
    return view


def squeezed(work: Work, policy: Policy, view: View) -> Steps:
    """Down to the budget by the layers of last resort, when the planned ones were not enough."""
    limits = work.limits
    size_bytes = bytes_of(view) if limits.max_bytes is not None else 0
    over_bytes = limits.max_bytes is not None and size_bytes > limits.max_bytes
    for attempt in range(1, MAX_ATTEMPTS + 1):
        over = limits.budget_tokens is not None and view.tokens > limits.budget_tokens
        if not over and not over_bytes:
            break
        budget = limits.budget_tokens if limits.budget_tokens is not None else view.tokens
        share = SHARES_AFTER_OVERFLOW[max(attempt, work.attempt) - 1] if work.attempt else SHARES[attempt - 1]
        if over_bytes and limits.max_bytes is not None:
            share = min(share, view.tokens * limits.max_bytes / size_bytes / budget)
        target = Target(
            budget_tokens=budget,
            target_tokens=round(budget * share),
            unseen_may_shrink=True,
            attempt=attempt,
            max_bytes=limits.max_bytes if over_bytes else None,
            max_images=limits.max_images,
            max_image_pixels=limits.max_image_pixels,
        )
        for layer in policy.on_overflow:
            view = yield from work.run(layer, view, target)
        over_bytes = False
    return view


def bytes_of(view: View) -> int:
    """Size of the request's messages as JSON."""
    return len(encode(view.rendered())) if view.edits else sum(m.size_bytes for m in view.messages)


def refused(work: Work, view: View, broken: Sequence[Violation]) -> str | None:
    """Why a planned batch is not made: it would break something, or be no gain worth a rewrite of the cache."""
    if broken:
        return f"it would break the request: {broken[0]}"
    freed, budget = work.view.tokens - view.tokens, work.limits.budget_tokens
    restored = any(e.action == "restored" for e in new_edits(work.view, view))
    if freed <= 0 and not work.other_limit and not restored:
        return "it would not be smaller"
    if budget is not None and view.tokens > budget and freed < budget * MIN_GAIN_RATIO:
        why = f"only {freed:,} tokens more can go, and {view.tokens:,} would stay"
        return f"{why} ({view.fixed_tokens:,} of system and tools)"
    return None


def target_of(work: Work, policy: Policy, force: bool) -> Target:
    """Where a planned batch should end; when asked for although nothing is due, well below the present size."""
    limits, view = work.limits, work.view
    budget = limits.budget_tokens if limits.budget_tokens is not None else view.tokens
    fixed = view.fixed_tokens
    goal = fixed + round(max(0, budget - fixed) * policy.target_ratio)
    if policy.target_tokens is not None:
        goal = min(goal, fixed + policy.target_tokens)
    if force:
        goal = min(goal, round(view.tokens * 0.3))
    return Target(
        budget_tokens=budget,
        target_tokens=goal,
        max_images=limits.max_images,
        max_image_pixels=limits.max_image_pixels,
        focus=work.focus,
    )


def size_of(work: Work, policy: Policy, view: View) -> Size:
    """The size of a planned view. Only a policy that edits at each call looks at characters."""
    chars = work.size.chars
    if policy.each_call:
        chars = sum(len(str(m)) for m in view.rendered())
    shortened = work.view.tokens - view.tokens
    base_tokens = max(0, work.size.base_tokens - shortened)  # it counts what is new, which is what was shortened so far
    budget = work.limits.budget_tokens
    return replace(work.size, tokens=view.tokens, chars=chars, base_tokens=base_tokens, budget_tokens=budget)


def new_edits(before: View, after: View) -> tuple[Edit, ...]:
    """Those in effect in `after` that were not in `before`."""
    known = {id(e) for e in before.edits}
    return tuple(e for e in after.edits if id(e) not in known)
