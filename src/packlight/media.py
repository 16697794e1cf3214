"""Images, documents and sounds in the blocks of the three formats, read from their headers alone.

Nothing is decoded beyond what the size of a picture or the pages of a document need, broken base64 is
tolerated, and nothing here knows what a token is: `tokens` counts, this module only looks.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .types import Media

_HEADER_CHARS = 65_536
"""Base64 read for the size of a picture. A JPEG may carry a thumbnail of 64 kB before its frame header;
what is longer is rare and then counts as of unknown size."""

_PDF_CHARS = 48_000_000
"""Base64 of a PDF that is searched for pages: no provider takes more than 32 MB in one request."""

_PDF_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_PDF_COUNT = re.compile(rb"/Count\s+(\d{1,6})")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,]{0,200}?;base64,", re.IGNORECASE)

_MEDIA_TYPES = frozenset(
    {
        "image",
        "document",
        "image_url",
        "input_image",
        "computer_screenshot",
        "input_file",
        "file",
        "input_audio",
        "video_url",
    }
)


def read_media(block: Any) -> list[Media]:
    """The media of one block or item of any of the three formats, those inside a tool result included."""
    return [read_one(found) for found in iter_media(block)]


def is_media(block: Any) -> bool:
    """Whether a block is itself an image, a document or a sound, and not a block that may hold some."""
    if type(block) is not dict and not isinstance(block, Mapping):
        return False
    kind = block.get("type")
    return isinstance(kind, str) and kind in _MEDIA_TYPES and _payload(block) is not None


def iter_media(block: Any) -> Iterator[Mapping[str, Any]]:
    """The media blocks in a block, a list of blocks, a message or a result, outermost first."""
    if isinstance(block, Mapping):
        if is_media(block):
            yield block
            return
        for key in ("content", "output"):
            inner = block.get(key)
            if isinstance(inner, (list, dict)):
                yield from iter_media(inner)
    elif isinstance(block, (list, tuple)):
        for item in block:
            yield from iter_media(item)


def read_one(block: Mapping[str, Any]) -> Media:
    """What one media block holds. Unknown shapes give a file of unknown size, never an error."""
    payload = _payload(block)
    if payload is None:
        return Media("file", "", 0)
    kind, media_type, data = payload
    if kind == "file":
        kind = _kind_of(media_type)
    if not data:
        return Media(kind, media_type, 0)
    if kind == "image":
        size = image_size(data)
        return Media(kind, media_type, len(data), *(size or (None, None)))
    if kind == "document" and "pdf" in media_type:
        return Media(kind, media_type, len(data), pages=pdf_pages(data))
    return Media(kind, media_type, len(data))


def _kind_of(media_type: str) -> Any:
    main = media_type.partition("/")[0]
    if main in ("image", "audio"):
        return main
    return "document" if media_type in ("application/pdf", "text/plain") else "file"


def _payload(block: Mapping[str, Any]) -> tuple[Any, str, str] | None:
    """`(kind, media type, base64)`; the base64 is empty when the data is named by URL or id."""
    match block:
        case {"type": "image" | "document" as kind, "source": Mapping() as source}:
            return _anthropic(kind, source)
        case {"type": "image_url", "image_url": Mapping() as link}:
            return _link("image", link.get("url"))
        case {"type": "image_url" | "input_image" | "computer_screenshot", "image_url": str() as url}:
            return _link("image", url)
        case {"type": "input_image" | "computer_screenshot"}:
            return "image", "", ""
        case {"type": "video_url"}:
            return "file", "video/*", ""
        case {"type": "input_audio", "input_audio": Mapping() as sound}:
            return "audio", f"audio/{sound.get('format') or 'wav'}", _text(sound.get("data"))
        case {"type": "file", "file": Mapping() as file}:
            return _file(file)
        case {"type": "input_file"}:
            return _file(block)
    return None


def _anthropic(kind: str, source: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Source kinds of platform.claude.com: base64, url, file; `text` and `content` documents are text."""
    if source.get("type") in ("text", "content"):
        return None
    media_type = _text(source.get("media_type")) or ("application/pdf" if kind == "document" else "image/*")
    return kind, media_type, _text(source.get("data"))


