"""What the recorded calls leave known of the files' present text."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from packlight import formats
from packlight.summary.copies import copies_text, ranked_blocks
from packlight.summary.files import file_events
from packlight.summary.follow import file_models
from packlight.view import View

ANTHROPIC = formats.FORMATS["anthropic"]
NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu")
TEXT = [f"line of {name} {n}" for n, name in enumerate(NAMES, 1)]
"""Thirteen lines, all different."""


def count(value):
    return max(1, len(json.dumps(value, ensure_ascii=False)) // 3)


def models_after(*turns):
    """The models after calls of (arguments, result text, tool's name)."""
    messages = [{"role": "user", "content": "go"}]
    for n, (arguments, result, *tool) in enumerate(turns):
        call = {"type": "tool_use", "id": f"t{n}", "name": tool[0] if tool else "tool", "input": arguments}
        answer = {"type": "tool_result", "tool_use_id": f"t{n}", "content": result, "is_error": result[:6] == "Error:"}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
    view = View(format=ANTHROPIC, messages=[formats.read_message(ANTHROPIC, m, count) for m in messages], count=count)
    return file_models(view, file_events(view), 0, len(messages))


def known_after(*turns):
    """Path -> [(number of the first line, lines)]."""
    return {m.path: [(f.start, f.lines) for f in m.fragments] for m in models_after(*turns)}


def read(path="/repo/a.py", lines=TEXT, **where):
    return {"file_path": path, **where}, "\n".join(lines)


def run(command, result="ok", **more):
    return {"command": command, **more}, result


def edit(old, new, path="/repo/a.py", result="ok"):
    return {"file_path": path, "old_string": old, "new_string": new}, result


def patch(hunks, path="/repo/a.py", result="Success"):
    return {"input": f"*** Begin Patch\n*** Update File: {path}\n{hunks}\n*** End Patch"}, result


KNOWN = {"/repo/a.py": [(1, TEXT)]}


@pytest.mark.parametrize(
    "command",
    [
        *("git checkout main", "git stash", "git merge dev", "git checkout -- a.py", "git reset --hard"),
        *(
            "sed -i 's/[ab]/c/' /repo/a.py",
            "python x.py > a.py",
            "mv b.py /repo/a.py",
            "cd /repo && rm -r .",
            "patch -p1 < x.diff",
        ),
        *(
            "cd repo && sed -i 4d ./a.py",
            "rm *.py",
            "python -c \"open('a.py', 'w')\"",
            "for f in a.py; do sed -i 1d $f; done",
        ),
    ],
)
def test_uncertain_file_is_dropped(command):
    assert known_after(read(), run(command)) == {}


@pytest.mark.parametrize(
    "command",
    [
        *("git status", "git checkout -b new", "git merge-base a b", "pytest a.py 2>&1 | tail", "python a.py"),
        *("npm test > /tmp/a.py.log", "git commit -m 'a.py > b, rm a.py'", "rm b/a.py.bak", "sed -n 's/a/b/p' a.py"),
        *(
            "cp a.py b.py",
            "git -C /repo/.worktrees/two checkout x",
            "git -C /tmp/x pull",
            "grep -n 'mv a.py' x | tee y",
        ),
    ],
)
def test_harmless_command_keeps_file(command):
    assert known_after(read(), run(command))["/repo/a.py"] == [(1, TEXT)]


@pytest.mark.parametrize(
    "turn",
    [
        run("npx prettier --write ."),
        run("npx prettier --write repo/a.py"),
        ({"prompt": "Please refactor all the handlers of the module and report"}, "done"),
        edit("not there", "x\ny"),
        edit("line of", "x", result="Error: File has been modified since read, either by the user or by a linter."),
    ],
)
def test_line_numbers_are_lost_when_uncertain(turn):
    assert known_after(read(), turn)["/repo/a.py"][0] == (0, TEXT)


def test_formatter_of_other_files_takes_nothing():
    assert known_after(read(), run("npx prettier --write r/b.py")) == KNOWN


def test_shell_reads_are_known():
    framed = "Wall time: 0 seconds\nProcess exited with code 0\nOutput:\n"
    part = run("sed -n '3,5p' a.py", framed + "\n".join(TEXT[2:5]) + "\n", workdir="/repo")
    assert known_after(part) == {"/repo/a.py": [(3, TEXT[2:5])]}
    assert known_after(run("cd /repo && cat a.py", "\n".join(TEXT))) == KNOWN
    assert known_after(run("cat a.py", "Process running with session ID 4\nOutput:\nhalf")) == {"a.py": [(1, ["half"])]}


def test_relative_shell_path_is_a_known_file_only_where_the_text_agrees():
    other = [line.upper() for line in TEXT]
    assert known_after(read(), run("sed -n '1,3p' a.py", "\n".join(TEXT[:3]))) == {
        "/repo/a.py": [(4, TEXT[3:]), (1, TEXT[:3])]
    }
    assert known_after(read(), run("cat a.py", "\n".join(other))) == {**KNOWN, "a.py": [(1, other)]}
    assert known_after(run("cat a.py", "\n".join(TEXT)), edit(TEXT[0], "x")) == {"a.py": [(1, ["x", *TEXT[1:]])]}


def test_root_and_folder_have_files_of_one_name():
    assert len(known_after(read("docs/README.md"), read("README.md", TEXT[::-1]))) == 2


def test_shell_writes_are_followed():
    after = known_after(
        run("cat > /repo/a.py <<'EOF'\n" + "\n".join(TEXT[:2]) + "\nEOF"), run("echo end >> /repo/a.py")
    )
    assert after == {"/repo/a.py": [(1, [*TEXT[:2], "end"])]}
    assert known_after(read(lines=TEXT[4:6], offset=5, limit=2), run("echo end >> /repo/a.py")) == {
        "/repo/a.py": [(5, TEXT[4:6]), (0, ["end"])]
    }
    assert known_after(read(), run("sed -i 's/of alpha/or/; 2s/line/LINE/' /repo/a.py")) == {
        "/repo/a.py": [(1, ["line or 1", "LINE of beta 2", *TEXT[2:]])]
    }
    assert known_after(read(), run("sed -i '3s/beta/x/' /repo/a.py")) == {}
    assert known_after(read(), run("mv /repo/a.py /repo/b.py && npm test")) == {"/repo/b.py": [(1, TEXT)]}
    assert known_after(read(), run("cp a.py b.py", workdir="/repo")) == {**KNOWN, "/repo/b.py": [(1, TEXT)]}


def test_failed_line_did_what_stands_first():
    line = "echo end >> /repo/a.py && npm test"
    assert known_after(read(), run(line, "Error: 3 failed")) == {"/repo/a.py": [(1, [*TEXT, "end"])]}
    assert known_after(read(), run(line, "Error: bash: /repo/a.py: Permission denied")) == {}
    assert known_after(read(), run("npm test; " + line, "Error: 3 failed")) == {}


def test_stash_comes_back():
    assert known_after(read(), run("git stash"), run("git stash pop")) == KNOWN
    assert (
        known_after(read(), run("git stash push -- repo/a.py"), run("pytest"), run("git stash pop && git status"))
        == KNOWN
    )
    assert known_after(read(), run("git stash"), run("git checkout x"), run("git stash pop")) == {}


def test_pull_drops_what_it_lists():
    told = "Fast-forward\n repo/a.py | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n"
    assert known_after(read(), read("/repo/b.py"), run("git pull", told)) == {"/repo/b.py": [(1, TEXT)]}


def test_script_that_is_run_changes_what_it_names():
    script = {"file_path": "/repo/fix.py", "content": "open('a.py', 'w').write(x)"}, "ok"
    assert list(known_after(read(), script, run("python /repo/fix.py"))) == ["/repo/fix.py"]
    harmless = {"file_path": "/repo/show.py", "content": "print(open('a.py').read())"}, "ok"
    assert set(known_after(read(), harmless, run("python /repo/show.py"))) == {"/repo/a.py", "/repo/show.py"}


def test_code_and_shell_scripts_change_what_they_name():
    assert known_after(read(), ({"code": "open('a.py', 'w').write(x > y)"}, "ok")) == {}
    assert known_after(read(), ({"code": "print(a > b)  # rm a.py"}, "ok")) == KNOWN
    script = {"file_path": "/repo/x.sh", "content": "sed -i 4d a.py\nbash x.sh\n"}, "ok"
    assert list(known_after(read(), script, run("bash x.sh"))) == ["/repo/x.sh"]


def test_hunks_of_patch_are_certain():
    hunk = f"@@\n {TEXT[1]}\n-{TEXT[2]}\n+new\n {TEXT[3]}"
    assert known_after(read(), patch(hunk)) == {"/repo/a.py": [(1, [*TEXT[:2], "new", *TEXT[3:]])]}
    assert known_after(patch(hunk)) == {"/repo/a.py": [(0, [TEXT[1], "new", TEXT[3]])]}
    refused = f"Error: Failed to find expected lines in /repo/a.py:\n{TEXT[1]}\n{TEXT[2]}\n{TEXT[3]}"
    assert known_after(read(), patch(hunk, result=refused)) == {}
    assert known_after(read(), patch(hunk.replace("gamma", "other"), result=refused)) == KNOWN


def test_edit_of_lines_partly_known_forgets_them():
    part = read(lines=TEXT[:4], offset=1, limit=4)
    after = known_after(part, edit("\n".join(TEXT[3:6]), "new line"))
    assert after == {"/repo/a.py": [(0, TEXT[:3]), (0, ["new line"])]}


def test_snippet_after_an_edit_tells_the_numbers():
    snippet = (
        "The file /repo/a.py has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n"
    )
    snippet += "".join(f"{n:6}→{line}\n" for n, line in enumerate(["new", *TEXT[9:12]], 9))
    assert known_after(edit("old", "new", result=snippet)) == {"/repo/a.py": [(9, ["new", *TEXT[9:12]])]}


def test_contradicting_read_takes_the_place_of_what_it_shows():
    moved = ["inserted", *TEXT]
    numbered = "".join(f"{n:6}→{line}\n" for n, line in enumerate(moved[4:8], 5))
    after = known_after(read(), ({"file_path": "/repo/a.py", "offset": 5, "limit": 4}, numbered))
    assert after == {"/repo/a.py": [(0, TEXT[:3]), (0, TEXT[7:]), (5, moved[4:8])]}


@pytest.mark.parametrize(
    "result",
    [
        "File unchanged since last read. The content from the earlier Read is still current.",
        "[Old tool result content cleared]",
        "Published /repo/a.py at https://x.org\nDone",
    ],
)
def test_report_is_no_copy_of_the_file(result):
    assert known_after(read(), ({"file_path": "/repo/a.py"}, result)) == KNOWN


def shown(models, *visible):
    return copies_text(models, ranked_blocks(models, set(visible), range(1_000)), 5_000)


def test_clipped_line_is_not_shown():
    text = shown(models_after(read(lines=["first line", "x" * 2000 + "... [truncated]", "third line"])))
    assert text == "--- /repo/a.py\n@1\nfirst line\n@3\nthird line"


def test_what_stands_elsewhere_is_not_shown_again():
    text = shown(
        models_after(read(lines=["first line", "the second line", "}", "the fourth line", "last line"])),
        "the second line",
        "the fourth line",
    )
    assert text == "--- /repo/a.py\n@1\nfirst line\n@5\nlast line"


def test_packages_stand_behind():
    models = models_after(read("/repo/a.py"), read("/repo/node_modules/x/index.js"))
    assert ranked_blocks(models, (), range(1_000))[0].file == 0


texts = st.sampled_from(
    ["", "one\ntwo\n", "two\nthree", "line one is long\nline two is long", "     1→a\n     2→b\n", "\ud83d"]
)
calls = st.one_of(
    st.tuples(st.sampled_from(["/repo/a.py", "a.py", "repo/a.py"]), texts).map(lambda p: ({"file_path": p[0]}, p[1])),
    st.tuples(texts, st.integers(0, 4)).map(lambda p: ({"path": "/repo/a.py", "offset": p[1], "limit": 2}, p[0])),
    st.tuples(texts, texts, st.booleans()).map(
        lambda p: ({"path": "a.py", "old_string": p[0], "new_string": p[1], "replace_all": p[2]}, "ok")
    ),
    st.tuples(texts, st.integers(-1, 9)).map(
        lambda p: ({"path": "/repo/a.py", "insert_line": p[1], "new_str": p[0]}, "ok")
    ),
    st.tuples(
        st.sampled_from(
            [
                *("cat a.py", "sed -n 1,2p a.py; sed -n 3,4p repo/a.py", "mv a.py b.py", "git stash", "git stash pop"),
                *(
                    "sed -i 's/one/two\\nx/' a.py",
                    "echo x >> /repo/a.py",
                    "git checkout a.py",
                    "gofmt -w .",
                    "cp b.py a.py",
                ),
            ]
        ),
        texts,
    ).map(lambda p: run(*p)),
)


@settings(max_examples=150)
@given(st.lists(calls, max_size=12))
@example([read(lines=["two"]), edit("two", ""), run("sed -i 's/one/a\\nb/' a.py", "")])
def test_any_history_is_followed_the_same_twice(turns):
    models = models_after(*turns)
    assert models == models_after(*turns)
    for model in models:
        assert all(f.lines and len(f.lines) == len(f.touched) and f.start >= 0 for f in model.fragments)
        spans = sorted((f.start, f.end) for f in model.fragments if f.start)
        assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
