"""Inputs that broke somebody's compactor (tests/data/bugs.jsonl), each with its right value.

Every case stands in exactly one of three places: it runs by itself below (`GENERIC`), it has a test of its
own further down or in test_bugs_summaries.py (`test_bNN_...`), or it stands in `SKIPPED` with the reason.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import re
import signal
import stat
import subprocess
import sys
import textwrap

import pytest

import cases
import checker
import test_bugs_summaries
from cases import bug, request_of
from engine import (
    MODELS,
    POLICIES,
    body,
    compact,
    compactor,
    fit,
    frozen,
    lawful,
    packlight,
    seen,
    size_tokens,
    texts_of,
)
from packlight.integrations.cures import cure_of
from packlight.integrations.events import StreamedError
from talk import talk

SKIPPED = {
    "B14": "no ids of calls in flight are kept anywhere; appending after a compaction is tested with B06 and B13",
    "B17": "gemini: on our three wires a second result for one call is a violation of the input",
    "B23": "ai-sdk wire format; the MCP approval items of Responses are in strategies.py",
    "B33": "no message is rebuilt from a stream: the proxy passes streams as they are (test_proxy_streams)",
    "B36": "gemini wire format",
    "B101": "an agent's own guard against repeated calls",
    "B103": "torn transcript: the store's tests",
    "B104": "damaged session file: the readers' tests",
    "B105": "torn session file: the readers' tests",
    "B107": "an edit names its span, there is no interval of time: the journal's fork tests",
    "B108": "an agent's memory file, which is not ours",
    "B118": "test_proxy_streams: rescued only before the answer, one answer only",
    "B119": "classification of errors: tests of overflow",
    "B121": "classification of errors",
    "B122": "test_proxy_errors: what no waiting cures shrinks the request",
}

WIRES = ("anthropic", "chat", "responses")
OWN = {  # api of the case is no wire of ours, but its messages are
    "B41": "anthropic",
}


def _generic() -> list[str]:
    found = []
    for case_id, case in cases.bug_lines().items():
        given = case["input"] if isinstance(case["input"], dict) else {}
        wire = OWN.get(case_id, given.get("api"))
        if wire in WIRES and ("messages" in given or "input" in given) and case_id not in SKIPPED:
            found.append(case_id)
    return found


GENERIC = _generic()


def load(case_id):
    case = bug(case_id)
    wire = OWN.get(case_id, case["input"]["api"])
    return case, wire, {"model": MODELS[wire], **request_of(case["input"])}


def test_every_case_has_its_place():
    names = (*globals(), *dir(test_bugs_summaries))
    tested = {name.split("_")[1].upper() for name in names if re.match(r"test_b\d+_", name)}
    everywhere = set(GENERIC) | tested | set(SKIPPED)
    assert set(cases.bug_lines()) - everywhere == set()
    assert set(SKIPPED) & (set(GENERIC) | tested) == set()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("case_id", GENERIC)
def test_case_holds_under_every_policy(case_id, policy):
    """Valid, restorable, never larger; and what the case's own checks ask."""
    case, wire, request = load(case_id)
    before = frozen(request)
    window = case["input"].get("window") or max(600, size_tokens(request, wire) // 2)
    c = compact(request, wire, policy, window)
    assert frozen(request) == before, "the caller's objects were changed"
    lawful(request, c, wire)
    for rule in case["checks"]:
        name, _, wanted = rule.partition(":")
        if name == "contains":
            assert wanted in seen(c)
        elif name == "tokens_le":
            assert c.report.tokens_after <= int(wanted)
            assert c.fits


@pytest.mark.parametrize("case_id", GENERIC)
def test_broken_case_comes_out_mended(case_id):
    case, wire, request = load(case_id)
    mended = packlight.repair(request, format=wire)
    assert checker.check(mended, wire) == []
    window = case["input"].get("window") or max(600, size_tokens(request, wire) // 2)
    for policy in POLICIES:
        assert checker.check(compact(request, wire, policy, window, repair=True).request, wire) == []


@pytest.mark.parametrize("case_id", GENERIC)
def test_both_judges_agree(case_id):
    """Our own `validate` finds a case broken exactly when the independent checker does."""
    _, wire, request = load(case_id)
    assert bool(packlight.validate(request, format=wire)) == bool(checker.check(request, wire))


@pytest.mark.parametrize("case_id", GENERIC)
def test_recalled_text_is_the_original(case_id, tmp_path):
    """What an edit took out comes back by its reference, in its own words."""
    case, wire, request = load(case_id)
    window = case["input"].get("window") or max(600, size_tokens(request, wire) // 2)
    c = compact(request, wire, "default", window, store=str(tmp_path / "s"))
    for edit in c.report.edits:
        if edit.ref:
            assert packlight.recall(str(tmp_path / "s"), edit.ref), edit


UNCHANGED = [name for name in GENERIC if "unchanged" in cases.bug_lines()[name]["checks"] and name != "B87"]


@pytest.mark.parametrize("policy", ["default", "thrifty", "classic", "nano", "none"])
@pytest.mark.parametrize("case_id", UNCHANGED)
def test_what_fits_is_left_alone(case_id, policy):
    case, wire, request = load(case_id)
    c = fit(request, wire, policy=policy, window_tokens=case["input"].get("window"))
    assert not c.changed
    key = "input" if wire == "responses" else "messages"
    assert all(was is now for was, now in zip(request[key], c.messages, strict=True))


# pairing


def _loop(wire, count, size=1200, start=0):
    """A plain loop: per turn one call and its result."""
    made = []
    for n in range(start, start + count):
        text = f"output {n} " * (size // 10)
        if wire == "anthropic":
            made += [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": f"t{n}", "name": "bash", "input": {"command": f"cmd {n}"}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{n}", "content": text}]},
            ]
        elif wire == "chat":
            call = {
                "id": f"t{n}",
                "type": "function",
                "function": {"name": "bash", "arguments": json.dumps({"command": f"cmd {n}"})},
            }
            made += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"t{n}", "content": text},
            ]
        else:
            made += [
                {
                    "type": "function_call",
                    "call_id": f"t{n}",
                    "name": "bash",
                    "arguments": json.dumps({"command": f"cmd {n}"}),
                },
                {"type": "function_call_output", "call_id": f"t{n}", "output": text},
            ]
    return made


