"""What comes back: the events of a stream as they arrive, and what they and whole replies tell."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from ..integrations.events import error_in, has_begun, usage_in

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["READABLE", "Stream", "decoder", "readable_only"]

READABLE = ("gzip", "deflate", "zstd", "identity")
"""Encodings of a reply that can be looked into."""
MAX_EVENT_BYTES = 16 << 20
READ_AHEAD_BYTES = 1 << 20
"""So much of a stream is held back at most while its answer has not begun."""
_TELLING = (b'"usage"', b"_stop", b"response.", b"[DONE]")
"""In every event that tells something once the answer has begun."""
MAX_PIECE_BYTES = 32 << 20
"""Of the text of a compressed reply, or of a piece of it."""


def readable_only(accept_encoding: str) -> str:
    """An Accept-Encoding without what can't be looked into here (br); as it was where there is nothing of it."""
    names = [name.strip() for name in accept_encoding.split(",")]
    kept = [n for n in names if n.partition(";")[0].strip().lower() in READABLE]
    return accept_encoding if len(kept) == len(names) else ", ".join(kept) or "identity"


def decoder(encoding: str) -> Callable[[bytes], bytes] | None:
    """What makes text of a reply's bytes, piece by piece; None for an encoding that is not known.

    It raises TooLarge for a piece that grows out of all proportion.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return lambda data: data
    if name in ("gzip", "x-gzip", "deflate"):
        unzip = zlib.decompressobj(zlib.MAX_WBITS | 32)
        return lambda data: _limited(unzip.decompress(data, MAX_PIECE_BYTES), unzip.unconsumed_tail == b"")
    if name == "zstd":
        unpack = zstd.ZstdDecompressor()
        return lambda data: _limited(unpack.decompress(data, MAX_PIECE_BYTES), unpack.needs_input or unpack.eof)
    return None


class TooLarge(Exception):
    """A piece that is more than what is looked into."""


def _limited(text: bytes, is_all: bool) -> bytes:
    if not is_all:
        raise TooLarge
    return text


class Stream:
    """Server-sent events, fed as bytes come. Knows when the answer has begun, and gathers what was counted."""

    def __init__(self, decode: Callable[[bytes], bytes] | None) -> None:
        self._decode = decode
        self._rest = b""
        self.begun = False
        """A part of the answer has come, or something that can't be read."""
        self.error: Any = None
        """The event that refuses the request, if one came before the answer."""
        self.usage: dict[str, Any] = {}
        self.is_complete = False

    @property
    def is_answer(self) -> bool:
        """It has begun, and not with an error."""
        return self.begun and self.error is None

    def feed(self, data: bytes) -> None:
        """Never raises: what can't be read has begun, and is not looked at any further."""
        if self._decode is None:
            self.begun = True
            return
        try:
            self._rest += self._decode(data)
            for event in self._events():
                self._note(event)
        except Exception:  # whatever an upstream sends, the client gets it
            self._blind()
        if len(self._rest) > MAX_EVENT_BYTES:
            self._blind()

    def _blind(self) -> None:
        self._decode, self.begun, self._rest = None, True, b""

    def _events(self) -> Iterator[Any]:
        """The data of whole events; only those are parsed that can tell something here."""
        text = self._rest.replace(b"\r\n", b"\n") if b"\r" in self._rest else self._rest
        if self.begun and not any(hint in text for hint in _TELLING):  # the answer itself, as nearly all is
            self._rest = text.rpartition(b"\n\n")[2]
            return
        *whole, self._rest = text.split(b"\n\n")
        for event in whole:
            lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
            data = b"\n".join(lines)
            if data == b"[DONE]":
                self.is_complete = True
            elif data and (not self.begun or b'"usage"' in data or b"_stop" in data or b"response." in data[:200]):
                try:
                    yield msgspec.json.decode(data)
                except (msgspec.MsgspecError, UnicodeError):
                    self.begun = True

    def _note(self, event: Any) -> None:
        if not isinstance(event, Mapping):
            return
        if not self.begun and error_in(event) is not None:
            self.error = event
        self.begun = self.begun or has_begun(event)
        self.usage |= usage_in(event)
        kind = event.get("type")
        self.is_complete = self.is_complete or kind in ("message_stop", "response.completed", "response.incomplete")


def reply_body(data: bytes, encoding: str) -> Any:
    """A whole reply as JSON, as text where it is none; None when it can't be read."""
    decode = decoder(encoding)
    try:
        text = decode(data) if decode is not None else None
    except Exception:  # whatever an upstream sends, the client gets it
        return None
    if not text:
        return None if text is None else ""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text.decode("utf-8", "replace")
