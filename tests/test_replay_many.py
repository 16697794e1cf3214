"""Many sessions at once: which are found, in what order they come, and what becomes of bad ones and of Ctrl-C."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from packlight.cli import main
from packlight.cli.jobs import Failed, in_order
from packlight.errors import InvalidRequest
from packlight.replay.home import newest_first, own_sessions, session_folders
from store_help import SOURCE
from talk import talk

DAY = 86_400.0


def session(path: Path, rounds: int = 6, *, age_days: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(m) for m in talk("anthropic", rounds)))
    then = time.time() - age_days * DAY
    os.utime(path, (then, then))
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def fill(home: Path) -> None:
    session(home / ".claude" / "projects" / "a" / "old.jsonl", age_days=9)
    session(home / ".codex" / "sessions" / "2026" / "10" / "new.jsonl", age_days=1)
    session(home / ".pi" / "agent" / "sessions" / "p" / "middle.jsonl", age_days=4)
    (home / ".claude" / "projects" / "a" / "settings.json").write_text("{}")


# which sessions


def test_own_sessions_newest_first(home: Path) -> None:
    fill(home)
    assert [p.stem for p in own_sessions({}, home)] == ["new", "middle", "old"]
    assert [p.stem for p in own_sessions({}, home, since_days=5)] == ["new", "middle"]


def test_environment_says_where(home: Path) -> None:
    fill(home)
    session(home / "elsewhere" / "projects" / "x.jsonl", age_days=1)
    session(home / "codex" / "sessions" / "y.jsonl", age_days=2)
    named = {"CLAUDE_CONFIG_DIR": str(home / "elsewhere"), "CODEX_HOME": str(home / "codex")}
    assert [p.stem for p in own_sessions(named, home)] == ["x", "y", "middle"]
    assert home / ".claude" / "projects" not in session_folders(named, home)


def test_files_that_went_are_left_out(tmp_path: Path) -> None:
    there = session(tmp_path / "a.jsonl")
    assert newest_first([tmp_path / "gone.jsonl", there]) == [there]


def test_replay_without_path(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(home)
    assert main(["replay", "--policy", "none", "--json", "--jobs", "1"]) == 0
    assert [json.loads(line)["session"] for line in capsys.readouterr().out.splitlines()] == ["new", "middle", "old"]
    assert main(["replay", "--policy", "none", "--json", "--since", "2", "--jobs", "1"]) == 0
    assert [json.loads(line)["session"] for line in capsys.readouterr().out.splitlines()] == ["new"]


def test_replay_without_any_session(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "name a file or a folder" in err


def test_only_the_newest_twenty_unless_asked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(23):
        session(home / ".claude" / "projects" / f"{n:02}.jsonl", 1, age_days=n)
    assert main(["replay", "--policy", "none", "--json", "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    names = [json.loads(line)["session"] for line in out.splitlines()]
    assert names == [f"{n:02}" for n in range(20)]
    assert "the newest 20 of 23" in err and "--all" in err
    assert main(["replay", "--policy", "none", "--json", "--jobs", "1", "--all"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 23 and err == ""


def test_what_sub_agents_did_pushes_no_session_out(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(21):
        session(home / ".claude" / "projects" / "subagents" / f"agent-{n:02}.jsonl", 1, age_days=0)
    session(home / ".claude" / "projects" / "main.jsonl", 1, age_days=9)
    assert main(["replay", "--policy", "none", "--json", "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["session"] for line in out.splitlines()] == ["main"]
    assert "the newest 1 of 1 sessions" in err and "sub-agents" in err
    assert main(["replay", "--policy", "none", "--json", "--jobs", "1", "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 22


@pytest.mark.parametrize("days", ["0", "-1", "week", "nan"])
def test_days_are_a_number(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--since", days]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_no_session_says_where_it_looked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(home)
    assert main(["replay", "--since", "0.5"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "of the last 0.5 days" in err and str(home / ".codex" / "sessions") in err


def test_files_of_a_folder_that_are_no_sessions_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A project's folder is full of them; a file that was named always says why."""
    for n in range(9):
        (tmp_path / f"package{n}.json").write_text('{"name": "x"}')
    session(tmp_path / "z.jsonl")
    named = tmp_path / "package8.json"
    for more in ([], ["--trace", str(tmp_path / "trace")]):
        assert main(["replay", str(tmp_path), str(named), "--policy", "none", "--jobs", "1", *more]) == 0
        err = capsys.readouterr().err
        assert err.count("a request has") == 3 + 1 and "5 more files are no sessions" in err


