"""Stretches of old turns: one reference brings back as much as one recall shows."""

from __future__ import annotations

import re

import pytest

from engine import body, compactor, frozen, packlight
from packlight import formats
from packlight.integrations.recall_tool import PAGE_CHARS
from packlight.summary.log import log_lines, marks_of
from packlight.summary.stretches import KIND, listed, stretches
from packlight.view import View
from talk import MANY, WINDOW, WIRES, opening, output, turn, turns

every_wire = pytest.mark.parametrize("wire", WIRES)
REF = re.compile(r"\bref ([0-9a-f]{12,})")


def view_of(messages):
    fmt = formats.format_named("anthropic")
    count = lambda value: len(str(value)) // 4  # noqa: E731
    return View(format=fmt, messages=[formats.read_message(fmt, m, count) for m in messages], count=count)


def compacted(wire, **options):
    made = compactor(wire, window_tokens=WINDOW, **options)
    return made, made.fit(body([*opening(), *turns(wire, MANY)], wire))


def listed_refs(messages, *span):
    return [[ref for ref, _ in listed(s.text)] for s in stretches(view_of(messages), *span)]


@every_wire
def test_all_that_was_folded_is_on_the_first_page_of_one_reference(wire):
    made, c = compacted(wire)
    tool = packlight.recall_tool(wire, made, c.conversation)
    request = frozen(c.request)
    answers = [tool({"query": ref}) for ref in dict.fromkeys(REF.findall(request))]
    gone = [n for n in range(MANY) if f"value_{n}_31" not in request]
    assert len(gone) > MANY // 2
    for n in gone:
        assert any(output(n) in answer for answer in answers), n
        assert any(f"Step {n}." in answer for answer in answers), n


@every_wire
def test_its_list_comes_first_and_its_texts_fit_the_page(wire):
    made, c = compacted(wire)
    found = [packlight.recall(made.store, ref) for ref in dict.fromkeys(REF.findall(frozen(c.request)))]
    whole = [documents for documents in found if documents[0].kind == KIND]
    assert whole
    for documents in whole:
        assert [d.ref for d in documents[1:]] == [ref for ref, _ in listed(documents[0].text)]
        assert sum(len(d.text) for d in documents) <= PAGE_CHARS


def test_another_conversation_gets_no_part_of_it():
    made, c = compacted("chat")
    ref = next(r for r in REF.findall(frozen(c.request)) if packlight.recall(made.store, r)[0].kind == KIND)
    assert packlight.recall(made.store, ref, conversation="another") == []


def test_long_text_comes_in_slices_that_make_the_whole():
    long = "\n".join(f"line {n} of the long output" for n in range(2_500))
    found = stretches(view_of([*opening(), *turn("anthropic", 1, text=long), *turn("anthropic", 2)]), 1, 5)
    parts = [part for s in found for _, part in listed(s.text) if part.stop]
    assert len(parts) > 2 and len(found) > 2
    assert "".join(long[part] for part in parts) == long
    assert all(long[part].endswith("\n") for part in parts[:-1])


def test_text_without_line_ends_is_cut_all_the_same():
    found = stretches(view_of([*opening(), *turn("anthropic", 1, text="x" * 100_000)]), 1, 3)
    slices = [part for s in found for _, part in listed(s.text)]
    assert sum(part.stop - part.start for part in slices if part.stop) == 100_000


def test_stretches_stay_while_the_conversation_grows():
    """Only the newest one changes: the others keep their references from batch to batch."""
    messages = [*opening(), *turns("anthropic", 60)]
    whole = stretches(view_of(messages), 1, len(messages))
    assert len(whole) > 3
    for end in range(3, len(messages), 10):
        *done, _ = stretches(view_of(messages), 1, end)
        assert done == whole[: len(done)]


def test_repeated_text_is_listed_once_and_kept_messages_never():
    same = [*opening(), *turn("anthropic", 1, text="the same"), *turn("anthropic", 2, text="the same")]
    (refs,) = listed_refs(same, 1, 5)
    assert len(refs) == len(set(refs))
    (one,) = stretches(view_of(same), 1, 5, kept={3, 4})
    assert "src/file_2.py" not in one.text and "src/file_1.py" in one.text


def test_where_files_are_shown_no_stretch_is_named(tmp_path):
    made, c = compacted("chat", store=tmp_path / "s", recall="files")
    assert "whole:" not in frozen(c.request)
    assert all(packlight.recall(made.store, r)[0].kind != KIND for r in REF.findall(frozen(c.request)))


def test_references_of_lines_left_out_are_told():
    marks = marks_of([(3, "a" * 12), (7, "b" * 12), (7, "c" * 12), (9, "d" * 12)])
    assert marks[7] == f"ref {'b' * 12}, ref {'c' * 12}"
    newest = [marks[9], marks[7], marks[3]]
    lines = [f"(whole: {marks[9]})", "x" * 100, f"(whole: {marks[7]})", "y" * 300, f"(whole: {marks[3]})"]
    told = log_lines(iter(lines), 400, newest, lambda left: f"left out: {left}")
    assert told == [f"left out: {[marks[3]]}", lines[2], lines[1], lines[0]]
    assert sum(len(line) + 1 for line in told) < 400


def test_references_take_half_of_the_log_at_most():
    newest = [f"ref {n:012x}" for n in range(100)]
    told = log_lines((f"$ command {n}" for n in range(100)), 1_000, newest, lambda left: f"left out: {left}")
    assert told[0].count("ref ") > 10
    assert sum(map(len, told)) < 1_100 and len(told) > 10
