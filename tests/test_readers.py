"""A reader gives back what the model saw, call by call, from files as they really are."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlight.errors import InvalidRequest
from packlight.replay.readers import find_files, read_sessions
from packlight.replay.readers.claude_window import CLEARED, NOT_RECORDED
from packlight.replay.session import RecordedCompaction, Session, seconds_of
from packlight.tokens.usage import input_tokens
from reader_helpers import META, assert_sound, call, lines, one, requests, said, text

EXAMPLES = Path(__file__).parent.parent / "examples"
FILES = sorted(EXAMPLES.glob("*.jsonl"))


class Log:
    """Writes records as Claude Code does: one block each, chained by uuid."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.last: str | None = None

    def add(self, kind: str, *, parent: str | None = "last", **fields: Any) -> str:
        uuid = f"u{len(self.records)}"
        parent = self.last if parent == "last" else parent
        stamp = f"2026-01-01T00:00:{len(self.records):02}.000Z"
        self.records.append({"type": kind, "uuid": uuid, "parentUuid": parent, "timestamp": stamp, **fields})
        self.last = uuid
        return uuid

    def user(self, content: Any, **fields: Any) -> str:
        return self.add("user", message={"role": "user", "content": content}, **fields)

    def says(self, message_id: str, block: Any, *, tokens: int = 1, **fields: Any) -> str:
        message = {
            "role": "assistant",
            "id": message_id,
            "model": "claude-opus-4-5",
            "content": [block],
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": tokens},
        }
        return self.add("assistant", message=message, **fields)

    def result(self, call: str, text: str = "ok", **fields: Any) -> str:
        return self.user([{"type": "tool_result", "tool_use_id": call, "content": text}], **fields)

    def read(self) -> Session:
        session = one(lines(*self.records))
        assert_sound(session)
        return session


def test_split_message_is_merged() -> None:
    """Blocks of one response, with results of the first calls between them."""
    log = Log()
    log.user("go")
    log.says("m1", {"type": "thinking", "thinking": "", "signature": "sig"})
    first = log.says("m1", call("a"), tokens=2)
    log.result("a", "A")
    log.says("m1", call("b"), tokens=7, parent=first)
    log.result("b", "B")
    log.says("m2", text("done"))
    session = log.read()
    assert [t.end for t in session.segments[0].turns] == [1, 3]
    user, assistant, results, _ = session.segments[0].messages
    assert user["content"] == [text("go")]
    assert [b["type"] for b in assistant["content"]] == ["thinking", "tool_use", "tool_use"]
    assert assistant["content"][0]["signature"] == "sig"
    assert [b["content"] for b in results["content"]] == ["A", "B"]
    turn = session.segments[0].turns[0]
    assert turn.usage and turn.usage["output_tokens"] == 7
    assert input_tokens(turn.usage) == 100
    assert turn.seconds == seconds_of("2026-01-01T00:00:01Z")
    assert session.notes == []


def test_late_result_goes_behind_its_call() -> None:
    log = Log()
    log.user("go")
    log.says("m1", call("a"))
    log.says("m2", text("meanwhile"))
    log.result("a", "late")
    log.says("m3", text("done"))
    messages = log.read().segments[0].messages
    assert messages[2]["content"][0]["content"] == "late"


def test_missing_result_is_noted() -> None:
    """Nothing is invented: the call goes, and the notes say so. The last one may still be open."""
    log = Log()
    log.user("go")
    log.says("m1", text("look"))
    log.says("m1", call("lost"))
    log.user("go on")
    log.says("m2", call("open"))
    session = log.read()
    messages = session.segments[0].messages
    assert [b["type"] for b in messages[1]["content"]] == ["text"]
    assert messages[-1]["content"] == [call("open")]
    assert session.notes == ["1 x call without a result left out"]


def test_compaction_starts_a_window() -> None:
    """Summary, what was preserved, what is re-attached, and what comes later."""
    log = Log()
    log.user("first")
    log.says("m1", text("early"))
    kept = log.user("keep me")
    kept_too = log.says("m2", text("kept answer"))
    log.add(
        "system",
        parent=None,
        subtype="compact_boundary",
        compactMetadata={
            "trigger": "auto",
            "preTokens": 155,
            "preservedMessages": {"uuids": [kept, kept_too, "gone"]},
        },
    )
    log.user(
        "This session is being continued from a previous conversation that ran out of context. 1. ...",
        isCompactSummary=True,
    )
    log.add(
        "attachment",
        attachment={
            "type": "file",
            "filename": "a.py",
            "content": {"type": "text", "file": {"filePath": "a.py", "content": "print(1)"}},
        },
    )
    log.user("next", parent=kept_too)
    log.says("m3", text("late"))
    session = log.read()
    before, after = session.segments
    assert len(before.turns) == 2
    assert [t.end for t in after.turns] == [3]
    text_of_summary = "This session is being continued from a previous conversation that ran out of context. 1. ..."
    assert before.compaction is None
    assert after.compaction == RecordedCompaction("compaction", text_of_summary, 2, 155)
    summary, answer, new, _ = after.messages
    assert [b["text"][:12] for b in summary["content"]] == ["This session", "keep me"]
    assert answer["content"] == [text("kept answer")]
    assert "print(1)" in new["content"][0]["text"] and new["content"][1] == text("next")
    assert session.notes == ["1 x message kept over a compaction, but not in the file"]


