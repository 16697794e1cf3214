"""The store folder under several processes, crashes, full disks and read-only folders."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from packlight.errors import StoreError
from packlight.store import Store, open_store, text_hash
from store_help import document, files_under, found, in_python, output_of, put, row, sha

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals, modes and mounts are POSIX")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def assert_whole(store: Store, folder: Path) -> None:
    """All that a committed row refers to is there, and the file is sound."""
    with sqlite3.connect(folder / "store.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        ids = [id.decode() for (id,) in connection.execute("SELECT id FROM batches")]
    connection.close()
    for id in ids:
        batch = store.batch(id)
        assert batch is not None
        assert all(sha(store.blob(hash)) == hash for hash in batch.originals)
        assert batch.parent is None or store.batch(batch.parent) is not None
    for one in store.documents(conversation=None, owner="o", limit=10_000):
        assert text_hash(one.text).startswith(one.ref)


# Several at once.


def test_of_two_processes_one_wins(folder: Path) -> None:
    code = """
        store = open_store(sys.argv[1])
        print("ready", flush=True)
        sys.stdin.readline()
        mine = row(sys.argv[2], sys.argv[2].encode(), key=sys.argv[2].encode(), parent=sys.argv[3] or None)
        chain = [b"1", b"2", b"3", b"4"]
        text = "text of " + sys.argv[2]
        print(store.put_batch(mine, {sha(mine.id.encode()): mine.id.encode()}, [document(text)], chain=chain).id)
    """
    parent = ""
    store = open_store(folder)
    for turn in range(4):
        racers = [in_python(code, folder, f"{n}", parent, stdin=subprocess.PIPE) for n in range(1, 5)]
        for racer in racers:
            assert racer.stdout and racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin
            racer.stdin.write("go\n")
            racer.stdin.flush()
        winners = {output_of(racer) for racer in racers}
        assert len(winners) == 1, turn
        [batch] = store.batches_at("o", {b"1", b"2", b"3", b"4"})
        assert {batch.id} == winners
        assert found(store, "text") == [f"text of {batch.id}"]
        store.purge(all=True)
        put(store, id=f"parent{turn}", key=b"parent")
        parent = f"parent{turn}"
    store.close()


def test_processes_that_begin_together_all_get_through(folder: Path) -> None:
    code = """
        for n in range(20 if sys.argv[1].endswith("0") else 1):
            put(open_store(sys.argv[1]), f"text {sys.argv[2]} {n}", id=f"{sys.argv[2]} {n}")
            found(open_store(sys.argv[1]), f"{sys.argv[2]} {n}")
    """
    for turn in range(5):  # the folder is made anew each time: that is the dangerous moment
        for writer in [in_python(code, folder / str(turn), n) for n in range(6)]:
            output_of(writer)
    store = open_store(folder / "0")
    assert len(store.documents(conversation="c", owner="o", limit=999)) == 120
    assert len(store.search("text", conversation="c", owner="o", limit=999)) == 120
    assert_whole(store, folder / "0")
    store.close()


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_threads_share_a_store(folder: Path, kind: str) -> None:
    store = open_store(folder if kind == "folder" else None)
    failures: list[Exception] = []

    def work(name: int) -> None:
        try:
            for n in range(15):
                put(store, f"thread {name} {n}", id=f"{name} {n}")
                assert found(store, f"thread {name} {n}")
                assert store.batches_at("o", [f"key of {name} {n}".encode()])
                store.put_usage(b"u", b"{}", owner="o", conversation="c")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(store.documents(conversation="c", owner="o", limit=999)) == 90
    store.close()


def test_first_commit_wins_among_threads() -> None:
    store = open_store()
    results: list[str] = []
    barrier = threading.Barrier(8)

    def work(name: int) -> None:
        barrier.wait()
        results.append(store.put_batch(row(str(name), key=bytes([name])), chain=[bytes([n]) for n in range(8)]).id)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1


def test_forked_child_goes_on(folder: Path) -> None:
    code = """
        import os
        store = open_store(sys.argv[1])
        put(store, "before the fork", id="1")
        child = os.fork()
        put(store, "in the child" if child == 0 else "in the parent", id="2" if child == 0 else "3")
        assert found(store, "before") == ["before the fork"]
        store.close()
        if child:
            assert os.waitpid(child, 0)[1] == 0
    """
    output_of(in_python(code, folder))
    store = open_store(folder)
    assert sorted(found(store, "the")) == ["before the fork", "in the child", "in the parent"]
    store.close()


def test_nothing_that_either_side_of_a_fork_writes_is_lost(folder: Path) -> None:
    """A child that believes to hold its parent's locks would write into a log that the parent deletes."""
    code = """
        import os
        for n in range(12):
            store = open_store(sys.argv[1])
            put(store, f"before {n}", id=f"before {n}")
            child = os.fork()
            put(store, f"{'parent' if child else 'child'} {n}", id=f"{n} {child == 0}")
            found(store, "before")
            store.close()
            if child == 0:
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    """
    output_of(in_python(code, folder))
    store = open_store(folder)
    texts = {d.text for d in store.documents(owner="o", conversation="c", limit=10**6)}
    assert {f"{who} {n}" for who in ("before", "parent", "child") for n in range(12)} - texts == set()
    store.close()


