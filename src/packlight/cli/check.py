"""`packlight check`: is this request valid for its API?"""

from __future__ import annotations

import argparse

from ..laws import validate
from .streams import load, say, show, show_json


def run(args: argparse.Namespace) -> int:
    found = validate(load(args.file), args.format)
    if args.json:
        show_json([{"position": list(v.position), "rule": v.rule, "message": v.message} for v in found])
    else:
        for violation in found:
            show(str(violation))
        if not found:
            say("valid")
    return 1 if found else 0
