"""Readers for recorded sessions: one module for each kind of file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from ... import jsonio
from ...errors import InvalidRequest, UnknownFormat
from ...formats import FORMATS
from ...types import Json
from ..session import Notes, Session
from . import claude_code, codex, messages
from .lines import read_records

__all__ = ["FORMAT_NAMES", "find_files", "read_sessions"]


class _LineReader(Protocol):
    def recognise(self, records: list[dict[str, Json]]) -> bool: ...
    def read(self, records: list[dict[str, Json]], *, name: str, notes: Notes) -> list[Session]: ...


_LINE_READERS: dict[str, _LineReader] = {"codex": codex, "claude-code": claude_code}
FORMAT_NAMES = (*_LINE_READERS, "messages", *FORMATS)
_SUFFIXES = (".jsonl", ".json")


def read_sessions(source: str | os.PathLike[str] | bytes, *, format: str | None = None) -> list[Session]:
    """The sessions of a file, or of its bytes.

    `format` is one of `FORMAT_NAMES` where it can't be told. Broken lines and unknown records stand in the notes of
    the session. Raises InvalidRequest with one line when nothing can be read, OSError when the file can't.
    """
    if format is not None and format not in FORMAT_NAMES:
        raise UnknownFormat(f"unknown format {format!r}: one of {', '.join(FORMAT_NAMES)}")
    if isinstance(source, bytes):
        return _read(source, "", format)
    path = Path(source)
    sessions = _read(path.read_bytes(), path.stem, format)
    for session in sessions:
        session.path = str(path)
    return sessions


def find_files(path: str | os.PathLike[str]) -> list[Path]:
    """The files under a folder that could hold sessions, by name; the path itself when it is no folder."""
    root = Path(path)
    if not root.is_dir():
        return [root]
    return sorted(p for p in root.rglob("*") if p.suffix in _SUFFIXES and p.is_file())


def _read(source: bytes, name: str, format: str | None) -> list[Session]:
    notes = Notes()
    if format in _LINE_READERS:
        return _LINE_READERS[format].read(read_records(source, notes), name=name, notes=notes)
    wire = format if format in FORMATS else None
    problem: InvalidRequest | None = None
    if _begins_with_record(source):
        records = read_records(source, notes)
    else:
        try:
            value = jsonio.load(source)
        except InvalidRequest as error:  # a log whose first line is broken, or a broken file
            problem, records = error, read_records(source, notes)
        else:
            records = [value] if isinstance(value, dict) else []
            if not _reader_of(records, format):
                return messages.read_json(value, name=name, notes=notes, format=wire)
    reader = _reader_of(records, format)
    if reader is None or (problem is not None and reader is messages):
        raise problem or UnknownFormat(f"no known kind of session: {len(records):,} JSON records")
    return reader.read(records, name=name, notes=notes)


def _reader_of(records: list[dict[str, Json]], format: str | None) -> _LineReader | None:
    """Whose records these are; a named format leaves only plain messages to choose."""
    readers = (messages,) if format else (*_LINE_READERS.values(), messages)
    return next((r for r in readers if records and r.recognise(records)), None)


def _begins_with_record(source: bytes) -> bool:
    """True when the first line is an object of its own, and more follow."""
    first, _, rest = source.lstrip(b"\0 \t\r\n\xef\xbb\xbf").partition(b"\n")
    if not first.startswith(b"{") or not rest.strip():
        return False
    try:
        return isinstance(jsonio.load(first), dict)
    except InvalidRequest:
        return False
