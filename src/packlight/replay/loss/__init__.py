"""What a policy loses, measured on recorded sessions without a model.

Each measure looks at every call of a walk and tells a typed result. All of them presuppose that the session goes on
as recorded; an agent that misses something would ask for it again. Each can be gamed alone: read them together,
beside their `controls`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...store import Store
from ..walk import Call
from .constraints import ConstraintSurvival, Survival
from .findability import Findability, Found
from .quotes import EditQuotes, QuoteRecall
from .rebuilt import CopyTruth, RebuiltLines
from .recorded import ComparedCompaction, compare_compactions
from .references import FutureReferences, ReferenceRecall
from .texts import MessageTexts
from .words import UserWords, WordsResult

__all__ = [
    "ComparedCompaction",
    "ConstraintSurvival",
    "CopyTruth",
    "EditQuotes",
    "Findability",
    "FutureReferences",
    "Loss",
    "Losses",
    "MessageTexts",
    "UserWords",
    "compare_compactions",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What all measures say of one session under one policy."""

    references: ReferenceRecall
    quotes: QuoteRecall
    found: Found | None
    """None for an engine that keeps nothing."""
    words: WordsResult
    constraints: Survival
    copies: RebuiltLines | None
    """None for a policy that shows no copies of files."""


class Losses:
    """All measures of loss as one: `replay(..., measures=[losses])`, then `losses.result`."""

    def __init__(self, texts: MessageTexts, store: Store | None) -> None:
        self.references, self.quotes = FutureReferences(texts), EditQuotes(texts)
        self.found = Findability(texts, store, self.references, self.quotes)
        self.words, self.constraints = UserWords(texts), ConstraintSurvival(texts)
        self.copies = CopyTruth(texts)

    def see(self, call: Call) -> None:
        for measure in (self.references, self.quotes, self.found, self.words, self.constraints, self.copies):
            measure.see(call)

    @property
    def result(self) -> Loss:
        return Loss(
            references=self.references.result,
            quotes=self.quotes.result,
            found=self.found.result,
            words=self.words.result,
            constraints=self.constraints.result,
            copies=self.copies.result,
        )
