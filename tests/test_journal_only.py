"""A store that keeps edits and no content."""

from __future__ import annotations

from pathlib import Path

import pytest

import packlight
from packlight.store import JournalOnly, MemoryStore, Store, open_store

SECRET = "nobody may find this on disk"


def history(rounds: int, secret_at: int = 2) -> list[dict]:
    messages: list[dict] = [{"role": "user", "content": "read all files"}]
    for n in range(rounds):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": f'{{"path": "f{n}.py"}}'}}
        text = f"content {n} " * 400 + (SECRET if n == secret_at else "")
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": text},
        ]
    return messages


@pytest.fixture(params=["memory", "folder"])
def inner(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else open_store(tmp_path / "store")


def compactor(store: Store) -> packlight.Compactor:
    return packlight.Compactor(store=JournalOnly(store), window_tokens=20_000)


def test_edits_are_made_again_in_a_new_process(inner: Store) -> None:
    first = compactor(inner)
    c = first.fit({"model": "m", "messages": history(20)})
    assert c.report.outcome == "compacted"
    again = compactor(inner).fit({"model": "m", "messages": history(20)})
    assert again.report.outcome == "reapplied"
    assert again.messages == c.messages


def test_no_content_is_kept(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    c = compactor(store).fit({"model": "m", "messages": history(20)})
    assert c.report.new_edits
    assert c.restore()["messages"] == history(20)
    assert packlight.recall(store, SECRET) == packlight.recall(JournalOnly(store), SECRET) == []
    store.close()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert SECRET.encode() not in kept


def test_list_written_back_is_sent_as_it_is_and_the_report_says_why(inner: Store) -> None:
    kept = compactor(inner).fit({"model": "m", "messages": history(20)}).messages
    kept = [*kept, {"role": "assistant", "content": "done"}, {"role": "user", "content": "and now?"}]
    c = compactor(inner).fit({"model": "m", "messages": kept})
    assert c.messages == kept
    assert isinstance(c.report.error, packlight.NotFound)
