"""`packlight.testing`'s model server, asked through the real SDKs."""

from __future__ import annotations

import anthropic
import openai
import pytest

from packlight.testing import Call, ModelServer, Refusal, Reply
from sdk_agents import ask, client_of, read_reply
from talk import WIRES, opening

every_wire = pytest.mark.parametrize("wire", WIRES)
HEADS = {"anthropic": {"max_tokens": 100}, "chat": {"max_completion_tokens": 100}, "responses": {}}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def asked(wire, server, messages, how="create"):
    key = "input" if wire == "responses" else "messages"
    with client_of(wire, server.url) as client:
        return ask(wire, client, how)({"model": "m", **HEADS[wire], key: messages})


def text_of(wire, reply):
    if wire == "anthropic":
        return "".join(b.text for b in reply.content if b.type == "text")
    return reply.choices[0].message.content or "" if wire == "chat" else reply.output_text


@every_wire
@pytest.mark.parametrize("how", ["create", "stream"])
def test_script_is_played_once(wire, how):
    calls = (Call("read", {"path": "ä"}), Call("bash", {"command": "ls"}))
    with ModelServer([Reply("Look.", calls, thinking="hm")]) as server:
        first, second = (asked(wire, server, opening(), how) for _ in range(2))
    _, found = read_reply(wire, first)
    assert [(name, arguments) for _, name, arguments in found] == [(c.name, c.arguments) for c in calls]
    assert len({id for id, _, _ in found}) == 2
    assert (text_of(wire, first), text_of(wire, second)) == ("Look.", "Done.")
    assert len(server.requests) == 2 and server.refusals == []


@every_wire
def test_refusal_and_overflow_come_in_the_providers_words(wire):
    with ModelServer([Refusal(422, "not so")], window_tokens=1_000) as server:
        with pytest.raises((anthropic.APIStatusError, openai.APIStatusError)) as first:
            asked(wire, server, opening())
        with pytest.raises((anthropic.BadRequestError, openai.BadRequestError)) as second:
            asked(wire, server, opening("x" * 9_000))
        assert text_of(wire, asked(wire, server, opening())) == "Done."
    assert first.value.status_code == 422 and "not so" in str(first.value)
    assert "too long" in str(second.value) or "maximum context length" in str(second.value)
    assert len(server.refusals) == 2 and len(server.tokens) == 1


@every_wire
def test_equal_beginning_counts_as_cached(wire):
    messages = opening("a long task " * 200)
    with ModelServer([]) as server:
        for more in ([], [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}]):
            reply = asked(wire, server, messages + more)
    first, second = server.cached_tokens
    assert first == 0 and 0.8 * server.tokens[0] < second < server.tokens[1]
    usage = reply.usage.model_dump()
    cached = {
        "anthropic": lambda: usage["cache_read_input_tokens"],
        "chat": lambda: usage["prompt_tokens_details"]["cached_tokens"],
        "responses": lambda: usage["input_tokens_details"]["cached_tokens"],
    }
    assert cached[wire]() == second


def test_script_may_look_at_the_request():
    with ModelServer(lambda number, body: Reply(f"{number}: {body['messages'][-1]['content']}")) as server:
        assert text_of("chat", asked("chat", server, opening("hi"))) == "1: hi"
        server.judge = lambda wire, body: ["never"]
        with pytest.raises(openai.BadRequestError, match="never"):
            asked("chat", server, opening("hi"))
