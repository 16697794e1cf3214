"""`compact_history`: old turns become a summary; the newest stand behind it verbatim.

The request after it: system | first user message | summary | (live request) | newest turns. The digest is made from the
source each time, never from an earlier summary; what a model wrote is brought up to date with what is new.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..driving import drive
from ..errors import SummaryError
from ..summary import Digest, ModelWriter, carried, digest, standing_prose
from ..types import Edit, Summary, SummaryJob, SummaryReply, SummaryRequest, Target, Writer
from ..view import View
from .fold import Run, fold, pieces_of, runs_between, stands
from .keep import live_request, typed_messages

NAME = "compact_history"
MIN_SUMMARY_TOKENS = 600
"""A summary gets at least so much room, or nine tenths of what it stands for: less says nothing."""
SUMMARY_RATIO = 0.5
"""And at least this share of what the budget leaves beside what stays, though the target be missed: a first message or
tools that fill half the window must not starve it."""
_CONTENTS_TOKENS = 40
"""What the line takes that tells where the contents of a summary are, about; a path is longer than a reference."""
Steps = Generator[SummaryRequest, SummaryReply, "tuple[list[Edit], Exception | None]"]
"""Ends with the planned edits, and why a part that a model was to write is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactHistory:
    writer: Writer = field(default=digest, repr=False)
    keep_recent_tokens: int | None = None
    """Newest turns that stay; None: a fifth of the target beside system and tools, at least 4,000 where
    that fits."""
    max_summary_tokens: int = 40_000
    again: bool = False
    """Write a smaller summary where nothing but a summary stands already."""

    def __call__(self, view: View, target: Target) -> list[Edit]:
        """Without a model: what the writer yields is answered by nothing. The engine drives `steps` instead."""
        return drive(self.steps(view, target))[0]

    def steps(self, view: View, target: Target) -> Steps:
        if view.tokens <= target.target_tokens:
            return [], None
        start, end = history_span(view, recent_tokens(view, target, self.keep_recent_tokens))
        runs = runs_between(view, start, end, _live(view))
        folded = weight(view, runs)
        room = room_beside(target, view.tokens - folded, folded, self.max_summary_tokens)
        if self.again:  # all that is left is to be filled, and no more
            room -= round(_CONTENTS_TOKENS * view.ratio)
        least = min(MIN_SUMMARY_TOKENS, int(folded * 0.9))
        about: dict[str, Any] = {"focus": target.focus, "again": self.again, "prose": room >= MIN_SUMMARY_TOKENS}
        return (yield from summarised(view, self.writer, end, runs, max(room, least), **about))


@dataclass(frozen=True, slots=True, kw_only=True)
class NanoHistory:
    """The second article's compact_messages: over 20 messages, all but system and the last 6 become a summary.

    With the laws kept: the cut moves to the nearest valid place, and the user's words stand in the summary. Where the
    article acknowledges its own summary as the assistant although an assistant's turn follows, the user's first
    message stays instead, so the count is the article's.
    """

    max_messages: int = 20
    keep_last: int = 6
    writer: Writer = field(default=digest, repr=False)
    max_summary_tokens: int = 4_000

    def __call__(self, view: View, target: Target) -> list[Edit]:
        return drive(self.steps(view, target))[0]

    def steps(self, view: View, target: Target) -> Steps:
        if _standing(view) <= max(self.max_messages, self.keep_last + 3):
            return [], None  # fewer than two messages less would stand
        last = len(view.messages) - self.keep_last
        end = max((b for _, b in pieces_of(view) if b <= min(last, _last_round(view))), default=0)
        first = next((i for i, m in enumerate(view.messages) if m.role != "system"), 0)
        start = first + 1 if end < len(view.messages) and view.messages[end].role == "assistant" else first
        runs = runs_between(view, start, end, _live(view))
        room = _room(self.max_summary_tokens, weight(view, runs))
        frame = "[Previous conversation summary]: "
        join = not any(p.kind == "call" for m in view.messages for p in m.parts)
        focus = target.focus
        return (yield from summarised(view, self.writer, end, runs, room, frame=frame, focus=focus, join=join))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicHistory:
    """The first article's L4: over the threshold everything becomes one summary, but for what was not seen yet."""

    writer: Writer = field(default=digest, repr=False)
    max_summary_tokens: int = 4_000

    def __call__(self, view: View, target: Target) -> list[Edit]:
        return drive(self.steps(view, target))[0]

    def steps(self, view: View, target: Target) -> Steps:
        start, end = history_span(view, 0)
        runs = runs_between(view, start, end, _live(view))
        room = _room(self.max_summary_tokens, weight(view, runs))
        frame, focus = "[Compacted]\n\n", target.focus
        return (yield from summarised(view, self.writer, end, runs, room, frame=frame, focus=focus))


