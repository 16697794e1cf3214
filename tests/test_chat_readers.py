"""Sessions that are given as Chat Completions: Gemini's, Copilot's, LangChain's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from packlight.replay.session import RecordedCompaction, Session, seconds_of
from packlight.tokens.usage import cache_read_tokens, cache_write_tokens, input_tokens, output_tokens
from reader_helpers import SESSIONS, assert_sound, lines, one


def read(*records: Any, indent: int | None = None, **kwargs: Any) -> Session:
    source = json.dumps(records, indent=indent).encode() if indent else lines(*records)
    session = one(source, **kwargs)
    assert_sound(session)
    assert session.format == "chat"
    return session


def spoken(session: Session, segment: int = -1) -> list[Any]:
    """Role and content, or the names of the calls."""
    return [
        (m["role"], [c["function"]["name"] for c in m["tool_calls"]] if m.get("tool_calls") else m["content"])
        for m in session.segments[segment].messages
    ]


def ends(session: Session, segment: int = -1) -> list[int]:
    return [t.end for t in session.segments[segment].turns]


# --- Gemini contents ---------------------------------------------------------------------------------------------


def content(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": p} if isinstance(p, str) else p for p in parts]}


def asks(name: str, **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"of": name}, **fields}, "thoughtSignature": "x"}


def answers(name: str, response: Any, **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": response, **fields}}


def test_parallel_responses_are_paired() -> None:
    """By id where a call has one, else by name and order; ids that the client made up for responses do not matter."""
    session = read(
        content("user", "go"),
        content("model", {"text": "hm", "thought": True}, asks("ls"), asks("cat"), asks("ls"), asks("cat", id="own")),
        content(
            "user",
            answers("cat", {"output": "own"}, id="own"),
            answers("ls", {"output": "1"}, id="made-up"),
            answers("ls", {"error": "2"}),
            answers("cat", {"lines": 3}),
            answers("ls", {"output": "no such call"}),
        ),
        content("model", "so"),
        content("model", "far"),
        content("user", "and now?"),
    )
    messages = session.segments[0].messages
    names = [c["id"] for c in messages[1]["tool_calls"]]
    assert len(set(names)) == 4 and names[3] == "own"
    given = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    assert [given[n] for n in names] == ["1", '{"lines":3}', "2", "own"]
    assert ends(session) == [1, 6, 8]
    assert messages[6]["content"] == [{"type": "text", "text": "so"}, {"type": "text", "text": "far"}]
    assert session.notes == ["1 x response to a function that was not called left out"]


def test_made_up_ids_are_stable() -> None:
    source = (SESSIONS / "gemini-contents.json").read_bytes()
    assert one(source).segments == one(source).segments


def test_repeated_ids_are_told_apart() -> None:
    session = read(
        content("user", "go"),
        content("model", asks("a", id="same")),
        content("user", answers("a", {"output": "1"}, id="same")),
        content("model", asks("a", id="same")),
        content("user", answers("a", {"output": "2"}, id="same")),
    )
    ids = [c["id"] for m in session.segments[0].messages for c in m.get("tool_calls", ())]
    assert len(set(ids)) == 2
    assert [m["content"] for m in session.segments[0].messages if m["role"] == "tool"] == ["1", "2"]


@pytest.mark.parametrize("key", ["contents", "history"])
def test_request_with_contents(key: str) -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0K"}}
    session = one(
        json.dumps(
            {
                "model": "gemini-3-pro",
                "systemInstruction": {"parts": [{"text": "Be good."}]},
                "tools": [{"functionDeclarations": [{"name": "ls", "parameters": {"type": "object"}, "behavior": 1}]}],
                key: [content("user", "look", image, {"executableCode": {}}), content("model", "I see")],
            }
        ).encode()
    )
    assert_sound(session)
    assert session.model == "gemini-3-pro"
    assert session.head["tools"] == [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]
    assert spoken(session)[0] == ("system", "Be good.")
    assert session.segments[0].messages[1]["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw0K"
    assert session.notes == ["1 x part with executableCode left out"]


# --- Gemini CLI --------------------------------------------------------------------------------------------------

HEAD = {"sessionId": "g1", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z"}


def typed(uid: str, value: Any) -> dict[str, Any]:
    return {"id": uid, "type": "user", "timestamp": "2026-01-01T00:00:00Z", "content": value}


def gemini(uid: str, value: str, *calls: str, tokens: int = 100, **fields: Any) -> dict[str, Any]:
    return {
        "id": uid,
        "type": "gemini",
        "timestamp": "2026-01-01T00:00:05Z",
        "content": value,
        "model": "gemini-3-pro",
        "tokens": {"input": tokens, "cached": 60, "output": 7, "thoughts": 3, "total": tokens + 10},
        "toolCalls": [
            {"id": c, "name": "ls", "args": {}, "result": [answers("ls", {"output": f"of {c}"}, id=c)]} for c in calls
        ],
        **fields,
    }


def test_gemini_chat() -> None:
    """Calls with their results in one message; a message in two pieces; what the client says to the user."""
    messages = [
        typed("1", [{"text": "go"}]),
        gemini("2", "I look", "a", "b", thoughts=[{"subject": "s"}]),
        {"id": "3", "type": "info", "content": "update available"},
        gemini("4", "And"),
        gemini("5", "", "c", tokens=0),
        {"id": "6", "type": "new-kind"},
        gemini("7", "done"),
    ]
    session = one(json.dumps({**HEAD, "messages": messages}).encode())
    assert_sound(session)
    assert (session.name, session.reader, session.model) == ("g1", "gemini-cli", "gemini-3-pro")
    assert spoken(session) == [
        ("user", "go"),
        ("assistant", ["ls", "ls"]),
        ("tool", "of a"),
        ("tool", "of b"),
        ("assistant", ["ls"]),
        ("tool", "of c"),
        ("assistant", "done"),
    ]
    assert ends(session) == [1, 4, 6]
    turn = session.segments[0].turns[0]
    assert (input_tokens(turn.usage), cache_read_tokens(turn.usage), output_tokens(turn.usage)) == (100, 60, 10)
    assert turn.seconds == seconds_of("2026-01-01T00:00:05Z")
    assert session.notes == ["1 x message of unknown type 'new-kind' left out"]


def test_gemini_log() -> None:
    """A record stands for the one with its id; the user goes back; a compression is a new context."""
    snapshot = "<state_snapshot>\nAll is well.\n</state_snapshot>"
    session = read(
        HEAD,
        typed("1", "go"),
        gemini("2", "I look"),
        gemini("2", "I look", "a"),
        {"$set": {"lastUpdated": "x"}},
        typed("3", "wrong"),
        gemini("4", "no"),
        {"$rewindTo": "3"},
        typed("5", "right"),
        gemini("6", "yes"),
        {"$set": {"messages": [typed("7", snapshot), typed("5", "right"), gemini("6", "yes")]}},
        typed("8", "more"),
        gemini("9", "end"),
    )
    assert [s.compaction for s in session.segments] == [
        None,
        RecordedCompaction("rewind", preserved_messages=2),
        RecordedCompaction("compaction", snapshot, 2),
    ]
    assert [len(s.turns) for s in session.segments] == [2, 1, 1]
    assert spoken(session, 1)[-2:] == [("user", "right"), ("assistant", "yes")]
    assert [content for _, content in spoken(session, 2)[1:]] == ["yes", "more", "end"]


def test_gemini_log_that_loses_nothing() -> None:
    both = [typed("1", "go"), gemini("2", "hi")]
    session = read(HEAD, *both, {"$set": {"messages": [*both, typed("3", "more")]}}, gemini("4", "ok"))
    assert ends(session) == [1, 3]


# --- Copilot -----------------------------------------------------------------------------------------------------


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": "e", "timestamp": "2026-01-01T00:00:00Z", "parentId": None}


def copilot(uid: str, value: str, *calls: str, **data: Any) -> dict[str, Any]:
    requests = [{"toolCallId": c, "name": "bash", "arguments": {"command": c}} for c in calls]
    return event(
        "assistant.message",
        messageId=uid,
        model="gpt-5.5",
        content=value,
        toolRequests=requests,
        outputTokens=9,
        **data,
    )


START = event("session.start", sessionId="c1", copilotVersion="1.0")


def test_copilot() -> None:
    """What was sent, not what was typed or shown; results in the order of the calls' message; sub-agents apart."""
    session = read(
        START,
        event("system.message", content="Be good."),
        event("user.message", content="go", transformedContent="<now/>go", attachments=[{"type": "file"}]),
        event("hook.start", hookType="x"),
        copilot("m1", "I look", "a", "b"),
        event("assistant.message", messageId="s1", content="inner", parentToolCallId="a"),
        event("tool.execution_complete", toolCallId="b", success=False, error={"message": "no such file"}),
        event("tool.execution_complete", toolCallId="a", result={"content": "A", "detailedContent": "for the screen"}),
        event("system.notification", content="job 1 ended"),
        event("system.message", content="Be good."),
        copilot("m2", "done"),
        event("brand.new"),
    )
    assert session.name == "c1"
    assert spoken(session) == [
        ("system", "Be good."),
        ("user", "<now/>go"),
        ("assistant", ["bash", "bash"]),
        ("tool", "no such file"),
        ("tool", "A"),
        ("user", "job 1 ended"),
        ("assistant", "done"),
    ]
    assert ends(session) == [2, 6]
    turn = session.segments[0].turns[0]
    assert (turn.model, input_tokens(turn.usage), output_tokens(turn.usage)) == ("gpt-5.5", None, 9)
    assert session.notes == [
        "1 x attachment left out",
        "1 x event of a sub-agent left out",
        "1 x event of unknown type 'brand.new' skipped",
    ]