@pytest.mark.parametrize("write_back", [False, True])
def test_b06_compaction_between_parallel_results(write_back):
    """A batch recorded while one of two results was still missing does not tear them apart later."""
    ask = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": name, "type": "function", "function": {"name": "sh", "arguments": "{}"}} for name in "AB"
        ],
    }
    start = [
        {"role": "user", "content": "go"},
        *_loop("chat", 20),
        ask,
        {"role": "tool", "tool_call_id": "A", "content": "ra"},
    ]
    agent = compactor("chat", window_tokens=6000)
    first = agent.fit(body(start, "chat"))
    assert first.changed
    kept = list(first.messages) if write_back else start
    second = agent.fit(body([*kept, {"role": "tool", "tool_call_id": "B", "content": "rb"}], "chat"))
    assert checker.check(second.request, "chat") == []
    assert {"ra", "rb"} <= set(cases.strings(second.messages))


def test_b09_each_call_keeps_its_first_result():
    _, wire, request = load("B09")
    mended = packlight.repair(request, format=wire)
    results = [
        b["content"]
        for m in mended["messages"]
        if isinstance(m["content"], list)
        for b in m["content"]
        if b["type"] == "tool_result"
    ]
    assert results == ["rx", "ry"]


@pytest.mark.parametrize("policy", POLICIES)
def test_b10_nothing_appears_twice(policy):
    _, wire, request = load("B10")
    c = compact(request, wire, policy, 600)
    texts = [frozen(message) for message in c.messages]
    assert len(texts) == len(set(texts))


def test_b13_result_of_a_compact_call():
    """The model calls a tool `compact`; the list is compacted before its result exists."""
    _, wire, request = load("B13")
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "tc", "content": "done"}]}
    for policy in POLICIES:
        c = compact(request, wire, policy, 6000)
        assert checker.check([*c.messages, answer], wire) == []


@pytest.mark.parametrize("rounds", [1, 3])
def test_b16_open_call_survives_until_it_is_answered(rounds):
    """A call waits for a person while the talk goes on; its late answer must find it."""
    items = [
        {"role": "user", "content": "deploy"},
        {"type": "function_call", "call_id": "P", "name": "ask", "arguments": "{}"},
    ]
    agent = compactor("responses", window_tokens=5000)
    for n in range(rounds):
        for k in range(12):
            items += [{"role": "user", "content": f"question {n}.{k}"}, *_loop("responses", 1, 1500, n * 12 + k)]
        c = agent.fit(body(items, "responses"))
        assert "P" in [item.get("call_id") for item in c.messages]
    answer = {"type": "function_call_output", "call_id": "P", "output": "confirmed"}
    c = agent.fit(body([*items, answer], "responses"))
    assert checker.check(c.request, "responses") == []


def test_b20_reasoning_goes_with_its_call():
    _, wire, request = load("B20")
    mended = packlight.repair(request, format=wire)["input"]
    kinds = [item["type"] for item in mended]
    assert ("reasoning" in kinds) == ("function_call" in kinds)


@pytest.mark.parametrize("policy", POLICIES)
def test_b21_no_item_id_without_its_reasoning(policy):
    _, wire, request = load("B21")
    kept = {item.get("id") for item in compact(request, wire, policy, 600).messages}
    assert "fc_1" not in kept or "rs_1" in kept
    assert "msg_1" not in kept or "rs_2" in kept


@pytest.mark.parametrize("policy", POLICIES)
def test_b22_thinking_never_stands_alone(policy):
    _, wire, request = load("B22")
    assert checker.check(compact(request, wire, policy, 600).request, wire) == []


def test_b24_orphan_output_only_without_a_previous_response():
    first, linked = bug("B24")["input"]["cases"]
    mended = packlight.repair(body(first["input"], "responses"), format="responses")
    assert "c1" not in [item.get("call_id") for item in mended["input"]]
    request = body(linked["input"], "responses", previous_response_id=linked["previous_response_id"])
    assert packlight.validate(request, format="responses") == []
    assert frozen(packlight.repair(request, format="responses")) == frozen(request)
    assert not compact(request, "responses", "default", 600).changed


def test_b25_every_call_has_an_answer_or_goes():
    _, wire, request = load("B25")
    mended = packlight.repair(request, format=wire)
    assert checker.check(mended, wire) == []
    assert {"1", "2"} <= {m["content"] for m in mended["messages"] if m["role"] == "tool"}


def test_b27_each_occurrence_has_its_own_text(tmp_path):
    """One id for two calls: the old result goes, the new stays, each is recalled as itself."""
    _, wire, request = load("B27")
    old = "old " * 3000
    request["messages"][2]["content"][0]["content"] = old
    c = compact(request, wire, "default", 1200, store=str(tmp_path / "s"))
    assert c.changed and "1788528288" in seen(c) and old not in seen(c)
    edit = next(e for e in c.report.edits if e.ref)
    found = packlight.recall(str(tmp_path / "s"), edit.ref)
    assert "old old" in str(found) and "1788528288" not in str(found)


