"""Exact counters, for whoever wants them: extras that bring their vocabulary along and download nothing."""

from __future__ import annotations

from typing import Any

from ..errors import PacklightError
from ..models import family_of
from .counter import Counter


class MissingExtra(PacklightError, ImportError):
    """An optional package is not installed; the message says which extra brings it."""


class O200kCounter:
    """OpenAI's `o200k_base`, exact (GPT-4o and later), by `toktok-rs`, whose wheel holds the vocabulary.

    Chosen over `tiktoken`, which fetches its vocabulary and fails on a megabyte of blanks. Loading takes about
    1.5 s, once, on the first count.
    """

    name = "gpt"

    def __init__(self) -> None:
        try:
            import toktok  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise MissingExtra("exact counts need toktok-rs: pip install 'packlight[tokens]'") from error
        self._toktok: Any = toktok

    def count(self, text: str) -> int:
        """Tokens of the text. Lone surrogates, which UTF-8 can't hold, count as a replacement character."""
        if not text:
            return 0
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return int(self._toktok.batch_count([clean], "o200k_base")[0])


def exact_counter(model: str | None) -> Counter:
    """The exact counter of a model, where one exists offline: GPT-4o and later. Raises MissingExtra or ValueError."""
    if family_of(model) != "gpt":
        raise ValueError(f"no exact offline counter for {model!r}: use counter_for()")
    return O200kCounter()
