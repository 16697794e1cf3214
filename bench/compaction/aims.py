"""What ours is meant to reach, and whether it does, from the figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from . import figures as f
from .plan import Results
from .rows import Row

Value = Callable[[Results, Row, int], "f.Value | None"]


@dataclass(frozen=True)
class Aim:
    """One figure of one row, over sessions: its mean, or the worst of them."""

    row: str
    window: int
    column: str
    """Title of the column."""
    least: float | None = None
    most: float | None = None
    over: Literal["mean", "worst"] = "mean"
    sessions: str = ""
    """Only sessions whose name holds this."""
    fitting: bool = False
    """Only sessions that stay within nine tenths of the window."""

    def measured(self, found: Mapping[str, Results], row: Row, value: Value) -> float | None:
        values = []
        for name, results in found.items():
            fits = results.about["tokens"] <= 0.9 * self.window
            if self.sessions in name and (fits or not self.fitting) and (v := value(results, row, self.window)):
                values.append(v.mean)
        if not values:
            return None
        if self.over == "mean":
            return sum(values) / len(values)
        return min(values) if self.least is not None else max(values)

    def met(self, measured: float) -> bool:
        return (self.least is None or measured >= self.least) and (self.most is None or measured <= self.most)


_PI = "badlogic__pi-mono"
AIMS = (
    Aim("thrifty", 200_000, "0.1", most=0.40, sessions=_PI),
    Aim("thrifty", 200_000, "over 10", least=0.96, over="worst", sessions=_PI),
    Aim("thrifty", 200_000, "EQR", least=0.98, over="worst", sessions=_PI),
    Aim("thrifty", 200_000, "0.1", most=0.50),
    Aim("thrifty", 200_000, "0.1", most=1.0, over="worst"),
    Aim("thrifty", 200_000, "over 10", least=0.95),
    Aim("thrifty", 200_000, "EQR", least=0.95),
    Aim("thrifty", 200_000, "lines true", least=0.97),
    Aim("thrifty", 200_000, "recalled", least=0.95),
    Aim("thrifty", 200_000, "ms", most=2.0),
    Aim("default", 200_000, "0.1", most=1.0, over="worst", fitting=True),
    Aim("default", 200_000, "0.025", most=1.0, over="worst", fitting=True),
    Aim("default", 200_000, "over 10", least=0.99, over="worst", fitting=True),
    Aim("default", 200_000, "EQR", least=0.99, over="worst", fitting=True),
    Aim("default", 128_000, "over 10", least=0.95),
    Aim("default", 128_000, "EQR", least=0.95),
    Aim("default", 64_000, "over 10", least=0.95),
    Aim("default", 64_000, "EQR", least=0.95),
)


def lines(
    found: Mapping[str, Results], rows: Iterable[Row], columns: Mapping[str, tuple[Value, str]]
) -> list[Sequence[str]]:
    """Policy, window, sessions, figure, aim, measured, met; aims that nothing was measured for are left out."""
    by_name = {row.name: row for row in rows}
    out: list[Sequence[str]] = []
    for aim in AIMS:
        value, form = columns[aim.column]
        measured = aim.measured(found, by_name[aim.row], value) if aim.row in by_name else None
        if measured is None:
            continue
        where = ("pi, " if aim.sessions else "that fit, " if aim.fitting else "all, ") + (
            "each" if aim.over == "worst" else "mean"
        )
        bound = f"at least {_shown(aim.least, form)}" if aim.least is not None else f"at most {_shown(aim.most, form)}"
        met = "yes" if aim.met(measured) else "**no**"
        out.append([aim.row, f"{aim.window:,}", where, aim.column, bound, _shown(measured, form), met])
    return out


def _shown(value: float | None, form: str) -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f} %" if form == "%" else format(value, ".3f" if form == ".2f" else form)
