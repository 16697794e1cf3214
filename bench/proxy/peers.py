"""Proxies side by side: the same two sessions through each, as their clients would send them.

Each proxy runs in an environment of its own (`--environments DIR`: one virtual environment a package, named as it) and
is given the window's budget where it takes one. The upstream refuses nothing, so that a proxy that does not keep
within the window has a bill too; how many of its requests would have been refused stands beside it.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from . import client, processes, sessions
from .bill import Bill
from .processes import Kind, Server
from .sessions import Session
from .upstream import Script, Upstream

WINDOWS = {0.2: "a fifth of the session's final size", 0.35: "35 % of the session's final size"}
BUDGET_RATIO = 0.9
"""Of the window: what a proxy with a threshold is told to stay below."""

Recall = Callable[[Server, str], str]


@dataclass(frozen=True, kw_only=True)
class Peer:
    kind: Callable[[int], Kind]
    """For a window of so many tokens."""
    fetch: Recall
    """All text that the last request names a way to, fetched that way."""
    note: str


def nothing(server: Server, last: str) -> str:
    return ""


def files(server: Server, last: str) -> str:
    """packlight with --store: the plain files that placeholders name, and those that these name."""
    folder = server.folder / "store"
    name = re.compile(re.escape(str(folder)) + r"[^\s\"'\\)\]>,;`]*")
    texts: dict[str, str] = {}
    waiting = set(name.findall(last))
    while waiting:
        path = Path(waiting.pop())
        if str(path) not in texts and path.is_file():
            texts[str(path)] = path.read_text(errors="replace")
            waiting |= set(name.findall(texts[str(path)]))
    return "\n".join(texts.values())


def digests(python: Path) -> Recall:
    """distil-llm: what `distil expand HANDLE` prints, for all handles in one process."""
    load = "import sys; from distil.mcp_server import _tool_expand"
    code = f"{load}; [print(_tool_expand({{'handle': handle}})) for handle in sys.argv[1:]]"

    def fetch(server: Server, last: str) -> str:
        handles = sorted(set(re.findall(r"handle=([0-9a-f]{6,})", last)))
        environment = {"HOME": str(server.folder), "DISTIL_HOME": f"{server.folder}/distil"}
        ran = subprocess.run([python, "-c", code, *handles], env=environment, capture_output=True, text=True)
        if ran.returncode:
            raise RuntimeError(ran.stderr[-500:])
        return ran.stdout

    return fetch


def peers(environments: Path) -> dict[str, Peer]:
    """Ours and those that are installed."""
    found = {f"packlight --policy {policy}": _ours(policy) for policy in ("default", "thrifty")}
    makers = {"cliffcompaction": _cliff, "distil-llm": _distil, "headroom-ai": _headroom}
    for name, make in makers.items():
        if (environments / name / "bin" / "python").exists():
            found[f"{name} {_version(environments, name)}"] = make(environments / name / "bin")
    return found


def _version(environments: Path, name: str) -> str:
    code = f"from importlib.metadata import version; print(version({name!r}))"
    python = environments / name / "bin" / "python"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _ours(policy: str) -> Peer:
    def kind(window: int) -> Kind:
        options = ("--window-tokens", str(window), "--policy", policy, "--store", "{folder}/store")
        return processes.packlight(*options)

    return Peer(kind=kind, fetch=files, note=f"--window-tokens W --policy {policy} --store DIR")


def _cliff(folder: Path) -> Peer:
    def kind(window: int) -> Kind:
        threshold = str(round(window * BUDGET_RATIO))
        command = (f"{folder}/cliff", "serve", "--port", "{port}", "--anthropic-upstream", "{upstream}")
        return Kind(name="cliffcompaction", command=(*command, "--threshold", threshold), ready="/")

    return Peer(kind=kind, fetch=nothing, note=f"serve --threshold {BUDGET_RATIO}W")


def _distil(folder: Path) -> Peer:
    def kind(window: int) -> Kind:
        command = (f"{folder}/distil", "proxy", "--port", "{port}", "--upstream", "{upstream}", "--expand")
        quiet = ("--shadow", "0", "--retention", "0", "--no-record")
        environment = {
            "DISTIL_HOME": "{folder}/distil",
            "DISTIL_HOLDOUT_RATE": "0",
            "DISTIL_NO_UPDATE_CHECK": "1",
            "DISTIL_NO_ENCRYPT_AT_REST": "1",
        }
        return Kind(name="distil-llm", command=(*command, *quiet), environment=environment, ready="/")

    return Peer(
        kind=kind, fetch=digests(folder / "python"), note="proxy --expand --shadow 0 --retention 0, no hold-out"
    )


def _headroom(folder: Path) -> Peer:
    def kind(window: int) -> Kind:
        command = (f"{folder}/headroom", "proxy", "--port", "{port}", "--no-cache", "--no-rate-limit")
        environment = {
            "ANTHROPIC_TARGET_API_URL": "{upstream}",
            "HEADROOM_OFFLINE": "1",
            "HEADROOM_TELEMETRY": "off",
            "HEADROOM_BEACON": "off",
            "DO_NOT_TRACK": "1",
        }
        return Kind(name="headroom-ai", command=command, environment=environment, ready="/health")

    return Peer(kind=kind, fetch=nothing, note="proxy --no-cache --no-rate-limit, HEADROOM_OFFLINE=1")


async def replay(session: Session, kind: Kind | None, fetch: Recall, window: int) -> dict[str, Any]:
    """The session's requests in turn, and what the upstream got of them. Without a kind: straight."""
    bill = Bill(window_tokens=window)
    received: list[bytes] = []
    script = Script(events=4, chunks=1, keep=lambda path, body: received.append(body) if body else None)
    runner = web.AppRunner(Upstream(script).app(), access_log=None)
    await runner.setup()
    port = processes.free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    url = f"http://127.0.0.1:{port}"
    try:
        if kind is None:
            return await _driven(session, None, url, bill, received, fetch)
        async with processes.running_beside(kind, url) as server:
            return await _driven(session, server, server.url, bill, received, fetch)
    finally:
        await runner.cleanup()


