"""What a fit ends with: the request to send, in the shape it was given, and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .compaction import Compaction, Outcome, Report
from .errors import StoreError
from .formats import plain
from .planning import Work
from .types import Edit, Json, Violation
from .view import View, apply


def result_of(
    work: Work,
    view: View,
    own: Sequence[Edit],
    reason: str,
    *,
    error: Exception | None = None,
    broken: Sequence[Violation] = (),
) -> Compaction:
    """The request with the edits of `view`, of which `own` are new."""
    work.before, work.view = work.view, view
    seen, error = work.seen, error or work.error
    as_given = not own and _places(view.edits) == _places(seen.given.edits if seen.given else ())
    items = list(seen.items) if as_given else apply(view.format, work.source.items, view.edits, plain)
    changed = not as_given or bool(work.mended)
    outcome: Outcome = "compacted" if own else "failed" if error else "reapplied" if changed else "unchanged"
    report = Report(
        outcome=outcome,
        reason=reason,
        tokens_before=work.size.tokens if seen.given else work.before.original_tokens,
        tokens_after=view.tokens,
        budget_tokens=work.limits.budget_tokens,
        window_tokens=work.limits.window_tokens,
        window_source=work.limits.window_source,
        edits=view.edits,
        new_edits=tuple(own),
        violations=tuple(broken),
        counter=work.counter.counter.name,
        error=error,
        summary_calls=tuple(work.calls),
    )
    return Compaction(
        request=_shaped(work, items) if changed else work.request,
        messages=items,
        fits=work.limits.budget_tokens is None or view.tokens <= work.limits.budget_tokens,
        changed=changed,
        report=report,
        conversation=work.conversation if view.edits else "",
        given=work.request,
        attempt=work.attempt,
        state=work,
    )


def _places(edits: Sequence[Edit]) -> list[Any]:
    """What the edits do to the list, their sizes aside."""
    return [(e.start, e.end, e.replacement) for e in edits]


def _shaped(work: Work, items: list[Any]) -> Any:
    if isinstance(work.request, Mapping):
        return {k: items if k == work.view.format.list_key else v for k, v in work.request.items()}
    return items


def unread(request: Json, items: list[Any], error: Exception) -> Compaction:
    """The request as it was given, where it could not even be read."""
    report = Report(
        outcome="failed",
        reason=f"the store can't be read: {error}" if isinstance(error, StoreError) else str(error),
        tokens_before=0,
        tokens_after=0,
        budget_tokens=None,
        window_tokens=None,
        window_source="unknown",
        error=error,
    )
    return Compaction(request=request, messages=items, fits=True, changed=False, report=report, given=request)
