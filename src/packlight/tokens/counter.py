"""The counter behind everything that is measured, and which one a model gets."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol, runtime_checkable

from ..models import family_of
from .byteclass import ByteClassCounter


@runtime_checkable
class Counter(Protocol):
    """Counts the tokens of a text. Never reads the network, and never raises for what a text holds."""

    @property
    def name(self) -> str:
        """The family it counts for (`claude_old`, `claude`, `gpt`, `other`), or a name of its own."""
        ...

    def count(self, text: str) -> int: ...


def counter_for(model: str | None) -> Counter:
    """The default counter of a model id: a fast estimate, see `ByteClassCounter`. None or unknown errs upward."""
    return _default(family_of(model))


@lru_cache(maxsize=8)
def _default(family: str) -> Counter:
    return ByteClassCounter(family)
