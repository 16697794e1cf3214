"""Streams through the proxy: nothing late, nothing lost, a cut seen as a cut, an overflow rescued before the answer."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
import sys
import time
import zlib

import pytest

import packlight.proxy.events
from packlight.proxy.encodings import decoder
from packlight.proxy.events import Events, Stream, json_of
from proxy_help import (
    LAST,
    PATHS,
    STREAM,
    Link,
    Message,
    agent_request,
    chunk,
    encoded,
    event,
    items_of,
    line,
    post,
    reply,
    run,
    too_long,
)
from talk import WIRES

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

WINDOW = 32_000


def begun(wire):
    """The announcement of an answer, and its first part."""
    if wire == "anthropic":
        start = {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}
        part = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        return event(start, "message_start") + event({"type": "ping"}, "ping"), event(part, "content_block_start")
    if wire == "chat":
        return event({"choices": [{"delta": {"role": "assistant"}}]}), event({"choices": [{"delta": {"content": "a"}}]})
    start = event({"type": "response.created", "response": {}}), event({"type": "response.output_item.added"})
    return start


def ended(wire, tokens):
    if wire == "anthropic":
        return event({"type": "message_delta", "usage": {"input_tokens": tokens}}) + event({"type": "message_stop"})
    if wire == "chat":
        return event({"choices": [], "usage": {"prompt_tokens": tokens}}) + b"data: [DONE]\n\n"
    return event({"type": "response.completed", "response": {"usage": {"input_tokens": tokens}}})


def overflow_event(wire, used=30_000, limit=16_000):
    if wire == "responses":
        error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}
        return event({"type": "response.failed", "response": {"status": "failed", "error": error}}, "response.failed")
    return event(too_long(wire, used, limit), "error" if wire == "anthropic" else "")


async def send_all(link: Link, *parts: bytes) -> None:
    await link.send(STREAM + b"".join(map(chunk, parts)) + LAST)


@pytest.mark.parametrize("turns", [2, 24])
@pytest.mark.parametrize("wire", WIRES)
def test_each_part_reaches_the_client_before_the_next_is_sent(wire, turns):
    """24 turns are in the upper half of the window, where a stream's announcement waits for its answer."""

    async def work():
        arrived = asyncio.Semaphore(0)
        announced, first = begun(wire)
        parts = [announced + first, b"data: {}\n\n", b": comment\n\n", b"data: x", b"yz\n\n", ended(wire, 9)]

        async def answer(got: Message, link: Link) -> None:
            await link.send(STREAM)
            for part in parts:
                await link.send(chunk(part))
                await asyncio.wait_for(arrived.acquire(), 5)
            await link.send(LAST)

        async with line(answer, window_tokens=WINDOW) as on:
            link = await on.connect()
            await link.send(post(PATHS[wire], encoded(agent_request(wire, turns, stream=True))))
            assert b"text/event-stream" in await link.head()
            for part in parts:
                assert await link.reader.readexactly(len(chunk(part))) == chunk(part)
                arrived.release()
            assert await link.some() == LAST
        [thread] = on.proxy.watch.threads.values()
        assert thread.turns[-1].input_tokens == 9

    run(work())