def test_b28_equal_ids_in_one_message_are_told_apart():
    _, wire, request = load("B28")
    once, twice = (packlight.repair(request, format=wire) for _ in range(2))
    assert frozen(once) == frozen(twice)
    ids = [call["id"] for call in once["messages"][1]["tool_calls"]]
    answers = {m["tool_call_id"]: m["content"] for m in once["messages"][2:]}
    assert ids[0] == "x" and len(set(ids)) == 2
    assert [answers[i] for i in ids] == ["CONTENT OF A", "CONTENT OF B"]


def test_b29_recurring_ids_pair_by_occurrence():
    """Legal as it comes (each answers the call before it); mended, the later ones get ids of their own."""
    _, wire, request = load("B29")
    assert packlight.validate(request, format=wire) == []
    assert not compact(request, wire, "default", 600).changed
    mended = packlight.repair(request, format=wire)["input"]
    ids = [item["call_id"] for item in mended]
    assert ids[0] == ids[1] == "terminal:0" and ids[2] == ids[3] != "terminal:0"


@pytest.mark.parametrize("policy", POLICIES)
def test_b30_arguments_stay_json(policy):
    case, wire, request = load("B30")
    c = compact(request, wire, policy, case["input"]["window"])
    for message in c.messages:
        for call in message.get("tool_calls") or ():
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


def test_b31_broken_arguments_are_mended():
    _, wire, request = load("B31")
    mended = packlight.repair(request, format=wire)
    assert isinstance(json.loads(mended["messages"][1]["tool_calls"][0]["function"]["arguments"]), dict)
    assert "try again" in cases.visible(mended)


def test_b32_shortened_argument_names_its_rest(tmp_path):
    """Shortened only under pressure; path and call stay, the whole text comes back."""
    _, wire, request = load("B32")
    arguments = json.dumps({"path": "a.sh", "content": "#!/bin/sh\n" + "echo step\n" * 4000 + "exit 0 # TAIL-MARKER"})
    request["messages"][1]["tool_calls"][0]["function"]["arguments"] = arguments
    c = compact(request, wire, "default", 3000, store=str(tmp_path / "s"))
    assert c.changed and "a.sh" in seen(c)
    assert "TAIL-MARKER" in str(packlight.recall(str(tmp_path / "s"), "a.sh"))
    lawful(request, c, wire)


@pytest.mark.parametrize("policy", POLICIES)
def test_b34_every_marker_can_be_resolved(policy, tmp_path):
    """No tool is promised that the request does not have, and each reference answers."""
    case, wire, request = load("B34")
    c = compact(request, wire, policy, case["input"]["window"], store=str(tmp_path / "s"))
    assert c.changed and c.report.edits
    for edit in c.report.edits:
        if edit.action in ("stored", "cleared", "summarised", "shortened"):
            assert edit.ref, edit
            assert packlight.recall(str(tmp_path / "s"), edit.ref)
    assert [tool["name"] for tool in c.request["tools"]] == ["bash"]


@pytest.mark.parametrize("policy", POLICIES)
def test_b35_thinking_of_the_open_loop_is_untouched(policy):
    case, wire, request = load("B35")
    c = compact(request, wire, policy, case["input"]["window"])
    last = next(m for m in reversed(c.messages) if m["role"] == "assistant")
    assert last["content"][:2] == request["messages"][1]["content"][:2]


@pytest.mark.parametrize("policy", POLICIES)
def test_b37_unknown_fields_of_kept_messages_stay(policy):
    case, wire, request = load("B37")
    given = {m.get("content") or m["tool_calls"][0]["id"]: m for m in request["messages"] if m["role"] == "assistant"}
    for message in compact(request, wire, policy, case["input"]["window"]).messages:
        key = message.get("content") or ((message.get("tool_calls") or [{}])[0].get("id"))
        if message["role"] == "assistant" and key in given:
            assert message.get("reasoning_content") == given[key]["reasoning_content"]


def test_b39_user_text_beside_opaque_items():
    """Who minted an item is not to be told from it: what stays goes out as it came."""
    _, wire, request = load("B39")
    c = compact(request, wire, "default", 600)
    assert "c" in list(cases.strings(c.messages))
    opaque = [i for i in c.messages if "encrypted_content" in i]
    assert all(item in request["input"] for item in opaque)


# empty content, roles


def test_b40_empty_texts_are_filled_or_dropped():
    _, wire, request = load("B40")
    assert checker.check(packlight.repair(request, format=wire), wire) == []


@pytest.mark.parametrize("policy", POLICIES)
def test_b44_roles_still_alternate(policy):
    """Where the input's roles alternate, so do the result's: strict chat templates refuse two users in a row."""
    _, wire, request = load("B44")
    request["messages"] = [
        {**m, "content": m["content"] * 60} if m["content"][0] in "qa" else m for m in request["messages"]
    ]
    c = compact(request, wire, policy, 1200)
    roles = [m["role"] for m in c.messages if m["role"] != "system"]
    assert c.changed and roles[0] == "user"
    assert all(a != b for a, b in itertools.pairwise(roles)), roles


@pytest.mark.parametrize("policy", POLICIES)
def test_b47_summary_speaks_as_reference(policy):
    """What we write never stands as the assistant's words, nor behind the live question."""
    _, wire, request = load("B47")
    c = compact(request, wire, policy, 3000)
    given = {frozen(m) for m in request["messages"]}
    for message in c.messages:
        if frozen(message) not in given and not message.get("tool_calls"):
            assert message["role"] in ("user", "tool", "system", "developer")
    assert texts_of(c.messages[-1]).rstrip().endswith("What is 2+2?")


