"""`packlight restore`: back to what went in."""

from __future__ import annotations

import argparse
from contextlib import closing, suppress

from ..errors import InvalidRequest, NotFound
from ..jsonio import dump
from ..oneshot import restore
from ..store import open_store
from ..types import Json
from .owners import found_by
from .streams import check_output, counted, load, needs_folder, say, write


def run(args: argparse.Namespace) -> int:
    check_output(args.output)
    needs_folder(args.store)
    request = load(args.file)
    with closing(open_store(args.store)) as store:

        def back_for(owner: str) -> Json:
            with suppress(NotFound):
                return restore(request, store, all=args.all, owner=owner, format=args.format)

        back = found_by(store, args.owner, back_for)
    if back is None:
        raise InvalidRequest("this request is no result of a compaction in that store")
    write(args.output, dump(back))
    messages = _length(back)
    if args.json:
        say(dump({"restored": True, "messages": messages}).decode())
    else:
        say(f"restored: {counted(messages, 'message')}")
    return 0


def _length(request: Json) -> int:
    items = request if isinstance(request, list) else request.get("messages", request.get("input"))
    return len(items) if isinstance(items, list) else 1
