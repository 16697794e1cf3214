"""Plain lists, request bodies and logs are read as the calls that were made with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from packlight.errors import InvalidRequest, UnknownFormat
from packlight.replay.readers import read_sessions
from packlight.tokens.usage import input_tokens
from reader_helpers import META, assert_sound, call, lines, one, output, said, tool

CHAT = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "u"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "r"},
]
ANTHROPIC = [
    {"role": "user", "content": "u"},
    {"role": "assistant", "content": [call("c")]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r"}]},
]
RESPONSES = [said("user", "u")["payload"], tool("c")["payload"], output("c")["payload"]]


@pytest.mark.parametrize(("value", "name", "ends"), [
    (CHAT, "chat", [2, 4]), (ANTHROPIC, "anthropic", [1, 3]), (RESPONSES, "responses", [1, 3]),
    ({"model": "m", "messages": CHAT}, "chat", [2, 4]), ({"messages": ANTHROPIC, "system": "s"}, "anthropic", [1, 3]),
    ({"input": RESPONSES}, "responses", [1, 3]), ({"input": "hi"}, "responses", [1]), ([], "chat", []),
])  # fmt: skip
@pytest.mark.parametrize("indent", [None, 2])
def test_plain_lists(value: Any, name: str, ends: list[int], indent: int | None) -> None:
    session = one(json.dumps(value, indent=indent).encode())
    assert (session.reader, session.format) == ("messages", name)
    assert [t.end for t in session.segments[0].turns] == ends
    assert_sound(session)


def test_format_by_name() -> None:
    source = json.dumps([{"role": "user", "content": "u"}]).encode()
    assert one(source).format == "chat"
    assert one(source, format="anthropic").format == "anthropic"
    assert one(lines(META, said("user", "x")), format="codex").reader == "codex"
    with pytest.raises(UnknownFormat, match="claude-code"):
        read_sessions(source, format="word")


def test_completion_log() -> None:
    log = {
        "messages": CHAT,
        "response": {"model": "gpt", "usage": {"prompt_tokens": 9}},
        "timestamp": 5.0,
        "kwargs": {"tools": [{"type": "function", "function": {"name": "f"}}], "api_key": "no"},
    }
    session = one(json.dumps(log).encode())
    assert session.model == "gpt"
    assert session.head == {"tools": log["kwargs"]["tools"]}
    last = session.segments[0].turns[-1]
    assert (input_tokens(last.usage), last.seconds) == (9, 5.0)


def test_completion_logs_of_one_agent() -> None:
    """Each has all that was sent: together they are one session of as many calls; logs of others are their own."""
    logs = [
        {"messages": CHAT[:n], "response": {"model": "gpt", "usage": {"prompt_tokens": n}}, "timestamp": n}
        for n in (2, 4)
    ]
    assert [m["role"] for m in CHAT[:4]] == ["system", "user", "assistant", "tool"]
    session = one(lines(*logs))
    assert [(t.end, input_tokens(t.usage), t.seconds, t.model) for t in session.segments[0].turns] == [
        *((2, 2, 2.0, "gpt"), (4, 4, 4.0, "gpt")),
    ]
    other = {**logs[0], "messages": [{"role": "user", "content": "else"}]}
    assert len(read_sessions(lines(logs[0], other))) == 2


def test_message_a_line() -> None:
    session = one(
        lines(
            {"role": "_checkpoint", "id": 0},
            CHAT[1],
            {"role": "_usage", "token_count": 50},
            {"role": "assistant", "content": "hi"},
            {"role": "_usage", "token_count": 60},
        )
    )
    assert [(t.end, input_tokens(t.usage)) for t in session.segments[0].turns] == [(1, 50)]


def test_system_prompt_of_kimi() -> None:
    session = one(
        lines({"role": "_system_prompt", "content": "You are."}, CHAT[1], {"role": "assistant", "content": "x"})
    )
    assert session.segments[0].messages[0] == {"role": "system", "content": "You are."}
    assert [t.end for t in session.segments[0].turns] == [2]


@pytest.mark.parametrize("values", [CHAT, ANTHROPIC, RESPONSES, [{"traj": CHAT}, {"traj": CHAT[:2]}],
    [{"model": "m", "messages": CHAT, "tools": []}, {"messages": CHAT, "response": {"model": "n"}}]])  # fmt: skip
def test_way_of_writing_does_not_matter(values: list[Any]) -> None:
    """A list, lines, objects behind each other in many lines or in one: the same sessions."""
    ways = [
        json.dumps(values).encode(),
        json.dumps(values, indent=1).encode(),
        lines(*values),
        "\n".join(json.dumps(v, indent=2) for v in values).encode(),
    ]
    expected, *others = [read_sessions(way) for way in ways]
    assert all(found == expected for found in others)
    (*_, glued) = read_sessions("".join(json.dumps(v) for v in values).encode())
    assert glued.segments == expected[-1].segments


def test_values_between_messages_are_noted() -> None:
    session = one(b'[{"role": "user", "content": "x"}, 5, null]')
    assert session.notes == ["2 x value that is no record skipped"]


def test_list_of_runs() -> None:
    runs = read_sessions(json.dumps([{"task_id": 1, "traj": CHAT}, {"task_id": 2, "traj": CHAT[:2]}]).encode())
    assert [s.turns for s in runs] == [2, 1]
    assert [s.name for s in runs] == ["#0", "#1"]


@pytest.mark.parametrize("value", [
    {"a": 1}, "text", 5, [1, 2], [{"type": "human", "info": {"content": "x"}}], {"messages": "x"},
    [{"id": 1, "source": "agent", "action": "run"}], [{"role": "user", "message": {"content": "x"}}] * 2,
    [{"type": "request", "request_params": {}}, {"type": "response"}], {"messages": [[]]},
])  # fmt: skip
def test_not_a_session(value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_sessions(json.dumps(value).encode())
    assert "\n" not in str(caught.value)
