"""Request bodies on the wire: taken apart once, put together again byte for byte where nothing was changed.

A client sends its full history each time. What it sent before is known by its bytes and never parsed again: the same
bytes give the same object, which is what makes the engine's own work grow with what is new.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..errors import InvalidRequest
from ..formats import encode_as_is
from ..jsonio import dump, load
from ..types import Json

__all__ = ["Body", "Memo"]

MEMO_BYTES = 128 << 20
"""Some sixty conversations of a megabyte, as many as the engine keeps read; all of it is memory of the process."""
_ENTRY_BYTES = 400
"""What an entry weighs beside its text and its value, about."""

_NEW: Json = object()

_envelope = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])


class Memo:
    """JSON texts that were parsed before, least recently used first out. Safe to share between threads."""

    def __init__(self, max_bytes: int = MEMO_BYTES) -> None:
        self._values: OrderedDict[bytes, Json] = OrderedDict()
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = threading.Lock()

    def value(self, text: bytes) -> Json:
        """What the text says; the same object for the same bytes. Raises InvalidRequest."""
        return self.values([text])[0]

    def values(self, texts: Sequence[bytes]) -> list[Json]:
        """What each text says: a long history is looked up at once, and only what is new in it is parsed."""
        with self._lock:
            found = [self._known(text) for text in texts]
        return [self._added(text, load(text)) if v is _NEW else v for text, v in zip(texts, found, strict=True)]

    def _known(self, text: bytes) -> Json:
        value = self._values.get(text, _NEW)
        if value is not _NEW:
            self._values.move_to_end(text)
        return value

    def _added(self, text: bytes, value: Json) -> Json:
        """The value, or that of whoever was first."""
        with self._lock:
            if text in self._values:
                return self._values[text]
            self._values[text] = value
            self._bytes += _weight(text)
            while self._bytes > self._max_bytes:
                old, _ = self._values.popitem(last=False)
                self._bytes -= _weight(old)
        return value


def _weight(text: bytes) -> int:
    """Of the text, and of a value about as large."""
    return 2 * len(text) + _ENTRY_BYTES


class Body:
    """A request's body: `request` for the engine, and the bytes that each part of it came from."""

    def __init__(self, text: bytes, list_key: str, memo: Memo) -> None:
        """Raises InvalidRequest when it is no JSON object with that list, or one nested too deep."""
        self.text = text
        self._list_key = list_key
        self._texts: dict[str, bytes] = {}
        self._item_texts: dict[int, bytes] = {}
        self.request: dict[str, Json] = {}
        try:
            parts = {key: bytes(part) for key, part in _envelope.decode(text).items()}
            self._read(parts, memo)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):  # legal but odd, or no JSON
            self._read_oddly(load(text))
        if not isinstance(self.request.get(list_key), (list, str)):
            raise InvalidRequest(f"a request has a list `{list_key}`")

    def _read(self, parts: Mapping[str, bytes], memo: Memo) -> None:
        self._texts = dict(parts)
        for key, text in parts.items():
            if key != self._list_key or not text.lstrip().startswith(b"["):
                self.request[key] = memo.value(text)
                continue
            texts = [bytes(raw) for raw in _list.decode(text)]
            items = memo.values(texts)
            self._item_texts = {id(item): t for item, t in zip(items, texts, strict=True)}
            self.request[key] = items

    def _read_oddly(self, value: Json) -> None:
        if not isinstance(value, dict):
            raise InvalidRequest(f"a request is an object, not {type(value).__name__}")
        self.request, self._texts, self._item_texts = value, {}, {}

    def encoded(self, request: Mapping[str, Any]) -> bytes:
        """A request made from this one: what is the same object keeps its bytes."""
        if not self._texts:
            return dump(dict(request))
        parts = [encode_as_is(key) + b":" + self._text(key, value) for key, value in request.items()]
        return b"{" + b",".join(parts) + b"}"

    def _text(self, key: str, value: Any) -> bytes:
        if key in self._texts and value is self.request.get(key):
            return self._texts[key]
        if key == self._list_key and isinstance(value, list):
            known = self._item_texts
            return b"[" + b",".join([known.get(id(item)) or encode_as_is(item) for item in value]) + b"]"
        return encode_as_is(value)
