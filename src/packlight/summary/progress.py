"""Work on the old turns that goes on where the last batch of the conversation left it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from ..view import View

_MOST = 2
"""Two digests of one batch may end at different messages."""


@dataclass(slots=True)
class Progress:
    """What was worked out of source messages [start, end), but for those that are kept."""

    start: int
    end: int = 0
    kept: frozenset[int] = frozenset()

    def leads_to(self, start: int, end: int, kept: Collection[int]) -> bool:
        """Whether the same would have been worked out on the way to this end."""
        within = self.start == start and self.end <= end
        return within and self.kept == frozenset(i for i in kept if i < self.end)

    def reached(self, end: int, kept: Collection[int]) -> None:
        self.end, self.kept = end, frozenset(i for i in kept if i < end)


Work = TypeVar("Work", bound=Progress)


def resumed(view: View, name: str, fits: Callable[[Work], bool], new: Callable[[], Work]) -> tuple[Work, list[Work]]:
    """The work that got furthest of what fits, a new one where none does; and the others, for `put_down`.

    What is remembered is taken out meanwhile: another thread may write a digest of the same conversation.
    """
    known: list[Work] = view.memory.pop(name, [])
    found = max((w for w in known if fits(w)), key=lambda w: w.end, default=None)
    return found or new(), [w for w in known if w is not found]


def put_down(view: View, name: str, work: Work, others: list[Work]) -> None:
    """Remembers the work, and the newest of the others."""
    view.memory[name] = [work, *others][:_MOST]
