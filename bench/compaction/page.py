"""Renders docs/benchmark.md: what people compare, what was aimed at, where ours loses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from . import aims, loses
from . import figures as f
from .columns import COST, EQR, FRR, INVALID, MISSES, MS, OVER, RULES, WORDS, Column, Found, means, name_of, table
from .rows import Row
from .tables import MAIN, common, has_room, walked_windows
from .words import ABOUT, AIMED, LIMITS, LOSES, LUCK, READ, SESSIONS, SIDE_BY_SIDE

COMPARED = (COST, MISSES, FRR, EQR, WORDS, RULES, INVALID, OVER, MS)
_TITLES = ("cost", "with misses", "FRR", "EQR", "user's words", "rules", "invalid", "over", "ms")
IN_SHORT = (COST, FRR, EQR)
_LEFT_OUT = ("empty", "clear all but 3, every turn", "clear_tool_uses 100k keep 3, at least 25k, anew each turn")
"""Rows that nobody would choose: they are in the full tables."""


def page(found: Found, rows: Sequence[Row], missing: Mapping[str, str]) -> str:
    shown = [row for row in rows if row.kind != "layer" and row.name not in _LEFT_OUT]
    windows = walked_windows(found, rows)
    parts = [ABOUT, SESSIONS, _sessions(found), READ, SIDE_BY_SIDE, _side_by_side(found, shown)]
    if len(windows) > 1:
        parts += ["### In each window", _in_each_window(found, shown, windows)]
    if spread := list(_spread(found, shown, windows)):
        head = ["policy", "window", "sessions", "cost", "FRR", "EQR"]
        parts += [LUCK, table(head, spread)]
    parts += [_aimed(found), table(aims.HEAD, aims.lines(found, rows), left=3)]
    if missed := aims.missed(found, rows):
        parts += ["What is meant to hold on each session is missed on these:", "\n".join(missed)]
    parts += [LOSES, _losses(found, rows, windows), LIMITS]
    if missing:
        parts += ["## Not run", "\n".join(f"- {name}: {reason}" for name, reason in missing.items())]
    return "\n\n".join(parts) + "\n"


def _aimed(found: Found) -> str:
    least = [f.Baseline(results).least(results.about, 0.1) or 0.0 for results in found.values()]
    return AIMED.format(least=sum(least) / max(1, len(least)), most=max(least, default=0.0))


def _sessions(found: Found) -> str:
    lines = []
    for name, results in found.items():
        about = results.about
        sizes = [str(about["turns"]), f"{about['tokens']:,}", f"{about['head_tokens']:,}"]
        lines.append([name, about["reader"], str(about["model"] or ""), about["format"], *sizes])
    head = ["session", "agent", "model", "format", "calls", "tokens at its end", "of these before the messages"]
    return table(head, lines, left=4)


def _side_by_side(found: Found, rows: Sequence[Row]) -> str:
    return table(["policy", "sessions", *_TITLES], means(common(found), rows, MAIN, COMPARED))


def _in_each_window(found: Found, rows: Iterable[Row], windows: Sequence[int]) -> str:
    """Cost, FRR and EQR of each row in each window."""
    held = common(found)
    lines = []
    for row in rows:
        values = [c.shown(c.of_all(held, row, w)) for w in windows for c in IN_SHORT]
        if any(values):
            lines.append([name_of(row), *values])
    head = [f"{w // 1000}k {title}" if title == "cost" else title for w in windows for title in ("cost", "FRR", "EQR")]
    return table(["policy", *head], lines)


def _spread(found: Found, rows: Iterable[Row], windows: Sequence[int]) -> Iterable[Sequence[str]]:
    """A line for each row and window where the windows around it were walked on every session."""
    for window in windows:
        held = {name: results for name, results in common(found).items() if has_room(results, window)}
        for row in (row for row in rows if row.knows_window):
            if held and all(COST.around(results, row, window) for results in held.values()):
                values = [_mean_and_ends(column, held, row, window) for column in IN_SHORT]
                yield [name_of(row), f"{window:,}", str(len(held)), *values]


def _mean_and_ends(column: Column, found: Found, row: Row, window: int) -> str:
    """Each end is the mean of the sessions' ends."""
    values = [value for results in found.values() if (value := column.around(results, row, window))]
    mean, low, high = (
        column.shown(sum(end) / len(values)) for end in zip(*((v.mean, v.low, v.high) for v in values), strict=True)
    )
    return f"{mean} ({low} to {high})"


def _losses(found: Found, rows: Sequence[Row], windows: Sequence[int]) -> str:
    result = loses.compared(found, rows, windows)
    around = loses.compared(found, rows, windows, Column.around)
    parts = [f"Compared {_counted(result)}: it fits."]
    if around.pairs:
        parts[0] += f" On the means over five windows: compared {_counted(around)}."
    losses = [(loss, "") for loss in result.losses] + [(loss, " and around") for loss in around.losses]
    lines = [_loss(loss, where) for loss, where in losses if loss.why != loses.LEFT_ALONE]
    if lines:
        head = ["session", "ours", "rival", "why", "window", "cost (theirs / ours)", "names missed", "quotes missed"]
        parts.append(table(head, lines, left=4))
    if alone := [(loss, where) for loss, where in losses if loss.why == loses.LEFT_ALONE]:
        parts.append(_left_alone(alone))
    return "\n\n".join(parts)


def _counted(result: loses.Compared) -> str:
    alone = sum(loss.why == loses.LEFT_ALONE for loss in result.losses)
    said = f"{result.pairs:,} times; lost {len(result.losses)} times"
    return f"{said}, {alone} of these where ours had left the session alone, all of it or nearly"


def _loss(loss: loses.Loss, around: str) -> Sequence[str]:
    pairs = [" / ".join("" if v is None else f"{v:.2f}" for v in pair) for pair in loss.scores]
    return [loss.session, loss.own.name, name_of(loss.rival), loss.why, f"{loss.window:,}{around}", *pairs]


def _left_alone(losses: Iterable[tuple[loses.Loss, str]]) -> str:
    """A line for each session and window, with all its rivals."""
    rivals: dict[tuple[str, str, str], list[str]] = {}
    for loss, around in losses:
        key = loss.session, loss.own.name, f"{loss.window:,}{around}"
        rivals.setdefault(key, []).append(f"{name_of(loss.rival)} ({loss.scores[0][0]:.2f})")
    lines = [[name, own, ", ".join(of), window] for (name, own, window), of in rivals.items()]
    head = ["left alone (law 7)", "ours", "rivals that lose no more, and their cost", "window"]
    return table(head, lines, left=3)
