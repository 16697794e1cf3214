"""`packlight run`: one command behind a proxy of its own."""

from __future__ import annotations

import argparse
import asyncio

from ..errors import PacklightError
from .proxy import settings_of

from ..proxy.launch import run as launched  # isort: skip  # `.proxy` says which extra is missing


def run(args: argparse.Namespace) -> int:
    command = args.command_line[1:] if args.command_line[:1] == ["--"] else args.command_line
    if not command:
        raise PacklightError("run what? packlight run claude, packlight run codex, or packlight run -- CMD ...")
    return asyncio.run(launched(settings_of(args), command))
