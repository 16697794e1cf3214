"""Signatures of thinking that hold only behind the conversation that it was made in, as Anthropic's later models sign.

A signature names what it was made behind, so that nothing has to be remembered to check it. So does the signature of a
compaction block: what is bound to the messages it stands for stays valid behind it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = Any
_THINKING = ("thinking", "redacted_thinking")
_NOT_TOLD = "x-anthropic-billing-header:"
"""Claude Code 2.1.332 begins its system prompt with this; it is another in every request, and no part of the prompt."""


@dataclass
class _Prefix:
    """What stands before a place: a chain of digests, so that it can be taken up again from its last one."""

    head: str
    state: str
    role: str = ""
    thoughts: str = ""
    """The signature of the last thinking kept."""

    def add(self, piece: bytes) -> None:
        self.state = hashlib.sha256(self.state.encode() + piece).hexdigest()

    def begin(self, role: str) -> None:
        self.add(f"role {role}\n".encode())
        self.role = role


def signature(request: Json) -> str:
    """For thinking with which the answer to this request begins: a digest of all before it, and of the thinking last
    kept there."""
    prefix = _at_end(request)
    prefix.begin("assistant")
    return f"{prefix.state}.{_short(prefix.thoughts)}"


def compaction_signature(request: Json, content: str) -> str:
    """Of the block that is to stand for all messages of this request."""
    prefix = _at_end(request)
    return ".".join([prefix.state, prefix.head, prefix.role, _short(prefix.thoughts), _short(content)])


def is_signed(block: Json) -> bool:
    """Whether a compaction block has a signature of ours, made for this very content."""
    made = str(block.get("signature")).split(".")
    return len(made) == 5 and made[4] == _short(str(block.get("content")))


def unbound(request: Json) -> list[str]:
    """What the provider refuses: kept thinking behind another prefix, or behind other thinking than it was made behind.

    Thinking may go from the front, or all of it. Cache marks do not count, nor whether a text stands alone or in a
    list.
    """
    prefix = _begun(request)
    wrong = []
    for where, sealed in _walk(request, prefix):
        if sealed is None:
            continue
        made, _, behind = sealed.partition(".")
        if made != prefix.state or (prefix.thoughts and behind != _short(prefix.thoughts)):
            wrong.append(
                f"{where}: Invalid `signature` in `thinking` block. The block is bound to a different conversation: "
                "everything before it must be what it was when it was made."
            )
        prefix.thoughts = sealed
    return wrong


def _at_end(request: Json) -> _Prefix:
    prefix = _begun(request)
    for _, sealed in _walk(request, prefix):
        prefix.thoughts = prefix.thoughts if sealed is None else sealed
    return prefix


def _begun(request: Json) -> _Prefix:
    head = hashlib.sha256(_head(request)).hexdigest()
    return _Prefix(head=head, state=head)


def _walk(request: Json, prefix: _Prefix) -> Iterator[tuple[str, str | None]]:
    """Each block: its place, its signature if it is thinking; `prefix` holds what stands before it."""
    for m, message in enumerate(request.get("messages") or ()):
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        if m == 0 and blocks and blocks[0].get("type") == "compaction":
            _resume(prefix, blocks[0])
            blocks = blocks[1:]
        elif m == 1 and message.get("role") == prefix.role:
            prefix.add(b"merged")  # into the last of those that the block stands for
        if m or blocks:
            prefix.begin(str(message.get("role")))
        for b, block in enumerate(blocks):
            if block.get("type") in _THINKING:
                yield f"messages.{m}.content.{b}", str(block.get("signature") or block.get("data"))
            else:
                yield f"messages.{m}.content.{b}", None
                prefix.add(_plain(block))


def _resume(prefix: _Prefix, block: Json) -> None:
    """Where the messages ended that the block stands for; elsewhere when system or tools are others now."""
    state, head, role, *_ = [*str(block.get("signature")).split("."), "", "", ""]
    prefix.state, prefix.role = state, role
    if head != prefix.head:
        prefix.add(b"another head")


def _head(request: Json) -> bytes:
    system = request.get("system")
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system or []
    told = [block for block in blocks if not str(block.get("text")).startswith(_NOT_TOLD)]
    return _plain([told, request.get("tools")])


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _plain(value: Json) -> bytes:
    return json.dumps(unmarked(value), sort_keys=True).encode() + b"\n"


def unmarked(value: Json) -> Json:
    """Without cache marks."""
    if isinstance(value, dict):
        return {k: unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [unmarked(v) for v in value] if isinstance(value, list) else value
