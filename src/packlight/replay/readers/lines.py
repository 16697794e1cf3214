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

_BLANKS = b"\0 \t\r\n\xef\xbb\xbf"
_NEXT_ON_LINE = re.compile(r'\{"(?:type|role|parentUuid|timestamp)"')
"""How records begin that are worth looking for behind a broken piece."""
_NEXT_IN_TEXT = re.compile(r"\n\{")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse)


def read_records(source: bytes, notes: Notes) -> tuple[list[dict[str, Any]], InvalidRequest | None]:
    """Every object that can be read, in order; what can't be is noted.

    The error is that of a file that should be one JSON value and is not quite one, or of a log whose first line is
    broken: which of them is for the reader to tell. Raises it when there is no object at all.
    """
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
    first, _, rest = source.lstrip(_BLANKS).partition(b"\n")
    return bool(rest.strip()) and _begins_with_object(first.decode("utf-8", "replace"))


def _begins_with_object(text: str) -> bool:
    try:
        return text.startswith("{") and isinstance(_DECODER.raw_decode(text)[0], dict)
    except (ValueError, RecursionError):
        return False


def _concatenated(source: bytes, notes: Notes) -> list[dict[str, Any]]:
    """Objects one behind the other, over as many lines as they like; none when the first one is not whole."""
    text = source.lstrip(_BLANKS).decode("utf-8", "replace")
    if not _begins_with_object(text):
        return []
    values, broken = _values(text, _NEXT_IN_TEXT, notes)
    for at in broken:
        notes.add(f"broken record (line {text.count(chr(10), 0, at) + 1:,})")
    if len(values) == 1:
        notes.add("file that is not quite JSON (raw control characters, invalid UTF-8, something behind its end)")
    return [v for v in values if _is_record(v, notes)]


def _of_lines(source: bytes, notes: Notes) -> list[dict[str, Any]]:
    records = []
    for number, raw in enumerate(source.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        line = raw.strip(b"\0 \t\r")
        if line:
            records += [r for r in _line(line, number, notes) if _is_record(r, notes)]
    return records


def _is_record(value: Any, notes: Notes) -> bool:
    if not isinstance(value, dict):
        notes.add("value that is no record skipped")
    return isinstance(value, dict)


def _line(line: bytes, number: int, notes: Notes) -> list[Any]:
    try:
        return [jsonio.load(line)]
    except InvalidRequest:
        values, broken = _values(line.decode("utf-8", "replace"), _NEXT_ON_LINE, notes)
    if broken:
        notes.add(f"broken record (line {number:,})")
    elif len(values) > 1:
        notes.add(f"line with {len(values)} records on it (line {number:,})")
    elif values:
        notes.add("record that is not quite JSON (raw control characters, invalid UTF-8)")
    return values


def _values(text: str, next_start: re.Pattern[str], notes: Notes) -> tuple[list[Any], list[int]]:
    """The values of a text that is not one JSON value, and the places where something is broken."""
    is_deep = _is_too_deep(text)
    values: list[Any] = []
    broken: list[int] = []
    at = 0
    while at < len(text):
        if text[at] in " \t\r\n\0,":
            at += 1
            continue
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            broken.append(at)
            found = next_start.search(text, at + 1)
            at = found.start() if found else len(text)
            continue
        if is_deep and _is_too_deep(text[at:end]):
            notes.add(f"record nested deeper than {jsonio.MAX_LEVELS:,} levels skipped")
        else:
            values.append(value)
        at = end
    return values, broken


def _is_too_deep(text: str) -> bool:
    return jsonio.levels(text.encode("utf-8", "replace")) > jsonio.MAX_LEVELS
