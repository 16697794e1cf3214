"""Getting back what was taken out: by reference, by path, by words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace

from .errors import NotFound
from .store import Document, Store, open_store
from .summary.stretches import KIND, listed

__all__ = ["recall"]

_REF = re.compile(r"(?:ref\s+)?([0-9a-fA-F]{6,64})")
_REF_INSIDE = re.compile(r"\bref ([0-9a-f]{12,64})\b")
"""As a placeholder names it, when a whole placeholder is given."""


def recall(
    store: str | os.PathLike[str] | Store,
    query: str,
    *,
    conversation: str | None = None,
    owner: str = "",
    limit: int = 10,
) -> list[Document]:
    """What the store holds for a reference, a path or words, best first; empty when there is nothing.

    A reference may stand alone or in the placeholder that names it; of a path the end is enough. The reference of a
    stretch of turns gives its list and behind it the texts, as many as there are; of a long one the part that is meant.

    `conversation` limits it to what was taken out of that one (`Compaction.conversation`); None searches all of the
    owner's. Any text is a query. Raises StoreError when the store can't be read.
    """
    if isinstance(store, (str, os.PathLike)):
        with closing(open_store(store)) as held:
            return recall(held, query, conversation=conversation, owner=owner, limit=limit)
    query = query.strip()
    if found := _REF.fullmatch(query) or _REF_INSIDE.search(query):
        try:
            document = store.document(found.group(1), conversation=conversation, owner=owner)
            return [document, *_texts(store, document, conversation, owner)]
        except NotFound:
            pass  # it may be a word of the text, a commit for instance
    if query and (by_path := store.documents(conversation=conversation, owner=owner, path=query, limit=limit)):
        return by_path
    return [document for document, _ in store.search(query, conversation=conversation, owner=owner, limit=limit)]


def _texts(store: Store, stretch: Document, conversation: str | None, owner: str) -> Iterator[Document]:
    """What the list of a stretch names, as far as it is still there."""
    for ref, part in listed(stretch.text) if stretch.kind == KIND else ():
        with suppress(NotFound):
            document = store.document(ref, conversation=conversation, owner=owner)
            yield replace(document, text=document.text[part])
