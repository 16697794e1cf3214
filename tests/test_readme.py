"""The README does what it says: its Python runs against a provider on loopback, its table is the benchmark's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anthropic
import pytest

import checker
import packlight
from loopback import Loopback
from talk import request, turns

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
TOOLS = [{"name": n, "description": n, "input_schema": {"type": "object"}} for n in ("read", "bash")]


def run_tools(reply: Any) -> list[dict[str, Any]]:
    return [
        {"type": "tool_result", "tool_use_id": b.id, "content": f"{b.id} says\n" + "some line of output\n" * 150}
        for b in reply.content
        if b.type == "tool_use"
    ]


@pytest.fixture
def loop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (
        Loopback(window_tokens=1_000_000, turns=12) as provider,
        anthropic.Anthropic(base_url=provider.url, api_key="dummy", max_retries=0) as client,
    ):
        yield provider, {"client": client, "tools": TOOLS, "run_tools": run_tools, "anthropic": anthropic}


def test_one_line_wraps_a_client(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "dummy")
    names = {"packlight": packlight, "anthropic": anthropic}
    exec(BLOCKS[0], names)
    with names["client"] as client:
        assert isinstance(client, anthropic.Anthropic)


@pytest.mark.parametrize("block", BLOCKS[1:3], ids=["full history", "written back"])
def test_loops_run_to_their_end(block, loop):
    provider, names = loop
    exec("import packlight\n" + block, names)
    assert provider.refusals == [] and len(provider.requests) == 13
    assert names["reply"].stop_reason == "end_turn"


def test_overflow_is_rescued(loop):
    provider, names = loop
    provider.window_tokens = 30_000
    compactor = packlight.Compactor("claude-opus-5-5")
    exec(BLOCKS[3], names | {"compactor": compactor, "request": request("anthropic", max_tokens=2_000)})
    assert len(provider.refusals) == 1 and len(provider.requests) == 2


def test_one_at_a_time(loop, tmp_path):
    _, names = loop
    given = request("anthropic", 200)
    names |= {"packlight": packlight, "request": given, "broken_request": {"messages": turns("anthropic", 1)}}
    exec(BLOCKS[4], names)
    assert names["c"].changed and checker.check(names["c"].request, "anthropic") == []
    assert packlight.restore(names["c"].request, str(tmp_path / ".packlight")) == given
    assert packlight.recall(str(tmp_path / ".packlight"), "src/file_3.py")


def test_table_is_the_benchmarks():
    table = README.split("<!-- table: bench/results/examples.md -->\n")[1].split("\n<!-- end of table -->")[0]
    assert table in (ROOT / "bench/results/examples.md").read_text()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("**thrifty**", "`thrifty` costs {}.*keeps {} % of the names.* and {} % of the edits"),
        ("distil-llm library", "the cheapest other package costs {} with {} % and {} %;"),
    ],
)
def test_figures_are_the_benchmarks(row, said):
    _, _, table = (ROOT / "docs/benchmark.md").read_text().partition("### In each window")
    line = next(line for line in table.splitlines() if line.startswith(f"| {row}"))
    at_200k = line.strip("| ").split(" | ")[-3:]
    assert re.search(said.format(*at_200k), " ".join(README.split()))


def test_report_is_the_one_that_the_docs_run():
    """`tests/test_docs_cli.py` runs docs/replay.md."""
    (shown,) = re.findall(r"\$ packlight replay session.jsonl\n.*?\n\.\.\.\n", README, re.DOTALL)
    assert shown in (ROOT / "docs/replay.md").read_text() and shown.count("$") > 10


def test_every_page_is_there():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
