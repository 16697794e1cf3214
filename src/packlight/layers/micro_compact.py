"""`micro_compact`: old results become one informative line, those first that cost nothing to lose.

In this order: reads superseded by a later read or write of the same file, copies of identical output, earlier results
of a call that was made again (polls), successful writes, then the rest, oldest first. Protected: what the model has
not seen, failures that nothing has mended yet, the newest results by tokens, the newest text of files being edited,
what the user keeps. Superseded reads and copies go although they are new: what they say stands further down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..summary.files import FileEvent, file_events
from ..summary.wording import is_failure, target_at
from ..types import Edit, Target
from ..view import Place, ResultAt, View
from .keep import call_text
from .result import clearable, cleared

NAME = "micro_compact"
PLACEHOLDER_TOKENS = 50
"""What a line that stands for a result weighs, about."""

SUPERSEDED = "superseded by a later read or write of the same file"
COPY = "the same output stands further down"
REPEATED = "the same call was made again later"
WRITTEN = "a successful write"
OLD = "old"
_ORDER = (SUPERSEDED, COPY, REPEATED, WRITTEN, OLD)
_FREE = frozenset({SUPERSEDED, COPY})
"""Nothing is lost with these, however new they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroCompact:
    """Clears results until the view is down to the target; none when all of them would not get it there."""

    keep_recent_tokens: int | None = None
    """Newest results that stay; None: a quarter of the target."""
    working_set_tokens: int | None = None
    """Newest reads of edited files that stay; None: a quarter of the target."""
    min_saved_tokens: int = 40
    """A result is only cleared when that frees at least so many."""
    partly: bool = False
    """Clear what there is, although all of it would not reach the target."""

    def __call__(self, view: View, target: Target) -> list[Edit]:
        limit = (view.tokens - target.target_tokens) / view.ratio
        if limit <= 0:
            return []
        results = list(clearable(view))
        if not self.partly and sum(r.tokens for r in results) < limit:
            return []  # a summary must follow and takes them with it
        candidates = self._candidates(view, target, results)
        if not self.partly and sum(r.tokens - PLACEHOLDER_TOKENS for r, _ in candidates) < limit:
            return []
        edits: list[Edit] = []
        freed = 0
        for result, reason in candidates:
            edit = cleared(view, NAME, result, reason)
            if edit is not None and result.tokens - edit.tokens_after >= self.min_saved_tokens:
                edits.append(edit)
                freed += result.tokens - edit.tokens_after
                if freed >= limit:
                    break
        return edits

    def _candidates(self, view: View, target: Target, results: list[ResultAt]) -> list[tuple[ResultAt, str]]:
        """What may go, in the order it goes."""
        reasons = worthless(view, results)
        protected = self._protected(view, results, target, {p for p, why in reasons.items() if why in _FREE})
        by_reason: dict[str, list[ResultAt]] = {why: [] for why in _ORDER}
        for result in results:
            place = (result.message, result.place)
            why = reasons.get(place, OLD)
            if result.tokens > self.min_saved_tokens and (why in _FREE or place not in protected):
                by_reason[why].append(result)
        return [(result, why) for why, those in by_reason.items() for result in those]

    def _protected(self, view: View, results: list[ResultAt], target: Target, free: set[Place]) -> set[Place]:
        recent = target.target_tokens // 4 if self.keep_recent_tokens is None else self.keep_recent_tokens
        working = target.target_tokens // 4 if self.working_set_tokens is None else self.working_set_tokens
        left = recent / view.ratio
        kept: set[Place] = set()
        for result in reversed(results):
            if (result.message, result.place) in free:
                continue
            left -= result.tokens
            if left < 0:
                break
            kept.add((result.message, result.place))
        return kept | _working_set(view, results, working / view.ratio, free) | _open_errors(view, results)


def worthless(view: View, results: Sequence[ResultAt]) -> dict[Place, str]:
    """Results that little or nothing is lost with, and why."""
    out = dict(_repeats(results))
    out.update(_files(view, {(r.message, r.place) for r in results}))
    return out


