"""Wire messages as units, one for each thing said, and back: for packages that have message types of their own.

Anthropic's messages may hold several results; each is a unit. Chat Completions have one unit a message. Standard
library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any


@dataclass(frozen=True)
class Unit:
    id: str
    """`message.block`: its place in the request."""
    role: str
    """user, assistant, tool or system."""
    text: str
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    """Id, tool and arguments."""
    call_id: str = ""

    @property
    def place(self) -> tuple[int, int]:
        message, _, block = self.id.partition(".")
        return int(message), int(block)

    @property
    def chars(self) -> int:
        return len(self.text) + sum(len(name) + len(json.dumps(arguments)) for _, name, arguments in self.calls)


@dataclass(frozen=True)
class Sent:
    """What a package sends: a unit as it is or with another text or arguments, or something new (no unit)."""

    unit: Unit | None
    text: str | None = None
    """None: as it is."""
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of the calls whose arguments were changed, by id."""
    role: str = "user"
    """Of something new."""


@dataclass
class Translation:
    """Of a history that grows: each message is read once."""

    format: str
    _units: list[list[Unit]] = field(default_factory=list)
    _read: list[Any] = field(default_factory=list)

    def units(self, messages: list[Any]) -> list[Unit]:
        read = len(self._read)
        if read > len(messages) or any(a is not b for a, b in zip(self._read, messages, strict=False)):
            self._units, read = [], 0
        for i in range(read, len(messages)):
            found = _anthropic(i, messages[i]) if self.format == "anthropic" else [_chat(i, messages[i])]
            self._units.append(list(found))
        self._read = list(messages)
        return [u for units in self._units for u in units]

    def back(self, sent: Iterable[Sent]) -> list[Any]:
        """Wire messages; those that nothing was done to are the objects given."""
        out: list[Any] = []
        for place, group in groupby(sent, lambda s: s.unit.place[0] if s.unit else None):
            if place is None:
                out += [{"role": s.role, "content": s.text} for s in group]
            else:
                out.append(self._message(place, list(group)))
        return out

    def _message(self, place: int, sent: list[Sent]) -> Any:
        message = self._read[place]
        if len(sent) == len(self._units[place]) and all(s.text is None and not s.arguments for s in sent):
            return message
        if self.format != "anthropic" or not isinstance(message["content"], list):
            return {**message, "content": sent[0].text}
        if message["role"] == "assistant":
            return {**message, "content": list(_said(message["content"], sent[0]))}
        blocks: list[Any] = []
        for s in sent:
            assert s.unit is not None
            blocks += _blocks(message["content"], s.unit, s.text)
        return {**message, "content": blocks}


def _anthropic(i: int, message: dict[str, Any]) -> Iterable[Unit]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if message["role"] == "assistant":
        calls = tuple((b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use")
        yield Unit(f"{i}.0", "assistant", _text(blocks), calls)
        return
    said = [b for b in blocks if b["type"] != "tool_result"]
    for n, block in enumerate(blocks):
        if block["type"] == "tool_result":
            yield Unit(f"{i}.{n}", "tool", _text(block.get("content") or ""), call_id=block["tool_use_id"])
        elif block is said[0]:
            yield Unit(f"{i}.{n}", "user", _text(said))


def _chat(i: int, message: dict[str, Any]) -> Unit:
    calls = tuple(
        (c["id"], c["function"]["name"], _arguments(c["function"]["arguments"]))
        for c in message.get("tool_calls") or ()
    )
    text = _text(message.get("content") or "")
    return Unit(f"{i}.0", message["role"], text, calls, message.get("tool_call_id", ""))


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"arguments": text}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(b["text"] for b in content if isinstance(b.get("text"), str))


def _said(content: list[Any], sent: Sent) -> Iterable[Any]:
    """The model's blocks, with another text or other arguments."""
    if sent.text:
        yield {"type": "text", "text": sent.text}
    for block in content:
        if block["type"] == "tool_use":
            yield {**block, "input": sent.arguments.get(block["id"], block["input"])}
        elif sent.text is None:
            yield block


def _blocks(content: list[Any], unit: Unit, text: str | None) -> list[Any]:
    if unit.role == "tool":
        block = content[unit.place[1]]
        return [block if text is None else {**block, "content": text}]
    said = [b for b in content if b["type"] != "tool_result"]
    return said if text is None else [{"type": "text", "text": text}]
