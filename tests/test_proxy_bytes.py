"""What the proxy leaves alone arrives byte for byte, both ways."""

from __future__ import annotations

import gzip
import json
import socket

import pytest

from packlight.proxy import server
from proxy_help import (
    LAST,
    PATHS,
    STREAM,
    Link,
    Message,
    Upstream,
    agent_request,
    answer_of,
    chunk,
    encoded,
    line,
    post,
    reply,
    run,
)
from talk import WIRES

ODD_BODY = (
    b'{ "model":"claude-opus-5-5" ,\n\t"max_tokens" : 1e3, "stream":false,"stream":  false, "x":[1.0,1E2,-0],'
    b'"messages":[ {"role":"user","content":"\\u00e9 \\/ \xc3\xa9 \\ud83d\\ude00","role":"user"} ] } \n'
)


def lower(headers):
    return sorted((name.lower(), value) for name, value in headers)


@pytest.mark.parametrize(
    "target",
    [
        "/v1/messages",
        "/v1/messages?beta=true",
        "/v1/messages/",
        "/v1/messages?q=%2Fa%20b+c&empty=&x=%zz",
        "//v1//messages",
        "/v1/x/../messages",
        "/v1/%2e%2e/messages",
        "/v1/m%65ssages",
        "/openai/deployments/gpt%205/chat/completions?api-version=2026-01-01",
        "/v1/files/a%0Ab",
        "/v1/models/" + "x" * 60_000,
        "/%E4%BD%A0?%E4%BD%A0",
        "/v1/;a=b,c:d@e!$&'()*+",
    ],
    ids=lambda target: target[:40],
)
def test_target_arrives_as_it_was_sent(target):
    async def work():
        async with line(reply(answer_of("anthropic"))) as on:
            got = await on.ask(post(target, ODD_BODY))
            assert got.status == 200
            assert on.sent.target == target
            assert on.sent.body == ODD_BODY

    run(work())


HEADERS = (
    "X-Api-Key: sk-1\r\nAuthorization: Bearer  two  spaces\r\nanthropic-beta: a,b\r\nanthropic-beta: c\r\n"
    "User-Agent: x/1\r\nAccept: */*\r\nCookie: a=b; c=d\r\nX-Empty:\r\nX-LONG: " + "y" * 30_000 + "\r\n"
    "X-Stainless-Lang: js\r\nAccept-Encoding: gzip, deflate\r\nTraceparent: 00-1-2-01\r\n"
)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_headers_arrive_as_they_were_sent_and_none_is_added(path):
    async def work():
        async with line(reply(answer_of("anthropic"))) as on:
            await on.ask(post(path, ODD_BODY, HEADERS))
            expected = lower(Message(post(path, ODD_BODY, HEADERS).partition(b"\r\n\r\n")[0]).headers)
            host = on.upstream.url.removeprefix("http://")
            assert lower(on.sent.headers) == sorted((n, host if n == "host" else v) for n, v in expected)

    run(work())


