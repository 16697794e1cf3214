"""The SQLite file of a store folder: opening it safely, its schema, and its errors in plain words.

One connection a process, guarded by a lock: SQLite has one writer at a time anyway, and a commit is short. The only
module, with its neighbours `folder` and `purge`, that imports sqlite3.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakSet

from ..errors import StoreError
from .files import DATABASE, check_folder, prepare_folder

BUSY_SECONDS = 30.0
_APPLICATION_ID = 0x7061636B  # "pack"
_WAL_LIMIT_BYTES = 16 * 1024 * 1024

# All strings of callers are stored as bytes: SQLite's TEXT can't hold a lone surrogate.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE conversations (
            id INTEGER PRIMARY KEY AUTOINCREMENT, owner BLOB NOT NULL, name BLOB NOT NULL,
            used_seconds REAL NOT NULL, indexed_to INTEGER NOT NULL DEFAULT 0, UNIQUE (owner, name))""",
        """CREATE TABLE batches (
            number INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE, parent BLOB,
            conversation INTEGER NOT NULL, key BLOB NOT NULL, key_index INTEGER NOT NULL, result BLOB NOT NULL,
            result_index INTEGER NOT NULL, packed INTEGER NOT NULL, body BLOB NOT NULL, originals BLOB NOT NULL,
            version INTEGER NOT NULL, created_seconds REAL NOT NULL)""",
        """CREATE TABLE blobs (
            id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, packed INTEGER NOT NULL, body BLOB NOT NULL)""",
        """CREATE TABLE documents (
            id INTEGER PRIMARY KEY AUTOINCREMENT, conversation INTEGER NOT NULL, hash BLOB NOT NULL,
            ref_chars INTEGER NOT NULL, kind BLOB NOT NULL, tool BLOB NOT NULL, path BLOB NOT NULL,
            call_id BLOB NOT NULL, ordinal INTEGER NOT NULL, UNIQUE (conversation, hash, kind, call_id, ordinal))""",
        """CREATE TABLE usage (
            owner BLOB NOT NULL, key BLOB NOT NULL, conversation INTEGER NOT NULL, value BLOB NOT NULL,
            PRIMARY KEY (owner, key)) WITHOUT ROWID""",
        "CREATE TABLE facts (key BLOB PRIMARY KEY, value BLOB NOT NULL, learned_seconds REAL NOT NULL) WITHOUT ROWID",
        "CREATE TABLE state (purges INTEGER NOT NULL)",
        "INSERT INTO state VALUES (0)",
    ),
    # Terms come cut and folded by `search`; this tokenizer takes whatever stands between blanks.
    ("CREATE VIRTUAL TABLE words USING fts5 (place, text, content='', tokenize='ascii')",),
)
"""What brings a store from each schema version to the next."""

_abandoned: list[sqlite3.Connection] = []
"""Connections that a forked process inherited, by a fork in the middle of their use: SQLite allows neither using nor
closing them there."""
_databases: WeakSet[Database] = WeakSet()
_forking: list[Database] = []
_one_fork = threading.Lock()


def _before_fork() -> None:
    """No connection goes over a fork: SQLite's own notes of its locks would, and the child would believe to hold them.

    Then it takes none (sqlite.org, "How To Corrupt", 2.6): what one of the two commits is lost, or the file damaged.
    """
    _one_fork.acquire()
    _forking[:] = list(_databases)
    for database in _forking:
        database.pause()


def _after_fork() -> None:
    while _forking:
        _forking.pop().resume()
    _one_fork.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


