"""What the tests of the store share: small rows, and other processes."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import packlight.store
from packlight.store import BatchRow, Document, Store, open_store, text_hash

SOURCE = Path(packlight.store.__file__).parents[2]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def row(id: str = "b1", *originals: bytes, **fields: object) -> BatchRow:
    values = {
        "id": id,
        "parent": None,
        "owner": "o",
        "conversation": "c",
        "key": b"key",
        "key_index": 3,
        "result": b"result",
        "result_index": 2,
        "body": b"[]",
        "originals": tuple(map(sha, originals)),
        "version": 1,
        "created_seconds": 1_000.0,
    }
    return BatchRow(**{**values, **fields})  # type: ignore[arg-type]


def document(text: str, conversation: str = "c", kind: str = "result", **fields: object) -> Document:
    values = {"ref": text_hash(text)[:12], "text": text, "conversation": conversation, "kind": kind}
    return Document(**{**values, **fields})  # type: ignore[arg-type]


def put(store: Store, *texts: str, id: str = "b1", conversation: str = "c", **fields: object) -> BatchRow:
    """Commit a batch with these texts as documents and, in another form, as originals."""
    originals = [b"original of " + text.encode("utf-8", "surrogatepass") for text in texts]
    fields.setdefault("key", f"key of {id}".encode("utf-8", "surrogatepass"))
    batch = row(id, *originals, conversation=conversation, **fields)
    documents = [document(text, conversation, ordinal=index) for index, text in enumerate(texts)]
    return store.put_batch(batch, {sha(data): data for data in originals}, documents)


def found(store: Store, words: str, conversation: str | None = "c") -> list[str]:
    return [hit.text for hit, _ in store.search(words, conversation=conversation, owner="o")]


def files_under(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def in_python(code: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    """Another process that runs this code with the helpers of this file."""
    program = (
        f"import sys; sys.path[:0] = [{str(SOURCE)!r}, {str(Path(__file__).parent)!r}]\nfrom store_help import *\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program + textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def output_of(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out.strip()


def put_and_close(folder: Path, *texts: str) -> BatchRow:
    store = open_store(folder)
    batch = put(store, *texts)
    store.close()
    return batch


def change(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "store.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()
