"""A session without its text: what others may see of it, and still enough to replay it.

Every line of text becomes one of the same length that holds, for each name in it, a keyed hash of the name, and a keyed
hash of the line; names and lines that were equal are equal again. Kept are sizes, times (from the first call on),
usage, roles, the kinds of blocks, the names of well-known tools and of their arguments, and the numbers in front of a
listing's lines. The key is random, new for each trace, and kept nowhere.

So cost, later references and quotes of whole lines come out as in the session itself; what needs words (a name in
place, rules, the user's words, files named in a shell command, a quote that begins inside a line) does not.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from ..summary.files import KNOWN_KEYS
from ..summary.wording import COMMAND_KEYS, PATH_KEYS
from ..types import Json
from .loss.identifiers import identifiers
from .session import Session, Turn

VERSION = 1
KIND = "packlight_trace"

_LISTING = re.compile(r"^ *\d{1,7}[→\t]")
_PATCH = "*** Begin Patch"
_PATCH_HEAD = re.compile(
    r"^(\*\*\* (?:Begin Patch|End Patch|Update File: |Add File: |Delete File: |Move to: )?|@@ ?|[+ -])"
)
_NAME_CHARS, _LINE_CHARS = 9, 8
_ALPHABET = "abcdefghijklmnop"
_SMALL = 100
"""Smaller numbers are no names."""

_WORD = re.compile(r"[a-z][a-z_/+-]{0,39}")
_KEPT = frozenset({"type", "role", "is_error", "status", "media_type", "phase", "stop_reason"})
"""Fields whose value is the API's word."""
_IDS = frozenset({"id", "tool_use_id", "call_id", "tool_call_id", "item_id"})
_ARGUMENTS = frozenset({"input", "arguments"})
_DATA = frozenset({"data", "image_url", "url", "file_data", "signature"})
"""Left empty: images, documents, signatures."""
_ARGUMENT_NAMES = frozenset([*PATH_KEYS, *COMMAND_KEYS, *KNOWN_KEYS])
_TOOLS = frozenset(
    [
        *("read", "write", "edit", "multiedit", "bash", "grep", "glob", "ls", "task", "agent", "todowrite", "webfetch"),
        *("websearch", "notebookedit", "view", "find", "shell", "exec_command", "write_stdin", "apply_patch"),
        *("update_plan", "view_image", "str_replace_editor", "str_replace_based_edit_tool", "read_file", "write_file"),
        *("edit_file", "replace", "create_file", "list_directory", "search_files", "run_shell_command"),
    ]
)
"""Well-known tools: their names say nothing of a session."""


def trace(session: Session, *, key: bytes | None = None) -> Iterator[dict[str, Any]]:
    """The records of a session's trace. The session is not changed; `key` is for tests."""
    mask = _Mask(key or secrets.token_bytes(32))
    start = next((t.seconds for s in session.segments for t in s.turns if t.seconds is not None), 0.0)
    about = {"format": session.format, "model": session.model, "reader": session.reader}
    yield {"type": KIND, "version": VERSION, **about, "head": mask.head(session.head)}
    for segment in session.segments:
        yield {"type": "segment"}
        for message in segment.messages:
            yield {"type": "message", "message": mask.message(message)}
        for turn in segment.turns:
            yield _turn(turn, start)


def _turn(turn: Turn, start: float) -> dict[str, Any]:
    seconds = None if turn.seconds is None else round(turn.seconds - start, 3)
    return {"type": "turn", "end": turn.end, "seconds": seconds, "model": turn.model, "usage": _numbers(turn.usage)}


def _numbers(value: Json) -> Json:
    """The numbers of a usage, and nothing else."""
    if isinstance(value, Mapping):
        found = {k: _numbers(v) for k, v in value.items()}
        return {k: v for k, v in found.items() if v is not None}
    return value if isinstance(value, (int, float)) else None


class _Mask:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def head(self, head: Mapping[str, Json]) -> dict[str, Json]:
        """System prompt and tools as one text of their size, where the file has them."""
        if not head:
            return {}
        return {"instructions": self.text("\n".join(json.dumps(v, ensure_ascii=False) for v in head.values()))}

    def message(self, value: Json) -> Json:
        if isinstance(value, Mapping):
            return {k: self._field(k, v) for k, v in value.items() if k != "cache_control"}
        if isinstance(value, list):
            return [self.message(v) for v in value]
        return self.text(value) if isinstance(value, str) else value

    def _field(self, name: str, value: Json) -> Json:
        if name in _KEPT and (not isinstance(value, str) or _WORD.fullmatch(value)):
            return value
        if name in _IDS:
            return self.name(value) if isinstance(value, str) else value
        if name == "name" and isinstance(value, str):
            return value if value.lower() in _TOOLS else self.name(value)
        if name in _ARGUMENTS:
            return self._arguments(value)
        if name in _DATA and isinstance(value, str):
            return ""
        return self.message(value)

    def _arguments(self, value: Json) -> Json:
        if not isinstance(value, str):
            return self._argument(value)
        try:
            decoded = json.loads(value)
        except ValueError:
            return self.text(value)
        return json.dumps(self._argument(decoded)) if isinstance(decoded, (dict, list)) else self.text(value)

    def _argument(self, value: Json) -> Json:
        if isinstance(value, Mapping):
            return {k if k in _ARGUMENT_NAMES else self.name(k): self._named(k, v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._argument(v) for v in value]
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _SMALL:
            return value if abs(value) < 100 * _SMALL else int(self.name(str(abs(value))))
        return value

    def _named(self, name: str, value: Json) -> Json:
        if name in PATH_KEYS and isinstance(value, str) and value.strip("/"):
            return "/" * value.startswith("/") + self.name(value)
        return self._argument(value)

    def text(self, text: str) -> str:
        if _PATCH in text:
            return "\n".join(map(self._patched, text.split("\n")))
        return "\n".join(map(self._listed, text.split("\n")))

    def _listed(self, line: str) -> str:
        number = _LISTING.match(line)
        return number[0] + self.line(line[number.end() :]) if number else self.line(line)

    def _patched(self, line: str) -> str:
        head = _PATCH_HEAD.match(line)
        return head[0] + self.line(line[head.end() :]) if head else self.line(line)

    def line(self, line: str) -> str:
        """As long as it was, if its names leave room."""
        if not line.strip():
            return line
        found = sorted(identifiers(line))
        if found == [line]:
            return self.name(line)
        words = [*map(self.name, found), self._letters(line, min(len(line), _LINE_CHARS))]
        text = " ".join(words)
        return text + self._filler(line, len(line) - len(text))

    def name(self, name: str) -> str:
        """For a path one hash for each folder, so that a path and its end still match."""
        if "/" in name.strip("/"):
            return "/".join(self.name(p) for p in name.split("/") if p)
        if name.isdigit():
            return "8" + str(int.from_bytes(self._hash(name)[:6], "big") % 10**8).zfill(8)
        return "x7" + self._letters(name, _NAME_CHARS) + ("" if "." not in name else ".py")

    def _filler(self, line: str, chars: int) -> str:
        words: list[str] = []
        while chars > 2:
            size = min(chars - 1, 5)
            words.append(self._letters(f"{line} {len(words)}", size))
            chars -= size + 1
        return "".join(f" {w}" for w in words)

    def _letters(self, text: str, count: int) -> str:
        return "".join(_ALPHABET[b & 15] for b in self._hash(text)[:count])

    def _hash(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=32).digest()
