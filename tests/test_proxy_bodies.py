"""Bodies that the proxy can't work on go through as they are, and it says so; those that are encoded are read."""

from __future__ import annotations

import gzip
import io
import json
import random
import sys
import tracemalloc
import zlib

import pytest

from packlight.errors import InvalidRequest, PacklightError
from packlight.jsonio import load
from packlight.proxy import Settings, encodings
from packlight.proxy.engine import Engine
from packlight.proxy.log import log
from packlight.proxy.routes import endpoint_of
from proxy_help import PATHS, agent_request, answer_of, encoded, line, post, reply, run
from talk import WIRES

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


ENCODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "deflate ": raw_deflate,
    "zstd": zstd.compress,
    "gzip, zstd": lambda data: zstd.compress(gzip.compress(data)),
    "identity": bytes,
}


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("api", WIRES)
def test_encoded_body_that_fits_arrives_encoded_as_it_was(api, encoding):
    async def work():
        async with line(reply(answer_of(api))) as on:
            data = ENCODERS[encoding](encoded(agent_request(api, 2)))
            got = await on.ask(post(PATHS[api], data, f"Content-Encoding: {encoding}\r\n"))
            assert on.sent.body == data
            assert on.sent.get("Content-Encoding") == encoding.strip()
            assert got.get("x-packlight") == ""

    run(work())


@pytest.mark.parametrize("encoding", ENCODERS)
def test_encoded_body_that_is_too_large_is_compacted_and_goes_on_plain(encoding):
    async def work():
        async with line(reply(answer_of("responses")), window_tokens=16_000) as on:
            data = ENCODERS[encoding](encoded(agent_request("responses", 20)))
            got = await on.ask(post(PATHS["responses"], data, f"Content-Encoding: {encoding}\r\n"))
            assert got.get("x-packlight").startswith("compacted")
            assert on.sent.get("Content-Encoding") == ""
            assert 3 < len(on.sent.json["input"]) <= len(agent_request("responses", 20)["input"])

    run(work())


DEEP = b'{"model":"gpt-5.6","messages":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
WHOLE = encoded(agent_request("chat", 2))
UNREADABLE = {
    "no JSON": b"hello",
    "cut JSON": WHOLE[:-9],
    "empty": b"",
    "blank": b" \n",
    "list": b'[{"role":"user","content":"x"}]',
    "number": b"7",
    "no messages": b'{"model":"gpt-5.6"}',
    "messages null": b'{"model":"gpt-5.6","messages":null}',
    "messages an object": b'{"model":"gpt-5.6","messages":{}}',
    "entries that are no objects": b'{"model":"gpt-5.6","messages":["a",1,null,[]],"tools":[{}]}',
    "bad UTF-8": WHOLE.replace(b"Step", b"St\xff\xfep"),
    "UTF-16": WHOLE.decode().encode("utf-16"),
    "NaN": WHOLE.replace(b'"model"', b'"x": NaN, "model"'),
    "deep": DEEP,
    "two values": WHOLE + WHOLE,
    "binary": bytes(range(256)) * 40,
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_body_goes_through_and_says_so(name, capsys):
    async def work():
        async with line(reply(answer_of("chat")), quiet=False) as on:
            settings = on.proxy.settings
            on.proxy.watch.listeners.append(lambda thread, turn: log(settings, thread, turn))
            got = await on.ask(post(PATHS["chat"], UNREADABLE[name]))
            assert got.status == 200
            assert on.sent.body == UNREADABLE[name]
            assert got.get("x-packlight").startswith("unchanged; ")
            assert len(on.upstream.requests) == 1

    run(work())
    logged = capsys.readouterr().err
    assert logged.count("\n") == 1
    assert logged.startswith("passed: ")


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("br", b"\x0b\x02\x80{}\x03"),
        ("gzip", WHOLE),
        ("gzip", gzip.compress(WHOLE)[:-20]),
        ("zstd", WHOLE),
        ("zstd", zstd.compress(WHOLE)[:-20]),
        ("deflate", zlib.compress(WHOLE)[:40]),
        ("gzip, br", gzip.compress(WHOLE)),
        ("\xff", WHOLE),
    ],
)
def test_body_in_an_encoding_that_is_unknown_or_broken_goes_through(encoding, data):
    async def work():
        async with line(reply(answer_of("chat"))) as on:
            got = await on.ask(post(PATHS["chat"], data, f"Content-Encoding: {encoding}\r\n"))
            assert (got.status, on.sent.body) == (200, data)
            assert got.get("x-packlight").startswith("unchanged; ")

    run(work())


ODD_BUT_READ = {
    "lone surrogate": WHOLE.replace(b"Step", b"\\ud83d Step"),
    "beyond a double": WHOLE.replace(b'"model"', b'"seed": 1e400, "model"'),
    "long integer": WHOLE.replace(b'"model"', b'"seed": ' + b"7" * 5_000 + b', "model"'),
    "byte order mark": b"\xef\xbb\xbf" + WHOLE,
    "same key twice": WHOLE.replace(b'"model"', b'"model": "x", "model"', 1),
    "escaped key": WHOLE.replace(b'"model"', b'"m\\u006fdel"'),
    "300 levels": WHOLE.replace(b'"model"', b'"x": ' + b"[" * 300 + b"]" * 300 + b', "model"'),
}


