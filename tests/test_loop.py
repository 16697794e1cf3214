"""A home-made agent loop on the real SDKs with two lines of ours in it, against a provider with a small window."""

from __future__ import annotations

import itertools
import json

import pytest

from engine import frozen, packlight
from loopback import Loopback

WINDOW = 24_000
TASK = "Fix the parser. Never touch migrations/. The code word is ORCHID-7731."
PATHS = [f"src/module_{n}.py" for n in range(9)]


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Loopback(WINDOW) as running:
        yield running


def run_tool(name, arguments, turn):
    """What the agent's tools print: 1 to 5 kB, new each time."""
    return "\n".join(
        f"{name} {arguments} line {n} of turn {turn}: value_{n * turn % 997}" for n in range(15 + turn * 7 % 40)
    )


def anthropic_loop(provider, compactor, write_back):
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(base_url=provider.url, api_key="dummy", max_retries=0) as client:
        return _anthropic_turns(client, compactor, write_back)


def _anthropic_turns(client, compactor, write_back):
    messages = [{"role": "user", "content": TASK}]
    for turn in range(100):
        request = {
            "model": "claude-opus-5-5",
            "max_tokens": 1000,
            "system": "Be careful.",
            "messages": messages,
            "tools": [{"name": n, "input_schema": {"type": "object"}} for n in ("read", "bash")],
        }
        c = compactor.fit(request)
        reply = client.messages.create(**c.request)
        compactor.record_usage(c, reply.usage)
        if write_back:
            messages = list(c.messages)
        messages.append({"role": "assistant", "content": reply.content})
        results = [
            {"type": "tool_result", "tool_use_id": b.id, "content": run_tool(b.name, b.input, turn)}
            for b in reply.content
            if b.type == "tool_use"
        ]
        if not results:
            return turn
        messages.append({"role": "user", "content": results})
    raise AssertionError("the loop did not end")


def chat_loop(provider, compactor, write_back):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=provider.url + "/v1", api_key="dummy", max_retries=0) as client:
        return _chat_turns(client, compactor, write_back)


def _chat_turns(client, compactor, write_back):
    messages = [{"role": "system", "content": "Be careful."}, {"role": "user", "content": TASK}]
    for turn in range(100):
        c = compactor.fit({"model": "gpt-5.6", "max_completion_tokens": 1000, "messages": messages})
        reply = client.chat.completions.create(**c.request)
        compactor.record_usage(c, reply.usage)
        if write_back:
            messages = list(c.messages)
        message = reply.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return turn
        for call in message.tool_calls:
            text = run_tool(call.function.name, json.loads(call.function.arguments), turn)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    raise AssertionError("the loop did not end")


def responses_loop(provider, compactor, write_back):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=provider.url + "/v1", api_key="dummy", max_retries=0) as client:
        return _responses_turns(client, compactor, write_back)


def _responses_turns(client, compactor, write_back):
    items = [{"role": "user", "content": TASK}]
    for turn in range(100):
        c = compactor.fit(
            {
                "model": "gpt-5.6",
                "max_output_tokens": 1000,
                "instructions": "Be careful.",
                "store": False,
                "input": items,
            }
        )
        reply = client.responses.create(**c.request)
        compactor.record_usage(c, reply.usage)
        if write_back:
            items = list(c.messages)
        items += reply.output
        calls = [item for item in reply.output if item.type == "function_call"]
        if not calls:
            return turn
        items += [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": run_tool(call.name, json.loads(call.arguments), turn),
            }
            for call in calls
        ]
    raise AssertionError("the loop did not end")


LOOPS = {
    "anthropic": (anthropic_loop, "claude-opus-5-5"),
    "chat": (chat_loop, "gpt-5.6"),
    "responses": (responses_loop, "gpt-5.6"),
}


@pytest.mark.parametrize("policy", ["default", "thrifty"])
@pytest.mark.parametrize("write_back", [False, True], ids=["full-history", "write-back"])
@pytest.mark.parametrize("wire", LOOPS)
def test_loop_is_never_refused(provider, wire, write_back, policy):
    loop, model = LOOPS[wire]
    turns = loop(provider, packlight.Compactor(model, window_tokens=WINDOW, policy=policy), write_back)
    assert provider.refusals == []
    assert turns == provider.turns == len(provider.requests) - 1
    last = json.dumps(provider.requests[-1], ensure_ascii=False)
    assert "ORCHID-7731" in last and "migrations/" in last
    assert [path for path in PATHS if path not in last] == []
    assert _breaks(provider.requests) <= 12


def _breaks(requests):
    """Requests that do not begin with the one before them."""
    lists = [[frozen(m) for m in body.get("messages") or body["input"]] for body in requests]
    return sum(now[: len(was)] != was for was, now in itertools.pairwise(lists))


@pytest.mark.parametrize("wire", LOOPS)
def test_loop_without_us_is_refused(provider, wire):
    """The control: with a policy that does nothing, the same loop dies of its window."""
    loop, model = LOOPS[wire]
    with pytest.raises(Exception, match=r"too long|maximum context length"):
        loop(provider, packlight.Compactor(model, window_tokens=WINDOW, policy="none"), False)


@pytest.mark.parametrize("wire", LOOPS)
def test_overflow_is_rescued(provider, wire):
    """A window that nobody told us: the refusal teaches it, the same call goes through."""
    loop, _ = LOOPS[wire]
    agent = packlight.Compactor("a-model-nobody-knows")
    real_fit = agent.fit
    rescued = []

    class Rescuing:
        """The two lines, and the third that the docs show for errors."""

        def fit(self, request):
            c = real_fit({**request})
            status, answer = provider.answer(wire, json.loads(frozen(c.request)))
            if status == 400 and provider.refusals:
                error = Refused(answer)
                c = agent.recover(c, error)
                rescued.append(provider.refusals.pop())
            else:
                provider._answered -= 1
            return c

        record_usage = staticmethod(agent.record_usage)

    loop(provider, Rescuing(), False)
    assert provider.refusals == []
    assert 1 <= len(rescued) <= 3


class Refused(Exception):
    status_code = 400

    def __init__(self, body):
        super().__init__(body["error"]["message"])
        self.body = body
        self.message = body["error"]["message"]
