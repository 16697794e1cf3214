"""pi's sessions, as a list and as a tree."""

from __future__ import annotations

from typing import Any

import pytest

from packlight.replay.session import RecordedCompaction, Session, seconds_of
from reader_helpers import SESSIONS, assert_sound, lines, one

HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w"}
USAGE = {
    "input": 10,
    "cacheRead": 80,
    "cacheWrite": 9,
    "output": 5,
    "cost": {"input": 0.25, "cacheRead": 0.5, "cacheWrite": 1, "output": 8, "total": 9.75},
}


def entry(uid: str | None, parent: str | None, kind: str = "message", **fields: Any) -> dict[str, Any]:
    place = {"id": uid, "parentId": parent} if uid else {}
    return {"type": kind, **place, "timestamp": "2026-01-01T00:00:01Z", **fields}


def user(uid: str | None, parent: str | None, words: str) -> dict[str, Any]:
    return entry(uid, parent, message={"role": "user", "content": words})


def says(uid: str | None, parent: str | None, *blocks: Any, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    return entry(uid, parent, message={"role": "assistant", "content": content, "usage": USAGE, "model": "m", **fields})


def tool_call(uid: str) -> dict[str, Any]:
    return {"type": "toolCall", "id": uid, "name": "bash", "arguments": {"command": "ls"}}


def result(uid: str, parent: str, call: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": "out"}, {"type": "image", "mimeType": "image/png", "data": "iVBORw0K"}]
    return entry(uid, parent, message={"role": "toolResult", "toolCallId": call, "content": content, **fields})


def read(*records: Any) -> Session:
    session = one(lines(*records))
    assert_sound(session)
    return session


def words(session: Session, segment: int = -1) -> list[str]:
    return [b.get("text", b["type"]) for m in session.segments[segment].messages for b in m["content"]]


def test_turn() -> None:
    thinks = {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"}
    session = read(
        HEADER,
        user("a", None, "go"),
        says("b", "a", thinks, tool_call("c1"), tool_call("c2")),
        result("c", "b", "c2", isError=True),
        result("d", "c", "c1"),
        says("e", "d", {"type": "thinking", "thinking": "", "redacted": True, "thinkingSignature": "x"}, "done"),
    )
    (segment,) = session.segments
    assert [(t.end, t.model) for t in segment.turns] == [(1, "m"), (3, "m")]
    turn = segment.turns[0]
    assert turn.usage == {
        "input_tokens": 10,
        "cache_read_input_tokens": 80,
        "cache_creation_input_tokens": 9,
        "output_tokens": 5,
    }
    assert (turn.billed_usd, turn.seconds) == (1.75, seconds_of("2026-01-01T00:00:01Z"))
    _, asked, results, last = segment.messages
    assert asked["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert [b["tool_use_id"] for b in results["content"]] == ["c2", "c1"]
    assert results["content"][0]["is_error"] is True
    assert results["content"][0]["content"][1]["source"]["media_type"] == "image/png"
    assert last["content"][0] == {"type": "redacted_thinking", "data": "x"}
    assert (session.reader, session.name, session.notes) == ("pi", "s1", [])


def test_compaction_keeps_from_an_entry_on() -> None:
    session = read(
        HEADER,
        user("a", None, "one"),
        says("b", "a", "1"),
        user("c", "b", "two"),
        says("d", "c", "2"),
        entry("e", "d", "compaction", summary="It was one.", firstKeptEntryId="c", tokensBefore=99),
        user("f", "e", "three"),
        says("g", "f", "3"),
    )
    assert session.segments[1].compaction == RecordedCompaction("compaction", "It was one.", 2, 99)
    first, *rest = words(session)
    assert "It was one." in first
    assert rest == ["two", "2", "three", "3"]
    assert [t.end for t in session.segments[1].turns] == [3]


def test_index_of_version_1() -> None:
    header = {**HEADER}
    del header["version"]
    session = read(
        header,
        user(None, None, "one"),
        says(None, None, "1"),
        user(None, None, "two"),
        says(None, None, "2"),
        entry(None, None, "compaction", summary="Sum.", firstKeptEntryIndex=3, tokensBefore=9),
        says(None, None, "3"),
    )
    assert words(session)[1:] == ["two", "2", "3"]


def test_branches_are_segments() -> None:
    """The user went back, before a compaction and then over it: each request is what was sent then."""
    session = read(
        HEADER,
        user("a", None, "one"),
        says("b", "a", "1"),
        user("c", "b", "wrong"),
        says("d", "c", "2"),
        entry("x", "b", "branch_summary", summary="It was wrong.", fromId="d"),
        user("e", "x", "right"),
        says("f", "e", "3"),
        entry("g", "f", "compaction", summary="All.", firstKeptEntryId="e", tokensBefore=9),
        entry("h", "g", "custom_message", content="by an extension", customType="t"),
        says("i", "h", "4"),
        user("j", "i", "more"),
        says("k", "j", "5"),
        user("l", "i", "less"),
        says("m", "l", "6"),
    )
    assert [s.compaction and s.compaction.kind for s in session.segments] == [None, "rewind", "compaction", "rewind"]
    assert words(session, 0) == ["one", "1", "wrong", "2"]
    assert words(session, 1)[:2] == ["one", "1"] and words(session, 1)[3:] == ["right", "3"]
    assert "It was wrong." in words(session, 1)[2]
    assert words(session, 3)[1:] == ["right", "3", "by an extension", "4", "less", "6"]
    assert [len(s.turns) for s in session.segments] == [2, 1, 2, 1]


@pytest.mark.parametrize(("version", "kept"), [(1, ["one", "par", "two", "2"]), (3, ["one", "two", "2"])])
def test_broken_off_response(version: int, kept: list[str]) -> None:
    """It was a request all the same; one that was never answered was none."""
    session = read(
        {**HEADER, "version": version},
        user("a", None, "one"),
        says("b", "a", "par", tool_call("cut"), stopReason="aborted"),
        user("c", "b", "two"),
        says("d", "c", stopReason="aborted", usage={**USAGE, "input": 0, "cacheRead": 0, "cacheWrite": 0}),
        says("e", "d", "2"),
    )
    assert words(session) == kept
    assert len(session.segments[0].turns) == 2


def test_command_of_the_user() -> None:
    ran = {"role": "bashExecution", "command": "make", "output": "oh", "exitCode": 2, "truncated": True}
    session = read(
        HEADER,
        entry("a", None, message={**ran, "fullOutputPath": "/t"}),
        entry("b", "a", message={**ran, "excludeFromContext": True}),
        says("c", "b", "I see"),
    )
    assert words(session)[0] == (
        "Ran `make`\n```\noh\n```\n\nCommand exited with code 2\n\n[Output truncated. Full output: /t]"
    )


def test_strange_parents() -> None:
    session = read(
        HEADER,
        user("a", "z", "one"),
        says("b", "a", "1"),
        user("c", "c", "two"),
        says("d", "nowhere", "2"),
        entry("e", None, "from-the-future"),
    )
    assert words(session, 0) == ["one", "1", "two", "2"]
    assert session.notes == [
        "3 x entry whose parent is not in the file: it follows the one before",
        "1 x entry of unknown type 'from-the-future' skipped",
    ]


def test_recorded_bill() -> None:
    session = one((SESSIONS / "pi-v1.jsonl").read_bytes())
    billed = sum(t.billed_usd or 0 for s in session.segments for t in s.turns)
    assert billed == pytest.approx(0.961097, abs=1e-6)
    assert session.segments[1].compaction and session.segments[1].compaction.preserved_messages == 6


def test_what_it_prints_while_it_works() -> None:
    """`pi --mode json`: each message once, when it is whole, and the compaction."""

    def event(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, **fields}

    def told(record: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
        message = {**record["message"], **fields}
        return [event("message_start", message={"role": "user"}), event("message_end", message=message)]

    session = read(
        HEADER,
        event("agent_start"),
        event("turn_start"),
        *told(user(None, None, "go")),
        event("message_update", assistantMessageEvent={"type": "text_delta"}),
        *told(says(None, None, tool_call("c1")), timestamp=5_000),
        event("tool_execution_end", toolCallId="c1", result={"content": []}),
        *told(result("c", "b", "c1")),
        event("turn_end", message={}, toolResults=[]),
        *told(says(None, None, "done")),
        event("auto_compaction_end", result={"summary": "S", "firstKeptEntryId": "x", "tokensBefore": 9}),
        event("compaction_end", aborted=True),
        *told(user(None, None, "more")),
        *told(says(None, None, "ended")),
        event("agent_end", messages=[]),
    )
    assert [[t.end for t in s.turns] for s in session.segments] == [[1, 3], [1]]
    assert session.segments[0].turns[0].seconds == 5.0
    assert words(session, 0) == ["go", "tool_use", "tool_result", "done"]
    assert session.segments[1].compaction == RecordedCompaction("compaction", "S", 0, 9)
    assert session.notes == ["1 x compaction that does not say what it kept: nothing before it is shown"]
