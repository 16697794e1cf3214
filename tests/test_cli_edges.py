"""The command line where something is wrong: bad input, odd terminals, places that can't be written."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_help import file, listing, one_line, process, run, small  # noqa: F401
from engine import body
from packlight.cli import streams
from store_help import SOURCE
from talk import MANY, opening, request, talk, turn, turns

# bad input

BAD = {
    "not JSON": b"hello",
    "truncated": b'{"messages": [{"role": "user", "content": "go"}',
    "truncated in a character": '{"messages": [{"role": "user", "content": "é'.encode()[:-1],
    "binary": bytes(range(256)) * 4,
    "invalid UTF-8": b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}',
    "UTF-16": '{"messages": []}'.encode("utf-16"),
    "too deep": b'{"messages": ' + b"[" * 1_001 + b"]" * 1_001 + b"}",
    "much too deep": b"[" * 200_000,
    "empty": b"",
    "blank": b" \n\t ",
    "NaN": b'{"messages": [NaN]}',
    "two values": b"{}\n{}",
    "no request": b'{"prompt": "go"}',
    "a number": b"12",
    "a text": b'"messages"',
    "no list": b'{"messages": "go"}',
    "no objects": b'{"messages": ["go"]}',
    "lists in lists": b"[[[]]]",
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("command", ["compact", "check", "restore", "replay"])
def test_bad_input_is_one_clear_line(command, kind, run, tmp_path):
    """And exit code 2, nothing on standard output, nothing written."""
    (tmp_path / "store").mkdir()
    path = tmp_path / "bad.json"
    path.write_bytes(BAD[kind])
    more = {
        "compact": ["--window-tokens", 9, "--store", tmp_path / "new", "-o", tmp_path / "out"],
        "restore": ["--store", tmp_path / "store", "-o", tmp_path / "out"],
    }.get(command, [])
    before = listing(tmp_path)
    for source, stdin in ((path, b""), ("-", BAD[kind])):
        code, out, errors = run(command, source, *more, stdin=stdin)
        assert (code, out) == (2, "") and one_line(errors), errors
        assert listing(tmp_path) == before


@pytest.mark.parametrize("command", ["compact", "check", "restore", "replay"])
def test_bad_path_is_one_clear_line(command, run, tmp_path):
    (tmp_path / "store").mkdir()
    more = ["--store", tmp_path / "store"] if command == "restore" else []
    for path in (tmp_path / "missing.json", "\udcff", "n" * 5_000):
        code, out, errors = run(command, path, *more)
        assert (code, out) == (2, "") and errors.count("\n") == 1 and errors.startswith("packlight: "), errors
    if command != "replay":
        code, out, errors = run(command, tmp_path, *more)
        assert (code, out) == (2, "") and one_line(errors) and "directory" in errors


@pytest.mark.parametrize(
    "argv",
    [
        ["compact"],
        ["fly"],
        ["compact", "-", "--window-tokens", "0"],
        ["compact", "-", "--window-tokens", "many"],
        ["compact", "-", "--window-tokens", "9" * 99],
        ["compact", "-", "--format", "gopher"],
        ["compact", "-", "--policy", "magic"],
        ["compact", "-", "--fly"],
        ["restore", "-"],
        ["recall", "x"],
        ["recall", "x", "--store", "/nowhere"],
        ["check", "a", "b"],
    ],
)
def test_wrong_usage_is_one_clear_line(argv, run):
    code, out, errors = run(*argv, stdin=b'{"messages": []}')
    assert (code, out) == (2, "") and one_line(errors), errors


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["repaly"], ("'repaly'", "did you mean replay?", "packlight --help")),
        (["replay", "--htlm", "x"], ("'--htlm'", "did you mean --html?", "packlight replay --help")),
        (["compact", "-", "--windw-tokens=5"], ("--window-tokens?", "packlight compact --help")),
        (["check", "a", "b"], ("'b' is one argument too many",)),
        (["-x"], ("'-x'", "packlight --help")),
        (["fly"], ("no command 'fly' (see",)),
    ],
)
def test_what_was_meant_is_named(argv, words, run):
    code, _, errors = run(*argv)
    assert code == 2 and one_line(errors) and all(word in errors for word in words), errors


def test_file_in_place_of_a_command_is_told_where_it_goes(run, tmp_path):
    (tmp_path / "session.jsonl").write_text("{}")
    code, _, errors = run(str(tmp_path / "session.jsonl"))
    assert code == 2 and one_line(errors) and f"packlight replay {tmp_path / 'session.jsonl'}" in errors


def test_unknown_format_can_be_named(run, file):
    path = file({"messages": opening("go")})
    assert run("check", path)[0] == 0
    assert run("check", path, "--format", "anthropic")[0] == 0
    code, _, errors = run("check", path, "--format", "responses")
    assert code in (0, 1) or one_line(errors)


@pytest.mark.parametrize(
    "error", [RecursionError(), MemoryError(), OSError("boom\nboom"), PermissionError(13, "no", "f")]
)
def test_no_error_is_a_traceback(error, run, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr("packlight.cli.check.load", fail)
    code, out, errors = run("check", "x.json")
    assert (code, out) == (2, "") and one_line(errors)


def test_terminal_codes_are_not_passed_on(run, tmp_path):
    """A file name with an escape sequence can't rewrite the user's screen."""
    code, _, errors = run("check", tmp_path / "a\x1b[2Jb")
    assert code == 2 and "\x1b" not in errors and one_line(errors)


HOSTILE = "x\x1b]0;owned\x07\x1b[2J\r\u202ey\nz"


def test_report_of_a_hostile_session_can_not_rewrite_the_screen(run, tmp_path, monkeypatch):
    """Names of files, models, tools: of somebody else. Only our own colours reach a terminal."""
    messages = turns("anthropic", 60)
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                block["name"] = HOSTILE
    path = tmp_path / f"{HOSTILE}.json"
    path.write_text(json.dumps({"model": HOSTILE, "messages": [*opening(), *messages]}))
    code, out, _ = run("replay", path, "--window-tokens", "8k", "--policy", "none,default")
    assert code == 0 and out.count("owned") >= 4
    assert all(c.isprintable() or c == "\n" for c in out)
    assert "x\\x1b]0;owned" in out.splitlines()[0], "and names break no line"


@pytest.mark.parametrize(("terminal", "shown"), [(True, "a\x1b[31mred\x1b[0m \\x1b[2J\n\tb\n"), (False, None)])
def test_text_is_shown_as_it_is_but_harmless_on_a_terminal(terminal, shown, monkeypatch):
    monkeypatch.setattr(sys, "stdout", out := (Terminal() if terminal else io.StringIO()))
    text = "a\x1b[31mred\x1b[0m \x1b[2J\n\tb"
    streams.show(text)
    assert out.getvalue() == (shown or text + "\n")


# what is written, and where


def test_nothing_is_written_unasked(tmp_path, file):
    """No store, no -o: no file anywhere, neither here nor in the home."""
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir(), here.mkdir()
    given = file(request("chat"), "x.json")
    variables = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    for argv in (
        ["compact", given, "--window-tokens", "16k"],
        ["check", given],
        ["replay", given, "--window-tokens", "16k"],
    ):
        done = process(*argv, cwd=here, TMPDIR=str(home), **variables)
        assert done.returncode == 0, done.stderr
        assert done.stdout or argv[0] == "check"
    assert listing(home) == [] and listing(here) == []


def test_store_is_private_and_complete(tmp_path, file, run):
    store, out = tmp_path / "store", tmp_path / "out.json"
    run("compact", file(request("chat")), *small("chat"), "--store", store, "-o", out)
    assert store.stat().st_mode & 0o777 == 0o700
    assert all(p.stat().st_mode & 0o077 == 0 for p in store.rglob("*"))
    assert listing(tmp_path)[0] == "out.json" and not [n for n in listing(tmp_path) if n.startswith(".out")]


@pytest.mark.parametrize("where", ["missing/out.json", "folder"])
def test_output_that_can_not_be_written(where, tmp_path, file, run):
    """Found before anything is done: the store stays as it was, too."""
    (tmp_path / "folder").mkdir()
    path = file(request("chat"))
    before = listing(tmp_path)
    code, out, errors = run("compact", path, *small("chat"), "--store", tmp_path / "s", "-o", tmp_path / where)
    assert (code, out) == (2, "") and one_line(errors) and where.split("/")[0] in errors
    assert listing(tmp_path) == before


def test_output_is_whole_or_not_at_all(tmp_path, file, run, monkeypatch):
    out = tmp_path / "out.json"
    out.write_text("before")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    path = file(request("chat"))
    before = listing(tmp_path)
    code, _, errors = run("compact", path, *small("chat"), "-o", out)
    assert code == 2 and one_line(errors) and "out.json: No space left" in errors
    assert out.read_text() == "before" and listing(tmp_path) == before


def test_output_follows_a_link(tmp_path, file, run):
    (tmp_path / "real.json").write_text("x")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    run("compact", file(request("chat", 2)), "-o", tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink() and json.loads((tmp_path / "real.json").read_text())


def test_store_that_can_not_be_written_is_told(tmp_path, file, run):
    """What was taken out would end with the process: nothing is written, the user keeps the request."""
    (tmp_path / "plain").write_text("in the way")
    path, out = file(request("chat")), tmp_path / "out.json"
    code, printed, errors = run("compact", path, *small("chat"), "--store", tmp_path / "plain" / "s", "-o", out)
    assert (code, printed) == (2, "") and one_line(errors) and not out.exists()


# in a process of its own


def test_device_as_output_stays_a_device(tmp_path, file):
    done = process("compact", file(request("chat", 2)), "-o", "/dev/stdout", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_output_is_one_clear_line(tmp_path, file):
    path = file(request("chat", 40))
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "packlight", "compact", str(path)]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, env=environment)
    assert done.returncode == 2 and one_line(done.stderr.decode()), done.stderr


def test_closed_pipe_is_quiet(tmp_path, file):
    path = file(talk("anthropic", 300))
    command = f"{sys.executable} -m packlight compact {path} | head -c 10"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(["sh", "-c", command], capture_output=True, cwd=tmp_path, env=environment)
    assert len(done.stdout) == 10 and b"Traceback" not in done.stderr and b"Exception" not in done.stderr


def test_any_terminal_encoding_will_do(tmp_path, file):
    store = tmp_path / "store"
    messages = [*turn("chat", 1, "错误 \udc80 " * 400), *turns("chat", MANY)]
    path = file(body([*opening(), *messages], "chat"))
    for encoding in ("ascii", "latin-1", "utf-8"):
        made = process("compact", path, *small("chat"), "--store", store, cwd=tmp_path, PYTHONIOENCODING=encoding)
        assert made.returncode == 0, made.stderr
        found = process("recall", "file_1.py", "--store", store, cwd=tmp_path, PYTHONIOENCODING=encoding)
        assert found.returncode == 0 and found.stdout and b"Traceback" not in found.stderr
        shown = process("replay", path, "--window-tokens", "16k", cwd=tmp_path, PYTHONIOENCODING=encoding)
        assert shown.returncode == 0, shown.stderr


def test_chart_is_drawn_in_plain_letters_where_no_others_are_known(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    streams.show("  10 ┤▁▄█░ é …")
    sys.stdout.flush()
    assert written.getvalue().decode("latin-1") == "  10 |_-#. é ~\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("term", "columns", "shown"), [("xterm", "40", 39), ("dumb", "40", 0)])
def test_progress_is_one_line_of_a_terminal_that_can_write_over_it(term, columns, shown, monkeypatch):
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    streams.progress("x" * 100, True)
    assert terminal.getvalue().count("x") == shown


def test_one_of_many_processes_shows_no_progress(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(streams, "_progress", streams._Progress())
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    streams.no_progress()
    streams.progress("call 10 of 20", True)
    assert terminal.getvalue() == ""


def test_word_to_a_person_begins_on_a_line_of_its_own(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(streams, "_progress", streams._Progress())
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    streams.say("first")
    streams.progress("1 of 9 files", True)
    streams.say("second")
    streams.say("third")
    assert terminal.getvalue() == "first\n\r\x1b[K1 of 9 files\r\x1b[Ksecond\nthird\n"
