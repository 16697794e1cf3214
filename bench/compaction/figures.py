"""What the cells of a session say: ratios, and means over walks in windows around one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .plan import SHIFTS, Results, with_room
from .rows import Row
from .turns import OUTPUT_RATIO, highest, prices

REFETCH_TOKENS, REFETCH_OUTPUT_TOKENS = 1_500, 150
"""What one more look at a file costs beside a request of its own: its result, and the call."""

Cells = list[dict[str, Any]]


@dataclass(frozen=True)
class Value:
    """A mean over walks, and its extremes."""

    mean: float
    low: float
    high: float


def mean_of(values: Iterable[float | None]) -> Value | None:
    known = [v for v in values if v is not None]
    return Value(sum(known) / len(known), min(known), max(known)) if known else None


def cells_of(results: Results, row: Row, window: int, read_ratio: float | None = 0.1) -> Cells:
    """The walk in the window itself, if there was one; a row that knows no window, or no prices, has one for all."""
    return [cell for shift, cell in _walks(results, row, window, read_ratio) if shift == "1"]


def spread_of(results: Results, row: Row, window: int) -> Cells:
    """The walks in the window and around it, of the same code; empty when some are missing.

    A row that does the same in every window has its one walk.
    """
    keys = {cell["key"] for cell in cells_of(results, row, window)}
    found = [cell for _, cell in _walks(results, row, window, 0.1) if cell["key"] in keys]
    return found if len(found) == (len(SHIFTS) if row.knows_window else 1) else []


def _walks(results: Results, row: Row, window: int, read_ratio: float | None) -> Iterator[tuple[str, dict[str, Any]]]:
    if not with_room((window,), results.about["head_tokens"]):
        return
    ratio = read_ratio if row.knows_prices else 0.1
    for name, cell in results.cells.items():
        of_row, of_window, shift, of_ratio = name.rsplit("|", 3)
        if of_row == row.name and of_ratio == str(ratio) and (int(of_window) == window or not row.knows_window):
            yield shift, cell


def price(cell: dict[str, Any], read_ratio: float | None, marks: str, *, misses: bool = False) -> float:
    """What the session costs, in tokens of plain input."""
    charge = cell[f"charge_{marks}"]
    read, write = prices(read_ratio)
    cost = charge["read"] * read + charge["write"] * write + charge["plain"]
    cost += cell["side_input_tokens"] + OUTPUT_RATIO * cell["side_output_tokens"]
    if misses:
        turns = cell["misses"]["turns"]
        cost += cell["misses"]["context_tokens"] * read
        cost += turns * (REFETCH_TOKENS * write + REFETCH_OUTPUT_TOKENS * OUTPUT_RATIO)
    return cost


class Baseline:
    """The same session without compaction, with caching."""

    def __init__(self, results: Results) -> None:
        self._cell = results.uncompacted

    def ratio(self, cells: Cells, read_ratio: float | None, marks: str, *, misses: bool = False) -> Value | None:
        if self._cell is None:
            return None
        base = price(self._cell, read_ratio, marks)
        return mean_of(price(c, read_ratio, marks, misses=misses) / base for c in cells)

    def least(self, about: dict[str, Any], read_ratio: float) -> float | None:
        """What no policy that edits only what was sent can go below: all of it written once, the head read by each
        call."""
        if self._cell is None:
            return None
        read, write = prices(read_ratio)
        cost = about["tokens"] * write + about["head_tokens"] * read * (about["turns"] - 1)
        return cost / price(self._cell, read_ratio, "trailing")

    def highest(self, cells: Cells, read_ratio: float | None) -> Value | None:
        """Of all requests that a session can end at, the one with the highest ratio."""
        base = (self._cell or {}).get("by_turn")
        return mean_of(highest(c["by_turn"], base, read_ratio) for c in cells if base and "by_turn" in c)


def part(cells: Cells, key: str, of: str, age: int | None = None) -> Value | None:
    """A share, such as `visible` of `references`."""
    rows = [c["references"][str(age)] if age is not None else c["quotes"] for c in cells]
    return mean_of(r[key] / r[of] if r[of] else None for r in rows)


def pair(cells: Cells, *keys: str) -> Value | None:
    """A share kept as `[some, all]`."""
    pairs = []
    for cell in cells:
        found: Any = cell
        for key in keys:
            found = found and found.get(key)
        pairs.append(found)
    return mean_of(p[0] / p[1] if p and p[1] else None for p in pairs)


def number(cells: Cells, key: str) -> Value | None:
    return mean_of(c.get(key) for c in cells)


def over(cells: Cells, row: Row, window: int) -> float:
    """Requests larger than the window, which a provider refuses."""
    counts: Sequence[float] = [
        c["over"].get(str(window), 0) if not row.knows_window else max(c["over"].values()) for c in cells
    ]
    return sum(counts) / max(1, len(counts))


def dominates(rival: Sequence[float | None], own: Sequence[float | None]) -> bool:
    """As good in all (less is better), and better in one. What neither has is left out."""
    known = [(a, b) for a, b in zip(rival, own, strict=True) if a is not None and b is not None]
    return bool(known) and all(a <= b for a, b in known) and any(a < b for a, b in known)
