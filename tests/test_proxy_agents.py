"""Agents of other people's frameworks through the proxy: they end their task well past the window where they died."""

from __future__ import annotations

import asyncio
import json

import pytest

from loopback import Loopback
from proxy_thread import ThreadedProxy
from sdk_agents import agent, ask, client_of, drive, print_of_tool

agents = pytest.importorskip("agents")
pydantic_ai = pytest.importorskip("pydantic_ai")

from agents.tracing import set_tracing_disabled  # noqa: E402
from pydantic_ai.models.anthropic import AnthropicModel  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: E402
from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402

WINDOW, TURNS = 8_000, 38
TASK = "Audit every module. Never touch migrations/. The code word is ORCHID-7731."
MODEL = "mine-1"
"""A model that nobody knows: its window is learned from its first refusal."""


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


class Tools:
    """The two tools that the scripted model calls, and how much they printed."""

    def __init__(self):
        self.chars = self.calls = 0

    def read(self, path: str) -> str:
        """Reads a file."""
        return self._print("read", path)

    def bash(self, command: str) -> str:
        """Runs a command."""
        return self._print("bash", command)

    def _print(self, name: str, argument: str) -> str:
        self.calls += 1
        text = print_of_tool(name, argument, self.calls)
        self.chars += len(text)
        return text


async def openai_agents(wire, url, tools):
    set_tracing_disabled(True)
    async with client_of(wire, url, is_async=True) as client:
        kind = agents.OpenAIChatCompletionsModel if wire == "chat" else agents.OpenAIResponsesModel
        made = agents.Agent(
            name="auditor",
            instructions="Be careful.",
            tools=[agents.function_tool(tools.read), agents.function_tool(tools.bash)],
            model=kind(model=MODEL, openai_client=client),
        )
        return (await agents.Runner.run(made, TASK, max_turns=100)).final_output


async def pydantic(wire, url, tools):
    async with client_of(wire, url, is_async=True) as client:
        if wire == "anthropic":
            model = AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client))
        else:
            kind = OpenAIChatModel if wire == "chat" else OpenAIResponsesModel
            model = kind(MODEL, provider=OpenAIProvider(openai_client=client))
        made = pydantic_ai.Agent(model, instructions="Be careful.", tools=[tools.read, tools.bash])
        return (await made.run(TASK, usage_limits=pydantic_ai.UsageLimits(request_limit=None))).output


def of_sdk(how):
    async def run(wire, url, tools):
        def call(name, arguments, turn):
            return getattr(tools, name)(*arguments.values())

        def loop():
            said = []
            with client_of(wire, url) as client:
                asked = ask(wire, client, how)
                drive(
                    agent(wire, TASK, call, model=MODEL, tools=TOOLS_OF[wire]),
                    lambda r: said.append(asked(r)) or said[-1],
                )
            return json.dumps(said[-1].model_dump(mode="json"))

        return await asyncio.to_thread(loop)

    return run


_SCHEMA = {"type": "object", "properties": {}}
TOOLS_OF = {
    "anthropic": [{"name": n, "input_schema": _SCHEMA} for n in ("read", "bash")],
    "chat": [{"type": "function", "function": {"name": n, "parameters": _SCHEMA}} for n in ("read", "bash")],
    "responses": [{"type": "function", "name": n, "parameters": _SCHEMA, "strict": False} for n in ("read", "bash")],
}
WAYS = {
    "openai-agents": (openai_agents, ("chat", "responses")),
    "pydantic-ai": (pydantic, ("anthropic", "chat", "responses")),
    "SDK": (of_sdk("create"), ("anthropic", "chat", "responses")),
    "SDK, streamed": (of_sdk("stream"), ("anthropic", "chat", "responses")),
}
every_agent = pytest.mark.parametrize(("name", "wire"), [(name, wire) for name in WAYS for wire in WAYS[name][1]])


def provider():
    return Loopback(WINDOW, TURNS, binds_thinking=True, counts_room=False)


@every_agent
def test_agent_dies_at_its_window(name, wire):
    with provider() as server, pytest.raises(Exception, match=r"too long|context length|context window"):
        asyncio.run(WAYS[name][0](wire, server.url, Tools()))
    assert len(server.refusals) == 1


@every_agent
def test_agent_ends_its_task_past_its_window_through_the_proxy(name, wire, tmp_path):
    tools = Tools()
    with provider() as server, ThreadedProxy(upstream=server.url, journal=tmp_path) as proxy:
        said = asyncio.run(WAYS[name][0](wire, proxy.url, tools))
    assert "All done." in said
    assert tools.calls > TURNS
    assert tools.chars / server.chars_per_token > 3 * WINDOW
    assert [refusal for refusal in server.refusals if "maximum" not in refusal] == []
    assert len(server.refusals) <= 2
    assert all("ORCHID-7731" in json.dumps(body) for body in server.requests)
