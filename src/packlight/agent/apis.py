"""The three APIs through their official SDKs: how a request looks, how an answer is read while it streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import AgentError
from ..formats import plain
from ..types import FormatName, Json

Show = Callable[[str], None]
"""Is given the text of an answer as it comes."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call: its arguments as the model wrote them."""

    id: str
    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a call."""

    call: Call
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model said."""

    messages: list[Json]
    """To be appended to the conversation; empty when it said nothing."""
    text: str
    calls: list[Call]
    usage: Mapping[str, Json]
    is_cut: bool
    """It stopped for its length."""


class Api(Protocol):
    """One of the three."""

    name: FormatName
    list_key: str

    def head(self, system: str, tools: Sequence[Json], max_tokens: int) -> dict[str, Json]:
        """What every request holds beside model and messages."""
        ...

    def opening(self, system: str) -> list[Json]:
        """The first messages of a conversation."""
        ...

    def definition(self, name: str, description: str, schema: Json) -> Json: ...
    def results(self, results: Sequence[Result]) -> list[Json]: ...
    def sent(self, messages: list[Json]) -> list[Json]:
        """The messages as they go out."""
        ...

    def ask(self, client: Any, request: Mapping[str, Json], show: Show) -> Answer: ...


def user(text: str) -> Json:
    return {"role": "user", "content": text}


_MARK: Json = {"type": "ephemeral"}


