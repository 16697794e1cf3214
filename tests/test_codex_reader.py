"""Codex rollouts give back what the model saw, call by call."""

from __future__ import annotations

from packlight.replay.session import RecordedCompaction
from packlight.tokens.usage import input_tokens
from reader_helpers import CONTEXT, META, THINKS, assert_sound, item, lines, one, output, requests, said, tool, usage


def test_codex_turns_and_usage() -> None:
    """Usage behind the items, repeated; parallel calls with an output between them are one response."""
    session = one(
        lines(
            META,
            said("developer", "rules"),
            said("user", "go"),
            CONTEXT,
            usage(0) | {"payload": {"type": "token_count"}},
            THINKS,
            tool("a"),
            output("a"),
            tool("b"),
            usage(5),
            output("b"),
            usage(5),
            THINKS,
            said("assistant", "done"),
            usage(7),
        )
    )
    assert_sound(session)
    (segment,) = session.segments
    assert [(t.end, t.usage) for t in segment.turns] == [(2, {"input_tokens": 5}), (7, {"input_tokens": 7})]
    assert session.head == {"instructions": "Be good."}
    assert session.model == "gpt-5.5"
    assert segment.messages[2] == {"type": "reasoning", "summary": [], "encrypted_content": "REDACTED"}


def test_codex_usage_before_items() -> None:
    session = one(
        lines(
            META,
            said("user", "go"),
            CONTEXT,
            usage(5),
            THINKS,
            tool("a"),
            output("a"),
            usage(7),
            said("assistant", "done"),
        )
    )
    assert [(t.end, t.usage) for t in session.segments[0].turns] == [(1, {"input_tokens": 5}), (4, {"input_tokens": 7})]


def test_codex_compaction() -> None:
    replaced = [
        said("user", "go")["payload"],
        {"type": "ghost_snapshot"},
        {"type": "compaction", "encrypted_content": "REDACTED"},
    ]
    session = one(
        lines(
            META,
            said("user", "go"),
            tool("a"),
            output("a"),
            usage(5),
            {"type": "compacted", "payload": {"message": "", "replacement_history": replaced}},
            usage(5),
            output("a"),
            said("assistant", "done"),
            usage(9),
            {"type": "compacted", "payload": {"message": "All is done."}},
            said("user", "more"),
            said("assistant", "ok"),
        )
    )
    assert_sound(session)
    first, second, third = session.segments
    assert [s.compaction for s in (first, second, third)] == [
        None,
        RecordedCompaction("compaction", "", 1),
        RecordedCompaction("compaction", "All is done.", 1),
    ]
    assert [i["type"] for i in second.messages] == ["message", "compaction", "message"]
    assert [t.end for t in second.turns] == [2]
    assert [i["content"][0]["text"] for i in third.messages] == ["go", "All is done.", "more", "ok"]
    assert session.notes == ["1 x output whose call is not in the window left out"]


def test_codex_broken_off_responses() -> None:
    """A call without output, reasoning without what it led to, an output that came late, a turn taken back."""
    session = one(
        lines(
            META,
            said("user", "1"),
            THINKS,
            tool("lost"),
            said("user", "2"),
            THINKS,
            said("user", "3"),
            tool("late"),
            said("user", "4"),
            said("assistant", "meanwhile"),
            output("late"),
            said("user", "5"),
            {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}},
            said("user", "6"),
            said("assistant", "done"),
        )
    )
    assert_sound(session)
    assert len(session.notes) == 3
    assert session.segments[-1].compaction == RecordedCompaction("rewind", preserved_messages=10)
    *_, last = requests(session)
    assert [i["content"][0]["text"] for i in last if i["type"] == "message"] == ["1", "2", "3", "4", "meanwhile", "6"]
    assert [i.get("call_id") for i in last if "call_id" in i] == ["late", "late"]


def test_codex_old_layout() -> None:
    session = one(
        lines(
            {"id": "s", "timestamp": "t", "instructions": "Be good.", "git": None},
            said("user", "go")["payload"],
            {"record_type": "state"},
            said("assistant", "hi")["payload"],
        )
    )
    assert session.reader == "codex"
    assert session.head == {"instructions": "Be good."}
    assert len(requests(session)) == 1


def test_codex_tool_search() -> None:
    """Its answer is not named as those of the other calls are."""
    session = one(
        lines(
            META,
            said("user", "go"),
            item("tool_search_call", call_id="a", arguments={"query": "x"}),
            item("tool_search_output", call_id="a", tools=[]),
            said("assistant", "done"),
        )
    )
    assert_sound(session)
    assert [i["type"] for i in requests(session)[-1]] == ["message", "tool_search_call", "tool_search_output"]
    assert session.notes == []


def test_codex_first_layout() -> None:
    """Of 2025: a header without git, bare items, no times and no usage."""
    bare = [
        said("user", "go")["payload"],
        tool("a")["payload"],
        output("a")["payload"],
        said("assistant", "x")["payload"],
    ]
    header = {"id": "s", "timestamp": "2025-09-02T17:17:41Z", "instructions": None}
    session = one(lines(header, *bare))
    assert (session.reader, session.name, [t.end for t in session.segments[0].turns]) == ("codex", "s", [1, 3])
    session = one(lines(header, {"record_type": "state"}, *bare))
    assert session.turns == 2 and session.notes == []


def test_codex_usage_without_a_total() -> None:
    last = {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 7}}}
    session = one(lines(META, said("user", "go"), said("assistant", "x"), {"type": "event_msg", "payload": last}))
    assert [input_tokens(t.usage) for t in session.segments[0].turns] == [7]


def test_codex_fork_is_told() -> None:
    child = {"type": "session_meta", "payload": {"id": "child", "forked_from_id": "s"}}
    session = one(lines(child, META, said("user", "go"), said("assistant", "x"), usage(7)))
    assert session.name == "child"
    assert session.notes == ["1 x session that goes on from another: what was copied from there counts too"]