@pytest.mark.parametrize("policy", POLICIES)
def test_b49_task_and_last_round_stay(policy):
    case, wire, request = load("B49")
    c = compact(request, wire, policy, case["input"]["window"])
    assert "TASK: count the apples in a.txt" in seen(c)
    assert c.messages[-1].get("tool_call_id") == "c5"
    assert "c5" in [call["id"] for m in c.messages for call in m.get("tool_calls") or ()]


@pytest.mark.parametrize("policy", POLICIES)
def test_b50_calls_without_text_reach_the_summary(policy):
    _, wire, request = load("B50")
    assert "src/auth.py" in seen(compact(request, wire, policy, 3000))


# sizes


SCRIPTS = {
    "zh": "会话压缩必须保留用户的原话和每一个文件路径，否则代理会重复工作。" * 40,
    "ja": "セッションを圧縮するときは、ユーザーの言葉をそのまま残さなければならない。" * 40,
    "ko": "세션을 압축할 때 사용자의 말을 그대로 보존해야 합니다. " * 40,
    "ru": "При сжатии сеанса слова пользователя должны сохраняться дословно. " * 40,
    "ar": "يجب الحفاظ على كلمات المستخدم حرفيا عند ضغط الجلسة. " * 40,
    "hi": "सत्र को संपीड़ित करते समय उपयोगकर्ता के शब्द यथावत रहने चाहिए। " * 40,
    "th": "เมื่อบีบอัดเซสชันต้องเก็บคำพูดของผู้ใช้ไว้ตามเดิม" * 40,
}
O200K = {"zh": 880, "ja": 1080, "ko": 641, "ru": 601, "ar": 522, "hi": 761, "th": 920}
"""Exact counts of those texts (o200k_base, by toktok-rs)."""


def _tokens_of(text, wire="chat"):
    whole = size_tokens(body([{"role": "user", "content": text}], wire), wire)
    return whole - size_tokens(body([{"role": "user", "content": "x"}], wire), wire)


@pytest.mark.parametrize("script", SCRIPTS)
def test_b51_scripts_are_not_chars_by_four(script):
    assert 0.85 * O200K[script] <= _tokens_of(SCRIPTS[script]) <= 1.35 * O200K[script]


@pytest.mark.parametrize("place", [0, 1])
def test_b52_emoji_are_counted(place):
    given = bug("B52")["input"]
    assert _tokens_of(given["texts"][place]) >= 0.85 * given["measured_o200k"][place]


def test_b53_base64_text_is_dense():
    _, wire, request = load("B53")
    assert size_tokens(request, wire) >= 6.5e5
    c = fit(request, wire, window_tokens=500_000)
    assert c.fits and c.report.tokens_after < 500_000
    lawful(request, c, wire)


def test_b55_images_are_counted_wherever_they_stand():
    case, wire, request = load("B55")
    assert size_tokens(request, wire) >= 20_000
    c = fit(request, wire, window_tokens=case["input"]["window"])
    assert c.changed and c.fits
    inside = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t", "content": request["messages"][0]["content"]}],
    }
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "shot", "input": {}}]}
    assert size_tokens(body([{"role": "user", "content": "go"}, call, inside], wire), wire) >= 650


def _images(messages):
    found = []
    for text in cases.strings(messages):
        if text.startswith(("iVBOR", "data:image")):
            raw = base64.b64decode(text.split(",")[-1])
            found.append((int.from_bytes(raw[16:20]), int.from_bytes(raw[20:24])))
    return found


def test_b57_many_images_must_be_small():
    """From 21 images on no side may be over 2000 pixels: only the offender goes."""
    _, wire, request = load("B57")
    c = fit(request, wire, window_tokens=1_000_000)
    left = _images(c.messages)
    assert len(left) <= 20 or max(max(size) for size in left) <= 2000
    assert len(left) == 20
    assert "first" in seen(c)
    lawful(request, c, wire)


class Refusal(Exception):
    """An error as the SDKs raise it."""

    def __init__(self, status, body):
        super().__init__(f"Error code: {status} - {body}")
        self.status_code, self.body = status, body
        self.message = body.get("error", {}).get("message", "") if isinstance(body, dict) else str(body)


def refusal(message, status=400, kind="invalid_request_error", **more):
    return Refusal(status, {"type": "error", "error": {"type": kind, "message": message, **more}})


def test_b58_too_many_images():
    """The oldest images give way, down to what the error allows."""
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{cases.png(512, 512)}"}}
    messages = []
    for n in range(51):
        messages += [
            {"role": "user", "content": [{"type": "text", "text": f"picture {n}"}, picture]},
            {"role": "assistant", "content": "ok"},
        ]
    request = body([*messages, {"role": "user", "content": "next"}], "chat")
    agent = compactor("chat", window_tokens=1_000_000)
    c = agent.recover(agent.fit(request), refusal("request contains 51 images, exceeding the maximum of 50"))
    assert len(_images(c.messages)) == 50 and "picture 0" in seen(c)
    lawful(request, c, "chat")


def test_b59_document_that_is_refused_goes():
    _, wire, request = load("B59")
    request["messages"][2]["content"][1]["source"]["data"] = cases.pdf(120)
    agent = compactor(wire, window_tokens=1_000_000)
    c = agent.recover(agent.fit(request), refusal(bug("B59")["input"]["error"]))
    assert "document" not in [b["type"] for m in c.messages if isinstance(m["content"], list) for b in m["content"]]
    assert "do something else" in seen(c)
    lawful(request, c, wire)


def test_b60_documents_cost_by_the_page():
    document = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": cases.pdf(50, 120_000)},
    }
    request = body([{"role": "user", "content": [document]}], "anthropic")
    assert 75_000 <= size_tokens(request, "anthropic") <= 200_000