@pytest.mark.parametrize("turns", [2, 24])
@pytest.mark.parametrize("encoding", ["", "gzip", "zstd", "br"])
@pytest.mark.parametrize("wire", WIRES)
def test_stream_arrives_byte_for_byte(wire, encoding, turns):
    async def work():
        text = b"".join(begun(wire)).replace(b"\n", b"\r\n") + ended(wire, 9)
        data = {"": bytes, "gzip": gzip.compress, "zstd": zstd.compress, "br": bytes}[encoding](text)
        head = STREAM.replace(b"\r\n\r\n", b"\r\nContent-Encoding: %s\r\n\r\n" % encoding.encode())

        async def answer(got: Message, link: Link) -> None:
            await link.send(head if encoding else STREAM)
            for i in range(0, len(data), 5):
                await link.send(chunk(data[i : i + 5]))
            await link.send(LAST)

        async with line(answer, window_tokens=WINDOW) as on:
            got = await on.post(wire, agent_request(wire, turns, stream=True), "Accept-Encoding: gzip, br, zstd\r\n")
            assert (got.body, got.is_whole) == (data, True)
            assert on.sent.get("Accept-Encoding") == "gzip, zstd"
        [thread] = on.proxy.watch.threads.values()
        assert thread.turns[-1].input_tokens == (0 if encoding == "br" else 9)

    run(work())


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress, zlib.compress])
def test_events_are_read_however_the_bytes_are_cut(wire, pack):
    name = {bytes: "", gzip.compress: "gzip", zstd.compress: "zstd", zlib.compress: "deflate"}[pack]
    for newline in (b"\n", b"\r\n"):
        text = (b": x\n\n" + b"".join(begun(wire)) + b"data: oops\n\n" + ended(wire, 9)).replace(b"\n", newline)
        data = pack(text)
        for at in range(len(data) + 1):
            stream = Stream(decoder(name))
            stream.feed(data[:at])
            stream.feed(data[at:])
            assert stream.begun
            assert 9 in stream.usage.values()


def test_events_keep_their_bytes_however_these_are_cut():
    whole = [b"event: a\ndata: 1\n\n", b"data: 2\r\n\r\n", b": x\n\r\n", b"\n\n", b"data: [1,\ndata: 2]\n\n"]
    text = b"".join(whole) + b"data: 3\n"
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            events = Events()
            pieces = (text[:first], text[first:second], text[second:])
            assert [event for piece in pieces for event in events.feed(piece)] == whole
            assert events.left() == b"data: 3\n" and events.left() == b""
    assert [json_of(event) for event in whole] == [1, 2, None, None, [1, 2]]


def test_event_without_an_end_is_given_up(monkeypatch):
    monkeypatch.setattr(packlight.proxy.events, "MAX_EVENT_BYTES", 100)
    events = Events()
    assert events.feed(b"data: 1\n\n" + b"x" * 100) == [b"data: 1\n\n"]
    assert events.feed(b"y") == [b"x" * 100 + b"y"]
    assert events.feed(b"data: 2\n\n") == [b"data: 2\n\n"]


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices": 5}',
        b'{"choices": [null, 1, "x"]}',
        b'{"choices": [{"delta": "text"}]}',
        b'{"choices": [{"delta": [1]}]}',
        b'{"type": {"a": 1}, "usage": "none"}',
        b'{"type": ["x"], "usage": [1]}',
        b'{"type": "message_start", "message": 5, "usage": {"input_tokens": "x"}}',
        b'{"type": "error", "error": 5}',
        b'{"type": "error", "error": {"message": {"a": [1]}}}',
        b'{"type": "response.failed", "response": [1]}',
        b'{"error": "x"}',
        b"[1]",
        b"1e999",
        b'{"usage": {"input_tokens": -1, "prompt_tokens": 1e300}}',
        b'{"x": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'"\\ud800"',
    ],
)
def test_event_that_no_api_sends_passes(data):
    async def work():
        text = b"data: " + data + b"\n\n" + b"".join(begun("chat"))

        async def answer(got: Message, link: Link) -> None:
            await send_all(link, text)

        async with line(answer, window_tokens=WINDOW) as on:
            for turns in (2, 24):
                got = await on.post("chat", agent_request("chat", turns, stream=True))
                assert (got.status, got.body, got.is_whole) == (200, text, True)
            on.upstream.answer = reply(data, headers="Content-Type: application/json\r\n")
            got = await on.post("chat", agent_request("chat", 24))
            assert (got.status, got.body) == (200, data)

    run(work())


def test_bomb_in_a_stream_passes_as_it_is():
    async def work():
        data = gzip.compress(bytes(300 << 20), 1)

        async def answer(got: Message, link: Link) -> None:
            await link.send(reply(data, headers="Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"))

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        async with line(answer, window_tokens=WINDOW) as on:
            got = await on.post("chat", agent_request("chat", 24, stream=True))
            assert got.body == data
            on.upstream.answer = reply(data, headers="Content-Type: application/json\r\nContent-Encoding: gzip\r\n")
            assert (await on.post("chat", agent_request("chat", 2))).body == data
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 << 10

    run(work())


