"""The examples of docs/cli.md, run as they stand there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine import packlight
from packlight.cli import main
from store_help import SOURCE
from talk import request

PAGE = (Path(__file__).parent.parent / "docs" / "cli.md").read_text("utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)


def steps(block):
    """Each command of a block with the output that the page shows for it."""
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in re.split(r"^\$ ", block, flags=re.M)[1:]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("docs")
    (here / "request.json").write_text(json.dumps(request("anthropic")))
    return here


@pytest.fixture(scope="module")
def shell(folder):
    """A shell where `packlight` is this checkout's."""
    bin = folder / "bin"
    bin.mkdir()
    (bin / "packlight").write_text(f'#!/bin/sh\nexec {sys.executable} -m packlight "$@"\n')
    (bin / "packlight").chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE), "NO_COLOR": "1"}

    def run(command):
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=folder, env=environment)

    return run


def as_pattern(shown):
    """What the page shows, with `...` for whatever stands there."""
    return re.escape(shown).replace(r"\.\.\.", ".*")


def test_page_shows_what_happens(shell, folder):
    assert len(BLOCKS) == 4
    for command, shown in (step for block in BLOCKS for step in steps(block)):
        done = shell(command)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert re.fullmatch(as_pattern(shown), done.stderr + done.stdout, re.DOTALL), f"{command}:\n{done.stderr}"
    assert json.loads((folder / "back.json").read_text()) == request("anthropic")


def test_page_tells_every_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert len(commands) >= 5
    told = re.findall(r"^\| `(\w+)", PAGE, re.MULTILINE)
    assert told == commands
    assert all(name in PAGE for name in packlight.PRESETS)
