"""`packlight restore` and `recall` over a store that a proxy wrote: the content of each credential is kept apart."""

from __future__ import annotations

import json

import pytest

from cli_help import file, run  # noqa: F401
from engine import frozen, packlight
from packlight.store import open_store
from talk import request, talk, turns

WIRE = "anthropic"


def compacted(folder, owner, given):
    """What is sent of a conversation of this owner, as a proxy over that folder makes it."""
    store = open_store(folder)
    try:
        return packlight.Compactor(window_tokens=16_000, store=store, owner=owner).fit(given, format=WIRE).request
    finally:
        store.close()


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def test_restore_finds_the_owner(store, run, file):  # noqa: F811
    given, other = request(WIRE), {**request(WIRE), "messages": turns(WIRE, 50)}
    small = compacted(store, "a1b2", given)
    compacted(store, "c3d4", other)
    for more in ((), ("--owner", "a1b2")):
        code, out, _ = run("restore", file(small), "--store", store, *more)
        assert code == 0 and frozen(json.loads(out)) == frozen(given)
    code, _, errors = run("restore", file(small), "--store", store, "--owner", "c3d4")
    assert code == 2 and "no result of a compaction" in errors


def test_recall_finds_the_owner(store, run):  # noqa: F811
    compacted(store, "a1b2", request(WIRE))
    compacted(store, "c3d4", {**request(WIRE), "messages": [*talk(WIRE, 2), *turns(WIRE, 50, start=200)]})
    code, out, _ = run("recall", "src/file_203.py", "--store", store)
    assert code == 0 and "value_203_7" in out
    assert run("recall", "src/file_203.py", "--store", store, "--owner", "c3d4")[1] == out
    assert run("recall", "src/file_203.py", "--store", store, "--owner", "a1b2")[0] == 1


@pytest.mark.parametrize("command", ["restore", "recall"])
def test_several_owners_have_it_and_one_must_be_named(command, store, run, file):  # noqa: F811
    given = request(WIRE)
    small = [compacted(store, owner, given) for owner in ("a1b2", "c3d4")]
    assert small[0] == small[1]
    what = file(small[0]) if command == "restore" else "src/file_3.py"
    code, out, errors = run(command, what, "--store", store)
    assert (code, out) == (2, "")
    assert "2 owners have it: add --owner with one of 'a1b2', 'c3d4'" in errors
    assert run(command, what, "--store", store, "--owner", "a1b2")[0] == 0


@pytest.mark.parametrize("command", ["restore", "recall"])
def test_owner_that_is_not_there_is_told(command, store, run, file):  # noqa: F811
    small = [compacted(store, f"owner{n}", request(WIRE)) for n in range(7)]
    what = file(small[0]) if command == "restore" else "src/file_3.py"
    code, out, errors = run(command, what, "--store", store, "--owner", "nobody")
    assert (code, out) == (2, "") and errors.count("\n") == 1
    assert "no owner 'nobody'" in errors and "'owner4' and 2 more" in errors
