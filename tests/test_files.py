"""What calls did to files, and the words for it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packlight import formats
from packlight.summary.files import FileEvent, file_events, patch_changes
from packlight.summary.reads import read_text
from packlight.summary.secrets import mask
from packlight.summary.wording import clean, error_lines, is_failure, one_line, outcome_of, preview, target_of
from packlight.types import Part
from packlight.view import View

ANTHROPIC = formats.FORMATS["anthropic"]


def count(value):
    return max(1, len(json.dumps(value, ensure_ascii=False)) // 3)


def view_of(*calls):
    """A conversation of (arguments, result text) pairs, one call a turn."""
    messages = [{"role": "user", "content": "go"}]
    for n, (arguments, result) in enumerate(calls):
        call = {"type": "tool_use", "id": f"t{n}", "name": "tool", "input": arguments}
        answer = {"type": "tool_result", "tool_use_id": f"t{n}", "content": result}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
    return View(format=ANTHROPIC, messages=[formats.read_message(ANTHROPIC, m, count) for m in messages], count=count)


def only(arguments, result="ok") -> FileEvent:
    (event,) = file_events(view_of((arguments, result)))
    return event


@pytest.mark.parametrize(
    ("arguments", "action", "path"),
    [
        ({"file_path": "/a.py"}, "read", "/a.py"),
        ({"filePath": "/a.py", "offset": 3, "limit": 9}, "read", "/a.py"),
        ({"command": "view", "path": "/a.py", "view_range": [3, 11]}, "read", "/a.py"),
        ({"file_path": "/a.py", "content": "x"}, "write", "/a.py"),
        ({"command": "create", "path": "/a.py", "file_text": "x"}, "write", "/a.py"),
        ({"file_path": "/a.py", "old_string": "x", "new_string": "y"}, "edit", "/a.py"),
        ({"path": "/a.py", "oldText": "x", "newText": ""}, "edit", "/a.py"),
        ({"command": "str_replace", "path": "/a.py", "old_str": "x"}, "edit", "/a.py"),
        ({"path": "src", "pattern": "x"}, "search", "src"),
    ],
)
def test_shape_tells_action(arguments, action, path):
    event = only(arguments)
    assert (event.action, event.path, event.ok) == (action, path, True)


def test_lines_of_read():
    assert [
        only(a).limit for a in ({"path": "a", "view_range": [3, 11]}, {"path": "a", "start_line": 3, "end_line": 11})
    ] == [9, 9]
    assert only({"path": "a", "offset": "7"}).offset == 7


def test_several_edits_in_one_call():
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d", "replace_all": True}]
    found = file_events(view_of(({"file_path": "/x", "edits": edits}, "ok")))
    assert [(e.old, e.new, e.everywhere) for e in found] == [("a", "b", False), ("c", "d", True)]


def test_failed_and_open_calls_are_not_ok():
    assert not only({"file_path": "/x", "old_string": "a", "new_string": "b"}, "Error: not found").ok
    messages = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "t", "input": {"path": "x"}}]}
    ]
    view = View(format=ANTHROPIC, messages=[formats.read_message(ANTHROPIC, m, count) for m in messages], count=count)
    assert [(e.ok, e.result_message) for e in file_events(view)] == [(False, -1)]


PATCH = """*** Begin Patch
*** Update File: a.py
@@ def f():
 keep
