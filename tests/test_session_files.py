"""Objects are found however a file writes them; other packages can add readers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from packlight.errors import InvalidRequest, UnknownFormat
from packlight.replay.readers import FORMAT_NAMES, added, read_sessions
from packlight.replay.readers.lines import read_records
from packlight.replay.session import Notes, Segment, Session, Turn
from reader_helpers import lines, one

A, B = {"a": {"b": [1, {"c": "{"}]}}, {"type": "x\n{", "n": None}
GOOD = json.dumps(B, indent=2).encode()


def found(source: bytes) -> tuple[list[Any], list[str]]:
    notes = Notes()
    return read_records(source, notes)[0], notes.lines()


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize("between", [b"", b"\n", b"\r\n\r\n", b" \0\n"])
def test_concatenated_objects(indent: int | None, between: bytes) -> None:
    records, notes = found(b"\xef\xbb\xbf" + between.join(json.dumps(v, indent=indent).encode() for v in (A, B, A)))
    assert records == [A, B, A]
    assert notes == []


@pytest.mark.parametrize(("broken", "note"), [
    (b'{\n "cut": "of', "broken record (line 5)"), (b"}}", "broken record (line 5)"),
    (b'{"a": NaN}', "broken record (line 5)"), (b'{"a":' + b"[" * 1500 + b"]" * 1500 + b"}", "record"),
    (b"5", "value that is no record skipped"),
])  # fmt: skip
def test_broken_object_between(broken: bytes, note: str) -> None:
    records, notes = found(b"\n".join([json.dumps(B, indent=1).encode(), broken, GOOD, GOOD]))
    assert records[-1] == B
    assert len(notes) == 1 and note in notes[0]


def test_bytes_that_are_no_utf_8() -> None:
    records, notes = found(b'{\n "a": "\xff\x01"\n}')
    assert records == [{"a": "\ufffd\x01"}]
    assert len(notes) == 1


@pytest.mark.parametrize(
    "source", [b"", b" \n\n", b"\0\0", b"5", b"[1, [2]]", b'{\n"a": [', b"\xff\xfe{\0}\0", b"x\ny"]
)
def test_nothing_there(source: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_sessions(source)
    assert "\n" not in str(caught.value)


def test_broken_request_is_not_read_in_pieces() -> None:
    with pytest.raises(InvalidRequest, match="truncated"):
        read_sessions(b'{"messages": [\n{"role": "user", "content": "x"},\n{"role": "assistant", "content": "y"}')


class Diary:
    """A reader as somebody else would write it."""

    @staticmethod
    def recognise(records: list[Any]) -> bool:
        return all("dear_diary" in r for r in records)

    @staticmethod
    def read(records: list[Any], *, name: str, notes: Notes) -> list[Session]:
        messages = [{"role": "user", "content": r["dear_diary"]} for r in records]
        return [Session(name or "d", "diary", "chat", [Segment(messages, [Turn(1)])], notes=notes.lines())]


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = EntryPoints([
        EntryPoint("diary", f"{__name__}:Diary", added.GROUP),
        EntryPoint("gone", "no_such_module_anywhere", added.GROUP),
        EntryPoint("wrong", "json:loads", added.GROUP),
    ])  # fmt: skip
    monkeypatch.setattr(EntryPoint, "load", lambda e: {"diary": Diary, "wrong": json.loads}[e.name])
    monkeypatch.setattr(added, "entry_points", lambda group: points.select(group=group))
    added.readers.cache_clear()
    yield
    added.readers.cache_clear()


@pytest.mark.usefixtures("packages")
def test_reader_of_another_package() -> None:
    source = lines({"dear_diary": "sunny", "role": "user"}, {"dear_diary": "rain", "role": "user"})
    session = one(source)
    assert (session.reader, session.segments[0].messages[0]["content"]) == ("diary", "sunny")
    assert len(session.notes) == 2 and all("can't be used" in n for n in session.notes)
    assert one(source, format="diary").reader == "diary"
    assert one(source, format="chat").reader == "messages"
    with pytest.raises(UnknownFormat, match=r"messages.*diary"):
        read_sessions(source, format="gone")


def test_names_in_order() -> None:
    assert FORMAT_NAMES[-4:] == ("messages", "anthropic", "chat", "responses")
    assert len(set(FORMAT_NAMES)) == len(FORMAT_NAMES)
