"""`packlight.testing`'s model server: what real clients do beside plain requests, and thinking that is bound."""

from __future__ import annotations

import gzip
import http.client
import json
from copy import deepcopy
from urllib.parse import urlsplit

import pytest

from packlight.testing import ModelServer, Reply

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def asked(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, names, encode_chunked=names.get("Transfer-Encoding") == "chunked")
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, json.loads(text) if text else None


def test_preflights_are_answered():
    with ModelServer([]) as server:
        assert asked(server, "HEAD", "/") == (200, None)
        status, models = asked(server, "GET", "/v1/models")
    assert (status, models["data"][0]["id"]) == (200, "scripted")
    assert server.requests == []


def test_websocket_is_refused_so_that_the_client_posts():
    with ModelServer([]) as server:
        status, body = asked(server, "GET", "/v1/responses", Connection="Upgrade", Upgrade="websocket")
    assert status == 426
    assert "by POST" in body["error"]["message"]


def test_chunked_and_compressed_bodies_are_read():
    data = json.dumps(CHAT).encode()
    with ModelServer([]) as server:
        chunks = asked(
            server, "POST", "/chat/completions", iter([data[:9], data[9:]]), Transfer_Encoding="chunked", X_Mine="1"
        )
        packed = asked(server, "POST", "/chat/completions", gzip.compress(data), Content_Encoding="gzip")
    assert chunks[0] == packed[0] == 200
    assert server.requests == [CHAT, CHAT]
    assert server.headers[0]["x-mine"] == "1"


@pytest.mark.parametrize(
    ("body", "encoding", "status"), [(b"{", "identity", 400), (b"{}", "gzip", 400), (b"", "br", 415)]
)
def test_body_that_can_not_be_read_is_refused(body, encoding, status):
    with ModelServer([]) as server:
        code, answer = asked(server, "POST", "/chat/completions", body, Content_Encoding=encoding)
    assert code == status
    assert "read" in answer["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_compaction_trigger_is_answered_with_one_item(stream):
    items = [{"type": "message", "role": "user", "content": "hi"}, {"type": "compaction_trigger"}]
    body = {"model": "m", "input": items, "stream": stream}
    with ModelServer([Reply("the script goes on")]) as server:
        _, _, text = server.respond("/v1/responses", {}, body)
        _, _, after = server.respond("/v1/responses", {}, {"model": "m", "input": items[:1]})
    if stream:
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        answer = events[-1]["response"]
        assert [e["item"] for e in events if e["type"] == "response.output_item.done"] == answer["output"]
    else:
        answer = json.loads(text)
    assert [item["type"] for item in answer["output"]] == ["compaction"]
    assert "the script goes on" in after


# --- bound thinking --------------------------------------------------------------------------------------------------


def grown(server, turns=3):
    """A conversation in which each answer has thinking, and the request that would go on with it."""
    body = {"model": "m", "max_tokens": 9, "system": "Be careful.", "messages": [{"role": "user", "content": "step 0"}]}
    for turn in range(turns):
        status, answer = server.answer("anthropic", body)
        assert status == 200, answer
        said = {"role": "assistant", "content": answer["content"]}
        body["messages"] = [*body["messages"], said, {"role": "user", "content": f"step {turn + 1}"}]
    return body


def binding_server():
    return ModelServer(lambda number, body: Reply(f"answer {number}", thinking=f"hm {number}"), binds_thinking=True)


def strip(message):
    message["content"] = [b for b in message["content"] if b["type"] != "thinking"]


def mark(body):
    body["messages"][0]["content"] = [{"type": "text", "text": "step 0", "cache_control": {"type": "ephemeral"}}]


ALLOWED = {
    "as it was": lambda body: None,
    "without the first thinking": lambda body: strip(body["messages"][1]),
    "without any thinking": lambda body: [strip(m) for m in body["messages"] if m["role"] == "assistant"],
    "a cache mark": mark,
}
REFUSED = {
    "another system prompt": lambda body: body.update(system="Be quick."),
    "a changed first message": lambda body: body["messages"][0].update(content="step zero"),
    "without a message": lambda body: body["messages"].pop(2),
    "without the thinking between two others": lambda body: strip(body["messages"][3]),
    "another signature": lambda body: body["messages"][1]["content"][0].update(signature="sig-1"),
}


@pytest.mark.parametrize("how", ALLOWED)
def test_bound_thinking_is_taken(how):
    server = binding_server()
    body = deepcopy(grown(server))
    ALLOWED[how](body)
    assert server.answer("anthropic", body)[0] == 200


@pytest.mark.parametrize("how", REFUSED)
def test_bound_thinking_is_refused(how):
    server = binding_server()
    body = deepcopy(grown(server))
    REFUSED[how](body)
    status, answer = server.answer("anthropic", body)
    assert status == 400
    assert "bound to a different conversation" in answer["error"]["message"]


def test_thinking_is_bound_to_what_was_sent_and_not_to_what_comes_later():
    """A prefix that changes between an answer and the next request is seen at once."""
    server = binding_server()
    body = deepcopy(grown(server, turns=1))
    body["messages"][0]["content"] = "[cut]"
    assert server.answer("anthropic", body)[0] == 400