-old
+new
*** Add File: b.py
+one
+two
*** Delete File: c.py
*** End Patch"""


def test_patch_is_read():
    assert [(c.action, c.path, c.old, c.new) for c in patch_changes(PATCH)] == [
        ("edit", "a.py", "keep\nold", "keep\nnew"),
        ("write", "b.py", "", "one\ntwo\n"),
        ("delete", "c.py", "", ""),
    ]
    found = file_events(view_of(({"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]}, "ok")))
    assert [e.path for e in found] == ["a.py", "b.py", "c.py"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat src/a.py", [("read", "/w/src/a.py", False)]),
        ("cat a.py | grep x", [("read", "/w/a.py", True)]),
        ("cat > /r/new.sh <<'EOF'\necho hi\nEOF\nchmod +x new.sh", [("write", "/r/new.sh", False)]),
        ("sed -i 's/a*/b/' conf.ini", [("edit", "/w/conf.ini", True)]),
        ("cp a b.py", [("write", "/w/b.py", True)]),
        ("rm -rf build/x.o", [("delete", "/w/build/x.o", False)]),
        ("git checkout main && go vet", []),
    ],
)
def test_shell_commands_are_events_of_files(command, expected):
    run, *files = file_events(view_of(({"cmd": command, "workdir": "/w"}, "out")))
    assert (run.action, run.command, run.ok) == ("run", command, True)
    assert [(e.action, e.path, e.hint) for e in files] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("     1→a\n     2→\n     3→b", ("a\n\nb", 1)),
        ("12\ta\n13\tb", ("a\nb", 12)),
        ("28.   a\n29. \n30. b", ("  a\n\nb", 28)),
        ("1. first\n2. second", ("1. first\n2. second", 0)),
        ("<file>\n00002| \n00003|  x\n\n(File has more lines. Use 'offset' to read beyond 3)\n</file>", ("\n x", 2)),
        (
            "<path>/a</path>\n<type>file</type>\n<content>\n1: a\n2: b\n\n(End of file - total 2)\n</content>",
            ("a\nb", 1),
        ),
        ("<system>2 lines read from file starting from line 9.</system>\n     9\ta\n    10\tb\n", ("a\nb", 9)),
        (
            "\nIMPORTANT: The file content has been truncated.\nStatus: Showing lines 7-8 of 9 total lines.\n"
            "Action: To read more, use 'offset'.\n\n--- FILE CONTENT (truncated) ---\na\nb",
            ("a\nb", 7),
        ),
        (
            "<persisted-output>\nOutput too large (59.5KB). Full output saved to: /x.txt\n\nPreview (first 2KB):\n"
            "     1→a\n     2→b\n     3→half\n...\n</persisted-output>",
            ("a\nb", 1),
        ),
        ("1: not\n7: a listing", ("1: not\n7: a listing", 0)),
        ("plain\ntext", ("plain\ntext", 0)),
        ("a\nb\n\n... (46 more lines not shown. Use offset=3 to continue reading)", ("a\nb", 0)),
        ("a\nb (not shown)", ("a\nb (not shown)", 0)),
        ("a\nb\n\n[Showing lines 1-2 of 9 (1KB limit). Use offset=3 to continue]", ("a\nb", 0)),
        ("1→a\n\n<system-reminder>\nmind\n</system-reminder>\n", ("a", 1)),
    ],
)
def test_text_of_read(text, expected):
    assert read_text(Part("result", 0, text)) == expected


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (
            Part("result", 0, "Process exited with code 1\nOutput:\nModuleNotFoundError: x"),
            "exit 1: ModuleNotFoundError: x",
        ),
        (Part("result", 0, "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated"), "ok"),
        (Part("result", 0, '{"output":"a\\nb\\n","metadata":{"exit_code":0}}'), "2 lines"),
        (Part("result", 0, "<tool_use_error>File not read</tool_use_error>"), "error: File not read"),
        (Part("result", 0, "a\n" * 37), "37 lines"),
        (Part("result", 0, "1788528288"), "1788528288"),
        (Part("result", 0, "", is_error=True), "error"),
        (Part("result", 0, "def error(): ...\n" * 90), "90 lines"),
    ],
)
def test_outcome_is_told(result, outcome):
    assert outcome_of(result) == outcome


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        ({"file_path": "/a/b.py"}, "/a/b.py"),
        ({"command": "npm  test\n"}, "npm test"),
        ({"pattern": "def x", "path": "src"}, "def x in src"),
        ({"url": "https://x.org"}, "https://x.org"),
        ({"tabId": 3, "text": ""}, "tabId=3"),
    ],
)
def test_target_is_told(arguments, target):
    assert target_of(Part("call", 0, arguments=arguments)) == target


def test_target_is_short_and_without_secret():
    told = target_of(Part("call", 0, arguments={"command": "GITHUB_TOKEN=ghp_" + "0" * 36 + " gh api x" * 90}))
    assert "ghp_" not in told and "GITHUB_TOKEN" in told and len(told) <= 120


def test_clean_keeps_what_is_seen():
    assert clean("\x1b[32m✔\x1b[39m \x1b]0;title\x07ok\r\n10%\r50%\r100%\nnul\x00\ud83d") == "✔ ok\n100%\nnul\ufffd"


def test_error_lines_are_found_in_large_text():
    text = "fine\n" * 200_000 + "src/a.rs:3: error: bad\n  --> here\n" + "0 failed\n" * 1000
    assert error_lines(text, 4) == ["src/a.rs:3: error: bad", "  --> here"]


def test_preview_names_what_is_missing():
    text = "\n".join(f"line {i}" for i in range(500)).replace("line 250", "E   AssertionError: no")
    shown = preview(text, head_chars=100, tail_chars=100, error_lines=2)
    assert shown.startswith("line 0\n") and shown.endswith("line 499") and "AssertionError" in shown
    assert "lines" in shown and "line 100\n" not in shown


FAMILY = "👨‍👩‍👧‍👦"


@given(
    st.lists(st.sampled_from([*"ab\n\r", FAMILY, "🇩🇪", "é", "\ud83d"])).map("".join),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_preview_cuts_nothing_visible_in_two(text, head_chars, tail_chars):
    shown = preview(text, head_chars=head_chars, tail_chars=tail_chars)
    shown.encode("utf-8")
    for rest in shown.replace(FAMILY, "").replace("🇩🇪", ""):
        assert rest not in "\u200d👨👩👧👦🇩🇪"


@given(st.text(), st.integers(1, 200))
def test_one_line_is_one_short_line(text, limit):
    for keep_end in (False, True):
        line = one_line(text, limit, keep_end=keep_end)
        line.encode("utf-8")
        assert len(line) <= max(limit, len("[masked]")) and len(line.splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("BRAVE_SEARCH_API_KEY=BSA0000000000000000", "BRAVE_SEARCH_API_KEY=[masked]"),
        ('{"apiKey": "abc123def456"}', '{"apiKey": "[masked]"}'),
        ("postgres://me:hunter22@db/x", "postgres://me:[masked]@db/x"),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----[masked]-----END PRIVATE KEY-----",
        ),
        ("see xoxb-1234567890-abc", "see [masked]"),
        ("const key = item.key; max_tokens: 4096", "const key = item.key; max_tokens: 4096"),
        ("TOKEN=${TOKEN}", "TOKEN=${TOKEN}"),
        ("token = tokens[0]", "token = tokens[0]"),
    ],
)
def test_secrets_are_masked(text, masked):
    assert mask(text) == masked


def test_hostile_text_takes_linear_time():
    for piece in ("a", "\x1b]", "_", "'", "\r", "=", "KEY=", "<", "*** ", " ", "\u0301", "\n[Showing lines", "error"):
        text = piece * (400_000 // len(piece))
        result = Part("result", 0, text)
        outcome_of(result), is_failure(result), mask(text), preview(text, head_chars=50, tail_chars=50, error_lines=5)
        (
            read_text(result),
            target_of(Part("call", 0, arguments={"command": text})),
            list(patch_changes(text)),
        )
