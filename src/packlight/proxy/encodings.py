"""What bodies and replies are packed in: `Content-Encoding` and `Accept-Encoding`."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import msgspec

from ..errors import InvalidRequest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["decoder", "decompressed", "readable_only", "reply_body"]

READABLE = ("gzip", "deflate", "zstd", "identity")
"""Encodings of a reply that can be looked into."""
MAX_BODY_BYTES = 512 << 20
"""No provider takes as much; a compressed body that grows beyond it is not looked at."""
MAX_PIECE_BYTES = 32 << 20
"""Of the text of a compressed reply, or of a piece of it."""


def decompressed(data: bytes, encoding: str) -> bytes:
    """A body as its text. Raises InvalidRequest for an encoding that is not known, and for data that is not in it."""
    names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
    for name in reversed(names):
        try:
            data = _unpacked(data, name)
        except (OSError, EOFError, zlib.error, zstd.ZstdError) as error:
            raise InvalidRequest(f"the body is not {name}: {error}") from None
    return data


def _unpacked(data: bytes, name: str) -> bytes:
    if name == "identity":
        return data
    if name in ("gzip", "x-gzip"):
        return _body(gzip.GzipFile(fileobj=BytesIO(data)).read(MAX_BODY_BYTES + 1))
    if name == "deflate":
        for window in (zlib.MAX_WBITS, -zlib.MAX_WBITS):  # some send it without its zlib header
            try:
                return _body(zlib.decompressobj(window).decompress(data, MAX_BODY_BYTES + 1))
            except zlib.error as error:
                failure = error
        raise failure
    if name == "zstd":
        return _body(zstd.ZstdFile(BytesIO(data)).read(MAX_BODY_BYTES + 1))
    raise InvalidRequest(f"the body is encoded as {name}, which is not known here")


def _body(data: bytes) -> bytes:
    if len(data) > MAX_BODY_BYTES:
        raise InvalidRequest(f"the body is larger than {MAX_BODY_BYTES >> 20} MB")
    return data


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
        return lambda data: _piece(unzip.decompress(data, MAX_PIECE_BYTES), unzip.unconsumed_tail == b"")
    if name == "zstd":
        unpack = zstd.ZstdDecompressor()
        return lambda data: _piece(unpack.decompress(data, MAX_PIECE_BYTES), unpack.needs_input or unpack.eof)
    return None


class TooLarge(Exception):
    """A piece that is more than what is looked into."""


def _piece(text: bytes, is_all: bool) -> bytes:
    if not is_all:
        raise TooLarge
    return text


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
