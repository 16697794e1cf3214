"""`reactive_compact`: down to what fits, at once, without a model.

Runs when a request could not be sent otherwise: after an overflow error, or when the planned layers were not enough.
Harmless things first: old results, old turns, then long results, arguments and texts in their place, images, and
what the user typed last. Each further try is harsher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ..formats import encode
from ..types import Edit, Target
from ..view import View
from .compact_history import CompactHistory
from .keep import keep_terms, live_request, nothing_kept
from .micro_compact import MicroCompact
from .shorten import arguments, media, results, texts

NAME = "reactive_compact"
Step = Callable[[View], Iterable[Edit]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactiveCompact:
    keep_recent_tokens: int = 0
    """Newest turns to keep verbatim beyond what must stay, at the first try."""

    def __call__(self, view: View, target: Target) -> list[Edit]:
        before = {id(e) for e in view.edits}
        target = _by_bytes(view, target)
        for step in self._steps(target):
            if fits(view, target):
                break
            view = view.with_edits(step(view))
        return [e for e in view.edits if id(e) not in before]

    def _steps(self, target: Target) -> Iterator[Step]:
        live = live_request_of
        share_chars = max(200, target.target_tokens // 4 * 3)
        harsh = max(0, target.attempt - 1)
        yield lambda v: texts(v, share_chars, ("user",), live(v))
        yield lambda v: MicroCompact(keep_recent_tokens=0, working_set_tokens=0, partly=True)(v, target)
        recent = 0 if harsh else self.keep_recent_tokens
        yield lambda v: CompactHistory(keep_recent_tokens=recent)(v, target)
        for part in (4, 8, 16, 64, 256)[harsh:]:
            if part == 16:
                yield lambda v: CompactHistory(keep_recent_tokens=0, again=True)(v, target)
            yield from _in_place(_keep_chars(target, part), target)
            if part <= 16:  # a short last request is cut when all else is done
                yield _asked_last(target, part)
        yield lambda v: CompactHistory(keep_recent_tokens=0, max_summary_tokens=600, again=True)(v, target)
        yield lambda v: MicroCompact(keep_recent_tokens=0, working_set_tokens=0, partly=True)(nothing_kept(v), target)
        yield lambda v: CompactHistory(keep_recent_tokens=0, again=True)(nothing_kept(v), target)
        yield _asked_last(target, 64)
        yield _asked_last(target, 256)


def _keep_chars(target: Target, part: int) -> int:
    return max(80, target.target_tokens * 3 // part)


def _asked_last(target: Target, part: int) -> Step:
    return lambda v: texts(v, _keep_chars(target, part), ("user",))


def _in_place(keep_chars: int, target: Target) -> Iterator[Step]:
    unseen = target.unseen_may_shrink
    yield lambda v: _one_by_one(v, lambda w: results(w, keep_chars, unseen=unseen), target)
    yield lambda v: arguments(v, keep_chars)
    yield lambda v: texts(v, keep_chars, ("assistant",))
    yield lambda v: texts(v, keep_chars, ("user", "tool"), live_request_of(v))
    yield lambda v: media(v, keep_newest=2)
    yield lambda v: media(v)


def _one_by_one(view: View, plan: Callable[[View], Iterable[Edit]], target: Target) -> list[Edit]:
    """The planned edits up to the one that is enough."""
    out: list[Edit] = []
    freed = 0.0
    excess = view.tokens - target.target_tokens
    for edit in plan(view):
        standing = view.edit_of(edit.start[0], edit.start[1] if len(edit.start) == 2 else -1)
        out.append(edit)
        freed += ((standing.tokens_after if standing else edit.tokens_before) - edit.tokens_after) * view.ratio
        if target.max_bytes is None and freed >= excess:
            break
    return out


def live_request_of(view: View) -> frozenset[int]:
    """Messages of the user that are shortened last: the last request, and what holds a `<keep>`."""
    live = live_request(view)
    return frozenset(keep_terms(view)) | (frozenset() if live is None else {live})


def _by_bytes(view: View, target: Target) -> Target:
    """The target such that reaching its tokens brings the request about under the limit of bytes, too."""
    if target.max_bytes is None or (size := len(encode(view.rendered()))) <= target.max_bytes:
        return target
    tokens = int(view.tokens * target.max_bytes / size * 0.85)
    return replace(target, target_tokens=min(target.target_tokens, tokens))


def fits(view: View, target: Target) -> bool:
    """Whether the view is down to the target, in tokens and, where that is a limit, in bytes."""
    if view.tokens > target.target_tokens:
        return False
    return target.max_bytes is None or len(encode(view.rendered())) <= target.max_bytes * 0.95  # separators, escapes
