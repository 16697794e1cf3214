"""`packlight purge`: remove what is kept, for good."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ..errors import PacklightError
from ..store import open_store, state_folder
from .streams import counted, needs_folder, show, show_json


def run(args: argparse.Namespace) -> int:
    folder = Path(args.store) if args.store else state_folder() / "proxy"
    if args.keep_days is None and args.max_bytes is None and args.conversation is None and not args.all:
        raise PacklightError("say what to purge: --keep-days, --max-bytes, --conversation or --all")
    needs_folder(str(folder))
    store = open_store(folder)
    try:
        gone = store.purge(
            keep_days=args.keep_days, max_bytes=args.max_bytes, conversation=args.conversation, all=args.all
        )
    finally:
        store.close()
    if args.json:
        show_json(asdict(gone))
    else:
        show(
            f"{folder}: {counted(gone.conversations, 'conversation')} removed ({counted(gone.batches, 'compaction')}, "
            f"{counted(gone.documents, 'text')}, {counted(gone.files, 'file')}); "
            f"{gone.bytes_before:,} -> {gone.bytes_after:,} bytes"
        )
    return 0
