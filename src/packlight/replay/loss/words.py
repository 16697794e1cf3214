"""Whether what the user said still stands, word for word.

Only what was typed counts, and only where it stands in the user's place (a summary stands there, too): a line that a
tool happens to print is not the user's word.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..walk import Call
from .texts import MessageTexts

SHORT_CHARS = 300
"""A message of the user up to this size should stand whole."""
_MIN_LINE_CHARS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WordsKept:
    """How much of what the user had typed in the agent's own window stood in one request."""

    turn: int
    chars: int
    """Of the lines."""
    chars_kept: int
    """Of the lines that stand whole."""
    lines: int
    lines_kept: int
    short_messages: int
    """Up to `SHORT_CHARS`."""
    short_messages_kept: int
    """Whole."""

    @property
    def ratio(self) -> float | None:
        """Of the characters."""
        return self.chars_kept / self.chars if self.chars else None


@dataclass(frozen=True, slots=True)
class WordsResult:
    at_batches: tuple[WordsKept, ...]
    at_end: WordsKept | None
    """In the last request of the session; None when there was none."""


class UserWords:
    """A measure: the user's words at each batch of edits, and at the end."""

    def __init__(self, texts: MessageTexts) -> None:
        self._texts = texts
        self._last: Call | None = None
        self._at_batches: list[WordsKept] = []

    def see(self, call: Call) -> None:
        self._last = call
        if call.is_batch:
            self._at_batches.append(self._kept(call))

    @property
    def result(self) -> WordsResult:
        return WordsResult(tuple(self._at_batches), self._kept(self._last) if self._last is not None else None)

    def _kept(self, call: Call) -> WordsKept:
        shown = "\n".join(self._texts(m).user_text for m in call.messages)
        typed = [text for m in call.source for text in self._texts(m).typed]
        lines = [line for text in typed for line in lines_of(text)]
        kept = [line for line in lines if line in shown]
        short = [text.strip() for text in typed if len(text) <= SHORT_CHARS]
        return WordsKept(
            turn=call.turn,
            chars=sum(map(len, lines)),
            chars_kept=sum(map(len, kept)),
            lines=len(lines),
            lines_kept=len(kept),
            short_messages=len(short),
            short_messages_kept=sum(text in shown for text in short),
        )


def lines_of(text: str) -> list[str]:
    """The lines of a text without the space around them, each once; the shortest left out."""
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in dict.fromkeys(lines) if len(line) >= _MIN_LINE_CHARS]
