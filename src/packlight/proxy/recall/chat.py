"""OpenAI Chat Completions: replies with calls of the recall tool, whole and streamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...types import Json
from .wire import NAME, Asked, Said, error_of, event_bytes, joined_usage

_CUT = ("length", "content_filter")
_NOT_BACK = frozenset({"annotations", "refusal", "audio", "function_call"})
"""Fields of a reply that no request takes, or only as null."""
_BETWEEN = "\n\n"
"""Between the texts of two replies that become one."""


def _name(call: Mapping[str, Any]) -> str:
    return str((call.get("function") or {}).get("name") or "")


def _message(reply: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    choices = reply.get("choices") or [{}]
    return dict(choices[0].get("message") or {}), str(choices[0].get("finish_reason") or "")


def _entry(message: Mapping[str, Any], calls: Sequence[Json]) -> tuple[Json, ...]:
    """The message as an entry of a request; none where nothing is left of it."""
    fields = {k: v for k, v in message.items() if v is not None and k not in _NOT_BACK and k != "tool_calls"}
    if calls:
        fields["tool_calls"] = list(calls)
    elif not fields.get("content"):
        return ()
    return ({"role": "assistant", **fields, "content": fields.get("content") or None},)


def read(reply: Mapping[str, Any]) -> Said:
    message, finish = _message(reply)
    calls = [c for c in message.get("tool_calls") or () if isinstance(c, dict)]
    others = [c for c in calls if _name(c) != NAME]
    asked = [Asked(id=str(c.get("id")), arguments=c["function"].get("arguments")) for c in calls if _name(c) == NAME]
    return Said(
        items=_entry(message, calls),
        shown=_entry(message, others),
        asked=() if finish in _CUT else tuple(asked),
        ids=tuple(str(c.get("id")) for c in others),
        text=str(message.get("content") or ""),
    )


def results(asked: Sequence[Asked], texts: Sequence[str]) -> list[Json]:
    return [{"role": "tool", "tool_call_id": a.id, "content": t} for a, t in zip(asked, texts, strict=True)]


def beside(asked: Sequence[Asked], texts: Sequence[str]) -> tuple[list[Json], list[Json]]:
    return results(asked, texts), []


def joined(replies: Sequence[Json]) -> Json:
    messages = [_message(reply)[0] for reply in replies]
    calls = [c for c in messages[-1].get("tool_calls") or () if _name(c) != NAME]
    message = {k: v for k, v in messages[-1].items() if k != "tool_calls"}
    for key in ("content", "reasoning_content", "reasoning"):
        if texts := [m[key] for m in messages if isinstance(m.get(key), str) and m[key]]:
            message[key] = _BETWEEN.join(texts)
    if calls:
        message["tool_calls"] = calls
    choice = {**replies[-1]["choices"][0], "message": message}
    if choice.get("finish_reason") == "tool_calls" and not calls:
        choice["finish_reason"] = "stop"
    usage = joined_usage([reply.get("usage") for reply in replies])
    return {**replies[-1], "id": replies[0].get("id"), "choices": [choice], "usage": usage}


class ChatStitch:
    def __init__(self) -> None:
        self._before: list[Json] = []
        self._frame: dict[str, Any] = {}
        """What all chunks of a stream have in common, of the first one."""
        self._has_text = False
        self._next = 0
        """Index of the client's next call."""
        self.begin()

    def begin(self) -> None:
        self.is_over = False
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: list[dict[str, Any]] = []
        self._at: dict[int, int] = {}
        """Index on the wire -> which call: some servers give each its own id and all the same index."""
        self._waiting: dict[int, list[dict[str, Any]]] = {}
        """Pieces of calls whose name has not come yet."""
        self._places: dict[int, int] = {}
        self._separates = bool(self._before) and self._has_text
        self._finish = ""
        self._usage: Json = None
        self._held: list[bytes | dict[str, Any]] = []

    @property
    def _is_plain(self) -> bool:
        """Nothing had to be changed up to here."""
        return not self._before and len(self._places) == len(self._calls)

    def event(self, raw: bytes, data: Json) -> bytes:
        if data is None:  # [DONE]
            self.is_over = self.is_over or b"[DONE]" in raw
            return self._hold(raw, raw) if self._finish else raw
        if not isinstance(data, dict):
            return raw
        self._usage = data.get("usage") or self._usage
        self._frame = self._frame or {k: data[k] for k in ("id", "created") if k in data}
        choices = data.get("choices")
        if not choices or not isinstance(choices[0], dict):
            return self._hold(raw, data) if self._finish else raw
        return self._chunk(raw, data, choices[0])

    def _hold(self, raw: bytes, kept: bytes | dict[str, Any]) -> bytes:
        if self._is_plain:
            return raw
        self._held.append(kept)
        return b""

    def _chunk(self, raw: bytes, data: dict[str, Any], choice: dict[str, Any]) -> bytes:
        delta = self._delta(dict(choice.get("delta") or {}))
        finish = choice.get("finish_reason")
        self._finish = str(finish or self._finish)
        self.is_over = bool(self._finish)
        if self._is_plain:
            return raw
        out = b""
        if delta:
            out = self._made(data, {**choice, "delta": delta, "finish_reason": None})
        if finish:
            self._held.append({**data, "choices": [{**choice, "delta": {}}]})
        return out

    def _made(self, data: dict[str, Any], choice: dict[str, Any]) -> bytes:
        about = {k: v for k, v in data.items() if k != "usage"}
        return event_bytes({**about, **self._frame, "choices": [choice]}, named=False)

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        """The same for the client; what it says is gathered on the way."""
        pieces = delta.pop("tool_calls", None) or ()
        for key, value in delta.items():
            if isinstance(value, str) and key != "role":
                self._message[key] = (self._message.get(key) or "") + value
            elif isinstance(value, list):
                self._message[key] = [*(self._message.get(key) or ()), *value]
        if self._before:
            delta.pop("role", None)
        if delta.get("content"):
            if self._separates:
                delta["content"] = _BETWEEN + delta["content"]
            self._separates, self._has_text = False, True
        elif self._before:
            delta.pop("content", None)
        if shown := [p for piece in pieces if isinstance(piece, dict) for p in self._call(piece)]:
            delta["tool_calls"] = shown
        return delta

    def _call(self, piece: dict[str, Any]) -> list[dict[str, Any]]:
        """The pieces of calls that can be passed on now."""
        which = self._which(piece)
        call, function = self._calls[which], piece.get("function") or {}
        call |= {k: v for k, v in piece.items() if k not in ("index", "function") and v is not None}
        made = call["function"]
        made |= {k: v for k, v in function.items() if k not in ("name", "arguments") and v is not None}
        made["name"] = made["name"] or str(function.get("name") or "")
        made["arguments"] += str(function.get("arguments") or "")
        if made["name"] == NAME:
            return []
        waiting = [*self._waiting.pop(which, ()), piece]
        if not made["name"]:
            self._waiting[which] = waiting
            return []
        if which not in self._places:
            self._places[which] = self._next
            self._next += 1
        return [{**p, "index": self._places[which]} for p in waiting]

    def _which(self, piece: dict[str, Any]) -> int:
        index, id = piece.get("index") or 0, piece.get("id")
        known = self._at.get(index)
        if known is None or (id and self._calls[known].get("id") not in (None, id)):
            known = self._at[index] = len(self._calls)
            self._calls.append({"id": id, "type": "function", "function": {"name": "", "arguments": ""}})
        return known

    def reply(self) -> Json:
        calls = {"tool_calls": self._calls} if self._calls else {}
        choice = {"index": 0, "message": {**self._message, **calls}, "finish_reason": self._finish}
        return {**self._frame, "choices": [choice], "usage": self._usage}

    def go_on(self) -> None:
        self._before.append(self._usage)

    def end(self) -> bytes:
        return b"".join(held if isinstance(held, bytes) else self._ending(held) for held in self._held)

    def _ending(self, data: dict[str, Any]) -> bytes:
        out = {**data, **self._frame}
        if data.get("usage"):
            out["usage"] = joined_usage([*self._before, data["usage"]])
        if choices := data.get("choices"):
            stops = choices[0].get("finish_reason") == "tool_calls" and not self._next
            out["choices"] = [{**choices[0], "finish_reason": "stop"}] if stops else choices
        return event_bytes(out, named=False)

    def failure(self, status: int, body: Json) -> bytes:
        return event_bytes({"error": error_of(status, body)}, named=False)


stitch = ChatStitch
