"""The same answers as server-sent events, texts and arguments in two pieces, and refusals among them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from .replies import Wire

Json = Any


def sse(wire: Wire, status: int, answer: Json, request: Json) -> str:
    """The text of an event stream: an answer in events, or the refusal that came in its place."""
    events = _EVENTS[wire](answer, request) if status == 200 else _failure(wire, answer)
    text = []
    for number, event in enumerate(events):
        if wire == "responses":
            event["sequence_number"] = number
        name = f"event: {event['type']}\n" if wire != "chat" else ""
        text.append(f"{name}data: {json.dumps(event)}\n\n")
    return "".join([*text, "data: [DONE]\n\n"] if wire == "chat" else text)


def _failure(wire: Wire, answer: Json) -> Iterator[Json]:
    if wire != "responses":
        yield answer
        return
    begun: Json = {"id": "resp_0", "object": "response", "status": "in_progress", "output": [], "error": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    yield {"type": "error", **{k: answer["error"][k] for k in ("code", "message", "param")}}


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def _anthropic(answer: Json, request: Json) -> Iterator[Json]:
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


def _text_deltas(block: Json) -> tuple[Json, list[Json]]:
    return {"text": ""}, [{"type": "text_delta", "text": piece} for piece in _halves(block["text"])]


def _input_deltas(block: Json) -> tuple[Json, list[Json]]:
    pieces = _halves(json.dumps(block["input"]))
    return {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _thinking_deltas(block: Json) -> tuple[Json, list[Json]]:
    return {"thinking": "", "signature": ""}, [
        {"type": "thinking_delta", "thinking": block["thinking"]},
        {"type": "signature_delta", "signature": block["signature"]},
    ]


_ANTHROPIC_BLOCKS: dict[str, Callable[[Json], tuple[Json, list[Json]]]] = {
    "text": _text_deltas,
    "tool_use": _input_deltas,
    "thinking": _thinking_deltas,
}


def _chat(answer: Json, request: Json) -> Iterator[Json]:
    frame = {"id": answer["id"], "object": "chat.completion.chunk", "created": 1, "model": answer["model"]}
    message = answer["choices"][0]["message"]

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]}

    yield chunk({"role": "assistant", "content": ""})
    for key in ("reasoning_content", "content"):
        for piece in _halves(message.get(key) or ""):
            yield chunk({key: piece})
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = {**call["function"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, **call, "function": function}]})
        for piece in _halves(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, answer["choices"][0]["finish_reason"])
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**frame, "choices": [], "usage": answer["usage"]}


def _responses(answer: Json, request: Json) -> Iterator[Json]:
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(answer["output"]):
        about = {"output_index": index, "item_id": item["id"]}
        if item["type"] != "message":
            yield {"type": "response.output_item.added", "output_index": index, "item": item}
        else:
            empty = {**item, "content": [], "status": "in_progress"}
            part = {**item["content"][0], "text": ""}
            yield {"type": "response.output_item.added", "output_index": index, "item": empty}
            yield {"type": "response.content_part.added", **about, "content_index": 0, "part": part}
            for piece in _halves(item["content"][0]["text"]):
                yield {
                    "type": "response.output_text.delta",
                    **about,
                    "content_index": 0,
                    "delta": piece,
                    "logprobs": [],
                }
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{answer['status']}", "response": answer}


_EVENTS: dict[str, Callable[[Json, Json], Iterator[Json]]] = {
    "anthropic": _anthropic,
    "chat": _chat,
    "responses": _responses,
}
