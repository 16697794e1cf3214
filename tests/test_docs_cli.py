"""The examples of docs/cli.md and docs/replay.md, run as they stand there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine import packlight
from packlight.cli import main
from store_help import SOURCE
from talk import request

ROOT = Path(__file__).parent.parent
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("cli", "replay")}


def steps(page):
    """Each command of a page with the output that the page shows for it."""
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.M)[1:]]
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("docs")
    (here / "request.json").write_text(json.dumps(request("anthropic")))
    shutil.copy(ROOT / "examples" / "claude-code-go-cli.jsonl", here / "session.jsonl")
    (policy,) = re.findall(r"```python\n# my_policy.py\n(.*?)```", PAGES["replay"], re.DOTALL)
    (here / "my_policy.py").write_text(policy)
    return here


@pytest.fixture(scope="module")
def shell(folder):
    """A shell where `packlight` is this checkout's."""
    bin = folder / "bin"
    bin.mkdir()
    (bin / "packlight").write_text(f'#!/bin/sh\nexec {sys.executable} -m packlight "$@"\n')
    (bin / "packlight").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{bin}:{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCE),
        "NO_COLOR": "1",
        "COLUMNS": "80",
    }

    def run(command):
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=folder, env=environment)

    return run


def as_pattern(shown):
    """What the page shows, with `...` for whatever stands there."""
    return re.escape(shown).replace(r"\.\.\.", ".*")


@pytest.mark.parametrize(("name", "count"), [("cli", 8), ("replay", 7)])
def test_page_shows_what_happens(name, count, shell):
    assert len(steps(PAGES[name])) == count
    for command, shown in steps(PAGES[name]):
        done = shell(command)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert re.fullmatch(as_pattern(shown), done.stderr + done.stdout, re.DOTALL), f"{command}:\n{done.stdout}"


def test_page_leaves_what_it_says(shell, folder):
    for command, _ in steps(PAGES["cli"])[:3]:
        shell(command)
    assert json.loads((folder / "back.json").read_text()) == request("anthropic")


def test_page_tells_every_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert len(commands) >= 5
    told = re.findall(r"^\| `(\w+)", PAGES["cli"], re.MULTILINE)
    assert told == commands
    assert all(name in PAGES["cli"] for name in packlight.PRESETS)