def test_old_summary_without_boundary() -> None:
    log = Log()
    log.user("first")
    log.says("m1", text("one"))
    log.user("This session is being continued from a previous conversation that ran out of context. ...")
    log.says("m2", text("two"))
    before, after = log.read().segments
    assert [len(before.messages), len(after.messages)] == [2, 2]
    assert after.compaction and after.compaction.summary.startswith("This session")


def test_cleared_results_start_a_window() -> None:
    log = Log()
    log.user("go")
    log.says("m1", call("a"))
    log.result("a", "long")
    log.says("m2", call("b"))
    log.result("b", "short")
    log.add("system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["a"], "preTokens": 9})
    log.says("m3", text("done"))
    log.add("system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": []})
    log.says("m4", text("more"))
    before, after = log.read().segments
    assert before.messages[2]["content"][0]["content"] == "long"
    assert after.messages[2]["content"][0]["content"] == CLEARED
    assert after.messages[4]["content"][0]["content"] == "short"
    assert [len(before.turns), len(after.turns)] == [2, 2]
    assert after.compaction == RecordedCompaction("microcompaction", preserved_messages=5, tokens_before=9)


def test_each_clearing_costs_what_it_clears() -> None:
    """What did not change between two windows is the same object in both."""
    log = Log()
    log.user("go")
    for i in range(300):
        log.says(f"m{i}", call(f"c{i}"))
        log.result(f"c{i}", f"out {i}")
        if i % 3 == 2:
            ids = {"compactedToolIds": [f"c{i - 2}"]}
            log.add("system", subtype="microcompact_boundary", microcompactMetadata=ids)
    log.says("end", text("done"))
    segments = log.read().segments
    assert len(segments) == 101
    assert [m["content"][0].get("content") for m in segments[-1].messages[2:8:2]] == [CLEARED, "out 1", "out 2"]
    assert len({id(m) for s in segments for m in s.messages}) < 1_100


def test_what_was_sent_in_the_place_of_results() -> None:
    """Several large results in one message: the client keeps them whole in the file, and says what it sent."""
    log = Log()
    log.user("go")
    log.says("m1", call("a"))
    log.result("a", "long")
    log.says("m1", call("b"))
    log.result("b", "short")
    sent = {"kind": "tool-result", "toolUseId": "a", "replacement": "<persisted-output>"}
    log.add("content-replacement", replacements=[sent, {"toolUseId": ["b"]}, None])
    log.says("m2", text("done"))
    session = log.read()
    assert [b["content"] for b in session.segments[0].messages[2]["content"]] == ["<persisted-output>", "short"]
    assert session.notes == []


def test_file_of_a_sub_agent() -> None:
    """In a file of its own a sub-agent is the session; beside others it is left out."""
    log = Log()
    log.user("look", isSidechain=True, agentId="x")
    log.says("m1", text("found"), isSidechain=True, agentId="x")
    assert log.read().turns == 1
    log.user("go")
    log.says("m2", text("done"))
    session = log.read()
    assert session.turns == 1 and session.segments[0].messages[0]["content"][0]["text"] == "go"
    assert session.notes == ["2 x record of a sub-agent left out"]