@pytest.mark.parametrize("name", ODD_BUT_READ)
def test_odd_body_that_fits_is_read_and_arrives_as_it_was(name):
    async def work():
        async with line(reply(answer_of("chat"))) as on:
            got = await on.ask(post(PATHS["chat"], ODD_BUT_READ[name]))
            assert (got.status, got.get("x-packlight")) == (200, "")
            assert on.sent.body == ODD_BUT_READ[name]
            [thread] = on.proxy.watch.threads.values()
            assert thread.turns[-1].tokens_before > 1_000

    run(work())


def test_message_nested_too_deep_for_us_goes_through_and_says_so():
    async def work():
        async with line(reply(answer_of("chat")), window_tokens=2_000) as on:
            data = WHOLE.replace(b'"role"', b'"x": ' + b"[" * 900 + b"]" * 900 + b', "role"', 1)
            got = await on.ask(post(PATHS["chat"], data))
            assert (got.status, on.sent.body) == (200, data)
            assert got.get("x-packlight").startswith("unchanged; error=")

    run(work())


@pytest.mark.parametrize("name", ODD_BUT_READ)
def test_odd_body_that_is_too_large_is_compacted_all_the_same(name):
    async def work():
        async with line(reply(answer_of("chat")), window_tokens=16_000) as on:
            large = encoded(agent_request("chat", 20))
            large = large if name == "byte order mark" else large.replace(b'"model"', b'"note": "x", "model"')
            odd = ODD_BUT_READ[name]
            data = odd[: odd.index(b'"messages"')] + large[large.index(b'"messages"') :]
            if name == "lone surrogate":
                first = odd[odd.index(b'"messages"') : odd.index(b'"tool_calls"')]
                data = large[: large.index(b'"messages"')] + first + large[large.index(b'"tool_calls"') :]
            got = await on.ask(post(PATHS["chat"], data))
            assert got.get("x-packlight").startswith("compacted"), got.get("x-packlight")
            assert load(on.sent.body)["messages"][0] == load(data)["messages"][0]
            assert len(on.sent.body) < len(data) / 2

    run(work())


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/vnd.api+json", ""])
def test_content_type_is_the_clients_affair(kind):
    async def work():
        async with line(reply(answer_of("chat")), window_tokens=16_000) as on:
            got = await on.ask(post(PATHS["chat"], encoded(agent_request("chat", 20)), kind=kind))
            assert got.get("x-packlight").startswith("compacted")
            assert on.sent.get("Content-Type") == kind

    run(work())


def test_input_that_is_a_text_goes_through():
    async def work():
        async with line(reply(answer_of("responses"))) as on:
            data = encoded({"model": "gpt-5.6", "input": "hello"})
            got = await on.ask(post(PATHS["responses"], data))
            assert (on.sent.body, got.get("x-packlight")) == (data, "")

    run(work())


def test_message_of_another_api_at_a_path_like_ours_goes_through():
    """OpenAI's Assistants have /v1/threads/ID/messages."""

    async def work():
        async with line(reply(answer_of("chat"))) as on:
            data = b'{"role": "user", "content": "hello"}'
            got = await on.ask(post("/v1/threads/thread_1/messages", data))
            assert (got.status, on.sent.body) == (200, data)

    run(work())


def test_50_megabytes_go_through_unchanged():
    async def work():
        async with line(reply(answer_of("chat"))) as on:
            big = {"role": "user", "content": "x" * (50 << 20)}
            data = encoded({"model": "nobody-knows-it", "messages": [big]})
            got = await on.ask(post(PATHS["chat"], data))
            assert got.status == 200
            assert on.sent.body == data

    run(work())


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_bomb_is_given_up_before_it_fills_the_memory(encoding, monkeypatch):
    monkeypatch.setattr(encodings, "MAX_BODY_BYTES", 4 << 20)
    bomb = ENCODERS[encoding](bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="larger than 4 MB"):
            encodings.decompressed(bomb, encoding)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_bombs_in_a_row_are_given_up():
    """Each encoding multiplies what the one before left."""
    bomb = gzip.compress(gzip.compress(bytes(1 << 20)))
    assert encodings.decompressed(bomb, "gzip, gzip") == bytes(1 << 20)
    with pytest.raises(InvalidRequest):
        encodings.decompressed(b"x", ", ".join(["gzip"] * 50))


def test_several_members_of_gzip_are_one_body():
    data = io.BytesIO(gzip.compress(WHOLE[:100]) + gzip.compress(WHOLE[100:])).read()
    assert encodings.decompressed(data, "gzip") == WHOLE


@pytest.mark.parametrize("recall_tool", [False, True])
@pytest.mark.parametrize("wire", WIRES)
def test_whatever_a_body_holds_is_no_fault_of_ours(wire, recall_tool):
    """One value after another is another one than the API takes."""
    whole = json.loads(encoded(agent_request(wire, 12)))
    [key] = {"messages", "input"} & whole.keys()
    chance = random.Random(7)
    odd = [None, 5, "x", [], {}, [5, "x", None], {"type": ["x"]}, {"name": 5, "function": "x"}, [{"function": "x"}]]
    engine = Engine(Settings(journal=None, window_tokens=9_000, recall_tool=recall_tool))
    for _ in range(150):
        body = json.loads(json.dumps(whole))
        place = chance.choice([body, body, body[key], body["tools"]])
        while True:
            at = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if chance.random() < 0.4 or not isinstance(place[at], (dict, list)) or not place[at]:
                break
            place = place[at]
        place[at] = chance.choice(odd)
        exchange = engine.begin(endpoint_of("POST", PATHS[wire]), {"x-api-key": "k"}, json.dumps(body).encode())
        assert exchange.error is None or isinstance(exchange.error, PacklightError), (exchange.error, at, place[at])
