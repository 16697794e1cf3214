"""How fast the store is, as ratios to plain ways of writing the same bytes in the same run.

    python bench/store.py            # prints, and writes bench/results/store.md

Content: lines of code with a counter in them, in blobs of 2,000 bytes, each also given as a document (what the engine
does for results). Baselines: the same bytes into one file with fsync; one SQLite insert of one value.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from packlight.store import BatchRow, Document, MemoryStore, Store, open_store

BLOB_BYTES = 2_000
RESULTS = Path(__file__).parent / "results" / "store.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many runs counts")
    repeat = parser.parse_args().repeat
    lines = [*header(), *commits(repeat), "", *questions(repeat)]
    text = "\n".join(lines) + "\n"
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(text, encoding="utf-8")
    print(text, end="")


def header() -> list[str]:
    return [
        "# Store",
        "",
        f"`PYTHONPATH=src python bench/store.py`: Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"{os.cpu_count()} cores, a noisy machine: compare the ratios.",
        "",
    ]


def commits(repeat: int) -> list[str]:
    rows = [
        "| one batch | CPU ms | wall ms | CPU: file with fsync = 1 | CPU: one SQLite insert = 1 |",
        "|---|---|---|---|---|",
    ]
    for count in (1_000, 10_000):
        texts = contents(count)
        data = "".join(texts).encode()
        ways: dict[str, Callable[[Path], None]] = {
            "file with fsync": lambda folder, data=data: write_file(folder, data),
            "one SQLite insert": lambda folder, data=data: insert_once(folder, data),
            "memory, originals": lambda _, texts=texts: put(MemoryStore(), texts, documents=False),
            "folder, originals": lambda folder, texts=texts: put(open_store(folder / "s"), texts, documents=False),
            "folder, originals and documents": lambda folder, texts=texts: put(open_store(folder / "s"), texts),
        }
        taken = {name: best(way, repeat) for name, way in ways.items()}
        file_cpu, insert_cpu = taken["file with fsync"][0], taken["one SQLite insert"][0]
        for name, (cpu, wall) in taken.items():
            label = f"{count:,} / {len(data) / 1e6:.0f} MB: {name}"
            rows.append(f"| {label} | {cpu:.0f} | {wall:.0f} | {cpu / file_cpu:.1f} | {cpu / insert_cpu:.1f} |")
    return rows


def questions(repeat: int) -> list[str]:
    rows = ["| 10,000 documents / 20 MB in the folder | wall ms |", "|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "s")
        put(store, contents(10_000))
        asked = {index.to_bytes(32, "big") for index in range(10_000)}
        rows.append(f"| first search (indexes everything) | {once(lambda: ask(store, 'value_777')):.0f} |")
        rows.append(f"| next search | {timed(lambda: ask(store, 'value_778 compute'), repeat):.2f} |")
        rows.append(f"| batches at 10,000 chain hashes | {timed(lambda: store.batches_at('o', asked), repeat):.3f} |")
        rows.append(f"| usage at 10,000 chain hashes | {timed(lambda: store.usage_at(asked, owner='o'), repeat):.1f} |")
        ref = store.ref(contents(1)[0], owner="o")
        asks = lambda: store.document(ref, conversation="c", owner="o")  # noqa: E731
        rows.append(f"| one document by reference | {timed(asks, repeat):.3f} |")
        rows.append(f"| purge of all | {once(lambda: store.purge(all=True)):.0f} |")
        store.close()
    return rows


def contents(count: int) -> list[str]:
    lines = []
    for index in range(count):
        text = ""
        while len(text) < BLOB_BYTES:
            seed = hashlib.sha256(f"{index} {len(text)}".encode()).hexdigest()
            text += f"    value_{index} = compute_{seed[:6]}(self.items[{len(text)}], key='{seed[6:14]}')  # step\n"
        lines.append(text[:BLOB_BYTES])
    return lines


def put(store: Store, texts: list[str], *, documents: bool = True) -> None:
    # Originals are messages around the texts: other bytes than the documents.
    originals = [f'{{"role":"tool","content":{text!r}}}'.encode() for text in texts]
    blobs = {hashlib.sha256(data).hexdigest(): data for data in originals}
    found = [
        Document(ref=store.ref(text, owner="o"), text=text, conversation="c", kind="result", ordinal=index)
        for index, text in enumerate(texts if documents else ())
    ]
    row = BatchRow(
        id="b",
        parent=None,
        owner="o",
        conversation="c",
        key=(0).to_bytes(32, "big"),
        key_index=1,
        result=b"r",
        result_index=1,
        body=b"[]",
        originals=tuple(blobs),
        version=1,
        created_seconds=time.time(),
    )
    store.put_batch(row, blobs, found)
    if not documents:
        store.close()


def write_file(folder: Path, data: bytes) -> None:
    with open(folder / "plain", "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def insert_once(folder: Path, data: bytes) -> None:
    connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE plain (body BLOB)")
    connection.execute("INSERT INTO plain VALUES (?)", (data,))
    connection.close()


def ask(store: Store, words: str) -> None:
    if not store.search(words, conversation="c", owner="o"):
        sys.exit(f"{words} was not found: the bench measures nothing")


def best(way: Callable[[Path], None], repeat: int) -> tuple[float, float]:
    """The least CPU and wall time, in ms."""
    cpus, walls = [], []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder:
            cpu, wall = time.process_time(), time.perf_counter()
            way(Path(folder))
            cpus.append((time.process_time() - cpu) * 1e3)
            walls.append((time.perf_counter() - wall) * 1e3)
    return min(cpus), min(walls)


def once(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def timed(call: Callable[[], object], repeat: int) -> float:
    return min(once(call) for _ in range(repeat + 2))


if __name__ == "__main__":
    main()
