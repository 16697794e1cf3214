"""Kimi Code's wire.jsonl is read as the agent itself goes on from it."""

from __future__ import annotations

from typing import Any

import pytest

from packlight.replay.readers import read_sessions
from packlight.replay.readers.claude_window import CLEARED
from packlight.replay.session import RecordedCompaction, Session
from packlight.tokens.usage import cache_read_tokens, cache_write_tokens, input_tokens, output_tokens
from reader_helpers import assert_sound, lines, one

META = {"type": "metadata", "protocol_version": "1.4", "created_at": 1782012661212}
SETTINGS = {"type": "config.update", "modelAlias": "kimi-code/k3", "systemPrompt": "You are.", "time": 1}


def said(value: str, kind: str = "user", **origin: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": value}]
    message = {"role": "user", "content": content, "toolCalls": [], "origin": {"kind": kind, **origin}}
    return {"type": "context.append_message", "message": message, "time": 1}


def event(kind: str, time: int = 1, **fields: Any) -> dict[str, Any]:
    return {"type": "context.append_loop_event", "event": {"type": kind, **fields}, "time": time}


def step(uuid: str, value: str, *calls: str) -> list[dict[str, Any]]:
    usage = {"inputOther": 10, "inputCacheRead": 80, "inputCacheCreation": 9, "output": 4}
    parts = [{"type": "think", "think": "hm"}, {"type": "text", "text": value}]
    return [
        event("step.begin", uuid=uuid, turnId="0", step=1),
        *(event("content.part", stepUuid=uuid, part=part) for part in parts),
        *(event("tool.call", stepUuid=uuid, toolCallId=c, name="Read", args={"path": c}) for c in calls),
        event("step.end", 5_000, uuid=uuid, usage=usage),
    ]


def result(call: str, output: Any, **fields: Any) -> dict[str, Any]:
    return event("tool.result", toolCallId=call, result={"output": output, **fields})


def read(*records: dict[str, Any]) -> Session:
    session = one(lines(META, SETTINGS, *records))
    assert_sound(session)
    assert session.reader == "kimi"
    return session


def told(session: Session, window: int = -1) -> list[tuple[str, Any]]:
    return [(m["role"], m["content"]) for m in session.segments[window].messages]


def test_steps() -> None:
    """What was said while calls were open stands behind their results."""
    session = read(
        {"type": "llm.tools_snapshot", "hash": "h", "tools": [{"name": "Read", "description": "d", "parameters": {}}]},
        {"type": "turn.prompt", "input": [{"type": "text", "text": "go"}]},
        said("go"),
        {"type": "llm.request", "kind": "loop", "model": "k3"},
        *step("1", "I look.", "a", "b"),
        said("<system-reminder>", "injection"),
        result("b", "no such file", isError=True),
        result("a", [{"type": "text", "text": "A"}]),
        *step("2", "done"),
        {"type": "usage.record", "model": "k3", "usage": {"inputOther": 1}, "usageScope": "session"},
    )
    assert told(session) == [
        ("system", "You are."),
        ("user", "go"),
        ("assistant", "I look."),
        ("tool", "<system>ERROR: Tool execution failed.</system>\nno such file"),
        ("tool", "A"),
        ("user", "<system-reminder>"),
        ("assistant", "done"),
    ]
    assert [t.end for t in session.segments[0].turns] == [2, 6]
    turn = session.segments[0].turns[0]
    counted = [f(turn.usage) for f in (input_tokens, cache_read_tokens, cache_write_tokens, output_tokens)]
    assert (turn.model, turn.seconds, counted) == ("k3", 5.0, [99, 80, 9, 4])
    assert [t["function"]["name"] for t in session.head["tools"]] == ["Read"]
    assert session.notes == []


def test_ids_that_come_again() -> None:
    session = read(
        said("go"), *step("1", "", "a"), result("a", "one"), *step("2", "", "a"), result("a", "two"), *step("3", "done")
    )
    assert [m["content"] for m in session.segments[0].messages if m["role"] == "tool"] == ["one", "two"]
    assert session.notes == []


def test_compaction_keeps_the_users_words() -> None:
    session = read(
        said("first"),
        said("note", "injection"),
        *step("1", "", "a"),
        result("a", "A"),
        said("/skill", "skill_activation", trigger="user-slash"),
        *step("2", "done"),
        {"type": "context.apply_compaction", "summary": "short", "contextSummary": "S", "compactedCount": 6,
         "keptUserMessageCount": 2, "tokensBefore": 99},
        said("more"),
        *step("3", "ended"),
    )  # fmt: skip
    parts = [{"type": "text", "text": t} for t in ("first", "/skill", "S", "more")]
    assert told(session) == [("system", "You are."), ("user", parts), ("assistant", "ended")]
    assert session.segments[1].compaction == RecordedCompaction("compaction", "S", 2, 99)
    assert [t.end for t in session.segments[1].turns] == [2]


def test_compaction_of_the_first_protocols() -> None:
    """The summary is the assistant's, and what it does not cover stands behind it."""
    session = read(
        said("first"),
        *step("1", "one"),
        said("second"),
        {"type": "context.apply_compaction", "summary": "S", "compactedCount": 2},
        *step("2", "two"),
    )
    assert told(session)[1:] == [("assistant", "S"), ("user", "second"), ("assistant", "two")]


def test_old_results_are_cleared() -> None:
    session = read(
        said("go"),
        *step("1", "", "a", "b"),
        result("a", "long " * 200),
        result("b", "short"),
        *step("2", "one"),
        {"type": "micro_compaction.apply", "cutoff": 4},
        said("more"),
        *step("3", "two"),
    )
    before, after = session.segments
    assert [m["content"] for m in after.messages if m["role"] == "tool"] == [CLEARED, "short"]
    assert len(before.messages[3]["content"]) == 1000
    assert after.compaction == RecordedCompaction("microcompaction", "", 4)


def test_undo_and_clear() -> None:
    session = read(
        said("first"),
        *step("1", "one"),
        said("second"),
        *step("2", "two"),
        {"type": "context.undo", "count": 1},
        said("other"),
        *step("3", "three"),
        {"type": "context.clear"},
        said("new"),
        *step("4", "four"),
    )
    assert [[text for _, text in told(session, i)][1:] for i in range(3)] == [
        ["first", "one", "second", "two"],
        ["first", "one", "other", "three"],
        ["new", "four"],
    ]
    assert [s.compaction.kind for s in session.segments if s.compaction] == ["rewind", "rewind"]


@pytest.mark.parametrize("value", [None, 3, [], "x", {"type": []}, [[1]], True])
def test_values_of_any_kind(value: Any) -> None:
    strange = [{**r, key: value} for r in step("1", "x", "a") for key in ("event", "time", "type")]
    inner = [event(k, uuid=value, stepUuid="1", toolCallId=value, part=value, result=value, usage=value)
             for k in ("step.begin", "content.part", "tool.call", "tool.result", "step.end")]  # fmt: skip
    message = {
        "type": "context.append_message",
        "message": {"role": value, "content": value, "origin": value, "turn": 1},
    }
    kinds = ("context.undo", "context.apply_compaction", "micro_compaction.apply", "config.update")
    more = [{"type": k, "count": value, "cutoff": value, "summary": value, "compactedCount": value, "tools": value,
             "keptUserMessageCount": value} for k in kinds]  # fmt: skip
    for session in read_sessions(lines(META, said("go"), *strange, *step("1", "y"), *inner, message, *more)):
        assert session.reader == "kimi"
