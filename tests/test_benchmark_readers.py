"""Trajectories of ATIF, inspect_ai and tau2-bench, and Cline's sessions, are read as what their models saw."""

from __future__ import annotations

import json
from typing import Any

from packlight.replay.readers import read_sessions
from packlight.replay.session import Session
from packlight.tokens.usage import cache_read_tokens, input_tokens
from reader_helpers import SESSIONS, assert_sound, lines, one


def contents(session: Session, window: int = 0) -> list[Any]:
    return [m.get("content") or len(m["tool_calls"]) for m in session.segments[window].messages]


# ATIF


def atif(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "schema_version": "ATIF-v1.9",
        "session_id": "s",
        "agent": {"name": "a", "model_name": "m"},
        "steps": steps,
        **fields,
    }


def agent(message: str, *call_ids: str, results: list[Any] | None = None, **fields: Any) -> dict[str, Any]:
    calls = [{"tool_call_id": i, "function_name": "sh", "arguments": {"c": i}} for i in call_ids]
    found = [{"source_call_id": i, "content": i.upper()} for i in call_ids] if results is None else results
    return {"source": "agent", "message": message, "tool_calls": calls, "observation": {"results": found}, **fields}


USER = {"source": "user", "message": "go"}


def test_atif_steps_of_one_response() -> None:
    """Split by a converter: by the same metrics, or by nothing that came between."""
    metrics = {"prompt_tokens": 10, "completion_tokens": 1}
    session = one(lines(atif(
        USER, agent("look", metrics=metrics), agent("Executed sh a", "a", metrics=metrics),
        agent("", "b", metrics=metrics),
        agent("done", metrics={"prompt_tokens": 30, "cached_tokens": 20}),
    )))  # fmt: skip
    assert_sound(session)
    assert contents(session) == ["go", "look", "A", "B", "done"]
    assert [(t.end, input_tokens(t.usage)) for t in session.segments[0].turns] == [(1, 10), (4, 30)]
    assert cache_read_tokens(session.segments[0].turns[1].usage) == 20
    assert session.model == "m"


def test_atif_metrics_at_the_last_step_of_a_response() -> None:
    end = {"metrics": {"prompt_tokens": 10}}
    session = one(lines(atif(USER, agent("", "a"), agent("", "b", **end), agent("x", **end), agent("", "c", **end))))
    assert_sound(session)
    assert [t.end for t in session.segments[0].turns] == [1, 4, 5]
    assert len(session.segments[0].messages[1]["tool_calls"]) == 2


def test_atif_of_claude_code_without_what_no_model_saw() -> None:
    """Harbor writes the agent's own record behind a result."""
    shown = "1\u2192[stdout]\n     2\u2192[metadata] {}"
    told = [
        (f'{shown}\n\n[metadata] {{"type": "text", "file": {{"content": "[stdout]"}}}}', shown),
        ("no session\n\n[stdout]\nno session", "no session"),
        ('a\nb\n\n[stdout]\na\n\n[stderr]\nb\n\n[metadata] {"interrupted": false}', "a\nb"),
        ("see:\n\n[stdout]\nof the other program", "see:\n\n[stdout]\nof the other program"),
    ]
    steps = [agent("", "c", results=[{"source_call_id": "c", "content": text}]) for text, _ in told]
    for name, seen in (("claude-code", [sent for _, sent in told]), ("other", [text for text, _ in told])):
        session = one(lines(atif(USER, *steps, agent={"name": name})))
        assert [m["content"] for m in session.segments[0].messages if m["role"] == "tool"] == seen


def test_atif_compaction_and_copied_steps() -> None:
    handoff = {"source": "system", "message": "Performed context summarization and handoff to continue task."}
    marked = {"source": "system", "message": "-", "extra": {"context_management": {"boundary": "replace"}}}
    session = one(lines(atif(
        {"source": "system", "message": "s"}, USER, agent("old", is_copied_context=True), agent("", "a"),
        handoff, {"source": "user", "message": "answers"}, agent("one"), marked, USER, agent("two"),
        continued_trajectory_ref="trajectory.cont-1.json",
    )))  # fmt: skip
    assert_sound(session)
    assert [contents(session, i) for i in range(1, 3)] == [["answers", "one"], ["go", "two"]]
    assert [s.compaction and s.compaction.kind for s in session.segments] == [None, "compaction", "compaction"]
    assert session.notes == ["1 x further part of the session in another file"]


