"""`packlight restore`: back to what went in."""

from __future__ import annotations

import argparse

from ..errors import InvalidRequest, NotFound
from ..jsonio import dump
from ..oneshot import restore
from ..types import Json
from .streams import check_output, load, needs_folder, say, write


def run(args: argparse.Namespace) -> int:
    check_output(args.output)
    needs_folder(args.store)
    request = load(args.file)
    try:
        back = restore(request, args.store, all=args.all, format=args.format)
    except NotFound as error:
        raise InvalidRequest(str(error)) from error
    write(args.output, dump(back))
    if args.json:
        say(dump({"restored": True, "messages": _length(back)}).decode())
    return 0


def _length(request: Json) -> int:
    items = request if isinstance(request, list) else request.get("messages", request.get("input"))
    return len(items) if isinstance(items, list) else 1