def test_b61_arguments_are_counted():
    case, wire, request = load("B61")
    assert size_tokens(request, wire) >= 15_000
    c = fit(request, wire, window_tokens=case["input"]["window"])
    assert c.changed and c.fits


def test_b62_budget_leaves_room_for_everything_else():
    tools = [
        {
            "type": "function",
            "function": {
                "name": f"tool_{n}",
                "description": "word " * 100,
                "parameters": {"type": "object", "properties": {}},
            },
        }
        for n in range(100)
    ]
    messages = [
        {"role": "system", "content": "rule " * 3000},
        {"role": "user", "content": "go"},
        *_loop("chat", 14, 4000),
    ]
    request = body(messages, "chat", tools=tools, max_tokens=8192)
    c = fit(request, "chat", window_tokens=32_768)
    assert c.report.budget_tokens <= 32_768 - 8192
    assert c.changed and c.fits and c.report.tokens_after <= c.report.budget_tokens
    hopeless = fit(
        body([{"role": "user", "content": "go"}], "chat", tools=tools, max_tokens=8192), "chat", window_tokens=12_000
    )
    assert not hopeless.fits and not hopeless.changed


def test_b63_cached_tokens_count():
    """What was read from the cache stands in the window too; OpenAI's total has it already."""
    usage = bug("B63")["input"]["usage"]
    start = body([{"role": "user", "content": "go"}], "anthropic")
    agent = compactor("anthropic", window_tokens=1_000_000)
    agent.record_usage(agent.fit(start), usage)
    reply = {"role": "assistant", "content": [{"type": "text", "text": "ok"}]}
    after = agent.fit(body([*start["messages"], reply, {"role": "user", "content": "on"}], "anthropic"))
    assert 149_203 <= after.report.tokens_before <= 149_203 + 600
    start = body([{"role": "user", "content": "go"}], "chat")
    agent = compactor("chat", window_tokens=1_000_000)
    agent.record_usage(
        agent.fit(start),
        {"prompt_tokens": 100_000, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 90_000}},
    )
    after = agent.fit(
        body([*start["messages"], {"role": "assistant", "content": "ok"}, {"role": "user", "content": "on"}], "chat")
    )
    assert 100_000 <= after.report.tokens_before <= 101_000


def test_b64_ratio_is_learned_from_usage():
    """A gateway that bills eight times our count: what comes next is measured on its scale."""
    messages = [{"role": "user", "content": "go"}, *_loop("chat", 4)]
    agent = compactor("chat", window_tokens=1_000_000)
    c = agent.fit(body(messages, "chat"))
    agent.record_usage(c, {"prompt_tokens": 8 * c.report.tokens_before, "completion_tokens": 5})
    longer = agent.fit(body([*messages, *_loop("chat", 4, start=4)], "chat"))
    assert longer.report.tokens_before >= 13 * c.report.tokens_before


def test_b65_window_is_learned_from_the_error():
    given = bug("B65")["input"]
    messages = [{"role": "user", "content": "go"}, *_loop("chat", 26)]
    agent = compactor("chat", model="my-local-model", window_tokens=given["configured_window"])
    c = agent.fit(body(messages, "chat"))
    assert not c.changed
    c = agent.recover(
        c, Refusal(400, {"error": {"message": given["error"]["body"], "type": "exceed_context_size_error"}})
    )
    assert c.changed and c.report.tokens_after < 8192
    again = agent.fit(body([*messages, *_loop("chat", 1, start=26)], "chat"))
    assert again.report.budget_tokens < 8192
    assert checker.check(again.request, "chat") == []


# when, and how often


def test_b66_no_thrash_at_the_edge():
    """One giant result: shortened once, and then quiet for twenty steps."""
    case, wire, request = load("B66")
    agent = compactor(wire, window_tokens=case["input"]["window"])
    messages, batches, last = list(request["messages"]), 0, None
    for n in range(case["input"]["steps"]):
        c = agent.fit({**request, "messages": messages})
        lawful({**request, "messages": messages}, c, wire)
        assert c.fits
        sent = [frozen(m) for m in c.messages]
        batches += last is not None and sent[: len(last)] != last
        last = sent
        messages += _loop(wire, 1, 200, n)
    assert batches <= 3


@pytest.mark.parametrize("case_id", ["B69", "B87"])
def test_b69_failed_writer_changes_nothing(case_id):
    """A writer that fails leaves the request valid, typed in the report, and the next turn measured as before."""

    def writer(job):
        raise TimeoutError("no answer")
        yield

    messages = [{"role": "user", "content": "Fix the parser"}, *_loop("anthropic", 30)]
    request = body(messages, "anthropic")
    agent = compactor("anthropic", window_tokens=200_000, writer=writer)
    before = agent.fit(request).report.tokens_before
    tight = compactor("anthropic", window_tokens=3000, writer=writer)
    c = tight.fit(request)
    assert checker.check(c.request, "anthropic") == [] and "Fix the parser" in seen(c)
    assert frozen(c.restore()) == frozen(request)
    assert agent.fit(request).report.tokens_before == before


test_b87_failed_writer_changes_nothing = test_b69_failed_writer_changes_nothing


def _breaks(agent, wire, request, messages, steps):
    """How many of the next requests do not begin with the one before."""
    last = [frozen(m) for m in agent.fit({**request, "messages": messages}).messages]
    breaks = 0
    for more in steps:
        messages = [*messages, *more]
        c = agent.fit({**request, "messages": messages})
        assert checker.check(c.request, wire) == []
        sent = [frozen(m) for m in c.messages]
        breaks += sent[: len(last)] != last
        last = sent
    return breaks


