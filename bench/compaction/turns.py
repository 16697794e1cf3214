"""The figures of every request of a walk: how they are kept, and what was paid so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from .rows import WRITE_RATIO

OUTPUT_RATIO = 5.0
"""Price of output against plain input."""

ByTurn = Mapping[str, Sequence[int]]
"""A column of `COLUMNS` each, with a number for each request."""

CHARGED = ("read", "write", "plain")
"""Tokens of the request by their price, with cache marks behind the system prompt and at the end."""
COLUMNS = (*CHARGED, "side_input", "side_output", "batch", "prefix_break", "names_missed", "quotes_missed")
"""And those of a summariser's calls, 1 where there was a batch or a break, and how many names and quotes it misses."""


def packed(by_turn: ByTurn) -> dict[str, Sequence[int]]:
    """Smaller: of what is read only by how much it is less than the request before, and no columns of zeros."""
    before = [0, *sent(by_turn)[:-1]]
    unread = [size - read for size, read in zip(before, by_turn["read"], strict=True)]
    columns = {"unread": unread, **{name: by_turn[name] for name in COLUMNS[1:]}}
    return {name: column for name, column in columns.items() if any(column) or name == "write"}


def unpacked(kept: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    zeros = [0] * len(kept["write"])
    columns = {name: kept.get(name, zeros) for name in COLUMNS[1:]}
    reads, size = [], 0
    for unread, write, plain in zip(kept.get("unread", zeros), columns["write"], columns["plain"], strict=True):
        reads.append(size - unread)
        size = reads[-1] + write + plain
    return {"read": reads, **columns}


def sent(by_turn: ByTurn) -> list[int]:
    """Tokens of each request."""
    return [sum(charged) for charged in zip(*(by_turn[name] for name in CHARGED), strict=True)]


def paid(by_turn: ByTurn, read_ratio: float | None) -> list[float]:
    """The cost up to each request, in tokens of plain input, a summariser's calls with it."""
    read, write = prices(read_ratio)
    weights = (read, write, 1.0, 1.0, OUTPUT_RATIO)
    columns = zip(*(by_turn[name] for name in COLUMNS[: len(weights)]), strict=True)
    return list(accumulate(sum(n * w for n, w in zip(tokens, weights, strict=True)) for tokens in columns))


def prices(read_ratio: float | None) -> tuple[float, float]:
    """Of a token that is read and of one that is written, against plain input; the same without a cache."""
    return (1.0, 1.0) if read_ratio is None else (read_ratio, WRITE_RATIO)


def highest(by_turn: ByTurn, uncompacted: ByTurn, read_ratio: float | None) -> float:
    """What was paid so far against no compaction, at the request where it is most: a session may end at any.

    Requests before the first batch don't count. Without a batch it is that of the whole session.
    """
    ratios = [own / other for own, other in zip(*(paid(t, read_ratio) for t in (by_turn, uncompacted)), strict=True)]
    first = by_turn["batch"].index(1) if any(by_turn["batch"]) else -1
    return max(ratios[first:])
