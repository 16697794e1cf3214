"""JSON records one per line, as agents really write them: cut, glued, padded, in part not UTF-8."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ... import jsonio
from ...errors import InvalidRequest
from ..session import Notes

_DECODER = json.JSONDecoder(strict=False)
_STARTS = ('{"type"', '{"role"', '{"parentUuid"', '{"timestamp"')
"""How records begin that are worth looking for behind a broken piece."""


def read_records(source: bytes, notes: Notes) -> list[dict[str, Any]]:
    """Every object that can be read, in order; what can't be is noted."""
    records = []
    for number, raw in enumerate(source.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        line = raw.strip(b"\0 \t\r")
        if line:
            records += [r for r in _line(line, number, notes) if _is_record(r, notes)]
    return records


def kind_of(record: dict[str, Any]) -> str:
    """The `type` of a record or block; empty when it has none."""
    kind = record.get("type")
    return kind if isinstance(kind, str) else ""


def _is_record(value: Any, notes: Notes) -> bool:
    if not isinstance(value, dict):
        notes.add("value that is no record skipped")
    return isinstance(value, dict)


def _line(line: bytes, number: int, notes: Notes) -> Iterator[Any]:
    try:
        yield jsonio.load(line)
    except InvalidRequest:
        if jsonio.levels(line) > jsonio.MAX_LEVELS:
            notes.add(f"record nested deeper than {jsonio.MAX_LEVELS:,} levels skipped")
            return
        yield from _pieces(line, number, notes)


def _pieces(line: bytes, number: int, notes: Notes) -> Iterator[Any]:
    """What can be read on a line that is not one JSON value."""
    text = line.decode("utf-8", "replace")
    at = read = 0
    broken = False
    while at < len(text):
        if text[at] in " \t\r\0,":
            at += 1
            continue
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            broken = True
            at = min((p for p in (text.find(s, at + 1) for s in _STARTS) if p > 0), default=len(text))
            continue
        read += 1
        yield value
    if broken:
        notes.add(f"broken record (line {number:,})")
    elif read > 1:
        notes.add(f"line with {read} records on it (line {number:,})")
    else:
        notes.add("record that is not quite JSON (raw control characters, invalid UTF-8)")
