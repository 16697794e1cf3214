"""Signed thinking that is bound to everything before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Edit
from ..view import View


def unbound_thinking(view: View, planned: Sequence[Edit]) -> list[Edit]:
    """The further edits that a plan needs where thinking is bound to everything before it.

    Anthropic (Opus 5.5, Fable 5.1 and later, unknown Claude models; platform.claude.com, September 2026): one changed
    place makes every thinking block behind it invalid, unless what changed is a summary that the provider wrote. So
    all of it behind the first edit goes, the open tool loop's included. Nothing to do for other models: their thinking
    since the last typed message stays as it is.
    """
    edits = [e for e in planned if not _is_swap(view, e)]
    if view.format.name != "anthropic" or not view.binds_thinking or not edits:
        return []
    first = min(e.start for e in edits)
    return list(_behind(view.with_edits(planned), first, "signed thinking is bound to what was edited before it"))


def _is_swap(view: View, edit: Edit) -> bool:
    """Whether the provider's own summary, alone, takes the place of the beginning: what was bound to that stays so."""
    alone = edit.replacement[0] if len(edit.replacement) == 1 and edit.start == (0,) else None
    parts = view.format.parts(alone) if isinstance(alone, dict) else ()
    return len(parts) == 1 and parts[0].type == "compaction"


def all_thinking(view: View) -> list[Edit]:
    """The edits that take out all thinking of a request which the provider refused for it."""
    if view.format.name != "anthropic":
        return []
    return list(_behind(view, (0,), "the provider found signed thinking behind another prefix than its own"))


def _behind(view: View, first: tuple[int, ...], reason: str) -> Iterator[Edit]:
    for i in range(first[0], len(view.messages)):
        if view.messages[i].role == "assistant" and view.edit_of(i) is None:
            yield from _without_thinking(view, i, first, reason)


def _without_thinking(view: View, i: int, first: tuple[int, ...], reason: str) -> Iterator[Edit]:
    parts = view.messages[i].parts
    gone = [p for p in parts if p.kind == "thinking" and (i, p.block) >= first]
    if not gone:
        return
    if len(gone) == len(parts):
        yield view.replace("laws", "removed", ((i,), (i + 1,)), [], reason=reason)
        return
    for part in gone:
        if view.edit_of(i, part.block) is None:
            yield view.replace("laws", "removed", ((i, part.block), (i, part.block + 1)), [], reason=reason)
