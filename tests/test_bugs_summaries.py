"""The cases of bugs.jsonl that concern a summary written by a model: each once broke somebody's compactor."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

import checker
import talk
from cases import bug, request_of
from engine import body, frozen, packlight, seen, size_tokens
from layer_help import Talk
from packlight.summary.frame import TITLES
from packlight.testing import ScriptedSummariser
from packlight.types import SummaryReply
from summary_provider import SummaryLoopback

PROSE = TITLES["prose"]
MODEL = "claude-opus-5-5"


def compactor(writer, window_tokens=talk.WINDOW, **options):
    return packlight.Compactor(MODEL, window_tokens=window_tokens, writer=writer, **options)


def writer_of(source, window_tokens=150_000):
    return packlight.model_writer(source, window_tokens=window_tokens)


def case_request(name, wire="anthropic"):
    return {"model": MODEL, **request_of(bug(name)["input"])} if wire == "anthropic" else request_of(bug(name)["input"])


def prompt_tokens(request):
    return size_tokens(body([{"role": "user", "content": request.system + request.prompt}], "anthropic"), "anthropic")


def test_b48_summariser_is_sent_plain_text():
    """No tool blocks, so no tools need be declared: not in the text's wire, not for any provider."""
    first = bug("B48")["input"]["messages"][:3]
    given = [*first, *talk.turns("anthropic", 60), {"role": "user", "content": "Please summarize this conversation."}]
    with SummaryLoopback("good") as provider:
        writer = packlight.model_writer(f"anthropic:{MODEL}", base_url=provider.url, api_key="dummy")
        c = compactor(writer).fit(body(given, "anthropic"))
    (sent,) = provider.asked
    assert c.report.error is None and checker.check(sent, "anthropic") == []
    assert [m["role"] for m in sent["messages"]] == ["user"] and isinstance(sent["messages"][0]["content"], str)
    assert sent.keys().isdisjoint({"tools", "tool_choice", "thinking"})
    assert "calls current_time]" in sent["messages"][0]["content"] and "12:31" in sent["messages"][0]["content"]


def test_b50_calls_without_text_reach_the_summariser():
    request = case_request("B50", "chat")
    scripted = ScriptedSummariser("good")
    layer = packlight.layers.CompactHistory(keep_recent_tokens=500, max_summary_tokens=2_000)
    policy = replace(packlight.PRESETS["default"], when_due=(layer,))
    options = {"window_tokens": 20_000, "policy": policy, "writer": scripted}
    c = packlight.compact(request, model="gpt-5.6", force=True, format="chat", **options)
    assert c.report.error is None and PROSE in seen(c)
    prompt = scripted.requests[0].prompt
    assert "calls edit_file]" in prompt and "src/auth.py" in prompt and "result of edit_file]\nEdited" in prompt


@pytest.mark.parametrize("window_tokens", [20_000, 200_000])
def test_b81_every_request_fits_the_summariser(window_tokens):
    scripted = ScriptedSummariser("good")
    request = case_request("B81")
    c = compactor(writer_of(scripted, window_tokens), 200_000).fit(request)
    assert scripted.requests and c.fits and checker.check(c.request, "anthropic") == []
    assert all(prompt_tokens(r) + r.max_tokens <= window_tokens for r in scripted.requests)


def test_b73_smaller_model_summarises_in_parts():
    """The history no longer fits the model that is to summarise it, which is the one it is for."""
    scripted = ScriptedSummariser("good")
    made = packlight.Compactor(writer=writer_of(scripted, 40_000))
    given = talk.request("anthropic", 190)
    assert not made.fit({**given, "model": "claude-opus-5-5"}).changed
    c = packlight.Compactor(window_tokens=40_000, writer=writer_of(scripted, 40_000)).fit(given)
    assert c.fits and c.report.error is None and len(scripted.requests) > 1
    assert all(prompt_tokens(r) + r.max_tokens <= 40_000 for r in scripted.requests)


def test_b83_empty_summary_is_no_summary():
    said = bug("B83")["input"]["summariser_response"]
    asked = []

    def only_thinks(request: packlight.SummaryRequest) -> SummaryReply:
        asked.append(request)
        return SummaryReply(text="", stop_reason=said["stop_reason"])

    given = talk.request("anthropic")
    before = frozen(given)
    c = compactor(writer_of(only_thinks)).fit(given)
    assert len(asked) == 2 and "cut short before the summary began" in str(c.report.error)
    assert frozen(c.request) == frozen(compactor(None).fit(given).request)
    assert frozen(given) == before == frozen(c.restore())


@pytest.mark.parametrize("which", [0, 1, 2])
def test_b84_answer_that_goes_on_working_is_rejected(which):
    said = bug("B84")["input"]["summariser_responses"][which]

    def works(request: packlight.SummaryRequest) -> SummaryReply:
        assert "call no tool" in request.system and request.prompt.rstrip().endswith(("alone.", "can."))
        return SummaryReply(text=said) if isinstance(said, str) else SummaryReply(text="", called_tool=True)

    c = compactor(writer_of(works)).fit(talk.request("anthropic"))
    assert isinstance(c.report.error, packlight.SummaryError) and PROSE not in seen(c)
    assert "rm -rf build" not in seen(c) and "Let me now fix" not in seen(c)


