"""A Chat conversation is put together from a log as the API takes it, and nothing is invented."""

from __future__ import annotations

from typing import Any

from packlight.replay.readers.chat_log import ChatLog, call_of, clean_content
from packlight.replay.readers.sessions import segments_of
from packlight.replay.readers.values import usage_of
from packlight.replay.session import Notes, Turn
from packlight.tokens.usage import cache_read_tokens, cache_write_tokens, input_tokens


def log() -> tuple[ChatLog, Notes]:
    notes = Notes()
    return ChatLog(notes), notes


def told(chat: ChatLog) -> list[tuple[str, Any]]:
    segment = chat.segment()
    assert segment
    return [(m["role"], m.get("content") or len(m["tool_calls"])) for m in segment.messages]


def test_late_result_goes_behind_its_call() -> None:
    chat, notes = log()
    chat.say("user", "go")
    chat.answer("", [call_of("a", "f", {"x": 1})], turn=Turn(0))
    chat.answer("meanwhile", turn=Turn(0))
    assert chat.result("a", "late", "f")
    assert told(chat) == [("user", "go"), ("assistant", 1), ("tool", "late"), ("assistant", "meanwhile")]
    segment = chat.segment()
    assert segment and [t.end for t in segment.turns] == [1, 3]
    assert segment.messages[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"x":1}'}
    assert notes.lines() == []


def test_calls_without_results() -> None:
    """They are left out, but for those that may still be answered."""
    chat, notes = log()
    chat.say("user", "go")
    chat.answer("look", [call_of("lost", "f", {}), call_of("a", "f", {})], turn=Turn(0))
    chat.result("a", "A")
    chat.answer("", [call_of("gone", "f", {})], turn=Turn(0))
    chat.say("user", "go on")
    chat.answer("", [call_of("open", "f", {})], turn=Turn(0))
    assert told(chat) == [("user", "go"), ("assistant", "look"), ("tool", "A"), ("user", "go on"), ("assistant", 1)]
    assert notes.lines() == ["2 x call without a result left out", "1 x answer without words or calls left out"]


def test_ids_that_come_twice() -> None:
    """In one answer the second is dropped; in a later one the result is the newer call's."""
    chat, notes = log()
    chat.say("user", "go")
    chat.answer("", [call_of("a", "f", {}), call_of("a", "g", {})], turn=Turn(0))
    chat.result("a", "1")
    chat.answer("", [call_of("a", "f", {})], turn=Turn(0))
    chat.result("a", "2")
    assert not chat.result("a", "3")
    assert not chat.result({"no": "id"}, "4")
    assert told(chat) == [("user", "go"), ("assistant", 1), ("tool", "1"), ("assistant", 1), ("tool", "2")]
    assert len(notes.lines()) == 2


def test_greeting_is_no_model_call() -> None:
    chat, _ = log()
    chat.say("system", "be kind")
    chat.answer("Hi! How can I help?", turn=Turn(0))
    assert chat.segment() is None
    chat.say("user", "so and so")
    chat.answer("done", turn=Turn(0))
    segment = chat.segment()
    assert segment and [t.end for t in segment.turns] == [3]


def test_content_that_is_none() -> None:
    chat, _ = log()
    chat.say("user", [{"type": "text", "text": " "}])
    chat.say("user", None)
    assert chat.rounds[0].behind == []
    assert clean_content([{"type": "text", "text": "a"}, {"type": "text", "text": ""}]) == [
        {"type": "text", "text": "a"}
    ]
    assert clean_content({"exit": 1}) == '{"exit":1}'
    assert clean_content([{"query": "q"}]) == '[{"query":"q"}]'


def test_usage_whose_writer_left_the_cache_out() -> None:
    assert input_tokens(usage_of(100, 5, cached=90)) == 100
    assert input_tokens(usage_of(10, 5, cached=90)) == 100
    assert input_tokens(usage_of(90, 5, cached=80, written=20)) == 110
    usage = usage_of(3, 5, cached=0, written=200)
    assert (input_tokens(usage), cache_read_tokens(usage), cache_write_tokens(usage)) == (203, 0, 200)
    assert usage_of(None, 5) is None
    assert usage_of("many", 5) is None


def test_whole_requests_become_windows() -> None:
    """What does not begin with the request before it is a new window."""
    a, b, c, short = ({"role": "user", "content": text} for text in "abcs")
    sent = [[a], [a, b], [a, b], [a, short, c], []]
    segments = segments_of((messages, Turn(0)) for messages in sent)
    assert [s.messages for s in segments] == [[a, b], [a, short, c]]
    assert [[t.end for t in s.turns] for s in segments] == [[1, 2, 2], [3]]
