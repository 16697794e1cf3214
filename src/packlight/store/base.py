"""What a store holds and what it promises, whichever kind it is.

A store keeps the batches of edits that were made (so that they can be made again, byte for byte), the content
they took out (so that it can be put back), and the same content as text that recall can find. It knows nothing of
wire formats: edits and originals are bytes to it.

Every string may be hostile: lone surrogates, NULs and path separators in ids are kept exactly and never name a file.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from ..errors import NotFound

Blob = bytes | Callable[[], bytes]
"""Content, or what makes it: a store in memory then holds the object that the caller holds anyway, and no copy."""
REF_CHARS = 12
"""Length of a reference as it is shown to a model: 48 bits, longer only on a clash."""
MIN_REF_CHARS = 6
SECONDS_PER_DAY = 86_400

Key = TypeVar("Key")
Item = TypeVar("Item")


@dataclass(slots=True, kw_only=True)
class Document:
    """Something that was taken out of a conversation, as the text that recall finds. Never changed once made."""

    ref: str
    """What the placeholder names it by: the first hex digits of `text_hash(text)`, 12 unless `Store.ref` says more."""
    text: str
    conversation: str
    kind: str
    """`result`, `arguments`, `message`, `media`, `stretch` (a list of others), ..."""
    tool: str = ""
    path: str = ""
    call_id: str = ""
    ordinal: int = 0
    """Its place in the conversation."""

    @property
    def place(self) -> str:
        """What it came from, as recall finds it."""
        return f"{self.path} {self.tool} {self.call_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """One batch of edits, as it was committed."""

    id: str
    parent: str | None
    owner: str
    conversation: str
    key: bytes
    """Chain hash of the place where it applies."""
    key_index: int
    """How many messages that chain covers."""
    result: bytes
    """Chain hash of its result: what a caller sends who writes our output back."""
    result_index: int
    body: bytes
    """The edits, opaque."""
    originals: tuple[str, ...]
    """Hashes of the blobs it refers to."""
    version: int
    created_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeStats:
    """What a purge removed."""

    conversations: int = 0
    batches: int = 0
    documents: int = 0
    blobs: int = 0
    files: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


class Store(Protocol):
    """Keeps what was taken out. Safe to share between threads; a folder also between processes.

    Each method raises `StoreError` with one clear line when the store can't be read or written; then nothing of the
    call was written.
    """

    def put_batch(
        self,
        row: BatchRow,
        blobs: Mapping[str, Blob] = ...,
        documents: Sequence[Document] = ...,
        *,
        chain: Collection[bytes] = ...,
    ) -> BatchRow:
        """Commit a batch with all it refers to, or nothing.

        The first commit wins: where another batch of the same owner and parent stands at a key of `chain` (the chain
        hashes of the loser's request; its own key always counts), nothing is written and that batch is returned.
        A batch that is there already (same id) is returned as it stands. Raises `StoreError` when an original or
        the parent is neither given nor in the store, `ValueError` for a blob that is not named by its hash, a blob
        that the row does not name among its originals, or a ref that does not belong to its text.
        """
        ...

    def batches_at(self, owner: str, keys: Collection[bytes]) -> list[BatchRow]:
        """The owner's batches whose key is among these, in the order of their commits.

        Give a set when there are many.
        """
        ...

    def batches_with_result(self, owner: str, results: Collection[bytes]) -> list[BatchRow]:
        """The owner's batches whose result is among these, in the order of their commits."""
        ...

    def batch(self, id: str) -> BatchRow | None: ...

    def blob(self, hash: str) -> bytes:
        """The bytes with this sha256 (hex), checked. Raises `NotFound`."""
        ...

    def put_usage(
        self, key: bytes, value: bytes, *, owner: str, conversation: str, now_seconds: float | None = ...
    ) -> None:
        """Remember what the provider counted for the request with this chain. May be lost when the power fails."""
        ...

    def usage_at(self, keys: Collection[bytes], *, owner: str) -> dict[bytes, bytes]: ...

    def put_fact(self, key: str, value: bytes) -> None:
        """Remember something learned about a model or an endpoint; replaces what stood there."""
        ...

    def fact(self, key: str) -> bytes | None: ...

    def ref(self, text: str, *, owner: str) -> str:
        """What to name a text by: 12 digits of its hash, more where another text has the same 12.

        Compared with the owner's texts at least; a store may look at everything it holds.
        """
        ...

    def document(self, ref: str, *, conversation: str | None, owner: str) -> Document:
        """What a reference names in this conversation (None: in any of the owner's).

        The beginning of a reference is enough when it is unique and has 6 digits. Raises `NotFound`.
        """
        ...

    def owners(self) -> list[str]:
        """Whose content is kept here, sorted: for the person whose machine it is, who is none of them."""
        ...

    def documents(
        self,
        *,
        conversation: str | None,
        owner: str,
        path: str | None = ...,
        tool: str | None = ...,
        limit: int = ...,
        offset: int = ...,
    ) -> list[Document]:
        """What was taken out, newest first. `path` may be the end of a path (`auth.py`, `src/auth.py`)."""
        ...

    def search(
        self, words: str, *, conversation: str | None, owner: str, limit: int = ...
    ) -> list[tuple[Document, str]]:
        """Full text, best first, each with the lines around the first hit. Any text is a query, none is syntax.

        All words; if nothing has them all, all as beginnings of words; if still nothing, any of them.
        """
        ...

    def write_file(self, text: str) -> Path | None:
        """A plain file of a result for the agent's own tools; None where the store has no files.

        The file is named by the text's hash and is on disk when this returns.
        """
        ...

    def write_transcript(self, conversation: str, lines: Iterable[str], *, owner: str) -> Path | None:
        """The whole conversation as lines in a plain file; replaces the one before at once or not at all."""
        ...

    def purge(
        self,
        *,
        keep_days: float | None = ...,
        max_bytes: int | None = ...,
        conversation: str | None = ...,
        owner: str | None = ...,
        all: bool = ...,
        now_seconds: float | None = ...,
    ) -> PurgeStats:
        """Remove conversations for good: batches, content, index and files.

        `conversation` names one (of `owner`, else of every owner); `keep_days` takes those not used for so long;
        `max_bytes` those not used for longest until the rest fits; `all` takes everything, learned facts too. A batch
        that builds on a removed one goes with it; by age a conversation counts as used while one that builds on
        it is. Raises `ValueError` when nothing is named.
        """
        ...

    def close(self) -> None: ...


def encode(text: str) -> bytes:
    """UTF-8 that also carries lone surrogates, so that any string comes back as it was."""
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def text_hash(text: str) -> str:
    """The sha256 (hex) that a text is stored under and its reference is the beginning of."""
    return hashlib.sha256(encode(text)).hexdigest()


def bytes_of(blob: Blob) -> bytes:
    return blob if isinstance(blob, bytes) else blob()


def check_put(row: BatchRow, blobs: Mapping[str, Blob], documents: Sequence[Document]) -> list[tuple[str, int]]:
    """The hash and the size of each document's text; raises `ValueError` for what no store may take."""
    named = set(row.originals)
    for hash, blob in blobs.items():
        if hash not in named:
            raise ValueError(f"blob {hash[:REF_CHARS]} is not among the batch's originals")
        if isinstance(blob, bytes) and hashlib.sha256(blob).hexdigest() != hash:
            raise ValueError(f"blob {hash[:REF_CHARS]!r} is not named by its sha256")
    texts = []
    for document in documents:
        data = encode(document.text)
        hash = hashlib.sha256(data).hexdigest()
        if len(document.ref) < MIN_REF_CHARS or not hash.startswith(document.ref):
            raise ValueError(f"ref {document.ref!r} does not belong to its text ({hash[:REF_CHARS]})")
        texts.append((hash, len(data)))
    return texts


def known_among(known: Mapping[bytes, list[Item]], wanted: Collection[bytes]) -> Iterator[Item]:
    """What is known under the wanted hashes; cheap for a handful known and a set of thousands wanted."""
    if isinstance(wanted, Set) and len(known) < len(wanted):
        hits: Iterable[bytes] = [key for key in known if key in wanted]
    else:
        hits = {key for key in wanted if key in known}
    return (item for key in hits for item in known[key])


def first_rival(row: BatchRow, rows: Iterable[BatchRow]) -> BatchRow | None:
    """The batch that came first where this one wants to be; `rows` in the order of their commits."""
    return next((other for other in rows if other.parent == row.parent), None)


def ref_prefix(ref: str) -> str:
    """A reference as somebody typed it, made ready for comparison. Raises `NotFound` when it can't be one."""
    prefix = ref.strip().lower()
    if len(prefix) < MIN_REF_CHARS or len(prefix) > 64 or prefix.strip("0123456789abcdef"):
        raise NotFound(f"{ref[:80]!r} is no reference (6 to 64 hex digits)")
    return prefix


def choose(prefix: str, candidates: Iterable[tuple[str, str]]) -> str:
    """The one hash that a reference means, from (ref, hash) pairs whose hash begins with it. Raises `NotFound`.

    A reference that was shown in full means what it was shown for, although a longer one begins with it.
    """
    pairs = list(candidates)
    hashes = {hash for ref, hash in pairs if ref == prefix} or {hash for _, hash in pairs}
    if not hashes:
        raise NotFound(f"nothing is stored under {prefix}")
    if len(hashes) > 1:
        begin = ", ".join(sorted({ref for ref, hash in pairs if hash in hashes})[:5])
        raise NotFound(f"{prefix} is the beginning of several references: {begin}")
    return hashes.pop()


def unclashed(hash: str, others: Iterable[str]) -> str:
    """The shortest reference of 12 digits or more that no other of these hashes begins with."""
    clashing = [other for other in others if other != hash]
    length = REF_CHARS
    while any(other.startswith(hash[:length]) for other in clashing):
        length += 2
    return hash[:length]


def path_matches(stored: str, wanted: str) -> bool:
    """Whether a stored path may name the wanted file: equal, or the same from a separator on.

    A shorter stored path counts only for an absolute wanted one: then it is the same name seen from a folder.
    """
    stored, wanted = (path.replace("\\", "/").removeprefix("./") for path in (stored, wanted))
    if not stored or not wanted:
        return False
    if wanted.startswith("/") and _is_end_of(stored, wanted):
        return True
    return stored == wanted or _is_end_of(wanted, stored)


def _is_end_of(relative: str, path: str) -> bool:
    return not relative.startswith("/") and path.endswith("/" + relative)


def used_with_descendants(used: Mapping[Key, float], links: Iterable[tuple[Key, Key]]) -> dict[Key, float]:
    """When each conversation was last used, counting those that build on it; `links` are (child, parent)."""
    effective = dict(used)
    pairs = [(child, parent) for child, parent in links if child in effective and parent in effective]
    changed = True
    while changed:
        changed = False
        for child, parent in pairs:
            if effective[child] > effective[parent]:
                effective[parent] = effective[child]
                changed = True
    return effective


def with_descendants(removed: set[Key], rows: Iterable[tuple[Key, Key | None]]) -> set[Key]:
    """These batches and all that build on them; `rows` are (id, parent), parents before their children."""
    gone = set(removed)
    for id, parent in rows:
        if parent in gone:
            gone.add(id)
    return gone


def forget_unused(
    used: Mapping[Key, float],
    named: Collection[Key],
    forget: Callable[[Key], None],
    size_bytes: Callable[[], int],
    *,
    cutoff: float | None,
    max_bytes: int | None,
) -> None:
    """Forget these conversations, those last used before a moment, and the longest unused until the rest fits."""
    for key, seconds in list(used.items()):
        if key in named or (cutoff is not None and seconds < cutoff):
            forget(key)
    if max_bytes is not None:
        for key in sorted(used, key=used.__getitem__):
            if size_bytes() > max_bytes:
                forget(key)


def purge_cutoff_seconds(
    keep_days: float | None, max_bytes: int | None, conversation: str | None, all: bool, now_seconds: float | None
) -> float | None:
    """The moment before which unused conversations go; None when age is no matter. Checks the arguments."""
    if keep_days is None and max_bytes is None and conversation is None and not all:
        raise ValueError("say what to purge: keep_days, max_bytes, conversation or all")
    if (keep_days is not None and keep_days < 0) or (max_bytes is not None and max_bytes < 0):
        raise ValueError("keep_days and max_bytes can't be negative")
    if keep_days is None:
        return None
    return (time.time() if now_seconds is None else now_seconds) - keep_days * SECONDS_PER_DAY