class Database:
    """The connection of this process to a folder's database. Nothing is made before the first `writing`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / DATABASE
        self.generation = 0
        """Grows with each connection: what was remembered about the file before may be wrong."""
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._durable: bool | None = None
        self._process = os.getpid()
        self._closed = False
        self._uses = 0
        """Blocks of the thread that holds the lock."""
        _databases.add(self)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """The connection, or None while there is no store yet."""
        with self._alone(), self._plain_errors():
            if not self._is_current() and not self._has_content():
                self._drop()
                yield None
            elif (connection := self._connected_or_none()) is not None:
                yield connection
            else:
                with contextlib.closing(self._open_read_only()) as connection:
                    self.generation += 1
                    yield connection

    @contextlib.contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction, undone by any exception. `durable`: once this ends it also survives a power failure."""
        with self._alone(), self._plain_errors():
            if not self._is_current():
                prepare_folder(self.folder)
            connection = self._connected()
            if durable is not self._durable:
                connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def filing(self) -> Iterator[None]:
        """For plain files beside the database: the folder is made ready, failures are told in plain words."""
        with self._alone(), self._plain_errors():
            if not self._is_current():
                prepare_folder(self.folder)
                self._connected()
            yield

    def wipe(self) -> None:
        """Rewrite the file without what was deleted, and empty the log, so that no byte of it remains."""
        with self._alone(), self._plain_errors():
            connection = self._connected()
            connection.execute("VACUUM")
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise StoreError(f"{self.folder}: purged, but another process reads on: purge again to wipe the bytes")

    def writable(self) -> bool:
        return os.access(self.folder, os.W_OK) and os.access(self.path, os.W_OK)

    def close(self) -> None:
        with self._alone(allow_closed=True), self._plain_errors():
            self._closed = True
            self._drop()

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None and self._process == os.getpid():
            with contextlib.suppress(sqlite3.Error):
                self._drop()

    @contextlib.contextmanager
    def _alone(self, *, allow_closed: bool = False) -> Iterator[None]:
        if self._process != os.getpid():
            if self._connection is not None:
                _abandoned.append(self._connection)
            self._connection = None
            self._lock = threading.RLock()
            self._process = os.getpid()
        with self._lock:
            if self._closed and not allow_closed:
                raise StoreError(f"{self.folder}: the store was closed")
            self._uses += 1
            try:
                yield
            finally:
                self._uses -= 1

    def pause(self) -> None:
        """Wait for what is under way in other threads, and hold all off until `resume`; without a connection."""
        self._lock.acquire()
        if not self._uses and self._process == os.getpid():
            with contextlib.suppress(sqlite3.Error):
                self._drop()

    def resume(self) -> None:
        self._lock.release()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _is_current(self) -> bool:
        """Whether the connection is to the file that stands there now, not to one that somebody deleted."""
        try:
            found = self.path.lstat()
        except OSError:
            return False
        return self._connection is not None and (found.st_dev, found.st_ino) == self._identity

    def _has_content(self) -> bool:
        try:
            return check_folder(self.folder) and self.path.stat().st_size > 0
        except FileNotFoundError:
            return False

    def _connected_or_none(self) -> sqlite3.Connection | None:
        """The connection; None where opening it needs something written and nothing can be (also on a full disk)."""
        if not self._is_current() and not self.writable():
            return None
        try:
            return self._connected()
        except sqlite3.OperationalError as error:
            if _code(error) in ("SQLITE_IOERR", "SQLITE_FULL", "SQLITE_READONLY", "SQLITE_CANTOPEN"):
                return None
            raise

    def _connected(self) -> sqlite3.Connection:
        if self._is_current() and self._connection is not None:
            return self._connection
        self._drop()
        connection = self._connect("mode=rw")
        try:
            # Deleted content is overwritten at once; the temporary copy that VACUUM makes must not reach another disk.
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
            if self._version(connection) < len(MIGRATIONS):
                self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        found = self.path.lstat()
        self._identity = (found.st_dev, found.st_ino)
        self._connection, self._durable = connection, None
        self.generation += 1
        return connection

    def _connect(self, how: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{how}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )

    def _open_read_only(self) -> sqlite3.Connection:
        """Try what a folder allows where nothing can be written: the log's index may be missing, then it is
        rebuilt in memory; and only a store without a log may be read as a plain file."""
        attempts = ["mode=ro", "mode=ro&vfs=unix-none"]
        log = self.path.with_name(f"{DATABASE}-wal")
        if not log.exists() or log.stat().st_size == 0:
            attempts = ["mode=ro", "immutable=1"]
        failure: sqlite3.Error | None = None
        for how in attempts:
            connection = self._connect(how)
            try:
                if "unix-none" in how:
                    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                version = self._version(connection)
            except sqlite3.Error as error:
                connection.close()
                failure = error
            except StoreError:
                connection.close()
                raise
            else:
                if version == len(MIGRATIONS):
                    return connection
                connection.close()
                raise StoreError(f"{self.folder}: an older store, and read-only, so it can't be brought up to date")
        assert failure is not None
        raise failure

    def _version(self, connection: sqlite3.Connection) -> int:
        """The schema's version. Raises `StoreError` when it is none of ours or too new."""
        version, application, tables = _read_together(
            connection, "PRAGMA user_version", "PRAGMA application_id", "SELECT count(*) FROM sqlite_master"
        )
        if application != _APPLICATION_ID and (version or tables):
            raise StoreError(f"{self.path}: is a database, but no packlight store")
        if version > len(MIGRATIONS):
            raise StoreError(
                f"{self.folder}: written by a newer packlight (schema {version}, this one knows {len(MIGRATIONS)})"
            )
        return version

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Bring the schema up to date. Switching to WAL does not wait for others by itself, hence the loop."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("BEGIN IMMEDIATE")
                for statement in (s for step in MIGRATIONS[self._version(connection) :] for s in step):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
                connection.execute("COMMIT")
                return
            except sqlite3.OperationalError as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if _code(error) not in ("SQLITE_BUSY", "SQLITE_LOCKED") or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @contextlib.contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.folder}: {_in_words(error)}") from error
        except zlib.error as error:
            raise StoreError(f"{self.folder}: the store is damaged ({error})") from error
        except OSError as error:
            raise StoreError(f"{self.folder}: {error.strerror or error}") from error


def _read_together(connection: sqlite3.Connection, *questions: str) -> tuple[int, ...]:
    """One number each, all from the same moment: another process may be making the store right now."""
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")
    try:
        return tuple(connection.execute(question).fetchone()[0] for question in questions)
    finally:
        if alone and connection.in_transaction:
            connection.execute("ROLLBACK")


_WORDS = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "the folder is read-only",
    "SQLITE_CANTOPEN": "the database can't be opened",
    "SQLITE_PERM": "no permission",
    "SQLITE_BUSY": f"another process has held the store for {BUSY_SECONDS:.0f} seconds",
    "SQLITE_LOCKED": "another process holds the store",
    "SQLITE_CORRUPT": "the store is damaged",
    "SQLITE_NOTADB": "the store is damaged: its file is no database",
    "SQLITE_IOERR": "the disk can't be read or written",
}


def _code(error: sqlite3.Error) -> str:
    """The primary result code: `SQLITE_IOERR` for `SQLITE_IOERR_WRITE`."""
    return "_".join(str(getattr(error, "sqlite_errorname", "")).split("_")[:2])


def _in_words(error: sqlite3.Error) -> str:
    detail = " ".join(str(error).split())
    words = _WORDS.get(_code(error))
    return f"{words} ({detail})" if words else detail
