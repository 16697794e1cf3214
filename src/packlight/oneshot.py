"""One request at a time, for scripts and the command line: compact it, and undo that."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from .compaction import Compaction
from .compactor import Compactor
from .errors import NotFound
from .formats import FORMATS, plain, read_message, split
from .journal import Batch, Journal, chain_start, extend_chain
from .policy import Policy
from .store import Store, open_store
from .types import Format, Json
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
    if isinstance(store, (str, os.PathLike)):
        with closing(open_store(store)) as held:
            return compact(request, policy=policy, model=model, store=held, format=format, force=force, **options)
    return Compactor(model, policy=policy, store=store, **options).fit_once(request, format=format, force=force)


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
    if isinstance(store, (str, os.PathLike)):
        with closing(open_store(store)) as held:
            return restore(request, held, all=all, owner=owner, format=format)
    journal = Journal(store, owner)
    fmt, items, _ = split(request, format)
    found = next(filter(None, (_made_by(journal, f, items) for f in _candidates(fmt, format))), None)
    if found is None:
        raise NotFound("this request is no result of a compaction in that store")
    fmt, last = found
    items = _before(journal, last, items, fmt)
    while all and (found := _made_by(journal, fmt, items)) is not None:
        last = found[1]
        items = _before(journal, last, items, fmt)
    if isinstance(request, Mapping):
        whole = items[0]["content"] if last.as_text and len(items) == 1 else items
        return {k: whole if k == fmt.list_key else v for k, v in request.items()}
    return items


def _candidates(fmt: Format, named: str | None) -> list[Format]:
    """The formats that a result may be in: plain text that is left of an Anthropic request looks like `chat`."""
    others = [f for f in FORMATS.values() if f is not fmt and f.list_key == fmt.list_key]
    return [fmt] if named else [fmt, *others]


def _made_by(journal: Journal, fmt: Format, items: list[Any]) -> tuple[Format, Batch] | None:
    """The batch whose result the list begins with, and the format that this is so in."""
    chain = [chain_start(fmt, journal.owner)]
    extend_chain(chain, (read_message(fmt, m, lambda _: 0) for m in items))
    found = journal.written_back(chain)
    return (fmt, _maker(found[0])) if found else None


def _maker(batch: Batch) -> Batch:
    """The batch itself; of one that took another back, the earlier one whose edits stand again."""
    maker, older = batch, batch.parent
    while older is not None:
        maker, older = older if older.edits == batch.edits else maker, older.parent
    return maker


def _before(journal: Journal, batch: Batch, items: list[Any], fmt: Format) -> list[Any]:
    source = journal.source(batch, items)
    for start, end, old in sorted(batch.mended, reverse=True):
        source[start:end] = old
    if batch.written_back and batch.parent is not None:
        return apply(fmt, source, batch.parent.edits, plain)
    return source
