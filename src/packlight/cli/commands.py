"""What each command does, once its arguments are read."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from .. import jsonio, oneshot
from ..compaction import Report
from ..compactor import Compactor
from ..errors import InvalidRequest, NotFound
from ..laws import validate
from ..policy import PRESETS
from ..recall import recall as find
from ..replay.readers import find_files, read_sessions
from ..replay.report import as_json, render, summary, use_color
from ..replay.run import SessionResult
from ..replay.run import replay as walk
from ..replay.session import Session
from ..types import Json


def compact(args: argparse.Namespace) -> int:
    request = jsonio.load(_read(args.file))
    _known_policy(args.policy)
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
    _write(args.output, jsonio.dump(result.request))
    report = result.report
    if args.json:
        _say(jsonio.dump(_report_json(report, result.fits, result.conversation), indent=2).decode())
    else:
        _say(_report_text(report, result.fits))
    return 0 if result.fits else 1


def _report_json(report: Report, fits: bool, conversation: str) -> dict[str, Json]:
    fields = {k: v for k, v in asdict(report).items() if k not in ("error", "edits", "new_edits", "violations")}
    return {
        **fields,
        "fits": fits,
        "conversation": conversation,
        "layers": list(report.layers),
        "edits": [asdict(e) for e in report.edits],
        "new_edits": len(report.new_edits),
        "violations": [str(v) for v in report.violations],
        "error": str(report.error) if report.error else None,
    }


def _report_text(report: Report, fits: bool) -> str:
    budget = f"budget {report.budget_tokens:,}" if report.budget_tokens is not None else "window not known"
    lines = [
        f"{report.outcome}: {report.reason}",
        f"tokens {report.tokens_before:,} -> {report.tokens_after:,} ({budget}, window from {report.window_source})",
    ]
    counts: dict[str, int] = {}
    for edit in report.new_edits:
        counts[f"{edit.layer}: {edit.action}"] = counts.get(f"{edit.layer}: {edit.action}", 0) + 1
    lines += [f"  {n} x {what}" for what, n in counts.items()]
    if report.error is not None:
        lines.append(f"  error: {report.error}")
    if not fits:
        lines.append("  it is still over the budget: nothing more can be taken out")
    return "\n".join(lines)


def check(args: argparse.Namespace) -> int:
    found = validate(jsonio.load(_read(args.file)), args.format)
    if args.json:
        print(jsonio.dump([{"position": list(v.position), "rule": v.rule, "message": v.message} for v in found], indent=2).decode())
    else:
        for violation in found:
            print(str(violation).encode("utf-8", "replace").decode())
    return 1 if found else 0


def restore(args: argparse.Namespace) -> int:
    request = jsonio.load(_read(args.file))
    _needs_folder(args.store)
    try:
        back = oneshot.restore(request, args.store, all=args.all, format=args.format)
    except NotFound as error:
        raise InvalidRequest(str(error)) from error
    _write(args.output, jsonio.dump(back))
    return 0


def recall(args: argparse.Namespace) -> int:
    _needs_folder(args.store)
    found = find(args.store, " ".join(args.query), conversation=args.conversation, limit=args.limit)
    if args.json:
        print(jsonio.dump([asdict(d) for d in found], indent=2).decode())
        return 0 if found else 1
    for document in found:
        about = " ".join(filter(None, (document.kind, document.tool, document.path)))
        sys.stdout.write(f"--- ref {document.ref}  {about}\n{document.text}\n".encode("utf-8", "replace").decode())
    if not found:
        _say("nothing found")
    return 0 if found else 1


def replay(args: argparse.Namespace) -> int:
    policies = [p.strip() for p in args.policy.split(",") if p.strip()]
    for policy in policies:
        _known_policy(policy)
    results: list[SessionResult] = []
    for session in _sessions(args):
        for policy in policies:
            results.append(_walked(session, policy, args.window_tokens))
            if not args.json:
                print(render(results[-1], color=use_color(sys.stdout), width=shutil.get_terminal_size((80, 24)).columns))
    if not results:
        raise InvalidRequest("no session found there")
    if args.json:
        for result in results:
            print(jsonio.dump(as_json(result)).decode())
    elif len(results) > 1:
        print(summary(results))
    broken = any(r.invalid_requests or not r.restored or r.errors for r in results)
    return 1 if broken else 0


def _sessions(args: argparse.Namespace) -> list[Session]:
    sessions: list[Session] = []
    for path in args.paths:
        if path == "-":
            sessions += read_sessions(sys.stdin.buffer.read(), format=args.format)
            continue
        files = find_files(path)
        for n, file in enumerate(files):
            _progress(f"reading {n + 1} of {len(files)} files", len(files) > 3)
            try:
                sessions += read_sessions(file, format=args.format)
            except InvalidRequest as error:
                if len(files) == 1:
                    raise
                _say(f"packlight: {file}: {error}")
        _progress("", len(files) > 3)
    return sessions


def _walked(session: Session, policy: str, window_tokens: int | None) -> SessionResult:
    turns = session.turns

    def progress(done: int, of: int) -> None:
        if turns > 50 and done % 10 == 0:
            _progress(f"{session.name}: {policy}: call {done} of {of}", True)

    result = walk(session, policy=policy, window_tokens=window_tokens, compactor_factory=_compactor, progress=progress)
    _progress("", turns > 50)
    return result


def _compactor(model: str | None, policy: str, window_tokens: int | None) -> Compactor:
    return Compactor(model, policy=policy, window_tokens=window_tokens)


def _progress(text: str, wanted: bool) -> None:
    """One line that is written over, on a terminal only."""
    if wanted and sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _known_policy(name: str) -> None:
    if name not in PRESETS:
        raise InvalidRequest(f"unknown policy {name!r}: one of {', '.join(PRESETS)}")


def _needs_folder(path: str) -> None:
    if not Path(path).is_dir():
        raise InvalidRequest(f"{path}: there is no store")


def _read(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _say(text: str) -> None:
    sys.stderr.write(text.encode("utf-8", "replace").decode() + "\n")


def _write(output: str | None, data: bytes) -> None:
    """To standard output, or to a file that is there whole or not at all."""
    if output is None or output == "-":
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()
        return
    target = Path(output)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data + b"\n")
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(target: Path) -> int:
    """The file's own mode, or what the user's umask gives a new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


__all__: list[str] = ["check", "compact", "recall", "replay", "restore"]
