"""The store in a folder: private, safe for several processes, and whole after any crash.

Batches, originals and documents share one SQLite file, so that one transaction covers them all. Only what an
agent's own tools shall read stands beside it as plain files.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from ..errors import NotFound, StoreError
from . import files
from .base import (
    REF_CHARS,
    BatchRow,
    Blob,
    Document,
    PurgeStats,
    bytes_of,
    check_put,
    choose,
    decode,
    encode,
    first_rival,
    path_matches,
    purge_cutoff_seconds,
    ref_prefix,
    text_hash,
    unclashed,
)
from .database import Database
from .purge import purge_rows, remove_orphans, transcript_hash
from .rows import (
    BATCH_COLUMNS,
    DOCUMENT_COLUMNS,
    DOCUMENT_TABLES,
    KnownBatches,
    batch_values,
    checked,
    hash_range,
    marks,
    pack,
    pieces,
    read_batch,
    read_document,
)
from .search import WordIndex, attempts, fts_query, snippet, terms

_INDEX_CHUNK_BYTES = 1_000_000
"""How much text is indexed in one transaction, so that others need not wait long."""
_SCOPE = "(SELECT id FROM conversations WHERE owner = :owner AND (:name IS NULL OR name = :name))"
_Scope = dict[str, bytes | None]
"""What `_SCOPE` is asked with."""


class FolderStore:
    """Keeps everything in one folder, which is made at the first thing put into it.

    The folder is 0700, its files 0600, and git ignores it. Use one object per folder and process; it may be shared
    between threads, and goes on working in a forked child. A folder that can't be written is still read.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()
        self._database = Database(self.folder)
        self._known = KnownBatches()

    def __repr__(self) -> str:
        return f"FolderStore({str(self.folder)!r})"

    # Batches and what they refer to.

    def put_batch(
        self,
        row: BatchRow,
        blobs: Mapping[str, Blob] | None = None,
        documents: Sequence[Document] = (),
        *,
        chain: Collection[bytes] = (),
    ) -> BatchRow:
        texts = check_put(row, blobs or {}, documents)
        content: dict[bytes, Callable[[], bytes]] = {
            bytes.fromhex(hash): partial(bytes_of, blob) for hash, blob in (blobs or {}).items()
        }
        content.update(
            (bytes.fromhex(hash), partial(encode, document.text))
            for (hash, _), document in zip(texts, documents, strict=True)
        )
        # Packed before the lock is taken: others wait for the write alone.
        packed = [(hash, *pack(data())) for hash, data in content.items()]
        packed_body = pack(row.body)
        with self._database.writing() as connection:
            self._known.refresh(connection, self._database.generation)
            if standing := self._read_batch(connection, row.id):
                return standing
            rivals = self._known.at_keys(connection, row.owner, {*chain, row.key})
            if rival := first_rival(row, rivals):
                return rival
            self._check_complete(connection, row, content)
            self._insert(connection, row, packed, packed_body, documents, [bytes.fromhex(hash) for hash, _ in texts])
        self._known.written()
        return row

    def _check_complete(self, connection: sqlite3.Connection, row: BatchRow, content: Mapping[bytes, object]) -> None:
        if row.parent is not None:
            found = connection.execute("SELECT 1 FROM batches WHERE id = ?", (encode(row.parent),)).fetchone()
            if found is None:
                raise StoreError(f"{self.folder}: the batch that this one builds on is not in the store")
        missing = list({bytes.fromhex(hash) for hash in row.originals} - content.keys())
        for some in pieces(missing):
            query = f"SELECT count(*) FROM blobs WHERE hash IN ({marks(some)})"
            if connection.execute(query, some).fetchone()[0] < len(some):
                raise StoreError(f"{self.folder}: an original that the batch refers to is not in the store")

    def _insert(
        self,
        connection: sqlite3.Connection,
        row: BatchRow,
        packed: Sequence[tuple[bytes, int, bytes]],
        packed_body: tuple[int, bytes],
        documents: Sequence[Document],
        hashes: Sequence[bytes],
    ) -> None:
        connection.executemany("INSERT OR IGNORE INTO blobs (hash, packed, body) VALUES (?, ?, ?)", packed)
        names = {row.conversation} | {document.conversation for document in documents}
        ids = {name: _conversation(connection, row.owner, name, row.created_seconds) for name in names}
        connection.executemany(
            "INSERT OR IGNORE INTO documents (conversation, hash, ref_chars, kind, tool, path, call_id, ordinal)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (ids[d.conversation], hash, len(d.ref), *map(encode, (d.kind, d.tool, d.path, d.call_id)), d.ordinal)
                for d, hash in zip(documents, hashes, strict=True)
            ),
        )
        connection.execute(
            "INSERT INTO batches (id, parent, conversation, key, key_index, result, result_index, packed, body,"
            " originals, version, created_seconds) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            batch_values(row, ids[row.conversation], packed_body),
        )

    def batches_at(self, owner: str, keys: Collection[bytes]) -> list[BatchRow]:
        with self._database.reading() as connection:
            if connection is None:
                return []
            self._known.refresh(connection, self._database.generation)
            return self._known.at_keys(connection, owner, keys)

    def batches_with_result(self, owner: str, results: Collection[bytes]) -> list[BatchRow]:
        with self._database.reading() as connection:
            if connection is None:
                return []
            self._known.refresh(connection, self._database.generation)
            return self._known.with_results(connection, owner, results)

    def batch(self, id: str) -> BatchRow | None:
        with self._database.reading() as connection:
            return None if connection is None else self._read_batch(connection, id)

    def _read_batch(self, connection: sqlite3.Connection, id: str) -> BatchRow | None:
        values = connection.execute(
            f"SELECT {BATCH_COLUMNS} FROM batches b JOIN conversations c ON c.id = b.conversation WHERE b.id = ?",
            (encode(id),),
        ).fetchone()
        return None if values is None else read_batch(values)

    def blob(self, hash: str) -> bytes:
        with self._database.reading() as connection:
            found = None
            if connection is not None and len(hash) == 64 and not hash.strip("0123456789abcdef"):
                query = "SELECT hash, packed, body FROM blobs WHERE hash = ?"
                found = connection.execute(query, (bytes.fromhex(hash),)).fetchone()
            if found is None:
                raise NotFound(f"no original is stored under {hash[:REF_CHARS]!r}")
            return checked(*found)

    # What was learned on the way.

    def put_usage(
        self, key: bytes, value: bytes, *, owner: str, conversation: str, now_seconds: float | None = None
    ) -> None:
        now = time.time() if now_seconds is None else now_seconds
        with self._database.writing(durable=False) as connection:
            connection.execute(
                "INSERT OR REPLACE INTO usage (owner, key, conversation, value) VALUES (?, ?, ?, ?)",
                (encode(owner), key, _conversation(connection, owner, conversation, now), value),
            )

    def usage_at(self, keys: Collection[bytes], *, owner: str) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        with self._database.reading() as connection:
            if connection is not None:
                for some in pieces(list(keys)):
                    query = f"SELECT key, value FROM usage WHERE owner = ? AND key IN ({marks(some)})"
                    found.update(connection.execute(query, (encode(owner), *some)))
        return found

    def put_fact(self, key: str, value: bytes) -> None:
        with self._database.writing(durable=False) as connection:
            connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", (encode(key), value, time.time()))

    def fact(self, key: str) -> bytes | None:
        with self._database.reading() as connection:
            if connection is None:
                return None
            found = connection.execute("SELECT value FROM facts WHERE key = ?", (encode(key),)).fetchone()
            return found[0] if found else None

    # What recall asks for.

    def ref(self, text: str, *, owner: str) -> str:
        hash = text_hash(text)
        with self._database.reading() as connection:
            if connection is None:
                return hash[:REF_CHARS]
            query = "SELECT hash FROM blobs WHERE hash BETWEEN ? AND ?"
            others = connection.execute(query, hash_range(hash[:REF_CHARS])).fetchall()
        return unclashed(hash, (other.hex() for (other,) in others))

    def document(self, ref: str, *, conversation: str | None, owner: str) -> Document:
        prefix = ref_prefix(ref)
        with self._database.reading() as connection:
            if connection is None:
                raise NotFound(f"nothing is stored under {prefix}")
            found = connection.execute(
                f"SELECT id, hash, ref_chars FROM documents WHERE conversation IN {_SCOPE}"
                " AND hash BETWEEN :low AND :high ORDER BY id DESC",
                _scope(owner, conversation) | dict(zip(("low", "high"), hash_range(prefix), strict=True)),
            ).fetchall()
            hash = choose(prefix, ((hash.hex()[:chars], hash.hex()) for _, hash, chars in found))
            newest = next(id for id, candidate, _ in found if candidate.hex() == hash)
            return _documents(connection, [newest])[0]

    def owners(self) -> list[str]:
        with self._database.reading() as connection:
            found = connection.execute("SELECT DISTINCT owner FROM conversations") if connection else ()
            return sorted(decode(owner) for (owner,) in found)

    def documents(
        self,
        *,
        conversation: str | None,
        owner: str,
        path: str | None = None,
        tool: str | None = None,
        limit: int = 20,
        offset: int = 0,
    ) -> list[Document]:
        with self._database.reading() as connection:
            if connection is None:
                return []
            found = connection.execute(
                f"SELECT id, path, tool FROM documents WHERE conversation IN {_SCOPE} ORDER BY id DESC",
                _scope(owner, conversation),
            )
            ids = [
                id
                for id, its_path, its_tool in found
                if (path is None or path_matches(decode(its_path), path)) and tool in (None, decode(its_tool))
            ]
            return _documents(connection, ids[offset : offset + limit])

    def search(
        self, words: str, *, conversation: str | None, owner: str, limit: int = 10
    ) -> list[tuple[Document, str]]:
        scope = _scope(owner, conversation)
        try:
            indexed = self._database.writable()
            while indexed and self._index_some(scope):
                pass
        except StoreError:
            indexed = False  # no room for an index: what can be read can still be searched
        with self._database.reading() as connection:
            if connection is None:
                return []
            find = _find if indexed else _find_unindexed
            found = _documents(connection, find(connection, words, scope, limit))
        return [(document, snippet(document.text, words)) for document in found]

    def _index_some(self, scope: _Scope) -> bool:
        """Index some of what was not indexed yet; False when nothing is left.

        The terms are cut outside the transaction, so what was read is compared again inside: nothing that a purge
        removed meanwhile may come back.
        """
        with self._database.reading() as connection:
            if connection is None:
                return False
            before = connection.execute("SELECT purges FROM state").fetchone()
            pending = connection.execute(
                "SELECT id, indexed_to FROM conversations c WHERE id IN " + _SCOPE + " AND EXISTS (SELECT 1 FROM"
                " documents d WHERE d.conversation = c.id AND d.id > c.indexed_to) LIMIT 1",
                scope,
            ).fetchone()
            if pending is None:
                return False
            conversation, indexed_to = pending
            rows = _index_rows(connection, conversation, indexed_to)
        with self._database.writing(durable=False) as connection:
            now = connection.execute("SELECT indexed_to FROM conversations WHERE id = ?", (conversation,)).fetchone()
            if connection.execute("SELECT purges FROM state").fetchone() == before and now == (indexed_to,):
                connection.executemany("INSERT INTO words (rowid, place, text) VALUES (?, ?, ?)", rows)
                connection.execute("UPDATE conversations SET indexed_to = ? WHERE id = ?", (rows[-1][0], conversation))
        return True

    # Plain files.

    def write_file(self, text: str) -> Path | None:
        data = files.readable(text)
        name = f"{text_hash(text)}.txt"
        with self._database.filing():
            if not files.holds(self.folder / files.RESULTS / name, data):
                files.write_whole(self.folder, files.RESULTS, name, lambda target: files.write_bytes(target, data))
        return self.folder / files.RESULTS / name

    def write_transcript(self, conversation: str, lines: Iterable[str], *, owner: str) -> Path | None:
        name = f"{transcript_hash(encode(owner), encode(conversation))}.jsonl"
        with self._database.filing():
            return files.write_whole(
                self.folder, files.TRANSCRIPTS, name, lambda target: files.write_lines(target, lines)
            )

    # Forgetting.

    def purge(
        self,
        *,
        keep_days: float | None = None,
        max_bytes: int | None = None,
        conversation: str | None = None,
        owner: str | None = None,
        all: bool = False,
        now_seconds: float | None = None,
    ) -> PurgeStats:
        cutoff = purge_cutoff_seconds(keep_days, max_bytes, conversation, all, now_seconds)
        if not files.check_folder(self.folder):
            return PurgeStats()
        before = files.size_bytes(self.folder)
        with self._database.writing() as connection:
            counts, kept, removed = purge_rows(
                connection,
                self.folder,
                cutoff=cutoff,
                max_bytes=max_bytes,
                conversation=None if conversation is None else encode(conversation),
                owner=None if owner is None else encode(owner),
                all=all,
            )
        self._known.written()
        with self._database.filing():
            removed_files = remove_orphans(self.folder, kept, removed, all=all)
        self._database.wipe()
        return PurgeStats(**counts, files=removed_files, bytes_before=before, bytes_after=files.size_bytes(self.folder))

    def close(self) -> None:
        self._database.close()