def _files(view: View, places: set[Place]) -> Iterator[tuple[Place, str]]:
    """Reads that a later read or write of the whole file supersedes, and successful writes."""
    newest: dict[str, FileEvent] = {}
    for event in reversed(file_events(view)):
        place = (event.result_message, event.result_place)
        if not event.ok or event.effects or (event.shown is not None and not event.shown.alone):
            continue  # what a shell command did and showed besides is not known
        if event.action in ("write", "edit"):
            if event.action == "write":
                newest.setdefault(event.path, event)
            if place in places:
                yield place, WRITTEN
        elif event.action == "read":
            later = newest.get(event.path)
            if later is not None and place in places and _holds(view, later, event):
                yield place, SUPERSEDED
            if not event.offset and not event.limit:
                newest.setdefault(event.path, event)


def _holds(view: View, later: FileEvent, read: FileEvent) -> bool:
    """Whether the later one shows all that the read showed: "file unchanged" does not, nor does a cut one."""
    if later.message <= read.message:
        return False
    if later.action == "write":
        return True
    old = view.messages[read.result_message].parts[read.result_place].text
    new = view.messages[later.result_message].parts[later.result_place].text
    if read.offset:
        return new.count("\n") + 1 >= read.offset + old.count("\n")
    return len(new) * 2 >= len(old)


def _repeats(results: Sequence[ResultAt]) -> Iterator[tuple[Place, str]]:
    """Results whose text, or whose very call, comes again further down."""
    outputs: set[tuple[str, str]] = set()
    asked: set[tuple[str, str]] = set()
    for result in reversed(results):
        call, text = result.call, result.part.text
        question = (call.tool, call_text(call)) if call is not None else ("", "")
        again = question in asked and not is_failure(result.part)
        if text and not result.part.media:
            output = (result.tool, text)
            if output in outputs:
                yield (result.message, result.place), COPY
                again = False
            outputs.add(output)
        if again:
            yield (result.message, result.place), REPEATED
        if call is not None and (call.arguments or call.arguments_text not in ("", "{}")):
            asked.add(question)


def _working_set(view: View, results: Sequence[ResultAt], limit_tokens: float, free: set[Place]) -> set[Place]:
    """The newest reads of files that were edited, newest first, as far as they fit."""
    if limit_tokens <= 0:
        return set()
    events = file_events(view)
    edited = {e.path for e in events if e.action in ("edit", "write") and e.ok}
    tokens = {(r.message, r.place): r.tokens for r in results}
    kept: set[Place] = set()
    for event in reversed(events):
        place = (event.result_message, event.result_place)
        if event.action != "read" or not event.ok or event.path not in edited or place not in tokens or place in free:
            continue
        limit_tokens -= tokens[place]
        if limit_tokens < 0:
            break
        kept.add(place)
    return kept


LOOKED_BACK = 400
"""A failure so many results ago that nothing has mended is no open question any more."""


def _open_errors(view: View, results: Sequence[ResultAt], newest: int = 5) -> set[Place]:
    """Failures whose call was not made again since: the newest few."""
    kept: set[Place] = set()
    last = results[-LOOKED_BACK:]
    failed = [is_failure(r.part) for r in last]
    if not any(failed):
        return set()
    fine: set[tuple[str, str]] = set()
    for result, bad in zip(reversed(last), reversed(failed), strict=True):
        place = (result.message, result.place)
        question = (result.tool, target_at(view, *place))
        if bad and question not in fine:
            kept.add(place)
            if len(kept) == newest:
                break
        fine.add(question)
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMicroCompact:
    """The first article's L2: all but the last three results that are longer than 120 characters, at every call."""

    keep_results: int = 3
    min_chars: int = 120

    def __call__(self, view: View, target: Target) -> list[Edit]:
        results = [r for r in view.results() if not r.part.server]
        old = results[: max(0, len(results) - self.keep_results)]
        wanted = {(r.message, r.place) for r in old if len(r.part.text) > self.min_chars or r.part.media}
        edits = (
            cleared(view, NAME, r, "not among the newest results")
            for r in clearable(view)
            if (r.message, r.place) in wanted
        )
        return [e for e in edits if e]
