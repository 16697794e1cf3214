"""The figures of every request as CSV, for whoever wants to plot them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .plan import Results
from .rows import Row
from .turns import COLUMNS, paid, sent

HEAD = (
    *("session", "policy", "window_tokens", "window_shift", "read_ratio", "request"),
    *("sent_tokens", *(f"{name}_tokens" for name in COLUMNS[:5])),
    *COLUMNS[5:],
    *("cost_so_far", "uncompacted_so_far", "cost_so_far_at_0.1"),
)


def lines(results: Results, rows: Sequence[Row], windows: Sequence[int]) -> Iterator[Sequence[Any]]:
    """Every walk of these rows on a session as `HEAD` says, a line for each request; costs in tokens of plain input.

    No window is told of a row that does the same in every one. Without a walk of `identity`, which costs are compared
    with, there is nothing; nor of walks from before these figures were kept.
    """
    by_name = {row.name: row for row in rows}
    if results.uncompacted is None:
        return
    uncompacted = results.uncompacted["by_turn"]
    for walk, cell in results.cells.items():
        row_name, window, shift, ratio = walk.rsplit("|", 3)
        row = by_name.get(row_name)
        if row is None or "by_turn" not in cell or (row.knows_window and int(window) not in windows):
            continue
        told = None if ratio == "None" else float(ratio)
        of_walk = [results.about["name"], row_name, int(window) if row.knows_window else "", shift, told]
        by_turn = cell["by_turn"]
        costs = [paid(by_turn, told), paid(uncompacted, told), paid(by_turn, 0.1)]
        figures = zip(sent(by_turn), *(by_turn[name] for name in COLUMNS), *costs, strict=True)
        for request, numbers in enumerate(figures):
            yield [*of_walk, request, *map(round, numbers)]
