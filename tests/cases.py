"""The small inputs that broke somebody's compactor, and the recorded-like histories, ready to use.

`tests/data/bugs.jsonl` writes big inputs short: `{"$rep": ["ab", 3]}` is a text, `{"$times": [n, [..]]}`
is spliced into its list, and so on; `expand` makes plain JSON of them.
"""

from __future__ import annotations

import base64
import functools
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
Json = Any


def expand(value: Json, i: int | None = None) -> Json:
    """The value with every constructor carried out; `{i}` becomes the round of the nearest `$times`."""
    if isinstance(value, str):
        return value if i is None else value.replace("{i}", str(i))
    if isinstance(value, list):
        return [item for each in value for item in _spread(each, i)]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, argument),) = value.items()
        if name in _MAKERS:
            return _MAKERS[name](argument, i)
    return {key: expand(item, i) for key, item in value.items()}


def _spread(item: Json, i: int | None) -> Iterator[Json]:
    if isinstance(item, dict) and set(item) == {"$times"}:
        count, body = item["$times"]
        for round_ in range(count):
            yield from expand(body, round_)
    else:
        yield expand(item, i)


def _rep(argument: Json, i: int | None) -> str:
    text, count = argument
    return expand(text, i) * count


def _lines(argument: Json, i: int | None) -> str:
    text, count = argument
    return "\n".join(text.replace("{i}", str(line)) for line in range(count))


_MAKERS = {
    "$rep": _rep,
    "$lines": _lines,
    "$cat": lambda parts, i: "".join(expand(part, i) for part in parts),
    "$cp": lambda points, i: "".join(map(chr, points)),
    "$json": lambda value, i: json.dumps(expand(value, i), ensure_ascii=False),
    "$png": lambda size, i: png(*size),
    "$b64": lambda count, i: base64.b64encode(_noise(count)).decode(),
}


def _noise(count: int) -> bytes:
    """Bytes that do not compress, the same each time."""
    state, out = 12345, bytearray()
    while len(out) < count:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out += state.to_bytes(8, "little")
    return bytes(out[:count])


@functools.cache
def png(width: int, height: int) -> str:
    """A real grey PNG of that size, as base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\x80" * width) * height, 9)
    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    ).decode()


@functools.cache
def pdf(pages: int, size_bytes: int = 0) -> str:
    """A minimal PDF with so many pages, padded to a size, as base64."""
    kids = " ".join(f"{3 + n} 0 R" for n in range(pages))
    parts = [
        "%PDF-1.4",
        "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj",
        f"2 0 obj<</Type/Pages/Kids[{kids}]/Count {pages}>>endobj",
    ]
    parts += [f"{3 + n} 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]>>endobj" for n in range(pages)]
    raw = "\n".join(parts).encode()
    padding = b"\n%" + base64.b64encode(_noise(max(0, size_bytes - len(raw)) * 3 // 4))
    trailer = f"\ntrailer<</Size {3 + pages}/Root 1 0 R>>\n%%EOF".encode()
    return base64.b64encode(raw + padding + trailer).decode()


@functools.cache
def bug_lines() -> dict[str, Json]:
    """Every case by its id, constructors not yet carried out."""
    lines = (DATA / "bugs.jsonl").read_text(encoding="utf-8").splitlines()
    return {case["id"]: case for case in map(json.loads, lines)}


def bug(case_id: str) -> Json:
    """One case, its input carried out."""
    case = bug_lines()[case_id]
    return {**case, "input": expand(case["input"])}


REQUEST_KEYS = ("model", "system", "tools", "thinking", "instructions", "messages", "input", "previous_response_id")


def request_of(given: Json) -> Json:
    """The part of a case's input that goes to an API."""
    return {
        key: given[key]
        for key in REQUEST_KEYS
        if given.get(key) is not None and not (key == "tools" and "n" in given[key])
    }


FORMATS = {"anthropic": "anthropic", "openai_chat": "chat", "openai_responses": "responses"}


def history_files() -> list[Path]:
    return sorted((DATA / "histories").glob("*/*.json"))


def load_history(path: Path) -> tuple[str, Json]:
    """The format of a history file and its request body."""
    body = json.loads(path.read_text(encoding="utf-8"))
    request = {key: value for key, value in body.items() if key not in ("name", "format", "notes")}
    if request.get("thinking") is True:
        request["thinking"] = {"type": "adaptive"}
    return FORMATS[path.parent.name], request


def strings(value: Json) -> Iterator[str]:
    """Every text inside a JSON value, decoded JSON arguments included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def visible(value: Json) -> str:
    """All that a model could read in a request, one text a line."""
    return "\n".join(strings(value))
