"""`micro_compact`: old results become one informative line, those first that cost nothing to lose.

In this order: results superseded by a later read or write of the same file, copies of identical output, polls of a
command that was asked again, then the rest, oldest first. Protected: what the model has not seen, errors that
nothing has answered yet, the newest results by tokens, the newest text of files being edited, what the user keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..summary.files import FileEvent, file_events
from ..summary.wording import is_failure, target_of
from ..types import Edit, Target
from ..view import ResultAt, View
from .result import clearable, cleared

NAME = "micro_compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroCompact:
    """Clears results until the view is down to the target."""

    keep_recent_tokens: int | None = None
    """Newest results that stay; None: a quarter of the target."""
    working_set_tokens: int | None = None
    """Newest reads of edited files that stay; None: a quarter of the target."""
    min_saved_tokens: int = 40
    """A result is only cleared when that frees at least so many."""
    partly: bool = False
    """Clear what there is, although all of it would not reach the target."""

    def __call__(self, view: View, target: Target) -> list[Edit]:
        limit = view.tokens - target.target_tokens
        edits: list[Edit] = []
        if limit <= 0:
            return edits
        results = list(clearable(view))
        if not self.partly and sum(r.tokens for r in results) * view.ratio < limit:
            return edits  # a summary must follow and takes them with it
        freed = 0.0
        for result, reason in self._candidates(view, target, results):
            edit = cleared(view, NAME, result, reason) if result.tokens > self.min_saved_tokens else None
            if edit is None or result.tokens - edit.tokens_after < self.min_saved_tokens:
                continue
            edits.append(edit)
            freed += (result.tokens - edit.tokens_after) * view.ratio
            if freed >= limit:
                break
        return edits

    def _candidates(self, view: View, target: Target, results: list[ResultAt]) -> Iterator[tuple[ResultAt, str]]:
        useless = worthless(view, results)
        protected = self._protected(view, results, target)
        for result in results:
            if (key := (result.message, result.place)) in useless:
                yield result, useless[key]
        for result in results:
            key = (result.message, result.place)
            if key not in useless and key not in protected:
                yield result, "old"

    def _protected(self, view: View, results: list[ResultAt], target: Target) -> set[tuple[int, int]]:
        recent = target.target_tokens // 4 if self.keep_recent_tokens is None else self.keep_recent_tokens
        working = target.target_tokens // 4 if self.working_set_tokens is None else self.working_set_tokens
        kept: set[tuple[int, int]] = set()
        left = recent / view.ratio
        for result in reversed(results):
            left -= result.tokens
            if left < 0:
                break
            kept.add((result.message, result.place))
        return kept | _working_set(view, results, working / view.ratio) | _open_errors(results)


def _events(view: View) -> list[FileEvent]:
    if "file_events" not in view.memo:
        view.memo["file_events"] = file_events(view)
    known: list[FileEvent] = view.memo["file_events"]
    return known


def worthless(view: View, results: list[ResultAt]) -> dict[tuple[int, int], str]:
    """Results that nothing is lost with, and why."""
    out: dict[tuple[int, int], str] = {}
    places = {(r.message, r.place) for r in results}
    newest: dict[str, int] = {}
    for event in reversed(_events(view)):
        key = (event.result_message, event.result_place)
        later = newest.get(event.path)
        if event.action in ("write", "edit") and event.ok:
            if event.action == "write":
                newest.setdefault(event.path, event.message)
            if key in places:
                out[key] = "a successful write"
        elif event.action == "read" and event.ok:
            if later is not None and later > event.message and key in places:
                out[key] = "superseded by a later read or write of the same file"
            if not event.offset and not event.limit:
                newest.setdefault(event.path, event.message)
    seen: dict[tuple[str, str], bool] = {}
    asked: set[tuple[str, str]] = set()
    for result in reversed(results):
        place = (result.message, result.place)
        same = (result.tool, result.part.text)
        question = (result.tool, target_of(result.call)) if result.call else ("", "")
        if result.part.text and same in seen:
            out.setdefault(place, "the same output stands further down")
        elif result.call and question in asked and question[1] and not is_failure(result.part):
            out.setdefault(place, "the same call was made again later")
        seen[same] = True
        asked.add(question)
    return out


def _working_set(view: View, results: list[ResultAt], limit_tokens: float) -> set[tuple[int, int]]:
    """The newest reads of files that were edited since or before, newest first, as far as they fit."""
    events = _events(view)
    edited = {e.path for e in events if e.action in ("edit", "write") and e.ok}
    tokens = {(r.message, r.place): r.tokens for r in results}
    kept: set[tuple[int, int]] = set()
    for event in reversed(events):
        key = (event.result_message, event.result_place)
        if event.action != "read" or event.path not in edited or key not in tokens:
            continue
        limit_tokens -= tokens[key]
        if limit_tokens < 0:
            break
        kept.add(key)
    return kept


def _open_errors(results: list[ResultAt], newest: int = 5) -> set[tuple[int, int]]:
    """Failures whose call has not succeeded since: the newest few."""
    fine: set[tuple[str, str]] = set()
    kept: list[tuple[int, int]] = []
    for result in reversed(results):
        question = (result.tool, target_of(result.call)) if result.call else ("", "")
        if not is_failure(result.part):
            fine.add(question)
        elif question not in fine and len(kept) < newest:
            kept.append((result.message, result.place))
    return set(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMicroCompact:
    """The first article's L2: all but the last three results that are longer than 120 characters, at every call."""

    keep_results: int = 3
    min_chars: int = 120

    def __call__(self, view: View, target: Target) -> list[Edit]:
        old = [r for r in view.results() if not r.part.server][: -self.keep_results or None]
        wanted = {(r.message, r.place) for r in old if len(r.part.text) > self.min_chars or r.part.media}
        edits = (
            cleared(view, NAME, r, "not among the newest results")
            for r in clearable(view)
            if (r.message, r.place) in wanted
        )
        return [e for e in edits if e]
