"""The examples of docs/agent.md, run as they stand there against a scripted model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_help import bash, server_of, variables, work  # noqa: F401
from packlight.agent.chat import HELP
from packlight.agent.tools import TOOLS
from packlight.cli import main
from packlight.testing import Call, Reply
from store_help import SOURCE
from test_docs_cli import as_pattern, steps

# ruff: noqa: F811  (fixtures are imported)

PAGE = (Path(__file__).parent.parent / "docs" / "agent.md").read_text("utf-8")
WORK = [
    Reply(calls=(Call("read_file", {"path": "calc.py"}),)),
    Reply(calls=(Call("edit_file", {"path": "calc.py", "old_string": "a - b", "new_string": "a + b"}),)),
    Reply(calls=(bash("seq 1 40000"),)),
    Reply("add subtracted; it adds now."),
]


def said(number, body):
    """Each task anew, by what stands last."""
    messages = json.dumps(body["messages"])
    if "and multiply?" in messages:
        return Reply("There is no multiply yet.")
    return WORK[messages.count('"role": "assistant"')]


@pytest.fixture
def shell(work):
    bin = work.parent / "bin"
    bin.mkdir()
    with server_of(said, window_tokens=32_000) as server:
        options = f"--base-url {server.openai_url} --model scripted --window-tokens 32k"
        lines = f'[ "$1" = agent ] && {{ shift; exec {sys.executable} -m packlight agent {options} "$@"; }}'
        (bin / "packlight").write_text(f'#!/bin/sh\n{lines}\nexec {sys.executable} -m packlight "$@"\n')
        (bin / "packlight").chmod(0o755)
        environment = {**os.environ, **variables(work), "PYTHONPATH": str(SOURCE), "NO_COLOR": "1"}
        environment["PATH"] = f"{bin}:{environment['PATH']}"

        def run(command):
            (work / "calc.py").write_text("def add(a, b):\n    return a - b\n")
            return subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=work, env=environment)

        yield run
        assert server.refusals == []


def test_page_shows_what_happens(shell):
    assert len(steps(PAGE)) == 4
    for command, shown in steps(PAGE):
        done = shell(command)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert re.fullmatch(as_pattern(shown), done.stderr + done.stdout, re.DOTALL), f"{command}:\n{done.stderr}"


def test_page_tells_every_tool_and_command(capsys):
    assert all(f"`{name}`" in PAGE for name in TOOLS)
    assert all(f"`{name}" in PAGE for name in re.findall(r"^(/\w+)", HELP, re.MULTILINE))
    with pytest.raises(SystemExit):
        main(["agent", "--help"])
    text = capsys.readouterr().out
    told = ("--model", "--api", "--base-url", "--continue", "--yes", "--json", "--window-tokens", "-i")
    assert all(option in text and option in PAGE for option in told)
