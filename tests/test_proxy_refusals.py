"""What is refused for something else than its length: sent once more without what ours may be at fault for."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

import proxy_talk
from packlight.testing import Refusal, Reply

OURS = "to save room"
"""What placeholders say, and nobody else here."""


def texts(server: Any) -> list[str]:
    return [json.dumps(body["messages"]) for body in server.requests]


def unfond_of_ours(status: int = 400):
    """A provider that takes no request with edits of ours, for a reason nobody knows."""

    def answer(number: int, body: Any) -> Reply | Refusal:
        if OURS in json.dumps(body["messages"]):
            return Refusal(
                status=status, message="messages.1: this is not what we expect", code="invalid_request_error"
            )
        return proxy_talk.counting(number, body)

    return answer


def test_new_edits_that_are_refused_are_taken_back_and_the_conversation_is_left_alone():
    async def main() -> None:
        async with proxy_talk.proxied(unfond_of_ours(), window_tokens=8_000) as (proxy, server, client):
            server.window_tokens = None
            await proxy_talk.grow(client, proxy.url, 12)
            (thread,) = proxy.watch.threads.values()
            assert [turn.status for turn in thread.turns] == [200] * 12
            assert len(server.refusals) == 1
            sent = texts(server)
            assert len(sent) == 13
            taken = [text for text in sent if OURS not in text]
            assert all(b.startswith(a[:-1]) for a, b in zip(taken, taken[1:], strict=False))
            assert "left alone" in thread.turns[-1].reason

    asyncio.run(main())


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 529])
def test_other_answers_are_passed_back_as_they_are(status):
    async def main() -> None:
        async with proxy_talk.proxied(unfond_of_ours(status), window_tokens=8_000) as (proxy, server, client):
            server.window_tokens = None
            with pytest.raises(KeyError):
                await proxy_talk.grow(client, proxy.url, 12)
            assert len(server.refusals) == 1
            (thread,) = proxy.watch.threads.values()
            assert thread.turns[-1].status == status
            assert thread.turns[-1].rescues == 0

    asyncio.run(main())


def test_thinking_behind_a_changed_prefix_is_taken_out_once_and_for_good():
    """The client itself changes an early message: without a proxy every later request is refused."""

    def thinking(number: int, body: Any) -> Reply:
        return replace(proxy_talk.counting(number, body), thinking="hm")

    async def main() -> None:
        async with proxy_talk.proxied(thinking, window_tokens=100_000) as (proxy, server, client):
            server.window_tokens, server.binds_thinking = None, True
            messages = await proxy_talk.grow(client, proxy.url, 4, model="claude-opus-5-5")
            assert server.refusals == []
            assert "thinking" in texts(server)[-1]
            messages = [{"role": "user", "content": "another task"}, *messages[1:]]
            messages = await proxy_talk.grow(client, proxy.url, 3, model="claude-opus-5-5", messages=messages)
            assert len(server.refusals) == 1
            assert "bound to a different conversation" in server.refusals[0]
            kept = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "assistant"]
            assert ["thinking" in json.dumps(content) for content in kept] == [False] * 4 + [True] * 2

    asyncio.run(main())
