"""What a policy lost, as the report tells it: two figures of `loss`, and at which calls; no word of the session."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .loss import EditQuotes, FutureReferences, MessageTexts
from .loss.quotes import QuoteRecall
from .loss.references import ReferenceRecall
from .session import Session
from .walk import Call

_OLD_CALLS = 10
"""Newer references say little: whatever a policy does, the newest calls are in sight."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Of one session, or of several."""

    references: ReferenceRecall
    quotes: QuoteRecall
    lost: list[tuple[int, str]] = field(default_factory=list)
    """The calls at which something was out of sight, and how much."""

    @property
    def reference_ratio(self) -> float | None:
        """Of the names last seen over ten calls ago that the agent went on to use, those still in sight."""
        return self.references.rows[_OLD_CALLS].ratio

    @property
    def quote_ratio(self) -> float | None:
        """Of the edits, those whose old text could still be quoted."""
        return self.quotes.ratio

    def __add__(self, other: Lost) -> Lost:
        return Lost(self.references + other.references, self.quotes + other.quotes)


class WhatIsLost:
    """The measure."""

    def __init__(self, session: Session) -> None:
        texts = MessageTexts(session.format)
        self._references, self._quotes = FutureReferences(texts), EditQuotes(texts)

    def see(self, call: Call) -> None:
        self._references.see(call)
        self._quotes.see(call)

    @property
    def result(self) -> Lost:
        return Lost(self._references.result, self._quotes.result, sorted((*self._names(), *self._edits())))

    def _names(self) -> list[tuple[int, str]]:
        unseen = Counter(r.turn for r in self._references.references if not r.visible)
        return [(turn, f"{count} {'name' if count == 1 else 'names'} out of sight") for turn, count in unseen.items()]

    def _edits(self) -> list[tuple[int, str]]:
        """A line that even the full context does not hold is nobody's loss."""
        return [
            (q.turn, "an edit it could not quote") for q in self._quotes.quotes if q.missing and not q.missing_at_source
        ]