def test_a_fork_waits_for_what_other_threads_write(folder: Path) -> None:
    code = """
        import os, threading
        store = open_store(sys.argv[1])
        ended = threading.Event()

        def work():
            n = 0
            while not ended.is_set():
                n += 1
                put(store, f"thread {n}", id=f"thread {n}")
            put(store, f"wrote {n}", id="count")

        threads = [threading.Thread(target=work)]
        threads[0].start()
        for n in range(12):
            child = os.fork()
            put(store, f"child {n}" if child == 0 else f"parent {n}", id=f"{n} {child == 0}")
            if child == 0:
                store.close()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        ended.set()
        threads[0].join()
        store.close()
    """
    output_of(in_python(code, folder))
    store = open_store(folder)
    texts = {d.text for d in store.documents(owner="o", conversation="c", limit=10**6)}
    (count,) = (int(t.split()[1]) for t in texts if t.startswith("wrote"))
    wanted = {f"{who} {n}" for who in ("child", "parent") for n in range(12)} | {
        f"thread {n + 1}" for n in range(count)
    }
    assert wanted - texts == set()
    store.close()


def test_purge_while_another_process_reads_and_writes(folder: Path) -> None:
    code = """
        store = open_store(sys.argv[1])
        for n in range(40):
            put(store, f"text {n}", id=f"{n}", conversation=f"c{n % 3}")
            found(store, "text", None)
            store.batches_at("o", [b"key of 3"])
    """
    worker = in_python(code, folder)
    store = open_store(folder)
    while worker.poll() is None:
        store.purge(conversation="c1")
        time.sleep(0.01)
    output_of(worker)
    store.purge(conversation="c1")
    assert not any(
        "text" in hit.text and hit.conversation == "c1" for hit, _ in store.search("text", conversation=None, owner="o")
    )
    assert_whole(store, folder)
    store.close()


# Crashes.


def test_kill_at_any_moment_leaves_nothing_missing(folder: Path) -> None:
    code = """
        import random
        store = open_store(sys.argv[1])
        generator = random.Random(sys.argv[2])
        parent = None
        for n in range(10_000):
            id = f"{sys.argv[2]} {n}"
            texts = [generator.randbytes(generator.choice([10, 3_000, 90_000])).hex() for _ in range(4)]
            path = store.write_file(texts[0])
            put(store, *texts, id=id, parent=parent, key=id.encode())
            parent = id
            print(id, path, flush=True)
            if n % 5 == 0:
                found(store, "a1")
    """
    generator = random.Random(11)
    store = None
    for turn in range(12):
        writer = in_python(code, folder, turn)
        assert writer.stdout
        first = writer.stdout.readline() if turn else ""  # the first one may be killed while it makes the folder
        time.sleep(generator.random() * 0.3)
        writer.send_signal(signal.SIGKILL)
        printed = (first + writer.communicate()[0]).splitlines()
        store = open_store(folder)
        for line in printed:
            *id, path = line.split()
            assert store.batch(" ".join(id)) is not None
            assert text_hash(Path(path).read_text()) == Path(path).stem
        put(store, f"after {turn}", id=f"after {turn}", conversation="d", key=f"after {turn}".encode())
        assert_whole(store, folder)
        store.close()


def test_kill_while_the_folder_is_made(folder: Path) -> None:
    code = "put(open_store(sys.argv[1]), 'text'); print('done', flush=True)"
    for turn in range(6):
        place = folder / str(turn)
        writer = in_python(code, place)
        while not place.exists() and writer.poll() is None:
            pass
        time.sleep(turn * 0.002)
        writer.kill()
        writer.communicate()
        store = open_store(place)
        assert put(store, "after", id="after", key=b"after").id == "after"
        assert_whole(store, place)
        store.close()


# Full disks and read-only folders.


