"""The table of policies: what is told of each, over one session or over many.

A column is computed from the rows of one policy, so that a total is the same column over more rows. To show what a
measure finds, add a column that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

from .compare import Measures, Row
from .foreign import is_foreign
from .lost import Lost, WhatIsLost
from .text import cut, share, table, usd_text


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    """Short, as `--json` has it."""
    value: Callable[[Sequence[Row]], Any]
    """Of one or more rows of the same policy; None where there is nothing to tell."""
    show: Callable[[Any], str] = "{:,}".format
    label: str = ""
    """What it tells, in words, before the figures; the name where there is none."""
    hides_zeros: bool = False
    """Left out where no policy has any."""
    measures: Measures = field(default_factory=dict)
    """What has to be measured for it: `Row.found` has the results, under the same names."""


def _count(of: Callable[[Row], int]) -> Callable[[Sequence[Row]], int]:
    return lambda rows: sum(map(of, rows))


def mean_context(rows: Sequence[Row]) -> int:
    """Tokens of a request, at the mean of all calls."""
    calls = sum(len(r.charges) for r in rows)
    return round(sum(r.tokens for r in rows) / calls) if calls else 0


def cost(rows: Sequence[Row]) -> float:
    return sum(r.usd for r in rows)


def cost_ratio(rows: Sequence[Row]) -> float | None:
    """Cost by what no compaction costs under the same cache."""
    without = sum(r.without_usd for r in rows)
    return cost(rows) / without if without else None


def _restored(rows: Sequence[Row]) -> bool | None:
    """None for a policy that keeps nothing."""
    return None if is_foreign(rows[0].result.policy) else all(r.result.restored for r in rows)


def _lost(rows: Sequence[Row]) -> Lost | None:
    """None where it was not measured."""
    found = [r.found["lost"] for r in rows if "lost" in r.found]
    return reduce(add, found) if found else None


def reference_recall(rows: Sequence[Row]) -> float | None:
    lost = _lost(rows)
    return lost.reference_ratio if lost else None


def _quote_recall(rows: Sequence[Row]) -> float | None:
    lost = _lost(rows)
    return lost.quote_ratio if lost else None


_LOST: Measures = {"lost": WhatIsLost}

COLUMNS: tuple[Column, ...] = (
    Column("cost", cost, usd_text, "input cost"),
    Column("vs none", cost_ratio, share, "cost by that of none"),
    Column("mean context", mean_context, label="mean request, tokens"),
    Column("FRR", reference_recall, share, "names used again, in sight (FRR)", measures=_LOST),
    Column("EQR", _quote_recall, share, "old text of edits, in sight (EQR)", measures=_LOST),
    Column("batches", _count(lambda r: len(r.result.batches)), label="batches of edits"),
    Column("breaks", _count(lambda r: r.result.prefix_breaks), label="requests that broke their prefix"),
    Column("invalid", _count(lambda r: r.result.invalid_requests), label="invalid requests"),
    Column(
        "over window", _count(lambda r: len(r.result.not_fitting)), label="requests over the window", hides_zeros=True
    ),
    Column("errors", _count(lambda r: len(r.result.errors)), label="errors of the policy", hides_zeros=True),
    Column("restored", _restored, lambda all_of_it: "yes" if all_of_it else "NO", "all of it can be had back"),
)

MEANING = (
    "in sight: of the names last seen over 10 calls before that the agent then used, and of the old text of its edits,"
    " what still stood in its request"
)


def measures_of(columns: Sequence[Column] = COLUMNS) -> Measures:
    return {name: make for column in columns for name, make in column.measures.items()}


def cells_of(rows: Sequence[Row], columns: Sequence[Column] = COLUMNS) -> list[str]:
    """What the columns show of the rows of one policy."""
    values = [c.value(rows) for c in columns]
    return ["-" if v is None else c.show(v) for c, v in zip(columns, values, strict=True)]


def shown_columns(rows: Sequence[Row], columns: Sequence[Column] = COLUMNS) -> list[Column]:
    """Without those that have nothing to tell of any policy."""
    groups = by_policy(rows).values()
    return [c for c in columns if not c.hides_zeros or any(c.value(group) for group in groups)]


def by_policy(rows: Sequence[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.result.policy, []).append(row)
    return groups


def policies_table(
    rows: Sequence[Row], *, columns: Sequence[Column] = COLUMNS, indent: str = "", width: int = 100
) -> str:
    """The policies beside each other, as many as the width holds, the rest below. The rows may be of many sessions."""
    shown = shown_columns(rows, columns)
    labels = ["", *(c.label or c.name for c in shown)]
    sides = [[cut(policy, 24), *cells_of(group, shown)] for policy, group in by_policy(rows).items()]
    blocks: list[list[list[str]]] = [[]]
    for side in sides:
        taken = sum(2 + max(map(len, s)) for s in (*blocks[-1], side))
        if blocks[-1] and len(indent) + max(map(len, labels)) + taken > width:
            blocks.append([])
        blocks[-1].append(side)
    return "\n\n".join(table(list(zip(labels, *block, strict=True)), left=1, indent=indent) for block in blocks)
