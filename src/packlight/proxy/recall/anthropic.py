"""Anthropic Messages: replies with calls of the recall tool, whole and streamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...types import Json
from .wire import NAME, Asked, Said, error_of, event_bytes, joined_usage, object_of

_CUT = ("max_tokens", "model_context_window_exceeded", "refusal")
_GROWS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
}
"""Delta -> its field, and the block's."""


def _is_recall(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_use" and block.get("name") == NAME


def _blocks(reply: Mapping[str, Any]) -> list[Json]:
    """Those that may be sent back: an empty text is refused."""
    content = reply.get("content")
    blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    return [b for b in blocks if b.get("type") != "text" or str(b.get("text", "")).strip()]


def read(reply: Mapping[str, Any]) -> Said:
    blocks = _blocks(reply)
    shown = [b for b in blocks if not _is_recall(b)]
    asked = [Asked(id=str(b.get("id")), arguments=b.get("input")) for b in blocks if _is_recall(b)]
    cut = reply.get("stop_reason") in _CUT
    return Said(
        items=({"role": "assistant", "content": blocks},) if blocks else (),
        shown=({"role": "assistant", "content": shown},) if shown else (),
        asked=() if cut else tuple(asked),
        ids=tuple(str(b.get("id")) for b in shown if b.get("type") == "tool_use"),
        text="".join(str(b["text"]) for b in shown if b.get("type") == "text"),
    )


def _results(asked: Sequence[Asked], texts: Sequence[str]) -> list[Json]:
    return [{"type": "tool_result", "tool_use_id": a.id, "content": text} for a, text in zip(asked, texts, strict=True)]


def results(asked: Sequence[Asked], texts: Sequence[str]) -> list[Json]:
    return [{"role": "user", "content": _results(asked, texts)}]


def beside(asked: Sequence[Asked], texts: Sequence[str]) -> tuple[list[Json], list[Json]]:
    return [], _results(asked, texts)


def joined(replies: Sequence[Json]) -> Json:
    content = [b for reply in replies for b in reply.get("content") or () if not _is_recall(b)]
    out = {**replies[-1], "id": replies[0].get("id"), "content": content}
    out["usage"] = joined_usage([reply.get("usage") for reply in replies])
    if out.get("stop_reason") == "tool_use" and not any(b.get("type") == "tool_use" for b in content):
        out["stop_reason"] = "end_turn"
    return out


class AnthropicStitch:
    def __init__(self) -> None:
        self._before: list[Json] = []
        """Usage of the replies before this one."""
        self._next = 0
        """Index of the client's next block."""
        self._calls = 0
        self.begin()

    def begin(self) -> None:
        self.is_over = False
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._arguments: dict[int, str] = {}
        self._places: dict[int, int] = {}
        self._hidden: set[int] = set()
        self._last: dict[str, Any] = {}
        self._held: list[dict[str, Any]] = []

    def event(self, raw: bytes, data: Json) -> bytes:
        kind = data.get("type") if isinstance(data, dict) else None
        if kind == "message_start":
            self._message = dict(data.get("message") or {})
            return b"" if self._before else raw
        if kind == "content_block_start":
            return self._started(raw, data)
        if kind in ("content_block_delta", "content_block_stop"):
            if kind == "content_block_delta":
                self._grow(data)
            return self._placed(raw, data)
        if kind in ("message_delta", "message_stop"):
            self._last = {**self._last, **data} if kind == "message_delta" else self._last
            self.is_over = kind == "message_stop"
            if not self._before and not self._hidden:
                return raw
            self._held.append(data)
            return b""
        return raw

    def _started(self, raw: bytes, data: dict[str, Any]) -> bytes:
        index, block = data.get("index", 0), dict(data.get("content_block") or {})
        self._blocks[index] = block
        if _is_recall(block):
            self._hidden.add(index)
            return b""
        self._calls += block.get("type") == "tool_use"
        self._places[index] = self._next
        self._next += 1
        return self._placed(raw, data)

    def _grow(self, data: dict[str, Any]) -> None:
        index, delta = data.get("index", 0), data.get("delta") or {}
        block, kind = self._blocks.setdefault(index, {}), delta.get("type")
        if kind in _GROWS:
            source, field = _GROWS[kind]
            block[field] = (block.get(field) or "") + str(delta.get(source) or "")
        elif kind == "input_json_delta":
            self._arguments[index] = self._arguments.get(index, "") + str(delta.get("partial_json") or "")
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta.get("citation")]

    def _placed(self, raw: bytes, data: dict[str, Any]) -> bytes:
        index = data.get("index", 0)
        if index in self._hidden:
            return b""
        place = self._places.get(index, index)
        return raw if place == index else event_bytes({**data, "index": place})

    def reply(self) -> Json:
        content = []
        for index, block in sorted(self._blocks.items()):
            text = self._arguments.get(index)
            content.append({**block, "input": object_of(text)} if text else block)
        usage = {**(self._message.get("usage") or {}), **(self._last.get("usage") or {})}
        return {**self._message, **(self._last.get("delta") or {}), "content": content, "usage": usage}

    def go_on(self) -> None:
        self._before.append(self.reply()["usage"])

    def end(self) -> bytes:
        return b"".join(event_bytes(self._ending(data)) for data in self._held)

    def _ending(self, data: dict[str, Any]) -> dict[str, Any]:
        if data.get("type") != "message_delta":
            return data
        delta, usage = dict(data.get("delta") or {}), data.get("usage") or {}
        if delta.get("stop_reason") == "tool_use" and not self._calls:
            delta["stop_reason"] = "end_turn"
        told = joined_usage([*self._before, self.reply()["usage"]])
        return {**data, "delta": delta, "usage": {key: told.get(key, value) for key, value in usage.items()}}

    def failure(self, status: int, body: Json) -> bytes:
        return event_bytes({"type": "error", "error": error_of(status, body)})


stitch = AnthropicStitch
