"""Whose content of a store: a proxy keeps that of each credential apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..errors import PacklightError
from ..store import Store

__all__ = ["found_by"]

T = TypeVar("T")
MAX_NAMED = 5


def found_by(store: Store, owner: str | None, ask: Callable[[str], T | None]) -> T | None:
    """What `ask` finds for this owner, else for the only one for whom it finds something; None where it finds nothing.

    Raises PacklightError for an owner that is not there, and where several would have to be asked.
    """
    owners = store.owners() or [""]
    if owner is not None and owner not in owners:
        raise PacklightError(f"no owner {owner!r} in this store; it has {_named(owners)}")
    found = {name: value for name in (owners if owner is None else [owner]) if (value := ask(name))}
    if len(found) > 1:
        raise PacklightError(f"{len(found)} owners have it: add --owner with one of {_named(list(found))}")
    return next(iter(found.values()), None)


def _named(owners: list[str]) -> str:
    shown = ", ".join(map(repr, owners[:MAX_NAMED]))
    return shown if len(owners) <= MAX_NAMED else f"{shown} and {len(owners) - MAX_NAMED} more"