def test_atif_copied_context_is_no_call() -> None:
    copied = agent("old", "a", is_copied_context=True)
    session = one(lines(atif(USER, copied, {"source": "user", "message": "more"}, agent("new"))))
    assert [t.end for t in session.segments[0].turns] == [4]


def test_atif_steps_of_no_call_and_of_several() -> None:
    metrics = {"prompt_tokens": 10, "completion_tokens": 1}
    session = one(lines(atif(
        USER, agent("made by a rule", "a", llm_call_count=0), agent("thought", "b", llm_call_count=3, metrics=metrics),
        agent("done", llm_call_count=1, metrics={"prompt_tokens": 30}),
    )))  # fmt: skip
    assert_sound(session)
    assert [(t.end, input_tokens(t.usage)) for t in session.segments[0].turns] == [(3, None), (5, 30)]
    assert session.notes == ["1 x usage of several calls in one step left out"]


def test_atif_sub_agents() -> None:
    """Trajectories inside one are sessions of their own; steps of a side-chain are left out."""
    inner = atif(USER, agent("in"), subagent_trajectories=[atif(USER, agent("deep"), trajectory_id="t2")])
    side = {"source": "agent", "message": "aside", "extra": {"is_sidechain": True}}
    sessions = read_sessions(
        lines(atif(USER, side, agent("out"), subagent_trajectories=[{**inner, "trajectory_id": "t1"}]))
    )
    assert [(s.name, contents(s)[-1]) for s in sessions] == [("s", "out"), ("s#t1", "in"), ("s#t1#t2", "deep")]
    assert sessions[0].notes == ["1 x step of a sub-agent left out"]


def test_atif_protocol_of_text() -> None:
    """Commands that share one result were written in the message: they are text again, the result a message."""
    image = {"type": "image", "source": {"media_type": "image/png", "path": "i.png"}}
    session = one(lines(atif(
        USER, agent("plan", "a", "b", results=[{"content": "screen"}]),
        agent('{"c": "ls"}', results=[{"content": "x"}]),
        agent("", "d", results=[{"content": [{"type": "text", "text": "t"}, image]}]),
    )))  # fmt: skip
    assert_sound(session)
    _, plan, screen, typed, x, one_call, result = session.segments[0].messages
    assert [p["text"][:6] for p in plan["content"]] == ["plan", '[{"nam']
    assert (screen, x) == ({"role": "user", "content": "screen"}, {"role": "user", "content": "x"})
    assert typed == {"role": "assistant", "content": '{"c": "ls"}'}
    assert result["tool_call_id"] == one_call["tool_calls"][0]["id"] == "d"
    assert [p["text"] for p in result["content"]] == ["t", "[image: i.png]"]


def test_atif_totals_only() -> None:
    session = one(lines(atif(USER, agent("x"), final_metrics={"total_prompt_tokens": 9})))
    assert session.notes == ["1 x usage that stands in the file as a total only"]


# inspect_ai


def test_inspect_requests_from_a_pool() -> None:
    """Newer logs keep each message once; a grader's calls are not the agent's."""
    (old,) = read_sessions(SESSIONS / "inspect-ai.json")
    log = json.loads((SESSIONS / "inspect-ai.json").read_text("utf-8"))
    (sample,) = log["samples"]
    pool = list(sample["events"][-1]["input"])
    for event in sample["events"]:
        event["input_refs"], event["input"] = [[0, len(event["input"])]], []
    grader = {**sample["events"][0], "output": {"choices": [{"message": {"id": "other"}}]}}
    sample["events"].insert(2, grader)
    sample["events_data"] = {"messages": pool}
    new = one(json.dumps(log).encode())
    assert new.segments[0].messages == old.segments[0].messages
    assert [t.end for t in new.segments[0].turns] == [1, 3, 5, 7, 9]
    assert new.notes == ["1 x model call whose answer is not in the conversation left out"]
    assert new.head["tools"][0]["function"]["description"].startswith("Navigate")


