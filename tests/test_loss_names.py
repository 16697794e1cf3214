"""What counts as a name, and when one is found again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packlight.replay.loss.identifiers import identifiers, keys_of, stands_in


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see src/packlight/view.py:12, and ./docs/design.md.", {"src/packlight/view.py", "docs/design.md"}),
        ("/home/u/repo/a.py", {"home/u/repo/a.py"}),
        (r"D:\dev\tests\foo.cs", {"dev/tests/foo.cs"}),
        (r"D:\\dev\\tests\\foo.cs", {"dev/tests/foo.cs"}),
        ("def read_file(maxTokens, HTTPServer):", {"read_file", "maxTokens", "HTTPServer"}),
        ("self.store.read_file(x)", {"read_file"}),
        ("port 8080, took 42 ms, v2.1.217, 3f9a1c0de", {"8080", "2.1.217", "3f9a1c0de"}),
        ("reservation ZFA04Y of user mia_li_3668", {"ZFA04Y", "mia_li_3668"}),
        ("and/or I/O yes read-only The Parser os.path.join console.log", set()),
        (r"\treadFile\nread_file", {"readFile", "read_file"}),
        ("   120→def load_all():\n121\tpass", {"load_all"}),
        ("读取config_loader.py文件", {"config_loader.py"}),
        ("", set()),
    ],
)
def test_names_of_a_text(text: str, names: set[str]) -> None:
    assert identifiers(text) == names


@pytest.mark.parametrize(
    ("name", "shown", "found"),
    [
        ("src/a/view.py", "src/a/view.py", True),
        ("src/a/view.py", "/repo/src/a/view.py", True),
        ("repo/src/a/view.py", "a/view.py", True),
        ("view.py", "src/a/view.py", True),
        ("src/a/view.py", "view.py", False),
        ("src/a/view.py", "src/b/view.py", False),
        ("read_file", "read_files", False),
    ],
)
def test_path_is_found_however_it_is_spelled(name: str, shown: str, found: bool) -> None:
    keys = {key for n in identifiers(shown) for key in keys_of(n)}
    assert stands_in(name, keys) is found


@given(st.text(), st.text())
def test_more_text_has_no_fewer_names(first: str, second: str) -> None:
    assert identifiers(first) | identifiers(second) <= identifiers(first + "\n" + second)


@given(st.text(alphabet="aZ_./\\-@9 →\n\t:"))
def test_every_name_stands_in_its_text(text: str) -> None:
    for name in identifiers(text):
        assert stands_in(name, {key for n in identifiers(text) for key in keys_of(n)})
