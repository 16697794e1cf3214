"""An index of the names that were seen and may be needed again: paths, symbols, ids, numbers, by file.

Work is bounded: at most `MAX_CHARS` of the newest text that says something new is read, split in C and counted once.
Names are taken from decoded text only, so an escape of JSON never becomes part of one. Ties are sorted, nothing
depends on a hash seed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from ..types import Json
from .rules import rule
from .secrets import mask

MAX_CHARS = 400_000
"""Of the newest text, lines that come again not counted; what is older is not read for names."""
_MAX_SEEN_CHARS = 10 * MAX_CHARS
"""The same with the lines that come again: so far back is looked for new ones."""
_MAX_TEXT_CHARS = 120_000
"""Of one text: its beginning and its end."""
_MAX_CANDIDATES = 6_000

MIN_SCORE = -2.8
"""A name below it is not worth its tokens. Of the names that recorded agents used again, 97 % score higher."""

_WORD = bytes(c if (c < 128 and chr(c).isalnum()) or c in b"_./-@+" else 32 for c in range(256))
_NAME = rule(
    rb"(?m)^([-./@+]{0,2}("
    rb"(?=[^\n]{0,79}(?:[0-9_/]|[a-z][A-Z]|[A-Z]{2}|[^.\n]\.[A-Za-z0-9]|[a-z]-[a-z]))"
    rb"[A-Za-z0-9_/@~][A-Za-z0-9_./@+-]{2,119}?"
    rb")[-./@+]{0,3})$"
)
_JUNK = rule(
    r"[A-Za-z0-9+]{65,}|[-_./+@\d]{1,3}|(.)\1{5,}|[A-Z]{1,5}|[A-Z][a-z]+-?[a-z]*|.{1,2}[./].{1,3}|\d+(?:st|nd|rd|th|px|em|rem|ms|s|k|x|%)?"
)
_FILE = rule(r"\.[A-Za-z]\w{0,4}$")
_COMPOUND = rule(r"-{0,2}[A-Za-z]+(?:-[A-Za-z]+)+")
"""As names of styles, options and packages are, and plain words of prose."""
_ID = rule(r"(?=\w*\d)[0-9a-f]{12,64}|[0-9a-f]{8}-[0-9a-f-]{13,27}")
"""A hash or a UUID: long, and good for nothing unless whole."""
_NUMBER = rule(r"\d{3,}")


class Source(NamedTuple):
    """A text that names may be taken from."""

    text: str
    turn: int
    path: str = ""
    """The file that it is of."""
    user: bool = False
    """Typed by the user."""


@dataclass(frozen=True, slots=True)
class Touch:
    """The turn at which a file was last read or changed, and last changed (-1: never)."""

    any: int
    edit: int


def strings(value: Json, depth: int = 6) -> list[str]:
    """The strings inside a JSON value."""
    found: list[str] = []
    _gather(value, depth, found)
    return found


def _gather(value: Json, depth: int, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(value)
    elif depth > 0 and isinstance(value, (dict, list, Mapping)):
        for inner in value if isinstance(value, list) else value.values():
            if type(inner) is str:
                found.append(inner)
            else:
                _gather(inner, depth - 1, found)


def words_of(text: str) -> list[bytes]:
    """The text in pieces that may be names: letters, digits and what stands inside paths and ids."""
    return text.encode("utf-8", "replace").translate(_WORD).split()


def visible_words(texts: Iterable[str], max_chars: int = 400_000) -> set[bytes]:
    """The words of what stands in the request anyway."""
    words: set[bytes] = set()
    for text in texts:
        if max_chars <= 0:
            break
        words.update(words_of(text[:max_chars]))
        max_chars -= len(text)
    for word in list(words):
        words.add(word.strip(b"-./@+"))
    return words


@dataclass(frozen=True, slots=True)
class Names:
    """Names by their score, with the files that they belong to."""

    paths: Sequence[str]
    ranked: Sequence[tuple[float, str, int]]
    """(score, name, index of its path or -1), best first."""
    min_score: float = MIN_SCORE

    def text(self, max_chars: int) -> str:
        """One line a file: `path: name name ...`, the names most likely to be needed first. Newest file last."""
        groups: dict[int, list[str]] = {}
        room = max_chars
        for score, name, group in self.ranked:
            if score < self.min_score:
                break
            cost = len(name) + 1 + (0 if group in groups else 3 + (len(self.paths[group]) if group >= 0 else 12))
            if cost <= room:
                room -= cost
                groups.setdefault(group, []).append(name)
            elif room < 12:
                break
        shown = ((self.paths[g] if g >= 0 else "(elsewhere)", names) for g, names in sorted(groups.items()))
        return "\n".join(f"{path}: {' '.join(names)}" for path, names in shown)


def seen_names(sources: Iterable[Source], touched: Mapping[str, Touch], now: int, visible: Collection[bytes]) -> Names:
    """The names in the sources that are not visible anyway.

    `sources` come newest first, `touched` holds all their paths, `now` is the turn that the names are wanted at.
    """
    paths = sorted(touched, key=lambda p: (_file_score(touched[p], now), p))
    ranks = {path: i for i, path in enumerate(paths)}
    scored = _scored(sources, [touched[p] for p in paths], ranks, now, visible)
    return Names(paths, sorted(scored, key=lambda s: (-s[0], s[1])))


def _file_score(touch: Touch, now: int) -> float:
    score = 0.6 * math.exp(-(now - touch.any) / 30)
    return score + (0.4 * math.exp(-(now - touch.edit) / 40) if touch.edit >= 0 else 0.0)


def _scored(
    sources: Iterable[Source],
    touches: Sequence[Touch],
    ranks: Mapping[str, int],
    now: int,
    visible: Collection[bytes],
) -> list[tuple[float, str, int]]:
    mentions, last, owner, typed = _collected(sources, ranks)
    scores = [_file_score(t, now) for t in touches]
    best: dict[str, tuple[float, str, int]] = {}
    for raw, name in _names(last, visible):
        group = owner.get(raw, -1)
        score = 0.8 * math.log(mentions[raw]) + 1.2 * math.exp((last[raw] - now) / 100) - math.log(len(name) + 1)
        score += (scores[group] if group >= 0 else 0.0) + (0.7 if raw in typed else 0.0) + _kind_score(name)
        score = round(score, 6)
        if name not in best or (score, group) > (best[name][0], best[name][2]):
            best[name] = (score, name, group)
    return list(best.values())


def _kind_score(name: str) -> float:
    if name.isdigit():
        return -2.6
    if _COMPOUND.fullmatch(name):
        return -0.5
    return 0.5 if _FILE.search(name) or _ID.fullmatch(name) else 0.0


def _collected(
    sources: Iterable[Source], ranks: Mapping[str, int]
) -> tuple[Counter[bytes], dict[bytes, int], dict[bytes, int], set[bytes]]:
    """Counts, newest turn, best file and the user's words. All of it in C: this is where the time goes."""
    found: list[set[bytes]] = []
    last: dict[bytes, int] = {}
    typed: set[bytes] = set()
    filed: list[tuple[int, set[bytes]]] = []
    for source in _newest(sources):
        once = set(words_of(source.text))
        found.append(once)
        last.update(dict.fromkeys(once.difference(last), source.turn))
        if source.user:
            typed |= once
        if source.path in ranks:
            filed.append((ranks[source.path], once))
    owner: dict[bytes, int] = {}
    for rank, once in sorted(filed, key=lambda f: -f[0]):
        owner.update(dict.fromkeys(once.difference(owner), rank))
    return Counter(chain.from_iterable(found)), last, owner, typed