def test_what_later_versions_record_of_a_request() -> None:
    """System prompt and tools; and the attachments as they were sent."""
    schema = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}
    snapshot = {"type": "prompt_snapshot", "cliPrefix": "You are.", "systemPrompt": ["Be good."]}
    log = Log()
    log.add("attachment", attachment=snapshot)
    log.user("go")
    log.add("attachment", attachment={**snapshot, "tools": [{"name": "Read", "description": "R", "schema": schema}]})
    log.add("attachment", attachment={"type": "skill_listing"}, renderedRole="user", rendered=[{"content": "as sent"}])
    log.add("attachment", attachment={"type": "hook_success", "content": "no"}, rendered=[])
    for attachment in (
        {"type": "instructions", "files": [{"path": "/x/CLAUDE.md", "content": "# X"}, {"path": "/y"}]},
        {"type": "session_context", "context": {"gitStatus": "clean"}},
        {"type": "total_tokens_reminder", "text": "9 left"},
        {"type": "thinking_stripped", "scope": "all"},
        {"type": "no such kind", "value": 1},
    ):
        log.add("attachment", attachment=attachment)
    log.says("m1", text("done"))
    log.add("attachment", attachment={**snapshot, "systemPrompt": ["Be better."]})
    session = log.read()
    assert session.head == {"system": [text("You are."), text("Be good.")], "tools": [schema]}
    assert [b["text"].removeprefix("<system-reminder>\n") for b in session.segments[0].messages[0]["content"]] == [
        "go",
        "as sent",
        "Contents of /x/CLAUDE.md:\n\n# X\n</system-reminder>",
        "gitStatus: clean\n</system-reminder>",
        "9 left\n</system-reminder>",
    ]
    assert session.notes == [
        "1 x changed system of the requests: the first stay",
        "1 x thinking that the client took out of its requests: still shown",
        "1 x attachment of unknown kind 'no such kind' left out",
    ]


def test_cut_inside_the_conversation_is_told() -> None:
    log = Log()
    first = log.user("go")
    log.says("m1", text("one"))
    log.add("system", subtype="snip_boundary", snipMetadata={"removedUuids": [first]})
    assert log.read().notes == ["1 x cut inside the conversation by the client: what it took out is still shown"]


def test_abandoned_branch_is_dropped() -> None:
    log = Log()
    start = log.user("go")
    for i in range(4):
        log.says(f"m{i}", call(f"c{i}"))
        start = log.result(f"c{i}")
    log.user("wrong way")
    log.says("bad", text("bad idea"))
    log.user("right way", parent=start)
    log.says("good", text("good idea"))
    session = log.read()
    assert "wrong" not in json.dumps(session.segments[0].messages)
    assert session.notes == ["2 x record of an abandoned branch left out"]


def test_strange_parents_drop_nothing() -> None:
    """Cycles, orphans and roots in the middle: file order holds."""
    log = Log()
    log.user("one", parent="u3")
    log.says("m1", text("a"), parent="u0")
    log.user("two", parent="nowhere")
    log.says("m2", text("b"), parent=None)
    log.records[0]["parentUuid"] = ["not", "a", "string"]
    assert len(log.read().segments[0].messages) == 4


def test_what_is_not_the_model() -> None:
    log = Log()
    log.user("go")
    log.says("side", text("a sub-agent"), isSidechain=True)
    log.add("assistant", message={"role": "assistant", "model": "<synthetic>", "content": [text("API Error")]})
    log.add("progress", data={"type": "bash_progress"})
    log.add("brand-new", data=1)
    log.user("<command-name>/x</command-name>", isMeta=True)
    log.add("attachment", attachment={"type": "hook_system_message", "content": "for the user"})
    log.add("attachment", attachment={"type": "queued_command", "prompt": "one more thing"})
    log.add("attachment", attachment={"type": "from-the-future", "data": 1})
    log.user([text("  ")])
    log.says("m1", text("hi"))
    session = log.read()
    assert [b["text"] for b in session.segments[0].messages[0]["content"]] == [
        "go",
        "<command-name>/x</command-name>",
        "one more thing",
    ]
    assert len(session.notes) == 4


