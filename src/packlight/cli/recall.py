"""`packlight recall`: what was taken out."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import asdict
from itertools import chain

from .. import recall
from ..store import open_store
from .streams import needs_folder, say, show, show_json


def run(args: argparse.Namespace) -> int:
    needs_folder(args.store)
    query = " ".join(args.query)
    with closing(open_store(args.store)) as store:
        owners = store.owners() or [""]  # a proxy keeps the content of each credential apart
        each = [recall(store, query, conversation=args.conversation, owner=o, limit=args.limit) for o in owners]
    found = list(chain.from_iterable(each))[: args.limit]
    if args.json:
        show_json([asdict(d) for d in found])
        return 0 if found else 1
    for document in found:
        about = " ".join(filter(None, (document.kind, document.tool, document.path)))
        show(f"--- ref {document.ref}  {about}\n{document.text}")
    if not found:
        say("nothing found")
    return 0 if found else 1
