"""What to do with a request that a provider refused: send it smaller, or without what may be at fault, or not again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from ..budget import MARGIN_ESTIMATED
from ..compaction import Compaction
from ..compactor import Compactor
from ..errors import ContextWindowExceeded
from ..overflow import classify, finds_fault, names_changed_thinking, says_nothing

__all__ = ["Cures", "cure_of"]

Cure = Literal["recover", "shrink", "unbind", "undo"]
"""`recover`: it was too long. `shrink`: it may have been too long, nobody says so. `unbind`: without signed
thinking. `undo`: without our new edits."""


def cure_of(c: Compaction | None, error: Exception, tried: Collection[Cure]) -> Cure | None:
    """What may help after an error, of an SDK or with the same `status_code` and `body`; None where nothing may.

    What an `undo` or a `shrink` did not cure was not what was asked for: nothing follows them, but for an overflow that
    the provider names after a `shrink`.
    """
    if c is None or c.state is None or "undo" in tried:
        return None
    if classify(error) is not None:
        return "recover"
    if "shrink" in tried:
        return None
    if says_nothing(error) and _is_near_its_window(c):
        return "shrink"
    if not finds_fault(error):
        return None
    if names_changed_thinking(error):
        return "unbind"
    return "undo" if c.report.new_edits else None


def _is_near_its_window(c: Compaction) -> bool:
    """As far as is known: the request as sent is over the window, or under it by no more than an estimate errs."""
    window = c.report.window_tokens
    return window is not None and c.report.tokens_after > window * (1 - MARGIN_ESTIMATED)


class Cures:
    """The cures of one request: what was tried, and what is due when it is taken in the end."""

    def __init__(self, compactor: Compactor) -> None:
        self._compactor = compactor
        self._tried: list[Cure] = []
        self._blamed: tuple[Compaction, Exception] | None = None
        """New edits that were refused, for another reason than length."""

    def next(self, c: Compaction | None, error: Exception) -> Compaction | None:
        """The request to send instead; None where there is none: the error is passed on.

        Raises ContextWindowExceeded where it is too long and nothing more can go, and the error where it names
        thinking and there is none.
        """
        cure = cure_of(c, error, self._tried)
        if cure is None or c is None:
            return None
        self._tried.append(cure)
        if cure == "recover":
            return self._compactor.recover(c, error)
        if cure == "shrink":
            return self._shrunk(c)
        if cure == "unbind":
            return self._compactor.unbind(c, error)
        self._blamed = (c, error)
        return self._compactor.undo(c, error, tentative=True)

    def _shrunk(self, c: Compaction) -> Compaction | None:
        try:
            shrunk = self._compactor.recover(c)
        except ContextWindowExceeded:  # nobody said that it is
            return None
        why = "the provider refused it without a word, and it was about as large as the window"
        return replace(shrunk, report=replace(shrunk.report, reason=why))

    def first(self, error: Exception) -> Exception:
        """The error to tell: where it is too long without our new edits, why they were refused."""
        return self._blamed[1] if self._blamed and classify(error) is not None else error

    def taken(self) -> Compaction | None:
        """The provider took it. If that was without our new edits, they are gone for good, and this is the request."""
        return self._compactor.undo(*self._blamed) if self._blamed else None