def test_stream_json() -> None:
    """A stream repeats no prompt: a placeholder stands for it."""
    answer = {"role": "assistant", "id": "m1", "model": "claude-x", "content": [text("hi")]}
    session = one(
        lines(
            {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash"]},
            {"type": "assistant", "message": answer, "session_id": "s"},
            {"type": "result", "subtype": "success"},
            {"type": "system", "message": {"subtype": "init"}, "timestamp": "2026-01-01T00:00:00Z"},
            {"type": "assistant", "message": {**answer, "id": "m2"}, "parent_tool_use_id": None},
            {"type": "assistant", "message": {**answer, "id": "m3"}, "parent_tool_use_id": "toolu_1"},
        )
    )
    assert_sound(session)
    assert [m["content"][0]["text"] for m in session.segments[0].messages] == [NOT_RECORDED, "hi"] * 2


# --- files as they are -------------------------------------------------------------------------------------------


def test_damaged_lines_are_survived() -> None:
    a, b = (json.dumps(r).encode() for r in ({**said("user", "a")}, {**said("assistant", "b")}))
    source = b"\n".join([
        json.dumps(META).encode(), a + a, b"", b"\0\0\0" + b, b'{"type": "resp', b"5", b'{"cut": "off' + b,
        b[:-3].replace(b'"b"', b'"\xff\x00raw"') + b[-3:], b'{"type":' + b"[" * 2000, b + b"\r",
    ])  # fmt: skip
    session = one(source)
    assert [i["content"][0]["text"] for i in session.segments[0].messages] == ["a", "a", "b", "b", "\ufffd\0raw", "b"]
    assert sum(int(n.split(" x ")[0].replace(",", "")) for n in session.notes) == 6


def test_one_line_and_many() -> None:
    """Records glued on the only line; a single record; a list with one message a line."""
    pair = json.dumps(said("user", "a")).encode() + json.dumps(said("assistant", "b")).encode()
    assert len(one(pair).segments[0].messages) == 2
    assert one(json.dumps(META).encode()).turns == 0
    assert one(b'{"role": "user", "content": "x"}').turns == 1
    for source in (
        b'[\n{"role": "user", "content": "x"},\n{"role": "assistant", "content": "y"}\n]',
        b'{"messages": [\n{"role": "user", "content": "x"}\n]}',
    ):
        assert one(source).turns == 1


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_examples(path: Path) -> None:
    (session,) = read_sessions(path)
    assert_sound(session)
    assert session.path == str(path)
    assert session.notes == []
    recorded = [input_tokens(t.usage) or 0 for s in session.segments for t in s.turns]
    assert max(recorded) > 90_000
    assert min(recorded) > 0


def test_examples_are_named_in_the_notice() -> None:
    notice = (EXAMPLES / "NOTICE.md").read_text("utf-8")
    assert len(FILES) == 3
    assert all(f"`{p.name}`" in notice for p in FILES)
    assert find_files(EXAMPLES) == FILES


@given(st.sampled_from(FILES), st.integers(0, 10_000), st.sampled_from(["drop", "shuffle", "cut", "twice"]))
@settings(max_examples=25, deadline=None)
def test_damaged_files_stay_valid(path: Path, seed: int, how: str) -> None:
    """Whatever a file lost: no traceback, and no request that the API would refuse."""
    pick = random.Random(seed)
    rows = path.read_bytes().splitlines()[:160]
    if how == "drop":
        rows = [r for r in rows if pick.random() > 0.15]
    elif how == "shuffle":
        at = pick.randrange(len(rows) - 20)
        rows[at : at + 20] = pick.sample(rows[at : at + 20], 20)
    elif how == "cut":
        rows = [r[: pick.randrange(1, len(r))] if pick.random() < 0.05 else r for r in rows]
    else:
        rows += rows[pick.randrange(len(rows)) :]
    for session in read_sessions(b"\n".join(rows)):
        assert_sound(session)


hostile = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda v: (
        st.lists(v, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "role",
                    "content",
                    "id",
                    "uuid",
                    "parentUuid",
                    "message",
                    "payload",
                    "subtype",
                    "tool_use_id",
                    "call_id",
                    "attachment",
                    "usage",
                    "compactMetadata",
                    "preservedMessages",
                    "uuids",
                    "microcompactMetadata",
                    "compactedToolIds",
                    "replacement_history",
                    "info",
                    "last_token_usage",
                    "output",
                    "timestamp",
                    "model",
                    "prompt",
                    "filename",
                ]
            ),
            v,
            max_size=5,
        )
    ),
    max_leaves=12,
)
kinds = st.sampled_from(
    [
        "user",
        "assistant",
        "system",
        "attachment",
        "response_item",
        "compacted",
        "event_msg",
        "turn_context",
        "session_meta",
        "microcompact_boundary",
        "compact_boundary",
    ]
)


@given(
    st.lists(
        st.builds(
            lambda kind, rest: {**rest, "type": kind},
            kinds,
            st.dictionaries(
                st.sampled_from(
                    [
                        "message",
                        "payload",
                        "uuid",
                        "parentUuid",
                        "subtype",
                        "attachment",
                        "isSidechain",
                        "compactMetadata",
                        "microcompactMetadata",
                        "timestamp",
                        "isCompactSummary",
                    ]
                ),
                hostile,
                max_size=6,
            ),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["claude-code", "codex"]),
)
@settings(max_examples=200, deadline=None)
def test_hostile_records(records: list[dict[str, Any]], format: str) -> None:
    for session in read_sessions(lines(*records), format=format):
        requests(session)


@given(hostile)
@settings(max_examples=200, deadline=None)
def test_hostile_values(value: Any) -> None:
    try:
        sessions = read_sessions(json.dumps(value).encode())
    except InvalidRequest as error:
        assert "\n" not in str(error)
    else:
        assert all(requests(s) is not None for s in sessions)