def test_no_header_is_invented_for_a_bare_request():
    async def work():
        async with line(reply()) as on:
            await on.ask(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert [name.lower() for name, _ in on.sent.headers] == ["host"]

    run(work())


def test_header_beyond_ascii_arrives_as_it_was_sent():
    async def work():
        async with line(reply(answer_of("anthropic"), headers="X-Name: caf\xc3\xa9\r\n")) as on:
            for path in ("/v1/messages", "/v1/files"):
                got = await on.ask(post(path, ODD_BODY, "X-Title: caf\xc3\xa9\r\n"))
                assert on.sent.get("X-Title") == "caf\xc3\xa9"
                assert got.get("X-Name") == "caf\xc3\xa9"

    run(work())


def test_headers_between_two_neighbours_stay_there():
    async def work():
        async with line(reply(headers="Keep-Alive: timeout=9\r\nConnection: X-Mine\r\nX-Mine: 1\r\n")) as on:
            mine = "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nProxy-Authorization: Basic eA==\r\n"
            got = await on.ask(post("/v1/files", b"{}", mine))
            names = {name.lower() for name, _ in on.sent.headers}
            assert not names & {"x-hop", "te", "proxy-authorization"}
            assert not {name.lower() for name, _ in got.headers} & {"keep-alive", "x-mine"}

    run(work())


REPLY_HEADERS = (
    "Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\nRequest-Id: req_1\r\nanthropic-ratelimit-tokens-remaining: 5\r\n"
    "retry-after: 7\r\nX-Odd:  a  b \r\nDate: Mon, 30 Nov 2026 00:00:00 GMT\r\nServer: cloudflare\r\n"
)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
@pytest.mark.parametrize("status", ["200 OK", "201 Fine So Far", "299 ", "404 Nope", "529 Overloaded", "529 "])
def test_reply_comes_back_as_it_was_sent(path, status):
    async def work():
        data = b'{"type" :"error", "x":"\\u00e9"}'
        async with line(reply(data, status, REPLY_HEADERS)) as on:
            got = await on.ask(post(path, ODD_BODY))
            assert got.line == f"HTTP/1.1 {status}"
            assert got.body == data
            assert [value for _, value in got.headers] == [
                value for _, value in Message(reply(data, status, REPLY_HEADERS)[: -len(data)]).headers
            ]

    run(work())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "unheard-of"])
def test_compressed_reply_comes_back_as_it_was_sent(path, encoding):
    async def work():
        data = gzip.compress(json.dumps(answer_of("anthropic")).encode())  # what it says it is need not be true
        kind = "Content-Type: application/json\r\n"
        async with line(reply(data, headers=f"{kind}Content-Encoding: {encoding}\r\n")) as on:
            got = await on.ask(post(path, ODD_BODY))
            assert got.body == data
            assert got.get("Content-Encoding") == encoding

    run(work())


