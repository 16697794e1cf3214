"""What a provider would bill for the requests that it received, and whether they were valid.

Tokens are chars/4 of each part in a canonical form. What stood at the beginning of an earlier request is read from the
cache (0.1), the rest written to it (1.25). Cache marks are not part of the text, and a string equals one text block.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from packlight import validate

READ, WRITTEN = 0.1, 1.25
CHARS_PER_TOKEN = 4


@dataclass
class Bill:
    """Of one session, request by request."""

    window_tokens: int
    cost: float = 0.0
    requests: int = 0
    breaks: int = 0
    """Requests that did not begin with all of the request before."""
    invalid: int = 0
    """Requests that break a rule of the API."""
    over_window: int = 0
    """Requests that a provider with that window would have refused."""
    peak_tokens: int = 0
    last: str = ""
    """The last request's text."""
    _seen: set[bytes] = field(default_factory=set)
    _before: list[bytes] = field(default_factory=list)

    def receive(self, body: bytes) -> None:
        request = json.loads(body)
        parts = list(_parts(request))
        tokens = [len(part) / CHARS_PER_TOKEN for part in parts]
        chain = list(_chain(parts))
        cached = next((n for n in range(len(chain), 0, -1) if chain[n - 1] in self._seen), 0)
        self.cost += READ * sum(tokens[:cached]) + WRITTEN * sum(tokens[cached:])
        self.requests += 1
        self.breaks += chain[: len(self._before)] != self._before
        self.invalid += bool(validate(request))
        total = sum(tokens) + request.get("max_tokens", 0)
        self.over_window += total > self.window_tokens
        self.peak_tokens = max(self.peak_tokens, round(sum(tokens)))
        self._seen.update(chain)
        self._before = chain
        self.last = json.dumps(request, ensure_ascii=False)


def _parts(request: dict[str, Any]) -> Iterator[str]:
    for key in ("tools", "system"):
        yield _canonical(request.get(key))
    for message in request["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield _canonical({**message, "content": blocks})


def _canonical(value: Any) -> str:
    return json.dumps(_unmarked(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def _chain(parts: list[str]) -> Iterator[bytes]:
    link = b""
    for part in parts:
        link = hashlib.sha256(link + part.encode("utf-8", "surrogatepass")).digest()
        yield link
