"""The second opinion itself: each rule has a request that keeps it and one that breaks it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cases
import checker
import packlight
import strategies

GO = {"role": "user", "content": "go"}
THINK = {"type": "thinking", "thinking": "hm", "signature": "s1"}
MARK = {"cache_control": {"type": "ephemeral"}}
BLANK = [{"type": "text", "text": " \n"}]


def text(value="ok", **extra):
    return {"type": "text", "text": value, **extra}


def use(*ids):
    return {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "sh", "input": {}} for i in ids]}


def got(*ids, behind=()):
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": i, "content": "r"} for i in ids] + list(behind),
    }


def said(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def calls(*ids, arguments="{}"):
    made = [{"id": i, "type": "function", "function": {"name": "sh", "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def tool(call_id):
    return {"role": "tool", "tool_call_id": call_id, "content": "r"}


def fc(call_id, **extra):
    return {"type": "function_call", "call_id": call_id, "name": "sh", "arguments": "{}", **extra}


def out(call_id, kind="function_call"):
    return {"type": f"{kind}_output", "call_id": call_id, "output": "r"}


RS = {"type": "reasoning", "id": "rs_1", "summary": []}
SERVER = {"type": "server_tool_use", "id": "sv", "name": "web_search", "input": {}}
SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "sv", "content": []}
COMPACTED = {"type": "compaction", "content": "c", "signature": "x"}

GOOD = {
    "anthropic": {
        "plain loop": [GO, use("a"), got("a"), use("b"), got("b")],
        "call kept at the provider": {
            "thread": {"type": "continue", "previous_message_id": "msg_1"},
            "messages": [got("a")],
        },
        "one id for every call": [GO, use("a"), got("a"), use("a"), got("a")],
        "parallel in any order": [GO, use("a", "b"), got("b", "a")],
        "one response over three messages": [GO, use("a"), said(text()), use("b"), got("a", "b")],
        "results split over two messages": [GO, use("a", "b"), got("a"), got("b"), GO],
        "text behind the results": [GO, use("a"), got("a", behind=[text()])],
        "text in the message behind": [GO, use("a"), got("a"), GO],
        "system entry first and last": [
            {"role": "system", "content": "s"},
            GO,
            said(text()),
            {"role": "system", "content": "s"},
        ],
        "server tool": [GO, said(SERVER, SERVER_RESULT, text())],
        "thinking with text": [GO, said(THINK, text()), GO],
        "compaction first": [said(COMPACTED), GO],
        "a setting for the turns to come": [GO, {"role": "system", "content": [], "output_config": {"effort": "low"}}],
        "no result content": [GO, use("a"), {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}],
        "unknown block": [GO, said({"type": "future", "x": 1}), GO],
        "four marks": {
            "system": [text(**MARK)],
            "tools": [{"name": "t", **MARK}],
            "messages": [{"role": "user", "content": [text(**MARK), text(**MARK)]}],
        },
        "manual thinking": {
            "thinking": {"type": "enabled"},
            "messages": [GO, said(THINK, *use("a")["content"]), got("a")],
        },
        "manual thinking, loop over": {
            "thinking": {"type": "enabled"},
            "messages": [GO, use("a"), got("a", behind=[text()])],
        },
    },
    "chat": {
        "plain loop": [GO, calls("a"), tool("a"), calls("b"), tool("b"), GO],
        "any order": [GO, calls("a", "b"), tool("b"), tool("a")],
        "one id for every call": [GO, calls("a"), tool("a"), calls("a"), tool("a")],
        "one id twice in one message": [GO, calls("x", "x"), tool("x"), tool("x")],
        "refusal": [GO, {"role": "assistant", "content": None, "refusal": "no"}],
        "empty result": [GO, calls("a"), {**tool("a"), "content": ""}],
        "legacy function": [
            GO,
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "r"},
        ],
    },
    "responses": {
        "plain loop": [GO, fc("a"), out("a"), fc("b"), out("b")],
        "answered later": [GO, fc("a"), fc("b"), out("b"), GO, out("a")],
        "one id for every call": [GO, fc("a"), out("a"), fc("a"), out("a")],
        "reasoning with its call": [GO, RS, fc("a"), out("a")],
        "reasoning before reasoning": [GO, RS, {**RS, "id": "rs_2"}, fc("a"), out("a")],
        "reasoning last, linked": {"previous_response_id": "r", "input": [GO, RS]},
        "output without call, linked": {"previous_response_id": "r", "input": [out("a")]},
        "approval": [
            GO,
            {"type": "mcp_approval_request", "id": "m"},
            {"type": "mcp_approval_response", "approval_request_id": "m", "approve": True},
        ],
        "hosted": [GO, {"type": "web_search_call", "id": "ws"}, {"type": "mcp_call", "id": "mc"}],
        "custom": [
            GO,
            {"type": "custom_tool_call", "call_id": "c", "name": "p", "input": "x"},
            out("c", "custom_tool_call"),
        ],
        "shell answered by id": [
            GO,
            {"type": "local_shell_call", "id": "l", "call_id": "l"},
            {"type": "local_shell_call_output", "id": "l", "output": ""},
        ],
        "plain text": {"input": "hello"},
    },
}

BAD = {
    "anthropic": [
        ("first_role", [said(text()), GO]),
        ("first_role", [{"role": "system", "content": "s"}]),
        ("orphan_result", [GO, got("a")]),
        ("orphan_result", [got("a"), said(text())]),
        ("orphan_result", [GO, use("a"), got("a"), said(text()), got("a")]),
        ("unanswered_call", [GO, use("a"), GO]),
        ("unanswered_call", [GO, use("a"), {"role": "system", "content": "s"}, got("a")]),
        ("open_call", [GO, use("a")]),
        ("open_call", [GO, use("a", "b"), got("a")]),
        ("duplicate_result", [GO, use("a", "b"), got("a", "a", "b")]),
        ("duplicate_result", [GO, use("a"), got("a"), got("a")]),
        ("result_not_first", [GO, use("a"), {"role": "user", "content": [text(), *got("a")["content"]]}]),
        ("duplicate_call_id", [GO, use("a", "a"), got("a")]),
        ("empty_text", [{"role": "user", "content": " "}]),
        ("empty_text", [GO, {"role": "assistant", "content": BLANK}, GO]),
        (
            "empty_text",
            [
                GO,
                use("a"),
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": BLANK}]},
            ],
        ),
        ("empty_content", [GO, {"role": "assistant", "content": []}, GO]),
        ("empty_content", [GO, {"role": "system", "content": []}, GO]),
        ("bad_content", [GO, {"role": "assistant", "content": None}, GO]),
        ("thinking_alone", [GO, said(THINK), GO]),
        ("thinking_missing", {"thinking": {"type": "enabled"}, "messages": [GO, use("a"), got("a")]}),
        ("misplaced_block", [{"role": "user", "content": [THINK, text()]}]),
        ("server_result_orphan", [GO, said(SERVER_RESULT, text())]),
        ("server_call_unanswered", [GO, said(SERVER, text()), GO, said(text())]),
        ("compaction_misplaced", [GO, said(COMPACTED)]),
        ("compaction_misplaced", [said(text(), COMPACTED)]),
        ("cache_mark", [GO, said({**THINK, **MARK}, text())]),
        ("too_many_cache_marks", {"tools": [MARK], "messages": [{"role": "user", "content": [text(**MARK)] * 4}]}),
        (
            "too_many_cache_marks",
            {"cache_control": {"type": "ephemeral"}, "messages": [{"role": "user", "content": [text(**MARK)] * 4}]},
        ),
        ("lone_surrogate", [{"role": "user", "content": "\ud83d"}]),
        ("bad_role", [GO, {"role": "tool", "content": "x"}]),
        ("empty_list", []),
    ],
    "chat": [
        ("orphan_result", [GO, tool("a")]),
        ("orphan_result", [{"role": "system", "content": "s"}, tool("a"), GO]),
        ("orphan_result", [GO, calls("a"), tool("a"), GO, tool("a")]),
        ("duplicate_result", [GO, calls("a"), tool("a"), tool("a")]),
        ("unanswered_call", [GO, calls("a", "b"), tool("a"), GO]),
        ("unanswered_call", [GO, calls("a"), GO, tool("a")]),
        ("open_call", [GO, calls("a", "b"), tool("a")]),
        ("missing_call_id", [GO, calls("a"), {"role": "tool", "content": "r"}]),
        ("bad_arguments", [GO, calls("a", arguments='{"x": "'), tool("a")]),
        ("bad_arguments", [GO, calls("a", arguments="[]"), tool("a")]),
        ("bad_content", [{"role": "user", "content": None}]),
        ("empty_content", [{"role": "user", "content": []}]),
        ("empty_text", [{"role": "user", "content": BLANK}]),
        ("empty_tool_calls", [GO, {"role": "assistant", "content": "x", "tool_calls": []}]),
        ("bad_role", [{"role": "human", "content": "x"}]),
        ("lone_surrogate", [GO, {"role": "assistant", "content": "x", "\udc00": 1}]),
    ],
    "responses": [
        ("orphan_result", [GO, out("a")]),
        ("orphan_result", [GO, out("a"), fc("a")]),
        ("orphan_result", [GO, fc("a"), out("a", "custom_tool_call")]),
        ("orphan_result", [GO, {"type": "mcp_approval_response", "approval_request_id": "m"}]),
        ("duplicate_result", [GO, fc("a"), out("a"), out("a")]),
        ("unanswered_call", [GO, fc("a"), GO]),
        ("unanswered_call", [GO, fc("a"), fc("a"), out("a")]),
        ("open_call", [GO, fc("a"), fc("b"), out("a")]),
        ("reasoning_alone", [GO, RS, GO]),
        ("reasoning_alone", [GO, fc("a"), RS, out("a")]),
        ("reasoning_alone", [GO, RS]),
        ("duplicate_item_id", [GO, fc("a", id="fc_1"), out("a"), fc("b", id="fc_1"), out("b")]),
        ("empty_content", [{"type": "message", "role": "user", "content": []}]),
        ("empty_text", [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": ""}]}]),
        ("bad_arguments", [GO, fc("a", arguments="{"), out("a")]),
        ("missing_call_id", [GO, {"type": "function_call_output", "output": "r"}]),
        ("lone_surrogate", [{"role": "user", "content": "x \ude00"}]),
    ],
}


def rules(request, format):
    return [line.split(": ")[1] for line in checker.check(request, format)]


@pytest.mark.parametrize(("format", "name"), [(f, n) for f in GOOD for n in GOOD[f]])
def test_good_requests_pass(format, name):
    assert checker.check(GOOD[format][name], format) == []
    assert packlight.validate(GOOD[format][name], format) == []


@pytest.mark.parametrize(("format", "rule", "request_"), [(f, *case) for f in BAD for case in BAD[f]])
def test_bad_requests_are_named(format, rule, request_):
    assert rule in rules(request_, format)


@pytest.mark.parametrize("format", GOOD)
def test_every_rule_has_a_bad_request(format):
    """A rule that no request here breaks is a rule that nobody tested."""
    source = Path(checker.__file__).read_text()
    part = source.split(f"class _{format.title()}(")[1].split("\nclass ")[0]
    named = {line.split('"')[1] for line in part.split("self.bad(")[1:] if '"' in line.split(")")[0] or '"' in line}
    assert named - {rule for rule, _ in BAD[format]} <= {
        "missing_name",
        "bad_role",
        "bad_content",
        "bad_arguments",
        "open_call",
        "unanswered_call",
        "duplicate_result",
    }


def test_positions_point_at_the_block():
    assert checker.check([GO, use("a"), got("a", "z")], "anthropic") == ["2.1: orphan_result: z"]


def test_soft_rules_can_be_left_out():
    assert checker.check([GO, calls("a", arguments="{")], "chat", soft=False) == []


def test_only_new_violations_count():
    before = [got("gone"), said(text()), GO]
    assert checker.new_violations(before, before, "anthropic") == []
    after = [got("gone"), said(text()), got("too")]
    assert [line.split(": ")[1] for line in checker.new_violations(before, after, "anthropic")] == ["orphan_result"]


def test_the_user_must_not_vanish():
    assert "no_user_message" in checker.new_violations([GO, calls("a"), tool("a")], [calls("a"), tool("a")], "chat")[0]


def test_the_last_word_stays_with_the_user():
    assert "ends_with_assistant" in checker.new_violations([GO, said(text()), GO], [GO, said(text())], "anthropic")[0]


def test_item_ids_go_with_their_reasoning():
    before = [GO, RS, fc("a", id="fc_1"), out("a"), GO]
    torn = [GO, fc("a", id="fc_1"), out("a"), GO]
    freed = [GO, fc("a"), out("a"), GO]
    assert [line.split(": ")[1] for line in checker.new_violations(before, torn, "responses")] == ["reasoning_removed"]
    assert checker.new_violations(before, freed, "responses") == []


def test_sdk_objects_are_read_as_json():
    from anthropic.types import ToolUseBlock

    message = {"role": "assistant", "content": [ToolUseBlock(type="tool_use", id="a", name="sh", input={})]}
    assert checker.check([GO, message, got("a")], "anthropic") == []


def thought(n):
    return {**THINK, "signature": f"s{n}"}


BOUND = {
    "system": "s",
    "messages": [
        GO,
        said(thought(1), *use("a")["content"]),
        got("a"),
        said(thought(2), *use("b")["content"]),
        got("b"),
    ],
}


def changed(**at):
    """BOUND with some messages replaced."""
    messages = [at.get(f"m{i}", message) for i, message in enumerate(BOUND["messages"])]
    return {**BOUND, "messages": messages}


def test_thinking_stays_bound_to_its_prefix():
    grown = {**BOUND, "messages": [*BOUND["messages"], said(thought(3), text()), GO]}
    assert checker.check_binding(BOUND, grown) == []
    assert checker.check_binding(BOUND, changed(m2=got("a", behind=[text()]))) != []
    assert checker.check_binding(BOUND, {**BOUND, "system": "t"}) != []


def test_thinking_may_go_from_the_front_only():
    front = changed(m1=use("a"))
    middle = changed(m3=use("b"))
    assert checker.check_binding(BOUND, front) == []
    assert checker.check_binding(BOUND, middle) == []
    grown = {**BOUND, "messages": [*middle["messages"], said(thought(3), text()), GO]}
    binding = checker.Binding()
    binding.send({**BOUND, "messages": [*BOUND["messages"], said(thought(3), text()), GO]})
    assert binding.send(grown) != []


def test_marks_and_string_form_do_not_bind():
    assert checker.check_binding(BOUND, changed(m0={"role": "user", "content": [text("go", **MARK)]})) == []


def test_new_thinking_is_bound_to_the_request_before():
    later = changed(m2=got("a", behind=[text()]), m1=use("a"), m3=use("b"))
    reply = {**later, "messages": [*later["messages"], said(thought(9), text()), GO]}
    assert checker.check_binding(later, reply) == []
    assert checker.check_binding(BOUND, reply) != []


@pytest.mark.parametrize("format", GOOD)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_strategies_make_valid_histories(format, data):
    made = data.draw(strategies.history(format))
    allowed = {"open_call"} if "open_end" in made.features else set()
    assert set(rules(made.request, format)) <= allowed
    grown = strategies.append_turns(random.Random(made.seed + 1), made, 2)
    assert set(rules(grown.request, format)) == set()
    if format == "anthropic":
        assert checker.check_binding(made.request, grown.request) == []


@pytest.mark.parametrize("format", GOOD)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_broken_histories_are_broken(format, data):
    made = data.draw(strategies.history(format, broken=True))
    empty = format == "anthropic" and made.breaks == {"bad_arguments"}
    results_needed = made.breaks <= {"unanswered", "duplicate", "bad_arguments"}
    assert empty or results_needed or checker.check(made.request, format)


@pytest.mark.parametrize("format", GOOD)
def test_histories_repeat_exactly(format):
    features = frozenset(strategies.COMMON + strategies.ONLY[format])
    first, second = (strategies.build(format, seed=3, turns=30, features=features) for _ in range(2))
    assert json.dumps(first.request) == json.dumps(second.request)
    assert 20 <= len(first.entries) <= 300
    assert len(first.facts) >= 5


@pytest.mark.parametrize("format", GOOD)
def test_sdk_form_means_the_same(format):
    features = frozenset(strategies.COMMON + strategies.ONLY[format])
    made = strategies.build(format, seed=4, turns=25, features=features)
    wrapped = strategies.as_sdk(made)
    assert checker.plain(wrapped) == made.entries
    assert json.dumps(wrapped, default=lambda o: "SDK").count("SDK") > 10


def test_cases_expand():
    value = {
        "a": [{"$times": [2, ["x{i}", {"$rep": ["y{i}", 2]}]]}],
        "b": {"$cat": ["p", {"$cp": [65]}]},
        "c": {"$lines": ["l{i}", 2]},
        "d": {"$json": {"k": 1}},
    }
    assert cases.expand(value) == {"a": ["x0", "y0y0", "x1", "y1y1"], "b": "pA", "c": "l0\nl1", "d": '{"k": 1}'}


def test_made_images_have_their_size():
    import base64
    import struct

    raw = base64.b64decode(cases.expand({"$png": [2400, 40]}))
    assert raw[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", raw[16:24]) == (2400, 40)
    assert len(base64.b64decode(cases.expand({"$b64": 1000}))) == 1000


def test_cases_are_judged_as_their_authors_did():
    """Where a case says what is wrong with its input already, the checker finds something wrong, and nowhere else."""
    for case_id, line in cases.bug_lines().items():
        given_ = line["input"] if isinstance(line["input"], dict) else {}
        if given_.get("api") in ("anthropic", "chat", "responses") and ("messages" in given_ or "input" in given_):
            found = checker.check(cases.request_of(cases.bug(case_id)["input"]), given_["api"])
            assert bool(found) == bool(line.get("input_already_invalid")), (case_id, found)


@pytest.mark.parametrize("path", cases.history_files(), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_kept_histories_are_as_labelled(path):
    format, request = cases.load_history(path)
    assert set(rules(request, format)) == ({"orphan_result"} if "orphan" in path.stem else set())


def test_answers_in_a_row_are_one_turn():
    """A request whose broken place stands alone between two answers must not join calls of one id."""
    call = {"type": "tool_use", "id": "bash:0", "name": "bash", "input": {}}
    said = {"role": "assistant", "content": [call]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "bash:0", "content": "ok"}]}
    request = {"messages": [{"role": "user", "content": "go"}, said, said, result]}
    assert "duplicate_call_id" in [v.rule for v in packlight.validate(request, format="anthropic")]