def test_head_204_and_304_have_no_body():
    async def work():
        async with line(reply(b"", headers="Content-Type: text/x\r\n", length=False)) as on:
            on.upstream.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nETag: x\r\n\r\n"
            got = await on.ask(b"HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (got.status, got.get("Content-Length"), got.get("ETag")) == (200, "1234", "x")
            assert on.sent.line == "HEAD /v1/models HTTP/1.1"
            for status in ("204 No Content", "304 Not Modified"):
                on.upstream.answer = f"HTTP/1.1 {status}\r\nETag: x\r\n\r\n".encode()
                for data in (b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n", post("/v1/messages", ODD_BODY)):
                    got = await on.ask(data)
                    assert (got.line, got.body) == (f"HTTP/1.1 {status}", b"")
                    assert {name.lower() for name, _ in got.headers} == {"etag"}

    run(work())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_redirect_is_the_clients_to_follow(path):
    async def work():
        async with line(reply(b"", "307 Temporary Redirect", "Location: http://127.0.0.1:1/x\r\n")) as on:
            got = await on.ask(post(path, ODD_BODY))
            assert (got.status, got.get("Location")) == (307, "http://127.0.0.1:1/x")
            assert len(on.upstream.requests) == 1

    run(work())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_chunked_request_arrives_whole(path):
    async def work():
        async with line(reply(answer_of("anthropic"))) as on:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
            pieces = b"".join(chunk(ODD_BODY[i : i + 7]) for i in range(0, len(ODD_BODY), 7))
            got = await on.ask(head + pieces + LAST)
            assert got.status == 200
            assert on.sent.body == ODD_BODY

    run(work())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_client_that_waits_for_100_continue_is_told_to_go_on(path):
    async def work():
        async with line(reply(answer_of("anthropic"))) as on:
            head, _, body = post(path, ODD_BODY, "Expect: 100-continue\r\n").partition(b"\r\n\r\n")
            link = await on.connect()
            await link.send(head + b"\r\n\r\n")
            assert (await link.head()).startswith(b"HTTP/1.1 100")
            await link.send(body)
            assert (await link.message(is_reply=True)).status == 200
            assert on.sent.body == ODD_BODY

    run(work())


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "GET"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_empty_body_stays_empty(method, path):
    async def work():
        async with line(reply(answer_of("anthropic"))) as on:
            got = await on.ask(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
            assert got.status == 200
            assert on.sent.line == f"{method} {path} HTTP/1.1"
            assert (on.sent.body, on.sent.get("Transfer-Encoding")) == (b"", "")

    run(work())


def test_unknown_endpoint_streams_both_ways():
    """Neither end waits for the other's whole message."""

    async def work():
        async def answer(head: Message, link: Link) -> None:
            await link.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            seen = b""
            while not seen.endswith(LAST):
                seen += await link.some()
                await link.send(chunk(b"echo %d" % len(seen)))
            await link.send(LAST)

        async with line(answer) as on:
            on.upstream.reads_bodies = False
            link = await on.connect()
            await link.send(b"POST /v1/audio HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            await link.send(chunk(b"one"))
            assert (await link.head()).startswith(b"HTTP/1.1 200")
            assert b"echo 8" in await link.some()
            await link.send(chunk(b"two"))
            assert b"echo 16" in await link.some()
            await link.send(LAST)
            assert (await link.some()).endswith(LAST)

    run(work())


@pytest.mark.parametrize("wire", WIRES)
def test_after_a_batch_what_is_unchanged_keeps_its_bytes(wire):
    async def work():
        async with line(reply(answer_of(wire)), window_tokens=16_000) as on:
            given = agent_request(wire, 20, note="\u00e9 \u2028", seed=1.0)
            got = await on.post(wire, given)
            assert got.get("x-packlight").startswith("compacted; ")
            key = "input" if wire == "responses" else "messages"
            sent = on.sent.body
            assert len(sent) < len(encoded(given)) / 2
            for name in given.keys() - {key}:
                assert json.dumps(given[name], separators=(" , ", " :  ")).encode() in sent
            kept = [m for m in given[key] if m in on.sent.json[key]]
            assert len(kept) >= 3
            for item in kept:
                assert encoded(item) in sent

    run(work())


def test_absolute_target_goes_to_the_upstream_like_any_other():
    async def work():
        async with line(reply(answer_of("anthropic"))) as on:
            got = await on.ask(post(f"http://127.0.0.1:{on.proxy.port}/v1/messages?a=%20", ODD_BODY))
            assert got.status == 200
            assert on.sent.target == "/v1/messages?a=%20"
            assert on.sent.get("Host") == on.upstream.url.removeprefix("http://")

    run(work())


@pytest.mark.parametrize(
    "first", ["CONNECT example.org:443", "OPTIONS *", "GET @example.org/", "GET x", "GET http:///x", "POST http://[/x"]
)
def test_target_that_is_no_path_is_refused(first):
    async def work():
        async with line(reply()) as on:
            got = await on.ask(f"{first} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
            assert got.status in (400, 403)
            assert on.upstream.requests == []

    run(work())


def test_connection_serves_many_requests():
    async def work():
        async with line(reply(answer_of("anthropic"))) as on:
            link = await on.connect()
            for n in range(20):
                await link.send(post(PATHS["anthropic"], ODD_BODY) if n % 2 else post("/v1/files", b"%d" % n))
                assert (await link.message(is_reply=True)).status == 200
            assert on.upstream.connections == 1

    run(work())


def test_connection_upstream_is_looked_after_while_an_answer_is_thought_over():
    async def work():
        async with Upstream(STREAM) as upstream, server._session() as session, session.get(upstream.url) as got:
            made = got.connection.transport.get_extra_info("socket")
            assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if hasattr(socket, "TCP_KEEPIDLE"):
                assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60

    run(work())
