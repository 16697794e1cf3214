"""The text that answers a call of the recall tool: out of the request at hand, which has all of the conversation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...integrations.recall_tool import NAME, PAGE_CHARS, RecallTool
from ...journal import VERSION, Batch
from ...layers.fold import contents, is_joined
from ...ledger import taken_out
from ...planning import Work
from ...store import REF_CHARS, BatchRow, Document, MemoryStore, text_hash
from ...summary.stretches import KIND, stretches
from ...types import Edit
from ...view import View

__all__ = ["answer"]

CHARS_PER_TOKEN = 3
MIN_PAGE_CHARS = 2_000


def answer(work: Work, arguments: Any) -> str:
    """What `packlight.recall_tool` says to these arguments, of all that was taken out of this request.

    A page takes at most half of the room that the request leaves.
    """
    budget = work.limits.budget_tokens
    room = PAGE_CHARS if budget is None else max(0, budget - work.view.tokens) * CHARS_PER_TOKEN // 2
    documents = list(_documents(work.view, work.batch))
    answers = [d for d in documents if d.tool == NAME]
    store, beside = _store([d for d in documents if d.tool != NAME]), _store(answers)
    page_chars = max(MIN_PAGE_CHARS, min(PAGE_CHARS, room))
    tool = RecallTool(work.view.format.name, store, page_chars=page_chars)
    tool.held = lambda: beside  # earlier answers hold the same texts again: only where nothing else is found
    return tool(arguments)


def _store(documents: list[Document]) -> MemoryStore:
    store = MemoryStore()
    row = BatchRow(
        id="",
        parent=None,
        owner="",
        conversation="",
        key=b"",
        key_index=0,
        result=b"",
        result_index=0,
        body=b"",
        originals=(),
        version=VERSION,
        created_seconds=0.0,
    )
    store.put_batch(row, {}, documents)
    return store


def _documents(view: View, batch: Batch | None) -> Iterator[Document]:
    """The texts in place of which edits stand, and the lists of contents that summaries name, earlier ones too."""
    source = replace(view, edits=())
    for edit in view.edits:
        yield from taken_out(source, edit, "")
    while batch is not None:
        folds = [e for e in batch.own if len(e.start) == 1 and e.action == "summarised"]
        if runs := [_folded(replace(view, edits=batch.edits), e) for e in folds]:
            text = contents(source, runs)
            yield Document(ref=text_hash(text)[:REF_CHARS], text=text, conversation="", kind="contents")
            yield from _stretches(source, runs)
        batch = batch.parent


def _folded(view: View, fold: Edit) -> tuple[int, int]:
    """The messages that a summary stands for: without those of the user that its text has joined."""
    start, end = fold.start[0], fold.end[0]
    return start + is_joined(view, start), end - is_joined(view, end - 1)


def _stretches(source: View, runs: list[tuple[int, int]]) -> Iterator[Document]:
    """The stretches of old turns that the digest of one batch names."""
    start, end = runs[0][0], runs[-1][1]
    kept = set(range(start, end)).difference(*(range(*run) for run in runs))
    for stretch in stretches(source, start, end, kept):
        yield Document(ref=text_hash(stretch.text)[:REF_CHARS], text=stretch.text, conversation="", kind=KIND)
