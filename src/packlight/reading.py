"""Reading a request once: messages that were read before are never read again.

A caller who keeps its message objects pays for what is new; one who parses its history anew each time pays for
encoding and hashing it, and for nothing else.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any
from weakref import WeakValueDictionary

from .formats import identity, plain, read_message
from .journal import Batch, Journal, chain_start, extend_chain
from .types import Format, Json, Message

MAX_CONVERSATIONS = 64
"""How many conversations are kept read; a further one is read anew from its request."""
_RECHECKED = 2
"""The newest messages are looked at again although their objects are the same: loops append to them."""


@dataclass(slots=True, eq=False)
class Seen:
    """A list of messages as it was last given, read, with running totals."""

    format: Format
    items: list[Any]
    messages: list[Message]
    chain: list[bytes]
    totals: list[tuple[int, int, int]]
    """Tokens, bytes and media of the first i messages."""
    looked_up: int = 0
    """How many links of the chain were looked up in the journal."""
    batch: Batch | None = None
    given: Batch | None = None
    """The batch whose result the caller wrote back; then `source` is the conversation behind it."""
    source: Seen | None = None
    ahead: int = 0
    """By how many messages the list is longer than its source."""

    def append(self, items: Sequence[Any], messages: Sequence[Message]) -> None:
        self.items.extend(items)
        self.messages.extend(messages)
        extend_chain(self.chain, messages)
        tokens, size, images = self.totals[-1]
        for m in messages:
            tokens, size, images = tokens + m.tokens, size + m.size_bytes, images + m.images
            self.totals.append((tokens, size, images))

    def first(self, length: int) -> Seen:
        """A copy of its first messages; of all of them, with what was found in the journal."""
        whole = length == len(self.items)
        return Seen(
            self.format,
            self.items[:length],
            self.messages[:length],
            self.chain[: length + 1],
            self.totals[: length + 1],
            looked_up=self.looked_up if whole else 0,
            batch=self.batch if whole else None,
            given=self.given if whole else None,
            source=self.source.first(len(self.source.items)) if whole and self.source else None,
            ahead=self.ahead if whole else 0,
        )

    @property
    def first_unseen(self) -> int:
        """From where on nothing has been answered yet. An assistant message at the very end is a prefill."""
        end = len(self.messages)
        while end and self.messages[end - 1].role == "assistant":
            end -= 1
        for i in range(end - 1, -1, -1):
            if self.messages[i].role == "assistant":
                return i + 1
        return 0


class Reader:
    """Reads requests for one owner and one counter. Safe to share between threads."""

    def __init__(self, journal: Journal, count: Callable[[Json], int]) -> None:
        self._journal = journal
        self._count = count
        self._known: WeakValueDictionary[tuple[str, bytes], Message] = WeakValueDictionary()
        self._seen: OrderedDict[tuple[str, int], Seen] = OrderedDict()
        self._lock = threading.RLock()

    def read(self, fmt: Format, items: Sequence[Any], *, fresh: bool = False) -> Seen:
        """The list, read, with the batch that holds for it.

        `fresh` looks for nothing recorded but what the list itself shows to be written back. Raises InvalidRequest
        for an entry that is no message, StoreError when the journal can't be read.
        """
        with self._lock:
            seen = self._extended(fmt, items)
            self._resolve(seen, fresh)
            return seen

    def _extended(self, fmt: Format, items: Sequence[Any]) -> Seen:
        key = (fmt.name, id(items[0]) if items else 0)
        seen = self._seen.pop(key, None)
        common = self._common(seen, items) if seen else 0
        if seen is None or common == 0:
            start = chain_start(fmt, self._journal.owner)
            seen = Seen(fmt, [], [], [start], [(0, 0, 0)])
        else:  # a copy: what an earlier fit gave back must not grow
            seen = seen.first(common)
        new = items[len(seen.items) :]
        seen.append(new, [self.message(fmt, raw) for raw in new])
        self._seen[key] = seen
        while len(self._seen) > MAX_CONVERSATIONS:
            self._seen.popitem(last=False)
        return seen

    def _common(self, seen: Seen, items: Sequence[Any]) -> int:
        """How many messages at the beginning are those of last time."""
        most = min(len(seen.items), len(items))
        if not all(map(is_, seen.items, items)):
            most = next((i for i, (a, b) in enumerate(zip(seen.items, items, strict=False)) if a is not b), most)
        for i in range(max(0, most - _RECHECKED), most):
            if identity(seen.format, plain(items[i])).hash != seen.messages[i].hash:
                return i
        return most

    def message(self, fmt: Format, raw: Any) -> Message:
        """One entry, read; the same content gives the same object while anybody holds it."""
        data = plain(raw)
        who = identity(fmt, data)
        known = self._known.get((fmt.name, who.hash))
        if known is None:
            known = read_message(fmt, data, self._count, who)
            self._known[(fmt.name, who.hash)] = known
        return known

    def _resolve(self, seen: Seen, fresh: bool) -> None:
        """Find the batch that holds, looking up only what is new in the chain."""
        after = seen.looked_up
        if after == 0 or seen.given is None:
            self._find_written_back(seen, after)
        if seen.source is not None and seen.given is not None:
            source = seen.source
            offset = len(seen.items) - len(source.items) - seen.ahead
            new = seen.items[len(seen.items) - offset :] if offset else []
            source.append(new, seen.messages[len(seen.items) - offset :] if offset else [])
            if fresh:
                source.batch = seen.given
            else:
                source.batch = self._journal.head(source.chain, known=source.batch, after=source.looked_up)
                source.looked_up = len(source.chain) - 1
        elif not fresh:
            seen.batch = self._journal.head(seen.chain, known=seen.batch, after=after)
        else:
            seen.batch = None
        seen.looked_up = len(seen.chain) - 1

    def _find_written_back(self, seen: Seen, after: int) -> None:
        found = self._journal.written_back(seen.chain[after + 1 :] if after else seen.chain)
        if found is None:
            return
        batch, at = found
        at += after + 1 if after else 0
        items = self._journal.source(batch, seen.items, seen.format)
        source = Seen(seen.format, [], [], [seen.chain[0]], [(0, 0, 0)])
        source.append(items, [self.message(seen.format, raw) for raw in items])
        seen.given, seen.source = batch, source
        seen.ahead = len(seen.items) - len(items)
