"""What the tests of the agent share: a working folder, and the agent in it as a process or in this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import checker
from cli_help import run  # noqa: F401
from packlight.testing import Call, ModelServer
from store_help import SOURCE

APIS = ("messages", "chat", "responses")
FORMAT_OF = {"messages": "anthropic", "chat": "chat", "responses": "responses"}
every_api = pytest.mark.parametrize("api", APIS)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A working folder with rules and a file, entered; sessions go beside it."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Never push to release-RULE-55.\n")
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    monkeypatch.chdir(folder)
    for name, value in variables(folder).items():
        monkeypatch.setenv(name, value)
    return folder


def variables(folder):
    return {"XDG_STATE_HOME": str(folder.parent / "state"), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def server_of(script, **options):
    """A strict one."""
    return ModelServer(script, judge=lambda wire, body: checker.check(body, wire), **options)


def arguments(server, api, *more):
    url = server.url if api == "messages" else server.openai_url
    return ("agent", "--base-url", url, "--api", api, "--model", "scripted", *more)


@pytest.fixture
def start(work):
    """Begins the agent as a process of its own."""
    begun = []

    def go(server, api, *more):
        environment = {**os.environ, **variables(work), "PYTHONPATH": str(SOURCE)}
        command = [sys.executable, "-m", "packlight", *map(str, arguments(server, api, *more))]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command,
            cwd=work,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            preexec_fn=_interruptible,
        )
        begun.append(process)
        return process

    yield go
    for process in begun:
        process.kill()
        process.communicate()


def _interruptible():
    """Ctrl-C is ignored in what a shell began in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def until(condition, seconds=120):
    """Waits; the machine may be busy."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
    return value


def is_alive(process):
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:  # no /proc here
        return True


def sessions(folder):
    return sorted((folder.parent / "state").glob("packlight/sessions/*/*.jsonl"), key=lambda p: p.stat().st_mtime)


def bash(command, **more):
    return Call("bash", {"command": command, **more})


def list_of(body):
    return body.get("messages") or body["input"]


def results_in(body):
    """The texts of tool results in a request."""
    found = []
    for message in list_of(body):
        if message.get("role") == "tool":
            found.append(message["content"])
        elif message.get("type") == "function_call_output":
            found.append(message["output"])
        elif isinstance(message.get("content"), list):
            found += [b["content"] for b in message["content"] if b.get("type") == "tool_result"]
    return found