@pytest.mark.parametrize("policy", ["default", "thrifty"])
def test_b70_batches_leave_room(policy):
    """Right at the limit: at most 2 of the 20 turns after a batch rewrite what was sent."""
    _, wire, request = load("B70")
    agent = compactor(wire, window_tokens=size_tokens(request, wire), policy=policy)
    steps = [_loop(wire, 1, 10_000, 100 + n) for n in range(20)]
    assert _breaks(agent, wire, request, request["messages"], steps) <= 2


@pytest.mark.parametrize("policy", ["default", "thrifty", "none"])
def test_b71_requests_only_grow(policy):
    _, wire, request = load("B71")
    agent = compactor(wire, window_tokens=400_000, policy=policy)
    steps = [_loop(wire, 1, 2000, 100 + n) for n in range(10)]
    assert _breaks(agent, wire, request, request["messages"], steps) == 0


def test_b72_unknown_window_is_not_guessed():
    messages = [{"role": "user", "content": "go"}, *_loop("chat", 60, 6000)]
    for model in ("my-finetune-7b", "claude-opus-4-6[1m]"):
        c = packlight.Compactor(model).fit({**body(messages, "chat"), "model": model})
        assert not c.changed, model


def test_b73_smaller_model_takes_over():
    messages = [{"role": "user", "content": "go"}, *_loop("anthropic", 120, 6000)]
    request = body(messages, "anthropic")
    size = size_tokens(request, "anthropic")
    agent = compactor("anthropic", window_tokens=5 * size)
    assert not agent.fit(request).changed
    c = fit(request, "anthropic", window_tokens=size * 98 // 100)
    assert c.changed and c.fits
    lawful(request, c, "anthropic")


def test_b74_giant_result_is_shortened_first(tmp_path):
    case, wire, request = load("B74")
    c = fit(request, wire, window_tokens=case["input"]["window"], store=str(tmp_path / "s"))
    assert c.fits and c.report.tokens_after <= 250_000
    assert "log line 12345" in seen(c) and "go on" in seen(c)
    lawful(request, c, wire)


@pytest.mark.parametrize("policy", POLICIES)
def test_b78_second_pass_goes_past_old_markers(policy):
    """An old result in front of somebody's marker goes as well; compacting the result again changes nothing."""
    _, wire, request = load("B78")
    once = compact(request, wire, policy, 1500)
    assert "old old old old old old old old old old " * 40 not in seen(once)
    twice = compact(once.request, wire, policy, 1500)
    assert frozen(twice.request) == frozen(once.request) or twice.report.tokens_after < once.report.tokens_after


@pytest.mark.parametrize("policy", POLICIES)
def test_b79_many_small_results(policy):
    case, wire, request = load("B79")
    c = compact(request, wire, policy, case["input"]["window"])
    assert c.report.tokens_after <= c.report.tokens_before
    assert len(json.dumps(c.request)) <= len(json.dumps(request))


@pytest.mark.parametrize("policy", POLICIES)
def test_b80_report_says_what_is_sent(policy):
    case, wire, request = load("B80")
    c = compact(request, wire, policy, case["input"]["window"])
    assert c.report.tokens_before == pytest.approx(size_tokens(request, wire), rel=0.01)
    assert c.report.tokens_after == pytest.approx(size_tokens(c.request, wire), rel=0.01)


# the digest


def test_b88_summary_of_a_summary_stays_small():
    """Twelve compactions in a row, each of the last one's result: the summary does not fill the window."""
    messages = [{"role": "user", "content": "CONSTRAINT: never edit migrations/"}]
    for n in range(12):
        messages = [*messages, *_loop("chat", 25, 2500, n * 25)]
        c = fit(body(messages, "chat"), "chat", window_tokens=16_000)
        assert c.fits and c.changed
        assert "CONSTRAINT: never edit migrations/" in seen(c)
        assert checker.check(c.request, "chat") == []
        messages = list(c.messages)


def test_b90_secrets_do_not_enter_the_digest():
    case, wire, request = load("B90")
    c = compact(request, wire, "default", case["input"]["window"])
    given = {frozen(m) for m in request["messages"]}
    ours = cases.visible([m for m in c.messages if frozen(m) not in given])
    assert "ghp_000000" not in ours and "wJalrXUtnFEMI" not in ours


def test_b92_conversations_with_one_ending_stay_apart():
    """Two projects, the same last words, one compactor: neither sees the other's edits."""
    given = bug("B92")["input"]
    agent = compactor("anthropic", window_tokens=4000)
    for name in "ab":
        start, middle, end = given[name]
        loop = [
            {**m, "content": json.loads(json.dumps(m["content"]).replace("output", f"{name}-output"))}
            for m in _loop("anthropic", 20)
        ]
        request = body([start, *loop, middle, end], "anthropic")
        c = agent.fit(request)
        assert c.changed and start["content"] in seen(c)
        other = "project B" if name == "a" else "project A"
        assert other not in seen(c)
        lawful(request, c, "anthropic")


def test_b94_finished_list_does_not_pass_for_the_task():
    """Nothing that we write stands behind the live request, least of all a finished todo list."""
    todo = {"type": "tool_use", "id": "td", "name": "TodoWrite", "input": {"todos": bug("B94")["input"]["todo"]}}
    messages = [
        {"role": "user", "content": "Task A"},
        {"role": "assistant", "content": [todo]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "td", "content": "ok"}]},
        *_loop("anthropic", 20),
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
        {"role": "user", "content": "Task B: rename the module"},
    ]
    for policy in POLICIES:
        c = compact(body(messages, "anthropic"), "anthropic", policy, 3000)
        text = seen(c)
        assert text.rindex("Task B: rename the module") > text.rfind("Task A step 1")


