"""Where a rival is as good as ours in everything and better in something, and what in ours is the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from . import figures as f
from .columns import COST, EQR, FRR, INVALID, LARGEST, OVER, WORDS, Column, Found
from .plan import Results
from .rows import Row

OWN = ("default", "thrifty")
LEFT_ALONE = "left alone (law 7)"
HANDS_ON = "edits what would still have fitted (law 7)"
LUCK = "within the luck of the moment"
_EARLIER_RATIO = 0.95
"""Of the largest request of ours: a rival that stays below it has edited before `default`, which waits for that."""
_WORDS_LOST = 0.05
_LUCK = (0.02, 0.01, 0.01)
"""Of the scores: smaller differences are those of the moment when a batch falls due."""
_UNTOUCHED = (1.0, 0.0, 0.0)
"""The scores of a session that was left alone."""

Reading = Callable[[Column, Results, Row, int], f.Value | None]
"""`Column.on`, or `Column.around` for means over the windows around one, where all were walked."""
Scores = tuple[tuple[float | None, float | None], ...]


@dataclass(frozen=True)
class Loss:
    session: str
    window: int
    own: Row
    rival: Row
    scores: Scores
    """Cost, names missed and quotes missed: of the rival, and of ours."""
    why: str


@dataclass(frozen=True)
class Compared:
    pairs: int
    """Rivals beside ours, each on a session in a window."""
    losses: tuple[Loss, ...]


def compared(found: Found, rows: Sequence[Row], windows: Sequence[int], read: Reading = Column.on) -> Compared:
    """`default` and `thrifty` beside each rule and package whose requests were all valid and all fitted."""
    pairs, losses = 0, []
    for name, window, own, rival in _pairs(found, rows, windows):
        scores = _scores(found[name], own, rival, window, read)
        pairs += bool(scores)
        if _is_lost(scores):
            why = _why(found[name], own, rival, window, scores, read)
            losses.append(Loss(name, window, own, rival, scores, why))
    return Compared(pairs, tuple(losses))


def _pairs(found: Found, rows: Sequence[Row], windows: Sequence[int]) -> Iterator[tuple[str, int, Row, Row]]:
    rivals = [row for row in rows if row.kind in ("rule", "package")]
    for own in (row for row in rows if row.name in OWN):
        for window in windows:
            yield from ((name, window, own, rival) for name in found for rival in rivals)


def _scores(results: Results, own: Row, rival: Row, window: int, read: Reading) -> Scores:
    """Of the rival and of ours; empty where one of them can't be used or was not walked."""
    theirs, ours = (_scores_of(results, row, window, read) for row in (rival, own))
    return tuple(zip(theirs, ours, strict=True)) if theirs and ours else ()


def _scores_of(results: Results, row: Row, window: int, read: Reading) -> list[float | None]:
    """Cost and losses, less is better; nothing for a policy that can't be used there."""
    cost, unusable = read(COST, results, row, window), [read(c, results, row, window) for c in (INVALID, OVER)]
    if cost is None or any(v is None or v.mean for v in unusable):
        return []
    kept = [read(c, results, row, window) for c in (FRR, EQR)]
    return [round(cost.mean, 3), *(round(1 - v.mean, 3) if v else None for v in kept)]


def _is_lost(scores: Scores) -> bool:
    return f.dominates(*zip(*scores, strict=True)) if scores else False


def _why(results: Results, own: Row, rival: Row, window: int, scores: Scores, read: Reading) -> str:
    """Which law it is, where it is one."""
    if _alike(tuple(zip(_UNTOUCHED, (mine for _, mine in scores), strict=True))):
        return LEFT_ALONE
    here, there = read(WORDS, results, own, window), read(WORDS, results, rival, window)
    if here and there and here.mean - there.mean >= _WORDS_LOST:
        return f"the user's words stay (law 5): {100 * here.mean:.0f} %, there {100 * there.mean:.0f} %"
    mine, theirs = (read(LARGEST, results, row, window) for row in (own, rival))
    if own.name == "default" and mine and theirs and theirs.mean <= _EARLIER_RATIO * mine.mean:
        return HANDS_ON
    on_average = _scores(results, own, rival, window, Column.around)
    return LUCK if _alike(scores) or (on_average and not _is_lost(on_average)) else ""


def _alike(scores: Scores) -> bool:
    pairs = zip(scores, _LUCK, strict=True)
    return all(abs(a - b) <= luck for (a, b), luck in pairs if a is not None and b is not None)
