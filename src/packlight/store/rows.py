"""Rows of the database as objects, and the other way: packing, escaping, and which batches stand where."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ..errors import StoreError
from .base import BatchRow, Document, Item, decode, encode, known_among

PACK_FROM_BYTES = 512
"""Shorter content gains less from compression than the call costs."""
VARIABLES = 500
"""Values in one IN list."""
_CACHED_BYTES = 16 * 1024 * 1024
_HASH_BYTES = 32

BATCH_COLUMNS = (
    "b.number, b.id, b.parent, c.owner, c.name, b.key, b.key_index, b.result, b.result_index, b.packed, b.body, "
    "b.originals, b.version, b.created_seconds"
)
DOCUMENT_COLUMNS = "d.hash, d.ref_chars, d.kind, d.tool, d.path, d.call_id, d.ordinal, c.name, t.packed, t.body"
DOCUMENT_TABLES = "documents d JOIN conversations c ON c.id = d.conversation JOIN blobs t ON t.hash = d.hash"


def pack(data: bytes) -> tuple[int, bytes]:
    if len(data) >= PACK_FROM_BYTES:
        packed = zlib.compress(data, 1)
        if len(packed) < len(data) * 0.9:
            return 1, packed
    return 0, data


def unpack(packed: int, body: bytes) -> bytes:
    return zlib.decompress(body) if packed else body


def checked(hash: bytes, packed: int, body: bytes) -> bytes:
    """The content, if it still is what its hash says."""
    data = unpack(packed, body)
    if hashlib.sha256(data).digest() != hash:
        raise StoreError(f"the store is damaged: {hash.hex()[:12]} is not what was stored")
    return data


def pieces(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), VARIABLES):
        yield items[start : start + VARIABLES]


def marks(items: Sequence[object]) -> str:
    return ",".join("?" * len(items))


def split_hashes(originals: bytes) -> list[bytes]:
    return [originals[i : i + _HASH_BYTES] for i in range(0, len(originals), _HASH_BYTES)]


def batch_values(row: BatchRow, conversation: int, packed_body: tuple[int, bytes]) -> tuple[object, ...]:
    """What goes into `batches`, but for the number."""
    return (
        encode(row.id),
        None if row.parent is None else encode(row.parent),
        conversation,
        row.key,
        row.key_index,
        row.result,
        row.result_index,
        *packed_body,
        b"".join(map(bytes.fromhex, row.originals)),
        row.version,
        row.created_seconds,
    )


def read_batch(values: Sequence[Any]) -> BatchRow:
    _, id, parent, owner, name, key, key_index, result, result_index, packed, body, originals, version, created = values
    return BatchRow(
        id=decode(id),
        parent=None if parent is None else decode(parent),
        owner=decode(owner),
        conversation=decode(name),
        key=key,
        key_index=key_index,
        result=result,
        result_index=result_index,
        body=unpack(packed, body),
        originals=tuple(hash.hex() for hash in split_hashes(originals)),
        version=version,
        created_seconds=created,
    )


def read_document(values: Sequence[Any]) -> Document:
    hash, ref_chars, kind, tool, path, call_id, ordinal, conversation, packed, body = values
    return Document(
        ref=hash.hex()[:ref_chars],
        text=decode(checked(hash, packed, body)),
        conversation=decode(conversation),
        kind=decode(kind),
        tool=decode(tool),
        path=decode(path),
        call_id=decode(call_id),
        ordinal=ordinal,
    )


def hash_range(prefix: str) -> tuple[bytes, bytes]:
    """The lowest and the highest hash that begin with these hex digits."""
    return bytes.fromhex(prefix.ljust(64, "0")), bytes.fromhex(prefix.ljust(64, "f"))


class KnownBatches:
    """Which batches stand at which chain hash, remembered from the database.

    A request asks for thousands of hashes, of which a handful are known: that is a set operation here and would be
    thousands of lookups there. Brought up to date whenever another connection has written. Rows never change, so
    they are remembered too, up to 16 MB.
    """

    def __init__(self) -> None:
        self._generation = -1
        self._forget()

    def _forget(self) -> None:
        self._seen: object = None
        self._purges = -1
        self._last = 0
        self._at_key: dict[bytes, dict[bytes, list[int]]] = {}
        self._at_result: dict[bytes, dict[bytes, list[int]]] = {}
        self._rows: dict[int, BatchRow] = {}
        self._rows_bytes = 0

    def written(self) -> None:
        """Our own commits don't show in `data_version`."""
        self._seen = None

    def refresh(self, connection: sqlite3.Connection, generation: int) -> None:
        if generation != self._generation:
            self._forget()
            self._generation = generation
        seen = connection.execute("PRAGMA data_version").fetchone()
        if seen == self._seen:
            return
        (purges,) = connection.execute("SELECT purges FROM state").fetchone()
        if purges != self._purges:
            self._forget()
            self._purges = purges
        rows = connection.execute(
            "SELECT b.number, c.owner, b.key, b.result FROM batches b JOIN conversations c ON c.id = b.conversation"
            " WHERE b.number > ? ORDER BY b.number",
            (self._last,),
        )
        for number, owner, key, result in rows:
            self._at_key.setdefault(owner, {}).setdefault(key, []).append(number)
            self._at_result.setdefault(owner, {}).setdefault(result, []).append(number)
            self._last = number
        self._seen = seen

    def at_keys(self, connection: sqlite3.Connection, owner: str, keys: Collection[bytes]) -> list[BatchRow]:
        return self._fetch(connection, sorted(known_among(self._at_key.get(encode(owner), {}), keys)))

    def with_results(self, connection: sqlite3.Connection, owner: str, results: Collection[bytes]) -> list[BatchRow]:
        return self._fetch(connection, sorted(known_among(self._at_result.get(encode(owner), {}), results)))

    def _fetch(self, connection: sqlite3.Connection, numbers: list[int]) -> list[BatchRow]:
        missing = [number for number in numbers if number not in self._rows]
        fetched: dict[int, BatchRow] = {}
        for some in pieces(missing):
            for values in connection.execute(
                f"SELECT {BATCH_COLUMNS} FROM batches b JOIN conversations c ON c.id = b.conversation"
                f" WHERE b.number IN ({marks(some)})",
                some,
            ):
                fetched[values[0]] = read_batch(values)
        found = [self._rows.get(number) or fetched.get(number) for number in numbers]
        self._remember(fetched)
        return [row for row in found if row is not None]

    def _remember(self, rows: Mapping[int, BatchRow]) -> None:
        for number, row in rows.items():
            self._rows[number] = row
            self._rows_bytes += len(row.body)
        if self._rows_bytes > _CACHED_BYTES:
            self._rows, self._rows_bytes = {}, 0
