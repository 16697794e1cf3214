"""What the tables of the pages show of a row on a session, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from . import figures as f
from .plan import Results
from .rows import Row

Found = Mapping[str, Results]


@dataclass(frozen=True)
class Column:
    title: str
    read: Callable[[f.Cells, Results, Row, int], f.Value | None]
    form: str
    """`%`, `k` for thousands, or a format of numbers."""
    read_ratio: float | None = 0.1
    over: Literal["mean", "highest"] = "mean"
    """Of sessions: what is meant to hold on each is not averaged."""

    def on(self, results: Results, row: Row, window: int) -> f.Value | None:
        cells = f.cells_of(results, row, window, self.read_ratio)
        return self.read(cells, results, row, window) if cells else None

    def around(self, results: Results, row: Row, window: int) -> f.Value | None:
        """Over the windows around this one, where these were walked."""
        cells = f.spread_of(results, row, window)
        return self.read(cells, results, row, window) if cells else None

    def of_all(self, found: Found, row: Row, window: int) -> float | None:
        values = self.by_session(found, row, window).values()
        if self.over == "highest":  # of some of the sessions it would say too little
            walked = sum(bool(f.cells_of(results, row, window)) for results in found.values())
            return max(values, default=None) if len(values) == walked else None
        return sum(values) / len(values) if values else None

    def by_session(self, found: Found, row: Row, window: int) -> dict[str, float]:
        values = {name: self.on(results, row, window) for name, results in found.items()}
        return {name: value.mean for name, value in values.items() if value is not None}

    def shown(self, value: float | None, *, exact: bool = False) -> str:
        if value is None:
            return ""
        if self.form == "%":
            return f"{100 * value:.1f} %" if exact else f"{100 * value:.0f}"
        if self.form == "k":
            return f"{value / 1000:.0f}"
        return format(value, ".3f" if exact and self.form == ".2f" else self.form)


def _cost(title: str, read_ratio: float | None, marks: str = "trailing", *, misses: bool = False) -> Column:
    def read(cells: f.Cells, results: Results, row: Row, window: int) -> f.Value | None:
        return f.Baseline(results).ratio(cells, read_ratio, marks, misses=misses)

    return Column(title, read, ".2f", read_ratio)


def _of(title: str, read: Callable[[f.Cells], f.Value | None], form: str) -> Column:
    return Column(title, lambda cells, results, row, window: read(cells), form)


COST = _cost("0.1", 0.1)
MISSES = _cost("with misses", 0.1, misses=True)
CUT_OFF = Column(
    "highest when cut off", lambda cells, results, *_: f.Baseline(results).highest(cells, 0.1), ".2f", over="highest"
)
INVALID = _of("invalid", lambda c: f.number(c, "invalid"), ".0f")
OVER = Column("over", lambda cells, results, row, window: f.mean_of([f.over(cells, row, window)]), ".0f")
BATCHES = _of("batches", lambda c: f.number(c, "batches"), ".0f")
MS = _of("ms", lambda c: f.number(c, "ms_per_turn"), ".1f")
LARGEST = _of("largest k", lambda c: f.number(c, "largest_tokens"), "k")
MEAN_TOKENS = _of("mean k", lambda c: f.number(c, "mean_tokens"), "k")
FRR = _of("over 10", lambda c: f.part(c, "visible", "references", 10), "%")
FRR_ALL = _of("FRR all", lambda c: f.part(c, "visible", "references", 0), "%")
FRR_OLD = _of("over 30", lambda c: f.part(c, "visible", "references", 30), "%")
EQR = _of("EQR", lambda c: f.part(c, "quoted", "quotable"), "%")
WORDS = _of("user's words", lambda c: f.pair(c, "words_at_end"), "%")
RULES = _of("rules, 1", lambda c: f.pair(c, "rules", "1"), "%")

COSTS = (
    COST,
    _cost("0.05", 0.05),
    _cost("0.025", 0.025),
    _cost("no cache", None),
    _cost("best marks", 0.1, "best"),
    MISSES,
    CUT_OFF,
    MEAN_TOKENS,
    BATCHES,
    _of("breaks", lambda c: f.number(c, "prefix_breaks"), ".0f"),
    INVALID,
    OVER,
    _of("errors", lambda c: f.number(c, "errors"), ".0f"),
    MS,
    _of("MB", lambda c: f.number(c, "peak_mb"), ".0f"),
)
LOSSES = (
    FRR_ALL,
    FRR,
    FRR_OLD,
    _of("in place", lambda c: f.part(c, "in_place", "references", 10), "%"),
    _of("chance", lambda c: f.part(c, "drawn_visible", "drawn", 10), "%"),
    EQR,
    _of("lines true", lambda c: f.pair(c, "copies"), "%"),
    _of("recalled", lambda c: f.pair(c, "recall"), "%"),
    RULES,
    _of("rules, 3", lambda c: f.pair(c, "rules", "3"), "%"),
    WORDS,
)


def table(head: Sequence[str], lines: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """The first so many columns are text."""
    rule = [*["---"] * left, *["---:"] * (len(head) - left)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))


def means(found: Found, rows: Iterable[Row], window: int, columns: Sequence[Column]) -> list[list[str]]:
    """A line for each row that was walked on some of these sessions: its name, how many, and their means."""
    lines = []
    for row in rows:
        held = sum(bool(f.cells_of(results, row, window)) for results in found.values())
        if held:
            lines.append([name_of(row), str(held), *(c.shown(c.of_all(found, row, window)) for c in columns)])
    return lines


def name_of(row: Row) -> str:
    name = f"{row.name} {row.version}".strip()
    return f"**{name}**" if row.kind == "ours" else f"_{name}_" if row.kind == "control" else name
