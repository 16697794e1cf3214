"""The pages of docs/proxy about single agents: they say what `scripts/e2e` runs, and their Python runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from e2e.clients import CLIENTS, opencode_settings, pi_models
from packlight.proxy.launch import launch_of
from packlight.testing import ModelServer, Reply
from proxy_thread import ThreadedProxy

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "proxy"
RESULTS = json.loads((ROOT / "bench" / "results" / "e2e.json").read_text("utf-8"))
PROXY = "http://127.0.0.1:8787"
AGENTS = [name for name in CLIENTS if (FOLDER / f"{name}.md").exists()]


def page(name):
    return (FOLDER / f"{name}.md").read_text("utf-8")


def blocks(name, language):
    return re.findall(rf"```{language}\n(.*?)```", page(name), re.DOTALL)


def outcome(name, way):
    return next(o for o in RESULTS["outcomes"] if (o["client"], o["way"]) == (name, way))


def test_every_agent_has_its_page_and_the_overview_names_it():
    assert AGENTS == ["claude-code", "codex", "pi", "opencode", "mini-swe-agent"]
    assert all(f"({name}.md)" in page("README") for name in [*AGENTS, "sdk"])


@pytest.mark.parametrize("name", AGENTS)
def test_page_names_the_version_that_was_run_and_its_window(name):
    client = CLIENTS[name]
    assert f"ersion {client.version}" in page(name)
    assert f"{client.window_tokens:,}" in page(name)
    assert RESULTS["clients"][name].endswith(client.version)
    assert RESULTS["window_tokens"][name] == client.window_tokens


@pytest.mark.parametrize("name", AGENTS)
def test_page_tells_the_results_as_they_are(name):
    through, alone = outcome(name, "through packlight"), outcome(name, "without packlight")
    assert through["ended_well"] and not through["refused_otherwise"]
    assert through["refused_for_length"] == 1
    assert "without" in page(name)
    steps, of = alone["steps"].split("/")
    if not alone["ended_well"]:
        assert f"after {steps} of {of} steps" in page(name)


@pytest.mark.parametrize(("name", "made"), [("pi", pi_models), ("opencode", opencode_settings)])
def test_settings_file_is_the_one_that_was_run(name, made):
    (shown,) = blocks(name, "json")
    assert json.loads(shown) == made(PROXY)


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_page_has_the_setting_that_run_passes(name):
    launch = launch_of([name.partition("-")[0]], PROXY, {})
    given = [*launch.command[1:], *(f"{key}={value}" for key, value in launch.environment.items())]
    assert [setting for setting in given if setting in page(name)]


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_way_to_leave_is_the_one_that_was_run(name):
    assert outcome(name, "left well")["ended_well"]
    told = next(b for b in blocks(name, "console") if "/compact" in b or "auto_compact" in b)
    done = [word for word in CLIENTS[name].leave if word not in ("--output-format", "json", "--skip-git-repo-check")]
    assert all(word in told for word in done)


def test_sdk_page_runs_as_it_stands(monkeypatch):
    pytest.importorskip("agents")
    pytest.importorskip("pydantic_ai")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "dummy")
    names = {}
    with ModelServer([Reply("one"), Reply("two")]) as server, ThreadedProxy(upstream=server.url, journal=None) as proxy:
        for block in blocks("sdk", "python"):
            exec(block.replace(PROXY, proxy.url), names)
        asked = [{"role": "user", "content": "hi"}]
        with names["messages"] as client:
            first = client.messages.create(model="m", max_tokens=9, messages=asked)
        with names["completions"] as client:
            second = client.chat.completions.create(model="m", messages=asked)
    assert (first.content[0].text, second.choices[0].message.content) == ("one", "two")
    assert str(names["client"].base_url).startswith(proxy.url)
    assert names["model"].model == names["same"].model_name == "gpt-5.6"
