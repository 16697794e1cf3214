"""Edit-quote recall (EQR): whether the agent could still quote what it replaced, without reading again.

Of the recorded edits that name an old text (and of the hunks of patches), those count whose every line of 8 or more
characters stands verbatim in what the agent's own window held. Recalled is an edit whose lines all stand in the
request that the policy sends. Lines may stand anywhere and in any order, also in a copy that is out of date: the
measure does not see wrong copies (see `RebuiltLines`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..walk import Call
from .calls import needs_of
from .texts import MessageText, MessageTexts


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteRecall:
    """What was found of the quotes of a session's edits. Results of several sessions can be added."""

    edits: int = 0
    """Edits with an old text that has a line to look for."""
    quotable: int = 0
    """Those that the full context can quote."""
    quoted: int = 0
    """Those of the quotable that the request can quote."""

    @property
    def ratio(self) -> float | None:
        return self.quoted / self.quotable if self.quotable else None

    def __add__(self, other: QuoteRecall) -> QuoteRecall:
        return QuoteRecall(
            edits=self.edits + other.edits,
            quotable=self.quotable + other.quotable,
            quoted=self.quoted + other.quoted,
        )


@dataclass(frozen=True, slots=True)
class Quote:
    """The old text of one recorded edit."""

    turn: int
    path: str
    missing_at_source: tuple[str, ...]
    """Its lines that the full context does not hold."""
    missing: tuple[str, ...]
    """Its lines that the request does not hold."""


class EditQuotes:
    """The measure."""

    def __init__(self, texts: MessageTexts) -> None:
        self._texts = texts
        self.quotes: list[Quote] = []
        """Each edit with its lines, in order."""

    def see(self, call: Call) -> None:
        quotes = [quote for needs in needs_of(self._texts.format, call.reply) for quote in needs.quotes]
        if not quotes:
            return
        source, sent = (list(map(self._texts, messages)) for messages in (call.source, call.messages))
        for quote in quotes:
            absent, missing = missing_lines(quote.lines, source), missing_lines(quote.lines, sent)
            self.quotes.append(Quote(call.turn, quote.path, absent, missing))

    @property
    def result(self) -> QuoteRecall:
        quotable = [q for q in self.quotes if not q.missing_at_source]
        return QuoteRecall(edits=len(self.quotes), quotable=len(quotable), quoted=sum(not q.missing for q in quotable))


def missing_lines(lines: Sequence[str], messages: Sequence[MessageText]) -> tuple[str, ...]:
    """The lines that stand in none of the messages. The newest are looked at first: there most is found."""
    left = list(lines)
    for message in reversed(messages):
        for _, text in message.sayings:
            left = [line for line in left if line not in text]
            if not left:
                return ()
    return tuple(left)
