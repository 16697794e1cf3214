"""`packlight agent`: a small agent that never runs out of window."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ..agent import clients
from ..agent.apis import Api
from ..agent.chat import converse
from ..agent.loop import Agent, take_up
from ..agent.permission import Permission
from ..agent.prompt import new_rules, system_prompt
from ..agent.screen import Screen
from ..agent.session import Session, newest_session, sessions_folder
from ..agent.shell import kill_left
from ..agent.tools import TOOLS
from ..agent.workspace import Workspace
from ..budget import ROOM_KEYS
from ..compactor import Compactor
from ..errors import AgentError, ContextWindowExceeded, InvalidRequest
from ..layers import ProviderHistory
from ..replay.text import use_color
from ..types import Json, Writer
from ..writers import model_writer, provider_writer
from .policies import known_policy
from .streams import read, say, show_json

MAX_TOKENS = 8_000
"""Room for an answer, as in the first article."""


def run(args: argparse.Namespace) -> int:
    if args.resume and not args.resume.endswith(".jsonl"):  # `--continue "task"`
        args.task, args.resume = args.resume, ""
    known_policy(args.policy or "default")
    before = signal.signal(signal.SIGTERM, _terminated)
    folder = Path.cwd()
    try:
        with closing(_session(args, folder)) as session:
            base_url = args.base_url or session.about.get("base_url")
            api = clients.api_named(str(session.about.get("api")), base_url)
            with clients.connect(api, base_url) as client:
                return _worked(_agent(args, session, folder, api, client), args, folder)
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)  # so that what runs is ended, and the history left valid


# --- what it is made of ----------------------------------------------------------------------------------------------


def _session(args: argparse.Namespace, folder: Path) -> Session:
    """The session to go on with, or a new one."""
    if args.resume is not None:
        path = Path(args.resume) if args.resume else newest_session(folder)
        return _changed(Session.load(path), args, folder)
    if not args.task and not args.interactive and not sys.stdin.isatty():
        raise InvalidRequest('no task: packlight agent "what is to be done" (- reads it from standard input)')
    model = args.model or (clients.first_model(args.base_url) if args.base_url else clients.default_model())
    name = args.api or clients.api_name_of(model, args.base_url)
    api = clients.api_named(name, args.base_url)
    clients.connect(api, args.base_url).close()  # before there is a session
    system = system_prompt(folder)
    tools = [api.definition(t.name, t.description, t.schema) for t in TOOLS.values()]
    about = {
        "folder": str(folder),
        "format": api.name,
        "model": model,
        "api": name,
        "base_url": args.base_url,
        "policy": args.policy,
        "window_tokens": args.window_tokens,
        **({"store": str(Path(args.store).absolute())} if args.store else {}),
    }
    head = api.head(system, tools, args.max_tokens or MAX_TOKENS)
    session = Session.new(sessions_folder(folder), {**about, "head": head})
    session.add(api.opening(system))
    return session


def _changed(session: Session, args: argparse.Namespace, folder: Path) -> Session:
    """What the command line says anew of a session that goes on; its file keeps what it began with."""
    if session.about.get("folder") != str(folder):
        session.close()
        raise AgentError(f"{session.path}: belongs to {session.about.get('folder')}: go on with it there")
    for name in ("policy", "window_tokens"):
        session.about[name] = getattr(args, name) or session.about.get(name)
    if args.model:
        session.about["model"] = args.model
    if args.max_tokens:
        session.about["head"] = {k: args.max_tokens if k in ROOM_KEYS else v for k, v in session.head.items()}
    return session


def _agent(args: argparse.Namespace, session: Session, folder: Path, api: Api, client: Any) -> Agent:
    about = session.about
    compactor = Compactor(
        str(about["model"]),
        policy=str(about.get("policy") or "default"),
        store=args.store or about.get("store") or session.folder / "store",
        window_tokens=about.get("window_tokens"),
        writer=_writer(args.writer, client, str(about["model"])),
    )
    outputs = session.folder / "outputs"
    permission = Permission(folder, allow_all=args.yes, ask=_ask if sys.stdin.isatty() else None, readable=[outputs])
    return Agent(
        client=client,
        api=api,
        compactor=compactor,
        session=session,
        workspace=Workspace(folder=folder, outputs=outputs, permission=permission),
        screen=Screen(sys.stderr if args.json else sys.stdout, sys.stderr, is_rich=use_color(sys.stderr)),
        max_turns=args.max_turns,
    )


def _writer(name: str | None, client: Any, model: str) -> Writer | ProviderHistory | None:
    """Who writes summaries beside the digest, as the user names it. Raises InvalidRequest."""
    if name is None:
        return None
    try:
        if name == "provider":
            return provider_writer(client)
        return model_writer(client, model=model) if name == "self" else model_writer(name)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"--writer {name}: {error}") from error


def _ask(what: str, always: str) -> str:
    """Of the person at the terminal, who sees all of it: nothing in it may move the cursor or turn the text around."""
    say("\n" + "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in what))
    more = f", [a]lways ({always})" if always else ""
    sys.stderr.write(f"allow? [y]es{more}, [n]o, or say why not: ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    words = {"y": "yes", "yes": "yes", "a": "always", "always": "always", "n": "no", "no": "no", "": "no"}
    return words.get(answer.lower(), answer)


# --- a run -----------------------------------------------------------------------------------------------------------


def _worked(agent: Agent, args: argparse.Namespace, folder: Path) -> int:
    try:
        return _run(agent, args, folder)
    finally:
        kill_left(agent.workspace)


def _run(agent: Agent, args: argparse.Namespace, folder: Path) -> int:
    goes_on = take_up(agent) and args.resume is not None
    if args.resume is not None and (rules := new_rules(agent.session, folder)):
        agent.session.add([{"role": "user", "content": rules}])
        agent.screen.note("AGENTS.md has changed: the model is told")
    task = read("-").decode("utf-8", "replace") if args.task == "-" else args.task
    is_chat = args.interactive or (not task and sys.stdin.isatty())
    if not task and not is_chat and not goes_on:
        raise InvalidRequest(f"{agent.session.path}: has come to its end; give it a new task")
    agent.screen.note(f"session {agent.session.path}")
    code, answer = (0, "") if is_chat and not task and not goes_on else _once(agent, task)
    if is_chat:
        converse(agent, _reader())
    if args.json:
        show_json(_summary(agent, answer, code))
    else:
        agent.screen.note(_totals(agent))
    return code


def _once(agent: Agent, task: str | None) -> tuple[int, str]:
    """One task to its end: the exit code and the answer."""
    try:
        return 0, agent.run(task)
    except (AgentError, ContextWindowExceeded) as error:
        agent.screen.note(f"packlight: {error}")
        return 1, ""
    except KeyboardInterrupt:
        agent.screen.note("interrupted; packlight agent --continue goes on")
        return 130, ""


def _reader() -> Callable[[], str]:
    if not sys.stdin.isatty():
        return input
    import readline  # noqa: F401  arrow keys and a history

    return lambda: input("\n> ")


def _summary(agent: Agent, answer: str, code: int) -> Json:
    return {
        "answer": answer,
        "session": str(agent.session.path),
        "finished": code == 0,
        "model_calls": agent.totals.calls,
        **{k: v for k, v in asdict(agent.totals).items() if k != "calls"},
    }


def _totals(agent: Agent) -> str:
    t = agent.totals
    return (
        f"{t.calls:,} model calls, {t.tool_calls:,} tool calls, {t.input_tokens:,} input tokens, "
        f"{t.compactions:,} compactions, {t.rescues:,} rescues"
    )
