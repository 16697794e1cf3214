"""`compact_history`: old turns become a summary; the newest stand behind it verbatim.

The request after it: system | first user message | summary | (live request) | newest turns. The summary is made from
the source each time, never from an earlier summary.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from ..errors import SummaryError
from ..laws import segments
from ..summary import digest
from ..types import Edit, Summary, SummaryJob, SummaryReply, SummaryRequest, Target, Writer
from ..view import View
from .fold import Run, fold, runs_between, user_words

NAME = "compact_history"
MIN_SUMMARY_TOKENS = 600
"""A summary gets at least so much room, or nine tenths of what it stands for: less says nothing."""
Steps = Generator[SummaryRequest, SummaryReply, "list[Edit]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactHistory:
    writer: Writer = field(default=digest, repr=False)
    keep_recent_tokens: int | None = None
    """Newest turns that stay; None: a fifth of the target, at least 4,000 where that fits."""
    max_summary_tokens: int = 30_000

    def __call__(self, view: View, target: Target) -> list[Edit]:
        """Without a model: what the writer yields is answered by nothing. The engine drives `steps` instead."""
        return run_without_model(self.steps(view, target))

    def steps(self, view: View, target: Target) -> Steps:
        if view.tokens <= target.target_tokens:
            return []
        start, end = history_span(view, self._recent(target))
        keep = live_request(view, start, end)
        runs = runs_between(view, start, end, keep)
        if not runs:
            return []
        summary = yield from self._written(view, target, runs, end, keep)
        edits = fold(view, NAME, start, end, lambda _: summary.text, reason=f"{self._count(runs)} messages", keep=keep)
        return edits if view.with_edits(edits).tokens < view.tokens else []

    def _recent(self, target: Target) -> int:
        if self.keep_recent_tokens is not None:
            return self.keep_recent_tokens
        return max(target.target_tokens // 5, min(4_000, target.target_tokens // 3))

    def _written(
        self, view: View, target: Target, runs: list[Run], end: int, keep: set[int]
    ) -> Generator[SummaryRequest, SummaryReply, Summary]:
        folded = sum(view.tokens_of(i) for a, b in runs for i in range(a, b)) * view.ratio
        rest = view.tokens - folded
        room = min(self.max_summary_tokens, int(target.target_tokens - rest), int(folded * 0.9))
        job = SummaryJob(
            view=view,
            start=runs[0][0],
            end=runs[-1][1],
            max_tokens=max(room, min(MIN_SUMMARY_TOKENS, int(folded * 0.9))),
            visible_from=end,
            kept=frozenset(keep | (set(range(runs[0][0], runs[-1][1])) - {i for a, b in runs for i in range(a, b)})),
        )
        summary = yield from self.writer(job)
        return summary

    @staticmethod
    def _count(runs: list[Run]) -> int:
        return sum(b - a for a, b in runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class NanoHistory:
    """The second article's compact_messages: over 20 messages, all but the system message and the last 6 are summarised.

    With the laws kept: the cut moves to the nearest valid place, and the user's words stand in the summary. Where the
    article acknowledges its own summary as the assistant although an assistant's turn follows, the user's first
    message stays instead, so the count is the article's.
    """

    max_messages: int = 20
    keep_last: int = 6
    writer: Writer = field(default=digest, repr=False)
    max_summary_tokens: int = 4_000

    def __call__(self, view: View, target: Target) -> list[Edit]:
        return run_without_model(self.steps(view, target))

    def steps(self, view: View, target: Target) -> Steps:
        if _standing(view) <= self.max_messages:
            return []
        end = max((b for a, b in segments(view) if b <= len(view.messages) - self.keep_last), default=0)
        first = next((i for i, m in enumerate(view.messages) if m.role != "system"), 0)
        start = first + 1 if end < len(view.messages) and view.messages[end].role == "assistant" else first
        keep = live_request(view, start, end)
        runs = runs_between(view, start, end, keep)
        if not runs:
            return []
        folded = sum(view.tokens_of(i) for a, b in runs for i in range(a, b)) * view.ratio
        job = SummaryJob(
            view=view,
            start=start,
            end=end,
            max_tokens=int(min(self.max_summary_tokens, max(600, folded * 0.9))),
            visible_from=end,
            kept=frozenset(keep),
        )
        summary = yield from self.writer(job)
        edits = fold(view, NAME, start, end, lambda _: f"[Previous conversation summary]: {summary.text}", keep=keep)
        return edits if view.with_edits(edits).tokens < view.tokens else []


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicHistory:
    """The first article's L4: over the threshold everything becomes one summary, but for what was not seen yet."""

    writer: Writer = field(default=digest, repr=False)
    max_summary_tokens: int = 4_000

    def __call__(self, view: View, target: Target) -> list[Edit]:
        return run_without_model(self.steps(view, target))

    def steps(self, view: View, target: Target) -> Steps:
        start, end = history_span(view, 0)
        keep = live_request(view, start, end)
        runs = runs_between(view, start, end, keep)
        if not runs:
            return []
        folded = sum(view.tokens_of(i) for a, b in runs for i in range(a, b)) * view.ratio
        job = SummaryJob(
            view=view,
            start=runs[0][0],
            end=runs[-1][1],
            max_tokens=int(min(self.max_summary_tokens, max(600, folded * 0.9))),
            visible_from=end,
            kept=frozenset(keep),
        )
        summary = yield from self.writer(job)
        edits = fold(view, NAME, start, end, lambda _: f"[Compacted]\n\n{summary.text}", keep=keep)
        return edits if view.with_edits(edits).tokens < view.tokens else []


def _standing(view: View) -> int:
    """How many messages the request has now."""
    count = len(view.messages)
    for edit in view.edits:
        if len(edit.start) == 1:
            count += len(edit.replacement) - (edit.end[0] - edit.start[0])
    return count


def history_span(view: View, recent_tokens: int) -> tuple[int, int]:
    """Where the old turns begin and end: behind the first user message, before the newest turns.

    The newest turns hold at least what the model has not seen and the last complete round.
    """
    first = next((i for i, m in enumerate(view.messages) if m.role == "user"), -1)
    pieces = segments(view)
    end = len(view.messages)
    left = recent_tokens / view.ratio
    rounds = 0
    for a, b in reversed(pieces):
        weight = sum(view.tokens_of(i) for i in range(a, b))
        needed = b > view.first_unseen or rounds == 0
        if not needed and left < weight:
            break
        left -= weight
        end = a
        rounds += view.messages[a].role == "assistant"
    return first + 1, end


def live_request(view: View, start: int, end: int) -> set[int]:
    """The last message that the user typed, when the stretch holds it."""
    for i in range(len(view.messages) - 1, -1, -1):
        if view.messages[i].role == "user" and any(p.kind in ("text", "media") for p in view.messages[i].parts):
            return {i} if start <= i < end else set()
    return set()


def run_without_model(steps: Steps) -> list[Edit]:
    """The edits of a layer whose writer asks no model. Raises SummaryError when it does."""
    try:
        next(steps)
    except StopIteration as done:
        return list(done.value)
    raise SummaryError("this writer asks a model; give it to a Compactor")


__all__ = [
    "ClassicHistory",
    "CompactHistory",
    "NanoHistory",
    "history_span",
    "live_request",
    "run_without_model",
    "user_words",
]
