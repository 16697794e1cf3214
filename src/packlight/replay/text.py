"""Figures and tables for a terminal."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from typing import TextIO


def usd_text(usd: float) -> str:
    if 0 < usd < 0.00005:
        return "<$0.0001"
    return f"${usd:,.2f}" if usd >= 0.01 or not usd else f"${usd:.4f}"


def share(ratio: float) -> str:
    if ratio >= 0.0995 or not ratio:
        return f"{ratio:.0%}"
    return f"{ratio:.1%}" if ratio >= 0.0005 else "<0.1%"


def tokens_text(tokens: float) -> str:
    """Short: 950, 12k, 43.2M."""
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if tokens >= size:
            return f"{tokens / size:.1f}{unit}"
    return f"{tokens / 1000:,.0f}k" if tokens >= 1000 else f"{tokens:,.0f}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def table(rows: Sequence[Sequence[str]], *, left: int, indent: str = "") -> str:
    """Aligned columns: the first `left` of them to the left, the rest to the right."""
    rows = [[" ".join(cell.split()) for cell in row] for row in rows]  # a name may hold anything
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def fitted(rows: Sequence[Sequence[str]], width: int, *, left: int, indent: str = "", most: int = 44) -> list[str]:
    """A table whose first column is cut so that the rest fits."""
    rest = len(indent) + sum(2 + max(len(row[i]) for row in rows) for i in range(1, len(rows[0])))
    room = min(most, max(12, width - rest))
    return table([[cut(row[0], room), *row[1:]] for row in rows], left=left, indent=indent).split("\n")


def hung(begin: str, text: str, width: int) -> list[str]:
    """A text behind its beginning, as many lines as it takes below each other."""
    lines = textwrap.wrap(text, max(30, width - len(begin)), break_on_hyphens=False)
    return [begin + lines[0], *(" " * len(begin) + line for line in lines[1:])]


_STYLE = re.compile(r"\x1b\[[\d;]*m")


def fold(text: str, width: int) -> str:
    """Lines that are too long go on in the next one, below where they began."""
    return "\n".join(_folded(line, width) for line in text.split("\n"))


def _folded(line: str, width: int) -> str:
    if len(_STYLE.sub("", line)) <= width:
        return line
    text = line.lstrip()
    indent = line[: len(line) - len(text)]
    return textwrap.fill(
        text, max(width, 40), initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
    )


def cut(text: str, width: int) -> str:
    """Without its middle, where it is too long: names differ at their ends."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def use_color(stream: TextIO) -> bool:
    """Colours for a terminal whose user did not switch them off (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


class Paint:
    """Colours, or none."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def _code(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and text.strip() else text

    def bold(self, text: str) -> str:
        return self._code("1", text)

    def dim(self, text: str) -> str:
        return self._code("2", text)

    def good(self, text: str) -> str:
        return self._code("32", text)

    def bad(self, text: str) -> str:
        return self._code("1;31", text)

    def solid(self, text: str) -> str:
        return self._code("36", text)

    def shade(self, text: str) -> str:
        return self._code("90", text)
