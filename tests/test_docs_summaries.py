"""The examples of docs/summaries.md, run as they stand there against a provider on loopback."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import checker
import talk
from engine import body, seen
from packlight.summary.frame import TITLES
from packlight.testing import ModelServer, Reply, ScriptedSummariser
from packlight.types import SummaryRequest
from summary_provider import SummaryLoopback

PAGE = (Path(__file__).parent.parent / "docs" / "summaries.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
LOCAL = "http://127.0.0.1:8000/v1"
WORDS = [
    m
    for n in range(120)
    for m in (
        {"role": "assistant", "content": f"Answer {n}. " + f"part {n} of it, " * 500},
        {"role": "user", "content": f"Question {n}?"},
    )
]
REQUEST = body([*talk.opening(), *WORDS], "anthropic", max_tokens=8_000) | {"model": "claude-3-haiku-20240307"}
"""Over that model's window, and there are no tool results that could go first."""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a block; whatever model it names is the scripted one, with a window of the request's that is soon full."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    with SummaryLoopback("good", window_tokens=10**9) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "dummy")

        def ran(block, **names):
            names["request"] = REQUEST
            exec(block.replace(LOCAL, f"{provider.url}/v1"), names)
            return names

        yield provider, ran


def test_page_has_the_examples_tested_here():
    assert len(BLOCKS) == 7


def summarised(names):
    c = names["c"]
    assert c.report.error is None and TITLES["prose"] in seen(c) and c.fits
    assert checker.check(c.request, "anthropic") == []
    return c.report.summary_calls


def test_string_names_a_model(run, capsys):
    provider, ran = run
    calls = summarised(ran(BLOCKS[0]))
    assert [body["model"] for body in provider.asked] == ["claude-haiku-5-5"] * len(calls)
    assert capsys.readouterr().out.startswith("claude-haiku-5-5 ")


def test_local_server(run):
    provider, ran = run
    summarised(ran(BLOCKS[1]))
    told = provider.asked[0]["messages"][-1]["content"]
    assert provider.asked[0]["model"] == "qwen3-coder" and len(provider.asked) > 1
    assert "Name every ticket number" in told and "the login bug" in told


def test_client_writes_its_own_summaries(run):
    provider, ran = run
    client = ran(BLOCKS[2])["client"]

    async def asked():
        small = {**REQUEST, "messages": talk.opening()}
        for request in (small, REQUEST):
            await client.messages.create(**request, timeout=30)
        await client.close()

    asyncio.run(asked())
    assert client.packlight.report.error is None and len(client.packlight.report.summary_calls) == len(provider.asked)
    assert provider.asked and len(provider.requests) == 2


def test_function_tells_its_cost(run):
    _, ran = run
    scripted = ScriptedSummariser("good")

    def my_model(system, prompt, max_tokens):
        return scripted.ask(SummaryRequest(system=system, prompt=prompt, max_tokens=max_tokens)).text, (900, 80)

    calls = summarised(ran(BLOCKS[3], my_model=my_model))
    assert {(c.model, c.input_tokens, c.output_tokens) for c in calls} == {("mine", 900, 80)}


@pytest.fixture
def compacting(run, monkeypatch):
    """A provider that compacts itself."""
    with ModelServer([Reply("Fine.")], judge=lambda wire, body: checker.check(body, wire)) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        yield server, run[1]


def test_the_provider_compacts_for_a_wrapped_client(compacting):
    server, ran = compacting
    with ran(BLOCKS[4])["client"] as client:
        assert client.messages.create(**REQUEST, timeout=30).content[0].text == "Fine."
    assert client.packlight.report.error is None and server.compactions and not server.refusals


def test_the_provider_compacts_for_a_loop_of_ones_own(compacting):
    server, ran = compacting
    names = ran(BLOCKS[5])
    names["client"].close()
    assert names["reply"].content[0].text == "Fine."
    assert names["c"].report.error is None and server.compactions and not server.refusals


def test_scripted_faults(run):
    _, ran = run
    assert ran(BLOCKS[6])["c"].changed