def test_file_size_limit_is_a_clear_error(folder: Path) -> None:
    code = """
        import random, resource
        from packlight.errors import StoreError
        store = open_store(sys.argv[1])
        put(store, "before", id="1")
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
        for attempt in (
            lambda: put(store, random.Random(1).randbytes(600_000).hex(), id="2"),
            lambda: store.write_file("x" * 600_000),
        ):
            try:
                attempt()
            except StoreError as error:
                assert "\\n" not in str(error), error
            else:
                raise AssertionError("no error")
        assert store.batch("2") is None
        assert found(store, "before") == ["before"]
        assert put(store, "small", id="3", key=b"3").id == "3"
    """
    output_of(in_python(code, folder))
    assert not list((folder / "results").iterdir())
    store = open_store(folder)
    assert sorted(one.text for one in store.documents(conversation="c", owner="o")) == ["before", "small"]
    assert_whole(store, folder)
    store.close()


def run(*command: object) -> None:
    try:
        subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"can't mount here: {error}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    place = tmp_path / "disk"
    place.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_full_disk_is_a_clear_error_and_passes(small_disk: Path) -> None:
    store = open_store(small_disk / "store")
    put(store, "before", id="1")
    text = random.Random(1).randbytes(900_000).hex()
    with pytest.raises(StoreError, match=r"full|written") as caught:
        put(store, text, id="2")
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match="No space left"):
        store.write_file(text)
    assert store.batch("2") is None
    assert found(store, "before") == ["before"]
    run("mount", "-o", "remount,size=16m", small_disk)
    assert put(store, text, id="2").id == "2"
    assert_whole(store, small_disk / "store")
    store.close()


def test_disk_full_from_the_start_leaves_a_usable_folder(small_disk: Path) -> None:
    filler = fill(small_disk)
    store = open_store(small_disk / "store")
    with pytest.raises(StoreError):
        put(store, "text", id="1")
    assert store.documents(conversation=None, owner="o") == []
    filler.unlink()
    assert put(store, "text", id="1").id == "1"
    assert found(store, "text") == ["text"]
    store.close()


@pytest.mark.parametrize("last", ["store.close()", "os._exit(0)"])
def test_full_disk_is_still_read(small_disk: Path, last: str) -> None:
    code = f"import os\nstore = open_store(sys.argv[1])\nput(store, 'read me', id='1')\n{last}"
    output_of(in_python(code, small_disk / "store"))
    fill(small_disk)
    store = open_store(small_disk / "store")
    assert found(store, "read") == ["read me"]
    [batch] = store.batches_at("o", [b"key of 1"])
    assert store.blob(batch.originals[0]) == b"original of read me"
    with pytest.raises(StoreError):
        put(store, "x" * 100_000, id="2")
    assert found(store, "read") == ["read me"]
    store.close()


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4_096)
    return filler


@pytest.fixture
def read_only(folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A store that can't be written; `param` says what its last writer left behind."""
    left = getattr(request, "param", "closed")
    last = "os._exit(0)" if left != "closed" else "store.close()"
    code = f"import os\nstore = open_store(sys.argv[1])\nput(store, 'read me 压缩', id='1')\n{last}"
    output_of(in_python(code, folder))
    assert (folder / "store.db-wal").exists() is (left != "closed")
    if left == "log":
        (folder / "store.db-shm").unlink()
    if os.geteuid() != 0:
        folder.chmod(0o500)
        yield folder
        folder.chmod(0o700)
        return
    place = tmp_path / "mounted"
    place.mkdir()
    run("mount", "--bind", folder, place)
    run("mount", "-o", "remount,ro,bind", place)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("read_only", ["closed", "log", "log and index"], indirect=True)
def test_read_only_folder_is_read_and_searched(read_only: Path) -> None:
    before = files_under(read_only)
    store = open_store(read_only)
    assert found(store, "压缩") == ["read me 压缩"]
    [batch] = store.batches_at("o", [b"key of 1"])
    assert store.blob(batch.originals[0]) == "original of read me 压缩".encode()
    assert store.document(text_hash("read me 压缩")[:8], conversation="c", owner="o").text == "read me 压缩"
    for write in (
        lambda: put(store, "more", id="2"),
        lambda: store.write_file("text"),
        lambda: store.put_fact("key", b"value"),
        lambda: store.purge(all=True),
    ):
        with pytest.raises(StoreError) as caught:
            write()
        assert "\n" not in str(caught.value)
    assert found(store, "read") == ["read me 压缩"]
    assert store.batches_at("o", [b"key of 1"]) == [batch]
    store.close()
    assert files_under(read_only) == before


def test_parent_that_can_not_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = open_store(tmp_path / "file" / "store")
    assert store.documents(conversation=None, owner="o") == []
    with pytest.raises(StoreError):
        store.put_batch(row("1"), {}, [document("text")])


def test_forgotten_store_closes_itself(folder: Path) -> None:
    code = """
        import warnings
        warnings.simplefilter("error")
        store = open_store(sys.argv[1])
        put(store, "text")
    """
    process = in_python(code, folder)
    assert process.communicate(timeout=60) == ("", "")
    assert not (folder / "store.db-wal").exists()