async def _driven(
    session: Session, server: Server | None, url: str, bill: Bill, received: list[bytes], fetch: Recall
) -> dict[str, Any]:
    walls: list[float] = []
    failed = 0
    async with client.session() as asking:
        for count in session.calls:
            start = time.perf_counter()
            took = await client.ask(asking, url, session.body(count, marks=True))
            walls.append(time.perf_counter() - start)
            failed += took.status != 200
            for body in received:
                bill.receive(body)
            received.clear()
    recalled = await asyncio.to_thread(fetch, server, bill.last) if server else ""
    return {
        "cost": bill.cost,
        "requests": bill.requests,
        "breaks": bill.breaks,
        "invalid": bill.invalid,
        "failed": failed,
        "over_window": bill.over_window,
        "peak_tokens": bill.peak_tokens,
        "median_ms": 1e3 * client.median(walls),
        "rss_mb": server.rss_mb if server else 0.0,
        "facts": _share(session.facts, bill.last),
        "paths": _share(session.paths, bill.last),
        "visible": _share(session.probes, bill.last),
        "recallable": _share(session.probes, bill.last + recalled),
    }


def _share(words: Sequence[str], text: str) -> list[int]:
    return [sum(word in text for word in words), len(words)]


async def run(environments: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for share, about in WINDOWS.items():
        for name, session in (("loop", sessions.loop()), ("dialogue", sessions.dialogue())):
            window = round(len(session.body(session.calls[-1])) / 4 * share)
            table = await _table(session, window, environments)
            key = f"{name}, {about}"
            figures[key] = {"window_tokens": window, "share": about, "requests": len(session.calls), "proxies": table}
    return figures


async def _table(session: Session, window: int, environments: Path) -> dict[str, Any]:
    plain = await replay(session, None, nothing, window)
    table: dict[str, Any] = {"no proxy": {**plain, "bill": 1.0, "note": ""}}
    for name, peer in peers(environments).items():
        got = await replay(session, peer.kind(window), peer.fetch, window)
        table[name] = {**got, "bill": got["cost"] / plain["cost"], "note": peer.note}
        print(f"{name}: bill {table[name]['bill']:.2f}, {got['breaks']} breaks", flush=True)
    return table
