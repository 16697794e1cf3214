"""Whatever a file is: its sessions with a note on what was wrong, or one clear line; never the square of its size."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from packlight import compact, validate
from packlight.errors import InvalidRequest
from packlight.replay.readers import find_files, read_sessions
from packlight.replay.session import Notes, Session
from packlight.tokens.usage import input_tokens
from reader_helpers import META, SESSIONS, assert_sound, lines, one, said

STREAM = (SESSIONS / "claude-stream.jsonl").read_bytes()


def in_zip(source: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("session.jsonl", source)
    return packed.getvalue()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, in_zip])
def test_packed_file(pack: Any) -> None:
    with pytest.raises(InvalidRequest, match="compressed") as caught:
        read_sessions(pack(STREAM))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["session", "session.log", "session.txt", "session.JSON", "session.jsonl.1"])
def test_name_says_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(STREAM)
    (session,) = read_sessions(path)
    assert (session.reader, session.turns) == ("claude-code", 8)


@pytest.mark.parametrize(("source", "why"), [
    (b"", "empty"), (b"\n \n", "empty"), (b"\x7fELF\2\1" + b"\0" * 9_000, "binary"), (b"{}", "messages"),
    ('{"role": "user"}'.encode("utf-16"), "UTF-16"), (b"some words\n" * 9, "not JSON"), (b"[]\n" * 99, "second value"),
    (b'"' + b"x" * 99_999 + b'"', "objects"), (b"[" * 5_000 + b"]" * 5_000, "nested"),
    (b'{"messages": [{"role": "user", "content": "' + b"x" * 99_999, "truncated"),
])  # fmt: skip
def test_one_line_says_why(source: bytes, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as caught:
        read_sessions(source)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def user(text: str) -> dict[str, Any]:
    return said("user", text)


def read_whole(session: Session) -> list[str]:
    assert_sound(session)
    return [i["content"][0]["text"] for i in session.segments[0].messages]


def test_records_on_one_line() -> None:
    """A whole log whose line ends were lost, and one with a broken beginning."""
    records = lines(META, *[user(str(i)) if i % 2 == 0 else said("assistant", str(i)) for i in range(200)])
    glued = records.replace(b"\n", b" ")
    for source in (glued, glued.replace(b" ", b""), b'{"type": "event_msg", "payload": [' + glued):
        assert read_whole(one(source)) == [str(i) for i in range(200)]


def test_many_broken_places_are_one_note() -> None:
    """They take no longer each than the first one did."""
    broken = b'\n{"type": "event_msg", "payload": {"a": 1, x}}' * 20_000
    session = one(lines(META, user("a")) + broken + b"\n" + lines(said("assistant", "b")))
    assert read_whole(session) == ["a", "b"]
    assert session.notes == ["20,000 x broken record (first on line 3)"]
    on_one_line = broken.replace(b"\n", b" ")
    session = one(lines(META, user("a")) + b"\n" + on_one_line + lines(said("assistant", "b")))
    assert read_whole(session) == ["a", "b"]


def test_record_longer_than_the_window_behind_a_break() -> None:
    """What is cut off by the end of what the parser was given is not broken."""
    long = {**user("x" * 10_000), "n": [123456] * 5_000, "s": '\\"' * 3_000, "t": [True, None] * 2_000}
    text = json.dumps(long).encode()
    for shift in range(40):
        session = one(lines(META) + b"\n{broken" + b" " * shift + text + lines(said("assistant", "b")))
        assert read_whole(session) == ["x" * 10_000, "b"]


def test_what_is_nested_wrongly_again_and_again_is_given_up() -> None:
    nested = b'{"type": ' * 400_000
    session = one(lines(META, user("a")) + b"\n" + nested + b"\n" + lines(said("assistant", "b")))
    assert read_whole(session) == ["a", "b"]
    assert any("too broken" in n for n in session.notes)


def test_cycle_of_parents() -> None:
    def record(i: int) -> dict[str, Any]:
        message = (
            {"role": "user", "content": "u"} if i % 2 == 0 else {"role": "assistant", "id": f"m{i}", "content": "a"}
        )
        return {"type": message["role"], "uuid": f"u{i}", "parentUuid": f"u{(i + 1) % 5_000}", "message": message}

    session = one(lines(*map(record, range(5_000))))
    assert session.turns == 2_500
    assert_sound(session)


def test_notes_do_not_grow_with_the_file() -> None:
    session = one(lines(META, *({"type": f"new-{i}" * 99, "payload": {}} for i in range(500))))
    assert len(session.notes) == 41 and max(map(len, session.notes)) < 250
    assert session.notes[-1] == "460 more kinds of notes"
    notes = Notes()
    notes.add("nothing", 0)
    assert notes.lines() == []


@pytest.mark.parametrize("kind", [["text"], {"type": "text"}, None, 1])
@pytest.mark.parametrize("format", ["anthropic", "chat", "responses"])
def test_type_that_is_no_word(kind: Any, format: str) -> None:
    """It is a block like any other that is not known."""
    block = {"type": kind, "text": "x", "source": {"type": kind}}
    messages = [{"role": role, "content": [block, {"type": "tool_result", "tool_use_id": kind, "content": [block]}]}
                for role in ("user", "assistant", "tool")]  # fmt: skip
    assert isinstance(validate(messages, format), list)
    assert compact(messages, format=format, force=True, window_tokens=1_000).restore() == messages


def test_folder_of_strange_things(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    good = tmp_path / "deep" / "good.jsonl"
    good.write_bytes(STREAM)
    (tmp_path / "broken.jsonl").symlink_to(tmp_path / "nowhere.jsonl")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "notes.md").write_text("x")
    assert find_files(tmp_path) == [good]


@pytest.mark.parametrize("value", [10**400, -(10**400), 1e308, -5, True, [], "9" * 400])
def test_times_and_counts_of_any_size(value: Any) -> None:
    """A number that is none of a time or of tokens is left out, whichever reader meets it."""
    spoken = {"role": "assistant", "content": [{"type": "text", "text": "x"}], "usage": {"input": value}}
    pi = lines(
        {"type": "session", "id": "s", "cwd": "/"},
        {"type": "message", "message": {"role": "user", "content": "go"}},
        {"type": "message", "timestamp": value, "message": spoken},
    )
    log = {"role": "assistant", "id": "m", "content": "x", "usage": {"input_tokens": value}}
    claude = lines(
        {"type": "user", "message": {"role": "user", "content": "go"}},
        {"type": "attachment", "attachment": {"type": "task_reminder", "content": value}},
        {"type": "assistant", "timestamp": value, "message": log},
    )
    for source in (pi, claude):
        (turn,) = one(source).segments[0].turns
        assert turn.seconds is None
        assert (input_tokens(turn.usage) or 0) >= 0
