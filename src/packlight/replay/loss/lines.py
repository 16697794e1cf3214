"""The lines that a name stands on, as sets of their words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from .identifiers import identifiers, keys_of, spellings
from .texts import MessageText

_LINE_CHARS = 150
"""Of a longer line only so much on each side of the name counts as the line."""
_WORD = re.compile(r"\w+")


def tells(message: MessageText, keys: Sequence[str]) -> bool:
    """Whether a result or a user's text in it holds the name."""
    by_who = message.keys_by_who
    return any(who in by_who and not by_who[who].isdisjoint(keys) for who in ("result", "user"))


def lines_with(
    name: str, messages: Iterable[MessageText], whose: Sequence[str] = ("system", "user", "assistant", "result")
) -> Iterator[frozenset[str]]:
    """The words of each line that the name stands on."""
    keys = frozenset(spellings(name))
    needles = sorted({key.removeprefix("/") for key in keys}, key=len, reverse=True)
    for message in messages:
        for who, text in message.sayings:
            if who in whose:
                yield from _lines_of(text, needles, keys)


def _lines_of(text: str, needles: Sequence[str], keys: frozenset[str]) -> Iterator[frozenset[str]]:
    for needle in needles:
        at = text.find(needle)
        while at >= 0:
            end = at + len(needle)
            start = max(text.rfind("\n", 0, at) + 1, at - _LINE_CHARS)
            stop = text.find("\n", end)
            line = text[start : min(len(text) if stop < 0 else stop, end + _LINE_CHARS)]
            if any(not keys.isdisjoint(keys_of(found)) for found in identifiers(line)):
                yield words_of(line)
            at = text.find(needle, start + len(line))


def words_of(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))
