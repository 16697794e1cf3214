"""Logs of OpenHands, SWE-agent and mini-swe-agent are read as what their models saw."""

from __future__ import annotations

from typing import Any

import pytest

from packlight.errors import InvalidRequest
from packlight.replay.readers import read_sessions
from packlight.replay.session import Session
from packlight.tokens.usage import cache_read_tokens, input_tokens
from reader_helpers import SESSIONS, assert_sound, lines, one


def contents(session: Session, window: int = 0) -> list[Any]:
    return [m.get("content") or len(m["tool_calls"]) for m in session.segments[window].messages]


# OpenHands


class Events:
    """Writes events as OpenHands does."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def add(self, **fields: Any) -> int:
        self.records.append({"id": len(self.records), "timestamp": "2026-01-01T00:00:00", **fields})
        return len(self.records) - 1

    def says(self, text: str, source: str = "agent") -> int:
        return self.add(source=source, action="message", args={"content": text})

    def runs(self, call_id: str, *, all_ids: list[str] | None = None, response: str = "") -> int:
        return self.add(source="agent", action="run", args={"command": "ls"}, **call(call_id, all_ids, response))

    def saw(self, call_id: str, text: str, kind: str = "run", **extras: Any) -> int:
        return self.add(source="agent", observation=kind, content=text, extras=extras, **call(call_id))

    def read(self) -> Session:
        session = one(lines(*self.records))
        assert session.reader == "openhands"
        assert_sound(session)
        return session


def call(call_id: str, all_ids: list[str] | None = None, response: str = "") -> dict[str, Any]:
    calls = [
        {"id": i, "type": "function", "function": {"name": "bash", "arguments": "{}"}} for i in all_ids or [call_id]
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    reply = {
        "id": response or f"r-{call_id}",
        "model": "m",
        "usage": {"prompt_tokens": 7},
        "choices": [{"message": message}],
    }
    return {"tool_call_metadata": {"function_name": "bash", "tool_call_id": call_id, "model_response": reply}}


def test_openhands_parallel_calls_are_one_answer() -> None:
    events = Events()
    events.add(source="agent", action="system", args={"content": "s", "tools": [{"type": "function"}]})
    events.says("go", "user")
    events.runs("a", all_ids=["a", "b"], response="r")
    events.saw("a", "A", metadata={"exit_code": 0, "working_dir": "/w", "suffix": "\n[end]"})
    events.runs("b", all_ids=["a", "b"], response="r")
    events.saw("b", "B", "error")
    events.add(source="environment", observation="agent_state_changed", content="", extras={})
    events.add(source="agent", action="finish", args={"thought": "", "final_thought": "done"}, **call("f"))
    session = events.read()
    assert contents(session) == [
        "s", "go", 2, "A\n[end]\n[Current working directory: /w]\n[Command finished with exit code 0]",
        "B\n[Error occurred in processing last action]", "done",
    ]  # fmt: skip
    assert [(t.end, input_tokens(t.usage), t.model) for t in session.segments[0].turns] == [(2, 7, "m"), (5, 7, "m")]
    assert session.head == {"tools": [{"type": "function"}]}
    assert session.notes == []


def test_openhands_condensation_starts_a_window() -> None:
    """The summary stands where it was put, what was forgotten is gone, in the next condensation too."""
    events = Events()
    events.says("go", "user")
    first = events.runs("a")
    events.saw("a", "A")
    events.says("early")
    events.add(action="condensation", args={"forgotten_events_start_id": first, "forgotten_events_end_id": first + 1,
                                            "summary": "S1", "summary_offset": 1})  # fmt: skip
    last = events.runs("b")
    result = events.saw("b", "B")
    events.add(
        action="condensation", args={"forgotten_event_ids": [last, result], "summary": "S2", "summary_offset": 1}
    )
    events.says("late")
    session = events.read()
    assert [contents(session, i) for i in range(3)] == [
        ["go", 1, "A", "early"], ["go", "S1", "early", 1, "B"], ["go", "S2", "early", "late"],
    ]  # fmt: skip
    assert [len(s.turns) for s in session.segments] == [2, 1, 1]
    began = [s.compaction for s in session.segments]
    assert began[0] is None and [c.summary for c in began[1:] if c] == ["S1", "S2"]
    assert session.notes == ["4 x event forgotten by the agent's condenser"]


def test_openhands_without_tool_calls() -> None:
    """Very old results have pairs; what has no call to join it by is text."""
    pairs = [
        [{"source": "user", "action": "message", "args": {"content": "go", "image_urls": ["data:,"]}},
         {"observation": "null", "content": ""}],
        [{"source": "agent", "action": "run", "args": {"command": "ls", "thought": "look"}},
         {"observation": "run", "content": "A", "extras": {"exit_code": 1}}],
        [{"source": "user", "action": "run", "args": {"command": "make"}},
         {"source": "user", "observation": "run", "content": "B"}],
        [{"source": "agent", "action": "delegate", "args": {"agent": "x"}},
         {"observation": "user_rejected", "content": "C"}],
    ]  # fmt: skip
    result = {"instance_id": "i", "history": pairs, "metadata": {"llm_config": {"model": "m"}}}
    first, second = read_sessions(lines(result, {**result, "history": pairs[:2]}))
    assert_sound(first)
    assert (first.name, first.model, first.turns, second.turns) == ("#0", "m", 2, 1)
    assert contents(first)[1:] == [
        "look\n<execute_bash>\nls\n</execute_bash>", "A\n[Command finished with exit code 1]",
        "User executed the command:\nmake", "\nObserved result of command executed by user:\nB",
        '<delegate>\n{"agent":"x"}\n</delegate>', "OBSERVATION:\nC\n[Last action has been rejected by the user]",
    ]  # fmt: skip


def test_openhands_recall_is_told_in_its_pieces() -> None:
    events = Events()
    events.says("go", "user")
    events.add(source="user", action="recall", args={"query": "go"})
    extras = {"repo_name": "r", "runtime_hosts": {"h": 1}, "date": "today", "microagent_knowledge": [{"content": "k"}]}
    events.add(source="environment", observation="recall", content="Added", extras=extras)
    events.says("hi")
    assert contents(events.read()) == ["go", 'r\n{"h":1}\ntoday\nk', "hi"]


def test_openhands_sdk() -> None:
    def part(text: str) -> list[dict[str, Any]]:
        return [{"type": "text", "text": text}]

    def action(call_id: str, text: str) -> dict[str, Any]:
        function = {"id": call_id, "name": "terminal", "arguments": '{"command": "ls"}'}
        return {"kind": "ActionEvent", "id": f"e-{call_id}", "source": "agent", "thought": part(text),
                "tool_name": "terminal", "tool_call_id": call_id, "tool_call": function,
                "llm_response_id": "r"}  # fmt: skip

    def answer(kind: str, call_id: str, **fields: Any) -> dict[str, Any]:
        return {"kind": kind, "id": f"o-{call_id}", "tool_name": "terminal", "tool_call_id": call_id, **fields}

    session = one(lines(
        {"kind": "SystemPromptEvent", "id": "0", "system_prompt": {"type": "text", "text": "s"}, "tools": []},
        {"kind": "MessageEvent", "id": "1", "source": "user", "llm_message": {"role": "user", "content": part("go")},
         "extended_content": part("more")},
        action("a", "look"), action("b", ""), action("c", ""),
        answer("ObservationEvent", "a", observation={"content": part("A"), "is_error": True}),
        answer("ObservationEvent", "b", observation={"output": "B"}),
        answer("UserRejectObservation", "c", rejection_reason="no"),
        {"kind": "ConversationStateUpdateEvent", "id": "2"},
        {"kind": "Condensation", "id": "3", "forgotten_event_ids": ["e-a", "e-b", "e-c", "o-a", "o-b", "o-c"],
         "summary": "S", "summary_offset": 2},
        {"kind": "MessageEvent", "id": "4", "source": "agent", "llm_message": {"content": part("bye")}},
    ))  # fmt: skip
    assert_sound(session)
    assert session.reader == "openhands-sdk"
    assert contents(session)[2:] == [
        part("look"), [*part("Tool Execution Error. "), *part("A")], part("B"), part("Action rejected: no"),
    ]  # fmt: skip
    assert len(session.segments[0].messages[2]["tool_calls"]) == 3
    assert contents(session, 1) == [part("s"), [*part("go"), *part("more")], "S", part("bye")]


def test_openhands_sdk_results() -> None:
    """The results of an evaluation hold events of V1, and beside them the usage of each response."""
    function = {"id": "a", "name": "terminal", "arguments": "{}"}
    named = {"tool_name": "terminal", "tool_call_id": "a"}
    history = [
        {"kind": "MessageEvent", "source": "user", "llm_message": {"content": [{"type": "text", "text": "go"}]}},
        {"kind": "ActionEvent", "source": "agent", "tool_call": function, "llm_response_id": "r", **named},
        {"kind": "ObservationEvent", "observation": {"content": [{"type": "text", "text": "A"}]}, **named},
    ]
    told = {"model": "m", "response_id": "r", "prompt_tokens": 90, "completion_tokens": 3, "cache_read_tokens": 70}
    result = {"instance_id": "i", "history": history, "metrics": {"token_usages": [told, {"response_id": []}, None]}}
    session = one(lines(result))
    (turn,) = session.segments[0].turns
    assert (session.reader, session.name, session.model) == ("openhands-sdk", "i", "m")
    assert (input_tokens(turn.usage), cache_read_tokens(turn.usage)) == (90, 70)
    assert [s.name for s in read_sessions(lines(result, {**result, "instance_id": "j"}))] == ["#0", "#1"]


# SWE-agent, mini-swe-agent


def test_swe_agent_demonstration_and_shortened_outputs() -> None:
    (old,) = read_sessions(SESSIONS / "swe-agent-0.traj")
    assert old.notes == ["1 x message of a demonstration left out"]
    assert [m["role"] for m in old.segments[0].messages[:3]] == ["system", "user", "assistant"]
    (new,) = read_sessions(SESSIONS / "swe-agent-1.traj")
    assert new.notes == ["2 x output that the agent shortened later on: read whole"]
    assert new.segments[0].messages[3]["tool_call_id"] == new.segments[0].messages[2]["tool_calls"][0]["id"]
    assert new.segments[0].messages[2].keys() == {"role", "content", "tool_calls"}


def test_swe_agent_calls_that_shorten_what_was_sent() -> None:
    def sent(*texts: str) -> dict[str, Any]:
        messages = [{"role": "user", "content": t} for t in texts]
        return {"type": "request", "request_params": {"model": "m", "messages": messages, "tools": [], "api_key": "k"}}

    reply = {"type": "response", "response": {"usage": {"prompt_tokens": 5}}, "timestamp": "2026-01-01T00:00:00Z"}
    session = one(
        lines(sent("a"), reply, sent("a", "b"), sent("a", "b", "c"), reply, sent("a", "x"), reply, {"type": "?"})
    )
    assert [contents(session, i) for i in range(2)] == [["a", "b", "c"], ["a", "x"]]
    assert [[t.end for t in s.turns] for s in session.segments] == [[1, 3], [2]]
    assert session.head == {"tools": []} and session.model == "m"
    assert session.notes == ["1 x request without its response left out", "1 x record of type '?' skipped"]


def test_mini_swe_agent_of_text() -> None:
    """Version 1 has no calls; nothing of what the agent keeps beside a message is sent."""
    said = {"role": "assistant", "content": "```bash\nls\n```", "extra": {"response": {"usage": {"prompt_tokens": 4}}}}
    record = {"info": {"mini_version": "1.0", "config": {"model": {"model_name": "m"}}},
              "messages": [{"role": "user", "content": "go"}, said, {"role": "user", "content": "a.py"}, said,
                           {"role": "exit", "content": "patch"}]}  # fmt: skip
    session = one(lines(record))
    assert (session.reader, session.model, session.turns) == ("mini-swe-agent", "m", 2)
    assert session.segments[0].messages[1] == {"role": "assistant", "content": "```bash\nls\n```"}
    assert [input_tokens(t.usage) for t in session.segments[0].turns] == [4, 4]
    assert session.notes == ["1 x message of the agent itself ('exit') left out"]


def test_mini_swe_agent_of_the_responses_api() -> None:
    """A reply stands in the place of a message, what its calls gave back behind it as items."""
    reply = {
        "object": "response",
        "id": "r1",
        "model": "gpt-5.5-2026",
        "output": [
            {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"},
            {"type": "function_call", "call_id": "a", "name": "bash", "arguments": "{}"},
        ],
        "usage": {"input_tokens": 50, "input_tokens_details": {"cached_tokens": 20}, "output_tokens": 5},
        "extra": {"actions": [], "timestamp": 5.0},
    }
    record = {
        "trajectory_format": "mini-swe-agent-1.1",
        "messages": [
            {"role": "system", "content": "Be good."},
            {"role": "user", "content": "go", "extra": {"x": 1}},
            reply,
            {"type": "function_call_output", "call_id": "a", "output": "A", "extra": {"returncode": 0}},
            {"role": "exit", "content": "patch"},
        ],
    }
    session = one(lines(record))
    assert_sound(session)
    assert (session.reader, session.format, session.model) == ("mini-swe-agent", "responses", "gpt-5.5-2026")
    assert session.segments[0].messages[1:] == [
        {"role": "user", "content": "go"},
        *reply["output"],
        {"type": "function_call_output", "call_id": "a", "output": "A"},
    ]
    assert [(t.end, input_tokens(t.usage), t.seconds) for t in session.segments[0].turns] == [(2, 50, 5.0)]


@pytest.mark.parametrize(("record", "why"), [
    ({"role": "user", "message": {"content": [{"type": "text", "text": "x"}]}}, "Cursor"),
    ({"type": "thread.started", "thread_id": "x"}, "codex/sessions"),
    ({"type": "init", "session_id": "x", "model": "gemini-3-pro"}, "gemini/tmp"),
    ({"type": "step_start", "sessionID": "s", "part": {"type": "step-start"}}, "opencode export"),
    ({"timestamp": 1.5, "message": {"type": "TurnBegin", "payload": {"user_input": "hi"}}}, "context.jsonl"),
])  # fmt: skip
def test_what_was_shown_is_refused(record: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        read_sessions(lines(record, record))
