"""What makes edits stick: recorded once, made again byte for byte on every request that begins the same.

A chain runs over the messages: h(0) = H(format, owner), h(i) = H(h(i-1), message i in its canonical form). A batch of
edits is keyed by the chain at the last message it touches, or the last assistant message if that is later, and holds
for every request whose chain passes there: forks behind it, not rewinds to before it. It also records the chain of
its result, so that a caller who writes our output into its own list is recognised by that; text is never parsed.

A batch names the batch it was made on, and its edits are placed in the source conversation; what is in effect is the
line of batches, later edits in place of the earlier ones they cover. Where two lines hold for one request, the one
that reaches deepest counts, then the one that was committed first.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import msgspec

from .errors import StoreError
from .formats import encode_as_is, plain
from .laws import rendered_messages
from .store import BatchRow, Blob, Document, Store
from .types import Edit, Format, Json, Message
from .view import View, marked_as, merge

VERSION = 1
"""Of what a batch holds. A batch of a newer version is applied all the same: its edits are literal JSON."""

_LOOKED_BACK = 64
"""So many links that were looked up before are looked up again."""

MAX_KEPT = 256
"""Batches kept at hand once read."""
_EDIT_FIELDS = tuple(f.name for f in fields(Edit))


@dataclass(frozen=True, slots=True)
class Batch:
    """A committed batch with everything that is in effect where it holds."""

    id: str
    parent: Batch | None
    conversation: str
    key_index: int
    own: tuple[Edit, ...]
    edits: tuple[Edit, ...]
    """In effect: the parent's and its own."""
    originals: Mapping[int, str]
    """Source message -> the blob that holds it, for what its own edits touch."""
    mended: tuple[tuple[int, int, tuple[Json, ...]], ...] = ()
    """What `repair` had changed in the source: (start, end, what stood there)."""
    written_back: bool = False
    """The request it was made for held the parent's result, written back by the caller."""
    as_text: bool = False
    """The request it was made for had a plain text where others have a list (`input` of Responses)."""
    is_left_alone: bool = False
    """A provider refused the conversation with new edits: none are planned for it any more."""

    def all_originals(self) -> dict[int, str]:
        """The same for all that any edit of the line touches."""
        line: list[Batch] = [self]
        while (parent := line[-1].parent) is not None:
            line.append(parent)
        return {i: hash for batch in reversed(line) for i, hash in batch.originals.items()}


def _by_message(edits: Sequence[Edit]) -> Iterator[list[Edit]]:
    """Message-span edits alone, block-span edits together with the others of their message."""
    group: list[Edit] = []
    for edit in edits:
        if group and not (len(edit.start) == len(group[-1].start) == 2 and edit.start[0] == group[-1].start[0]):
            yield group
            group = []
        group.append(edit)
    if group:
        yield group


def chain_start(fmt: Format, owner: str) -> bytes:
    return hashlib.sha256(f"packlight\0{fmt.name}\0{owner}".encode("utf-8", "surrogatepass")).digest()


def extend_chain(chain: list[bytes], messages: Iterable[Message]) -> None:
    """Append the links of further messages; `chain[i]` covers the first i messages."""
    sha256 = hashlib.sha256
    link = chain[-1]
    for message in messages:
        link = sha256(link + message.hash).digest()
        chain.append(link)


