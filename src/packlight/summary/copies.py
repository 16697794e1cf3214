"""What the digest shows of the files being worked on: their present lines, the most likely to be needed first."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from .follow import normal
from .fragments import FileModel, Fragment
from .frame import is_plain
from .rules import rule

BLOCK_LINES = 40
FILE_SHARE = 0.6
"""No file takes more of the budget."""


@dataclass(frozen=True, slots=True)
class Block:
    """Lines [first, last) of a fragment."""

    score: float
    file: int
    fragment: int
    first: int
    last: int
    chars: int


_OPEN_ITEM = rule(r"\s{0,20}[-*] \[ \]")
_HEADING = rule(r"#{1,6} \S")


def ranked_blocks(models: Sequence[FileModel], shown: Collection[str], turns: Sequence[int]) -> list[Block]:
    """Blocks of lines, the most likely to be needed first. Lines that stand in `shown` are left out."""
    return sorted(_blocks(models, shown, turns), key=lambda b: (-b.score, b.file, b.fragment, b.first))


def copies_text(models: Sequence[FileModel], blocks: Sequence[Block], max_chars: int) -> str:
    """As many of the blocks as fit, file by file, with `@line` at every jump; no line that looks like our own."""
    chosen: dict[int, list[Block]] = {}
    room, used = max_chars, dict[int, int]()
    for block in blocks:
        cost = block.chars + 12 + (0 if block.file in used else len(models[block.file].path) + 8)
        if cost > room or used.get(block.file, 0) + cost > max_chars * FILE_SHARE:
            continue
        room, used[block.file] = room - cost, used.get(block.file, 0) + cost
        chosen.setdefault(block.file, []).append(block)
    return "\n".join(_printed(models[f], chosen[f]) for f in sorted(chosen))


def _blocks(models: Sequence[FileModel], shown: Collection[str], turns: Sequence[int]) -> Iterator[Block]:
    for f, model in enumerate(models):
        size = sum(sum(map(len, fragment.lines)) + len(fragment.lines) for fragment in model.fragments)
        base = 0.65 * turns[model.last] - 6 * math.log(max(size / 3, 600) / 600)
        base += 20 if model.edited else -30 if _FOREIGN.search(normal(model.path)) else 0
        for g, fragment in enumerate(model.fragments):
            for first, last, kind in _runs(model, fragment, shown):
                chars = sum(map(len, fragment.lines[first:last])) + last - first
                yield Block(base + 0.35 * turns[fragment.touched[first]] + kind, f, g, first, last, chars)


_FOREIGN = rule(r"(?:^|/)(?:node_modules|site-packages|dist|target|vendor|\.git|\.codex|\.claude|\.agents|skills)/")
"""Files that are looked at, hardly ever edited: packages, builds, an agent's own instructions."""


def _runs(model: FileModel, fragment: Fragment, shown: Collection[str]) -> Iterator[tuple[int, int, int]]:
    """Runs of at most 40 lines of equal age and kind that are not shown elsewhere: (first, last, bonus)."""
    marks = [
        None
        if (len(line) > 8 and line in shown) or (len(line) >= 500 and line.endswith(_CLIPPED))
        else (t, _bonus(line) if model.edited and ("[ ]" in line or line[:1] == "#") else 0)
        for line, t in zip(fragment.lines, fragment.touched, strict=True)
    ]
    first = 0
    for i in range(1, len(marks) + 1):
        if i == len(marks) or marks[i] != marks[first] or i - first >= BLOCK_LINES:
            mark = marks[first]
            if mark is not None and (i - first > 3 or any(len(line) > 3 for line in fragment.lines[first:i])):
                yield first, i, mark[1]
            first = i


_CLIPPED = ("truncated]", "truncated)", "...")
"""How a line ends that a read has cut: tools cut at 500 characters and more."""


def _bonus(line: str) -> int:
    if "[ ]" in line and _OPEN_ITEM.match(line):
        return 100
    return 40 if line[:1] == "#" and _HEADING.match(line) else 0


def _printed(model: FileModel, blocks: list[Block]) -> str:
    out = [f"--- {model.path}"]
    blocks.sort(key=lambda b: (model.fragments[b.fragment].start or 10**9, b.fragment, b.first))
    at: tuple[int, int] | None = None
    for block in blocks:
        fragment = model.fragments[block.fragment]
        if at != (block.fragment, block.first):
            out.append(f"@{fragment.start + block.first}" if fragment.start else "@?")
        lines = fragment.lines[block.first : block.last]
        if not is_plain("\n".join(lines)):
            lines = [line if is_plain(line) else "[1 line left out]" for line in lines]
        out.extend(lines)
        at = (block.fragment, block.last)
    return "\n".join(out)
