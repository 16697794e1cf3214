"""`packlight replay`: recorded sessions, walked through the engine."""

from __future__ import annotations

import argparse
import shutil
import sys

from ..compactor import Compactor
from ..errors import InvalidRequest
from ..replay.foreign import ForeignEngine, is_foreign, load_policy
from ..replay.readers import find_files, read_sessions
from ..replay.report import as_json, render, summary, use_color
from ..replay.run import SessionResult, replay
from ..replay.session import Session
from ..replay.walk import Engine
from .policies import known_policy
from .streams import progress, read, say, show, show_json


def run(args: argparse.Namespace) -> int:
    policies = [p.strip() for p in args.policy.split(",") if p.strip()]
    if not policies:
        raise InvalidRequest("--policy names none")
    for policy in policies:
        load_policy(policy) if is_foreign(policy) else known_policy(policy)
    results: list[SessionResult] = []
    for session in _sessions(args):
        for policy in policies:
            results.append(_walked(session, policy, args.window_tokens))
            if args.json:
                show_json(as_json(results[-1]), indent=None)
            else:
                width = shutil.get_terminal_size((80, 24)).columns
                show(render(results[-1], color=use_color(sys.stdout), width=width))
    if not results:
        raise InvalidRequest(f"no session found in {', '.join(args.paths)}")
    if not args.json and len(results) > 1:
        show(summary(results))
    broken = any(r.invalid_requests or not r.restored or r.errors for r in results)
    return 1 if broken else 0


def _sessions(args: argparse.Namespace) -> list[Session]:
    sessions: list[Session] = []
    for path in args.paths:
        if path == "-":
            sessions += read_sessions(read("-"), format=args.format)
            continue
        files = find_files(path)
        for n, file in enumerate(files):
            progress(f"reading {n + 1} of {len(files)} files", len(files) > 3)
            try:
                sessions += read_sessions(file, format=args.format)
            except InvalidRequest as error:
                if len(files) == 1:
                    raise InvalidRequest(f"{file}: {error}") from error
                say(f"packlight: {file}: {error}")
        progress("", len(files) > 3)
    return sessions


def _walked(session: Session, policy: str, window_tokens: int | None) -> SessionResult:
    turns = session.turns

    def shown(done: int, of: int) -> None:
        if turns > 50 and done % 10 == 0:
            progress(f"{session.name}: {policy}: call {done} of {of}", True)

    result = replay(session, policy=policy, window_tokens=window_tokens, compactor_factory=_compactor, progress=shown)
    progress("", turns > 50)
    return result


def _compactor(model: str | None, policy: str, window_tokens: int | None) -> Engine:
    if is_foreign(policy):
        return ForeignEngine(load_policy(policy), policy, model, window_tokens)
    return Compactor(model, policy=policy, window_tokens=window_tokens)
