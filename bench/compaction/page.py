"""Renders docs/benchmark.md from the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from . import aims
from . import figures as f
from .plan import Results
from .rows import Row
from .words import ABOUT, AIMED, BY_SESSION, LIMITS, MEANS

WINDOWS = (64_000, 128_000, 200_000)
MAIN = 128_000
COMMON_FORMAT = "anthropic"
"""Every row can be walked on sessions in this format."""
SHEETS: tuple[tuple[str, float | None], ...] = (("0.1", 0.1), ("0.05", 0.05), ("0.025", 0.025), ("no cache", None))
OWN = ("default", "thrifty")
_KINDS = {"ours": "ours", "layer": "layers", "control": "controls", "rule": "rules", "package": "packages"}

Found = Mapping[str, Results]
Column = tuple[str, Callable[[Results, Row, int], "f.Value | None"], str]
"""Its title, its value on a session, its format."""


def page(found: Found, rows: Sequence[Row], missing: Mapping[str, str]) -> str:
    parts = [ABOUT, _sessions(found)]
    common = {name: r for name, r in found.items() if r.about["format"] == COMMON_FORMAT} or found
    for window in (MAIN, *(w for w in WINDOWS if w != MAIN)):
        if any(f.cells_of(r, row, window) for r in common.values() for row in rows if row.knows_window):
            parts += [f"## In a window of {window:,} tokens", MEANS, _means(common, rows, window)]
    parts += ["## By session", BY_SESSION, *(_by_session(name, found[name], rows) for name in found)]
    parts += ["## What ours is meant to reach", AIMED, _aims(found, rows)]
    parts += ["## Where ours loses", _dominated(found, rows), "## Not run", _missing(missing), LIMITS]
    return "\n\n".join(parts) + "\n"


def summary(found: Found) -> str:
    cells = sum(len(r.cells) for r in found.values())
    return f"{len(found)} sessions, {cells:,} walks"


# ---- columns


def _cost(title: str, ratio: float | None, marks: str, *, misses: bool = False) -> Column:
    def value(results: Results, row: Row, window: int) -> f.Value | None:
        cells = f.cells_of(results, row, window, ratio)
        return f.Baseline(results).ratio(cells, ratio, marks, misses=misses)

    return title, value, ".2f"


def _of(title: str, read: Callable[[f.Cells], f.Value | None], form: str) -> Column:
    return title, lambda results, row, window: read(f.cells_of(results, row, window)), form


def _over(results: Results, row: Row, window: int) -> f.Value | None:
    cells = f.cells_of(results, row, window)
    return f.mean_of([f.over(cells, row, window)] if cells else [])


COSTS: tuple[Column, ...] = (
    *(_cost(name, ratio, "trailing") for name, ratio in SHEETS),
    _cost("best marks", 0.1, "best"),
    _cost("with misses", 0.1, "trailing", misses=True),
    _of("mean k", lambda c: f.number(c, "mean_tokens"), "k"),
    _of("batches", lambda c: f.number(c, "batches"), ".0f"),
    _of("breaks", lambda c: f.number(c, "prefix_breaks"), ".0f"),
    _of("invalid", lambda c: f.number(c, "invalid"), ".0f"),
    ("over", _over, ".0f"),
    _of("ms", lambda c: f.number(c, "ms_per_turn"), ".1f"),
    _of("MB", lambda c: f.number(c, "peak_mb"), ".0f"),
)
LOSSES: tuple[Column, ...] = (
    _of("FRR all", lambda c: f.part(c, "visible", "references", 0), "%"),
    _of("over 10", lambda c: f.part(c, "visible", "references", 10), "%"),
    _of("over 30", lambda c: f.part(c, "visible", "references", 30), "%"),
    _of("in place", lambda c: f.part(c, "in_place", "references", 10), "%"),
    _of("chance", lambda c: f.part(c, "drawn_visible", "drawn", 10), "%"),
    _of("EQR", lambda c: f.part(c, "quoted", "quotable"), "%"),
    _of("lines true", lambda c: f.pair(c, "copies"), "%"),
    _of("recalled", lambda c: f.pair(c, "recall"), "%"),
    _of("rules, 1", lambda c: f.pair(c, "rules", "1"), "%"),
    _of("rules, 3", lambda c: f.pair(c, "rules", "3"), "%"),
    _of("user's words", lambda c: f.pair(c, "words_at_end"), "%"),
)
OF_SESSION = (COSTS[0], COSTS[5], LOSSES[1], LOSSES[2], LOSSES[5], LOSSES[0], COSTS[6], COSTS[7], COSTS[9], COSTS[10])


# ---- tables


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))


def _shown(value: f.Value | None, form: str, *, spread: bool = False) -> str:
    if value is None:
        return ""
    if spread and value.high - value.low >= 0.01 and form == ".2f":
        return f"{value.mean:.2f} ({value.low:.2f} to {value.high:.2f})"
    if form == "%":
        return f"{100 * value.mean:.0f}"
    if form == "k":
        return f"{value.mean / 1000:.0f}"
    return format(value.mean, form)


def _over_sessions(found: Found, row: Row, window: int, column: Column) -> f.Value | None:
    """The mean of the sessions' means; each end of the spread is the mean of the sessions' ends."""
    values = [v for r in found.values() if (v := column[1](r, row, window)) is not None]
    if not values:
        return None
    ends = ([v.mean for v in values], [v.low for v in values], [v.high for v in values])
    return f.Value(*(sum(e) / len(e) for e in ends))


def _means(found: Found, rows: Sequence[Row], window: int) -> str:
    tables = []
    for title, columns in (("Cost", COSTS), ("Loss", LOSSES)):
        lines = []
        for row in rows:
            held = sum(bool(f.cells_of(r, row, window)) for r in found.values())
            if held:
                values = [_over_sessions(found, row, window, c) for c in columns]
                shown = [_shown(v, c[2], spread=i == 0) for i, (v, c) in enumerate(zip(values, columns, strict=True))]
                lines.append([_name(row), str(held), *shown])
        tables.append(f"### {title}\n\n" + _table(["policy", "sessions", *(c[0] for c in columns)], lines))
    return "\n\n".join(tables)


def _name(row: Row) -> str:
    name = f"{row.name} {row.version}".strip()
    return f"**{name}**" if row.kind == "ours" else f"_{name}_" if row.kind == "control" else name


def _sessions(found: Found) -> str:
    lines = [
        [name, a["reader"], str(a["model"] or ""), str(a["turns"]), f"{a['tokens']:,}", f"{a['head_tokens']:,}"]
        for name, r in found.items()
        if (a := r.about)
    ]
    head = ["session", "agent", "model", "calls", "tokens at its end", "of these before the messages"]
    return "## The sessions\n\n" + _table(head, lines)


def _by_session(name: str, results: Results, rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        if row.kind != "layer" and f.cells_of(results, row, MAIN):
            values = [(c[1](results, row, MAIN), c[2]) for c in OF_SESSION]
            lines.append([_name(row), *(_shown(v, form, spread=i == 0) for i, (v, form) in enumerate(values))])
    head = ["policy", "cost", "with misses", "FRR over 10", "over 30", "EQR", "FRR all", "mean k", "batches", "invalid"]
    return f"### {name}\n\n" + _table([*head, "over"], lines)


def _aims(found: Found, rows: Sequence[Row]) -> str:
    columns = {title: (value, form) for title, value, form in (*COSTS, *LOSSES)}
    head = ["policy", "window", "sessions", "figure", "aim", "measured", "reached"]
    return _table(head, aims.lines(found, rows, columns))


def _dominated(found: Found, rows: Sequence[Row]) -> str:
    own = {r.name: r for r in rows if r.name in OWN}
    rivals = [r for r in rows if r.kind in ("rule", "package")]
    lines = []
    for name, results in found.items():
        for window in WINDOWS:
            for mine in own.values():
                ours = _scores(results, mine, window)
                for rival in rivals:
                    theirs = _scores(results, rival, window)
                    if ours and theirs and f.dominates(theirs, ours):
                        pairs = [f"{_score(a)} / {_score(b)}" for a, b in zip(theirs, ours, strict=True)]
                        lines.append([name, f"{window:,}", mine.name, _name(rival), *pairs])
    if not lines:
        return (
            "No rule and no package is as good as ours in cost, FRR and EQR together and better in one, on any session."
        )
    head = ["session", "window", "ours", "rival", "cost (theirs / ours)", "names missed", "quotes missed"]
    return (
        "On these sessions a rival whose requests all fit and are valid is as good in cost, FRR (over 10) and EQR "
        "together, and better in one. Shares missed, less is better:\n\n" + _table(head, lines)
    )


def _scores(results: Results, row: Row, window: int) -> list[float | None] | None:
    """Cost and losses, less is better; None for a policy that can't be used."""
    cells = f.cells_of(results, row, window)
    if not cells or any(c["invalid"] for c in cells) or f.over(cells, row, window):
        return None
    found = f.part(cells, "visible", "references", 10), f.part(cells, "quoted", "quotable")
    cost = f.Baseline(results).ratio(cells, 0.1, "trailing")
    return [round(cost.mean, 3) if cost else None, *(round(1 - v.mean, 3) if v else None for v in found)]


def _score(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _missing(missing: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {reason}" for name, reason in missing.items()) or "Everything that is listed was run."
