"""Words: how stored text and what somebody looks for are cut into terms, the same way for every store.

A term is a run of letters and digits, case folded. Separators are dropped and position kept, so that `src/auth.py`
and `get_user_name` are found as phrases, and their parts as words. Scripts that put no spaces between words (Chinese,
Japanese, Thai, ...; Korean, whose words carry endings) are cut into overlapping pairs of characters.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_UNSPACED = "".join(
    (
        "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff",  # Thai, Lao, Burmese, Khmer
        "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff",  # kana
        "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd",  # Han
        "\uac00-\ud7a3",  # Hangul
    )
)
_RUN = re.compile(f"([{_UNSPACED}]+)|([^\\W_{_UNSPACED}]+)")
_ASCII_RUN = re.compile("[a-z0-9]+")
MAX_TERM_CHARS = 64
"""Longer runs (base64, hex dumps) are known by their beginning."""
MAX_QUERY_TERMS = 64
SNIPPET_CHARS = 240
_SNIPPET_PHRASES = 8


@dataclass(frozen=True, slots=True)
class Phrase:
    """Terms that stand next to each other; with `prefix` the last one may go on."""

    terms: tuple[str, ...]
    prefix: bool = False


def terms(text: str) -> list[str]:
    """All terms of a text to be stored, in order."""
    if text.isascii():
        return [term[:MAX_TERM_CHARS] for term in _ASCII_RUN.findall(text.lower())]
    found: list[str] = []
    for unspaced, word in _RUN.findall(_fold(text)):
        if word:
            found.append(word[:MAX_TERM_CHARS])
        else:
            # The last character stands alone too, so that one character finds every place it occurs in.
            found.extend(unspaced[i : i + 2] for i in range(len(unspaced)))
    return found


def phrases(query: str) -> list[Phrase]:
    """What a query asks for: one phrase for each of its words, cut further where the script changes."""
    found: list[Phrase] = []
    for word in _fold(query).split():
        pending: list[str] = []
        for unspaced, run in _RUN.findall(word):
            if run:
                pending.append(run[:MAX_TERM_CHARS])
                continue
            if pending:
                found.append(Phrase(tuple(pending)))
                pending = []
            found.append(_unspaced_phrase(unspaced))
        if pending:
            found.append(Phrase(tuple(pending)))
    return _within_limit(dict.fromkeys(found))


def _fold(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _unspaced_phrase(run: str) -> Phrase:
    if len(run) == 1:
        return Phrase((run,), prefix=True)
    return Phrase(tuple(run[i : i + 2] for i in range(len(run) - 1)))


def _within_limit(found: Iterable[Phrase]) -> list[Phrase]:
    kept: list[Phrase] = []
    left = MAX_QUERY_TERMS
    for phrase in found:
        if left <= 0:
            break
        kept.append(Phrase(phrase.terms[:left], phrase.prefix))
        left -= len(phrase.terms)
    return kept


def attempts(query: str) -> list[tuple[list[Phrase], bool]]:
    """Ever looser readings of a query, to be tried until one finds something; True where all must be there."""
    exact = phrases(query)
    if not exact:
        return []
    loose = [Phrase(phrase.terms, prefix=True) for phrase in exact]
    return [(exact, True), (loose, True)] + ([(loose, False)] if len(loose) > 1 else [])


def fts_query(wanted: list[Phrase], need_all: bool) -> str:
    """The query in FTS5's language. Terms hold letters and digits only, so nothing in them can be syntax."""
    quoted = (f'"{" ".join(phrase.terms)}"{" *" if phrase.prefix else ""}' for phrase in wanted)
    return (" AND " if need_all else " OR ").join(quoted)


def snippet(text: str, query: str) -> str:
    """The text around the first hit, on whole lines where they are short; its beginning when the hit is elsewhere."""
    start, end = _first_hit(text, query)
    left = max(0, start - SNIPPET_CHARS // 3)
    right = min(len(text), max(end, left + SNIPPET_CHARS))
    right = min(right, left + 2 * SNIPPET_CHARS)
    line = text.rfind("\n", max(0, left - SNIPPET_CHARS // 3), start) + 1
    left = line if line > 0 and line <= start else left
    return ("…" if left > 0 else "") + text[left:right].strip("\n") + ("…" if right < len(text) else "")


def _first_hit(text: str, query: str) -> tuple[int, int]:
    for phrase in phrases(query)[:_SNIPPET_PHRASES]:
        whole = _rejoined(phrase)
        hit = re.search(r"[\W_]*".join(map(re.escape, whole)), text, re.IGNORECASE)
        if hit:
            return hit.span()
    return 0, 0


def _rejoined(phrase: Phrase) -> tuple[str, ...]:
    """The phrase as it stands in the text: overlapping pairs as one run."""
    if re.match(f"[{_UNSPACED}]", phrase.terms[0]):
        return ("".join(term[0] for term in phrase.terms) + phrase.terms[-1][1:],)
    return phrase.terms


class WordIndex:
    """A full-text index in memory, for stores that have none on disk. Not thread-safe."""

    def __init__(self) -> None:
        self._lines: dict[int, tuple[str, str, int]] = {}

    def __contains__(self, id: int) -> bool:
        return id in self._lines

    def add(self, id: int, place: str, text: str) -> None:
        words = terms(text)
        self._lines[id] = (_line(terms(place)), _line(words), len(words))

    def discard(self, id: int) -> None:
        self._lines.pop(id, None)

    def search(self, query: str, among: Iterable[int], limit: int, same: Callable[[int], object]) -> list[int]:
        """The best ids, newest (highest) first among equals; of those that `same` calls equal only the newest."""
        ids = [id for id in among if id in self._lines]
        for wanted, need_all in attempts(query):
            scores = self._scores(wanted, need_all, ids)
            if scores:
                return _distinct(sorted(scores, key=lambda id: (-scores[id], -id)), limit, same)
        return []

    def _scores(self, wanted: list[Phrase], need_all: bool, ids: list[int]) -> dict[int, float]:
        counts = [{id: count for id in ids if (count := self._count(id, phrase))} for phrase in wanted]
        if need_all:
            found = set(counts[0]).intersection(*counts[1:])
        else:
            found = set().union(*counts)
        mean = sum(self._lines[id][2] for id in ids) / len(ids) if ids else 1.0
        return {
            id: sum(_bm25(c.get(id, 0), len(c), len(ids), self._lines[id][2], mean) for c in counts) for id in found
        }

    def _count(self, id: int, phrase: Phrase) -> int:
        needle = " " + " ".join(phrase.terms) + ("" if phrase.prefix else " ")
        place, text, _ = self._lines[id]
        return text.count(needle) + 4 * place.count(needle)


def _line(words: list[str]) -> str:
    return " " + " ".join(words) + " "


def _bm25(count: int, holding: int, total: int, length: int, mean: float) -> float:
    rarity = math.log(1 + (total - holding + 0.5) / (holding + 0.5))
    return rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / (mean or 1.0)))


def _distinct(ids: list[int], limit: int, same: Callable[[int], object]) -> list[int]:
    seen: set[object] = set()
    kept: list[int] = []
    for id in ids:
        if len(kept) == limit:
            break
        if (token := same(id)) not in seen:
            seen.add(token)
            kept.append(id)
    return kept
