"""The conversation on disk: one JSON record a line, written before it is sent, whole again after any crash.

Records: `session` (the first: folder, API, model, what every request holds beside its messages), `message`, and
`usage` (of the request that all messages before it made). `packlight replay` reads them.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from .. import jsonio
from ..errors import AgentError
from ..formats import format_named, read_message
from ..replay.readers.agent import VERSION, begins, messages_in
from ..replay.readers.lines import read_records
from ..replay.session import Notes
from ..store import state_folder
from ..types import FormatName, Json
from ..view import pair
from .apis import Call

try:
    import fcntl
except ImportError as error:
    raise AgentError("packlight agent needs Linux or macOS") from error

_NAME_CHARS = 40


def sessions_folder(folder: Path) -> Path:
    """Where the sessions of a working folder are kept: private, in the user's state folder."""
    mark = sha256(os.fsencode(folder)).hexdigest()[:8]
    return state_folder() / "sessions" / f"{folder.name[:_NAME_CHARS] or 'root'}-{mark}"


def newest_session(folder: Path) -> Path:
    """Raises AgentError when the working folder has none."""
    found = sorted(sessions_folder(folder).glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise AgentError(f"{folder}: there is no session to continue")
    return found[-1]


class Session:
    """A conversation and its file. While one process has it open, no other can.

    `ID.jsonl` is the file; the folder `ID` beside it holds the store, long outputs and the sessions of sub-agents.
    A disk that takes nothing does not stop the agent: `trouble` says so, and what waits is written when it can be.
    """

    def __init__(self, path: Path, about: Mapping[str, Json], messages: Sequence[Json] = ()) -> None:
        self.path = path
        self.about = dict(about)
        self.messages: list[Json] = list(messages)
        self.trouble: OSError | None = None
        self._waiting = b""
        self._file = _opened(path)
        self._size = os.fstat(self._file).st_size

    @classmethod
    def new(cls, folder: Path, about: Mapping[str, Json]) -> Session:
        """A session in this folder of sessions. `about` holds folder, format, model and head."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{secrets.token_hex(3)}"
        record = {"type": "session", "version": VERSION, "id": name, **about}
        session = cls(folder / f"{name}.jsonl", record)
        session._append(record)
        return session

    @classmethod
    def load(cls, path: Path) -> Session:
        """A session as its file has it, without a line that a crash cut. Raises AgentError for another kind of file."""
        try:
            records, _ = read_records(path.read_bytes(), Notes())
        except OSError as error:
            raise AgentError(f"{path}: {error.strerror}") from None
        if not records or not begins(records[0]) or not isinstance(records[0].get("head"), dict):
            raise AgentError(f"{path}: is no session of packlight agent")
        return cls(path, records[0], messages_in(records))

    @property
    def id(self) -> str:
        return str(self.about["id"])

    @property
    def format(self) -> FormatName:
        name: FormatName = self.about["format"]
        return name

    @property
    def head(self) -> dict[str, Json]:
        head: dict[str, Json] = self.about["head"]
        return head

    @property
    def folder(self) -> Path:
        """For what belongs to it."""
        return self.path.with_suffix("")

    def add(self, messages: Sequence[Json]) -> None:
        for message in messages:
            self.messages.append(message)
            self._append({"type": "message", "seconds": round(time.time(), 3), "message": message})

    def used(self, usage: Mapping[str, Json], *, is_packed: bool) -> None:
        """What the provider counted for a request of all messages so far; `is_packed`: with edits in it."""
        record = {"type": "usage", "seconds": round(time.time(), 3), "usage": dict(usage), "packed": is_packed}
        self._append(record)

    def open_calls(self) -> list[Call]:
        """Calls that were not answered: a crash or an interrupt came between."""
        fmt = format_named(self.format)
        messages = [read_message(fmt, data, lambda _: 0) for data in self.messages]
        parts = [messages[i].parts[k] for i, k in pair(messages).unanswered]
        return [Call(part.call_id, part.tool, part.arguments_text) for part in parts]

    def _append(self, record: Json) -> None:
        self._waiting += jsonio.dump(record) + b"\n"
        data = memoryview(self._waiting)
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self.trouble = error
            with suppress(OSError):
                os.ftruncate(self._file, self._size)  # no half record
            return
        self._size += len(self._waiting)
        self._waiting, self.trouble = b"", None

    def close(self) -> None:
        os.close(self._file)


def _opened(path: Path) -> int:
    """The file, for this process alone, at the beginning of a line. Raises AgentError."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise AgentError(f"{path}: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise AgentError(f"{path}: another agent is at work in this session") from None
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")  # what a crash cut stays a broken line of its own
    return file
