"""Where batches of edits and what they took out are kept: in memory, or in a folder that the user named."""

from __future__ import annotations

import os
from pathlib import Path

from .base import REF_CHARS, BatchRow, Blob, Document, PurgeStats, Store, text_hash
from .journal_only import JournalOnly
from .memory import MemoryStore

__all__ = [
    "REF_CHARS",
    "BatchRow",
    "Blob",
    "Document",
    "JournalOnly",
    "MemoryStore",
    "PurgeStats",
    "Store",
    "open_store",
    "state_folder",
    "text_hash",
]


def state_folder() -> Path:
    """The user's own folder for what packlight remembers; nothing is made here."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "packlight"


def open_store(folder: str | os.PathLike[str] | None = None) -> Store:
    """The store of a folder, or a new one in memory when there is no folder.

    Touches nothing on disk: a folder is made at the first thing put into it.
    """
    if folder is None:
        return MemoryStore()
    # sqlite3 costs every import of packlight some milliseconds, and most runs never need it.
    from .folder import FolderStore

    return FolderStore(folder)
