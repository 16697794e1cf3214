"""What each command does, once its arguments are read."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from .. import oneshot
from ..compaction import Compaction, Report
from ..compactor import Compactor
from ..errors import InvalidRequest, NotFound, StoreError
from ..jsonio import dump
from ..laws import validate
from ..policy import PRESETS
from ..recall import recall as find
from ..replay.readers import find_files, read_sessions
from ..replay.report import as_json, render, summary, use_color
from ..replay.run import SessionResult
from ..replay.run import replay as walk
from ..replay.session import Session
from ..types import Json
from .streams import check_output, load, progress, read, say, show, show_json, write


def compact(args: argparse.Namespace) -> int:
    _known_policy(args.policy)
    check_output(args.output)
    request = load(args.file)
    result = oneshot.compact(
        request,
        policy=args.policy,
        model=args.model,
        store=args.store,
        format=args.format,
        force=args.force,
        window_tokens=args.window_tokens,
        repair=args.repair,
    )
    report = result.report
    if isinstance(report.error, StoreError):  # what was taken out would end with this process
        raise report.error
    write(args.output, dump(result.request))
    if args.json:
        say(dump(_report_json(result), indent=2).decode())
    else:
        say(_report_text(report, result.fits, kept=args.store is not None))
    return 0 if result.fits and report.error is None else 1


def _report_json(result: Compaction) -> dict[str, Json]:
    report = result.report
    fields = {k: v for k, v in asdict(report).items() if k not in ("error", "edits", "new_edits", "violations")}
    return {
        **fields,
        "fits": result.fits,
        "changed": result.changed,
        "conversation": result.conversation,
        "layers": list(report.layers),
        "edits": [asdict(e) for e in report.edits],
        "new_edits": len(report.new_edits),
        "violations": [str(v) for v in report.violations],
        "error": str(report.error) if report.error else None,
    }


def _report_text(report: Report, fits: bool, *, kept: bool) -> str:
    budget = "window not known: give --window-tokens N or --model M"
    if report.budget_tokens is not None:
        budget = f"budget {report.budget_tokens:,}, window from {report.window_source}"
    lines = [
        f"{report.outcome}: {report.reason}",
        f"tokens {report.tokens_before:,} -> {report.tokens_after:,} ({budget})",
    ]
    counts = Counter(f"{edit.layer}: {edit.action}" for edit in report.new_edits)
    lines += [f"  {n} x {what}" for what, n in counts.items()]
    if report.violations:
        lines.append(f"  {len(report.violations)} places were broken before: `packlight check` lists them")
    if report.error is not None:
        lines.append(f"  error: {report.error}")
    if not fits:
        lines.append("  it is still over the budget: nothing more can be taken out")
    if report.new_edits and not kept:
        lines.append("  what was taken out is kept nowhere else: --store DIR keeps it for `restore` and `recall`")
    return "\n".join(lines)


def check(args: argparse.Namespace) -> int:
    found = validate(load(args.file), args.format)
    if args.json:
        show_json([{"position": list(v.position), "rule": v.rule, "message": v.message} for v in found])
    else:
        for violation in found:
            show(str(violation))
    return 1 if found else 0


def restore(args: argparse.Namespace) -> int:
    check_output(args.output)
    _needs_folder(args.store)
    request = load(args.file)
    try:
        back = oneshot.restore(request, args.store, all=args.all, format=args.format)
    except NotFound as error:
        raise InvalidRequest(str(error)) from error
    write(args.output, dump(back))
    if args.json:
        say(dump({"restored": True, "messages": _length(back)}).decode())
    return 0


def _length(request: Json) -> int:
    items = request if isinstance(request, list) else request.get("messages", request.get("input"))
    return len(items) if isinstance(items, list) else 1


def recall(args: argparse.Namespace) -> int:
    _needs_folder(args.store)
    found = find(args.store, " ".join(args.query), conversation=args.conversation, limit=args.limit)
    if args.json:
        show_json([asdict(d) for d in found])
        return 0 if found else 1
    for document in found:
        about = " ".join(filter(None, (document.kind, document.tool, document.path)))
        show(f"--- ref {document.ref}  {about}\n{document.text}")
    if not found:
        say("nothing found")
    return 0 if found else 1


def replay(args: argparse.Namespace) -> int:
    policies = [p.strip() for p in args.policy.split(",") if p.strip()]
    if not policies:
        raise InvalidRequest("--policy names none")
    for policy in policies:
        _known_policy(policy)
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

    result = walk(session, policy=policy, window_tokens=window_tokens, compactor_factory=_compactor, progress=shown)
    progress("", turns > 50)
    return result


def _compactor(model: str | None, policy: str, window_tokens: int | None) -> Compactor:
    return Compactor(model, policy=policy, window_tokens=window_tokens)


def _known_policy(name: str) -> None:
    if name not in PRESETS:
        raise InvalidRequest(f"unknown policy {name!r}: one of {', '.join(PRESETS)}")


def _needs_folder(path: str) -> None:
    if not Path(path).is_dir():
        raise InvalidRequest(f"{path}: there is no store")


__all__: list[str] = ["check", "compact", "recall", "replay", "restore"]
