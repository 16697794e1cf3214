"""What a batch takes out, as texts that recall will find: named while layers plan, written when the batch is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .errors import StoreError
from .formats import encode_as_is
from .store import REF_CHARS, Document, Store, text_hash
from .summary.stretches import KIND, texts_of
from .summary.wording import target_at, target_of
from .types import Edit
from .view import View

_REF = re.compile(r"ref (?<=\bref )([0-9a-f]{12,64})\b")
"""It begins with plain letters: then it is found ten times as fast."""


class Ledger:
    """Names texts for one plan."""

    def __init__(self, store: Store, owner: str, *, recall: str) -> None:
        self._store = store
        self._owner = owner
        self._files = recall == "files"
        self._named = recall != "none"
        self._texts: dict[str, str] = {}
        self._lists: dict[str, str] = {}

    def refer(self, text: str) -> tuple[str, str]:
        """The reference of a text and the words for it: a file where the user chose files and it could be written."""
        ref = self._ref(text)
        self._texts[ref] = text
        path = self._file(text) if self._files else None
        return ref, f"full text: {path}" if path else f"ref {ref}" if self._named else ""

    def enlist(self, text: str) -> str:
        """The reference of the list of a stretch of turns; it becomes a document of a batch that shows it."""
        ref = self._ref(text)
        self._lists[ref] = text
        return ref

    def _ref(self, text: str) -> str:
        try:
            return self._store.ref(text, owner=self._owner)
        except StoreError:
            return text_hash(text)[:REF_CHARS]  # whether it can be stored shows when the batch is written

    def _file(self, text: str) -> Path | None:
        try:
            return self._store.write_file(text)
        except StoreError:
            self._files = False  # no placeholder may name a file that is not there
            return None

    def documents(self, view: View, own: Sequence[Edit], conversation: str) -> list[Document]:
        """The documents of a batch planned on `view`."""
        found: dict[tuple[str, int], Document] = {}
        for edit in own:
            if edit.ref in self._texts:
                text = self._texts[edit.ref]
                document = Document(
                    ref=edit.ref,
                    text=text,
                    conversation=conversation,
                    kind="contents"
                    if edit.action in ("summarised", "removed")
                    else "result"
                    if edit.call_id
                    else "message",
                    tool=edit.tool,
                    path=edit.path,
                    call_id=edit.call_id,
                    ordinal=edit.start[0],
                )
                found[(edit.ref, edit.start[0])] = document
            if len(edit.start) == 1 or not edit.ref:
                for document in (*self._listed(edit, conversation), *self._folded(view, edit, conversation)):
                    found.setdefault((document.ref, document.ordinal), document)
        return list(found.values())

    def _listed(self, edit: Edit, conversation: str) -> Iterator[Document]:
        """The stretches whose references an edit shows."""
        shown = dict.fromkeys(_REF.findall(encode_as_is(list(edit.replacement)).decode())) if self._lists else ()
        for ref in shown:
            if ref in self._lists:
                text, ordinal = self._lists[ref], edit.start[0]
                yield Document(ref=ref, text=text, conversation=conversation, kind=KIND, ordinal=ordinal)

    def _folded(self, view: View, edit: Edit, conversation: str) -> Iterator[Document]:
        """Texts of the messages in a span, but for those an earlier batch took out already."""
        return taken_out(view, edit, conversation, view.is_folded)


def taken_out(
    view: View, edit: Edit, conversation: str, but: Callable[[int], bool] = lambda _: False
) -> Iterator[Document]:
    """The texts that stand in an edit's span, but for those of some messages."""
    for i in range(edit.start[0], edit.end[0] + (len(edit.end) == 2)):
        if but(i):
            continue
        for k, part in enumerate(view.messages[i].parts):
            if len(edit.start) == 2 and not edit.start[1] <= part.block < edit.end[1]:
                continue
            call = view.call_of(i, k) if part.kind == "result" else part if part.kind == "call" else None
            target = ""
            for kind, text in texts_of(part):
                if call and not target:
                    target = target_at(view, i, k) if part.kind == "result" else target_of(call)
                yield Document(
                    ref=text_hash(text)[:REF_CHARS],
                    text=text,
                    conversation=conversation,
                    kind=kind,
                    tool=call.tool if call else "",
                    path=target,
                    call_id=part.call_id,
                    ordinal=i,
                )
