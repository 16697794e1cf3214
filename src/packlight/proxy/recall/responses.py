"""OpenAI Responses: replies with calls of the recall tool, whole and streamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...formats import format_named
from ...types import Json
from .wire import NAME, Asked, Said, error_of, event_bytes, joined_usage

_LAST = ("response.completed", "response.incomplete", "response.failed")
_FIRST = ("response.created", "response.queued", "response.in_progress")


def _is_recall(item: Json) -> bool:
    return isinstance(item, dict) and item.get("type") == "function_call" and item.get("name") == NAME


def read(reply: Mapping[str, Any]) -> Said:
    fmt = format_named("responses")
    items = [item for item in reply.get("output") or () if isinstance(item, dict)]
    shown = [item for item in items if not _is_recall(item)]
    parts = [part for item in shown for part in fmt.parts(item)]
    asked = [Asked(id=str(i.get("call_id")), arguments=i.get("arguments")) for i in items if _is_recall(i)]
    return Said(
        items=tuple(items),
        shown=_attached(items, shown),
        asked=tuple(asked) if reply.get("status") in (None, "completed") else (),
        ids=tuple(part.call_id for part in parts if part.kind == "call" and not part.server),
        text="".join(part.text for part in parts if part.kind == "text"),
    )


def _attached(items: Sequence[Json], shown: Sequence[Json]) -> tuple[Json, ...]:
    """Without reasoning whose item is gone: it is refused alone."""
    lost = {id(a) for a, b in zip(items, items[1:], strict=False) if _is_recall(b) and a.get("type") == "reasoning"}
    return tuple(item for item in shown if id(item) not in lost)


def results(asked: Sequence[Asked], texts: Sequence[str]) -> list[Json]:
    return [
        {"type": "function_call_output", "call_id": a.id, "output": text} for a, text in zip(asked, texts, strict=True)
    ]


def beside(asked: Sequence[Asked], texts: Sequence[str]) -> tuple[list[Json], list[Json]]:
    return results(asked, texts), []


def joined(replies: Sequence[Json]) -> Json:
    output = [item for reply in replies for item in reply.get("output") or () if not _is_recall(item)]
    usage = joined_usage([reply.get("usage") for reply in replies])
    return {**replies[-1], "id": replies[0].get("id"), "output": output, "usage": usage}


class ResponsesStitch:
    def __init__(self) -> None:
        self._before: list[Json] = []
        """The replies before this one."""
        self._number: int | None = None
        """Of the client's next event."""
        self._next = 0
        """Index of the client's next item."""
        self.begin()

    def begin(self) -> None:
        self.is_over = False
        self._number = self._number if self._before else None
        self._items: dict[int, Json] = {}
        self._places: dict[int, int] = {}
        self._hidden: set[int] = set()
        self._last: dict[str, Any] = {}

    def event(self, raw: bytes, data: Json) -> bytes:
        kind = data.get("type") if isinstance(data, dict) else None
        if kind is None or (kind in _FIRST and self._before):
            return raw if kind is None else b""
        if kind in _LAST:
            self._last, self.is_over = data, True
            return b"" if self._before or self._hidden else raw
        index = data.get("output_index")
        if index is not None and self._is_hidden(kind, index, data.get("item")):
            return b""
        return self._numbered(raw, data, self._place(index))

    def _is_hidden(self, kind: str, index: int, item: Json) -> bool:
        if kind == "response.output_item.done":
            self._items[index] = item
        if _is_recall(item):
            self._hidden.add(index)
        return index in self._hidden

    def _place(self, index: int | None) -> int | None:
        if index is None:
            return None
        if index not in self._places:
            self._places[index] = self._next
            self._next += 1
        return self._places[index]

    def _numbered(self, raw: bytes, data: dict[str, Any], place: int | None) -> bytes:
        about = {} if place is None else {"output_index": place}
        number = data.get("sequence_number")
        if isinstance(number, int):
            self._number = number if self._number is None else self._number
            about["sequence_number"] = self._number
            self._number += 1
        return raw if all(data.get(k) == v for k, v in about.items()) else event_bytes({**data, **about})

    def reply(self) -> Json:
        response = dict(self._last.get("response") or {})
        items = [item for _, item in sorted(self._items.items())]
        return {**response, "output": items or response.get("output") or []}

    def go_on(self) -> None:
        self._before.append(self.reply())

    def end(self) -> bytes:
        if not self._last or not (self._before or self._hidden):
            return b""
        whole = joined([*self._before, self.reply()])
        if not (self._last.get("response") or {}).get("output"):  # some say it in items only
            whole["output"] = []
        return self._numbered(b"", {**self._last, "response": whole}, None) or event_bytes(
            {**self._last, "response": whole}
        )

    def failure(self, status: int, body: Json) -> bytes:
        error = error_of(status, body)
        fields = {key: error.get(key) for key in ("code", "message", "param")}
        return event_bytes({"type": "error", **fields, "sequence_number": self._number or 0})


stitch = ResponsesStitch