# --- cut, left, slow -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
@pytest.mark.parametrize("turns", [2, 24])
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", "text/plain"])
@pytest.mark.parametrize("framing", ["chunked", "length"])
@pytest.mark.parametrize("begins", [True, False])
def test_reply_that_is_cut_upstream_is_cut_for_the_client(path, turns, kind, framing, begins):
    async def work():
        text = b"".join(begun("anthropic")) if begins else begun("anthropic")[0]
        size = b"Transfer-Encoding: chunked" if framing == "chunked" else b"Content-Length: 100000"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s\r\n\r\n" % (kind.encode(), size)

        async def answer(got: Message, link: Link) -> None:
            await link.send(head + (chunk(text) if framing == "chunked" else text))
            link.close()
            await link.gone()

        async with line(answer, window_tokens=WINDOW) as on:
            got = await on.ask(post(path, encoded(agent_request("anthropic", turns, stream=True))))
            assert got.status == 200
            assert (got.body, got.is_whole) == (text, False)
            assert len(on.upstream.requests) == 1

    run(work())


@pytest.mark.parametrize("is_cut", [True, False])
def test_client_of_http_1_0_tells_a_cut_from_an_end(is_cut):
    """There a reply ends with its connection, so that a cut must break it."""

    async def work():
        text = b"".join(begun("anthropic"))

        async def answer(got: Message, link: Link) -> None:
            await link.send(STREAM + chunk(text))
            await asyncio.sleep(0.05)
            await link.send(b"" if is_cut else LAST)
            link.close()
            await link.gone()

        async with line(answer) as on:
            data = post(PATHS["anthropic"], encoded(agent_request("anthropic", 2, stream=True)))
            got = await on.ask(data.replace(b" HTTP/1.1", b" HTTP/1.0", 1))
            assert got.line == "HTTP/1.0 200 OK"
            assert got.is_whole is not is_cut
            assert is_cut or got.body == text

    run(work())


@pytest.mark.parametrize("turns", [2, 24])
@pytest.mark.parametrize("when", ["before the reply", "before the answer", "in the answer"])
def test_client_that_leaves_ends_the_request_upstream(when, turns):
    async def work():
        left = asyncio.Event()
        asked = asyncio.Event()

        async def answer(got: Message, link: Link) -> None:
            announced, first = begun("anthropic")
            if when != "before the reply":
                await link.send(STREAM + chunk(announced))
            if when == "in the answer":
                await link.send(chunk(first))
            asked.set()
            await link.gone()
            left.set()

        async with line(answer, window_tokens=WINDOW) as on:
            link = await on.connect()
            await link.send(post(PATHS["anthropic"], encoded(agent_request("anthropic", turns, stream=True))))
            await asked.wait()
            if when == "in the answer":
                await link.head()
            link.abort()
            await asyncio.wait_for(left.wait(), 1)

    run(work())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_slow_client_slows_the_upstream_down(path):
    """What a client does not read must not pile up here."""

    async def work():
        written = 0
        piece = event({"type": "content_block_delta", "text": "x" * 60_000})

        async def answer(got: Message, link: Link) -> None:
            nonlocal written
            await link.send(STREAM)
            while written < 200 << 20:
                await link.send(chunk(piece))
                written += len(piece)

        async with line(answer) as on:
            link = await on.connect()
            await link.send(post(path, encoded(agent_request("anthropic", 2, stream=True))))
            await link.head()
            seen = -1
            while seen != written:
                seen = written
                await asyncio.sleep(0.2)
            assert written < 32 << 20  # sockets' own buffers, and ours
            link.abort()

    run(work())


# --- overflows -------------------------------------------------------------------------------------------------------


