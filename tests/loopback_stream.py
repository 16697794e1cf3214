"""The provider of loopback.py, which also streams: the same answers as server-sent events, and refusals among them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from loopback import WIRES, Loopback

Json = Any


class StreamLoopback(Loopback):
    """Answers a request with `stream` in events. `refuse_in_stream` sends overflows as events of a 200 stream,
    `splits_room` tells an input that fits from a `max_tokens` that does not, `fault` gives the status to refuse a
    request (as JSON text) with, or None."""

    def __init__(self, window_tokens: int, **options: Any) -> None:
        self.refuse_in_stream = options.pop("refuse_in_stream", False)
        self.splits_room = options.pop("splits_room", False)
        super().__init__(window_tokens, **options)
        self.fault: Callable[[str], int | None] = lambda text: None
        self.paths: list[str] = []

    def respond(self, path: str, body: Json) -> tuple[int, str, str]:
        self.paths.append(path)
        wire = next((wire for end, wire in WIRES.items() if path.endswith(end.removeprefix("/v1"))), None)
        if wire is None:
            return 200, "application/json", json.dumps({"input_tokens": self.count(body)})
        status, answer = self.answer(wire, body)
        if not body.get("stream") or (status != 200 and not self.refuse_in_stream):
            return status, "application/json", json.dumps(answer)
        return 200, "text/event-stream", "".join(_sse(wire, status, answer, body))

    def answer(self, wire: str, body: Json) -> tuple[int, Json]:
        if (status := self.fault(json.dumps(body, ensure_ascii=False))) is not None:
            self.requests.append(body)
            return status, self.refuse(wire, "some field is not what it should be", "invalid_value")[1]
        used, room = self.count(body), body.get("max_tokens") or body.get("max_completion_tokens") or 0
        if self.splits_room and used <= self.window_tokens < used + room:
            self.requests.append(body)
            return self.refuse(wire, self._room_message(wire, used, room), "context_length_exceeded")
        return super().answer(wire, body)

    def _room_message(self, wire: str, used: int, room: int) -> str:
        if wire == "anthropic":
            return (
                f"input length and `max_tokens` exceed context limit: {used} + {room} > {self.window_tokens}, "
                "decrease input length or `max_tokens` and try again"
            )
        return (
            f"This model's maximum context length is {self.window_tokens} tokens. However, you requested "
            f"{used + room} tokens ({used} in the messages, {room} in the completion). Please reduce the length of "
            "the messages or completion."
        )


def _sse(wire: str, status: int, answer: Json, body: Json) -> Iterator[str]:
    events = _EVENTS[wire](answer, body) if status == 200 else _failure(wire, answer)
    for number, event in enumerate(events):
        if wire == "responses":
            event["sequence_number"] = number
        name = f"event: {event['type']}\n" if wire != "chat" else ""
        yield f"{name}data: {json.dumps(event)}\n\n"
    if wire == "chat":
        yield "data: [DONE]\n\n"


def _failure(wire: str, answer: Json) -> Iterator[Json]:
    if wire != "responses":
        yield answer
        return
    begun = {"id": "resp_0", "object": "response", "status": "in_progress", "output": [], "error": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    yield {"type": "error", **{k: answer["error"][k] for k in ("code", "message", "param")}}


def _anthropic(answer: Json, body: Json) -> Iterator[Json]:
    yield {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}}
    yield {"type": "ping"}
    for index, block in enumerate(answer["content"]):
        empty, deltas = _ANTHROPIC_BLOCKS[block["type"]](block)
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": answer["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


_ANTHROPIC_BLOCKS = {
    "text": lambda b: ({"text": ""}, [{"type": "text_delta", "text": b["text"]}]),
    "tool_use": lambda b: (
        {"input": {}},
        [{"type": "input_json_delta", "partial_json": json.dumps(b["input"])}],
    ),
    "thinking": lambda b: (
        {"thinking": "", "signature": ""},
        [
            {"type": "thinking_delta", "thinking": b["thinking"]},
            {"type": "signature_delta", "signature": b["signature"]},
        ],
    ),
}


def _chat(answer: Json, body: Json) -> Iterator[Json]:
    frame = {"id": answer["id"], "object": "chat.completion.chunk", "created": 1, "model": answer["model"]}
    message = answer["choices"][0]["message"]

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]}

    yield chunk({"role": "assistant", "content": ""})
    if message.get("content"):
        yield chunk({"content": message["content"]})
    for index, call in enumerate(message.get("tool_calls") or ()):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    yield chunk({}, answer["choices"][0]["finish_reason"])
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**frame, "choices": [], "usage": answer["usage"]}


def _responses(answer: Json, body: Json) -> Iterator[Json]:
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(answer["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": answer}


_EVENTS = {"anthropic": _anthropic, "chat": _chat, "responses": _responses}
