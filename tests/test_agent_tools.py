"""The agent's tools in a folder: files by ranges, exact edits, commands with limits."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from agent_help import is_alive, until
from packlight.agent import files, shell
from packlight.agent.permission import Permission, Refused
from packlight.agent.tools import TOOLS, checked, told, use
from packlight.agent.workspace import ToolError, Workspace


@pytest.fixture
def space(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    permission = Permission(folder, allow_all=True)
    made = Workspace(folder=folder, outputs=tmp_path / "outputs", permission=permission)
    yield made
    shell.kill_left(made)


class Desk:
    """What `use` needs of an agent."""

    def __init__(self, workspace):
        self.workspace = workspace


def used(space, name, **arguments):
    return use(Desk(space), name, arguments, frozenset(TOOLS))


def put(space, name, text):
    path = space.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# --- files -----------------------------------------------------------------------------------------------------------


def test_long_file_is_read_by_ranges(space):
    put(space, "a.txt", "".join(f"line {n}\n" for n in range(1, 5_001)))
    first = files.read_file(space, "a.txt")
    assert first.startswith("1\tline 1\n") and first.endswith(
        "2000\tline 2000\n\n[3,000 more lines; offset 2001 goes on]"
    )
    last = files.read_file(space, "a.txt", 4_999, 100)
    assert last == "4999\tline 4999\n5000\tline 5000"
    with pytest.raises(ToolError, match="has 5,000 lines"):
        files.read_file(space, "a.txt", 5_001)


def test_read_says_what_a_file_is(space):
    put(space, "empty", "")
    put(space, "one", "x" * 300_000)
    put(space, "binary", b"\x7fELF\0\0")
    put(space, "latin", "caf\xe9".encode("latin-1"))
    assert files.read_file(space, "empty") == "(the file is empty)"
    assert files.read_file(space, "one").endswith("[... 100,000 more characters on this line: use bash to see them]")
    assert files.read_file(space, "latin") == "1\tcaf\ufffd"
    for name, why in (("binary", "binary file of 6 bytes"), ("nothing", "is not there"), (".", "is a folder")):
        with pytest.raises(ToolError, match=why):
            files.read_file(space, name)


def test_edit_is_exact(space):
    path = put(space, "a.py", "x = 1\ny = 1\n")
    assert files.edit_file(space, "a.py", "x = 1", "x = 2") == "Updated a.py."
    assert path.read_text() == "x = 2\ny = 1\n"
    assert files.edit_file(space, "a.py", "= ", "== ", everywhere=True) == "Updated a.py: 2 replaced."
    for old, why in (("z", "does not stand in"), ("==", "stands 2 times"), ("", "is empty")):
        with pytest.raises(ToolError, match=why):
            files.edit_file(space, "a.py", old, "!")
    assert path.read_text() == "x == 2\ny == 1\n"


def test_edit_keeps_line_ends_and_mode(space):
    path = put(space, "a.sh", "one\r\ntwo\r\n")
    path.chmod(0o755)
    files.edit_file(space, "a.sh", "one\ntwo", "1\n2")
    assert path.read_bytes() == b"1\r\n2\r\n" and path.stat().st_mode & 0o777 == 0o755


def test_write_makes_folders_and_is_whole_or_not_at_all(space):
    assert files.write_file(space, "a/b/c.txt", "hi\n").startswith("Created a/b/c.txt")
    assert files.write_file(space, "a/b/c.txt", "ho\n").startswith("Updated a/b/c.txt")
    with pytest.raises(ToolError, match="surrogate"):
        files.write_file(space, "a/b/c.txt", "\ud800")
    assert (space.folder / "a/b/c.txt").read_text() == "ho\n"
    assert os.listdir(space.folder / "a/b") == ["c.txt"]


def test_glob_finds_by_name_and_by_path(space):
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/d.txt", "node_modules/e.py", ".git/f.py", "we[i]rd.py"):
        put(space, name, "")
    find = lambda pattern, *more: sorted(files.glob(space, pattern, *more).split("\n"))  # noqa: E731
    assert find("*.py") == ["a.py", "src/b.py", "src/deep/c.py", "we[i]rd.py"]
    assert find("src/*.py") == ["src/b.py"]
    assert find("src/**/*.py") == find("**/?.py", "src") == ["src/b.py", "src/deep/c.py"]
    assert find("we[i]rd.py") == ["we[i]rd.py"]
    assert find("*.rs") == ["No files found."]


def test_grep_finds_lines(space):
    put(space, "a.py", "def add():\n    pass\n")
    put(space, "b.txt", "Add\n")
    assert used(space, "grep", pattern="def (add|sub)") == ("./a.py:1:def add():\n", False)
    assert used(space, "grep", pattern="add", ignore_case=True, glob="*.txt") == ("./b.txt:1:Add\n", False)
    assert used(space, "grep", pattern="nothing") == ("Nothing found.", False)
    assert used(space, "grep", pattern="(")[0].startswith("Exit code: 2\n")


# --- commands --------------------------------------------------------------------------------------------------------


def test_command_tells_output_and_exit_code(space):
    assert used(space, "bash", command="echo hi; echo ho >&2") == ("hi\nho\n", False)
    assert used(space, "bash", command="true") == ("(no output)", False)
    assert used(space, "bash", command="echo no; exit 3") == ("Exit code: 3\nno\n", False)
    assert used(space, "bash", command="cat") == ("(no output)", False), "there is no input to wait for"
    assert used(space, "bash", command="printf 'caf\\351'") == ("caf\ufffd", False)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc here")
def test_time_limit_ends_the_whole_group(space):
    started = time.monotonic()
    text, _ = used(space, "bash", command="echo begun; sleep 300 & sleep 301; echo never", timeout_seconds=1)
    assert time.monotonic() - started < 60
    assert text == "Error: timed out after 1 seconds, and was killed. Its output until then:\nbegun\n"
    until(lambda: _in_group(space) == [])


def _in_group(space):
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) in space.groups and fields[0] != "Z":
            found.append(name)
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc here")
def test_what_is_left_in_the_background_does_not_hold_the_call(space):
    started = time.monotonic()
    assert used(space, "bash", command="sleep 300 & echo on") == ("on\n", False)
    assert time.monotonic() - started < 60 and len(_in_group(space)) == 1
    shell.kill_left(space)
    until(lambda: _in_group(space) == [])


def test_command_that_closes_its_output_is_waited_for(space):
    assert used(space, "bash", command="exec >&- 2>&-; sleep 0.2; exit 4")[0] == "Exit code: 4\n"
    text, _ = used(space, "bash", command="exec >&- 2>&-; sleep 300", timeout_seconds=1)
    assert text.startswith("Error: timed out after 1 seconds")


def test_endless_output_is_ended(space, monkeypatch):
    monkeypatch.setattr(shell, "MAX_OUTPUT_BYTES", 1_000_000)
    text, _ = used(space, "bash", command="yes")
    assert text.startswith("Error: printed more than 1,000,000 bytes, and was killed.")


def test_huge_output_is_kept_in_a_file(space):
    text, _ = used(space, "bash", command="seq 1 200000")
    assert len(text) < 101_000 and text.startswith("1\n2\n") and text.endswith("\n200000\n")
    assert "characters left out; the whole output is kept in" in text
    kept = space.outputs / "1.txt"
    assert str(kept) in text and kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text().split() == [str(n) for n in range(1, 200_001)]
    assert files.read_file(space, str(kept), 150_000, 1).startswith("150000\t150000")


def test_huge_output_without_a_place_to_keep_it(space):
    space.outputs.write_text("a file where the folder should be")
    text, _ = used(space, "bash", command="seq 1 200000")
    assert "the whole output could not be kept" in text and text.endswith("\n200000\n")


def test_command_that_can_not_begin_is_told(space):
    assert used(space, "bash", command="echo \0") == ("Error: can't be run: embedded null byte", True)
    text, is_error = used(space, "bash", command=": " + "x" * 3_000_000)
    assert is_error and text.startswith("Error: can't be run: ")


# --- calls -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOOLS)
def test_definition_names_what_it_takes(name):
    tool = TOOLS[name]
    assert tool.name == name and len(tool.description) > 20
    assert set(tool.required) <= set(tool.properties) and tool.schema["required"] == list(tool.required)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"path": ', "the arguments are no JSON"),
        ("[1]", "the arguments are no object"),
        ({}, "`path` is missing"),
        ({"path": 1}, "`path` must be a string"),
        ({"path": "a", "offset": "x"}, "`offset` must be a integer"),
        ({"path": "a", "offset": True}, "`offset` must be a integer"),
        ({"path": "a", "lines": 1}, "unknown argument 'lines': read_file takes path, offset, limit"),
        ('{"path": "\ud800', "the arguments are no JSON"),
    ],
)
def test_wrong_arguments_are_told(arguments, why):
    with pytest.raises(ToolError, match=why.replace("[", r"\[")):
        checked(TOOLS["read_file"], arguments)


def test_arguments_are_read_kindly():
    tool = TOOLS["read_file"]
    assert checked(tool, {"path": "a", "offset": "12", "limit": None}) == {"path": "a", "offset": 12}
    assert checked(TOOLS["compact"], "") == checked(TOOLS["compact"], {}) == {}
    assert told('{"command": "ls", "timeout_seconds": 3}') == "ls 3" and told("{") == "{"


@pytest.mark.parametrize(
    "arguments",
    [{"path": "a\0b"}, {"path": "~nobody-here/x"}, {"path": "x" * 5_000}, {"path": "a/" * 3_000}, {"path": ""}],
)
def test_hostile_paths_are_told(space, arguments):
    for name in ("read_file", "write_file", "glob", "grep"):
        more = {"write_file": {"content": ""}, "glob": {"pattern": "*"}, "grep": {"pattern": "x"}}.get(name, {})
        text, _ = used(space, name, **arguments, **more)
        assert text


def test_todo_list_is_checked(space):
    good = {"content": "a", "status": "completed"}
    assert used(space, "todo_write", todos=[good, {**good, "status": "pending"}]) == ("Updated: 1 of 2 open.", False)
    for bad in ("x", {"content": 1, "status": "pending"}, {"content": "a", "status": "later"}):
        assert used(space, "todo_write", todos=[bad])[1]


# --- permission ------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path):
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (folder / "out").symlink_to(tmp_path)
    return Permission(folder)


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "cat a.py | head -n 20",
        "grep -rn 'a|b;c' src",
        'grep -n "def add" a.py',
        "find . -name '*.py' | sort | uniq -c",
        "ls src/*.py; pwd",
        "git status; git log --oneline -5; git diff HEAD",
        "sed -n '1,20p' a.py",
        "wc -l a.py",
    ],
)
def test_commands_that_only_look_go_through(guarded, command):
    guarded.to_run(command)


@pytest.mark.parametrize(
    "command",
    [
        "python3 x.py",
        "cat /etc/passwd",
        "cat ../secret",
        "cat out/secret",
        "cat ~/.ssh/id_rsa",
        "ls $HOME",
        "echo hi > a.py",
        "echo `id`",
        "ls && id",
        "ls & id",
        "cat <(id)",
        "ls\nid",
        "find . -delete",
        "find . -exec id {} +",
        "grep -f/etc/passwd x",
        "grep --file=/etc/passwd x",
        "sort -o a.py b.py",
        "sort ';' cat -o a.py",
        "uniq a b",
        "sed -n '1p' -i a.py",
        "sed 's/a/b/' a.py",
        "git push",
        "git -c core.pager=id log",
        "git log --output=a.py",
        "git diff --no-index /etc/passwd a.py",
        "rg --pre id x",
        "FOO=x ls",
        "test -v 'a[$(id)]'",
        "ls 'unbalanced",
        "",
    ],
)
def test_other_commands_ask(guarded, command):
    assert not guarded.only_looks(command)
    with pytest.raises(Refused, match="nobody to ask"):
        guarded.to_run(command)


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "rm -rf /*",
        "sudo rm -fr --no-preserve-root /",
        "rm -r -f ~",
        'rm -rf "$HOME"/',
        "cd /tmp && rm -rf build /etc",
        "rm --recursive /usr",
        "mkfs.ext4 /dev/sda1",
        "dd if=/dev/zero of=/dev/sda",
        "echo x > /dev/nvme0n1",
        "chmod -R 777 /",
        "chown -R me /etc",
        ":(){ :|:& };:",
        "sudo shutdown now",
        "ls; reboot",
        "kill -9 -1",
    ],
)
def test_some_commands_are_never_run(tmp_path, command):
    with pytest.raises(Refused, match="never run"):
        Permission(tmp_path, allow_all=True).to_run(command)


@pytest.mark.parametrize(
    "command",
    ["rm -rf build", "rm -rf ./dist /tmp/x1", "echo 'the reboot is over'", "chmod -R u+w src", "dd if=a of=b"],
)
def test_plain_work_is_not_denied(tmp_path, command):
    Permission(tmp_path, allow_all=True).to_run(command)


def test_paths_outside_ask(guarded, tmp_path):
    folder = tmp_path / "work"
    guarded.to_read(folder / "a.py")
    guarded.to_write(folder / "a.py", is_known=True)
    for refused in (
        lambda: guarded.to_read(tmp_path / "x"),
        lambda: guarded.to_read(folder / "out" / "x"),
        lambda: guarded.to_write(folder / ".." / "x", is_known=True),
        lambda: guarded.to_write(folder / ".git" / "hooks" / "pre-commit", is_known=True),
        lambda: guarded.to_write(folder / "a.py", is_known=False),
    ):
        with pytest.raises(Refused):
            refused()


def test_always_means_this_only(tmp_path):
    asked = []

    def ask(what, always):
        asked.append((what, always))
        return "always"

    permission = Permission(tmp_path, ask=ask)
    for command in ("pytest -q", "pytest tests", "make", "pytest && make", "pytest && make"):
        permission.to_run(command)
    assert asked == [
        ("run: pytest -q", "run pytest"),
        ("run: make", "run make"),
        ("run: pytest && make", ""),
        ("run: pytest && make", ""),
    ]


def test_no_says_why(tmp_path):
    with pytest.raises(Refused, match="use make instead"):
        Permission(tmp_path, ask=lambda what, always: "use make instead").to_run("pytest")


def test_interrupt_while_a_command_begins_waits(space, monkeypatch):
    """Then its group is known, and ended."""
    begin = shell._begun

    def interrupted(workspace, command):
        process = begin(workspace, command)
        os.kill(os.getpid(), signal.SIGINT)
        return process

    monkeypatch.setattr(shell, "_begun", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            shell.run(space, ["sleep", "600"], 60)
    finally:
        signal.signal(signal.SIGINT, before)
    (group,) = space.groups
    until(lambda: not is_alive(group))
