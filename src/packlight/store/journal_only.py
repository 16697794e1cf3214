"""A store that keeps the edits and not what they took out, for callers who hold their full history themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import NotFound
from .base import BatchRow, Blob, Document, PurgeStats, Store, text_hash


class JournalOnly:
    """Another store, of which only the batches and what was learned are used: no content is written to it.

    What the edits themselves say (previews, digests) is all of the conversation that is kept. A list that our output
    was written back into is recognised, but what was taken out of it can't be given back: reading it raises
    `NotFound`.
    """

    def __init__(self, store: Store) -> None:
        self.inner = store

    def put_batch(
        self,
        row: BatchRow,
        blobs: Mapping[str, Blob] = {},
        documents: Sequence[Document] = (),
        *,
        chain: Collection[bytes] = (),
    ) -> BatchRow:
        return self.inner.put_batch(replace(row, originals=()), chain=chain)

    def batches_at(self, owner: str, keys: Collection[bytes]) -> list[BatchRow]:
        return self.inner.batches_at(owner, keys)

    def batches_with_result(self, owner: str, results: Collection[bytes]) -> list[BatchRow]:
        return self.inner.batches_with_result(owner, results)

    def batch(self, id: str) -> BatchRow | None:
        return self.inner.batch(id)

    def blob(self, hash: str) -> bytes:
        raise NotFound("only edits are kept here, not what they took out")

    def put_usage(
        self, key: bytes, value: bytes, *, owner: str, conversation: str, now_seconds: float | None = None
    ) -> None:
        self.inner.put_usage(key, value, owner=owner, conversation=conversation, now_seconds=now_seconds)

    def usage_at(self, keys: Collection[bytes], *, owner: str) -> dict[bytes, bytes]:
        return self.inner.usage_at(keys, owner=owner)

    def put_fact(self, key: str, value: bytes) -> None:
        self.inner.put_fact(key, value)

    def fact(self, key: str) -> bytes | None:
        return self.inner.fact(key)

    def ref(self, text: str, *, owner: str) -> str:
        return text_hash(text)[:12]

    def document(self, ref: str, *, conversation: str | None, owner: str) -> Document:
        raise NotFound("only edits are kept here, not what they took out")

    def owners(self) -> list[str]:
        return []

    def documents(
        self,
        *,
        conversation: str | None,
        owner: str,
        path: str | None = None,
        tool: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Document]:
        return []

    def search(
        self, words: str, *, conversation: str | None, owner: str, limit: int = 10
    ) -> list[tuple[Document, str]]:
        return []

    def write_file(self, text: str) -> Path | None:
        return None

    def write_transcript(self, conversation: str, lines: Iterable[str], *, owner: str) -> Path | None:
        return None

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
        return self.inner.purge(
            keep_days=keep_days,
            max_bytes=max_bytes,
            conversation=conversation,
            owner=owner,
            all=all,
            now_seconds=now_seconds,
        )

    def close(self) -> None:
        self.inner.close()
