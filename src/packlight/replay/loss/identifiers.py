"""Names in a text that mean one thing only: paths, files, symbols, numbers, ids.

A path is found again however much of its beginning is written: `src/a.py` is seen where `/repo/src/a.py` stands, and
the other way round while a folder is written with it (a bare `a.py` does not tell where it is). A dotted name counts
by its parts: `self.store.read_file` and `read_file` are the same to whoever reads. The numbers in front of a listing's
lines are no names: they hold every number there is. Names are ASCII: in Chinese text one stands without spaces.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from functools import lru_cache

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@~-]*")
_LISTING = re.compile(r"^ *\d{1,7}[→\t]", re.MULTILINE)
_ESCAPE = re.compile(r"\\[ntr]")
"""Of a JSON or program text inside the text: `\\tread_file` holds no `tread_file`."""
_WINDOWS_PATH = re.compile(r"\b[A-Za-z]:(?:\\{1,2}[\w.@~+-]+)+")

_FILE = re.compile(
    r"[\w@~-][\w@~.-]*\.(?:py|pyi|ts|tsx|js|jsx|mjs|cjs|go|rs|java|kt|kts|swift|rb|php|c|h|cc|cpp|hpp|cs|fs|scala|lua"
    r"|sh|bash|zsh|ps1|bat|md|mdx|rst|txt|jsonl?|json5|ya?ml|toml|ini|cfg|mod|sum|xml|html?|css|scss|less|svg|png|jpe?g"
    r"|gif|ico|pdf|csv|tsv|sql|sqlite|proto|graphql|vue|svelte|astro|ipynb|gz|wasm|gradle|dockerfile)",
    re.IGNORECASE,
)
"""A name with an ending that attributes of objects seldom have (`console.log`, `process.env`)."""
_NUMBER = re.compile(r"v?(\d[\d.-]*)")
_SNAKE = re.compile(r"_*[A-Za-z0-9]\w*_\w*|_+[A-Za-z]\w+")
_CAMEL = re.compile(r"\w*(?:[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2})\w*")
_MAX_CHARS, _MAX_PATH_CHARS = 120, 250
"""Longer words are data."""


def identifiers(text: str) -> frozenset[str]:
    """The names in a text."""
    if ":\\" in text:
        text = _WINDOWS_PATH.sub(lambda m: m[0].replace("\\\\", "/").replace("\\", "/"), text)
    if "\\" in text:
        text = _ESCAPE.sub(" ", text)
    if "→" in text or "\t" in text:
        text = _LISTING.sub("", text)
    return frozenset(name for word in set(_WORD.findall(text)) for name in _names(word))


@lru_cache(maxsize=1 << 18)
def _names(word: str) -> tuple[str, ...]:
    word = word.strip("./@~-")
    if len(word) < 3 or len(word) > _MAX_PATH_CHARS:
        return ()
    if "/" in word:
        parts = [p for p in word.split("/") if p not in ("", ".", "..")]
        if _is_path(parts):
            return ("/".join(parts),)
        return tuple(name for part in parts for name in _names(part))
    if len(word) > _MAX_CHARS:
        return ()
    if number := _NUMBER.fullmatch(word):
        return (number[1],) if sum(map(str.isdigit, word)) >= 3 else ()
    if _FILE.fullmatch(word) or _is_address(word):
        return (word,)
    if "." in word:
        return tuple(name for part in word.split(".") for name in _names(part))
    return (word,) if _is_symbol(word) else ()


def _is_path(parts: list[str]) -> bool:
    """Not `and/or`, `I/O` or a date."""
    if len(parts) < 2 or all(not any(map(str.isalpha, p)) for p in parts):
        return False
    return len(parts) > 2 or _FILE.fullmatch(parts[-1]) is not None or any(map(_is_symbol, parts))


def _is_address(word: str) -> bool:
    before, at, behind = word.partition("@")
    return bool(at and before and any(map(str.isalnum, behind)))


def _is_symbol(word: str) -> bool:
    if "-" in word:
        parts = word.split("-")
        return len(word) >= 8 and (len(parts) > 2 or any(map(str.isdigit, word)) or any(map(_is_symbol, parts)))
    if len(word) >= 6 and any(map(str.isdigit, word)) and any(map(str.isalpha, word)):
        return True
    if "_" in word:
        return len(word) >= 4 and _SNAKE.fullmatch(word) is not None
    return len(word) >= 5 and _CAMEL.fullmatch(word) is not None


# ---- finding a name again


@lru_cache(maxsize=1 << 18)
def keys_of(name: str) -> tuple[str, ...]:
    """What a name is filed under: itself, and `/tail` for each tail of a path."""
    return (name, *("/" + tail for tail in _tails(name)))


@lru_cache(maxsize=1 << 16)
def spellings(name: str) -> tuple[str, ...]:
    """The keys under which a name is found: written whole, as the tail of a path, or without its first folders."""
    return (name, "/" + name, *(tail for tail in _tails(name) if "/" in tail))


def _tails(name: str) -> Iterator[str]:
    at = name.find("/")
    while at >= 0:
        yield name[at + 1 :]
        at = name.find("/", at + 1)


def stands_in(name: str, keys: Container[str]) -> bool:
    """Whether a name stands among the keys of what is visible."""
    return any(key in keys for key in spellings(name))
