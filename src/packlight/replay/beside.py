"""What the agent's own compactions kept, beside what the digest keeps in no more tokens: the table and its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import reduce
from operator import add
from typing import Any

from .loss.recorded import ComparedCompaction, Kept
from .text import table, tokens_text

HEAD = ("", "its summary", "all it went on with", "our digest")
_LINES = (
    ("edited files named", "edited"),
    ("files only read, named", "only_read"),
    ("short user messages, verbatim", "short_messages"),
    ("names used later, in sight", "references"),
)
_SEEN = {"edited": "edited_named", "only_read": "only_read_named"}
_SEEN |= {"short_messages": "short_messages_quoted", "references": "references_visible"}


def beside_rows(found: Sequence[ComparedCompaction]) -> list[list[str]]:
    """Rows of cells below `HEAD`; none without a compaction whose summary is recorded."""
    if not found:
        return []
    sides: list[Kept] = [reduce(add, (getattr(c, side) for c in found)) for side in ("summary", "recorded", "digest")]
    rows = [["tokens", *(tokens_text(k.tokens) for k in sides)]]
    for label, name in _LINES:
        if getattr(sides[0], name):
            rows.append([label, *(f"{getattr(k, _SEEN[name])} of {getattr(k, name)}" for k in sides)])
    return rows


def reads_line(found: Sequence[ComparedCompaction]) -> str:
    """How often it read files again afterwards, and how often it did so anyway."""
    reads, again = sum(c.reads for c in found), sum(c.reads_again for c in found)
    before, twice = sum(c.reads_before for c in found), sum(c.reads_before_again for c in found)
    return (
        f"afterwards {again} of {reads} reads were of files read before; before them {twice} of {before} were repeats"
    )


def beside_text(found: Sequence[ComparedCompaction], *, indent: str) -> list[str]:
    """Lines for a terminal."""
    rows = beside_rows(found)
    if not rows:
        return []
    return [*table([HEAD, *rows], left=1, indent=indent).split("\n"), indent + reads_line(found)]


def beside_json(found: Sequence[ComparedCompaction]) -> list[dict[str, Any]]:
    return [asdict(c) for c in found]
