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
_MAX_KNOWN = 12_000
"""Names that are remembered of one conversation."""

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
    """(negative score, name, index of its path or -1), best first; none that is not worth its tokens."""

    def text(self, max_chars: int) -> str:
        """One line a file: `path: name name ...`, the names most likely to be needed first. Newest file last."""
        groups: dict[int, list[str]] = {}
        room = max_chars
        for _, name, group in self.ranked:
            cost = len(name) + 1 + (0 if group in groups else 3 + (len(self.paths[group]) if group >= 0 else 12))
            if cost <= room:
                room -= cost
                groups.setdefault(group, []).append(name)
            elif room < 12:
                break
        shown = ((self.paths[g] if g >= 0 else "(elsewhere)", names) for g, names in sorted(groups.items()))
        return "\n".join(f"{path}: {' '.join(names)}" for path, names in shown)


@dataclass(frozen=True, slots=True)
class Mentions:
    """Where the names of some texts stand in them. Names go by their number in `words`."""

    words: Sequence[_Word]
    counts: Mapping[int, int]
    last: Mapping[int, int]
    """The newest turn."""
    owner: Mapping[int, int]
    """Which of the files they belong to, by its place in `paths`."""
    typed: Collection[int]
    """Those that the user typed."""
    paths: Sequence[str]
    file_scores: Sequence[float]
    now: int

    def seen(self, visible: Collection[bytes]) -> Names:
        """The names that are not visible anyway."""
        return Names(self.paths, sorted(self._scored(visible)))

    def _scored(self, visible: Collection[bytes]) -> Iterator[tuple[float, str, int]]:
        words, last, counts, owner, typed = self.words, self.last, self.counts, self.owner, self.typed
        found = [n for n in last if words[n][0] not in visible and words[n][1] not in visible]
        if len(found) > _MAX_CANDIDATES:
            found = sorted(found, key=lambda n: (-last[n], words[n][2], words[n][0]))[:_MAX_CANDIDATES]
        often = {count: 0.8 * math.log(count) for count in set(counts.values())}
        ages = {turn: 1.2 * math.exp((turn - self.now) / 100) for turn in set(last.values())}
        of_file = [*self.file_scores, 0.0]  # the last is of no file, -1
        best: dict[str, tuple[float, int]] = {}
        for n in found:
            _, _, name, length, kind = words[n]
            group = owner.get(n, -1)
            score = often[counts[n]] + ages[last[n]] - length
            score += of_file[group] + (0.7 if n in typed else 0.0) + kind
            if score < MIN_SCORE - 1e-6:
                continue
            scored = (round(score, 6), group)
            if name not in best or scored > best[name]:
                best[name] = scored
        return ((-score, name, group) for name, (score, group) in best.items() if score >= MIN_SCORE)


def mentions(sources: Iterable[Source], touched: Mapping[str, Touch], now: int, known: Known) -> Mentions:
    """Where the names in the sources stand.

    `sources` come newest first, `touched` holds all their paths, `now` is the turn that the names are wanted at.
    """
    scores = {path: _file_score(touch, now) for path, touch in touched.items()}
    paths = sorted(touched, key=lambda p: (scores[p], p))
    ranks = {path: i for i, path in enumerate(paths)}
    found = known.read(_newest(sources))
    last: dict[int, int] = {}
    typed: set[int] = set()
    for source, numbers in reversed(found):
        last.update(dict.fromkeys(numbers, source.turn))
        if source.user:
            typed.update(numbers)
    owner: dict[int, int] = {}
    filed = [(ranks[source.path], numbers) for source, numbers in found if source.path in ranks]
    for rank, numbers in sorted(filed, key=lambda f: f[0]):
        owner.update(dict.fromkeys(numbers, rank))
    counts = dict(Counter(chain.from_iterable(numbers for _, numbers in found)))
    return Mentions(known.words, counts, last, owner, typed, paths, [scores[p] for p in paths], now)


def _file_score(touch: Touch, now: int) -> float:
    score = 0.6 * math.exp(-(now - touch.any) / 30)
    return score + (0.4 * math.exp(-(now - touch.edit) / 40) if touch.edit >= 0 else 0.0)


def _kind_score(name: str) -> float:
    if name.isdigit():
        return -2.6
    if "-" in name and _COMPOUND.fullmatch(name):
        return -0.5
    return 0.5 if ("." in name and _FILE.search(name)) or (len(name) >= 12 and _ID.fullmatch(name)) else 0.0


_Word = tuple[bytes, bytes, str, float, float]
"""A piece of a text that is a name; without what stands around the name; the name; what its length costs it; how much
names of its kind are worth."""


class Known:
    """The names of a conversation's texts, as far as they were read for its last digest.

    A text is read again only where other lines of it count than before. For one thread at a time.
    """

    def __init__(self) -> None:
        self.words: list[_Word] = []
        self._numbers: dict[bytes, int] = {}
        self._texts: dict[int, tuple[str, int, list[int]]] = {}
        """By the text's id: the text, the hash of the lines that count, the numbers of the names in them."""

    def read(self, sources: Iterable[tuple[Source, str]]) -> list[tuple[Source, list[int]]]:
        """The sources with the numbers of their names; what a source says that no newer one does comes with it."""
        if len(self.words) > _MAX_KNOWN:
            self.words, self._numbers, self._texts = [], {}, {}
        old, self._texts = self._texts, {}
        found: list[tuple[Source, list[int]]] = []
        new: list[tuple[set[bytes], list[int]]] = []
        for source, text in sources:
            key, mark = id(source.text), hash(text)
            known = old.get(key)
            if known is None or known[0] is not source.text or known[1] != mark:
                known = (source.text, mark, [])
                new.append((set(words_of(mask(text))), known[2]))
            self._texts[key] = known
            found.append((source, known[2]))
        self._learn(set().union(*(words for words, _ in new)))
        known_words = self._numbers.keys()
        for words, numbers in new:
            numbers.extend(map(self._numbers.__getitem__, known_words & words))
        return found

    def _learn(self, words: set[bytes]) -> None:
        """Tells names from other words. All of it in C: this is where the time goes."""
        others = [w for w in words.difference(self._numbers) if not (w.isalpha() and w[1:].islower()) and len(w) <= 124]
        for raw, bare in _NAME.findall(b"\n".join(others)):
            name = bare.decode("ascii")
            if not _JUNK.fullmatch(name) or _NUMBER.fullmatch(name):
                self._numbers[raw] = len(self.words)
                bare = raw if len(bare) == len(raw) else bare
                self.words.append((raw, bare, name, math.log(len(name) + 1), _kind_score(name)))


def _newest(sources: Iterable[Source]) -> Iterator[tuple[Source, str]]:
    """The newest sources within the bounds, with the lines of each that count: a line that comes again counts once, at
    its newest place."""
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
            yield source, text
