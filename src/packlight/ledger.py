"""What a batch takes out, as texts that recall will find: named while layers plan, written when the batch is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from .errors import StoreError
from .formats import encode_as_is
from .store import REF_CHARS, Document, Store, text_hash
from .summary.wording import target_at, target_of
from .types import Edit, Part
from .view import View

_MIN_ARGUMENTS_CHARS = 200


class Ledger:
    """Names texts for one plan."""

    def __init__(self, store: Store, owner: str, *, recall: str) -> None:
        self._store = store
        self._owner = owner
        self._files = recall == "files"
        self._named = recall != "none"
        self._texts: dict[str, str] = {}

    def refer(self, text: str) -> tuple[str, str]:
        """The reference of a text and the words for it: a file where the user chose files and it could be written."""
        ref = self._ref(text)
        self._texts[ref] = text
        path = self._file(text) if self._files else None
        return ref, f"full text: {path}" if path else f"ref {ref}" if self._named else ""

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
            if len(edit.start) == 1:
                for document in self._folded(view, edit, conversation):
                    found.setdefault((document.ref, document.ordinal), document)
        return list(found.values())

    def _folded(self, view: View, edit: Edit, conversation: str) -> Iterator[Document]:
        """Texts of the messages in a span, but for those an earlier batch took out already."""
        return (d for d in taken_out(view, edit, conversation) if not view.is_folded(d.ordinal))


def taken_out(view: View, edit: Edit, conversation: str) -> Iterator[Document]:
    """The texts that stand in an edit's span."""
    first, last = edit.start[0], edit.end[0] + (len(edit.end) == 2)
    for i in range(first, last):
        for k, part in enumerate(view.messages[i].parts):
            if len(edit.start) == 2 and not edit.start[1] <= part.block < edit.end[1]:
                continue
            call = view.call_of(i, k) if part.kind == "result" else part if part.kind == "call" else None
            target = ""
            for kind, text in _texts_of(part):
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


def _texts_of(part: Part) -> Iterator[tuple[str, str]]:
    if part.kind == "result" and part.text:
        yield "result", part.text
    elif part.kind in ("text", "thinking") and part.text.strip():
        yield "message", part.text
    elif part.kind == "call":
        text = part.arguments_text or (encode_as_is(part.arguments).decode() if part.arguments else "")
        if len(text) >= _MIN_ARGUMENTS_CHARS:
            yield "arguments", text
