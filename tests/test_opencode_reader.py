"""opencode's sessions, exported or as its storage has them."""

from __future__ import annotations

import json
import random
from typing import Any

from packlight.replay.readers import read_sessions
from packlight.replay.readers.claude_window import CLEARED
from packlight.replay.session import RecordedCompaction, Session
from packlight.tokens.usage import input_tokens
from reader_helpers import SESSIONS, assert_sound, one

CLAUDE = {"modelID": "claude-opus-4-6", "providerID": "anthropic"}


class Talk:
    """Writes messages in order, a second apart."""

    def __init__(self, session: str = "s1", **model: str) -> None:
        self.session = session
        self.model = model or CLAUDE
        self.messages: list[dict[str, Any]] = []

    def add(self, role: str, *parts: dict[str, Any], **info: Any) -> None:
        n = len(self.messages)
        base = {"id": f"{self.session}{n:02}", "sessionID": self.session, "role": role}
        info = {**base, "time": {"created": n * 1000, "completed": n * 1000 + 500}, **info}
        place = {"sessionID": self.session, "messageID": base["id"]}
        self.messages.append({"info": info, "parts": [{"id": f"p{i}", **place, **p} for i, p in enumerate(parts)]})

    def user(self, *parts: dict[str, Any]) -> None:
        self.add("user", *parts)

    def says(self, *parts: dict[str, Any], **info: Any) -> None:
        tokens = {"input": 1, "output": 2, "cache": {"read": 30, "write": 4}}
        self.add("assistant", *parts, tokens=tokens, **self.model, **info)

    @property
    def export(self) -> bytes:
        return json.dumps({"info": {"id": self.session}, "messages": self.messages}, indent=1).encode()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [o for m in self.messages for o in (m["info"], *m["parts"])]

    def read(self) -> Session:
        session = one(self.export)
        assert_sound(session)
        return session


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def tool(call: str, status: str = "completed", compacted: int = 0, **state: Any) -> dict[str, Any]:
    state = {
        "status": status,
        "input": {"of": call},
        "output": f"out of {call}",
        "time": {"compacted": compacted},
        **state,
    }
    return {"type": "tool", "callID": call, "tool": "bash", "state": state}


def thinks(value: str, **metadata: Any) -> dict[str, Any]:
    return {"type": "reasoning", "text": value, "metadata": metadata}


def words(session: Session, segment: int = -1) -> list[Any]:
    return [
        b.get("text", b.get("content", b["type"])) for m in session.segments[segment].messages for b in m["content"]
    ]


