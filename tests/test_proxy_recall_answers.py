"""What the proxy's recall tool answers: out of the request alone, with nothing kept."""

from __future__ import annotations

import json
import re

import pytest

import packlight
from engine import MODELS, key_of
from packlight.proxy.recall.answers import answer
from packlight.store import JournalOnly, MemoryStore, text_hash
from talk import WIRES, talk

every_wire = pytest.mark.parametrize("wire", WIRES)


def compacted(wire, counts=(40, 80, 120), window_tokens=12_000):
    """The last of several requests of a conversation, each compacted, by a store that keeps no content."""
    compactor = packlight.Compactor(store=JournalOnly(MemoryStore()), window_tokens=window_tokens)
    for count in counts:
        c = compactor.fit({"model": MODELS[wire], "max_tokens": 1_000, key_of(wire): talk(wire, count)}, format=wire)
        assert c.report.edits
        yield c


@every_wire
def test_every_reference_that_was_ever_shown_is_answered_with_its_text(wire):
    shown = set()
    for c in compacted(wire):
        shown |= set(re.findall(r"\bref ([0-9a-f]{12})\b", json.dumps(c.messages)))
    assert len(shown) >= 3
    for ref in shown:
        text = answer(c.state, {"query": ref})
        if text.startswith(f"--- ref {ref}: "):
            body = text.partition("\n")[2]
            assert "[page 1 of" in body or text_hash(body).startswith(ref)
        else:  # a stretch: its list, and the texts behind it
            assert re.match(rf"\d+ found:\nref {ref}: stretch ", text)


@every_wire
def test_list_of_contents_names_what_is_answered(wire):
    *_, c = compacted(wire)
    ref = next(e.ref for e in c.report.edits if e.action == "summarised" and e.ref)
    listed = re.findall(r"^([0-9a-f]{12}) ", answer(c.state, {"query": ref}), re.MULTILINE)
    assert len(listed) > 20
    assert all(answer(c.state, {"query": each}).startswith(f"--- ref {each}") for each in listed[:5])


@every_wire
def test_pages_go_by_the_room_that_is_left(wire):
    *_, c = compacted(wire)
    ref = next(e.ref for e in c.report.edits if e.action == "summarised" and e.ref)
    c.state.view = c.state.view.with_edits([])
    room = c.report.budget_tokens - c.report.tokens_after
    assert len(answer(c.state, {"query": ref})) <= max(2_000, room * 3 // 2) + 100


def test_arguments_that_are_none_are_answered_with_a_line():
    *_, c = compacted("chat", (40,))
    for arguments in (None, "{", {"query": ""}, {"query": "x", "page": 0}):
        assert answer(c.state, arguments).startswith("recall failed: ")
