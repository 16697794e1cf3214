"""What a store folder promises besides: privacy, plain files, forgetting for good, versions and damage."""

from __future__ import annotations

import contextlib
import os
import random
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from packlight.errors import NotFound, StoreError
from packlight.store import MemoryStore, open_store, text_hash
from store_help import SOURCE, change, document, files_under, found, put, put_and_close, row

SECRET = "BRAVE_SEARCH_API_KEY=BSA0000000000000000"
HOSTILE_IDS = [
    "../../etc/cron.d/x",
    "..\\..\\x",
    "/abs/path",
    "a/../../b",
    "x\0y",
    "CON",
    "a" * 300,
    "toolu_%2e%2e",
    "．．/x",
    "\ud83d",
    "'; DROP TABLE batches; --",
    "",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


# The folder.


def test_nothing_is_written_before_the_first_put(folder: Path) -> None:
    store = open_store(folder)
    assert store.batches_at("o", [b"k"]) == store.documents(conversation=None, owner="o") == []
    assert store.search("x", conversation=None, owner="o") == []
    assert store.batch("1") is store.fact("f") is None
    assert store.usage_at([b"k"], owner="o") == {}
    assert store.purge(all=True).bytes_before == 0
    assert len(store.ref("text", owner="o")) == 12
    store.close()
    assert not folder.exists()


def test_importing_needs_no_sqlite(folder: Path) -> None:
    code = "import packlight.store; packlight.store.open_store(); assert 'sqlite3' not in sys.modules"
    program = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); {code}"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_another_object_sees_what_was_committed(folder: Path) -> None:
    first, second = open_store(folder), open_store(folder)
    assert second.batches_at("o", [b"key of 1"]) == []
    batch = put(first, "text", id="1")
    assert second.batches_at("o", [b"key of 1"]) == [batch]
    first.purge(all=True)
    assert second.batches_at("o", [b"key of 1"]) == []
    first.close()
    second.close()
    assert not (folder / "store.db-wal").exists()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_folder_is_private_whatever_the_umask(folder: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = open_store(folder)
        put(store, "text")
        store.write_file("text")
        store.write_transcript("c", ["line"], owner="o")
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
    assert {path.name for path in modes} >= {"store.db", "store.db-wal", "results", "transcripts", ".gitignore"}
    assert all(mode == (0o700 if path.is_dir() else 0o600) for path, mode in modes.items())
    assert (folder / ".gitignore").read_text() == "*\n"
    store.close()


@pytest.mark.parametrize("target", ["folder", "store.db", "results", ".gitignore"])
def test_symbolic_link_is_refused(folder: Path, tmp_path: Path, target: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if target == "folder":
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir()
        (folder / target).symlink_to(elsewhere / "planted")
    store = open_store(folder)
    with pytest.raises(StoreError, match="symbolic link"):
        put(store, "text")
    with pytest.raises(StoreError, match="symbolic link"):
        store.documents(conversation=None, owner="o")
    assert list(elsewhere.iterdir()) == []


def test_folder_with_something_else_is_left_alone(folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(StoreError, match="is a file"):
        put(open_store(folder))
    folder.unlink()
    folder.mkdir()
    (folder / "main.py").write_text("a project")
    with pytest.raises(StoreError, match="holds other files"):
        put(open_store(folder))
    assert [path.name for path in folder.iterdir()] == ["main.py"]


@pytest.mark.parametrize("name", HOSTILE_IDS)
def test_no_path_is_built_from_a_given_name(folder: Path, name: str) -> None:
    store = open_store(folder)
    given = {"conversation": name, "tool": name, "path": name, "call_id": name, "kind": name}
    store.put_batch(row(name, owner=name, conversation=name), {}, [document("text", **given)])  # type: ignore[arg-type]
    transcript = store.write_transcript(name, [name], owner=name)
    with contextlib.suppress(NotFound):
        store.document(name, conversation=name, owner=name)
    store.close()
    assert transcript and transcript.parent == folder / "transcripts"
    assert {path.name for path in folder.parent.iterdir()} == {"store"}
    assert {path.name for path in folder.iterdir()} == {".gitignore", "store.db", "transcripts"}


def test_results_are_plain_files_named_by_content(folder: Path) -> None:
    store = open_store(folder)
    texts = ["first\r\nline\n", "second \ud83d 压缩"]
    paths = [store.write_file(text) for text in texts]
    assert [path.name for path in paths if path] == [f"{text_hash(text)}.txt" for text in texts]
    assert [path.read_bytes() for path in paths if path] == [b"first\r\nline\n", "second \\ud83d 压缩".encode()]
    assert paths[0]
    paths[0].write_text("changed by the agent")
    assert store.write_file(texts[0]) == paths[0]
    assert paths[0].read_bytes() == b"first\r\nline\n"
    store.close()


def test_failing_transcript_leaves_the_one_before(folder: Path) -> None:
    store = open_store(folder)
    path = store.write_transcript("c", ["one", "two \ud83d"], owner="o")
    assert path and path.read_bytes() == b"one\ntwo \\ud83d\n"

    def failing() -> Iterator[str]:
        yield "half"
        raise OSError(28, "No space left on device")

    with pytest.raises(StoreError, match="No space left"):
        store.write_transcript("c", failing(), owner="o")
    assert files_under(folder / "transcripts") == {path: b"one\ntwo \\ud83d\n"}
    assert store.write_transcript("c", [], owner="p") != path
    store.close()


def test_memory_has_no_files() -> None:
    assert MemoryStore().write_file("text") is MemoryStore().write_transcript("c", ["line"], owner="o") is None


@pytest.mark.parametrize("how", [{"all": True}, {"conversation": "c"}, {"max_bytes": 0}, {"keep_days": 0}])
def test_no_byte_of_what_was_purged_remains(folder: Path, how: dict[str, object]) -> None:
    store = open_store(folder)
    generator = random.Random(3)
    for n in range(60):
        sizes = (generator.choice([5, 90, 500, 3_000, 9_000]) for _ in range(5))
        put(store, *(f"{SECRET} {generator.randbytes(size).hex()}" for size in sizes), id=str(n), body=SECRET.encode())
        assert found(store, "brave", "c")
    store.put_usage(b"u", SECRET.encode(), owner="o", conversation="c")
    store.write_file(f"{SECRET} file")
    store.put_batch(row("f", key=b"f"), {}, [document(f"{SECRET} file")])
    store.write_transcript("c", [SECRET], owner="o")
    put(store, "innocent", id="other", conversation="other")
    before = files_under(folder)
    assert sum(SECRET.encode() in data for data in before.values()) >= 3
    store.purge(**how, now_seconds=time.time() + 60)  # type: ignore[arg-type]
    assert [path.name for path, data in files_under(folder).items() if b"BSA000" in data.upper()] == []
    assert sum(len(data) for data in files_under(folder).values()) < 400_000
    assert (found(store, "innocent", None) == ["innocent"]) is ("conversation" in how)
    store.close()


def test_fresh_file_waits_for_its_batch(folder: Path) -> None:
    store = open_store(folder)
    put(store, "text", id="1")
    early, left_over = store.write_file("the batch comes next"), store.write_file("its batch never came")
    assert early and left_over
    os.utime(left_over, (0, 0))
    store.purge(conversation="another")
    assert early.exists() and not left_over.exists()
    store.close()


def test_closed_store_says_so(folder: Path) -> None:
    store = open_store(folder)
    put(store, "text")
    store.close()
    store.close()
    with pytest.raises(StoreError, match="was closed"):
        store.batch("b1")


def test_deleted_folder_is_made_again(folder: Path) -> None:
    store = open_store(folder)
    put(store, "text", id="1")
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert store.batch("1") is None
    assert put(store, "again", id="2").id == "2"
    assert store.batch("2") is not None
    store.close()


# Schema versions and damage.


def test_newer_schema_is_refused(folder: Path) -> None:
    put_and_close(folder)
    change(folder, "PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="newer packlight") as caught:
        open_store(folder).batch("b1")
    assert "\n" not in str(caught.value)


def test_older_schema_is_migrated(folder: Path) -> None:
    put_and_close(folder, "found later")
    change(folder, "DROP TABLE words", "PRAGMA user_version = 1")
    store = open_store(folder)
    assert found(store, "later") == ["found later"]
    store.close()


def test_foreign_database_is_refused(folder: Path) -> None:
    put_and_close(folder)
    change(folder, "PRAGMA application_id = 1")
    with pytest.raises(StoreError, match="no packlight store"):
        open_store(folder).batch("b1")


@pytest.mark.parametrize("damage", ["header", "all", "cut"])
def test_damage_is_one_clear_line(folder: Path, damage: str) -> None:
    put_and_close(folder, *(f"text {n}" * 99 for n in range(99)))
    path = folder / "store.db"
    data = bytearray(path.read_bytes())
    if damage == "header":
        data[:16] = b"garbage garbage!"
    elif damage == "all":
        data[4096:] = random.Random(5).randbytes(len(data) - 4096)
    else:
        del data[len(data) // 2 :]
    path.write_bytes(data)
    store = open_store(folder)
    with pytest.raises(StoreError) as caught:
        for one in store.documents(conversation=None, owner="o", limit=999):
            store.document(one.ref, conversation=None, owner="o")
        put(store, "more", id="2")
    assert "\n" not in str(caught.value) and "damaged" in str(caught.value)
    store.close()


def test_changed_content_is_not_given_out(folder: Path) -> None:
    batch = put_and_close(folder, "text")
    change(folder, "UPDATE blobs SET body = x'00', packed = 0")
    store = open_store(folder)
    with pytest.raises(StoreError, match="damaged"):
        store.blob(batch.originals[0])
    store.close()