class Journal:
    """The recorded batches of one owner in a store, with those already read kept at hand."""

    def __init__(self, store: Store, owner: str = "") -> None:
        self.store = store
        self.owner = owner
        self._batches: dict[str, Batch] = {}

    def head(self, chain: Sequence[bytes], *, known: Batch | None = None, after: int = 0) -> Batch | None:
        """The batch that holds for a request with this chain; None when there is none.

        `known` is what held for the first `after` messages of the same chain: then only keys behind them are looked
        up, and the newest before them, where another process may have made a batch since.
        """
        first = max(0, after + 1 - _LOOKED_BACK)
        place = {link: i for i, link in enumerate(chain[first:], first)}
        rows = self.store.batches_at(self.owner, place.keys())
        if not rows:
            return known
        best = min(rows, key=lambda row: (-place[row.key], _depth_first(row)))
        if known is not None and place[best.key] < known.key_index:
            return known
        while (child := self._child(best, rows)) is not None:
            best = child
        return self._read(best)

    @staticmethod
    def _child(row: BatchRow, rows: Sequence[BatchRow]) -> BatchRow | None:
        """The first batch of the same key that was made on this one."""
        return next((r for r in rows if r.parent == row.id and r.key == row.key), None)

    def written_back(self, chain: Sequence[bytes]) -> tuple[Batch, int] | None:
        """The batch whose result this request begins with, and how many messages that is."""
        place = {link: i for i, link in enumerate(chain)}
        rows = self.store.batches_with_result(self.owner, place.keys())
        rows = [row for row in rows if row.key not in place]  # there it is the source that begins with its own result
        if not rows:
            return None
        row = max(rows, key=lambda r: place[r.result])
        return self._read(row), place[row.result]

    def source(self, batch: Batch, items: Sequence[Any], fmt: Format | None = None) -> list[Any]:
        """The conversation that a written-back list came from: originals in place of the edits, all else as given.

        The originals carry the cache marks that they were stored with; with `fmt`, those of the list as it is given
        now, so that what is made of them never has more. Raises StoreError when an original can't be read.
        """
        out: list[Any] = []
        held = batch.all_originals()
        read = at = 0
        for inside in _by_message(batch.edits):
            start, end = inside[0].start, inside[-1].end
            out.extend(items[at : at + start[0] - read])
            at += start[0] - read
            last = end[0] if len(start) == 1 else start[0] + 1
            length = len(inside[0].replacement) if len(start) == 1 else 1
            originals = [_decoded(self.store.blob(held[n])) for n in range(start[0], last)]
            if fmt is not None:
                originals = marked_as(fmt, originals, [plain(m) for m in items[at : at + length]], inside)
            out.extend(originals)
            at += length
            read = last
        out.extend(items[at:])
        return out

    def commit(
        self,
        view: View,
        own: Sequence[Edit],
        chain: Sequence[bytes],
        parent: Batch | None,
        documents: Sequence[Document],
        *,
        conversation: str,
        written_back: bool = False,
        fresh: bool = False,
        mended: Sequence[tuple[int, int, tuple[Json, ...]]] = (),
        as_text: bool = False,
        is_whole: bool = False,
        is_left_alone: bool = False,
        upto: int | None = None,
        now_seconds: float | None = None,
    ) -> tuple[Batch, bool]:
        """Record a batch whose edits are already in `view`, with all that they take out, in one transaction.

        Gives the batch that holds now and whether it is ours: the first commit wins. A `fresh` one is found by its
        result only, never applied to another request. Of a `whole` one the own edits are all that is in effect, its
        parent's are not. With `upto` it holds where one does that covers so many messages. Raises StoreError; then
        nothing was written.
        """
        if parent is not None and self.store.batch(parent.id) is None:  # purged under us: all of it is recorded anew
            parent, own = None, view.edits
        last_mended = max((end for _, end, _ in mended), default=0)
        key_index = max(_key_index(view.messages[:upto], own), parent.key_index if parent else 0, last_mended)
        result = rendered_messages(_up_to(view, key_index))
        result_chain = [chain[0]]
        extend_chain(result_chain, result)
        blobs, originals = blobs_of(view, own)
        body = {
            "edits": [_edit_json(e) for e in own],
            "originals": sorted(originals.items()),
            "mended": list(mended),
            "written_back": written_back,
            **({"as_text": True} if as_text else {}),
            **({"whole": True} if is_whole else {}),
            **({"left_alone": True} if is_left_alone else {}),
        }
        encoded = encode_as_is(body)
        key = hashlib.sha256(b"fresh" + chain[key_index] + result_chain[-1]).digest() if fresh else chain[key_index]
        id = hashlib.sha256(b"\0".join([(parent.id if parent else "").encode(), key, encoded])).hexdigest()[:32]
        row = BatchRow(
            id=id,
            parent=parent.id if parent else None,
            owner=self.owner,
            conversation=conversation,
            key=key,
            key_index=key_index,
            result=result_chain[-1],
            result_index=len(result),
            body=encoded,
            originals=tuple(sorted(set(originals.values()))),
            version=VERSION,
            created_seconds=time.time() if now_seconds is None else now_seconds,
        )
        winner = self.store.put_batch(row, blobs, documents, chain=() if fresh else set(chain))
        return self._read(winner), winner.id == id

    def _read(self, row: BatchRow) -> Batch:
        """The batch of a row, with the line it was made on; a line may be hundreds of batches long."""
        line = [row]
        while (last := line[-1]).id not in self._batches and last.parent:
            parent = self.store.batch(last.parent)
            if parent is None:
                raise StoreError(f"batch {last.id} builds on {last.parent}, which is gone")
            line.append(parent)
        batch: Batch | None = None
        for each in reversed(line):
            batch = self._batches.get(each.id) or self._decode(each, batch)
            self._batches[each.id] = batch
        while len(self._batches) > MAX_KEPT:
            del self._batches[next(iter(self._batches))]
        assert batch is not None
        return batch

    def _decode(self, row: BatchRow, parent: Batch | None) -> Batch:
        try:
            body = _decoded(row.body)
            own = tuple(_edit(e) for e in body["edits"])
            originals = {int(i): str(hash) for i, hash in body["originals"]}
            mended = tuple((int(a), int(b), tuple(old)) for a, b, old in body.get("mended", ()))
            edits = merge(parent.edits if parent and not body.get("whole") else (), own)
        except (AttributeError, KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise StoreError(f"batch {row.id} can't be read: {error}") from error
        return Batch(
            id=row.id,
            parent=parent,
            conversation=row.conversation,
            key_index=row.key_index,
            own=own,
            edits=edits,
            originals=originals,
            mended=mended,
            written_back=bool(body.get("written_back")),
            as_text=bool(body.get("as_text")),
            is_left_alone=bool(body.get("left_alone")),
        )


def _depth_first(row: BatchRow) -> tuple[float, str]:
    return (row.created_seconds, row.id)


def _key_index(messages: Sequence[Message], own: Sequence[Edit]) -> int:
    """How many messages the key covers: past the last one touched, and past the last assistant message."""
    touched = max((e.end[0] + (len(e.end) == 2) for e in own), default=0)
    assistant = next((i + 1 for i in range(len(messages) - 1, -1, -1) if messages[i].role == "assistant"), 0)
    return max(touched, assistant)


def _up_to(view: View, end: int) -> View:
    return View(
        format=view.format,
        messages=view.messages[:end],
        count=view.count,
        edits=view.edits,
        head=view.head,
    )


def blobs_of(view: View, own: Sequence[Edit]) -> tuple[dict[str, Blob], dict[int, str]]:
    """The source messages that a batch touches, whole, by hash; and which message is which."""
    blobs: dict[str, Blob] = {}
    places: dict[int, str] = {}
    known: dict[int, tuple[Json, str]] = view.memory.setdefault("originals", {})
    for edit in own:
        for i in range(edit.start[0], edit.end[0] + (len(edit.end) == 2)):
            data = view.messages[i].data
            if i not in known or known[i][0] is not data:  # read anew, its cache marks may have moved
                known[i] = (data, hashlib.sha256(encode_as_is(data)).hexdigest())
            places[i] = known[i][1]
            blobs[places[i]] = partial(encode_as_is, data)
    return blobs, places


def _edit_json(edit: Edit) -> dict[str, Json]:
    return {name: getattr(edit, name) for name in _EDIT_FIELDS}


def _edit(body: Mapping[str, Json]) -> Edit:
    known: dict[str, Any] = {k: v for k, v in body.items() if k in _EDIT_FIELDS}
    known["start"], known["end"] = tuple(body["start"]), tuple(body["end"])
    known["replacement"] = tuple(body["replacement"])
    return Edit(**known)


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return json.loads(data)
