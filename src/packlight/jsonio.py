"""JSON that comes from outside, and goes out again with every value as it was.

`load` refuses what is not JSON with one clear line. It takes legal but odd JSON of any size: escaped lone
surrogates, integers of any length, numbers beyond a double (read as an infinity), a UTF-8 byte order mark,
nesting of up to 1,000 levels. `dump` writes what `load` gives: non-ASCII as it is, lone surrogates as escapes,
an infinity as the number `1e999` that reads as one.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import NoReturn

import msgspec

from .errors import InvalidRequest
from .types import Json

MAX_LEVELS = 1_000
_FAST_LEVELS = 300
"""Up to here the C parsers are used; deeper they could meet the interpreter's recursion limit."""
_SCAN_BYTES = 1 << 18
_INT_DIGITS = 4_000
"""Python refuses to read or print longer integers at once (`sys.get_int_max_str_digits`)."""

_BRACKETS = bytes(c for c in range(256) if c not in b"[]{}")
_CONTROL = bytes(c for c in range(32) if c not in b"\t\n\r\f\x1b\b")
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)', re.DOTALL)
_WORDS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_NOTHING: Json = object()
_Stack = list[tuple[list[Json] | dict[str, Json], Json]]
"""Containers being read, each with the key that its next value gets."""


def _escape_surrogates(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    escaped = "".join(f"\\u{ord(c):04x}" for c in error.object[error.start : error.end])
    return escaped, error.end


codecs.register_error("packlight.json", _escape_surrogates)


def load(source: bytes) -> Json:
    """Read one JSON value. Raises `InvalidRequest` with one line that says what is wrong and where."""
    text = _decode(source)
    if levels(source) > _FAST_LEVELS:
        return _load_text(text, deep=True)
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError):  # lone surrogates, 1e400, long integers; or really broken
        return _load_text(text, deep=False)


def dump(value: Json, *, indent: int | None = None) -> bytes:
    """Write a JSON value as UTF-8: compact, or indented. Raises ValueError for NaN and for cycles."""
    separators = (",", ":") if indent is None else (",", ": ")
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=separators, indent=indent)
    except (RecursionError, ValueError):  # nested too deep for it; an infinity or a very long integer
        text = _Writer(indent).text(value)
    return text.encode("utf-8", "packlight.json")


