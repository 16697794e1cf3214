"""Readers for recorded sessions: one module for each kind of file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from ...errors import UnknownFormat
from ...formats import FORMATS
from ...types import Json
from ..session import Notes, Session
from . import (
    agent,
    atif,
    claude_code,
    cline,
    codex,
    copilot,
    gemini,
    gemini_cli,
    inspect_ai,
    kimi,
    langchain,
    messages,
    mini_swe_agent,
    opencode,
    openhands,
    openhands_sdk,
    pi,
    screen,
    smolagents,
    swe_agent,
    swe_agent_calls,
    tau2,
    trace,
)
from .lines import read_records

__all__ = ["FORMAT_NAMES", "Reader", "find_files", "read_sessions"]


class Reader(Protocol):
    """Reads one kind of file: a module, or anything else with these two functions.

    `records` is the same for every way to write a file: the lines of a JSONL file, objects one behind the other, the
    elements of a list, or the one object that the file is.
    """

    def recognise(self, records: list[dict[str, Json]]) -> bool:
        """True when these are of its kind. It gets anything, and never raises."""
        ...

    def read(self, records: list[dict[str, Json]], *, name: str, notes: Notes) -> list[Session]:
        """What the model saw, call by call. `name` may be empty. Raises InvalidRequest with one line when these
        records can't be read; anything less goes into the notes."""
        ...


_READERS: dict[str, Reader] = {
    "trace": trace,
    "agent": agent,
    "codex": codex,
    "claude-code": claude_code,
    "pi": pi,
    "copilot": copilot,
    "kimi": kimi,
    "opencode": opencode,
    "gemini-cli": gemini_cli,
    "gemini": gemini,
    "langchain": langchain,
    "openhands": openhands,
    "openhands-sdk": openhands_sdk,
    "swe-agent": swe_agent,
    "swe-agent-calls": swe_agent_calls,
    "mini-swe-agent": mini_swe_agent,
    "atif": atif,
    "inspect-ai": inspect_ai,
    "smolagents": smolagents,
    "cline": cline,
    "tau2": tau2,
    "screen": screen,
    "messages": messages,
}
"""In the order in which they are asked: the most specific first, plain messages last."""
FORMAT_NAMES = (*_READERS, *FORMATS)
"""What may be named; readers that other packages add under `packlight.readers` come on top."""
_SUFFIXES = (".jsonl", ".json", ".traj")


def read_sessions(source: str | os.PathLike[str] | bytes, *, format: str | None = None) -> list[Session]:
    """The sessions of a file, or of its bytes.

    `format` is one of `FORMAT_NAMES` where it can't be told. Broken lines and unknown records stand in the notes of
    the session. Raises InvalidRequest with one line when nothing can be read, OSError when the file can't.
    """
    if isinstance(source, bytes):
        return _read(source, "", format)
    path = Path(source)
    sessions = _read(path.read_bytes(), path.stem, format)
    for session in sessions:
        session.path = str(path)
    return sessions


def find_files(path: str | os.PathLike[str]) -> list[Path]:
    """The files under a folder that could hold sessions, by name; the path itself when it is no folder.

    Links to folders are not followed; what can't be looked into is left out.
    """
    root = Path(path)
    if not root.is_dir():
        return [root]
    found = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
    return sorted(Path(p) for p in found if p.endswith(_SUFFIXES) and os.path.isfile(p))


def _read(source: bytes, name: str, format: str | None) -> list[Session]:
    reader = _named(format) if format else None
    notes = Notes()
    records, problem = read_records(source, notes)
    reader = reader or _reader_of(records, notes)
    if reader is not messages:
        return reader.read(records, name=name, notes=notes)
    if problem:
        raise problem
    return messages.read(records, name=name, notes=notes, format=format if format in FORMATS else None)


def _named(format: str) -> Reader:
    if format in FORMATS:
        return messages
    added = {} if format in _READERS else _added(Notes())
    try:
        return {**_READERS, **added}[format]
    except KeyError:
        raise UnknownFormat(f"unknown format {format!r}: one of {', '.join((*FORMAT_NAMES, *added))}") from None


def _reader_of(records: list[dict[str, Json]], notes: Notes) -> Reader:
    """Whose records these are. What none knows is left to `messages`, which says what is wrong with it."""
    known = next((r for r in _READERS.values() if records and r.recognise(records)), messages)
    if known is not messages:
        return known
    return next((r for r in _added(notes).values() if records and r.recognise(records)), messages)


def _added(notes: Notes) -> dict[str, Reader]:
    """Those of other packages. They are looked for only when none of ours knows the records: to find packages takes
    longer than to read most files."""
    from .added import readers

    found, problems = readers()
    for problem in problems:
        notes.add(problem)
    return found