def _newest(sources: Iterable[Source]) -> Iterator[Source]:
    """The newest sources within the bounds. A line that stands there twice counts at its newest place."""
    seen: set[str] = set()
    room, looked = MAX_CHARS, _MAX_SEEN_CHARS
    for source in sources:
        text = source.text
        if len(text) > _MAX_TEXT_CHARS:
            text = text[: _MAX_TEXT_CHARS // 2] + "\n" + text[-_MAX_TEXT_CHARS // 2 :]
        lines = [line for line in text.split("\n") if line not in seen]
        seen.update(lines)
        looked -= len(text)
        text = "\n".join(lines)
        room -= len(text)
        if room < 0 or looked < 0:
            break
        if text:
            yield Source(mask(text), *source[1:])


def _names(last: Mapping[bytes, int], visible: Collection[bytes]) -> Iterator[tuple[bytes, str]]:
    """The words that are names: (word, name)."""
    unique = [w for w in last if w not in visible]
    found: list[tuple[bytes, str]] = []
    for raw, name in _NAME.findall(b"\n".join(w for w in unique if len(w) <= 124)):
        text = name.decode("ascii")
        if name not in visible and (not _JUNK.fullmatch(text) or _NUMBER.fullmatch(text)):
            found.append((raw, text))
    if len(found) > _MAX_CANDIDATES:
        found = sorted(found, key=lambda f: (-last[f[0]], f[1]))[:_MAX_CANDIDATES]
    yield from found
