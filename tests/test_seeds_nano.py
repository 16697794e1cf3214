"""The faults of the second article's code (N1 to N13), each shown gone, and its example: see test_seeds.py."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import cases
import checker
from engine import body, compact, compactor, frozen, lawful, packlight, seen
from layer_help import Talk, prose
from packlight.layers import NanoHistory
from test_seeds import TASK, each_policy, each_wire, harmless, loop


def nano(threshold=20, keep_last=6):
    return replace(packlight.PRESETS["nano"], each_call=(NanoHistory(max_messages=threshold, keep_last=keep_last),))


@pytest.mark.parametrize("write_back", [False, True])
def test_example_request_lengths(write_back):
    """2, 4, 6, 8, 10, then 12 -> 9, 11 -> 9, ...: as its code does. (Its text compacts at 10 already.)"""
    talk = Talk("chat").system("You are an agent.").user("Count the files.")
    agent = packlight.Compactor(policy=nano(10))
    given, sent = [], []
    for n in range(9):
        c = agent.fit(talk.messages, format="chat")
        given.append(len(talk.messages))
        sent.append(len(c.messages))
        lawful(talk.messages, c, "chat")
        if write_back:
            talk.messages = list(c.messages)
        talk.call("bash", {"command": f"ls {n}"}, prose(f"listing {n}", 40))
    assert sent == [2, 4, 6, 8, 10, 9, 9, 9, 9]
    if write_back:
        assert given == [2, 4, 6, 8, 10, 12, 11, 11, 11]
    assert [m["role"] for m in c.messages[:3]] == ["system", "user", "user"]
    assert [m["role"] for m in c.messages[3:]] == ["assistant", "tool"] * 3
    assert "[Previous conversation summary]: " in c.messages[2]["content"]


@pytest.mark.parametrize("calls", range(1, 9))
def test_n1_parallel_calls_are_never_torn(calls):
    talk = Talk("chat").system("S").user(TASK)
    agent = packlight.Compactor(policy=nano())
    for n in range(14):
        talk.calls([("read", {"path": f"{n}_{k}"}) for k in range(calls)])
        talk.results([prose(f"text {n} {k}", 6) for k in range(calls)])
        c = agent.fit(talk.messages, format="chat")
        assert checker.check(c.request, "chat") == [] == packlight.validate(c.request, "chat")
    assert c.changed


def test_n2_calls_reach_the_summary():
    talk = Talk("chat").user(TASK)
    talk.call("write_file", {"path": "config.env", "content": "NAME=42"}, "Successfully wrote config.env")
    talk.call("bash", {"command": "rm -rf build && git push --force"}, "pushed")
    for n in range(12):
        talk.call("read", {"path": f"{n}.py"}, prose(f"text {n}", 20))
    c = packlight.compact(talk.messages, policy=nano(), format="chat")
    assert c.changed and "config.env" in seen(c) and "git push --force" in seen(c)


def test_n3_images_do_not_enter_the_summary():
    data = cases.png(2_000, 1_000)
    link = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    talk = Talk("chat").user("Go.").says("Yes?").user([{"type": "text", "text": "What is this?"}, link])
    for n in range(14):
        talk.call("read", {"path": f"{n}.py"}, prose(f"text {n}", 20))
    talk.says("A cat.").user("And now?").call("read", {"path": "z"}, "z")
    for n in range(4):
        talk.call("read", {"path": f"y{n}"}, "y")
    c = packlight.compact(talk.messages, policy=nano(), format="chat")
    assert c.changed and data[:100] not in frozen(c.request) and "What is this?" in seen(c)


def test_n5_size_counts_not_messages(tmp_path):
    """4 messages, 2,000,000 characters: default fits them; nano is rescued before sending."""
    talk = Talk("chat").system("S").user("Go.").call("cat", {"path": "big"}, prose("x", 42_000))
    for policy in ("default", "nano"):
        c = harmless(talk, policy, tmp_path / policy, window_tokens=100_000)
        assert c.fits and c.changed and "x line 0" in seen(c)


def test_n6_small_histories_are_left_alone(tmp_path):
    """23 messages, 47 characters. A summary of them would be larger: neither makes one."""
    talk = Talk("chat").system("S").user("Go.")
    for n in range(10):
        talk.says("ab").user(f"c{n}")
    talk.says("ok")
    assert not packlight.compact(talk.messages, format="chat", window_tokens=100_000).changed
    assert not harmless(talk, "nano", tmp_path).changed


def test_n7_six_huge_messages(tmp_path):
    """The last six are kept, and still too large: default fits; nano is squeezed, the newest longest."""
    talk = Talk("chat").system("S").user("Go.")
    for n in range(12):
        talk.call("cat", {"path": f"{n}"}, prose(f"text {n}", 3_500))
    for policy in ("default", "nano"):
        c = harmless(talk, policy, tmp_path / policy, window_tokens=60_000)
        assert c.fits and "text 11 line 0" in seen(c)


def test_n8_no_thrash():
    """40 turns, 6 calls each. default: nothing while it fits, then few batches."""
    talk = Talk("chat").system("S").user(TASK)
    agent = compactor("chat", window_tokens=100_000)
    batches = 0
    for n in range(40):
        talk.calls([("read", {"path": f"{n}_{k}"}) for k in range(6)])
        talk.results([prose(f"text {n} {k}", 30) for k in range(6)])
        batches += bool(agent.fit(body(talk.messages, "chat")).report.new_edits)
    assert batches <= 3


def test_n8_nano_thrash_is_harmless(tmp_path):
    talk = Talk("chat").system("S").user(TASK)
    for n in range(12):
        talk.calls([("read", {"path": f"{n}_{k}"}) for k in range(6)])
        talk.results([prose(f"text {n} {k}", 10) for k in range(6)])
    assert harmless(talk, "nano", tmp_path).changed


@each_wire
@each_policy
def test_n10_failing_writer_leaves_the_history(wire, policy):
    def writer(job):
        yield from ()
        raise packlight.SummaryError("no summary today")

    talk = loop(wire, 40, prose("text {n}", 40))
    request = body(talk.messages, wire)
    c = compact(request, wire, policy, 200_000, writer=writer)
    assert checker.check(c.request, wire) == [] and TASK in seen(c)
    assert not any(e.action == "summarised" for e in c.report.edits)
    assert frozen(c.restore()) == frozen(request)


def test_n11_no_two_assistants_in_a_row():
    """Nor two of the user's where only the two of them speak (see test_layers for the other policies)."""
    talk = Talk("chat").system("S").user(TASK)
    for n in range(20):
        talk.call("read", {"path": f"{n}.py"}, prose(f"text {n}", 20))
    c = packlight.compact(talk.messages, policy="nano", format="chat")
    said = [m["role"] for m in c.messages]
    assert c.changed and ("assistant", "assistant") not in list(zip(said, said[1:], strict=False))
    talk = Talk("chat").system("S").user(TASK)
    for n in range(20):
        talk.says(prose(f"answer {n}", 20)).user(f"Question {n}?")
    c = packlight.compact(talk.messages, policy="nano", format="chat")
    said = [m["role"] for m in c.messages[1:]]
    assert c.changed and all(a != b for a, b in zip(said, said[1:], strict=False))


@pytest.mark.parametrize(("threshold", "keep_last"), [(20, 0), (5, 6), (0, 0), (1, 100)])
def test_n12_degenerate_settings_never_grow(threshold, keep_last):
    talk = Talk("chat").system("S").user(TASK)
    agent = packlight.Compactor(policy=nano(threshold, keep_last))
    for n in range(15):
        talk.call("read", {"path": f"{n}.py"}, prose(f"text {n}", 20))
        c = agent.fit(talk.messages, format="chat")
        lawful(talk.messages, c, "chat")
        assert len(c.messages) <= len(talk.messages)
        assert [m["role"] for m in c.messages].count("system") == 1


@each_policy
def test_n13_broken_arguments_break_nothing(policy):
    """What a model wrote may be no JSON: it is carried along."""
    talk = Talk("chat").user(TASK)
    for n in range(30):
        talk.call("read", {"path": f"{n}.py"}, prose(f"text {n}", 20))
        if n == 3:
            talk.messages[-2]["tool_calls"][0]["function"]["arguments"] = '{"path": "x'
    c = compact(body(talk.messages, "chat"), "chat", policy, 6_000)
    lawful(body(talk.messages, "chat"), c, "chat")
    assert c.changed and json.loads(frozen(c.request))
