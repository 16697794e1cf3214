"""Policies that a measure must tell from good ones: all, nothing, the newest, the newest with a bag of names.

They hold a budget and keep no law: their requests need not be valid. Run them in the same table as real policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...formats import split
from ...tokens import count_value, counter_for
from ...types import Edit, FormatName, Json
from .texts import MessageTexts

Plan = Callable[[Sequence[Any]], list[Any]]
"""What of the messages is sent."""

_BAG_RATIO = 0.3


@dataclass(frozen=True, slots=True)
class ControlReport:
    tokens_before: int
    tokens_after: int
    new_edits: tuple[Edit, ...] = ()
    error: None = None


@dataclass(frozen=True, slots=True)
class ControlCompaction:
    """Satisfies `walk.Compaction`."""

    given: Any
    request: Any
    report: ControlReport
    fits: bool = True

    @property
    def changed(self) -> bool:
        return self.request is not self.given

    def restore(self) -> Any:
        return self.given


class Control:
    """An engine (`walk.Engine`) that sends what a plan leaves."""

    store: None = None

    def __init__(self, plan: Plan, counted: Counted | None = None) -> None:
        self.plan = plan
        self._counted = counted or Counted()

    def fit(self, request: Any, /, *, now_seconds: float | None = None, format: str | None = None) -> ControlCompaction:
        _, messages, _ = split(request, format)
        kept = self.plan(messages)
        before, after = (sum(map(self._counted, list_)) for list_ in (messages, kept))
        sent = request
        if len(kept) != len(messages) or any(a is not b for a, b in zip(kept, messages, strict=True)):
            key = "input" if isinstance(request, Mapping) and "messages" not in request else "messages"
            sent = {**request, key: kept} if isinstance(request, Mapping) else kept
        return ControlCompaction(request, sent, ControlReport(before, after))

    def record_usage(self, compaction: Any, usage: Any, /) -> None:
        """Nothing is learned from it."""


class Counted:
    """Estimated tokens of messages, each counted once."""

    def __init__(self, model: str | None = None) -> None:
        self._counter = counter_for(model)
        self._known: dict[int, tuple[Any, int]] = {}

    def __call__(self, message: Json) -> int:
        known = self._known.get(id(message))
        if known is None:  # held, so that its id stays its own
            known = self._known[id(message)] = message, count_value(message, self._counter)
        return known[1]


def identity() -> Control:
    """Everything is sent: no measure may find a loss."""
    return Control(list)


def empty() -> Control:
    """Only the first message is sent."""
    return Control(lambda messages: list(messages[:1]))


def tail(max_tokens: int) -> Control:
    """The first message and as many of the newest as fit."""
    counted = Counted()
    return Control(lambda messages: [*messages[:1], *messages[_start(messages, max_tokens, counted) :]], counted)


def bag(max_tokens: int, format: FormatName) -> Control:
    """The newest messages in seven tenths of the budget; the rest are names of what is gone, without meaning."""
    counted, texts = Counted(), MessageTexts(format)
    bag_chars = int(max_tokens * _BAG_RATIO * 3)

    def plan(messages: Sequence[Any]) -> list[Any]:
        start = _start(messages, int(max_tokens * (1 - _BAG_RATIO)), counted)
        names = _names(texts, messages[1:start], bag_chars)
        return [*messages[:1], *([texts.format.reference(names)] if names else []), *messages[start:]]

    return Control(plan, counted)


def _start(messages: Sequence[Any], max_tokens: int, counted: Counted) -> int:
    """Where the newest messages begin that fit beside the first."""
    left = max_tokens - sum(map(counted, messages[:1]))
    for at in range(len(messages) - 1, 0, -1):
        left -= counted(messages[at])
        if left < 0:
            return at + 1
    return 1


def _names(texts: MessageTexts, messages: Sequence[Any], max_chars: int) -> str:
    """Names in the messages, the newest first, one after another."""
    found: dict[str, None] = {}
    for message in reversed(messages):
        for name in sorted(key for key in texts(message).keys if not key.startswith("/")):
            if name not in found:
                max_chars -= len(name) + 1
                if max_chars < 0:
                    return " ".join(found)
                found[name] = None
    return " ".join(found)
