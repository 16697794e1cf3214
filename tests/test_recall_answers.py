"""Every reference that a request of the proxy shows is answered out of that request, whatever it names."""

from __future__ import annotations

import json
import re

import pytest

from packlight import Compactor
from packlight.proxy.recall.answers import answer
from packlight.store import JournalOnly, MemoryStore
from talk import WINDOW, WIRES, request, turns


@pytest.mark.parametrize("policy", ["default", "thrifty"])
@pytest.mark.parametrize("wire", WIRES)
def test_every_reference_in_sight_is_answered(wire, policy):
    made = Compactor(policy=policy, window_tokens=WINDOW, store=JournalOnly(MemoryStore()), recall="ref")
    given = request(wire)
    key = "input" if wire == "responses" else "messages"
    made.fit(given, format=wire)
    given = {**given, key: [*given[key], *turns(wire, 60, start=100)]}
    c = made.fit(given, format=wire)
    refs = set(re.findall(r"\bref ([0-9a-f]{12,})", json.dumps(c.messages)))
    assert len(refs) > 2 and c.report.edits
    answers = {ref: answer(c.state, {"query": ref}) for ref in refs}
    assert [ref for ref, text in answers.items() if "Nothing was found" in text] == []
    assert all(text.startswith((f"--- ref {ref}", f"{text.split(' ', 1)[0]} found")) for ref, text in answers.items())