def _scope(owner: str, conversation: str | None) -> _Scope:
    return {"owner": encode(owner), "name": None if conversation is None else encode(conversation)}


def _conversation(connection: sqlite3.Connection, owner: str, name: str, seconds: float) -> int:
    """The number of a conversation, which counts as used now."""
    place = (encode(owner), encode(name))
    connection.execute(
        "INSERT INTO conversations (owner, name, used_seconds) VALUES (?, ?, ?)"
        " ON CONFLICT (owner, name) DO UPDATE SET used_seconds = max(used_seconds, excluded.used_seconds)",
        (*place, seconds),
    )
    found: int = connection.execute("SELECT id FROM conversations WHERE owner = ? AND name = ?", place).fetchone()[0]
    return found


def _documents(connection: sqlite3.Connection, ids: Sequence[int]) -> list[Document]:
    """Those that are still there: another process may purge between the search and this."""
    query = f"SELECT {DOCUMENT_COLUMNS} FROM {DOCUMENT_TABLES} WHERE d.id = ?"
    rows = (connection.execute(query, (id,)).fetchone() for id in ids)
    return [read_document(row) for row in rows if row is not None]


def _index_rows(connection: sqlite3.Connection, conversation: int, after: int) -> list[tuple[int, str, str]]:
    rows: list[tuple[int, str, str]] = []
    size = 0
    for id, *values in connection.execute(
        f"SELECT d.id, {DOCUMENT_COLUMNS} FROM {DOCUMENT_TABLES} WHERE d.conversation = ? AND d.id > ? ORDER BY d.id",
        (conversation, after),
    ):
        document = read_document(values)
        rows.append((id, " ".join(terms(document.place)), " ".join(terms(document.text))))
        size += len(document.text)
        if size >= _INDEX_CHUNK_BYTES:
            break
    return rows


def _find(connection: sqlite3.Connection, words: str, scope: _Scope, limit: int) -> list[int]:
    for wanted, need_all in attempts(words):
        found: dict[bytes, int] = {}
        for id, hash in connection.execute(
            "SELECT d.id, d.hash FROM words JOIN documents d ON d.id = words.rowid"
            f" WHERE words MATCH :query AND d.conversation IN {_SCOPE} ORDER BY bm25(words, 4.0, 1.0), d.id DESC",
            {**scope, "query": fts_query(wanted, need_all)},
        ):
            if len(found) >= limit:
                break
            found.setdefault(hash, id)
        if found:
            return list(found.values())
    return []


def _find_unindexed(connection: sqlite3.Connection, words: str, scope: _Scope, limit: int) -> list[int]:
    """The same search where nothing can be written: the index is built in memory for this one question."""
    index = WordIndex()
    refs: dict[int, str] = {}
    ids = [id for (id,) in connection.execute(f"SELECT id FROM documents WHERE conversation IN {_SCOPE}", scope)]
    for id in ids:
        document = _documents(connection, [id])[0]
        index.add(id, document.place, document.text)
        refs[id] = document.ref
    return index.search(words, ids, limit, refs.__getitem__)
