"""One request at a time, for scripts and the command line: compact it, and undo that."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .compaction import Compaction
from .compactor import Compactor
from .errors import NotFound
from .formats import plain, read_message, split
from .journal import Batch, Journal, chain_start, extend_chain
from .policy import Policy
from .store import Store, open_store
from .types import Json
from .view import apply

__all__ = ["compact", "restore"]


def compact(
    request: Json,
    *,
    policy: str | Policy = "default",
    model: str | None = None,
    store: str | os.PathLike[str] | Store | None = None,
    format: str | None = None,
    force: bool = False,
    **options: Any,
) -> Compaction:
    """One `fit` of a request, with no edits recorded before but those it shows to be written back.

    `force` makes a batch although none is due. `options` are those of `Compactor`. Raises InvalidRequest for what is
    no request.
    """
    compactor = Compactor(
        model, policy=policy, store=os.fspath(store) if isinstance(store, os.PathLike) else store, **options
    )
    return compactor.fit_once(request, format=format, force=force)


def restore(
    request: Json,
    store: str | os.PathLike[str] | Store,
    *,
    all: bool = False,
    owner: str = "",
    format: str | None = None,
) -> Json:
    """The request with its last compaction undone and what was appended since kept; with `all`, every compaction.

    Gives back exactly the JSON value that went in. Raises NotFound when the request begins with no result that this
    store knows, StoreError when the store can't be read.
    """
    held = open_store(store) if isinstance(store, (str, os.PathLike)) else store
    journal = Journal(held, owner)
    fmt, items, _ = split(request, format)
    undone = 0
    while undone == 0 or all:
        chain = [chain_start(fmt, owner)]
        extend_chain(chain, (read_message(fmt, m, lambda _: 0) for m in items))
        found = journal.written_back(chain)
        if found is None:
            break
        items = _before(journal, found[0], items, fmt)
        undone += 1
    if not undone:
        raise NotFound("this request is no result of a compaction in that store")
    if isinstance(request, Mapping):
        return {k: items if k == fmt.list_key else v for k, v in request.items()}
    return items


def _before(journal: Journal, batch: Batch, items: list[Any], fmt: Any) -> list[Any]:
    source = journal.source(batch, items)
    for start, end, old in sorted(batch.mended, reverse=True):
        source[start:end] = old
    if batch.written_back and batch.parent is not None:
        return apply(fmt, source, batch.parent.edits, plain)
    return source
