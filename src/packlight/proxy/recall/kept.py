"""What is remembered of hidden exchanges: literal JSON, put back into each later request of the conversation.

Two kinds of rows stand in the journal's own table, under an owner of their own, keyed by the chain over the messages
as the client has them: that a conversation began with the tool (the chain of its first request), and what was said
unseen behind a request (the chain of that request). The latter holds for a reply that has the calls, or else the
text, of the one that the client got: it may have changed the rest on the way.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import is_
from typing import Any

import msgspec

from ...errors import StoreError
from ...formats import encode_as_is, identity
from ...journal import VERSION, chain_start
from ...store import BatchRow, MemoryStore, Store
from ...types import Edit, Format, Json
from ...view import apply

__all__ = ["Hidden", "Kept"]

MAX_CONVERSATIONS = 64
MAX_DECODED = 1_024
MAX_TOUCHED = 4_096
_DAY_SECONDS = 86_400.0


class Hidden(msgspec.Struct, frozen=True, kw_only=True):
    """What was said between a request of the client and the reply that it got."""

    ids: tuple[str, ...]
    """Of the calls in the client's reply."""
    text: str
    """Of the client's reply, without blanks."""
    instead: tuple[Any, ...]
    """Entries that stand for the client's reply."""
    blocks: tuple[Any, ...] = ()
    """What comes in front of the client's own results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A request's list, and where in its conversation it stands."""

    owner: str
    format: Format
    items: list[Json]
    """As the client has it."""
    chain: list[bytes]
    rows: dict[bytes, list[BatchRow]]

    @property
    def first(self) -> int:
        """How many messages the conversation's first request had."""
        spoke = (i for i, item in enumerate(self.items) if self.format.role(item) == "assistant")
        return next(spoke, len(self.items))

    @property
    def conversation(self) -> str:
        return self.chain[self.first].hex()[:16]

    @property
    def began(self) -> bool:
        """Its first request had the tool."""
        return any(not row.body for row in self.rows.get(self.chain[self.first], ()))


