"""Forgetting: which rows go, in one transaction, and which files follow them."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections import Counter
from pathlib import Path

from . import files
from .base import forget_unused, used_with_descendants, with_descendants
from .rows import marks, pieces, split_hashes

_ORPHAN_SECONDS = 3600.0
"""A file may be written before the batch that names it: only after this long is it taken for left over."""

_LOG_INDEX_BYTES = 32_768
_PAGE_FACTS = ("page_count", "freelist_count", "page_size")


def transcript_hash(owner: bytes, conversation: bytes) -> str:
    """What a conversation's transcript is named by."""
    return hashlib.sha256(len(owner).to_bytes(8, "big") + owner + conversation).hexdigest()


def purge_rows(
    connection: sqlite3.Connection,
    folder: Path,
    *,
    cutoff: float | None,
    max_bytes: int | None,
    conversation: bytes | None,
    owner: bytes | None,
    all: bool,
) -> tuple[dict[str, int], set[str], set[str]]:
    """Remove rows inside the caller's transaction: counts, and the file names still needed and no longer needed."""
    purge = _Purge(connection, folder)
    before, names_before = purge.counts(), purge.file_names()
    # Contentless: the index can't forget single rows, and is built again at the next search.
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
    connection.execute("UPDATE conversations SET indexed_to = 0")
    connection.execute("UPDATE state SET purges = purges + 1")
    places = connection.execute("SELECT id, owner, name FROM conversations").fetchall()
    named = {id for id, its, name in places if all or (name == conversation and owner in (None, its))}
    forget_unused(purge.last_used(), named, purge.forget, purge.size_bytes, cutoff=cutoff, max_bytes=max_bytes)
    if all or cutoff is not None:
        connection.execute("DELETE FROM facts WHERE ? OR learned_seconds < ?", (all, cutoff or 0.0))
    after, names_after = purge.counts(), purge.file_names()
    return {name: before[name] - after[name] for name in before}, names_after, names_before - names_after


def remove_orphans(folder: Path, kept: set[str], removed: set[str], *, all: bool) -> int:
    """Delete the plain files that no row needs any more."""
    fresh = time.time() - _ORPHAN_SECONDS

    def stays(hash: str, changed_seconds: float) -> bool:
        return hash in kept or (hash not in removed and changed_seconds > fresh and not all)

    return sum(files.remove_files(folder, place, unless=stays) for place in (files.RESULTS, files.TRANSCRIPTS))


class _Purge:
    """Removes one conversation after the other, and knows at each step how large the rest is."""

    def __init__(self, connection: sqlite3.Connection, folder: Path) -> None:
        self._connection = connection
        self._uses: Counter[bytes] = Counter(h for (h,) in connection.execute("SELECT hash FROM documents"))
        for (originals,) in connection.execute("SELECT originals FROM batches"):
            self._uses.update(set(split_hashes(originals)))
        beside = files.sizes_bytes(folder)
        # The log's index stays as large as it is; the log itself is empty after a wipe.
        self._beside_bytes = sum(beside.values()) - beside.get("store", 0) + _LOG_INDEX_BYTES
        self._files = {
            **files.sizes_bytes(folder / files.RESULTS),
            **files.sizes_bytes(folder / files.TRANSCRIPTS),
        }

    def counts(self) -> dict[str, int]:
        tables = ("conversations", "batches", "documents", "blobs")
        return {t: self._connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables}

    def file_names(self) -> set[str]:
        """The names of all files that the rows may need."""
        results = {h.hex() for (h,) in self._connection.execute("SELECT hash FROM documents")}
        places = self._connection.execute("SELECT owner, name FROM conversations")
        return results | {transcript_hash(owner, name) for owner, name in places}

    def last_used(self) -> dict[int, float]:
        used = dict(self._connection.execute("SELECT id, used_seconds FROM conversations").fetchall())
        links = self._connection.execute(
            "SELECT b.conversation, p.conversation FROM batches b JOIN batches p ON p.id = b.parent"
        )
        return used_with_descendants(used, {(child, parent) for child, parent in links})

    def size_bytes(self) -> int:
        """What the store will take once it is wiped."""
        pages, free, page = (int(self._connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in _PAGE_FACTS)
        needed = self.file_names() if self._files else set()
        return (
            self._beside_bytes
            + (pages - free) * page
            + sum(size for name, size in self._files.items() if name in needed)
        )

    def forget(self, conversation: int) -> None:
        """One conversation, the batches that build on its batches, and the content that only they needed."""
        documents = self._connection.execute("SELECT hash FROM documents WHERE conversation = ?", (conversation,))
        lost: list[bytes] = [hash for (hash,) in documents]
        for id in self._doomed(conversation):
            (originals,) = self._connection.execute("SELECT originals FROM batches WHERE id = ?", (id,)).fetchone()
            lost += set(split_hashes(originals))
            self._connection.execute("DELETE FROM batches WHERE id = ?", (id,))
        for table in ("documents", "usage"):
            self._connection.execute(f"DELETE FROM {table} WHERE conversation = ?", (conversation,))
        self._connection.execute("DELETE FROM conversations WHERE id = ?", (conversation,))
        self._uses.subtract(lost)
        unused = [hash for hash in set(lost) if self._uses[hash] <= 0]
        for some in pieces(unused):
            self._connection.execute(f"DELETE FROM blobs WHERE hash IN ({marks(some)})", some)

    def _doomed(self, conversation: int) -> list[bytes]:
        rows = self._connection.execute("SELECT id, parent, conversation FROM batches ORDER BY number").fetchall()
        own = {id for id, _, its in rows if its == conversation}
        gone = with_descendants(own, ((id, parent) for id, parent, _ in rows))
        return [id for id, _, _ in rows if id in gone]
