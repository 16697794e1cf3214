"""The JSON objects of a file, however they are written: one a line, one behind the other, in a list, or just one.

Agents' files are cut, glued, padded, in part not UTF-8: what can be read is read, the rest is noted.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from ... import jsonio
from ...errors import InvalidRequest
from ..session import Notes

_MOST_IN_VAIN_CHARS = 16_000_000
_MOST_IN_VAIN = 2
"""How many characters, and how often the length of the text, are parsed for nothing before the text is given up: what
is nested wrongly again and again would take the square of it."""
_RECURSION_CHARS = 10_000
"""What is parsed, about, before the parser meets the interpreter's recursion limit."""
_WINDOW_CHARS = 4_096
_CUT_CHARS = 16
"""An error this close to the end of a window can come of the window's end."""
_BLANKS = b"\0 \t\r\n\xef\xbb\xbf"
_NEXT_ON_LINE = re.compile(r'\{"(?:type|role|parentUuid|timestamp)"')
"""How records begin that are worth looking for behind a broken piece."""
_PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_SOMETHING = re.compile(rb"\S")
_NEXT_IN_TEXT = re.compile(r"\n\{")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse)


def read_records(source: bytes, notes: Notes) -> tuple[list[dict[str, Any]], InvalidRequest | None]:
    """Every object that can be read, in order; what can't be is noted.

    The error is that of a file that should be one JSON value and is not quite one, or of a log whose first line is
    broken: which of them is for the reader to tell. Raises it when there is no object at all.
    """
    packed = next((kind for magic, kind in _PACKED.items() if source.startswith(magic)), None)
    if packed:
        raise InvalidRequest(f"the file is compressed ({packed}): unpack it first")
    if _first_line_is_record(source):
        return _of_lines(source, notes), None
    try:
        value = jsonio.load(source)
    except InvalidRequest as error:
        records = _concatenated(source, notes)
        if len(records) > 1:
            return records, None
        records = records or _of_lines(source, notes)
        if not records:
            raise
        return records, error
    values = value if isinstance(value, list) else [value]
    records = [v for v in values if _is_record(v, notes)]
    if values and not records:
        raise InvalidRequest(f"a session is made of objects, not of {type(values[0]).__name__}")
    return records, None


def kind_of(record: dict[str, Any]) -> str:
    """The `type` of a record or block; empty when it has none."""
    kind = record.get("type")
    return kind if isinstance(kind, str) else ""


def _first_line_is_record(source: bytes) -> bool:
    start = len(source) - len(source.lstrip(_BLANKS))
    end = source.find(b"\n", start)
    more = end >= 0 and _SOMETHING.search(source, end)
    return bool(more) and _begins_with_object(source[start:end].decode("utf-8", "replace"))


def _begins_with_object(text: str) -> bool:
    try:
        return text.startswith("{") and isinstance(_value_at(text, 0)[0], dict)
    except _Broken:
        return False


def _concatenated(source: bytes, notes: Notes) -> list[dict[str, Any]]:
    """Objects one behind the other, over as many lines as they like; none when the first one is not whole."""
    text = source.lstrip(_BLANKS).decode("utf-8", "replace")
    if not _begins_with_object(text):
        return []
    values, broken = _values(text, _NEXT_IN_TEXT, notes)
    if broken:
        _note_lines(notes, "broken record", [text.count("\n", 0, broken[0]) + 1, *broken[1:]])
    if len(values) == 1:
        notes.add("file that is not quite JSON (raw control characters, invalid UTF-8, something behind its end)")
    return [v for v in values if _is_record(v, notes)]


def _of_lines(source: bytes, notes: Notes) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    broken: list[int] = []
    glued: list[int] = []
    for number, raw in enumerate(_LINE.finditer(source.removeprefix(b"\xef\xbb\xbf")), start=1):
        line = raw[0].strip(b"\0 \t\r\n")
        if not line:
            continue
        try:
            values = [jsonio.load(line)]
        except InvalidRequest:
            values, places = _values(line.decode("utf-8", "replace"), _NEXT_ON_LINE, notes)
            if places:
                broken.append(number)
            elif len(values) > 1:
                glued.append(number)
            elif values:
                notes.add("record that is not quite JSON (raw control characters, invalid UTF-8)")
        records += [v for v in values if _is_record(v, notes)]
    _note_lines(notes, "broken record", broken)
    _note_lines(notes, "line with more than one record on it", glued)
    return records


def _note_lines(notes: Notes, what: str, lines: list[int]) -> None:
    if lines:
        notes.add(f"{what} ({'first on ' if len(lines) > 1 else ''}line {lines[0]:,})", len(lines))


def _is_record(value: Any, notes: Notes) -> bool:
    if not isinstance(value, dict):
        notes.add("value that is no record skipped")
    return isinstance(value, dict)


def _values(text: str, next_start: re.Pattern[str], notes: Notes) -> tuple[list[Any], list[int]]:
    """The values of a text that is not one JSON value, and the places where something is broken."""
    is_deep = _is_too_deep(text)
    values: list[Any] = []
    broken: list[int] = []
    at = in_vain = 0
    most_in_vain = max(_MOST_IN_VAIN_CHARS, _MOST_IN_VAIN * len(text))
    while at < len(text) and in_vain <= most_in_vain:
        if text[at] in " \t\r\n\0,":
            at += 1
            continue
        try:
            value, end = _value_at(text, at)
        except _Broken as error:
            broken.append(at)
            in_vain += error.chars
            found = next_start.search(text, at + 1)
            at = found.start() if found else len(text)
            continue
        if is_deep and _is_too_deep(text[at:end]):
            notes.add(f"record nested deeper than {jsonio.MAX_LEVELS:,} levels skipped")
        else:
            values.append(value)
        at = end
    notes.add("rest that is too broken to look for records in it", at < len(text))
    return values, broken


class _Broken(Exception):
    """No value begins here; `chars` were read to find out."""

    def __init__(self, chars: int) -> None:
        super().__init__()
        self.chars = chars


def _value_at(text: str, at: int) -> tuple[Any, int]:
    """The value that begins here, and its end. It is read in a window that grows: an error of the parser takes as
    long as all the text before it that the parser was given."""
    size = _WINDOW_CHARS
    while True:
        window = text[at : at + size]
        is_all = at + size >= len(text)
        try:
            value, end = _DECODER.raw_decode(window)
        except json.JSONDecodeError as error:
            is_cut = error.pos >= len(window) - _CUT_CHARS or error.msg.startswith("Unterminated string")
            if is_all or not is_cut:
                raise _Broken(len(window) if is_cut else error.pos) from None
        except (ValueError, RecursionError):
            raise _Broken(_RECURSION_CHARS) from None
        else:
            if is_all or end < len(window):
                return value, at + end
        size *= 2


def _is_too_deep(text: str) -> bool:
    return jsonio.levels(text.encode("utf-8", "replace")) > jsonio.MAX_LEVELS