class Kept:
    """The rows of a store. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._spare = MemoryStore()
        """What the store did not take."""
        self._chains: OrderedDict[tuple[str, str, int], tuple[list[Json], list[bytes]]] = OrderedDict()
        self._decoded: OrderedDict[str, Hidden] = OrderedDict()
        self._made: OrderedDict[str, tuple[list[Json], list[Json]]] = OrderedDict()
        self._touched: dict[str, float] = {}
        self._lock = threading.Lock()

    def place(self, owner: str, fmt: Format, items: list[Json]) -> Place:
        """Raises StoreError when the store can't be read."""
        owner = f"{owner}/recall"
        chain = self._chain(owner, fmt, items)
        rows: dict[bytes, list[BatchRow]] = {}
        for store in (self.store, self._spare):
            for row in store.batches_at(owner, set(chain)):
                rows.setdefault(row.key, []).append(row)
        return Place(owner=owner, format=fmt, items=items, chain=chain, rows=rows)

    def _chain(self, owner: str, fmt: Format, items: list[Json]) -> list[bytes]:
        """`chain[i]` covers the first i messages; what was hashed at the request before is not hashed again."""
        key = (owner, fmt.name, id(items[0]) if items else 0)
        with self._lock:
            known, chain = self._chains.get(key, ([], [chain_start(fmt, owner)]))
        same = min(len(known), len(items))
        if not all(map(is_, known, items)):
            same = next(i for i, (a, b) in enumerate(zip(known, items, strict=False)) if a is not b)
        chain = chain[: same + 1]
        for item in items[same:]:
            chain.append(hashlib.sha256(chain[-1] + identity(fmt, item).hash).digest())
        with self._lock:
            self._chains[key] = (items, chain)
            self._chains.move_to_end(key)
            while len(self._chains) > MAX_CONVERSATIONS:
                self._chains.popitem(last=False)
        return chain

    # --- what is put down ---------------------------------------------------------------------------------------------

    def begin(self, place: Place) -> None:
        """The conversation begins with the tool. Raises StoreError when that can't be written."""
        if not place.began:
            self._put(self.store, place, b"")

    def record(self, place: Place, hidden: Hidden) -> StoreError | None:
        """What was said unseen behind this request. What the store does not take is held in memory."""
        body = msgspec.json.encode(msgspec.structs.replace(hidden, instead=(), blocks=()))
        body = encode_as_is([msgspec.Raw(body), hidden.instead, hidden.blocks])
        try:
            self._put(self.store, place, body)
        except StoreError as error:
            self._put(self._spare, place, body)
            return error
        return None

    def _put(self, store: Store, place: Place, body: bytes) -> None:
        """Behind what stands there already: the same request may have been answered before, by another process too."""
        key = place.chain[-1]
        for _ in range(100):
            rows = store.batches_at(place.owner, {key})
            if any(row.body == body for row in rows):
                return
            parent = rows[-1].id if rows else None
            id = hashlib.sha256(b"\0".join([b"recall", (parent or "").encode(), key, body])).hexdigest()[:32]
            row = BatchRow(
                id=id,
                parent=parent,
                owner=place.owner,
                conversation=place.conversation,
                key=key,
                key_index=len(place.items),
                result=key,
                result_index=len(place.items),
                body=body,
                originals=(),
                version=VERSION,
                created_seconds=time.time(),
            )
            if store.put_batch(row).id == id:
                return

    def touch(self, place: Place) -> None:
        """Once a day: this conversation is still used, so that a purge by age leaves it."""
        now = time.time()
        if now - self._touched.get(place.conversation, 0.0) > _DAY_SECONDS:
            self._touched = {**self._touched, place.conversation: now} if len(self._touched) < MAX_TOUCHED else {}
            link = place.chain[place.first]
            with suppress(StoreError):  # it can be read, which is what matters now
                self.store.put_usage(link, b"{}", owner=place.owner, conversation=place.conversation)

    # --- what is put back ---------------------------------------------------------------------------------------------

    def whole(self, place: Place) -> list[Json]:
        """The list with all that was said unseen; the same object where there is nothing."""
        out: list[Json] = []
        at = 0
        for n, link in enumerate(place.chain):
            if n < at or link not in place.rows:
                continue
            end = self._end_of_reply(place, n)
            if (row := self._that_holds(place, place.items[n:end], place.rows[link])) is not None:
                last = end + (1 if self._read(row).blocks and end < len(place.items) else 0)
                out += place.items[at:n] + self._put_back(row, place.format, place.items[n:last], end - n)
                at = last
        return out + place.items[at:] if at else place.items

    @staticmethod
    def _end_of_reply(place: Place, start: int) -> int:
        fmt, items = place.format, place.items
        return next((i for i in range(start, len(items)) if fmt.role(items[i]) != "assistant"), len(items))

    def _that_holds(self, place: Place, reply: list[Json], rows: Sequence[BatchRow]) -> BatchRow | None:
        """The first that was recorded for this reply: a later one with the same words changes nothing any more."""
        if not reply:
            return None
        parts = [part for item in reply for part in place.format.parts(item)]
        ids = {part.call_id for part in parts if part.kind == "call" and not part.server}
        text = squeezed("".join(part.text for part in parts if part.kind == "text"))
        for row in rows:
            if row.body:
                hidden = self._read(row)
                if ids == set(hidden.ids) and (ids or text == hidden.text):
                    return row
        return None

    def _read(self, row: BatchRow) -> Hidden:
        """Raises StoreError for what is damaged."""
        with self._lock:
            if row.id in self._decoded:
                return self._decoded[row.id]
        try:
            about, instead, blocks = msgspec.json.decode(row.body)
            hidden = Hidden(ids=tuple(about["ids"]), text=about["text"], instead=tuple(instead), blocks=tuple(blocks))
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"what was recalled can't be read: {error}") from error
        with self._lock:
            self._decoded[row.id] = hidden
            while len(self._decoded) > MAX_DECODED:
                self._decoded.popitem(last=False)
        return hidden

    def _put_back(self, row: BatchRow, fmt: Format, given: list[Json], length: int) -> list[Json]:
        """The reply as it was said, and the results behind it; the same objects for the same ones as last time."""
        with self._lock:
            known, made = self._made.get(row.id, ([], []))
        if len(known) == len(given) and all(map(is_, known, given)):
            return made
        hidden = self._read(row)
        edits = [Edit("recall", "inserted", (0,), (length,), hidden.instead)]
        if len(given) > length:
            edits.append(Edit("recall", "inserted", (length, 0), (length, 0), hidden.blocks))
        made = apply(fmt, given, edits)
        if hidden.blocks and len(given) == length:
            made = [*made, {"role": "user", "content": list(hidden.blocks)}]
        with self._lock:
            self._made[row.id] = (given, made)
            while len(self._made) > MAX_DECODED:
                self._made.popitem(last=False)
        return made


def squeezed(text: str) -> str:
    """Without blanks: clients cut them off at the ends of texts."""
    return "".join(text.split())
