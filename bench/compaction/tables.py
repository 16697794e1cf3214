"""Renders docs/benchmark-tables.md: every figure, by window and by session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from . import figures as f
from .chosen import DESIGNED_ON
from .columns import (
    BATCHES,
    COST,
    COSTS,
    CUT_OFF,
    EQR,
    FRR,
    FRR_ALL,
    FRR_OLD,
    INVALID,
    LOSSES,
    MEAN_TOKENS,
    MISSES,
    OVER,
    Column,
    Found,
    means,
    name_of,
    table,
)
from .plan import Results, with_room
from .rows import Row
from .words import ALL_FORMATS, BY_SESSION, MEANS, TABLES

WINDOWS = (64_000, 128_000, 200_000)
MAIN = 128_000
COMMON_FORMAT = "anthropic"
"""Every row can be walked on sessions in this format."""
OF_SESSION = (COST, MISSES, CUT_OFF, FRR, FRR_OLD, EQR, FRR_ALL, MEAN_TOKENS, BATCHES, INVALID, OVER)
OF_ALL = (COST, MISSES, FRR, FRR_OLD, EQR, INVALID, OVER)


def page(found: Found, rows: Sequence[Row]) -> str:
    parts = [TABLES]
    for window in walked_windows(found, rows):
        parts += [f"## In a window of {window:,} tokens", _means(found, rows, window)]
    parts += ["## By session", BY_SESSION, *(_by_session(name, found[name], rows) for name in found)]
    return "\n\n".join(parts) + "\n"


def undesigned(found: Found) -> Found:
    """The sessions that the digest was not designed on, of which means are made; all, where there are no others."""
    return {n: r for n, r in found.items() if PurePath(n).name not in DESIGNED_ON} or found


def common(found: Found) -> Found:
    """Of these, the ones that every row can be walked on."""
    others = undesigned(found)
    return {n: r for n, r in others.items() if r.about["format"] == COMMON_FORMAT} or others


def has_room(results: Results, window: int) -> bool:
    return bool(with_room([window], results.about["head_tokens"]))


def walked_windows(found: Found, rows: Sequence[Row]) -> list[int]:
    knowing = [row for row in rows if row.knows_window]
    return [w for w in WINDOWS if any(f.cells_of(r, row, w) for r in common(found).values() for row in knowing)]


def _means(found: Found, rows: Sequence[Row], window: int) -> str:
    parts = [MEANS]
    for title, columns in (("Cost", COSTS), ("Loss", LOSSES)):
        head = ["policy", "sessions", *(c.title for c in columns)]
        parts += [f"### {title}", table(head, means(common(found), rows, window, columns))]
    others = {n: r for n, r in undesigned(found).items() if has_room(r, window)}
    everywhere = [row for row in rows if all(f.cells_of(r, row, window) for r in others.values())]
    if everywhere and len(others) > len(common(found)):
        head = ["policy", "sessions", *_titles(OF_ALL)]
        parts += ["### In every format", ALL_FORMATS, table(head, means(others, everywhere, window, OF_ALL))]
    return "\n\n".join(parts)


def _by_session(name: str, results: Results, rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        if row.kind != "layer" and f.cells_of(results, row, MAIN):
            values = [(c, c.on(results, row, MAIN)) for c in OF_SESSION]
            lines.append([name_of(row), *(c.shown(v and v.mean) for c, v in values)])
    return f"### {name}\n\n" + table(["policy", *_titles(OF_SESSION)], lines)


def _titles(columns: Sequence[Column]) -> list[str]:
    names = {COST: "cost", FRR: "FRR over 10"}
    return [names.get(c, c.title) for c in columns]
