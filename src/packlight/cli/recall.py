"""`packlight recall`: what was taken out."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import asdict

from .. import recall
from ..store import Document, open_store
from .owners import found_by
from .streams import needs_folder, say, show, show_json


def run(args: argparse.Namespace) -> int:
    needs_folder(args.store)
    query = " ".join(args.query)
    with closing(open_store(args.store)) as store:

        def held_for(owner: str) -> list[Document]:
            return recall(store, query, conversation=args.conversation, owner=owner, limit=args.limit)

        found = found_by(store, args.owner, held_for) or []
    if args.json:
        show_json([asdict(d) for d in found])
        return 0 if found else 1
    for document in found:
        about = " ".join(filter(None, (document.kind, document.tool, document.path)))
        show(f"--- ref {document.ref}  {about}\n{document.text}")
    if not found:
        say("nothing found")
    return 0 if found else 1