def summarised(
    view: View,
    writer: Writer,
    end: int,
    runs: list[Run],
    max_tokens: int,
    *,
    frame: str = "",
    focus: str = "",
    join: bool = True,
    again: bool = False,
    prose: bool = True,
) -> Steps:
    """The edits that put the writer's summary in place of these stretches before `end`; none without a gain.

    Without `prose`, where room is short, no model's words go into it.

    Raises SummaryError when the writer gives none.
    """
    if not runs or (not again and stands(view, runs)):
        return [], None
    going = {i for a, b in runs for i in range(a, b)}
    first, last = runs[0][0], runs[-1][1]
    keep = frozenset(range(first, last)) - going
    if not prose and isinstance(writer, ModelWriter):
        writer = writer.digest
    job = SummaryJob(
        view=view,
        start=first,
        end=last,
        max_tokens=max_tokens,
        visible_from=end,
        kept=keep,
        previous=standing_prose(view, first, last, NAME) if prose else None,
        focus=focus,
    )
    steps = carried(writer, job) if isinstance(writer, Digest) and job.previous else writer(job)
    summary: Summary = yield from steps
    if not (summary.text or "").strip():
        if max_tokens < MIN_SUMMARY_TOKENS or isinstance(writer, Digest):
            return [], summary.error  # there was no room for one
        raise SummaryError("the writer gave an empty summary")
    reason = f"{len(going)} messages"
    text = frame + summary.text
    edits = fold(view, NAME, first, last, lambda _: text, reason=reason, keep=keep, join=join, again=again)
    return edits if edits and view.with_edits(edits).tokens < view.tokens else [], summary.error


def _live(view: View) -> set[int]:
    live = live_request(view)
    return set() if live is None else {live}


def weight(view: View, runs: Sequence[Run]) -> float:
    """What stands in these stretches now, calibrated."""
    tokens = sum(view.tokens_of(i) for a, b in runs for i in range(a, b))
    for edit in view.edits:  # of one message is counted there
        if len(edit.start) == 1 and edit.end[0] - edit.start[0] != 1 and any(a < edit.end[0] <= b for a, b in runs):
            tokens += edit.tokens_after
    return tokens * view.ratio


def room_beside(target: Target, stays: float, folded: float, most: int) -> int:
    """How large a summary may be beside what stays, in place of what is folded."""
    room = max(target.target_tokens - stays, (target.budget_tokens - stays) * SUMMARY_RATIO)
    return int(min(most, room, folded * 0.9))


def _room(max_summary_tokens: int, folded: float) -> int:
    """For summaries that are written often: room for the last one, less what makes it smaller than what goes."""
    return int(min(max_summary_tokens, max(MIN_SUMMARY_TOKENS, folded - 100)))


def _standing(view: View) -> int:
    """How many messages the request has now."""
    count = len(view.messages)
    for edit in view.edits:
        if len(edit.start) == 1:
            count += len(edit.replacement) - (edit.end[0] - edit.start[0])
    return count


def _last_round(view: View) -> int:
    """Where what the model has not answered yet begins: the newest call and its results, or the newest messages."""
    return next((a for a, _ in reversed(pieces_of(view)) if a < view.first_unseen), 0)


def recent_tokens(view: View, target: Target, chosen: int | None) -> int:
    """How much of the newest turns stays verbatim, where the caller did not choose."""
    if chosen is not None:
        return chosen
    room = max(0, target.target_tokens - view.fixed_tokens)
    return max(room // 5, min(4_000, room // 3))


def history_span(view: View, recent_tokens: int) -> tuple[int, int]:
    """Where the old turns begin and end: behind the first request of the user, before the newest turns.

    The newest turns hold at least what the model has not seen and the last complete round.
    """
    end = len(view.messages)
    left = recent_tokens / view.ratio
    rounds = 0
    for a, b in reversed(pieces_of(view)):
        weight = sum(view.tokens_of(i) for i in range(a, b))
        needed = b > view.first_unseen or rounds == 0
        if not needed and left < weight:
            break
        left -= weight
        end = a
        rounds += view.messages[a].role == "assistant"
    return _first_request(view) + 1, end


def _first_request(view: View) -> int:
    """The first message that the user typed, when nothing but instructions stands before it; else the first."""
    first = next((i for i, m in enumerate(view.messages) if m.role == "user"), -1)
    typed = next(iter(typed_messages(view)), first)
    before = view.messages[:typed] if typed > first else ()
    return typed if all(m.role in ("system", "user") for m in before) else first


__all__ = [
    "ClassicHistory",
    "CompactHistory",
    "NanoHistory",
    "history_span",
    "recent_tokens",
    "room_beside",
    "weight",
]
