"""Shell commands: their words, what they do to files, and which lines their output shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packlight.summary.effects import line_effects, touches_files
from packlight.summary.shell import UNKNOWN, commands, joined
from packlight.summary.shown import shown_files


def words(line):
    return [c.words for c in commands(line) or []]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('a \'b c\' "d\\"e" f\\ g', [["a", "b c", 'd"e', "f g"]]),
        ("a && b | c; d & e\nf", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("cat D:\\src\\a.go", [["cat", "D:\\src\\a.go"]]),
        ("A=1 B=2 make # x > y", [["make"]]),
        ("F=src/a.py; cat $F ${F} $G", [["cat", "src/a.py", "src/a.py", UNKNOWN]]),
        ("sudo timeout 9 rm x", [["rm", "x"]]),
        ("bash -lc 'cd x && rm y'", [["cd", "x"], ["rm", "y"]]),
        ("echo \"$(rm a; echo ')')\" `date`", [["rm", "a"], ["echo", ")"], ["echo", UNKNOWN, UNKNOWN]]),
        ("if [ -f a ]; then cat a; fi", [["if"], ["[", "-f", "a", "]"], ["cat", "a"], ["fi"]]),
    ],
)
def test_line_is_split_into_words(line, expected):
    assert words(line) == expected


@pytest.mark.parametrize("line", ["echo 'open", 'echo "open', "echo $(open", "x " * 20_001, "$(" * 99])
def test_unreadable_line_is_none(line):
    assert commands(line) is None


def test_heredoc_belongs_to_its_command():
    first, second = commands("cat > a <<'E1' && tee b <<-E2\nrm x > y\nE1\n\tz\n\tE2\n")
    assert (first.words, first.outputs, first.body) == (["cat"], [("a", False)], "rm x > y\n")
    assert (second.words, second.joint, second.body) == (["tee", "b"], "&&", "z\n")
    assert commands("cat > a <<E\n$HOME\nE")[0].body is None


def test_cd_holds_for_what_follows():
    found = commands("cd /r/src && a; (cd sub; b); c; cd ..; d; cd $X; e")
    folders = {c.words[0]: c.folder for c in found if c.words[0] != "cd"}
    assert folders == {"a": "/r/src", "b": "/r/src/sub", "c": "/r/src", "d": "/r", "e": ""}
    assert joined("/r/src", "../a//./b.py") == "/r/a/b.py" and joined("/r", "~/x") == "~/x"


def done(line, output="", folder=""):
    return [(e.kind, e.path) for e in line_effects(line, folder, output)[1]]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pytest a.py > /tmp/out 2>&1", [("change", "/tmp/out")]),
        ("cd /r && echo x >> a.py", [("append", "/r/a.py")]),
        ("cat > a.py <<'EOF'\nx = 1\nEOF", [("write", "a.py")]),
        ("cat > a.py <<EOF\n$X\nEOF", [("change", "a.py")]),
        ("cat b.py > a.py", [("copy", "a.py")]),
        ("mv a.py b/", [("copy", "b/a.py"), ("delete", "a.py")]),
        ("cp -f a.py b.py", [("copy", "b.py")]),
        ("git rm -q a.py; rm -rf build 'x y'", [("delete", "a.py"), ("delete", "build"), ("delete", "x y")]),
        ("npm test | tee log.txt", [("change", "log.txt")]),
        ("sed -i 's/a/b/' a.py b.py", [("replace", "a.py"), ("replace", "b.py")]),
        ("sed -i '' -e 's|a|b|g' a.py", [("replace", "a.py")]),
        ("sed -i '3s/a\\.b/c/; s/^x$/y/' a.py", [("replace", "a.py"), ("replace", "a.py")]),
        ("sed -i 's/a*/b/' a.py", [("change", "a.py")]),
        ("sed -i '4,9d' a.py", [("change", "a.py")]),
        ("perl -pi -e 's/(a)/$1/' a.py", [("change", "a.py")]),
        ("sed -n 's/a/b/p' a.py", []),
        ("python x/validate.py --out 3", [("script", "x/validate.py")]),
        ("python -c \"print(open('a.py').read())\"", []),
        ("python - <<'EOF'\nopen('a.py', 'w').write('')\nEOF", [("named", "")]),
        ('node -e \'require("fs").writeFileSync("a.js", x)\'', [("named", "")]),
        ("python -c 'for p in Path().glob(\"*\"): p.write_text(x)'", [("all", "")]),
        ("cat > /tmp/f.py <<'E'\nopen('a.py','w')\nE\npython3 /tmp/f.py", [("write", "/tmp/f.py"), ("named", "")]),
        ("npx prettier --write src/a.ts", [("format", "src/a.ts")]),
        ("uv run ruff check --fix", [("format", "")]),
        ("npx prettier --check .", []),
        ("bun run lint:fix", [("format", "")]),
        ("npm install left-pad", [("change", "package.json")]),
        ("npm install", []),
        ("rg -l old | xargs sed -i s/a/b/", [("all", "")]),
        ("for f in a b; do rm $f; done", [("named", "")]),
        ("find . -name '*.pyc' -delete", [("change", "*.pyc")]),
        ("Set-Content -Path a.ps1 -Value x", [("change", "a.ps1")]),
        ("echo 'never closed > a.py", [("named", "")]),
        ("echo 'a > b' && grep -n '>' a.py", []),
    ],
)
def test_what_a_command_does_to_files(line, expected):
    assert touches_files(line)
    assert [e for e in done(line) if e != ("script", "-")] == expected


@pytest.mark.parametrize(
    ("line", "output", "expected"),
    [
        ("git commit -m \"$(cat <<'EOF'\nmv a.py > b.py\nEOF\n)\"", "", []),
        ("git apply --cached x.patch && git stash list", "", []),
        ("git reset a.py && git checkout -b new && git restore --staged a.py", "", []),
        ("git checkout -- a.py b.py", "", [("change", "a.py"), ("change", "b.py")]),
        ("git -C /r checkout --ours a.py", "", [("change", "/r/a.py")]),
        ("git checkout HEAD~1 src/a.py", "", [("change", "src/a.py")]),
        ("git restore --source main a.py", "", [("change", "a.py")]),
        ("git checkout main", "Switched to branch 'main'", [("all", "")]),
        ("git checkout main", "Already on 'main'", []),
        ("git checkout main && git pull", "Switched to branch 'main'\nAlready up to date.", [("all", "")]),
        ("git pull", "Already up to date.", []),
        (
            "git pull",
            "Fast-forward\n a.py   | 2 +-\n .../b.png | Bin 0 -> 9 bytes\n 2 files changed, 1 insertion(+)",
            None,
        ),
        ("git pull | tail -2", " b.py | 2 +-\n 2 files changed, 1 insertion(+)", [("all", "")]),
        ("git merge x", "CONFLICT (content)\n a.py | 1 +\n 1 file changed", [("all", "")]),
        ("git reset --hard HEAD~1", "", [("all", "")]),
        ("git rebase -i --autosquash HEAD~3", "Successfully rebased and updated refs/heads/x.", []),
        ("git stash push -m note -- a.py", "", [("stash", "")]),
        ("git stash && npm test; git stash pop", "", [("stash", ""), ("unstash", "")]),
        ("git stash", "No local changes to save", []),
    ],
)
def test_what_git_does_to_files(line, output, expected):
    assert done(line, output) == ([("change", "a.py"), ("change", "b.png")] if expected is None else expected)


def test_text_written_before_a_checkout_is_not_certain():
    line = "cat > a.py <<'E'\nx\nE\ngit checkout main"
    assert done(line) == [("change", "a.py"), ("all", "")]
    assert done("git checkout main; " + line[:22]) == [("all", ""), ("write", "a.py")]


def shown(line, output, framed=True, folder=""):
    found = shown_files(commands(line, folder), output, is_framed=framed)
    return [(s.path, s.first, output[s.start : s.stop]) if s.start >= 0 else (s.path, None, None) for s in found]


def lines(first, last):
    return "".join(f"line {n}\n" for n in range(first, last + 1))


def numbered(first, last):
    return "".join(f"{n:6}\tline {n}\n" for n in range(first, last + 1))


@pytest.mark.parametrize(
    ("line", "output", "expected"),
    [
        ("cat a.py", lines(1, 3), [("a.py", 1, lines(1, 3))]),
        ("cd /r && sed -n '3,5p' a.py", lines(3, 5), [("/r/a.py", 3, lines(3, 5))]),
        ("head -n 2 a.py", lines(1, 2), [("a.py", 1, lines(1, 2))]),
        ("tail -n +3 a.py", lines(3, 5), [("a.py", 3, lines(3, 5))]),
        ("tail -2 a.py", lines(4, 5), [("a.py", 0, lines(4, 5))]),
        ("nl -ba a.py | sed -n '3,4p'", numbered(3, 4), [("a.py", 3, numbered(3, 4))]),
        ("cat a.py | head -40 | tail -n +2", lines(2, 9), [("a.py", 2, lines(2, 9))]),
        ("sed -n '1,2p;8,9p' a.py", "1\n2\n8\n", [("a.py", 1, "1\n2\n"), ("a.py", 8, "8\n")]),
        ("sed -n 1,2p a; sed -n 4,5p b", "1\n2\n4\n5\n", [("a", 1, "1\n2\n"), ("b", 4, "4\n5\n")]),
        ("sed -n 1,3p a; sed -n 4,5p b", "1\n2\n4\n", [("a", 1, "1\n"), ("b", None, None)]),
        ("nl -ba a; cat -n b", numbered(1, 3) + numbered(1, 2), [("a", 1, numbered(1, 3)), ("b", 1, numbered(1, 2))]),
        ("cat a && echo '=====' && cat b", "x\n=====\ny\n", [("a", 1, "x\n"), ("b", 1, "y\n")]),
        ("cat a; printf '\\n--\\n'; cat b", "x\n\n--\ny\n", [("a", 1, "x\n"), ("b", 1, "y\n")]),
        ("cat a; echo --; cat b", "x\n--\n--\ny\n", [("a", None, None), ("b", None, None)]),
        ("cat a b", "x\ny\n", [("a", None, None), ("b", None, None)]),
        ("cat a; git status", "x\nclean\n", [("a", None, None)]),
        ("cat a | grep x", "x\n", [("a", None, None)]),
        ("cat a > b", "", []),
        ("echo $(cat a)", "x\n", [("a", None, None)]),
        ("cat a; cat b", "x\ncat: b: No such file or directory\n", [("a", None, None), ("b", None, None)]),
        ("sed -n 's/a/b/p' a.py", "b\n", [("a.py", None, None)]),
        ("pytest a.py", "ok\n", []),
    ],
)
def test_lines_that_an_output_shows(line, output, expected):
    assert shown(line, output) == expected


def test_output_that_was_cut_is_certain_up_to_there():
    warned = "Warning: truncated output (original token count: 9)\nTotal output lines: 9\n\n"
    output = f"{warned}{lines(1, 3)}line 4 and mo…99 tokens truncated…e\nline 9\n"
    assert shown("cat a.py", output) == [("a.py", 1, lines(1, 3).removesuffix("\n"))]
    assert shown("cat a; echo ==; cat b", output) == [("a", None, None), ("b", None, None)]


def test_number_is_not_certain_where_blank_lines_may_be_missing():
    assert shown("sed -n '3,9p' a.py", lines(3, 5), framed=False) == [("a.py", 0, lines(3, 5))]
    assert shown("sed -n '3,5p' a.py", lines(3, 5), framed=False) == [("a.py", 3, lines(3, 5))]


pieces = st.sampled_from(
    [
        *(
            "cat",
            "sed",
            "-i",
            "-n",
            "git",
            "stash",
            "checkout",
            "rm",
            "mv",
            "echo",
            "a.py",
            "b",
            "1,3p",
            "s/a/b/g",
            "cd",
        ),
        *(
            "'",
            '"',
            "$(",
            ")",
            "`",
            "\\",
            "\n",
            "|",
            "&&",
            ";",
            ">",
            ">>",
            "<<E",
            "E\n",
            "<<'E'",
            "$X",
            "${",
            "}",
            "A=$A$A",
        ),
        *(
            " ",
            "  ",
            "*",
            "~",
            "..",
            "/",
            "\x00",
            "\ud83d",
            "漢",
            "#",
            "((",
            "for",
            "do",
            "done",
            "bash -c",
            "xargs",
            "tee",
        ),
    ]
)


@given(st.lists(pieces, max_size=40).map(" ".join) | st.text(max_size=60), st.text(max_size=60))
def test_any_line_is_read_without_an_error(line, output):
    run, effects = line_effects(line, "/r", output)
    assert line_effects(line, "/r", output) == (run, effects)
    for piece in shown_files(run, output, is_framed=False):
        assert -1 <= piece.start <= piece.stop <= len(output)


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "cat a;",
            "'",
            "$(",
            "<<E ",
            "A=$A$A;",
            "sed -i s/",
            "s/a/",
            "rm a ",
            "tee a <<E\nE\n",
            "| head ",
            "echo == ;cat a;",
        ),
        *("\\", "`", "sed -n 1p a;", "git stash;", "cat > a <<'E'\nE\n", "{", "((", ">a ", "x=y ", "-e s/a/b/ "),
    ],
)
def test_hostile_line_takes_linear_time(piece):
    line = piece * (40_000 // len(piece))
    output = "==\n" * 20_000
    for text in (line[:19_000], "sed -i " + line[:19_000], line):
        run, _ = line_effects(text, "", output)
        shown_files(run, output, is_framed=True)
