"""Refusals, failures and silence upstream: the client sees what it would have seen without a proxy."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from packlight.proxy import launch, relay
from proxy_help import (
    PATHS,
    Link,
    Message,
    agent_request,
    answer_of,
    encoded,
    items_of,
    line,
    post,
    reply,
    run,
    too_long,
)
from talk import WIRES

REFUSALS = {
    "401 Unauthorized": {"error": {"type": "authentication_error", "message": "invalid x-api-key"}},
    "403 Forbidden": {"error": {"type": "permission_error", "message": "no"}},
    "404 Not Found": {"error": {"type": "not_found_error", "message": "model: x"}},
    "429 Too Many Requests": {"error": {"type": "rate_limit_error", "message": "Too many tokens per minute"}},
    "500 Internal Server Error": {"error": {"type": "api_error", "message": "Internal server error"}},
    "503 Service Unavailable": {"error": {"message": "loading model"}},
    "529 Overloaded": {"error": {"type": "overloaded_error", "message": "Overloaded"}},
    "400 Bad Request": {"error": {"type": "invalid_request_error", "message": "temperature: must be below 1"}},
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", REFUSALS)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_other_refusals_pass_as_they_are_and_nothing_is_sent_twice(wire, status, is_streamed):
    async def work():
        refusal = reply(REFUSALS[status], status, "retry-after: 17\r\nx-should-retry: true\r\n")
        async with line(refusal, window_tokens=32_000) as on:
            for turns in (2, 24):
                got = await on.post(wire, agent_request(wire, turns, stream=is_streamed))
                assert (got.line, got.json) == (f"HTTP/1.1 {status}", REFUSALS[status])
                assert (got.get("retry-after"), got.get("x-should-retry")) == ("17", "true")
            assert len(on.upstream.requests) == 2

    run(work())


@pytest.mark.parametrize("body", [b"<html>502 Bad Gateway</html>", b"", b"\xff\xfe", b'{"error":'])
def test_refusal_that_is_no_json_passes(body):
    async def work():
        async with line(reply(body, "502 Bad Gateway"), window_tokens=32_000) as on:
            got = await on.post("chat", agent_request("chat", 24))
            assert (got.status, got.body, len(on.upstream.requests)) == (502, body, 1)

    run(work())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_upstream_that_refuses_connections_is_named(path):
    async def work():
        async with line(b"", upstream="http://127.0.0.1:9") as on:
            got = await on.ask(post(path, encoded(agent_request("anthropic", 2))))
            assert got.status == 502
            refused = "packlight could not reach http://127.0.0.1:9: Connection refused"
            assert got.json["error"]["message"] == refused
            assert got.get("x-packlight") == "upstream unreachable"

    run(work())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-",
    ],
)
def test_malformed_reply_is_told_as_a_failing_connection(path, data):
    async def work():
        async def answer(got: Message, link: Link) -> None:
            await link.send(data)
            link.close()

        async with line(answer) as on:
            got = await on.ask(post(path, encoded(agent_request("anthropic", 2))))
            assert got.status == 502
            assert got.json["error"]["message"].startswith("packlight could not reach ")
            assert len(on.upstream.requests) == 1

    run(work())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_malformed_chunks_are_seen_as_a_cut(path, kind, monkeypatch):
    async def work():
        async def answer(got: Message, link: Link) -> None:
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
            await link.send(head.encode() + b"3\r\nabc\r\n")
            await asyncio.sleep(0.1)  # longer than a look: silence alone is no cut
            await link.send(b"3\r\ndef\r\n")
            await asyncio.sleep(0.1)
            await link.send(b"zz\r\n")
            await link.gone()

        async with line(answer) as on:
            got = await on.ask(post(path, encoded(agent_request("anthropic", 2))))
            assert (got.status, got.body, got.is_whole) == (200, b"abcdef", False)

    monkeypatch.setattr(relay, "LOOK_SECONDS", 0.03)
    run(work())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_upstream_that_never_answers_is_waited_for_until_the_client_leaves(path):
    async def work():
        left = asyncio.Event()

        async def answer(got: Message, link: Link) -> None:
            await link.gone()
            left.set()

        async with line(answer) as on:
            link = await on.connect()
            await link.send(post(path, encoded(agent_request("anthropic", 2))))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(link.reader.read(1), 0.3)
            assert not left.is_set()
            link.close()
            await asyncio.wait_for(left.wait(), 1)

    run(work())


def test_client_that_leaves_while_it_still_sends_leaves_nothing_behind():
    async def work():
        async with line(reply(answer_of("chat"))) as on:
            link = await on.connect()
            await link.send(post(PATHS["chat"], b"x" * 1_000)[:-500])
            link.abort()
            assert (await on.post("chat", agent_request("chat", 2))).status == 200
            assert len(on.upstream.requests) == 1

    run(work())


@pytest.mark.parametrize("wire", WIRES)
def test_overflow_teaches_the_window_of_a_model_that_is_not_known(wire):
    async def work():
        async def answer(got: Message, link: Link) -> None:
            over = len(got.body) > 40_000
            await link.send(reply(too_long(wire, 30_000, 16_000), "400 No") if over else reply(answer_of(wire, 9_000)))

        async with line(answer) as on:
            given = agent_request(wire, 12, model="unheard-of")
            await on.post(wire, given)
            assert on.sent.body == encoded(given)
            got = await on.post(wire, agent_request(wire, 30, model="unheard-of"))
            assert "rescued=" in got.get("x-packlight")
            count = len(on.upstream.requests)
            got = await on.post(wire, agent_request(wire, 50, model="unheard-of"))
            assert got.status == 200
            assert len(on.upstream.requests) == count + 1  # now it is known beforehand
            assert got.get("x-packlight").startswith("compacted")

    run(work())


def test_window_of_an_unknown_model_is_nobodys_guess():
    async def work():
        async with line(reply(answer_of("chat"))) as on:
            given = agent_request("chat", 300, model="unheard-of")
            await on.post("chat", given)
            assert on.sent.body == encoded(given)

    run(work())


def test_limit_of_the_answer_is_what_is_lowered_where_it_is_the_culprit():
    """Case B120: the input fits, its room for the answer does not."""

    async def work():
        message = (
            "This model's maximum context length is 262144 tokens. However, you requested 1000135 tokens "
            "(135 of text input, 1000000 in the output). Please reduce the length of the messages or completion."
        )

        async def answer(got: Message, link: Link) -> None:
            over = got.json["max_tokens"] == 1_000_000
            await link.send(reply({"error": {"message": message}}, "400 No") if over else reply(answer_of("chat")))

        async with line(answer) as on:
            given = agent_request("chat", 1, model="unheard-of", max_tokens=1_000_000)
            got = await on.post("chat", given)
            assert got.status == 200
            assert 200_000 < on.sent.json["max_tokens"] < 262_144 - 135
            assert items_of(on.sent, "chat") == items_of(on.upstream.requests[0], "chat")

    run(work())


def test_tokens_per_minute_that_no_waiting_cures_shrink_the_request():
    """Case B122."""

    async def work():
        message = (
            "Request too large for model `x` in organization `o` service tier `on_demand` on tokens per minute (TPM): "
            "Limit 12000, Requested 24137, please reduce your message size and try again."
        )
        refusal = {"error": {"message": message, "type": "tokens", "code": "rate_limit_exceeded"}}

        async def answer(got: Message, link: Link) -> None:
            over = len(got.body) > 26_000
            await link.send(reply(refusal, "413 No") if over else reply(answer_of("chat", 9_000)))

        async with line(answer) as on:
            got = await on.post("chat", agent_request("chat", 24, model="unheard-of"))
            assert got.status == 200
            assert 2 <= len(on.upstream.requests) <= 4

    run(work())


def test_credentials_of_a_netrc_file_are_nobodys_but_curls(tmp_path, monkeypatch):
    async def work():
        async with line(reply(answer_of("chat"))) as on:
            for headers in ("", "Authorization: Bearer sk-1\r\n"):
                got = await on.ask(post(PATHS["chat"], encoded(agent_request("chat", 2)), headers))
                assert got.status == 200
                assert on.sent.get("Authorization") == headers.removeprefix("Authorization: ").strip()

    file = tmp_path / "netrc"
    file.write_text("machine 127.0.0.1 login me password secret\n")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    run(work())


def test_machines_own_proxy_is_used_where_its_environment_names_one(monkeypatch):
    async def work():
        async with line(reply(answer_of("chat")), upstream="http://example.invalid:81") as on:
            monkeypatch.setenv("http_proxy", on.upstream.url)
            monkeypatch.setenv("no_proxy", "localhost")
            got = await on.ask(post(PATHS["chat"], encoded(agent_request("chat", 2))))
            assert got.status == 200
            assert on.sent.target == "http://example.invalid:81/v1/chat/completions"
            assert on.sent.get("Host") == "example.invalid:81"

    run(work())


def test_failure_of_ours_lets_the_request_through(monkeypatch):
    def boom(*args, **options):
        raise ZeroDivisionError("of ours")

    async def work():
        async with line(reply(answer_of("chat")), window_tokens=4_000) as on:
            monkeypatch.setattr("packlight.compactor.Compactor.fit", boom)
            given = agent_request("chat", 24)
            got = await on.post("chat", given)
            assert (got.status, on.sent.body) == (200, encoded(given))
            assert got.get("x-packlight") == "unchanged; error=ZeroDivisionError: of ours"
            [told] = [text for text in launch.done(on.proxy.watch) if "error" in text]
            assert "of ours" in told

    run(work())