def refuse(wire, how, used, limit):
    """The bytes by which an upstream refuses a request for its length."""
    body = too_long(wire, used, limit)
    if how in ("400", "413"):
        return reply(body, f"{how} No")
    text = begun(wire)[0] + overflow_event(wire, used, limit)
    return STREAM + chunk(text) + LAST


@pytest.mark.parametrize("how", ["400", "413", "stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_overflow_before_the_answer_is_rescued(wire, how):
    async def work():
        good = b"".join(begun(wire)) + ended(wire, 9_000)

        async def answer(got: Message, link: Link) -> None:
            if len(got.body) > 40_000:
                await link.send(refuse(wire, how, 30_000, 16_000))
            else:
                await send_all(link, good)

        async with line(answer) as on:
            given = agent_request(wire, 24, stream=True, model="unheard-of")
            got = await on.post(wire, given)
            assert (got.status, got.body) == (200, good)
            assert "rescued=" in got.get("x-packlight")
            sizes = [len(r.body) for r in on.upstream.requests]
            assert 2 <= len(sizes) <= 4
            assert sizes == sorted(set(sizes), reverse=True)
            assert on.upstream.requests[0].body == encoded(given)
            before = items_of(on.sent, wire)
            got = await on.post(wire, agent_request(wire, 25, stream=True, model="unheard-of"))
            assert "reapplied" in got.get("x-packlight")
            assert items_of(on.sent, wire)[: len(before)] == before

    run(work())


@pytest.mark.parametrize("wire", WIRES)
def test_overflow_after_the_answer_has_begun_passes(wire):
    """Case B118: a second attempt must not be appended to what was already told."""

    async def work():
        text = b"".join(begun(wire)) + overflow_event(wire)

        async def answer(got: Message, link: Link) -> None:
            await send_all(link, text)

        async with line(answer, window_tokens=WINDOW) as on:
            got = await on.post(wire, agent_request(wire, 24, stream=True))
            assert (got.body, len(on.upstream.requests)) == (text, 1)

    run(work())


def test_overload_in_a_stream_is_no_overflow():
    """Case B118: the client itself tries again."""

    async def work():
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        text = begun("anthropic")[0] + event(error, "error")

        async def answer(got: Message, link: Link) -> None:
            await send_all(link, text)

        async with line(answer, window_tokens=WINDOW) as on:
            got = await on.post("anthropic", agent_request("anthropic", 24, stream=True))
            assert (got.body, len(on.upstream.requests)) == (text, 1)

    run(work())


@pytest.mark.parametrize("how", ["400", "413", "stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_overflow_that_nothing_cures_comes_back_as_the_provider_said_it(wire, how):
    async def work():
        refusal = refuse(wire, how, 900_000, 16_000)
        async with line(refusal, window_tokens=WINDOW) as on:
            got = await on.post(wire, agent_request(wire, 24, stream=True))
            assert len(on.upstream.requests) <= 4
            if how == "stream":
                assert (got.status, got.body) == (200, begun(wire)[0] + overflow_event(wire, 900_000, 16_000))
            else:
                assert (got.status, got.json) == (int(how), too_long(wire, 900_000, 16_000))

    run(work())


# --- other refusals --------------------------------------------------------------------------------------------------


def fault_event(wire):
    error = {"type": "invalid_request_error", "code": "invalid_value", "message": "some field is not what it should be"}
    if wire == "responses":
        return event({**error, "type": "error"}, "error")
    return event({"type": "error", "error": error} if wire == "anthropic" else {"error": error}, "error")


@pytest.mark.parametrize("wire", WIRES)
def test_new_edits_refused_in_a_stream_are_taken_back(wire):
    async def work():
        good = b"".join(begun(wire)) + ended(wire, 9_000)
        given = [agent_request(wire, turns, stream=True) for turns in (24, 25)]

        async def answer(got: Message, link: Link) -> None:
            is_given = got.body in map(encoded, given)
            await send_all(link, good if is_given else begun(wire)[0] + fault_event(wire))

        async with line(answer, window_tokens=16_000) as on:
            for count, body in enumerate(given, 2):
                got = await on.post(wire, body)
                assert (got.status, got.body, len(on.upstream.requests)) == (200, good, count)
            [thread] = on.proxy.watch.threads.values()
            assert [turn.rescues for turn in thread.turns] == [1, 0]
            assert "left alone" in thread.turns[-1].reason

    run(work())


@pytest.mark.parametrize("wire", WIRES)
def test_fault_in_a_stream_that_is_not_ours_comes_as_it_is_and_nothing_is_taken_back(wire):
    async def work():
        fault = begun(wire)[0] + fault_event(wire)

        async def answer(got: Message, link: Link) -> None:
            await send_all(link, fault)

        async with line(answer, window_tokens=16_000) as on:
            for count in (2, 3):  # the batch stands: there are no new edits the second time
                got = await on.post(wire, agent_request(wire, 24, stream=True))
                assert (got.status, got.body, len(on.upstream.requests)) == (200, fault, count)
            [thread] = on.proxy.watch.threads.values()
            assert not any("left alone" in turn.reason for turn in thread.turns)

    run(work())


def refuse_without_a_word(how):
    if how == "stream":
        return STREAM + chunk(event({"type": "error", "error": {"message": ""}}, "error")) + LAST
    return reply(b"" if how == "empty" else b"Bad Request", "400 Bad Request")


@pytest.mark.parametrize("how", ["empty", "text", "stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_error_without_a_word_near_the_window_is_tried_smaller(wire, how):
    async def work():
        good = b"".join(begun(wire)) + ended(wire, 9_000)
        given = agent_request(wire, 24, stream=True)

        async def answer(got: Message, link: Link) -> None:
            await link.send(refuse_without_a_word(how)) if got.body == encoded(given) else await send_all(link, good)

        async with line(answer, window_tokens=16_000, mode="rescue") as on:
            got = await on.post(wire, given)
            assert (got.status, got.body, len(on.upstream.requests)) == (200, good, 2)
            [thread] = on.proxy.watch.threads.values()
            assert (thread.turns[-1].outcome, thread.turns[-1].rescues) == ("compacted", 1)

    run(work())


@pytest.mark.parametrize("how", ["empty", "text", "stream"])
@pytest.mark.parametrize(("window", "count"), [(16_000, 2), (100_000, 1)])
def test_error_without_a_word_comes_back_as_it_is(how, window, count):
    """At once where the request is well within its window, after one try near it."""

    async def work():
        refusal = refuse_without_a_word(how)
        async with line(refusal, window_tokens=window, mode="rescue") as on:
            got = await on.post("anthropic", agent_request("anthropic", 24, stream=True))
            assert got.status == (200 if how == "stream" else 400)
            assert got.body in (b"", b"Bad Request", event({"type": "error", "error": {"message": ""}}, "error"))
            assert len(on.upstream.requests) == count

    run(work())


def test_first_part_waits_for_no_batch_of_others():
    """Batches are planned beside the event loop: a stream goes on meanwhile."""

    async def work():
        gaps = []

        async def answer(got: Message, link: Link) -> None:
            if len(got.body) > 10_000:
                await link.send(reply({"usage": {}}))
                return
            await link.send(STREAM)
            for n in range(60):
                await link.send(chunk(event({"type": "content_block_delta", "at": time.perf_counter(), "n": n})))
                await asyncio.sleep(0.005)
            await link.send(LAST)

        async with line(answer, window_tokens=100_000) as on:
            link = await on.connect()
            await link.send(
                post(PATHS["anthropic"], encoded({"model": "claude-opus-5-5", "messages": [], "stream": True}))
            )
            await link.head()
            batch = asyncio.create_task(on.post("anthropic", agent_request("anthropic", 400)))
            for _ in range(60):
                data = json.loads((await link.reader.readuntil(b"\n\n\r\n")).split(b"data: ")[1])
                gaps.append(time.perf_counter() - data["at"])
            assert "compacted" in (await batch).get("x-packlight")
            assert sorted(gaps)[-3] < 0.2

    run(work())