def levels(source: bytes) -> int:
    """How deep JSON is nested, without parsing it: right for valid JSON, a guess otherwise; at most a bit too many
    where that is already more than is taken."""
    if source.count(b"[") + source.count(b"{") <= _FAST_LEVELS:
        return min(_FAST_LEVELS, len(source))
    level = deepest = start = 0
    in_string = False
    while start < len(source) and deepest <= MAX_LEVELS:
        end = start + _SCAN_BYTES
        while source[end - 1 : end] == b"\\":  # do not cut an escape in two
            end += 1
        pieces = source[start:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        brackets = b"".join(pieces[in_string::2]).translate(None, _BRACKETS)
        reached = list(accumulate(map(_STEP.__getitem__, brackets), initial=level))
        level, deepest = reached[-1], max(deepest, *reached)
        in_string ^= len(pieces) % 2 == 0
        start = end
    return deepest


def _decode(source: bytes) -> str:
    if source.startswith((b"\xff\xfe", b"\xfe\xff")) or source[:4].count(0) in (2, 3):
        raise InvalidRequest("not JSON: the text is UTF-16 or UTF-32, JSON must be UTF-8")
    body = source.removeprefix(codecs.BOM_UTF8)
    if not body.strip(b" \t\r\n"):
        raise InvalidRequest("not JSON: the input is empty")
    if _is_binary(body):
        raise InvalidRequest("not JSON: the input is binary")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            raise InvalidRequest("truncated JSON: it ends in the middle of a character") from None
        line = body.count(b"\n", 0, error.start) + 1
        raise InvalidRequest(f"not JSON: invalid UTF-8 at line {line}, byte {error.start}") from None
    if levels(body) > MAX_LEVELS:
        raise InvalidRequest(f"JSON nested deeper than {MAX_LEVELS:,} levels is refused")
    return text


def _is_binary(body: bytes) -> bool:
    head = body[:4096]
    control = len(head) - len(head.translate(None, _CONTROL))
    return b"\0" in head or control * 10 > len(head)


def _load_text(text: str, *, deep: bool) -> Json:
    try:
        if deep:
            return _parse(text)
        return json.loads(text, parse_constant=_refuse_constant, parse_int=_read_int)
    except json.JSONDecodeError as error:
        raise InvalidRequest(_explain(text, error)) from None
    except _NotANumber as error:
        found = next((m for m in _CONSTANT.finditer(text) if m[1]), None)
        position = found.start() if found else 0
        raise InvalidRequest(f"not JSON: {error} is no JSON number, {_place(text, position)}") from None


class _NotANumber(Exception):
    pass


def _refuse_constant(name: str) -> NoReturn:
    raise _NotANumber(name)


def _place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"line {line}, column {column}"


def _explain(text: str, error: json.JSONDecodeError) -> str:
    place = _place(text, error.pos)
    what = error.msg[:1].lower() + error.msg[1:]
    if error.msg.startswith("Unterminated string"):
        return f"truncated JSON: the string at {place} never ends"
    if error.pos >= len(text.rstrip()):
        return f"truncated JSON: it ends at {place}, {what}"
    if error.msg == "Extra data":
        return f"not JSON: a second value begins at {place}"
    return f"not JSON: {what}, {place}"


def _read_int(digits: str) -> int:
    if len(digits) <= _INT_DIGITS:
        return int(digits)
    if digits.startswith("-"):
        return -_read_int(digits[1:])
    low = len(digits) // 2
    shift: int = 10**low
    return _read_int(digits[:-low]) * shift + _read_int(digits[-low:])


def _show_int(value: int) -> str:
    value = int(value)  # not a subclass that prints itself
    if value < 0:
        return "-" + _show_int(-value)
    if value.bit_length() < 3 * _INT_DIGITS:
        return int.__repr__(value)
    low = value.bit_length() * 30_103 // 100_000 // 2
    high, rest = divmod(value, 10**low)
    return _show_int(high) + _show_int(rest).zfill(low)


def _show_float(value: float) -> str:
    if value != value:
        raise ValueError("NaN is no JSON number")
    if value in (float("inf"), float("-inf")):
        return "1e999" if value > 0 else "-1e999"
    return float.__repr__(value)


def _scalar_at(text: str, at: int) -> tuple[Json, int]:
    char = text[at : at + 1]
    if char == '"':
        string: tuple[str, int] = scanstring(text, at + 1, True)
        return string
    word, value = _WORDS.get(char, ("\0", None))
    if text.startswith(word, at):
        return value, at + len(word)
    number = _NUMBER.match(text, at)
    if number is None:
        if text.startswith(("NaN", "Infinity", "-Infinity"), at):
            raise _NotANumber(text[at : at + 9].strip(" ,]}\n"))
        raise json.JSONDecodeError("Expecting value", text, at)
    whole = number[1] is None and number[2] is None
    return (_read_int(number[0]) if whole else float(number[0])), number.end()


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _key_at(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
    key, at = scanstring(text, at + 1, True)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
    return key, _skip(text, at + 1)


def _parse(text: str) -> Json:
    """A parser without recursion, for the deep values."""
    stack: _Stack = []
    value, at = _open(text, _skip(text, 0), stack)
    while stack:
        if value is _NOTHING:
            value, at = _open(text, at, stack)
        else:
            value, at = _put(text, at, stack, value)
    at = _skip(text, at)
    if at != len(text):
        raise json.JSONDecodeError("Extra data", text, at)
    return value


def _open(text: str, at: int, stack: _Stack) -> tuple[Json, int]:
    """The value that starts here; `_NOTHING` when it is a container that now stands on the stack to be filled."""
    char = text[at : at + 1]
    if char not in ("[", "{"):
        return _scalar_at(text, at)
    inside = _skip(text, at + 1)
    value: Json = [] if char == "[" else {}
    if text[inside : inside + 1] == ("]" if char == "[" else "}"):
        return value, inside + 1
    key, inside = _key_at(text, inside) if char == "{" else (None, inside)
    stack.append((value, key))
    return _NOTHING, inside


def _put(text: str, at: int, stack: _Stack, value: Json) -> tuple[Json, int]:
    """Put a whole value into the open container: that container when it ends here, `_NOTHING` when more follows."""
    holder, key = stack.pop()
    is_map = isinstance(holder, dict)
    if isinstance(holder, dict):
        holder[key] = value
    else:
        holder.append(value)
    at = _skip(text, at)
    if text[at : at + 1] == ("}" if is_map else "]"):
        return holder, at + 1
    if text[at : at + 1] != ",":
        raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
    at = _skip(text, at + 1)
    key, at = _key_at(text, at) if is_map else (None, at)
    stack.append((holder, key))
    return _NOTHING, at


def _show_scalar(value: Json) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return _show_int(value)
    if isinstance(value, float):
        return _show_float(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


class _Writer:
    """A writer without recursion, for what the C encoder refuses."""

    def __init__(self, indent: int | None) -> None:
        self._indent = indent
        self._out: list[str] = []
        self._stack: list[tuple[Iterator[tuple[str, Json]], str, int]] = []
        """Of each open container: what is left of it, how it closes, its identity."""

    def text(self, value: Json) -> str:
        self._begin(value)
        while self._stack:
            rest, end, _ = self._stack[-1]
            lead, child = next(rest, (end, _NOTHING))
            self._out.append(lead)
            if child is _NOTHING:
                self._stack.pop()
            else:
                self._begin(child)
        return "".join(self._out)

    def _begin(self, value: Json) -> None:
        if not isinstance(value, (dict, list, tuple)):
            self._out.append(_show_scalar(value))
            return
        if len(self._stack) > MAX_LEVELS and any(open_id == id(value) for *_, open_id in self._stack):
            raise ValueError("Circular reference detected")
        marks = "{}" if isinstance(value, dict) else "[]"
        self._out.append(marks[0])
        closing = self._line(len(self._stack)) + marks[1] if value else marks[1]
        self._stack.append((self._members(value, len(self._stack) + 1), closing, id(value)))

    def _line(self, level: int) -> str:
        return "" if self._indent is None else "\n" + " " * (self._indent * level)

    def _members(self, value: dict[str, Json] | Sequence[Json], level: int) -> Iterator[tuple[str, Json]]:
        """Each child, and the text before it."""
        line, colon = self._line(level), ":" if self._indent is None else ": "
        pairs = value.items() if isinstance(value, dict) else ((None, child) for child in value)
        for index, (key, child) in enumerate(pairs):
            name = "" if key is None else _show_scalar(key) + colon
            yield ("," if index else "") + line + name, child
