"""`packlight recall`: what was taken out."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from .. import recall
from .streams import needs_folder, say, show, show_json


def run(args: argparse.Namespace) -> int:
    needs_folder(args.store)
    found = recall(args.store, " ".join(args.query), conversation=args.conversation, limit=args.limit)
    if args.json:
        show_json([asdict(d) for d in found])
        return 0 if found else 1
    for document in found:
        about = " ".join(filter(None, (document.kind, document.tool, document.path)))
        show(f"--- ref {document.ref}  {about}\n{document.text}")
    if not found:
        say("nothing found")
    return 0 if found else 1
