"""The recall tool of the proxy where upstream or client end in the middle, or what comes is no reply."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from engine import key_of
from packlight.proxy import Proxy, Settings
from packlight.testing import Call, Reply
from packlight.testing.replies import Counted, body_of
from packlight.testing.streams import sse
from proxy_help import PATHS, TOOLS
from sdk_agents import HEADS
from talk import WIRES

every_wire = pytest.mark.parametrize("wire", WIRES)
ASKS = Call("recall", {"query": "parser.py"})
COUNTED = Counted(input_tokens=9, cached_tokens=0, output_tokens=9)


@asynccontextmanager
async def between(answer, folder):
    """A client whose requests go through a proxy to an upstream that answers so."""
    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    upstream = f"http://127.0.0.1:{runner.addresses[0][1]}"
    settings = Settings(port=0, upstream=upstream, journal=folder, recall_tool=True, quiet=True)
    async with Proxy(settings) as proxy, aiohttp.ClientSession(proxy.url) as session:
        yield session
    await runner.cleanup()


def request(wire, *, stream):
    items = [{"role": "user", "content": "x"}]
    return {"model": "m", **HEADS[wire], "tools": TOOLS[wire], key_of(wire): items, "stream": stream}


@every_wire
def test_client_that_leaves_ends_the_request_behind_a_call(wire, tmp_path):
    async def scenario():
        reached, left = asyncio.Event(), asyncio.Event()

        async def answer(asked):
            if len((await asked.json())[key_of(wire)]) == 1:
                return web.json_response(body_of(wire, Reply("", (ASKS,)), 1, COUNTED, "m"))
            reached.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                left.set()
                raise

        async with between(answer, tmp_path) as session:
            asking = asyncio.create_task(session.post(PATHS[wire], json=request(wire, stream=False)))
            await asyncio.wait_for(reached.wait(), 20)
            asking.cancel()
            await asyncio.wait_for(left.wait(), 20)

    asyncio.run(scenario())


@every_wire
def test_stream_cut_behind_a_call_is_seen_as_cut(wire, tmp_path):
    async def scenario():
        replies = [Reply("I look.", (ASKS,)), Reply("Found it, and much more.")]
        texts = [sse(wire, 200, body_of(wire, r, n, COUNTED, "m"), {}).encode() for n, r in enumerate(replies)]
        texts[1] = texts[1][: texts[1].index(b"much")]

        async def answer(asked):
            out = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await out.prepare(asked)
            await out.write(texts.pop(0))
            if not texts:
                asked.transport.close()
            return out

        async with between(answer, tmp_path) as session:
            got = b""
            with pytest.raises(aiohttp.ClientPayloadError):
                async with session.post(PATHS[wire], json=request(wire, stream=True)) as reply:
                    async for chunk in reply.content.iter_any():
                        got += chunk
            assert texts == [] and b"I l" in got and b"recall" not in got

    asyncio.run(scenario())


@pytest.mark.parametrize("text", [b'{"choices": [7], "content": 3, "output": 5}', b"[]", b"<html>"])
@every_wire
def test_reply_that_is_none_comes_as_it_is(wire, text, tmp_path):
    async def scenario():
        async def answer(asked):
            streams = (await asked.json())["stream"]
            kind = "text/event-stream" if streams else "application/json"
            return web.Response(body=b"data: " + text + b"\n\n" if streams else text, content_type=kind)

        async with between(answer, tmp_path) as session:
            for streams in (False, True):
                async with session.post(PATHS[wire], json=request(wire, stream=streams)) as reply:
                    assert reply.status == 200
                    assert (await reply.read()).strip() == (b"data: " + text if streams else text)

    asyncio.run(scenario())


@every_wire
def test_odd_part_of_a_reply_is_passed_on(wire, tmp_path):
    """Usage that is a number; beside a call of the tool, an entry that is no object."""
    plain, asks = (body_of(wire, Reply(text, calls), 1, COUNTED, "m") for text, calls in (("Hi.", ()), ("", (ASKS,))))
    lists = {"anthropic": lambda b: b["content"], "responses": lambda b: b["output"]}
    lists["chat"] = lambda b: b["choices"][0]["message"]["tool_calls"]
    lists[wire](asks).append(7)
    stream = sse(wire, 200, plain, {}).replace('"usage": {', '"usage": 7, "was": {').encode()

    async def scenario():
        async def answer(asked):
            if (await asked.json())["stream"]:
                return web.Response(body=stream, content_type="text/event-stream")
            return web.json_response(asks if len((await asked.json())[key_of(wire)]) == 1 else plain)

        async with between(answer, tmp_path) as session:
            async with session.post(PATHS[wire], json=request(wire, stream=True)) as reply:
                assert await reply.read() == stream
            async with session.post(PATHS[wire], json=request(wire, stream=False)) as reply:
                assert reply.status == 200 and await reply.json()

    asyncio.run(scenario())
