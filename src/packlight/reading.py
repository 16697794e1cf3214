"""Reading a request once: messages that were read before are never read again.

A caller who keeps its message objects pays for what is new; one who parses its history anew each time pays for
encoding and hashing it, and for nothing else.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_
from typing import Any
from weakref import WeakValueDictionary, ref

from .formats import identity, plain, read_message
from .journal import Batch, Journal, chain_start, extend_chain
from .types import Edit, Format, Json, Message
from .view import View

MAX_CONVERSATIONS = 64
"""How many conversations are kept read; a further one is read anew from its request."""
MAX_REMEMBERED = 6
"""Of how many conversations a process remembers what their last batches worked out: one to five megabytes each."""
_SAME_RATIO = 0.02
"""Two ways to come to the size of a block differ by less, two models' counters by more."""
_RECHECKED = 2
"""The newest messages are looked at again although their objects are the same: loops append to them."""


class Thread:
    """Stands for a conversation: lists of messages that go on from one another share it."""

    def __init__(self) -> None:
        self.memory: dict[str, Any] = {}
        self.chain: Sequence[bytes] = ()
        """Of the messages that the memory is about."""


_recent: list[ref[Thread]] = []
"""Those that had a batch last, the newest at the end."""
_remembering = threading.Lock()


class Seen:
    """A list of messages as it was given once, read, with running totals.

    The lists are shared with the Seen of the next, longer request, which appends to them; each shows its own length.
    """

    def __init__(self, fmt: Format, start: bytes) -> None:
        self.format = fmt
        self._items: list[Any] = []
        self._messages: list[Message] = []
        self._chain: list[bytes] = [start]
        self._totals: list[tuple[int, int, int]] = [(0, 0, 0)]
        self._length = 0
        self.looked_up = 0
        """How many links of the chain were looked up in the journal."""
        self.batch: Batch | None = None
        self.given: Batch | None = None
        """The batch whose result the caller wrote back; then `source` is the conversation behind it."""
        self.source: Seen | None = None
        self.ahead = 0
        """By how many messages the list is longer than its source."""
        self.thread = Thread()

    def __len__(self) -> int:
        return self._length

    @property
    def items(self) -> list[Any]:
        """The caller's own objects."""
        return self._items if len(self._items) == self._length else self._items[: self._length]

    @property
    def messages(self) -> list[Message]:
        return self._messages if len(self._messages) == self._length else self._messages[: self._length]

    @property
    def chain(self) -> list[bytes]:
        """`chain[i]` covers the first i messages."""
        length = self._length + 1
        return self._chain if len(self._chain) == length else self._chain[:length]

    @property
    def total(self) -> tuple[int, int, int]:
        """Tokens, bytes and media of all messages."""
        return self._totals[self._length]

    def append(self, items: Sequence[Any], messages: Sequence[Message]) -> None:
        self._items.extend(items)
        self._messages.extend(messages)
        extend_chain(self._chain, messages)
        tokens, size, images = self._totals[-1]
        for m in messages:
            tokens, size, images = tokens + m.tokens, size + m.size_bytes, images + m.images
            self._totals.append((tokens, size, images))
        self._length = len(self._items)

    def first(self, length: int) -> Seen:
        """One with its first messages; with all of them it goes on in the same lists and knows the same batch."""
        new = Seen(self.format, self._chain[0])
        new._length = length
        new.thread = self.thread
        if length == self._length:
            new.looked_up, new.batch, new.given, new.ahead = self.looked_up, self.batch, self.given, self.ahead
            new.source = self.source.first(len(self.source)) if self.source else None
        if length == self._length == len(self._items):
            new._items, new._messages, new._chain, new._totals = self._items, self._messages, self._chain, self._totals
        else:
            new._items, new._messages = self._items[:length], self._messages[:length]
            new._chain, new._totals = self._chain[: length + 1], self._totals[: length + 1]
        return new

    @property
    def first_unseen(self) -> int:
        """From where on nothing has been answered yet. An assistant message at the very end is a prefill."""
        messages, end = self.messages, self._length
        while end and messages[end - 1].role == "assistant":
            end -= 1
        return next((i + 1 for i in range(end - 1, -1, -1) if messages[i].role == "assistant"), 0)


def memory_of(seen: Seen) -> dict[str, Any]:
    """What the last batches of the conversation worked out of its messages (see `View.memory`); a fork has its own."""
    with _remembering:
        known, chain = seen.thread.chain, seen.chain
        common = min(len(known), len(chain))
        if common and known[common - 1] != chain[common - 1]:
            seen.thread = Thread()
        thread = seen.thread
        thread.chain = max(thread.chain, chain, key=len)
        others = [t for other in _recent if (t := other()) is not None and t is not thread]
        while len(others) >= MAX_REMEMBERED:
            oldest = others.pop(0)
            oldest.memory.clear()  # views of earlier requests may still hold it
            oldest.memory = {}
        _recent[:] = map(ref, [*others, thread])
        return thread.memory


def let_go(seen: Seen, memory: dict[str, Any]) -> None:
    """A batch with this memory is over: what it put there after the conversation had lost it is forgotten too."""
    if seen.thread.memory is not memory:
        memory.clear()


