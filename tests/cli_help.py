"""What the tests of the command line share: a command in this process, or in one of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from packlight.cli import main
from store_help import SOURCE


@pytest.fixture
def run(capsysbinary, monkeypatch):
    """A command in this process: exit code, standard output, standard error."""

    def go(*argv, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = main([str(a) for a in argv])
        except SystemExit as end:
            code = end.code
        out, errors = capsysbinary.readouterr()
        return code, out.decode(), errors.decode()

    return go


def process(*argv, cwd, stdin=b"", **variables):
    """The same in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "HOME": str(cwd), **variables}
    command = [sys.executable, "-m", "packlight", *map(str, argv)]
    return subprocess.run(command, input=stdin, capture_output=True, cwd=cwd, env=environment, timeout=120)


@pytest.fixture
def file(tmp_path):
    """Writes a value as a JSON file."""

    def write(value, name="x.json"):
        path = tmp_path / name
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        return path

    return write


def listing(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def small(wire, *more):
    """What `compact` needs to bring a long conversation down."""
    return ("--window-tokens", "16k", "--format", wire, *more)


def one_line(errors):
    return errors.startswith("packlight: ") and errors.endswith("\n") and errors.count("\n") == 1 and len(errors) < 400
