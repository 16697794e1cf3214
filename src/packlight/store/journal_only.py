"""A store that keeps the edits and not what they took out, for callers who hold their full history themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ..errors import NotFound
from .base import BatchRow, Blob, Document, Store
from .memory import MemoryStore


class JournalOnly:
    """Another store, of which only the batches and what was learned are used: no content is written to it.

    What the edits themselves say (previews, digests) is all of the conversation that is kept. A list that our output
    was written back into is recognised, but what was taken out of it can't be given back: reading it raises
    `NotFound`.
    """

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.batches_at = store.batches_at
        self.batches_with_result = store.batches_with_result
        self.batch = store.batch
        self.put_usage = store.put_usage
        self.usage_at = store.usage_at
        self.put_fact = store.put_fact
        self.fact = store.fact
        self.purge = store.purge
        self.close = store.close
        nothing = MemoryStore()
        self.ref = nothing.ref
        self.owners = nothing.owners
        self.documents = nothing.documents
        self.search = nothing.search
        self.write_file = nothing.write_file
        self.write_transcript = nothing.write_transcript

    def put_batch(
        self,
        row: BatchRow,
        blobs: Mapping[str, Blob] = {},
        documents: Sequence[Document] = (),
        *,
        chain: Collection[bytes] = (),
    ) -> BatchRow:
        return self.inner.put_batch(replace(row, originals=()), chain=chain)

    def blob(self, hash: str) -> bytes:
        raise NotFound("only edits are kept here, not what they took out")

    def document(self, ref: str, *, conversation: str | None, owner: str) -> Document:
        raise NotFound("only edits are kept here, not what they took out")
