"""`packlight replay`: recorded sessions, walked through the engine."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import __version__, jsonio
from ..compactor import Compactor
from ..errors import InvalidRequest
from ..replay.columns import measures_of
from ..replay.compare import Replayed, compared
from ..replay.foreign import ForeignEngine, is_foreign, load_policy
from ..replay.home import is_sub_agents, newest_first, own_sessions, session_folders
from ..replay.html import page
from ..replay.readers import find_files, read_sessions
from ..replay.report import as_json, render_all
from ..replay.session import Session, as_if
from ..replay.text import use_color
from ..replay.trace import trace
from ..replay.walk import Engine
from .jobs import Failed, in_order
from .policies import known_policy
from .streams import check_output, one_line, printable, progress, read, say, show, show_json, write

NEWEST = 20
"""So many of the user's own sessions, unless more are asked for."""


def run(args: argparse.Namespace) -> int:
    policies = _policies(args.policy)
    if args.with_text and not args.html:
        raise InvalidRequest("--with-text is for the page that --html writes")
    if args.trace and (args.html or args.json or args.details):
        raise InvalidRequest("--trace replays nothing: --html, --json and --details have nothing to show beside it")
    check_output(args.html)
    check_output(args.trace)
    files = _files(args)
    if args.trace:
        return _traced(args, files)
    sessions: list[Replayed] = []
    for replayed in _replayed(args, files, policies):
        if args.json:
            for row in replayed.rows:
                show_json(as_json(replayed, row), indent=None)
        sessions.append(replayed)
    if not sessions:
        raise InvalidRequest(f"no session found in {', '.join(args.paths)}")
    if not args.json:
        width = shutil.get_terminal_size((100, 24)).columns
        text = render_all(sessions, color=use_color(sys.stdout), width=width, details=args.details)
        show(printable(text.removesuffix("\n")))
    if args.html:
        _written("the page", args.html, page(sessions, version=__version__))
    results = [row.result for replayed in sessions for row in replayed.rows]
    return 1 if any(r.invalid_requests or not r.restored or r.errors for r in results) else 0


def _traced(args: argparse.Namespace, files: Sequence[str]) -> int:
    lines: list[bytes] = []
    refused = Refused(named=args.paths)
    for file in files:
        try:
            sessions = read_sessions(read("-") if file == "-" else file, format=args.format)
        except (InvalidRequest, OSError) as error:
            if len(files) == 1:
                raise
            refused.add(file, error)
            continue
        lines += [jsonio.dump(record) for session in sessions for record in trace(session)]
    refused.end()
    if not lines:
        raise InvalidRequest(f"no session found in {', '.join(args.paths)}")
    _written("the trace", args.trace, b"\n".join(lines))
    return 0


def _written(what: str, output: str, data: bytes) -> None:
    write(output, data)
    if output != "-":
        say(f"packlight: {what} is {output} ({len(data) / 1000:,.0f} kB)")


def _policies(text: str) -> list[str]:
    policies = list(dict.fromkeys(p.strip() for p in text.split(",") if p.strip()))
    if not policies:
        raise InvalidRequest("--policy names none")
    for policy in policies:
        load_policy(policy) if is_foreign(policy) else known_policy(policy)
    return policies


def _files(args: argparse.Namespace) -> list[str]:
    """What is to be read, in the order of the output."""
    if args.paths:
        listed = (str(f) for path in args.paths for f in ([path] if path == "-" else find_files(path)))
        found = list(dict.fromkeys(listed))  # a file that is named beside its folder is counted once
        if args.since is None:
            return found
        return [str(f) for f in newest_first((Path(f) for f in found if f != "-"), since_days=args.since)]
    files = own_sessions(os.environ, Path.home(), since_days=args.since)
    if not files:
        when = f" of the last {args.since:g} days" if args.since else ""
        looked = ", ".join(map(str, session_folders(os.environ, Path.home())))
        where = f"in {looked}" if looked else "on this machine"
        raise InvalidRequest(f"no sessions of Claude Code, Codex or pi{when} {where}: name a file or a folder")
    if len(files) > NEWEST and not args.all and args.since is None:
        whole = [f for f in files if not is_sub_agents(f)] or files
        rest = " and what their sub-agents did" if len(whole) < len(files) else ""
        files = whole[:NEWEST]
        say(f"packlight: the newest {len(files)} of {len(whole):,} sessions; --all or --since DAYS for more{rest}")
    return [str(f) for f in files]


def _replayed(args: argparse.Namespace, files: Sequence[str], policies: Sequence[str]) -> Iterator[Replayed]:
    def made(file: str) -> Job:
        return Job(file, policies, args.window_tokens, args.model, args.format, args.with_text)

    refused = Refused(named=args.paths)
    jobs = [made(file) for file in files if file != "-"]
    if "-" in files:
        yield from made("-").replayed(read_sessions(read("-"), format=args.format))
    for job, done in zip(jobs, in_order(jobs, args.jobs or os.cpu_count() or 1), strict=True):
        if isinstance(done, Failed):
            if len(files) == 1:
                raise InvalidRequest(f"{job.file}: {done.why}")
            refused.add(job.file, done.why)
        else:
            yield from done
    refused.end()


class Refused:
    """Says of each file that can't be read why not; of those that only stand in a folder, of the first ones."""

    _MOST_OF_FOLDERS = 3

    def __init__(self, named: Sequence[str]) -> None:
        self._named = set(named)
        self._in_folders = 0

    def add(self, file: str, why: object) -> None:
        self._in_folders += file not in self._named
        if file in self._named or self._in_folders <= self._MOST_OF_FOLDERS:
            say(one_line(f"packlight: {file}: {why}"))

    def end(self) -> None:
        if (more := self._in_folders - self._MOST_OF_FOLDERS) > 0:
            say(f"packlight: {more:,} more files are no sessions that can be read; name one to see why")


@dataclass(frozen=True, slots=True)
class Job:
    """One file, to be replayed here or in another process."""

    file: str
    policies: Sequence[str]
    window_tokens: int | None
    model: str | None
    format: str | None
    with_text: bool

    def __call__(self) -> list[Replayed]:
        return self.replayed(read_sessions(self.file, format=self.format))

    def replayed(self, sessions: Sequence[Session]) -> list[Replayed]:
        return [self._replayed(session) for session in sessions]

    def _replayed(self, session: Session) -> Replayed:
        turns = session.turns

        def shown(policy: str, done: int) -> None:
            if done % 10 == 0:
                progress(f"{session.name}: {policy}: call {done:,} of {turns:,}", turns > 50)

        try:
            return compared(
                as_if(session, self.model) if self.model else session,
                self.policies,
                _engine,
                window_tokens=self.window_tokens,
                recorded=self.model is None,
                with_text=self.with_text,
                measures=measures_of(),
                progress=shown,
            )
        finally:  # whatever comes next begins on a clean line, a prompt after Ctrl-C too
            progress("", turns > 50)


def _engine(model: str | None, policy: str, window_tokens: int | None) -> Engine:
    if is_foreign(policy):
        return ForeignEngine(load_policy(policy), policy, model, window_tokens)
    return Compactor(model, policy=policy, window_tokens=window_tokens)
