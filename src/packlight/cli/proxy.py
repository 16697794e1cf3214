"""`packlight proxy`: between any agent and its provider."""

from __future__ import annotations

import argparse
import os
import secrets
from dataclasses import replace
from pathlib import Path

from ..errors import PacklightError
from ..store import state_folder

try:
    from ..proxy import Settings, serve
except ModuleNotFoundError as error:
    raise PacklightError(
        f"the proxy needs an extra: pip install 'packlight[proxy]', from a clone '.[proxy]' ({error})"
    ) from error


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    if settings.workers > 1 and settings.folder is None:
        raise PacklightError("--workers share what is recorded in a folder: they can't with --store none")
    if settings.workers > 1 and not hasattr(os, "fork"):
        raise PacklightError("--workers needs Linux or macOS")
    serve(settings)
    return 0


def settings_of(args: argparse.Namespace) -> Settings:
    """What the options say. Raises PacklightError for an upstream or a store that can't be one."""
    settings = Settings(
        mode=args.mode,
        policy=args.policy,
        upstream=args.upstream,
        window_tokens=args.window_tokens,
        keep_tools=tuple(args.keep_tool),
        host=args.host,
        port=args.port,
        workers=args.workers,
        recall_tool=args.recall_tool,
        json_log=args.json,
        store=Path(args.store) if args.store and args.store != "none" else None,
        journal=None if args.store == "none" else state_folder() / "proxy",
    )
    if settings.is_local:
        return settings
    return replace(settings, token=os.environ.get("PACKLIGHT_TOKEN") or secrets.token_urlsafe(24))
