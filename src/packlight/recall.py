"""Getting back what was taken out: by reference, by path, by words."""

from __future__ import annotations

import os
import re

from .errors import NotFound
from .store import Document, Store, open_store

__all__ = ["recall"]

_REF = re.compile(r"(?:ref\s+)?([0-9a-fA-F]{6,64})")


def recall(
    store: str | os.PathLike[str] | Store,
    query: str,
    *,
    conversation: str | None = None,
    owner: str = "",
    limit: int = 10,
) -> list[Document]:
    """What the store holds for a reference, a path or words, best first; empty when there is nothing.

    `conversation` limits it to what was taken out of that one (`Compaction.conversation`); None searches all of the
    owner's. Any text is a query. Raises StoreError when the store can't be read.
    """
    held = open_store(store) if isinstance(store, (str, os.PathLike)) else store
    query = query.strip()
    if found := _REF.fullmatch(query):
        try:
            return [held.document(found.group(1), conversation=conversation, owner=owner)]
        except NotFound:
            pass  # it may be a word of the text, a commit for instance
    if query and not query.isspace():
        by_path = held.documents(conversation=conversation, owner=owner, path=query, limit=limit)
        if by_path:
            return by_path
    return [document for document, _ in held.search(query, conversation=conversation, owner=owner, limit=limit)]