def test_copilot_stream() -> None:
    """As `--output-format json` prints it: pieces first, sub-agents told by a field of the event."""
    pieces = [event("assistant.message_delta", messageId="m1", deltaContent="x") for _ in range(80)]
    inner = [{**copilot("s1", "inner", "b"), "agentId": "sub"}, event("tool.execution_complete", toolCallId="b")]
    inner[1]["agentId"] = "sub"
    session = read(
        event("session.tools_updated", model="gpt-5.5"),
        event("user.message", content="go"),
        *pieces,
        *inner,
        copilot("m1", "done"),
        {"type": "result", "exitCode": 0},
    )
    assert session.reader == "copilot"
    assert spoken(session) == [("user", "go"), ("assistant", "done")]
    assert session.notes == ["2 x event of a sub-agent left out"]


def test_copilot_compaction() -> None:
    session = read(
        START,
        event("user.message", content="go"),
        copilot("m1", "hm"),
        event("session.compaction_complete", success=False),
        copilot("m2", "hm"),
        event("session.compaction_complete", success=True, preCompactionTokens=99, summaryContent="It went well."),
        copilot("m3", "on"),
    )
    assert session.segments[1].compaction == RecordedCompaction("compaction", "It went well.", 0, 99)
    assert spoken(session) == [("user", "It went well."), ("assistant", "on")]
    assert session.notes == ["1 x compaction, of which the file says only the summary"]


