"""What each message of a session weighs in tokens: our estimate, scaled to what the provider counted.

Between two calls of one window the recorded usage grows by what was added; that growth is shared among the added
messages by their estimates. Where usage is missing or says something impossible (a provider drops old thinking, a
client adds text that it does not record), the session's median scale stands in. What the file does not show (system
prompt, tools) is the rest of the first usage, one constant a window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from .. import models
from ..tokens import count_value, counter_for
from ..tokens.usage import input_tokens
from ..types import Json
from .session import Segment, Session

_LEAST_SCALE, _MOST_SCALE = 0.4, 3.0
"""Growth outside of this range of its estimate is not explained by the messages that were added."""
_FEW_TOKENS = 200
"""A smaller step says little about the scale."""
_HEAD_KEYS = ("system", "instructions", "tools", "functions")


class Weights:
    """Tokens of the messages and requests of one session. Foreign messages (edits) are estimated and scaled.

    `unseen_head_tokens` stand for system prompt and tools where the file has neither them nor a usage.
    """

    def __init__(
        self, session: Session, count: Callable[[Json], int] | None = None, *, unseen_head_tokens: int = 0
    ) -> None:
        self._count = count or counting(session.model)
        self._unseen_head_tokens = unseen_head_tokens
        self._known: dict[int, tuple[Any, float]] = {}
        self._estimates: dict[int, tuple[Any, int]] = {}
        self.scale = median(scales) if (scales := list(self._scales(session))) else 1.0
        """Tokens of the provider for one of ours, at the median."""
        shown = sum(self._count(session.head[k]) for k in _HEAD_KEYS if session.head.get(k) is not None)
        self._heads = [self._segment(segment, shown) for segment in session.segments]

    def head(self, window: int) -> float:
        """Tokens of what stands before the messages: system prompt and tools, shown or not."""
        return self._heads[window]

    def message(self, message: Any) -> float:
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = message, self.estimate(message) * self.scale
        return known[1]

    def request(self, messages: Sequence[Any], window: int) -> float:
        return self._heads[window] + sum(map(self.message, messages))

    def estimate(self, message: Any) -> int:
        """Not scaled. The message is held, so that its id stays its own."""
        held = self._estimates.get(id(message))
        if held is None:
            held = self._estimates[id(message)] = message, self._count(message)
        return held[1]

    def _scales(self, session: Session) -> list[float]:
        found = []
        for segment in session.segments:
            for _, estimated, grown in self._steps(segment):
                if estimated >= _FEW_TOKENS and _LEAST_SCALE * estimated <= grown <= _MOST_SCALE * estimated:
                    found.append(grown / estimated)
        return found

    def _steps(self, segment: Segment) -> list[tuple[Sequence[Any], int, float]]:
        """What was added between two calls with usage: messages, their estimate, growth of the usage."""
        steps: list[tuple[Sequence[Any], int, float]] = []
        counted = [(t.end, n) for t in segment.turns if (n := input_tokens(t.usage))]
        for (start, before), (end, after) in zip(counted, counted[1:], strict=False):
            added = segment.messages[start:end]
            steps.append((added, sum(map(self.estimate, added)), float(after - before)))
        return steps

    def _segment(self, segment: Segment, shown_tokens: int) -> float:
        """Weighs the messages of a window; returns the weight of its head."""
        for added, estimated, grown in self._steps(segment):
            scale = grown / estimated if estimated else 0.0
            if not _LEAST_SCALE <= scale <= _MOST_SCALE:
                scale = self.scale
            for message in added:
                self._known.setdefault(id(message), (message, self.estimate(message) * scale))
        first = next(((t.end, n) for t in segment.turns if (n := input_tokens(t.usage))), None)
        if first is None:
            return shown_tokens * self.scale or float(self._unseen_head_tokens)
        return max(0.0, first[1] - sum(map(self.message, segment.messages[: first[0]])))


def counting(model: str | None) -> Callable[[Json], int]:
    """How values are counted for a model."""
    counter, rule = counter_for(model), models.image_rule(model)

    def count(value: Json) -> int:
        return count_value(value, counter, image_rule=rule)

    return count
