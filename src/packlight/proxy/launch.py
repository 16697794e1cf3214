"""One command behind a proxy of its own: `packlight run claude`.

The agent's own files are never written: it is told where the proxy is by its environment and its command line.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ..errors import PacklightError
from .log import say
from .server import Proxy
from .settings import Settings
from .watch import Watch

__all__ = ["Launch", "launch_of", "run"]


_LINE_CHARS = 400
_HERE = "127.0.0.1"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a command is started."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    """What is added to the user's own."""


def launch_of(command: Sequence[str], url: str, environment: Mapping[str, str]) -> Launch:
    """What to start, in the user's environment, so that the command goes through the proxy at `url`."""
    straight = _straight(environment)
    name = os.path.basename(command[0])
    name = name.removesuffix(".exe").removesuffix(".cmd")
    if name == "claude":
        return Launch(command=tuple(command), environment={"ANTHROPIC_BASE_URL": url, **straight})
    if name == "codex":
        setting = f'openai_base_url="{url}/v1"'
        told = {"OPENAI_BASE_URL": f"{url}/v1", **straight}
        return Launch(command=(command[0], "-c", setting, *command[1:]), environment=told)
    general = {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_BASE": f"{url}/v1", **straight}
    return Launch(command=tuple(command), environment=general)


def _straight(environment: Mapping[str, str]) -> dict[str, str]:
    """Where the environment names a proxy of the network: that this machine itself is not behind it."""
    if not any(name.lower() in _PROXIES and value for name, value in environment.items()):
        return {}
    listed = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if {"*", _HERE} & {host.strip() for host in listed.split(",")}:
        return {}
    whole = ",".join(filter(None, (listed, _HERE)))
    return {"no_proxy": whole, "NO_PROXY": whole}


def behind(settings: Settings, environment: Mapping[str, str], **changes: Any) -> Settings:
    """The settings of a proxy before whatever upstream the user's environment names already."""
    return replace(
        settings,
        **changes,
        port=0,
        quiet=True,
        anthropic=environment.get("ANTHROPIC_BASE_URL") or settings.anthropic,
        openai=environment.get("OPENAI_BASE_URL") or environment.get("OPENAI_API_BASE") or settings.openai,
    )


async def run(settings: Settings, command: Sequence[str]) -> int:
    """Run a command behind a proxy until it ends; its exit code, or 128 and the number of the signal that ended it.

    Raises PacklightError when there is no such command.
    """
    if shutil.which(command[0]) is None:
        raise PacklightError(f"{command[0]}: there is no such command")
    async with Proxy(behind(settings, os.environ)) as proxy:
        launch = launch_of(command, proxy.url, os.environ)
        say(f"packlight: {told(launch)}")
        say(f"packlight: live page {proxy.page_url}")
        code = await _ended(launch)
        shadow = "shadow, nothing was changed; it would have been: " if settings.mode == "shadow" else ""
        for line in done(proxy.watch):
            say(f"packlight: {shadow}{line}")
        return code


async def _ended(launch: Launch) -> int:
    """Signals of the terminal reach the command itself; what is sent to us alone is sent on to it."""
    process = await asyncio.create_subprocess_exec(*launch.command, env={**os.environ, **launch.environment})
    loop = asyncio.get_running_loop()

    def send_on(number: int) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    with suppress(NotImplementedError):  # Windows has neither
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        loop.add_signal_handler(signal.SIGTERM, send_on, signal.SIGTERM)
        loop.add_signal_handler(signal.SIGHUP, send_on, signal.SIGHUP)
    code = await process.wait()
    return code if code >= 0 else 128 - code


def told(launch: Launch) -> str:
    """The command as somebody would type it who wanted the same without us."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in launch.environment.items()]
    line = " ".join([*settings, *map(shlex.quote, launch.command)])
    return line if line.isprintable() and len(line) <= _LINE_CHARS else f"{' '.join(settings)} {launch.command[0]} ..."


def done(watch: Watch) -> list[str]:
    """What was done, for whoever looks at it when the command has ended."""
    totals, turns = watch.totals, [turn for thread in watch.threads.values() for turn in thread.turns]
    changed = sum(turn.edits > 0 for turn in turns)
    changes = _changes(totals.compactions, totals.rescues, changed)
    refused = f", {totals.refused:,} refused by the provider" if totals.refused else ""
    lines = [f"{totals.requests:,} requests; {changes}{refused}"]
    if changed:
        largest = max(turn.tokens_before for turn in turns)
        sent = f"{totals.tokens_after:,} were sent in all, instead of {totals.tokens_before:,}"
        lines.append(f"the conversation grew to {largest:,} tokens; {sent}")
    if totals.errors:
        last = next((turn.error for turn in reversed(turns) if turn.error), "")
        lines.append(f"{totals.errors:,} requests met an error of ours, the last: {last}")
    return lines


def _changes(compactions: int, rescues: int, changed: int) -> str:
    if not compactions and not rescues:
        return f"{changed:,} sent with earlier edits, no new ones" if changed else "nothing was changed"
    parts = [f"{compactions:,} compactions"] if compactions else []
    return ", ".join(parts + ([f"{rescues:,} rescued from a refusal"] if rescues else []))
