"""Signatures of thinking that hold only behind the conversation that it was made in, as Anthropic's later models sign.

A signature names what it was made behind, so that nothing has to be remembered to check it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

Json = Any
_THINKING = ("thinking", "redacted_thinking")
_NOT_TOLD = "x-anthropic-billing-header:"
"""Claude Code 2.1.332 begins its system prompt with this; it is another in every request, and no part of the prompt."""


def signature(request: Json) -> str:
    """For thinking with which the answer to this request begins: a digest of all before it, and of the thinking last
    kept there."""
    prefix, thoughts = hashlib.sha256(_head(request)), ""
    for _, sealed in _walk(request, prefix):
        thoughts = thoughts if sealed is None else sealed
    prefix.update(_role("assistant"))
    return f"{prefix.hexdigest()}.{_short(thoughts)}"


def unbound(request: Json) -> list[str]:
    """What the provider refuses: kept thinking behind another prefix, or behind other thinking than it was made behind.

    Thinking may go from the front, or all of it. Cache marks do not count, nor whether a text stands alone or in a
    list.
    """
    prefix, before = hashlib.sha256(_head(request)), ""
    wrong = []
    for where, sealed in _walk(request, prefix):
        if sealed is None:
            continue
        made, _, behind = sealed.partition(".")
        if made != prefix.hexdigest() or (before and behind != _short(before)):
            wrong.append(
                f"{where}: Invalid `signature` in `thinking` block. The block is bound to a different conversation: "
                "everything before it must be what it was when it was made."
            )
        before = sealed
    return wrong


def _walk(request: Json, prefix: Any) -> Iterator[tuple[str, str | None]]:
    """Each block: its place, its signature if it is thinking; `prefix` holds what stands before it."""
    for m, message in enumerate(request.get("messages") or ()):
        prefix.update(_role(message.get("role")))
        content = message.get("content")
        for b, block in enumerate([{"type": "text", "text": content}] if isinstance(content, str) else content or ()):
            if block.get("type") in _THINKING:
                yield f"messages.{m}.content.{b}", str(block.get("signature") or block.get("data"))
            else:
                yield f"messages.{m}.content.{b}", None
                prefix.update(_plain(block))


def _head(request: Json) -> bytes:
    system = request.get("system")
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system or []
    told = [block for block in blocks if not str(block.get("text")).startswith(_NOT_TOLD)]
    return _plain([told, request.get("tools")])


def _role(role: Json) -> bytes:
    return f"role {role}\n".encode()


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _plain(value: Json) -> bytes:
    return json.dumps(unmarked(value), sort_keys=True).encode() + b"\n"


def unmarked(value: Json) -> Json:
    """Without cache marks."""
    if isinstance(value, dict):
        return {k: unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [unmarked(v) for v in value] if isinstance(value, list) else value
