"""A second read that only points at the first: the text comes back when ours took it out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import checker
import packlight
from packlight.layers import ReadAgain

POINTERS = [
    "File unchanged since last read. The content from the earlier Read tool_result in this conversation is still"
    " current — refer to that instead of re-reading.",
    "Wasted call — file unchanged since your last Read. Refer to that earlier tool_result instead.",
]
TEXT = "\n".join(f"line {n} of the first file" for n in range(60))


def read(n: int, path: str, text: str, **more: int) -> list[dict]:
    call = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"file_path": path, **more}}
    result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": text}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def history(rounds: int = 30) -> list[dict]:
    messages: list[dict] = [{"role": "user", "content": "work through the files"}, *read(0, "/src/first.py", TEXT)]
    for n in range(1, rounds):
        messages += read(n, f"/src/other_{n}.py", f"text {n}\n" * 350)
    return messages


def request(messages: list[dict]) -> dict:
    return {"model": "claude-sonnet-4-5", "max_tokens": 500, "messages": messages}


def compactor(**options: object) -> packlight.Compactor:
    return packlight.Compactor(window_tokens=16_000, policy=replace(packlight.PRESETS["default"]), **options)


def last_result(c: packlight.Compaction) -> str:
    return c.messages[-1]["content"][-1]["content"]


@pytest.mark.parametrize("pointer", POINTERS)
@pytest.mark.parametrize("recorded_only", [False, True])
def test_text_that_was_taken_out_comes_in_place_of_the_pointer(pointer, recorded_only, tmp_path):
    fitting = compactor(store=tmp_path / "store")
    messages = history()
    assert fitting.fit(request(messages)).report.outcome == "compacted"
    messages += read(99, "/src/first.py", pointer)
    c = fitting.fit(request(messages), recorded_only=recorded_only)
    assert last_result(c) == TEXT
    assert checker.check(c.request, "anthropic") == []
    assert c.restore()["messages"][-1]["content"][0]["content"] == pointer
    later = [*messages, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}]
    again = compactor(store=tmp_path / "store").fit(request(later))
    assert json.dumps(again.messages[: len(c.messages)]) == json.dumps(c.messages)


def test_pointer_to_a_text_that_still_stands_is_left_alone():
    messages = [*history(3), *read(99, "/src/first.py", POINTERS[0])]
    c = compactor().fit(request(messages))
    assert not c.changed


def test_pointer_to_another_part_of_the_file_gives_what_is_known_of_it():
    fitting, messages = compactor(), history()
    fitting.fit(request(messages))
    c = fitting.fit(request([*messages, *read(99, "/src/first.py", POINTERS[0], offset=10)]))
    assert last_result(c) == TEXT


def test_text_of_a_tool_that_only_quotes_a_pointer_is_left_alone():
    fitting, messages = compactor(), history()
    fitting.fit(request(messages))
    quoted = f"grep found: {POINTERS[0]}"
    assert last_result(fitting.fit(request([*messages, *read(99, "/src/first.py", quoted)]))) == quoted


def test_text_that_would_not_fit_stays_out():
    fitting = compactor()
    messages = [{"role": "user", "content": "go"}, *read(0, "/src/first.py", "word " * 40_000), *history()[3:]]
    fitting.fit(request(messages))
    c = fitting.fit(request([*messages, *read(99, "/src/first.py", POINTERS[0])]))
    assert c.fits
    assert last_result(c) == POINTERS[0]


def test_layer_stands_in_the_policies_that_people_use():
    for name in ("default", "thrifty"):
        assert any(isinstance(layer, ReadAgain) for layer in packlight.PRESETS[name].on_arrival)