def test_inspect_without_events() -> None:
    messages = [
        {"role": "system", "content": "attachment://gone"}, {"role": "user", "content": [
            {"type": "text", "text": "attachment://h"}, {"type": "image", "image": "data:image/png;base64,AA=="}]},
        {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "r"}],
         "tool_calls": [{"id": "c", "function": "f", "arguments": {}}]},
        {"role": "tool", "tool_call_id": "c", "content": "", "error": {"message": "timeout"}},
    ]  # fmt: skip
    sample = {"id": 1, "messages": messages, "attachments": {"h": "hello"}}
    log = {"eval": {"model": "m"}, "samples": [sample, {**sample, "epoch": 2}]}
    first, second = read_sessions(lines(log))
    assert_sound(first)
    assert (first.name, second.name, first.model, first.turns) == ("#1.1", "#1.2", "m", 1)
    assert first.segments[0].messages[1]["content"][0]["text"] == "hello"
    assert first.segments[0].messages[3]["content"] == "timeout"
    assert first.notes == ["1 x attachment that is not in the file"]


# tau2-bench, smolagents, Cline


def test_tau2_from_the_agents_side() -> None:
    def calls(role: str, call_id: str) -> dict[str, Any]:
        return {"role": role, "content": None, "tool_calls": [{"id": call_id, "name": "f", "arguments": {"x": 1}}]}

    simulation = {"task_id": "t", "trial": 1, "termination_reason": "user_stop", "messages": [
        {"role": "assistant", "content": "Hi!"}, {"role": "user", "content": "help"}, calls("assistant", "a"),
        {"role": "tool", "tool_messages": [{"id": "a", "content": "A", "requestor": "assistant"}]},
        {"role": "assistant", "content": "restart it"}, calls("user", "u"),
        {"role": "tool", "id": "u", "content": "U", "requestor": "user"}, {"role": "user", "content": "done"},
        {"role": "assistant", "content": "fine"},
    ]}  # fmt: skip
    info = {"agent_info": {"llm": "m"}, "environment_info": {"policy": "P"}}
    session = one(lines({"info": info, "simulations": [simulation]}))
    assert_sound(session)
    assert contents(session) == ["P", "Hi!", "help", 1, "A", "restart it", "done", "fine"]
    assert (session.model, [t.end for t in session.segments[0].turns]) == ("m", [3, 5, 7])
    assert len(session.notes) == 2
    assert [s.name for s in read_sessions(lines(simulation, {**simulation, "trial": 2}))] == ["#0", "#1"]


def test_smolagents_merges_neighbours() -> None:
    steps = [
        {"role": r, "content": [{"type": "text", "text": r}]}
        for r in ("system", "user", "assistant", "tool-call", "tool-response")
    ]
    steps.append({"role": "assistant", "content": "end", "token_usage": {"input_tokens": 9, "output_tokens": 1}})
    session = one(lines({"agent_action_type": "code", "intermediate_steps": steps, "model_id": "m"}))
    assert [m["role"] for m in session.segments[0].messages] == ["system", "user", "assistant", "user", "assistant"]
    assert [p["text"] for p in session.segments[0].messages[2]["content"]] == ["assistant", "tool-call"]
    assert [(t.end, input_tokens(t.usage)) for t in session.segments[0].turns] == [(2, None), (4, 9)]


def test_cline_blocks_of_its_own() -> None:
    (session,) = read_sessions(SESSIONS / "cline.json")
    assert session.head["system"].startswith("You are")
    first, _, result, *_ = session.segments[0].messages
    assert [b["type"] for b in first["content"]] == ["text", "text"]
    assert result["content"][0].keys() == {"type", "tool_use_id", "content"}
    assert cache_read_tokens(session.segments[0].turns[1].usage) == 34_332
    assert session.segments[0].turns[0].seconds == 1783376873.493
