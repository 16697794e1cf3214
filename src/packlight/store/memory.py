"""The store that lives and dies with the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import NotFound, StoreError
from .base import (
    REF_CHARS,
    BatchRow,
    Blob,
    Document,
    PurgeStats,
    bytes_of,
    check_put,
    choose,
    first_rival,
    forget_unused,
    known_among,
    path_matches,
    purge_cutoff_seconds,
    ref_prefix,
    text_hash,
    unclashed,
    used_with_descendants,
    with_descendants,
)
from .search import WordIndex, snippet

_Owned = tuple[str, str]
"""Owner and conversation."""
_Place = tuple[str, str, str, str, str, int]


@dataclass(slots=True)
class _Entry:
    """A document as it is held: with whose it is, its hash and its size."""

    owner: str
    document: Document
    hash: str
    size_bytes: int


class MemoryStore:
    """Keeps everything in dicts. Writes nothing anywhere, ever.

    With `max_bytes` the conversations not used for longest are forgotten once there is more; never the one that
    is being written, nor what it builds on.
    """

    def __init__(self, *, max_bytes: int | None = None) -> None:
        self.max_bytes = max_bytes
        self._lock = threading.RLock()
        self._next_document = 0
        self._rows: dict[str, BatchRow] = {}
        self._at_key: dict[str, dict[bytes, list[BatchRow]]] = {}
        self._at_result: dict[str, dict[bytes, list[BatchRow]]] = {}
        self._blobs: dict[str, Blob] = {}
        self._documents: dict[int, _Entry] = {}
        self._places: dict[_Place, int] = {}
        self._usage: dict[tuple[str, bytes], tuple[str, bytes]] = {}
        self._facts: dict[str, tuple[bytes, float]] = {}
        self._used: dict[_Owned, float] = {}
        self._short: dict[str, tuple[str, ...]] = {}
        self._index = WordIndex()

    def __repr__(self) -> str:
        return f"MemoryStore(batches={len(self._rows)}, documents={len(self._documents)})"

    # Batches and what they refer to.

    def put_batch(
        self,
        row: BatchRow,
        blobs: Mapping[str, Blob] | None = None,
        documents: Sequence[Document] = (),
        *,
        chain: Collection[bytes] = (),
    ) -> BatchRow:
        blobs = blobs or {}
        texts = check_put(row, blobs, documents)
        with self._lock:
            if row.id in self._rows:
                return self._rows[row.id]
            if rival := first_rival(row, self.batches_at(row.owner, {*chain, row.key})):
                return rival
            self._check_complete(row, blobs)
            for hash, data in blobs.items():
                self._blobs.setdefault(hash, data)
            for document, (hash, size_bytes) in zip(documents, texts, strict=True):
                self._add_document(_Entry(row.owner, document, hash, size_bytes))
            for conversation in dict.fromkeys(document.conversation for document in documents):
                self._use(row.owner, conversation, row.created_seconds)
            self._add_row(row)
            self._use(row.owner, row.conversation, row.created_seconds)
            self._shrink((row.owner, row.conversation))
            return row

    def _check_complete(self, row: BatchRow, blobs: Mapping[str, Blob]) -> None:
        if row.parent is not None and row.parent not in self._rows:
            raise StoreError("the batch that this one builds on is not in the store")
        if any(hash not in blobs and hash not in self._blobs for hash in row.originals):
            raise StoreError("an original that the batch refers to is not in the store")

    def _add_row(self, row: BatchRow) -> None:
        self._rows[row.id] = row
        self._at_key.setdefault(row.owner, {}).setdefault(row.key, []).append(row)
        self._at_result.setdefault(row.owner, {}).setdefault(row.result, []).append(row)

    def _add_document(self, entry: _Entry) -> None:
        document = entry.document
        place = (entry.owner, document.conversation, entry.hash, document.kind, document.call_id, document.ordinal)
        if place not in self._places:
            self._next_document += 1
            self._places[place] = self._next_document
            self._documents[self._next_document] = entry
            self._add_short(entry.hash)

    def _add_short(self, hash: str) -> None:
        known = self._short.get(hash[:REF_CHARS], ())
        if hash not in known:
            self._short[hash[:REF_CHARS]] = (*known, hash)

    def batches_at(self, owner: str, keys: Collection[bytes]) -> list[BatchRow]:
        with self._lock:
            return self._in_order(known_among(self._at_key.get(owner, {}), keys))

    def batches_with_result(self, owner: str, results: Collection[bytes]) -> list[BatchRow]:
        with self._lock:
            return self._in_order(known_among(self._at_result.get(owner, {}), results))

    def _in_order(self, rows: Iterable[BatchRow]) -> list[BatchRow]:
        found = {row.id: row for row in rows}
        if len(found) < 2:
            return list(found.values())
        return [row for id, row in self._rows.items() if id in found]

    def batch(self, id: str) -> BatchRow | None:
        return self._rows.get(id)

    def blob(self, hash: str) -> bytes:
        try:
            return bytes_of(self._blobs[hash])
        except KeyError:
            raise NotFound(f"no original is stored under {hash[:REF_CHARS]!r}") from None

    # What was learned on the way.

    def put_usage(
        self, key: bytes, value: bytes, *, owner: str, conversation: str, now_seconds: float | None = None
    ) -> None:
        with self._lock:
            self._usage[owner, key] = (conversation, value)
            self._use(owner, conversation, time.time() if now_seconds is None else now_seconds)

    def usage_at(self, keys: Collection[bytes], *, owner: str) -> dict[bytes, bytes]:
        with self._lock:
            return {key: self._usage[owner, key][1] for key in keys if (owner, key) in self._usage}

    def put_fact(self, key: str, value: bytes) -> None:
        with self._lock:
            self._facts[key] = (value, time.time())

    def fact(self, key: str) -> bytes | None:
        found = self._facts.get(key)
        return found[0] if found else None

    # What recall asks for.

    def ref(self, text: str, *, owner: str) -> str:
        hash = text_hash(text)
        with self._lock:
            return unclashed(hash, self._short.get(hash[:REF_CHARS], ()))

    def document(self, ref: str, *, conversation: str | None, owner: str) -> Document:
        prefix = ref_prefix(ref)
        with self._lock:
            entries = [self._documents[id] for id in self._scope(owner, conversation)]
            entries = [entry for entry in entries if entry.hash.startswith(prefix)]
            hash = choose(prefix, ((entry.document.ref, entry.hash) for entry in entries))
            return next(entry.document for entry in entries if entry.hash == hash)

    def owners(self) -> list[str]:
        with self._lock:
            return sorted({owner for owner, _ in self._used})

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
        with self._lock:
            found = [self._documents[id].document for id in self._scope(owner, conversation)]
        if path is not None:
            found = [document for document in found if path_matches(document.path, path)]
        if tool is not None:
            found = [document for document in found if document.tool == tool]
        return found[offset : offset + limit]

    def search(
        self, words: str, *, conversation: str | None, owner: str, limit: int = 10
    ) -> list[tuple[Document, str]]:
        with self._lock:
            scope = self._scope(owner, conversation)
            for id in scope:
                if id not in self._index:
                    document = self._documents[id].document
                    self._index.add(id, document.place, document.text)
            ids = self._index.search(words, scope, limit, lambda id: self._documents[id].hash)
            found = [self._documents[id].document for id in ids]
        return [(document, snippet(document.text, words)) for document in found]

    def _scope(self, owner: str, conversation: str | None) -> list[int]:
        """The documents that may be seen, newest first."""
        return [
            id
            for id, entry in reversed(self._documents.items())
            if entry.owner == owner and conversation in (None, entry.document.conversation)
        ]

    def write_file(self, text: str) -> Path | None:
        return None

    def write_transcript(self, conversation: str, lines: Iterable[str], *, owner: str) -> Path | None:
        return None

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
        with self._lock:
            before = self._counts()
            used = self._effective()
            named = {p for p in used if all or (p[1] == conversation and owner in (None, p[0]))}
            forget_unused(used, named, self._forget, self.size_bytes, cutoff=cutoff, max_bytes=max_bytes)
            self._facts = {k: f for k, f in self._facts.items() if not all and (cutoff is None or f[1] >= cutoff)}
            self._sweep()
            after = self._counts()
        return _difference(before, after)

    def close(self) -> None:
        """Nothing to close; what is held stays usable."""

    def size_bytes(self) -> int:
        """How much content it holds."""
        bodies = sum(len(row.body) for row in self._rows.values())
        texts = sum(entry.size_bytes for entry in self._documents.values())
        return bodies + texts + sum(len(bytes_of(blob)) for blob in self._blobs.values())

    def _use(self, owner: str, conversation: str, seconds: float) -> None:
        place = (owner, conversation)
        self._used[place] = max(seconds, self._used.get(place, seconds))

    def _effective(self) -> dict[_Owned, float]:
        links = []
        for row in self._rows.values():
            if row.parent in self._rows:
                parent = self._rows[row.parent]
                links.append(((row.owner, row.conversation), (parent.owner, parent.conversation)))
        return used_with_descendants(self._used, links)

    def _shrink(self, current: _Owned) -> None:
        if self.max_bytes is None or self.size_bytes() <= self.max_bytes:
            return
        effective = self._effective()
        for place in sorted(effective, key=effective.__getitem__):
            if place != current and effective[place] < effective[current] and self.size_bytes() > self.max_bytes:
                self._forget(place)

    def _forget(self, place: _Owned) -> None:
        if self._used.pop(place, None) is None:
            return
        removed = {row.id for row in self._rows.values() if (row.owner, row.conversation) == place}
        gone = with_descendants(removed, ((row.id, row.parent) for row in self._rows.values()))
        kept = [row for id, row in self._rows.items() if id not in gone]
        self._rows, self._at_key, self._at_result = {}, {}, {}
        for row in kept:
            self._add_row(row)
        self._places = {p: id for p, id in self._places.items() if p[:2] != place}
        for id in self._documents.keys() - set(self._places.values()):
            del self._documents[id]
            self._index.discard(id)
        self._short = {}
        for entry in self._documents.values():
            self._add_short(entry.hash)
        self._usage = {k: u for k, u in self._usage.items() if (k[0], u[0]) != place}
        self._sweep()

    def _sweep(self) -> None:
        needed = {hash for row in self._rows.values() for hash in row.originals}
        self._blobs = {hash: data for hash, data in self._blobs.items() if hash in needed}

    def _counts(self) -> tuple[int, int, int, int, int]:
        return len(self._used), len(self._rows), len(self._documents), len(self._blobs), self.size_bytes()


def _difference(before: tuple[int, ...], after: tuple[int, ...]) -> PurgeStats:
    conversations, batches, documents, blobs, _ = (b - a for b, a in zip(before, after, strict=True))
    return PurgeStats(
        conversations=conversations,
        batches=batches,
        documents=documents,
        blobs=blobs,
        bytes_before=before[-1],
        bytes_after=after[-1],
    )
