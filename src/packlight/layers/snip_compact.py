"""`snip_compact` (the first article's L1): the middle of a long conversation becomes one marker.

With the laws kept: the cut moves to the nearest valid place, what is cut out is stored, and the marker quotes what
the user typed there. The count in the marker is always the whole count: snipping again does not snip the marker.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Edit, Target
from ..view import View
from .fold import fold, user_words

NAME = "snip_compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnipCompact:
    max_messages: int = 50
    keep_first: int = 3
    keep_last: int = 47

    def __call__(self, view: View, target: Target) -> list[Edit]:
        total = len(view.messages)
        if total <= self.max_messages:
            return []
        start, end = self.keep_first, total - self.keep_last
        return fold(view, NAME, start, end, lambda runs: self._marker(view, runs), action="removed")

    @staticmethod
    def _marker(view: View, runs: list[tuple[int, int]]) -> str:
        count = sum(end - start for start, end in runs)
        words = user_words(view, runs)
        said = f"\nWhat the user said there:\n{words}" if words else ""
        return f"[snipped {count} messages]{said}"
