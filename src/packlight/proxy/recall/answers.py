"""The text that answers a call of the recall tool: out of the request at hand, which has all of the conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...integrations.recall_tool import PAGE_CHARS, RecallTool
from ...layers.fold import contents
from ...ledger import taken_out
from ...store import REF_CHARS, BatchRow, Document, MemoryStore, text_hash
from ...summary.stretches import KIND, stretches
from ...types import Edit
from ...view import View

__all__ = ["answer"]

CHARS_PER_TOKEN = 3
MIN_PAGE_CHARS = 2_000


def answer(view: View, arguments: Any, room_tokens: int | None) -> str:
    """What `packlight.recall_tool` says to these arguments, of all that the edits of this view took out.

    A page takes at most half of the room that the request leaves.
    """
    room = PAGE_CHARS if room_tokens is None else room_tokens * CHARS_PER_TOKEN // 2
    store, conversation = MemoryStore(), "here"
    documents = list(_documents(view, conversation))
    name = hashlib.sha256(b"recall").hexdigest()
    row = BatchRow(
        id=name,
        parent=None,
        owner="",
        conversation=conversation,
        key=b"",
        key_index=0,
        result=b"",
        result_index=0,
        body=b"",
        originals=(),
        version=0,
        created_seconds=0.0,
    )
    store.put_batch(row, {}, documents)
    page_chars = max(MIN_PAGE_CHARS, min(PAGE_CHARS, room))
    return RecallTool(view.format.name, store, conversation=conversation, page_chars=page_chars)(arguments)


def _documents(view: View, conversation: str) -> Iterator[Document]:
    source = replace(view, edits=())
    folds: dict[tuple[str, str], list[Edit]] = {}
    for edit in view.edits:
        yield from taken_out(source, edit, conversation)
        if len(edit.start) == 1 and edit.action == "summarised":
            folds.setdefault((edit.layer, edit.reason), []).append(edit)
    for together in folds.values():  # those of one batch: its list of contents is of them all
        text = contents(source, [(e.start[0], e.end[0]) for e in together])
        ref = next((e.ref for e in together if e.ref), "")
        whole = ref if text_hash(text).startswith(ref or "-") else text_hash(text)[:REF_CHARS]
        start, end = together[0].start[0], together[-1].end[0]
        yield Document(ref=whole, text=text, conversation=conversation, kind="contents", ordinal=start)
        kept = set(range(start, end)).difference(*(range(e.start[0], e.end[0]) for e in together))
        for text in (stretch.text for stretch in stretches(source, start, end, kept)):
            ref = text_hash(text)[:REF_CHARS]
            yield Document(ref=ref, text=text, conversation=conversation, kind=KIND, ordinal=start)
