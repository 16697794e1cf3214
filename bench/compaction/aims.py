"""What ours is meant to reach, and whether it does, from the figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from .chosen import DESIGNED_ON
from .columns import COSTS, CUT_OFF, LOSSES, Found
from .rows import Row

COLUMNS = {column.title: column for column in (*COSTS, *LOSSES)}


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
    of: Literal["all", "pi", "that fit"] = "all"
    """`pi`: the two sessions that the aims were set for; `that fit`: those within nine tenths of the window."""

    def by_session(self, found: Found, row: Row) -> dict[str, float]:
        held = {name: results for name, results in found.items() if self._is_for(name, results.about["tokens"])}
        return COLUMNS[self.column].by_session(held, row, self.window)

    def _is_for(self, name: str, tokens: int) -> bool:
        if self.of == "pi":
            return PurePath(name).name in DESIGNED_ON
        return self.of == "all" or tokens <= 0.9 * self.window

    def measured(self, values: Sequence[float]) -> float:
        if self.over == "mean":
            return sum(values) / len(values)
        return min(values) if self.least is not None else max(values)

    @property
    def figure(self) -> str:
        column = COLUMNS[self.column]
        return f"cost at {column.title}" if column in COSTS[:3] else column.title

    @property
    def bound(self) -> str:
        return f"at least {self.shown(self.least)}" if self.least is not None else f"at most {self.shown(self.most)}"

    def shown(self, value: float | None) -> str:
        return COLUMNS[self.column].shown(value, exact=True)

    def met(self, measured: float) -> bool:
        return (self.least is None or measured >= self.least) and (self.most is None or measured <= self.most)


AIMS = (
    Aim("thrifty", 200_000, "0.1", most=0.40, of="pi"),
    Aim("thrifty", 200_000, "over 10", least=0.96, over="worst", of="pi"),
    Aim("thrifty", 200_000, "EQR", least=0.98, over="worst", of="pi"),
    Aim("thrifty", 200_000, "0.1", most=0.50),
    Aim("thrifty", 200_000, "0.1", most=1.0, over="worst"),
    Aim("thrifty", 200_000, CUT_OFF.title, most=1.10, over="worst"),
    Aim("thrifty", 200_000, "over 10", least=0.95),
    Aim("thrifty", 200_000, "EQR", least=0.95),
    Aim("thrifty", 200_000, "lines true", least=0.97),
    Aim("thrifty", 200_000, "recalled", least=0.95),
    Aim("thrifty", 200_000, "ms", most=2.0),
    Aim("default", 200_000, "0.1", most=1.0, over="worst", of="that fit"),
    Aim("default", 200_000, "0.025", most=1.0, over="worst", of="that fit"),
    Aim("default", 200_000, "over 10", least=0.99, over="worst", of="that fit"),
    Aim("default", 200_000, "EQR", least=0.99, over="worst", of="that fit"),
    Aim("default", 128_000, "over 10", least=0.95),
    Aim("default", 128_000, "EQR", least=0.95),
    Aim("default", 64_000, "over 10", least=0.95),
    Aim("default", 64_000, "EQR", least=0.95),
)


def lines(found: Found, rows: Iterable[Row]) -> list[Sequence[str]]:
    """A line for each aim that something was measured for, as `HEAD` says."""
    return [_line(aim, values) for aim, values in _measured(found, rows)]


def missed(found: Found, rows: Iterable[Row]) -> list[str]:
    """The sessions that miss what is meant to hold on each."""
    out = []
    for aim, values in _measured(found, rows):
        short = {name: value for name, value in values.items() if aim.over == "worst" and not aim.met(value)}
        if short:
            on = ", ".join(f"{name} ({aim.shown(value)})" for name, value in short.items())
            out.append(f"- {aim.row}, {aim.figure} at {aim.window:,} tokens, {aim.bound}: {on}")
    return out


def _measured(found: Found, rows: Iterable[Row]) -> Iterator[tuple[Aim, dict[str, float]]]:
    by_name = {row.name: row for row in rows}
    for aim in AIMS:
        values = aim.by_session(found, by_name[aim.row]) if aim.row in by_name else {}
        if values:
            yield aim, values


HEAD = ("policy", "sessions", "figure", "window", "aim", "measured", "lowest session", "highest session", "reached")


def _line(aim: Aim, values: dict[str, float]) -> Sequence[str]:
    measured = aim.measured(list(values.values()))
    who = f"{aim.of} ({len(values)}), {'each' if aim.over == 'worst' else 'mean'}"
    ends = aim.shown(min(values.values())), aim.shown(max(values.values()))
    met = "yes" if aim.met(measured) else "**no**"
    return [aim.row, who, aim.figure, f"{aim.window:,}", aim.bound, aim.shown(measured), *ends, met]