def test_file_named_beside_its_folder_is_counted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = session(tmp_path / "a.jsonl")
    assert main(["replay", str(tmp_path), str(named), str(named), "--policy", "none", "--json"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


# in many processes


def slow_then(seconds: float, value: str) -> str:
    time.sleep(seconds)
    return value


def bad(why: type[Exception]) -> str:
    raise why("as it is")


def test_results_come_in_the_order_of_the_work() -> None:
    work = [functools.partial(slow_then, 0.3 - n / 10, str(n)) for n in range(3)]
    assert list(in_order(work, 3)) == ["0", "1", "2"]
    assert list(in_order(work[2:], 3)) == ["2"]


def test_bad_input_is_a_note_other_failures_are_not() -> None:
    work = [functools.partial(bad, InvalidRequest), functools.partial(slow_then, 0, "fine")]
    for jobs in (1, 2):
        assert list(in_order(work, jobs)) == [Failed("as it is"), "fine"]
        with pytest.raises(ZeroDivisionError):
            list(in_order([functools.partial(bad, ZeroDivisionError), *work], jobs))


def die() -> str:
    os._exit(7)


def test_dead_process_is_a_note() -> None:
    assert any(isinstance(r, Failed) and "died" in r.why for r in in_order([die, die], 2))


def test_folder_is_the_same_with_one_job_and_with_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(4):
        session(tmp_path / f"{n}.jsonl", 4 + n)
    (tmp_path / "2b.json").write_bytes(b"\x00\x01")
    shown = []
    for jobs in ("1", "2"):
        assert main(["replay", str(tmp_path), "--jobs", jobs, "--json", "--window-tokens", "16k"]) == 0
        shown.append(capsys.readouterr())
    assert shown[0] == shown[1]
    assert len(shown[0].out.splitlines()) == 12 and "2b.json" in shown[0].err


WAITING = """
import pathlib, time

def policy(messages):
    pathlib.Path("started").touch()
    time.sleep(60)
    return messages
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interrupt_ends_it_quietly(jobs: str, tmp_path: Path) -> None:
    for n in range(3):
        session(tmp_path / "sessions" / f"{n}.jsonl")
    (tmp_path / "waiting.py").write_text(WAITING)
    command = [sys.executable, "-m", "packlight", "replay", "sessions", "--jobs", jobs, "--policy", "waiting:policy"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        start_new_session=True,
    ) as process:
        until = time.monotonic() + 60
        while not (tmp_path / "started").exists() and time.monotonic() < until:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_page_is_written_where_it_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, page = session(tmp_path / "a.jsonl"), tmp_path / "page.html"
    assert main(["replay", str(given), "--html", str(page)]) == 0
    assert page.read_bytes().startswith(b"<!doctype html>")
    out, err = capsys.readouterr()
    assert "where the input money went" in out and str(page) in err
    for option in ("--json", "--details", f"--html={page}"):
        assert main(["replay", str(given), "--trace", str(tmp_path / "trace"), option]) == 2
        assert "--trace replays nothing" in capsys.readouterr().err and not (tmp_path / "trace").exists()
    assert main(["replay", str(given), "--html", str(tmp_path / "no" / "page.html")]) == 2
    assert main(["replay", str(given), "--with-text"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 2 and "--html" in err


def test_model_may_be_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = session(tmp_path / "a.jsonl")
    assert main(["replay", str(given), "--model", "claude-opus-4-5", "--json", "--policy", "none"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["model"], found["money"]["source"], found["money"]["priced"]) == (
        "claude-opus-4-5",
        "simulated",
        True,
    )
