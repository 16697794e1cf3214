"""A proxy in this process before a scripted model, and agents that grow conversations through it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp

from packlight.proxy import Proxy, Settings
from packlight.testing import Call, ModelServer, Reply

WINDOW = 12_000
TASK = "count to nine; the launch code is zebra7461"
RESULT = "line of a result, with the word xylophone\n" * 120
TOOLS = [{"name": "bash", "input_schema": {"type": "object"}}]


def counting(number: int, body: Any) -> Reply:
    """A model that always goes on, with another command each time."""
    return Reply(calls=(Call("bash", {"command": f"seq {len(body['messages'])}"}),))


@contextlib.asynccontextmanager
async def proxied(
    script: Callable[[int, Any], Any] = counting, **settings: Any
) -> AsyncIterator[tuple[Proxy, ModelServer, aiohttp.ClientSession]]:
    settings = {"port": 0, "journal": None, "window_tokens": WINDOW, **settings}
    with ModelServer(script, window_tokens=WINDOW) as server:
        async with Proxy(Settings(upstream=server.url, **settings)) as proxy, aiohttp.ClientSession() as client:
            yield proxy, server, client


async def grow(
    client: aiohttp.ClientSession,
    url: str,
    turns: int,
    *,
    task: str = TASK,
    model: str = "claude-sonnet-5",
    session: str = "",
    messages: list[Any] | None = None,
) -> list[Any]:
    """An agent's conversation on Anthropic's API, new or going on, so many requests longer; as the agent has it."""
    messages = messages or [{"role": "user", "content": task}]
    headers = {"x-api-key": "k", **({"x-claude-code-session-id": session} if session else {})}
    for _ in range(turns):
        body = {"model": model, "max_tokens": 500, "tools": TOOLS, "messages": messages}
        async with client.post(f"{url}/v1/messages", json=body, headers=headers) as reply:
            said = (await reply.json())["content"]
        calls = [b for b in said if b["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": c["id"], "content": RESULT} for c in calls]
        messages = [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": results}]
    return messages


async def read(client: aiohttp.ClientSession, url: str, **headers: str) -> tuple[int, str]:
    async with client.get(url, headers=headers) as reply:
        return reply.status, await reply.text()
