"""What `scripts/e2e` rests on, without the agents: its provider, and its verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from e2e.provider import Provider
from e2e.report import verdict
from e2e.runs import PROMPT, Outcome

GOOD = Outcome(
    client="some",
    way="through packlight",
    ended_well=True,
    exit_code=0,
    steps="9/9",
    windows=3.0,
    requests=10,
    refused_for_length=1,
    side_requests=0,
    repeated=0,
    forgotten=0,
    said="The sum",
    proxy_said="",
    seconds=1.0,
)


def test_nothing_is_wrong_with_what_is_promised():
    assert verdict([GOOD, replace(GOOD, way="without packlight", ended_well=False)]) == []
    assert verdict([replace(GOOD, way="left", ended_well=False, refused_otherwise={"x": 1})]) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ended_well": False, "said": "out of room"}, "did not end well: out of room"),
        ({"refused_otherwise": {"orphan_result": 2}}, "something else than length"),
        ({"windows": 0.9}, "0.9 windows only"),
        ({"forgotten": 3}, "3 turns lacked the user's words"),
        ({"repeated": 2}, "2 results were gone"),
        ({"way": "without packlight", "refused_for_length": 0}, "nothing is shown"),
        ({"way": "left well", "ended_well": False}, "did not end well"),
    ],
)
def test_each_promise_can_fail(change, says):
    (found,) = verdict([replace(GOOD, **change)])
    assert says in found


# --- the provider -----------------------------------------------------------------------------------------------------

TOOL = {"type": "function", "function": {"name": "bash", "parameters": {}}}


def agent(provider, run, turns=20):
    """A small agent over Chat Completions; what it is told at the end."""
    messages = [{"role": "user", "content": PROMPT.format(last=len(provider.figures))}]
    for _ in range(turns):
        status, answer = provider.answer("chat", {"model": "m", "messages": list(messages), "tools": [TOOL]})
        assert status == 200, answer
        message = answer["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": run(call["function"]["arguments"])}
            for call in message["tool_calls"]
        ]
    return None


def made(folder):
    return Provider(folder / "reports", 3, 2_000, window_tokens=50_000)


def cat(folder):
    return lambda arguments: (folder / arguments.split("cat ")[1].rstrip('"}')).read_text()


def test_sum_is_told_to_whoever_read_all_reports(tmp_path):
    provider = made(tmp_path)
    assert agent(provider, cat(tmp_path)) == provider.total
    assert (len(provider.seen), provider.repeated, provider.forgotten) == (3, 0, 0)


def test_sum_is_not_told_to_an_agent_that_runs_nothing(tmp_path):
    provider = made(tmp_path)
    said = agent(provider, lambda arguments: f"FIGURE 1 = {provider.figures[0] + 1}")
    assert said == "I can't read the next report."
    assert provider.seen == []
    assert provider.repeated == 3


def test_result_that_was_taken_out_before_it_was_read_is_asked_for_again(tmp_path):
    provider, runs = made(tmp_path), []

    def forgetful(arguments):
        runs.append(arguments)
        return "[cleared]" if len(runs) == 2 else cat(tmp_path)(arguments)

    assert agent(provider, forgetful) == provider.total
    assert (len(runs), provider.repeated) == (4, 1)


def test_broken_request_is_refused_by_kind(tmp_path):
    provider = made(tmp_path)
    lone = [{"role": "user", "content": "go"}, {"role": "tool", "tool_call_id": "x", "content": "r"}]
    assert provider.answer("chat", {"model": "m", "messages": lone, "tools": [TOOL]})[0] == 400
    long = [{"role": "user", "content": "word " * 60_000}]
    assert provider.answer("chat", {"model": "m", "messages": long, "tools": [TOOL]})[0] == 400
    assert provider.refused["length"] == 1
    assert sum("orphan_result" in kind for kind in provider.refused) == 1
