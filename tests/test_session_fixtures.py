"""Recorded sessions of every kind, trimmed: read as what they are, and survived when they are damaged."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlight.errors import InvalidRequest
from packlight.laws import validate
from packlight.replay.readers import _READERS as READERS
from packlight.replay.readers import read_sessions
from packlight.replay.readers.lines import read_records
from packlight.replay.session import Notes
from packlight.tokens.usage import input_tokens
from reader_helpers import SESSIONS, assert_sound, mutated


@dataclass(frozen=True)
class Fixture:
    """What a file holds, counted from its records without a reader."""

    reader: str
    format: str
    turns: list[int]
    """Of each segment."""
    input_tokens: int = 0
    """Of all turns, as recorded."""


FIXTURES = {
    "atif-1.4.json": Fixture("atif", "chat", [7], 219_133),
    "atif-1.7.json": Fixture("atif", "chat", [9], 176_901),
    "claude-stream.jsonl": Fixture("claude-code", "anthropic", [3, 5], 641_930),
    "cline.json": Fixture("cline", "anthropic", [4], 143_896),
    "copilot-events.jsonl": Fixture("copilot", "chat", [5], 0),
    "gemini-cli-chat.json": Fixture("gemini-cli", "chat", [4], 49_905),
    "gemini-contents.json": Fixture("gemini", "chat", [3], 0),
    "inspect-ai.json": Fixture("inspect-ai", "chat", [5], 15_235),
    "kimi-context.jsonl": Fixture("messages", "chat", [4], 11_772),
    "langchain-dumpd.json": Fixture("langchain", "chat", [4], 0),
    "langchain-messages.json": Fixture("langchain", "chat", [4], 0),
    "mini-swe-agent.traj.json": Fixture("mini-swe-agent", "chat", [3], 6_461),
    "opencode-export.json": Fixture("opencode", "anthropic", [6], 179_046),
    "opencode-storage.json": Fixture("opencode", "anthropic", [3], 76_704),
    "openhands-events.json": Fixture("openhands", "chat", [5], 17_297),
    "openhands-results.jsonl": Fixture("openhands", "chat", [3], 17_721),
    "pi-v1.jsonl": Fixture("pi", "anthropic", [6, 7], 736_988),
    "smolagents.jsonl": Fixture("smolagents", "chat", [5], 0),
    "swe-agent-0.traj": Fixture("swe-agent", "chat", [4], 0),
    "swe-agent-1.traj": Fixture("swe-agent", "chat", [7], 0),
    "swe-agent-calls.jsonl": Fixture("swe-agent-calls", "chat", [4], 6_767),
    "tau-bench.json": Fixture("messages", "chat", [4], 0),
    "tau2.json": Fixture("tau2", "chat", [6], 52_091),
}


@pytest.mark.parametrize("name", FIXTURES)
def test_fixture(name: str) -> None:
    expected = FIXTURES[name]
    (session,) = read_sessions(SESSIONS / name)
    assert (session.reader, session.format) == (expected.reader, expected.format)
    assert [len(s.turns) for s in session.segments] == expected.turns
    assert sum(input_tokens(t.usage) or 0 for s in session.segments for t in s.turns) == expected.input_tokens
    assert_sound(session)


@pytest.mark.parametrize("name", FIXTURES)
def test_one_reader_knows_a_fixture(name: str) -> None:
    """The order in which readers are asked decides nothing."""
    records, _ = read_records((SESSIONS / name).read_bytes(), Notes())
    known = [n for n in READERS if n != "messages" and READERS[n].recognise(records)]
    assert known == [n for n in [FIXTURES[name].reader] if n != "messages"]


def test_fixtures_are_named_in_the_notice() -> None:
    files = sorted(p.name for p in SESSIONS.iterdir() if p.name != "NOTICE.md")
    assert files == sorted(FIXTURES)
    notice = (SESSIONS / "NOTICE.md").read_text("utf-8")
    assert all(f"`{name}`" in notice for name in files)


@pytest.mark.parametrize("name", FIXTURES)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_mutated_records(name: str, seed: int) -> None:
    """Keys gone, values of another type, records shuffled: sessions, or one clear error."""
    pick = random.Random(seed)
    records, _ = read_records((SESSIONS / name).read_bytes(), Notes())
    records = mutated(records, pick, pick.choice([0.002, 0.02, 0.2]))
    try:
        sessions = read_sessions(json.dumps(records).encode(), format=pick.choice([None, FIXTURES[name].reader]))
    except InvalidRequest as error:
        assert "\n" not in str(error)
        return
    for session in sessions:
        for segment in session.segments:
            ends = [t.end for t in segment.turns]
            assert ends == sorted(ends) and all(0 < end <= len(segment.messages) for end in ends)
            for turn in segment.turns[-1:]:
                validate(session.request(segment, turn), session.format)


@pytest.mark.parametrize("name", FIXTURES)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=20, deadline=None)
def test_cut_bytes(name: str, seed: int) -> None:
    """A file that was cut, or has a hole, or bytes that are no text."""
    pick = random.Random(seed)
    source = (SESSIONS / name).read_bytes()
    a, b = sorted(pick.randrange(len(source)) for _ in "ab")
    source = pick.choice([source[:a], source[a:], source[:a] + source[b:], source[:a] + b"\xff\0\xfe" + source[a:]])
    try:
        sessions = read_sessions(source)
    except InvalidRequest as error:
        assert "\n" not in str(error)
        return
    for session in sessions:
        if session.reader not in ("messages", "swe-agent-calls"):  # those are taken as they were sent
            assert_sound(session, but=("bad_arguments",))  # the hole may be in there