@pytest.mark.parametrize("policy", POLICIES)
def test_b95_open_todo_items_keep_their_state(policy):
    case, wire, request = load("B95")
    text = seen(compact(request, wire, policy, case["input"]["window"]))
    for n in range(23):
        assert f"open item {n}" in text
    assert "pending" in text


def test_b96_rules_loaded_through_a_tool_stay():
    skill = {"type": "tool_use", "id": "sk", "name": "Skill", "input": {"name": "routes"}}
    rule = "never delete routes that exist in main"
    messages = [
        {"role": "user", "content": "Clean up the screens"},
        {"role": "assistant", "content": [skill]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "sk", "content": f"# Skill: routes\n{rule}\n"}],
        },
        *_loop("anthropic", 40),
    ]
    assert rule in seen(compact(body(messages, "anthropic"), "anthropic", "default", 6000))


@pytest.mark.parametrize("policy", POLICIES)
def test_b97_project_rules_stay_through_three_rounds(policy):
    case, wire, request = load("B97")
    rule = request["messages"][0]["content"][0]["text"]
    messages = request["messages"]
    for n in range(3):
        c = compact({**request, "messages": messages}, wire, policy, case["input"]["window"])
        assert rule in list(cases.strings(c.messages)) or rule in seen(c)
        messages = [*c.messages, *_loop(wire, 40, 2000, 100 + 40 * n)]


def test_b99_work_goes_on_where_it_was():
    """The last command and its outcome stay in place, and nothing tells the agent to begin again."""
    messages = [
        {"role": "user", "content": "Fix src/cart.py"},
        *_loop("anthropic", 40),
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "last", "name": "bash", "input": {"command": "pytest -q tests/test_cart.py"}}
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "last", "content": "1 failed: test_total"}],
        },
    ]
    text = seen(compact(body(messages, "anthropic"), "anthropic", "default", 5000))
    assert "pytest -q tests/test_cart.py" in text and "1 failed: test_total" in text and "Fix src/cart.py" in text
    assert not re.search(r"start over|session startup|from scratch", text, re.I)


@pytest.mark.parametrize("policy", ["default", "thrifty"])
def test_b100_placeholder_informs(policy):
    """Tool, target and size of a cleared result stay readable."""
    _, wire, request = load("B100")
    c = compact(request, wire, policy, 3500)
    text = seen(c)
    assert "def total(items): return sum(i.price for i in items)\n" * 100 not in text
    assert "src/cart.py" in text


# store


def test_b109_ids_that_begin_alike(tmp_path):
    results = bug("B109")["input"]["results"]
    messages = [{"role": "user", "content": "go"}]
    for result in results:
        call = {"id": result["id"], "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": result["id"], "content": result["content"]},
        ]
    messages += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "next"}]
    store = str(tmp_path / "s")
    c = compact(body(messages, "chat"), "chat", "default", 8000, store=store)
    found = [str(packlight.recall(store, edit.ref)) for edit in c.report.edits if edit.ref]
    assert any("first first" in text for text in found) and any("second second" in text for text in found)
    assert frozen(packlight.restore(c.request, store)) == frozen(body(messages, "chat"))


def test_b110_ids_are_no_paths(tmp_path):
    """Whatever a model calls its calls, nothing is written outside the folder, nor read by such a name."""
    ids = [str(i) for i in bug("B110")["input"]["ids"]]
    messages = [{"role": "user", "content": "go"}]
    for n, call_id in enumerate(ids):
        messages += [
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": call_id, "name": "../../sh", "input": {"path": call_id}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": call_id, "content": f"output {n} " * 900}],
            },
        ]
    inside = tmp_path / "deep" / "er" / "store"
    inside.parent.mkdir(parents=True)
    request = body(
        [
            *messages,
            {"role": "assistant", "content": [{"type": "text", "text": "ok"}]},
            {"role": "user", "content": "next"},
        ],
        "anthropic",
    )
    c = compact(request, "anthropic", "default", 4000, store=str(inside))
    assert c.changed
    outside = [p for p in tmp_path.rglob("*") if p.is_file() and inside not in p.parents]
    assert outside == []
    assert frozen(packlight.restore(c.request, str(inside))) == frozen(request)
    for call_id in ids:
        try:
            found = packlight.recall(str(inside), call_id)
        except packlight.PacklightError:
            continue
        assert "root:" not in str(found)


def test_b110_linked_store_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    request = body([{"role": "user", "content": "go"}, *_loop("chat", 30)], "chat")
    with contextlib.suppress(packlight.PacklightError):
        compact(request, "chat", "default", 4000, store=str(tmp_path / "link"))
    assert all(stat.S_IMODE(p.stat().st_mode) & 0o077 == 0 for p in (tmp_path / "real").rglob("*"))


