"""A token estimate at the speed of memcpy: byte classes, pairs of them, and one fitted weight for each pair.

Every byte is replaced by one of 16 classes (`bytes.translate`), the classes of neighbours are put into one byte
(one shift of a large integer), that byte is replaced by a weight in 1/64 tokens (`translate` again), and the
weights are added up. The same is done for each byte and the next but one. Text outside ASCII goes through a
second table, whose classes are the lead bytes of the scripts. Nothing loops over characters in Python.

The weights were fitted against true counts on one half of a corpus of code, JSON, logs, diffs, encoded data,
prose in 60 languages, emoji and white space, and checked on the other half: see `bench/results/tokens.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from zlib import adler32

from .weights import INDIC_BIAS, PATTERNS, RUN_BYTES, RUN_UNITS, UNITS, WEIGHTS, Weights

_CHUNK_BYTES = 32_768
"""Small enough for the cache of the processor. Part of the estimate: no pair crosses the border of two chunks."""

_RUN = re.compile(rb"\0{%d,}" % (RUN_BYTES - 1))
_RUN_MARK = bytes(RUN_BYTES - 1)


def _classes(*groups: tuple[Iterable[str | int], int], default: int) -> bytes:
    table = bytearray([default]) * 256
    for members, code in groups:
        for member in members:
            table[ord(member) if isinstance(member, str) else member] = code
    return bytes(table)


_ASCII = _classes(
    (range(32), 3),
    ("\n\r", 0),  # class 0 also stands for the end of the text
    (" ", 1),
    (range(0x80, 0x100), 2),
    ("0123456789", 4),
    ("aeiou", 5),
    ("tnsrl", 6),
    ("dcmphgbfyw", 7),
    ("vkjxqz", 8),
    ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 9),
    ("\"'`", 10),
    ("()[]{}<>", 11),
    ("-_", 12),
    (".,:;", 13),
    ("/\\=", 14),
    default=15,
)

_SCRIPTS = _classes(
    (range(0x80, 0x90), 1),  # continuation bytes by their upper bits
    (range(0x90, 0xA0), 2),
    (range(0xA0, 0xB0), 3),
    (range(0xB0, 0xC0), 4),
    (range(0xC0, 0xCC), 5),  # Latin with accents
    (range(0xCC, 0xD0), 6),  # combining marks, Greek
    (range(0xD0, 0xD2), 7),  # Cyrillic
    (range(0xD2, 0xD8), 6),  # Armenian, Hebrew
    (range(0xD8, 0xE0), 8),  # Arabic
    ([0xE0], 9),  # India, Thai, Lao
    ([0xE1], 10),  # Georgian, Ethiopic, Khmer, Vietnamese
    ([0xE2], 11),  # punctuation, symbols, lines
    ([0xE3], 12),  # kana
    (range(0xE4, 0xEA), 13),  # Han
    (range(0xEA, 0xEE), 14),  # Hangul
    (range(0xEE, 0xF0), 12),  # full width
    (range(0xF0, 0x100), 15),  # emoji
    default=0,
)


class ByteClassCounter:
    """Estimates the tokens of a text for one family: `claude_old`, `claude`, `gpt` or `other` (errs upward)."""

    __slots__ = ("_weights", "name")

    def __init__(self, family: str = "other") -> None:
        if family not in WEIGHTS:
            raise ValueError(f"unknown family {family!r}: one of {', '.join(WEIGHTS)}")
        self.name = family
        self._weights = WEIGHTS[family]

    def __repr__(self) -> str:
        return f"ByteClassCounter({self.name!r})"

    def count(self, text: str) -> int:
        """Tokens of the text, at least 1 unless it is empty. Lone surrogates count as what they are encoded as."""
        if not text:
            return 0
        data = text.encode("utf-8", "surrogatepass")
        if len(data) <= _CHUNK_BYTES:
            return max(1, round(_estimate(data, self._weights)))
        chunks = (data[at : at + _CHUNK_BYTES] for at in range(0, len(data), _CHUNK_BYTES))
        return max(1, round(sum(_estimate(chunk, self._weights) for chunk in chunks)))


_INDIC = _classes(
    ([0xE0], 1),
    *((range(second, second + 2), (second - 0xA4) // 2 + 2) for second in range(0xA4, 0xC0, 2)),
    default=0,
)
"""Behind 0xE0 the second byte tells the script: 0xA4 and 0xA5 are Devanagari, 0xB8 and 0xB9 Thai, and so on."""


def _estimate(data: bytes, weights: Weights) -> float:
    tokens = 0.0
    if len(data) >= RUN_BYTES and _may_have_runs(data):
        data, tokens = _without_runs(data, weights)
    size = len(data)
    classes = int.from_bytes(data.translate(_ASCII), "little")
    total = _sum(classes | classes >> 4, size, weights.pairs) + _sum(classes | classes >> 12, size, weights.skips)
    if not data.isascii():
        classes = int.from_bytes(data.translate(_SCRIPTS), "little")
        total += _sum(classes | classes >> 4, size, weights.scripts)
        total += _exceptions(data, weights)
    return tokens + total / UNITS


def _exceptions(data: bytes, weights: Weights) -> int:
    """What pairs of lead byte classes can't tell: the scripts of India, and single common sequences."""
    rare = data.translate(None, _ASCII_BYTES)
    total = 0
    if indic := rare.count(b"\xe0"):
        classes = int.from_bytes(rare.translate(_INDIC), "little")
        total = _sum(classes | classes >> 4, len(rare), weights.indic) - INDIC_BIAS * indic
    for (lead, patterns), group in zip(PATTERNS.items(), weights.patterns, strict=True):
        if lead in rare:
            total += sum(rare.count(pattern) * weight for pattern, weight in zip(patterns, group, strict=True))
    return total


_ASCII_BYTES = bytes(range(0x80))


def _sum(codes: int, size: int, table: bytes | None = None) -> int:
    """The sum of the bytes of a little-endian number, each replaced by its entry in the table.

    The lower half of Adler-32 is the sum of the bytes modulo 65521: exact for pieces whose sum stays below, at an
    eighth of the time of `sum(bytes)`.
    """
    data = codes.to_bytes(size, "little").translate(table)
    step = _exact_bytes(table)
    total = 0
    for at in range(0, size, step):
        total += adler32(data[at : at + step], 0) & 0xFFFF
    return total


@cache
def _exact_bytes(table: bytes | None) -> int:
    return 65_520 // max(table or b"\xff")


def _may_have_runs(data: bytes) -> bool:
    """False when no run is long enough: one of 32 bytes shows as three equal neighbours among every eighth byte."""
    eighth = data[::8]
    number = int.from_bytes(eighth, "little")
    return b"\0\0\0" in (number ^ number >> 8).to_bytes(len(eighth), "little")


def _without_runs(data: bytes, weights: Weights) -> tuple[bytes, float]:
    """The text with long runs of one character reduced to that character, and what the rest of them weighs.

    A byte that equals its neighbour leaves a zero in `number ^ number >> 8`.
    """
    number = int.from_bytes(data, "little")
    same = (number ^ number >> 8).to_bytes(len(data), "little")
    if _RUN_MARK not in same:
        return data, 0.0
    kept, tokens, last = [], 0.0, 0
    for run in _RUN.finditer(same):
        start, end = run.span()
        kept.append(data[last : start + 1])
        last = end + 1
        tokens += weights.run_start + (last - start) * weights.runs[data[start] & 0x7F]
    kept.append(data[last:])
    return b"".join(kept), tokens / RUN_UNITS