# --- LangChain ---------------------------------------------------------------------------------------------------

TALK: list[tuple[str, dict[str, Any]]] = [
    ("system", {"content": "Be good."}),
    ("human", {"content": ["look", {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}}]}),
    (
        "ai",
        {
            "content": [{"type": "text", "text": "I look"}, {"type": "tool_use", "id": "a"}, {"type": "reasoning"}],
            "tool_calls": [{"name": "ls", "args": {"of": 1}, "id": "a"}],
            "invalid_tool_calls": [{"name": "cat", "args": '{"of": 2}', "id": "b"}],
            "usage_metadata": {
                "input_tokens": 100,
                "output_tokens": 5,
                "input_token_details": {"cache_read": 70, "cache_creation": 20},
            },
            "response_metadata": {"model_name": "gpt-5.5"},
        },
    ),
    ("tool", {"content": "B", "tool_call_id": "b", "status": "error"}),
    ("tool", {"content": ["A"], "tool_call_id": "a"}),
    ("remove", {"content": "", "id": "x"}),
]


def constructor(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    name = {"human": "HumanMessage", "ai": "AIMessageChunk", "remove": "RemoveMessage"}.get(
        kind, f"{kind.title()}Message"
    )
    return {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", name], "kwargs": data}


def flat(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "additional_kwargs": {}, "response_metadata": {}, **data}


@pytest.mark.parametrize("form", [constructor, lambda k, d: {"type": k, "data": d}, flat])
@pytest.mark.parametrize("in_state", [False, True])
def test_langchain(form: Any, in_state: bool) -> None:
    messages = [form(kind, data) for kind, data in TALK]
    session = one(json.dumps({"messages": messages} if in_state else messages).encode())
    assert_sound(session)
    assert (session.reader, session.model) == ("langchain", "gpt-5.5")
    said = session.segments[0].messages
    assert [m["role"] for m in said] == ["system", "user", "assistant", "tool", "tool"]
    assert [part["type"] for part in said[1]["content"]] == ["text", "image_url"]
    assert [c["function"]["arguments"] for c in said[2]["tool_calls"]] == ['{"of":1}', '{"of": 2}']
    assert [m["content"] for m in said[3:]] == ["B", "A"]
    assert ends(session) == [2, 5]
    usage = session.segments[0].turns[0].usage
    assert (input_tokens(usage), cache_read_tokens(usage), cache_write_tokens(usage)) == (100, 70, 20)
    assert len(session.notes) == 2


def test_langchain_arguments_that_are_no_json() -> None:
    """The model saw them again as they were."""
    broken = {"content": "", "invalid_tool_calls": [{"name": "cat", "args": "{broken", "id": "b"}]}
    session = one(lines(*[{"type": k, "data": d} for k, d in (TALK[1], ("ai", broken), TALK[3])]))
    assert session.segments[0].messages[1]["tool_calls"][0]["function"]["arguments"] == "{broken"


def test_langchain_system_message_inside() -> None:
    session = read({"type": "human", "data": {"content": "a"}}, {"type": "system", "data": {"content": "b"}})
    assert session.segments[0].messages[0]["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert len(session.notes) == 1
