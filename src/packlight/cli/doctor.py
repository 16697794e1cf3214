"""`packlight doctor`: whether the real path works."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from dataclasses import asdict

from ..replay.text import use_color
from .proxy import settings_of
from .streams import one_line, show, show_json

from ..proxy.doctor import Check, agent_checks, key_checks, local_checks  # isort: skip  # `.proxy` tells what is missing


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    checks = local_checks(settings, os.environ)
    if args.agent:
        checks += asyncio.run(agent_checks(settings, os.environ, args.agent))
    else:
        checks += asyncio.run(key_checks(settings, os.environ, args.model))
    if args.json:
        show_json([asdict(check) for check in checks])
    else:
        show("\n".join(_line(check) for check in checks))
    return 1 if any(check.ok is False for check in checks) else 0


def _line(check: Check) -> str:
    mark, color = {True: ("ok  ", "32"), False: ("BAD ", "31"), None: ("-   ", "33")}[check.ok]
    mark = f"\x1b[{color}m{mark}\x1b[0m" if use_color(sys.stdout) else mark
    return f"{mark} {one_line(check.name)}: {one_line(check.said)}"
