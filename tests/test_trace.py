"""A session's trace: nothing of its text, and still the figures of the session itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import packlight
from loss_help import FORMATS, call, recorded
from packlight.cli import main
from packlight.errors import InvalidRequest
from packlight.replay.cost import Bill, Prices
from packlight.replay.loss import Losses, MessageTexts
from packlight.replay.readers import read_sessions
from packlight.replay.run import replay
from packlight.replay.session import Session
from packlight.replay.trace import trace
from packlight.replay.weights import Weights

EXAMPLES = Path(__file__).parent.parent / "examples"
KEY = bytes(32)


def traced(session: Session, key: bytes | None = KEY) -> bytes:
    return b"\n".join(json.dumps(r).encode() for r in trace(session, key=key))


def example(name: str) -> Session:
    return read_sessions(EXAMPLES / f"{name}.jsonl")[0]


def figures(session: Session, policy: str) -> tuple[float, Any]:
    weights = Weights(session)
    compactor = packlight.Compactor(session.model, policy=policy, window_tokens=80_000)
    bill, losses = Bill(weights, Prices()), Losses(MessageTexts(session.format), compactor.store)
    replay(
        session,
        policy=policy,
        window_tokens=80_000,
        compactor_factory=lambda *_: compactor,
        measures=[bill, losses],
        weights=weights,
    )
    return bill.usd, losses.result


MASKED = re.compile(
    r"(?:x7[a-p]{9}(?:\.py)?|8\d{8}|[a-p]{1,8}|\*\*\* (?:Begin|End) Patch|\*\*\* \w+ (?:File|to): "
    r"|^ *\d{1,7}[→\t]|^@@|^[+-]|[\s/])*"
)
"""A line of text: hashes and filler, the number of a listing's line, the head of a patch's line."""
API_WORDS = frozenset({"type", "role", "status", "phase", "media_type", "name"})


def texts(value: Any, key: str = "") -> list[str]:
    """Every text in a message, those inside of arguments, and the names of arguments that are not well known."""
    if isinstance(value, dict):
        return [t for k, v in value.items() if k not in API_WORDS for t in texts(v, k)]
    if isinstance(value, list):
        return [t for v in value for t in texts(v, key)]
    if key == "arguments" and isinstance(value, str) and value.startswith("{"):
        return texts(json.loads(value))
    return value.split("\n") if isinstance(value, str) else []


@pytest.mark.parametrize("name", ["claude-code-go-cli", "codex-typescript-release", "claude-code-chinese-web"])
def test_no_text_of_the_session_is_in_its_trace(name):
    (again,) = read_sessions(traced(example(name)))
    lines = [line for s in again.segments for m in s.messages for line in texts(m)]
    assert len(lines) > 1_000
    assert [line for line in lines if not MASKED.fullmatch(line)] == []
    assert all(MASKED.fullmatch(line) for line in texts(again.head))


@pytest.mark.parametrize("format", FORMATS)
def test_equal_names_and_lines_stay_equal_and_calls_keep_their_results(format):
    body = "first line of it\nsecret_name = load('src/deep/secret.py')\nlast line of it"
    session = recorded(
        [
            ("user", "Look into src/deep/secret.py."),
            call("read", f"    1\tignored\n{body}", file_path="/repo/src/deep/secret.py"),
            call("edit", file_path="/repo/src/deep/secret.py", old_string=body, new_string="gone"),
            ("say", "done"),
        ],
        format,
    )
    (again,) = read_sessions(traced(session))
    assert not packlight.validate({again.list_key: again.segments[0].messages, "model": "x"})
    _, lost = figures(again, "none")
    assert (lost.quotes.edits, lost.quotes.quotable) == (1, 1)
    text = json.dumps(again.segments[0].messages)
    assert "secret" not in text and "    1" in text
    paths = re.findall(r"((?:x7[a-p]{9}/)+x7[a-p]{9}\.py)", text)
    assert len(paths) == 5  # asked for, read, named in the file, edited, quoted
    assert len({path.split("/", path.count("/") - 2)[-1] for path in paths}) == 1


def test_field_that_is_no_word_of_the_api_is_hashed_as_well():
    session = recorded([("user", "a"), ("say", "b")])
    session.segments[0].messages[0] |= {
        "status": "our Secret plan",
        "role": "user",
        "note": "secret",
        "type": "message",
    }
    told = traced(session).decode()
    assert "secret" not in told.lower() and '"type": "message"' in told


def test_key_is_another_for_each_trace():
    session = recorded([("user", "Read secret_name."), ("say", "done")])
    assert traced(session, None) != traced(session, None)
    assert traced(session) == traced(session)


@pytest.mark.parametrize("policy", ["none", "default"])
def test_figures_of_a_trace_are_those_of_the_session(policy):
    session = example("codex-typescript-release")
    (again,) = read_sessions(traced(session))
    (usd, lost), (usd_again, lost_again) = figures(session, policy), figures(again, policy)
    assert usd_again == pytest.approx(usd, rel=0.06 if policy == "none" else 0.15)  # a batch may fall a call later
    assert lost_again.quotes.quotable == lost.quotes.quotable > 0
    assert lost_again.references.rows[0].references == pytest.approx(lost.references.rows[0].references, rel=0.05)
    assert lost_again.references.rows[0].visible == pytest.approx(lost.references.rows[0].visible, rel=0.15)


def test_times_are_counted_from_the_first_call_and_usage_is_numbers_only():
    session = recorded([("user", "a"), ("say", "b"), ("user", "c"), ("say", "d")])
    session.segments[0].turns[1].usage = {"input_tokens": 7, "service_tier": "secret", "cache": {"read": 3}}
    (again,) = read_sessions(traced(session))
    assert [t.seconds for t in again.segments[0].turns] == [0.0, 20.0]
    assert again.segments[0].turns[1].usage == {"input_tokens": 7, "cache": {"read": 3}}


def test_command_line_writes_a_trace_that_it_can_replay(tmp_path, capsys):
    out = tmp_path / "trace.jsonl"
    assert main(["replay", str(EXAMPLES / "codex-typescript-release.jsonl"), "--trace", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert main(["replay", str(out), "--policy", "none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["turns"] == 47


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({"type": "packlight_trace", "version": 99, "format": "chat"}, "version 99"),
        ({"type": "packlight_trace", "version": 1, "format": "morse"}, "morse"),
    ],
)
def test_trace_that_is_not_known_is_refused_in_one_line(line, why):
    with pytest.raises(InvalidRequest, match=why):
        read_sessions(json.dumps(line).encode())
