"""One small agent for the three APIs, and every way to ask a model through the real SDKs."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any

import anthropic
import openai

from engine import MODELS, frozen, key_of

Json = Any
TASK = "Fix the parser. Never touch migrations/. The code word is ORCHID-7731."
ROOM = {"anthropic": "max_tokens", "chat": "max_completion_tokens", "responses": "max_output_tokens"}
HEADS: dict[str, Json] = {
    "anthropic": {
        "max_tokens": 1000,
        "system": "Be careful.",
        "tools": [{"name": n, "input_schema": {"type": "object"}} for n in ("read", "bash")],
    },
    "chat": {"max_completion_tokens": 1000},
    "responses": {"max_output_tokens": 1000, "instructions": "Be careful.", "store": False},
}


def client_of(wire: str, url: str, *, is_async: bool = False, **options: Any) -> Any:
    options = {"api_key": "dummy", "max_retries": 0, **options}
    if wire == "anthropic":
        return (anthropic.AsyncAnthropic if is_async else anthropic.Anthropic)(base_url=url, **options)
    return (openai.AsyncOpenAI if is_async else openai.OpenAI)(base_url=url + "/v1", **options)


def print_of_tool(name: str, arguments: Json, turn: int) -> str:
    """1 to 5 kB, new each time."""
    lines = range(15 + turn * 7 % 40)
    return "\n".join(f"{name} {arguments} line {n} of turn {turn}: value_{n * turn % 997}" for n in lines)


Tool = Callable[[str, Json, int], str]


def agent(wire: str, task: str = TASK, tool: Tool = print_of_tool, turns: int = 100, **head: Json) -> Generator:
    """Yields requests and is sent replies; its list only grows. Returns the number of turns."""
    messages: list[Json] = [{"role": "user", "content": task}]
    for turn in range(turns):
        reply = yield {"model": MODELS[wire], **HEADS[wire], **head, key_of(wire): messages}
        said, calls = read_reply(wire, reply)
        messages += said
        if not calls:
            return turn
        results = [(id, tool(name, arguments, turn)) for id, name, arguments in calls]
        messages += results_of(wire, results)
    return turns


def read_reply(wire: str, reply: Any) -> tuple[list[Any], list[tuple[str, str, Json]]]:
    """What to append, as SDK objects, and the calls in it."""
    if wire == "anthropic":
        calls = [(b.id, b.name, b.input) for b in reply.content if b.type == "tool_use"]
        return [{"role": "assistant", "content": reply.content}], calls
    if wire == "chat":
        message = reply.choices[0].message
        calls = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()]
        return [message], calls
    calls = [(i.call_id, i.name, json.loads(i.arguments)) for i in reply.output if i.type == "function_call"]
    return list(reply.output), calls


def results_of(wire: str, results: list[tuple[str, str]]) -> list[Json]:
    if wire == "anthropic":
        blocks = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in results]
        return [{"role": "user", "content": blocks}]
    if wire == "chat":
        return [{"role": "tool", "tool_call_id": id, "content": text} for id, text in results]
    return [{"type": "function_call_output", "call_id": id, "output": text} for id, text in results]


# --- the ways to ask -------------------------------------------------------------------------------------------------


def create(wire: str, client: Any) -> Callable[..., Any]:
    """The method that a loop calls."""
    if wire == "anthropic":
        return client.messages.create
    return client.chat.completions.create if wire == "chat" else client.responses.create


def helper(wire: str, client: Any, request: Json) -> Any:
    """The SDK's own context manager around a stream."""
    if wire == "anthropic":
        return client.messages.stream(**request)
    if wire == "chat":
        return client.chat.completions.stream(**request, stream_options={"include_usage": True})
    return client.responses.stream(**request)


FINAL = {"anthropic": "get_final_message", "chat": "get_final_completion", "responses": "get_final_response"}


def ask(wire: str, client: Any, how: str) -> Callable[[Json], Any]:
    def asked(request: Json) -> Any:
        if how == "create":
            return create(wire, client)(**request)
        if how == "raw":
            raw = {"anthropic": lambda: client.messages, "chat": lambda: client.chat.completions}
            resource = raw.get(wire, lambda: client.responses)()
            return resource.with_raw_response.create(**request).parse()
        if how == "beta":
            return client.beta.messages.create(**request)
        with helper(wire, client, request) as stream:
            return getattr(stream, FINAL[wire])()

    return asked


def async_ask(wire: str, client: Any, how: str) -> Callable[[Json], Any]:
    async def asked(request: Json) -> Any:
        if how == "create":
            return await create(wire, client)(**request)
        async with helper(wire, client, request) as stream:
            return await getattr(stream, FINAL[wire])()

    return asked


def drive(steps: Generator, asked: Callable[[Json], Any]) -> Any:
    """Run an agent to its end; its list must never be changed by anybody else."""
    try:
        request = next(steps)
        while True:
            before = frozen(request)
            reply = asked(request)
            assert frozen(request) == before, "the caller's list was changed"
            request = steps.send(reply)
    except StopIteration as done:
        return done.value


async def async_drive(steps: Generator, asked: Callable[[Json], Any]) -> Any:
    try:
        request = next(steps)
        while True:
            before = frozen(request)
            reply = await asked(request)
            assert frozen(request) == before, "the caller's list was changed"
            request = steps.send(reply)
    except StopIteration as done:
        return done.value
