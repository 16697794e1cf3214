"""What a person sees of the agent: its words on standard output, all else on standard error.

Ornament (bars, colours) only on a terminal whose user has not switched it off; elsewhere plain lines.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from typing import TextIO

from ..compaction import Report

_BAR_CELLS = 24
_CONTROLS = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)))
"""Escape codes from a model or a tool never reach the terminal."""
_DONE = {
    "stored": "kept as previews",
    "cleared": "results cleared",
    "summarised": "summaries",
    "shortened": "parts shortened",
    "removed": "parts removed",
    "inserted": "parts inserted",
    "repaired": "places repaired",
}


class Screen:
    """`out` gets the model's words, `notes` the rest. `is_rich`: bars and colours."""

    def __init__(self, out: TextIO | None = None, notes: TextIO | None = None, *, is_rich: bool = False) -> None:
        self._out, self._notes = out or sys.stdout, notes or sys.stderr
        self.is_rich = is_rich
        self._is_open = False
        """The model's words stand on a line that has not ended."""
        self._indent = ""

    def nested(self) -> Screen:
        """For a sub-agent: its words go to the notes, set in."""
        inner = Screen(self._notes, self._notes, is_rich=self.is_rich)
        inner._indent = self._indent + "  | "
        return inner

    def text(self, piece: str) -> None:
        piece = piece.translate(_CONTROLS)
        if not piece:
            return
        if self._indent:
            piece = piece.replace("\n", f"\n{self._indent}") if self._is_open else f"{self._indent}{piece}"
        _write(self._out, piece)
        self._is_open = not piece.endswith("\n")

    def end_text(self) -> None:
        if self._is_open:
            _write(self._out, "\n")
        self._is_open = False

    def note(self, text: str) -> None:
        self.end_text()
        with suppress(OSError):  # a log on a full disk does not stop the agent
            _write(self._notes, f"{self._indent}{self._dim(text.translate(_CONTROLS))}\n")

    def lines(self, text: str) -> None:
        """A table, or a help text."""
        self.end_text()
        _write(self._notes, text.translate(_CONTROLS) + "\n")

    def call(self, number: int, tokens: int, limit_tokens: int | None) -> None:
        """A line a model call: how full the window is."""
        of = f" of {limit_tokens:,}" if limit_tokens else ""
        full = f"{bar(tokens, limit_tokens)} " if self.is_rich and limit_tokens else ""
        self.note(f"call {number}: {full}{tokens:,}{of} tokens")

    def packed(self, report: Report) -> None:
        """What a compaction did."""
        counts = Counter(edit.action for edit in report.new_edits)
        done = ", ".join(f"{n} {_DONE[action]}" for action, n in counts.items()) or "nothing could go"
        self.note(f"packed to {report.tokens_after:,} tokens ({done}): {report.reason}")

    def tool(self, name: str, arguments: str) -> None:
        self.note(f"{'•' if self.is_rich else '-'} {shortened(f'{name} {arguments}', 160)}")

    def result(self, text: str, is_error: bool) -> None:
        lines = text.count("\n") + (not text.endswith("\n"))
        told = shortened(text, 160) if is_error or lines == 1 else f"{lines:,} lines, {len(text):,} characters"
        self.note(f"  {told}")

    def _dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.is_rich else text


def bar(part: int, whole: int, cells: int = _BAR_CELLS) -> str:
    """How much of a whole a part is."""
    full = min(cells, round(cells * part / whole))
    return "█" * full + "░" * (cells - full)


def shortened(text: str, limit_chars: int) -> str:
    text = " ".join(text[: 4 * limit_chars].split())
    return text if len(text) <= limit_chars else text[: limit_chars - 1] + "…"


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