def test_steps_of_a_message() -> None:
    """Each step is a call of its own, with its own usage."""
    talk = Talk()
    talk.user(text("go"), text("hidden", ignored=True), {"type": "file", "mime": "application/pdf"})
    talk.says(
        {"type": "step-start"},
        thinks("hm", anthropic={"signature": "sig"}),
        tool("a"),
        tool("b", status="error", error="denied"),
        {"type": "step-finish", "tokens": {"input": 9, "cache": {"read": 1, "write": 0}}},
        {"type": "step-start"},
        text("done"),
        {"type": "step-finish", "tokens": {"input": 20, "cache": {}}},
    )
    talk.says()
    session = talk.read()
    (segment,) = session.segments
    assert [(t.end, input_tokens(t.usage), t.seconds) for t in segment.turns] == [
        (1, 10, 1.5),
        (3, 20, 1.5),
        (4, 35, 2.5),
    ]
    assert segment.messages[1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert [b.get("is_error") for b in segment.messages[2]["content"]] == [None, True]
    assert words(session) == ["go", "thinking", "tool_use", "tool_use", "out of a", "denied", "done"]
    assert session.notes == ["1 x part of type 'file' left out"]


def test_other_models_speak_chat() -> None:
    talk = Talk(modelID="gpt-5.2", providerID="openai")
    image = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,iVBORw0K"}
    talk.user(text("go"), image)
    talk.says(
        thinks("hm", openai={"reasoningEncryptedContent": "x"}), tool("a"), tool("cut", status="running", output=None)
    )
    talk.says(text("done"))
    session = talk.read()
    assert (session.format, session.model) == ("chat", "gpt-5.2")
    assert [m["role"] for m in session.segments[0].messages] == ["user", "assistant", "tool", "assistant"]
    assert session.notes == ["1 x reasoning that can't be sent again left out", "1 x call without a result left out"]


def test_compaction_and_pruning() -> None:
    talk = Talk()
    talk.user(text("go"))
    talk.says(tool("a", compacted=2500), tool("b"))
    talk.says(text("seen"))
    talk.says(text("forgotten"))
    talk.user({"type": "compaction", "auto": True})
    talk.says(text("All went well."), summary=True)
    talk.user(text("more"))
    talk.says(text("ok"))
    session = talk.read()
    assert [s.compaction for s in session.segments] == [
        None,
        RecordedCompaction("microcompaction", preserved_messages=4),
        RecordedCompaction("compaction", "All went well."),
    ]
    assert words(session, 0)[3:] == ["out of a", "out of b", "seen"]
    assert words(session, 1)[3:] == [CLEARED, "out of b", "seen", "forgotten"]
    assert words(session, 2) == ["What did we do so far?", "All went well.", "more", "ok"]
    assert [len(s.turns) for s in session.segments] == [2, 1, 1]


def test_storage_in_any_order() -> None:
    """Two sessions, their files shuffled, among other objects."""
    first, second = Talk("one"), Talk("two", modelID="o3")
    for talk in (first, second):
        talk.user(text("go"))
        talk.says(tool("a"), tool("b"))
        talk.says(text(f"done {talk.session}"))
    objects: list[Any] = [*first.objects, *second.objects, {"id": "one", "title": "x"}, [{"file": "a"}]]
    objects.append({"type": "text", "id": "p9", "sessionID": "one", "messageID": "gone", "text": "lost"})
    random.Random(3).shuffle(objects)
    sessions = read_sessions("\n".join(json.dumps(o, indent=2) for o in objects).encode())
    assert sorted((s.name, s.format, s.turns) for s in sessions) == [("one", "anthropic", 2), ("two", "chat", 2)]
    assert next(s for s in sessions if s.name == "one").segments == first.read().segments
    assert sorted(note for s in sessions for note in s.notes) == [
        "1 x part whose message is not in the file left out",
        "1 x value that is no record skipped",
    ]


def test_storage_is_the_export() -> None:
    (exported,) = read_sessions(SESSIONS / "opencode-export.json")
    (stored,) = read_sessions(SESSIONS / "opencode-storage.json")
    whole = exported.segments[0].messages
    assert stored.segments[0].messages == whole[: len(stored.segments[0].messages)]


def test_compaction_that_keeps_the_newest_turns() -> None:
    """They stand behind the summary, and none of them is a call of the new window."""
    talk = Talk()
    talk.user(text("old"))
    talk.says(text("done"))
    talk.user(text("new"))
    talk.says(tool("a"))
    talk.user({"type": "compaction", "auto": True, "tail_start_id": "s102"})
    talk.says(text("Half of it."), summary=True, error={"name": "MessageAbortedError"})
    talk.says(text("The old was done."), summary=True)
    talk.user(text("go on"))
    talk.says(text("ended"))
    session = talk.read()
    after = session.segments[1]
    assert words(session, 0) == ["old", "done", "new", "tool_use", "out of a"]
    assert words(session) == [
        *("What did we do so far?", "The old was done.", "new", "tool_use", "out of a", "go on", "ended"),
    ]
    assert [t.end for t in after.turns] == [5]
    assert after.compaction == RecordedCompaction("compaction", "The old was done.", 3)
    assert session.notes == ["1 x compaction that failed"]


def test_command_of_the_user_run_by_a_sub_agent() -> None:
    talk = Talk()
    talk.user({"type": "subtask", "prompt": "look", "agent": "explore"})
    talk.says(text("found"))
    assert words(talk.read()) == ["The following tool was executed by the user", "found"]