class Messages:
    """Anthropic Messages, its prompt cache used: a mark behind the system prompt and one at the end."""

    name: FormatName = "anthropic"
    list_key = "messages"

    def head(self, system: str, tools: Sequence[Json], max_tokens: int) -> dict[str, Json]:
        text = {"type": "text", "text": system, "cache_control": _MARK}
        return {"max_tokens": max_tokens, "system": [text], "tools": list(tools)}

    def opening(self, system: str) -> list[Json]:
        return []

    def definition(self, name: str, description: str, schema: Json) -> Json:
        return {"name": name, "description": description, "input_schema": schema}

    def results(self, results: Sequence[Result]) -> list[Json]:
        blocks: list[Json] = [
            {"type": "tool_result", "tool_use_id": r.call.id, "content": r.text, "is_error": r.is_error}
            for r in results
        ]
        return [{"role": "user", "content": blocks}]

    def sent(self, messages: list[Json]) -> list[Json]:
        *before, last = messages
        content = last["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return [*before, {**last, "content": [*blocks[:-1], {**blocks[-1], "cache_control": _MARK}]}]

    def ask(self, client: Any, request: Mapping[str, Json], show: Show) -> Answer:
        with client.messages.stream(**request) as stream:
            for event in stream:
                if event.type == "text":
                    show(event.text)
            said = stream.get_final_message()
        message = plain({"role": "assistant", "content": said.content})
        content: list[Json] = message["content"]
        return Answer(
            messages=[message] if content else [],
            text="".join(b["text"] for b in content if b["type"] == "text"),
            calls=[Call(b["id"], b["name"], b["input"]) for b in content if b["type"] == "tool_use"],
            usage=said.usage.model_dump(exclude_none=True),
            is_cut=said.stop_reason in ("max_tokens", "model_context_window_exceeded"),
        )


class Chat:
    """OpenAI Chat Completions, which most local and hosted servers speak too."""

    name: FormatName = "chat"
    list_key = "messages"

    def __init__(self, *, is_openai: bool = False) -> None:
        self._room_key = "max_completion_tokens" if is_openai else "max_tokens"  # others know only the older name

    def head(self, system: str, tools: Sequence[Json], max_tokens: int) -> dict[str, Json]:
        return {self._room_key: max_tokens, "tools": list(tools)}

    def opening(self, system: str) -> list[Json]:
        return [{"role": "system", "content": system}]

    def definition(self, name: str, description: str, schema: Json) -> Json:
        return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}

    def results(self, results: Sequence[Result]) -> list[Json]:
        return [{"role": "tool", "tool_call_id": r.call.id, "content": r.text} for r in results]

    def sent(self, messages: list[Json]) -> list[Json]:
        return messages

    def ask(self, client: Any, request: Mapping[str, Json], show: Show) -> Answer:
        usage: Mapping[str, Json] = {}
        message: dict[str, Json] = {"role": "assistant", "content": ""}
        calls: dict[int, Json] = {}
        finish = ""
        request = {**request, "stream": True, "stream_options": {"include_usage": True}}
        with client.chat.completions.create(**request) as stream:
            for chunk in stream:
                usage = chunk.usage.model_dump(exclude_none=True) if chunk.usage else usage
                for choice in chunk.choices:
                    finish = choice.finish_reason or finish
                    self._grow(message, calls, choice.delta.model_dump(exclude_none=True), show)
        if calls:
            message["tool_calls"] = [calls[index] for index in sorted(calls)]
        return Answer(
            messages=[message] if message["content"] or calls else [],
            text=message["content"],
            calls=[
                Call(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", ())
            ],
            usage=usage,
            is_cut=finish == "length",
        )

    @staticmethod
    def _grow(message: dict[str, Json], calls: dict[int, Json], delta: Mapping[str, Json], show: Show) -> None:
        """Take in a piece of the answer."""
        if text := delta.get("content"):
            message["content"] += text
            show(text)
        if thought := delta.get("reasoning_content"):  # models that think between calls want it back
            message["reasoning_content"] = message.get("reasoning_content", "") + thought
        for piece in delta.get("tool_calls") or ():
            empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            call = calls.setdefault(piece.get("index", len(calls)), empty)
            call["id"] = piece.get("id") or call["id"]
            function = piece.get("function") or {}
            call["function"]["name"] += function.get("name") or ""
            call["function"]["arguments"] += function.get("arguments") or ""


class Responses:
    """OpenAI Responses, nothing kept at the provider."""

    name: FormatName = "responses"
    list_key = "input"

    def head(self, system: str, tools: Sequence[Json], max_tokens: int) -> dict[str, Json]:
        return {
            "instructions": system,
            "max_output_tokens": max_tokens,
            "tools": list(tools),
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }

    def opening(self, system: str) -> list[Json]:
        return []

    def definition(self, name: str, description: str, schema: Json) -> Json:
        return {"type": "function", "name": name, "description": description, "parameters": schema, "strict": False}

    def results(self, results: Sequence[Result]) -> list[Json]:
        return [{"type": "function_call_output", "call_id": r.call.id, "output": r.text} for r in results]

    def sent(self, messages: list[Json]) -> list[Json]:
        return messages

    def ask(self, client: Any, request: Mapping[str, Json], show: Show) -> Answer:
        items: list[Json] = []
        usage: Mapping[str, Json] = {}
        is_cut = False
        with client.responses.create(**request, stream=True) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    show(event.delta)
                elif event.type == "response.output_item.done":
                    items.append(plain(event.item))
                elif event.type in ("response.completed", "response.incomplete"):
                    usage = event.response.usage.model_dump(exclude_none=True) if event.response.usage else {}
                    is_cut = event.type == "response.incomplete"
                elif event.type in ("error", "response.failed"):
                    raise AgentError(f"the model's server failed: {_failure(event)}")
        return Answer(
            messages=items,
            text="".join(
                b.get("text", "") for i in items if i["type"] == "message" for b in i["content"] if isinstance(b, dict)
            ),
            calls=[Call(i["call_id"], i["name"], i["arguments"]) for i in items if i["type"] == "function_call"],
            usage=usage,
            is_cut=is_cut,
        )


def _failure(event: Any) -> str:
    error = event if event.type == "error" else event.response.error
    return str(getattr(error, "message", "") or getattr(error, "code", "") or "no reason given")