def test_b85_rate_limit_drops_nothing():
    with SummaryLoopback("rate_limit") as provider:
        writer = packlight.model_writer(f"anthropic:{MODEL}", base_url=provider.url, api_key="dummy")
        made = compactor(writer)
        idle = talk.request("anthropic", 4)
        assert made.fit(idle, now_seconds=0).request is idle and provider.asked == []
        given = Talk("anthropic").user(talk.TASK)
        for n in range(60):
            given.call("Read", {"file_path": f"src/{n}.py"}, talk.output(n))
            if n % 9 == 4:
                given.user(f"Mind rule {n}: never drop column c_{n}.")
        c = made.fit(body(given.messages, "anthropic"), now_seconds=10)
        once = len(provider.asked)
        assert 1 <= once <= 2, "the SDK may try once more, and that is all"
        made.fit(body([*given.messages, *talk.turns("anthropic", 60, 100)], "anthropic"), now_seconds=20)
        assert len(provider.asked) == once, "not once a turn"
    assert "429" in str(c.report.error) and c.fits
    assert talk.TASK in seen(c)
    for n in range(4, 60, 9):
        assert f"Mind rule {n}: never drop column c_{n}." in seen(c)


def test_b86_parts_that_are_done_are_kept():
    """Each call has its own time; a later run goes on behind the last part that was done."""
    scripted = ScriptedSummariser(*["good"] * 6, "timeout", "good")
    made = compactor(writer_of(scripted, 12_000), 80_000)
    c = made.fit(talk.request("anthropic", 250), now_seconds=0)
    assert len(scripted.requests) == 7 and "no answer within" in str(c.report.error)
    steps = [[int(n) for n in re.findall(r"^Step (\d+)\.", r.prompt, re.MULTILINE)] for r in scripted.requests]
    assert "It reaches up to message" in seen(c) and c.fits
    made.fit(talk.request("anthropic", 500), now_seconds=10_000)
    resumed = [int(n) for n in re.findall(r"^Step (\d+)\.", scripted.requests[7].prompt, re.MULTILINE)]
    assert resumed[0] == steps[5][-1] + 1 == steps[6][0]


def test_b88_summary_that_grows_is_not_taken_on():
    """A summariser that only ever adds: its summary stays within its share, the request within its budget."""
    weights = []

    def adds(prompt):
        earlier = re.search(r"summary so far\]\n(.*)\n\[\w+ summary so far ends", prompt, re.DOTALL)
        number = len(weights)
        points = "\n".join(f"- point {number}.{n} of what was found out today" for n in range(40))
        old = earlier[1] if earlier else "\n".join(f"## {t}\nnone" for t in _headings())
        weights.append(len(old))
        return f"{old}\n{points}"

    made = compactor(writer_of(adds))
    for rounds in range(1, 8):
        c = made.fit(talk.request("anthropic", 50 * rounds), now_seconds=10_000 * rounds)
        assert c.fits and checker.check(c.request, "anthropic") == []
        text = seen(c)
        if PROSE in text:
            prose = text[text.index(PROSE) : text.index("\n## ", text.index(PROSE) + 3)]
            assert len(prose) < 6_000
        assert f"src/file_{50 * rounds - 3}.py" in text, "the facts are not crowded out"


def _headings():
    from packlight.summary.prompts import TOPICS

    return [t.title for t in TOPICS]


def test_b89_identifiers_do_not_depend_on_the_summariser():
    case = bug("B89")
    summary = "\n".join(f"## {t}\nSomething was deployed somewhere." for t in _headings())
    c = packlight.compact(case_request("B89"), window_tokens=6_000, force=True, writer=lambda prompt: summary)
    for check in case["checks"]:
        assert check.removeprefix("contains:") in seen(c)


def test_b90_secrets_do_not_reach_the_summariser():
    scripted = ScriptedSummariser("good")
    c = packlight.compact(case_request("B90"), window_tokens=6_000, force=True, writer=scripted)
    asked = "".join(r.system + r.prompt for r in scripted.requests)
    assert "ghp_" not in asked and "wJalrXUtnFEMI" not in asked and "GITHUB_TOKEN" in asked
    assert "ghp_" not in seen(c)


def test_b90_secret_in_an_answer_is_masked():
    token = "ghp_" + "0" * 36
    summary = "\n".join(f"## {t}\nThe token is {token}." for t in _headings())
    c = compactor(writer_of(lambda prompt: summary)).fit(talk.request("anthropic"))
    assert c.report.error is None and PROSE in seen(c) and token not in json.dumps(c.messages)


def test_b99_prose_says_where_the_work_stands():
    scripted = ScriptedSummariser("good")
    c = compactor(writer_of(scripted)).fit(talk.request("anthropic"))
    text = seen(c)
    assert all(f"### {t}" in text for t in _headings())
    asked = scripted.requests[0].prompt
    for wanted in ("which step the work is at", "the next step first", "the command that was run last"):
        assert wanted in asked
    assert "start over" not in text and "begin again" not in text