def _file(file: Mapping[str, Any]) -> tuple[str, str, str]:
    """`file_data` of Chat and Responses: a data URL, or bare base64 beside a `filename`."""
    data = _text(file.get("file_data"))
    link = _link("file", data) if data.startswith("data:") else None
    if link is not None:
        return link
    name = _text(file.get("filename")).lower()
    known = name.endswith(".pdf") or data.startswith("JVBERi") or not data
    return "file", "application/pdf" if known else "", data


def _link(kind: str, url: Any) -> tuple[str, str, str]:
    url = _text(url)
    found = _DATA_URL.match(url)
    if found is None:
        return kind, "", ""
    return kind, found[1] or "", url[found.end() :]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _decode(data: str, limit_chars: int) -> bytes:
    """The bytes at the start of a base64 text. What is no base64 ends it, without an error."""
    raw = data[:limit_chars].encode("ascii", "ignore").translate(_URL_SAFE, b" \r\n\t\"'")
    try:
        return binascii.a2b_base64(raw[: len(raw) // 4 * 4])
    except binascii.Error:
        pass
    good = re.match(rb"[A-Za-z0-9+/]*", raw)
    length = len(good[0]) // 4 * 4 if good else 0
    return binascii.a2b_base64(raw[:length])


_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def image_size(data: str) -> tuple[int, int] | None:
    """Width and height in pixels of a base64 PNG, JPEG, GIF, WebP or BMP; None when they can't be read."""
    raw = _decode(data, 96)
    for magic, reader in _READERS:
        if raw.startswith(magic):
            size = reader(raw)
            if size is None and reader is _jpeg:
                size = _jpeg(_decode(data, _HEADER_CHARS))
            return size if size and min(size) > 0 else None
    return None


def _png(raw: bytes) -> tuple[int, int] | None:
    if len(raw) < 24:
        return None
    return int.from_bytes(raw[16:20], "big"), int.from_bytes(raw[20:24], "big")


def _gif(raw: bytes) -> tuple[int, int] | None:
    if len(raw) < 10:
        return None
    return int.from_bytes(raw[6:8], "little"), int.from_bytes(raw[8:10], "little")


def _bmp(raw: bytes) -> tuple[int, int] | None:
    if len(raw) < 26:
        return None
    return int.from_bytes(raw[18:22], "little"), abs(int.from_bytes(raw[22:26], "little", signed=True))


def _webp(raw: bytes) -> tuple[int, int] | None:
    if len(raw) < 30 or raw[8:12] != b"WEBP":
        return None
    if raw[12:16] == b"VP8X":
        return 1 + int.from_bytes(raw[24:27], "little"), 1 + int.from_bytes(raw[27:30], "little")
    if raw[12:16] == b"VP8L":
        bits = int.from_bytes(raw[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return int.from_bytes(raw[26:28], "little") & 0x3FFF, int.from_bytes(raw[28:30], "little") & 0x3FFF


def _jpeg(raw: bytes) -> tuple[int, int] | None:
    """Walks the segments up to the frame header (SOF0..SOF15 without DHT, JPG and DAC)."""
    at = 2
    while at + 9 < len(raw):
        if raw[at] != 0xFF:
            return None
        marker = raw[at + 1]
        if marker == 0xFF:
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(raw[at + 7 : at + 9], "big"), int.from_bytes(raw[at + 5 : at + 7], "big")
        else:
            at += 2 + int.from_bytes(raw[at + 2 : at + 4], "big")
    return None


_READERS: Sequence[tuple[bytes, Any]] = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"\xff\xd8", _jpeg),
    (b"GIF8", _gif),
    (b"RIFF", _webp),
    (b"BM", _bmp),
)


def pdf_pages(data: str) -> int | None:
    """Pages of a base64 PDF; None when they can't be told (packed object streams, broken data).

    Counts `/Type /Page` and takes the largest `/Count` of a page tree when that is more.
    """
    raw = _decode(data, _PDF_CHARS)
    if not raw.startswith(b"%PDF"):
        return None
    leaves = len(_PDF_PAGE.findall(raw))
    trees = [int(count) for count in _PDF_COUNT.findall(raw)] if b"/Pages" in raw else []
    return max([leaves, *trees]) or None