def test_b111_no_file_is_named_that_was_not_written(tmp_path):
    """The disk takes nothing any more: the turn goes on, content in memory, and the report says so."""
    script = textwrap.dedent("""
        import json, re, resource, signal, sys, os
        sys.path[:0] = sys.argv[2:]
        import packlight, engine, cases
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        messages = [{"role": "user", "content": "go"}]
        for n in range(20):
            call = {"id": f"c{n}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
            messages += [{"role": "assistant", "content": None, "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": f"c{n}", "content": f"line {n} of it\\n" * 3000}]
        request = engine.body(messages, "chat")
        agent = engine.compactor("chat", window_tokens=20000, store=sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        c = agent.fit(request)
        named = re.findall(r"(/[\\w./-]+)", cases.visible(c.messages))
        print(json.dumps({"changed": c.changed, "fits": c.fits, "error": str(c.report.error),
                          "missing": [p for p in named if sys.argv[1] in p and not os.path.exists(p)],
                          "restored": engine.frozen(c.restore()) == engine.frozen(request)}))
    """)
    here = os.path.dirname(__file__)
    ran = subprocess.run(
        [sys.executable, "-B", "-c", script, str(tmp_path / "s"), here, os.path.join(here, "..", "src")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["changed"] and said["fits"] and said["restored"] and said["missing"] == []
    assert said["error"] != "None"


def test_b112_every_stored_result_can_be_found(tmp_path):
    store = str(tmp_path / "s")
    messages = [{"role": "user", "content": "go"}]
    for n in range(bug("B112")["input"]["stored"]):
        call = {
            "id": f"c{n}",
            "type": "function",
            "function": {"name": "read", "arguments": json.dumps({"path": f"src/mod_{n}.py"})},
        }
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": f"needle{n:03}x stands here\n" + f"filler {n} " * 300},
        ]
    messages += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "next"}]
    c = compact(body(messages, "chat"), "chat", "default", 6000, store=store)
    text = seen(c)
    for n in range(64):
        if f"needle{n:03}x" not in text:
            assert f"needle{n:03}x" in str(packlight.recall(store, f"src/mod_{n}.py")), n
            assert f"needle{n:03}x" in str(packlight.recall(store, f"needle{n:03}x")), n


def test_b113_store_is_private(tmp_path):
    secret = bug("B113")["input"]["result"]
    messages = [{"role": "user", "content": "check"}, *_loop("anthropic", 1)]
    messages[2]["content"][0]["content"] = secret + "\n" + "PATH=/usr/bin\n" * 500
    messages += _loop("anthropic", 30, start=1)
    old_umask = os.umask(0)
    try:
        c = compact(body(messages, "anthropic"), "anthropic", "default", 4000, store=str(tmp_path / "s"))
    finally:
        os.umask(old_umask)
    assert c.changed
    files = [tmp_path / "s", *(tmp_path / "s").rglob("*")]
    assert {stat.S_IMODE(p.stat().st_mode) for p in files if p.is_dir()} == {0o700}
    assert {stat.S_IMODE(p.stat().st_mode) for p in files if p.is_file()} == {0o600}
    given = {frozen(m) for m in messages}
    assert "BSA0000000000000000" not in cases.visible([m for m in c.messages if frozen(m) not in given])


# encodings


@pytest.mark.parametrize("odd", ["🎉", "é", "👨‍👩‍👧", "क्ष", "半"])
def test_b114_cuts_keep_text_whole(odd):
    """Wherever a preview is cut, it still encodes, and no joined sign is torn into another one."""
    for shift in range(12):
        text = "a" * shift + odd * 12_000
        messages = [{"role": "user", "content": "go"}, *_loop("chat", 1)]
        messages[-1]["content"] = text
        for policy in POLICIES:
            c = compact(body(messages, "chat"), "chat", policy, 4000)
            json.dumps(c.request, ensure_ascii=False).encode("utf-8")
        if shift == 0:
            lawful(body(messages, "chat"), c, "chat")


def test_b115_lone_halves_are_replaced_when_asked():
    _, wire, request = load("B115")
    mended = packlight.repair(request, format=wire)
    text = cases.visible(mended)
    text.encode("utf-8")
    assert "bin: \ufffd x \ufffd ok" in text
    c = fit(request, wire, window_tokens=100_000)
    assert not c.changed


def test_b116_colours_cost_nothing_once_shortened():
    raw = bug("B116")["input"]["result"]
    messages = [{"role": "user", "content": "test"}, *_loop("anthropic", 1)]
    messages[2]["content"][0]["content"] = raw * 3
    request = body([*messages, *_loop("anthropic", 3, start=1)], "anthropic")
    c = compact(request, "anthropic", "default", 5000)
    assert c.report.tokens_after < 0.6 * c.report.tokens_before
    lawful(request, c, "anthropic")


# errors and marks


def test_b120_lowering_the_output_is_enough():
    """The input fits, the asked output does not: nothing is compacted, `max_tokens` goes down."""
    message = (
        "This endpoint's maximum context length is 262144 tokens. However, you requested about 1000135 tokens "
        "(135 of text input, 1000000 in the output). Please reduce the length of either one."
    )
    request = body([{"role": "user", "content": "hello there"}], "chat", max_tokens=1_000_000)
    agent = compactor("chat", model="my-local-model")
    c = agent.recover(agent.fit(request), Refusal(400, {"error": {"message": message, "code": 400}}))
    assert frozen(c.messages) == frozen(request["messages"])
    assert c.request["max_tokens"] <= 262_144 - 135


@pytest.mark.parametrize("policy", POLICIES)
def test_b123_no_fifth_mark(policy):
    """The client's own four marks stay, none is added, also when marked blocks go."""
    _, wire, request = load("B123")
    request["messages"] = [request["messages"][0], *_loop(wire, 20), *request["messages"][1:]]
    c = compact(request, wire, policy, 3000)
    lawful(request, c, wire)
    assert json.dumps(c.request).count('"cache_control"') <= 4


@pytest.mark.parametrize(("number", "cure"), [(0, None), (1, "shrink")])
def test_b124_error_without_a_word_is_judged_by_our_own_estimate(number, cure):
    case = bug("B124")["input"]
    request = body(talk("chat", 20), "chat")
    size = fit(request, "chat", window_tokens=10**6).report.tokens_after
    window = round(size / case["own_estimate_ratio"][number])
    c = fit(request, "chat", window_tokens=window, max_input_tokens=10**6)
    assert cure_of(c, StreamedError(case["event"]), ()) == cure
    assert cure_of(c, StreamedError(case["event"]), ("shrink",)) is None


def test_sigxfsz_is_available():
    """B111's fault injection needs it."""
    assert signal.SIGXFSZ