def _counted(edits: tuple[Edit, ...], view: View) -> tuple[Edit, ...]:
    """The edits with their tokens counted by this view; themselves where that is what they tell."""
    told, now = sum(e.tokens_before for e in edits), [view.span_tokens((e.start, e.end)) for e in edits]
    if abs(sum(now) - told) <= told * _SAME_RATIO:
        return edits
    sizes = ((n, sum(map(view.count, e.replacement))) for n, e in zip(now, edits, strict=True))
    return tuple(replace(e, tokens_before=n, tokens_after=m) for e, (n, m) in zip(edits, sizes, strict=True))


class Reader:
    """Reads requests for one owner and one counter. Safe to share between threads."""

    def __init__(
        self, journal: Journal, count: Callable[[Json], int], spare: Callable[[], Journal | None] = lambda: None
    ) -> None:
        """`spare` gives the journal of what the store could not take."""
        self._journal = journal
        self._spare = spare
        self._count = count
        self._known: WeakValueDictionary[tuple[str, bytes], Message] = WeakValueDictionary()
        self._seen: OrderedDict[tuple[str, int], Seen] = OrderedDict()
        self._sized: OrderedDict[str, tuple[Edit, ...]] = OrderedDict()
        self._lock = threading.RLock()

    def read(self, fmt: Format, items: Sequence[Any], *, fresh: bool = False) -> Seen:
        """The list, read, with the batch that holds for it.

        `fresh` looks for nothing recorded but what the list itself shows to be written back. Raises InvalidRequest
        for an entry that is no message, StoreError when the journal can't be read.
        """
        with self._lock:
            if fresh:  # it knows nothing of what was recorded, and leaves nothing for others
                seen = Seen(fmt, chain_start(fmt, self._journal.owner))
                seen.append(items, [self.message(fmt, raw) for raw in items])
            else:
                seen = self._extended(fmt, items)
            self._resolve(seen, fresh)
            return seen

    def _extended(self, fmt: Format, items: Sequence[Any]) -> Seen:
        key = (fmt.name, id(items[0]) if items else 0)
        seen = self._seen.pop(key, None)
        common = self._common(seen, items) if seen else 0
        if seen is None or common == 0:
            seen = Seen(fmt, chain_start(fmt, self._journal.owner))
        else:  # another one: what an earlier fit gave back must not grow
            seen = seen.first(common)
        new = items[len(seen) :]
        seen.append(new, [self.message(fmt, raw) for raw in new])
        self._seen[key] = seen
        while len(self._seen) > MAX_CONVERSATIONS:
            self._seen.popitem(last=False)
        return seen

    def _common(self, seen: Seen, items: Sequence[Any]) -> int:
        """How many messages at the beginning are those of last time."""
        known, most = seen.items, min(len(seen), len(items))
        if not all(map(is_, known, items)):
            most = next((i for i, (a, b) in enumerate(zip(known, items, strict=False)) if a is not b), most)
        for i in range(max(0, most - _RECHECKED), most):
            if identity(seen.format, plain(items[i])).hash != seen.messages[i].hash:
                return i
        return most

    def message(self, fmt: Format, raw: Any) -> Message:
        """One entry, read; the same content gives the same object while anybody holds it.

        Not so the same content in another form (a text alone or in a list, a cache mark): it comes back as it came.
        """
        data = plain(raw)
        who = identity(fmt, data)
        known = self._known.get((fmt.name, who.hash))
        if known is None or known.data != data:
            known = read_message(fmt, data, self._count, who)
            self._known[(fmt.name, who.hash)] = known
        return known

    def sized(self, batch: Batch, view: View) -> tuple[Edit, ...]:
        """What is in effect with this batch, its sizes as counted here: another model's may be recorded."""
        with self._lock:
            known = self._sized.pop(batch.id, None) or _counted(batch.edits, view)
            self._sized[batch.id] = known
            while len(self._sized) > MAX_CONVERSATIONS:
                self._sized.popitem(last=False)
            return known

    def _resolve(self, seen: Seen, fresh: bool) -> None:
        """Find the batch that holds, looking up only what is new in the chain."""
        after = seen.looked_up
        if after == 0 or seen.given is None:
            self._find_written_back(seen, after)
        if seen.source is not None and seen.given is not None:
            source = seen.source
            start = len(source) + seen.ahead
            source.append(seen.items[start:], seen.messages[start:])
            if fresh:
                source.batch = seen.given
            else:
                source.batch = self._journal.head(source.chain, known=source.batch, after=source.looked_up)
                source.looked_up = len(source)
        elif not fresh:
            seen.batch = self._journal.head(seen.chain, known=seen.batch, after=after)
        seen.looked_up = len(seen)

    def _find_written_back(self, seen: Seen, after: int) -> None:
        new = seen.chain[after + 1 :] if after else seen.chain
        journals = (j for j in (self._journal, self._spare()) if j is not None)
        journal, found = next(((j, found) for j in journals if (found := j.written_back(new))), (None, None))
        if journal is None or found is None:
            return
        batch, at = found
        at += after + 1 if after else 0
        items = journal.source(batch, seen.items, seen.format)
        source = Seen(seen.format, seen.chain[0])
        source.append(items, [self.message(seen.format, raw) for raw in items])
        seen.given, seen.source = batch, source
        seen.ahead = len(seen) - len(items)
