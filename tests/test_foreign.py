"""Anybody's policy walks a recorded session: a callable, judged like ours, and never trusted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from packlight.cli import main
from packlight.errors import InvalidRequest
from packlight.replay.foreign import ForeignEngine, is_foreign, load_policy
from packlight.replay.run import SessionResult, replay
from packlight.replay.weights import Weights
from test_replay import recorded

MODULE = '''
import copy

def keep_all(messages):
    return messages

def last_three(messages):
    return messages if len(messages) < 9 else [messages[0], *messages[-3:]]

def vandal(messages):
    messages[0]["content"] = "spoilt"
    return messages

def curious(messages, *, head, format, model, window_tokens, now_seconds):
    print("seen", format, model, window_tokens, now_seconds)
    assert format == "anthropic" and model and window_tokens == 1000 and now_seconds is not None
    return messages

def failing(messages):
    raise RuntimeError("no\\nnetwork")

def text(messages):
    return "all of it"

def nothing(messages):
    return []

def strings(messages):
    return ["a"]

def sets(messages):
    return [{"role": "user", "content": {1, 2}}]

def asks_too_much(messages, tokenizer):
    return messages

class Sticky:
    """Drops the first rounds once, and sticks to that."""
    made = 0

    def __init__(self, window_tokens):
        Sticky.made += 1
        self.window_tokens, self.dropped = window_tokens, 0

    def __call__(self, messages):
        if len(messages) - self.dropped > 12:
            self.dropped = len(messages) - 5
        return [messages[0], *messages[1 + self.dropped:]]

number = 7
'''


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_policy.py").write_text(MODULE)
    (tmp_path / "broken_policy.py").write_text("import no_such_module_at_all")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "their_policy", raising=False)


def run(name: str, **options: Any) -> SessionResult:
    spec = f"their_policy:{name}"
    return replay(
        options.pop("session", recorded()),
        policy=spec,
        window_tokens=1000,
        compactor_factory=lambda model, policy, window: ForeignEngine(load_policy(policy), policy, model, window),
        **options,
    )


def test_unchanged_history_is_no_compaction() -> None:
    result = run("keep_all")
    assert result.before_tokens == result.after_tokens
    assert (result.batches, result.prefix_breaks, result.invalid, result.errors) == ([], 0, [], [])


def test_changed_prefix_is_a_batch() -> None:
    result = run("last_three")
    assert len(result.batches) == result.prefix_breaks == 16
    assert result.breaks_elsewhere == []
    assert result.after_tokens[-1] < result.before_tokens[-1] / 2
    assert result.invalid_requests > 0, "the call of the first kept result is gone"


def test_class_is_made_for_each_session() -> None:
    made = load_policy("their_policy:Sticky")
    first, second = run("Sticky"), run("Sticky")
    assert made.made == 2  # type: ignore[attr-defined]
    assert first.after_tokens == second.after_tokens
    assert 1 <= len(first.batches) < 8


def test_policy_can_not_spoil_the_recording() -> None:
    session = recorded()
    before = json.dumps([s.messages for s in session.segments])
    result = run("vandal", session=session)
    assert json.dumps([s.messages for s in session.segments]) == before
    assert result.restored
    assert result.breaks_elsewhere == [], "the same spoilt bytes each time"


def test_named_keywords_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("curious").errors == []
    out, err = capsys.readouterr()
    assert out == "", "standard output is the report's"
    assert "seen anthropic claude-opus-4-5 1000 60.0" in err


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("failing", "RuntimeError: no network"),
        ("text", "gave back str"),
        ("nothing", "no message"),
        ("strings", "list of str"),
        ("sets", "TypeError"),
    ],
)
def test_failure_leaves_the_request(name: str, says: str) -> None:
    result = run(name)
    assert len(result.errors) == 20
    assert says in result.errors[0] and "\n" not in result.errors[0]
    assert result.before_tokens == result.after_tokens
    assert result.batches == []


def test_failure_is_told_once_with_its_line_and_how_often(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "talk.json").write_text(json.dumps(recorded().segments[0].messages))
    assert main(["replay", "talk.json", "--policy", "their_policy:failing"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("RuntimeError") == 1
    assert re.search(r"turn 1: \S+ RuntimeError: no network \(their_policy.py, line \d+\) \(21 times\)", text)


def test_sizes_follow_the_usage() -> None:
    session = recorded()
    for turn in session.segments[0].turns:
        turn.usage = {"input_tokens": 5000 + 300 * turn.end}
    result = run("keep_all", session=session)
    assert abs(result.after_tokens[-1] / (5000 + 300 * 39) - 1) < 0.1
    cut = run("last_three", session=session, weights=Weights(session))
    assert 5000 < cut.after_tokens[-1] < 7500


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("nowhere:policy", "can't import nowhere"),
        ("broken_policy:x", "no_such_module_at_all"),
        ("their_policy:gone", "has no gone"),
        ("their_policy:number", "can't be called"),
        ("their_policy:", "module:function"),
        (":f", "module:function"),
        ("their_policy.py:keep_all", "write their_policy:keep_all"),
        ("their_policy:asks_too_much", "'tokenizer'"),
    ],
)
def test_unusable_policy_is_refused(spec: str, says: str) -> None:
    assert is_foreign(spec)
    with pytest.raises(InvalidRequest, match=says):
        load_policy(spec)


def test_row_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "talk.json").write_text(json.dumps(recorded().segments[0].messages))
    assert main(["replay", "talk.json", "--policy", "their_policy:keep_all,none", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["policy"] for r in rows] == ["their_policy:keep_all", "none"]
    assert main(["replay", "talk.json", "--policy", "their_policy:gone"]) == 2
    assert "has no gone" in capsys.readouterr().err
