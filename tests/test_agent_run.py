"""The short form of bench/agent_run.py: tool calls of up to 400 kB through 32,000 tokens, with every fault."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "bench"))

import agent_run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of another process: Linux only")


@pytest.mark.parametrize(
    ("api", "calls", "has_writer"), [("chat", 150, False), ("messages", 60, False), ("responses", 60, True)]
)
def test_task_is_ended_through_all_faults(api, calls, has_writer):
    f = agent_run.measured(api, calls, window_tokens=32_000, has_writer=has_writer)
    assert f["ended"] and f["tool_calls"] >= calls
    assert f["invalid"] == [] and f["other_refusals"] == []
    assert f["forgotten"] == [] and f["restored"] and f["lost_refs"] == []
    assert f["kills"] == 4 == len(f["after_kill"])
    assert all(same or batch for same, batch in f["after_kill"]), "what was sent is sent again, but for a new batch"
    assert f["refused_for_length"] >= 1 and f["batches"] >= 10 and f["disk_full_answers"] >= 1
    assert (f["summaries"] > 0) == has_writer
    assert f["peak_tokens"] <= 32_000 - agent_run.ROOM_TOKENS
