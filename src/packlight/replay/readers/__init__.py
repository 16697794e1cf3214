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
    wire = format if format in FORMATS else None
    if format not in _LINE_READERS and not _has_records(source):
        return messages.read_json(jsonio.load(source), name=name, notes=notes, format=wire)
    records = read_records(source, notes)
    if format in _LINE_READERS:
        return _LINE_READERS[format].read(records, name=name, notes=notes)
    for reader in _LINE_READERS.values():
        if wire is None and format != "messages" and reader.recognise(records):
            return reader.read(records, name=name, notes=notes)
    if messages.recognise_lines(records):
        return messages.read_lines(records, name=name, notes=notes)
    if not records:
        jsonio.load(source)  # says what is wrong with it
    raise UnknownFormat(f"this is no session that can be read: {len(records):,} JSON records of an unknown kind")


def _has_records(source: bytes) -> bool:
    """True when this is one record a line, not one JSON value."""
    lines = [line for line in source[: 1 << 22].split(b"\n", 40) if line.strip(b"\0 \t\r")]
    if len(lines) < 2 and source.count(b"\n", 0, -1) == 0 and not _is_record(source):
        return False
    return any(_is_record(line) for line in lines[:40])


def _is_record(line: bytes) -> bool:
    try:
        value = jsonio.load(line)
    except InvalidRequest:
        return False
    return isinstance(value, dict) and bool({"type", "role", "payload", "record_type"} & value.keys())
