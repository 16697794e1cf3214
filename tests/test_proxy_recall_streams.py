"""One stream for the client out of several: however the bytes come, whatever a server makes of its API."""

from __future__ import annotations

import json
import re

import pytest

from packlight.proxy.events import Events, json_of
from packlight.proxy.recall.turn import WIRES
from packlight.testing import Call, Reply
from packlight.testing.replies import Counted, body_of
from packlight.testing.streams import sse
from talk import WIRES as NAMES

every_wire = pytest.mark.parametrize("wire", NAMES)
ASKS, READS = Call("recall", {"query": "x"}), Call("read", {"path": "a.py"})
ROUNDS = [
    Reply("I look.", (ASKS,), "hm"),
    Reply("", (ASKS, ASKS), "so"),
    Reply("Both.", (READS, ASKS, READS), "now"),
]


def body(wire, reply, number):
    counted = Counted(input_tokens=100 * number, cached_tokens=0, output_tokens=10)
    return body_of(wire, reply, number, counted, "m")


def text_of(wire, reply, number):
    request = {"stream_options": {"include_usage": True}}
    return sse(wire, 200, body(wire, reply, number), request).encode()


def stitched(wire, replies, piece_bytes):
    """What the client gets, and the replies as they were read on the way."""
    stitch, out, read = WIRES[wire].stitch(), b"", []
    for number, text in enumerate(replies, 1):
        stitch.begin()
        events = Events()
        for at in range(0, len(text), piece_bytes):
            out += b"".join(stitch.event(raw, json_of(raw)) for raw in events.feed(text[at : at + piece_bytes]))
        assert stitch.is_over and events.left() == b""
        read.append(stitch.reply())
        if number < len(replies):
            stitch.go_on()
    return out + stitch.end(), read


def events_in(text):
    return [json.loads(data) for data in re.findall(rb"^data: ({.*})$", text, re.MULTILINE)]


@every_wire
def test_any_cut_of_the_bytes_gives_the_same(wire):
    replies = [text_of(wire, reply, n) for n, reply in enumerate(ROUNDS, 1)]
    whole, read = stitched(wire, replies, 1 << 20)
    for piece_bytes in (1, 7, 100):
        assert stitched(wire, replies, piece_bytes) == (whole, read)
    crlf = [text.replace(b"\n", b"\r\n") for text in replies]
    assert events_in(stitched(wire, crlf, 11)[0].replace(b"\r\n", b"\n")) == events_in(whole)
    assert b"recall" not in whole


@every_wire
def test_streamed_reply_is_read_as_the_one_that_is_not(wire):
    for number, reply in enumerate(ROUNDS, 1):
        [streamed] = stitched(wire, [text_of(wire, reply, number)], 50)[1]
        assert WIRES[wire].read(streamed) == WIRES[wire].read(body(wire, reply, number))


@every_wire
def test_reply_without_a_call_keeps_its_bytes(wire):
    text = text_of(wire, Reply("Hi.", (READS, READS), "hm"), 1)
    assert stitched(wire, [text], 13)[0] == text


def test_anthropic_blocks_are_numbered_on():
    text, _ = stitched("anthropic", [text_of("anthropic", reply, n) for n, reply in enumerate(ROUNDS, 1)], 99)
    events = events_in(text)
    begun = [(e["index"], e["content_block"]["type"]) for e in events if e["type"] == "content_block_start"]
    kinds = ["thinking", "text", "thinking", "thinking", "text", "tool_use", "tool_use"]
    assert begun == list(enumerate(kinds))
    assert [e["type"] for e in events].count("message_start") == 1
    assert [e["type"] for e in events][-2:] == ["message_delta", "message_stop"]
    assert events[-2]["usage"] == {"output_tokens": 30}


def test_anthropic_end_that_tells_its_input_tells_that_of_the_first():
    replies = [text_of("anthropic", reply, n) for n, reply in enumerate(ROUNDS, 1)]
    told = [
        re.sub(rb'"usage": {"output_tokens": 10}}', b'"usage": {"input_tokens": %d00, "output_tokens": 10}}' % n, text)
        for n, text in enumerate(replies, 1)
    ]
    assert events_in(stitched("anthropic", told, 99)[0])[-2]["usage"] == {"input_tokens": 100, "output_tokens": 30}


def test_chat_calls_are_numbered_on_and_have_one_frame():
    events = events_in(stitched("chat", [text_of("chat", reply, n) for n, reply in enumerate(ROUNDS, 1)], 99)[0])
    calls = [c for e in events for choice in e["choices"] for c in choice["delta"].get("tool_calls", ())]
    assert {c["index"] for c in calls} == {0, 1} and {c.get("id") for c in calls} == {None, "call_3_0", "call_3_2"}
    assert {e["id"] for e in events} == {"chatcmpl-1"}
    assert "".join(c["delta"].get("content") or "" for e in events for c in e["choices"]) == "I look.\n\nBoth."
    assert [c["finish_reason"] for e in events for c in e["choices"] if c["finish_reason"]] == ["tool_calls"]
    assert events[-1]["usage"]["prompt_tokens"] == 100 and events[-1]["usage"]["total_tokens"] == 130


def test_responses_items_and_events_are_numbered_on():
    text, _ = stitched("responses", [text_of("responses", reply, n) for n, reply in enumerate(ROUNDS, 1)], 99)
    events = events_in(text)
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    done = [(e["output_index"], e["item"]["type"]) for e in events if e["type"] == "response.output_item.done"]
    kinds = ["reasoning", "message", "reasoning", "reasoning", "message", "function_call", "function_call"]
    assert done == list(enumerate(kinds))
    last = events[-1]["response"]
    assert [item["type"] for item in last["output"]] == kinds and last["id"] == "resp_1"
    assert last["usage"]["input_tokens"] == 100 and last["usage"]["total_tokens"] == 130


def test_chat_calls_that_all_have_the_same_index_are_told_apart():
    """As some compatible servers stream them: each whole, with an id of its own."""
    calls = [
        {"index": 0, "id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for n, name in enumerate(["read", "recall", "read"])
    ]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]} for call in calls]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    text = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    out, [reply] = stitched("chat", [text], 1 << 20)
    shown = [c for e in events_in(out) for c in e["choices"][0]["delta"].get("tool_calls", ())]
    assert [(c["index"], c["id"]) for c in shown] == [(0, "call_0"), (1, "call_2")]
    assert [a.id for a in WIRES["chat"].read(reply).asked] == ["call_1"]
    assert out.endswith(b"data: [DONE]\n\n")


@every_wire
def test_call_of_a_reply_that_was_cut_short_is_not_answered(wire):
    said = WIRES[wire].read(body(wire, Reply("I look.", (ASKS,), is_cut=True), 1))
    assert said.asked == () and said.hides and "recall" not in json.dumps(said.shown)
