"""kill -9 in the middle of a conversation, while an answer streams: does the next request have the same prefix?"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from . import client, processes, sessions
from .processes import packlight, running_beside
from .upstream import Script, Upstream

WINDOW_TOKENS = 22_000
KILLED_AT = (30, 60, 101, 150)
"""Requests of the loop in whose answer the proxy is killed."""


async def run() -> dict[str, Any]:
    """The loop of 197 requests, once through a proxy that lives and once through proxies that are killed."""
    return {
        name: await _through(options)
        for name, options in {
            "edits kept (the default)": (),
            "--store DIR": ("--store", "{folder}/store"),
        }.items()
    }


async def _through(options: tuple[str, ...]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        lived = await _sent(Path(folder) / "state", options, ())
        killed = await _sent(Path(folder) / "state", options, KILLED_AT)
    figures: dict[str, Any] = {
        "requests": len(lived),
        "kills": len(KILLED_AT),
        "kept": sum(not _breaks(killed[at - 1 : at + 1]) for at in KILLED_AT),
        "batches": sum(len(killed[at]) < len(killed[at - 1]) for at in KILLED_AT),
        "breaks_lived": _breaks(lived),
        "breaks_killed": _breaks(killed),
    }
    if not options:  # with a store each run names files by a secret key of its own
        figures["identical"] = sum(a == b for a, b in zip(lived, killed, strict=True))
    return figures


def _breaks(bodies: list[bytes]) -> int:
    """Requests that do not begin with all bytes of the messages before them."""
    return sum(not after.startswith(before[:-2]) for before, after in zip(bodies, bodies[1:], strict=False))


async def _sent(folder: Path, options: tuple[str, ...], killed_at: tuple[int, ...]) -> list[bytes]:
    """What the upstream got of each request, the last where it was sent twice. All state is in `folder`, and new."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    received: list[bytes] = []
    script = Script(events=40, chunks=20, gap_seconds=0.0, keep=lambda path, body: received.append(body))
    upstream = Upstream(script)
    runner = web.AppRunner(upstream.app(), access_log=None)
    await runner.setup()
    port = processes.free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    session = sessions.loop()
    kind = packlight("--window-tokens", str(WINDOW_TOKENS), *options)
    sent: list[bytes] = []
    begin = 0
    for stop in (*killed_at, len(session.calls)):
        url = f"http://127.0.0.1:{port}"
        async with running_beside(kind, url, folder=folder) as server, client.session() as asking:
            for count in session.calls[begin:stop]:
                received.clear()
                await client.ask(asking, server.url, session.body(count, stream=True))
                sent.append(received[-1])
            if stop in killed_at:
                await _killed(upstream, server, asking, session.body(session.calls[stop], stream=True))
        begin = stop
    await runner.cleanup()
    return sent


async def _killed(upstream: Upstream, server: processes.Server, asking: aiohttp.ClientSession, body: bytes) -> None:
    """The proxy dies after the first piece of the answer."""
    upstream.script = Script(events=40, chunks=20, gap_seconds=0.05, keep=upstream.script.keep)
    try:
        async with asking.post(server.url + "/v1/messages", data=body) as got:
            await got.content.readany()
            await asyncio.to_thread(server.kill)
            await got.content.read()
        raise RuntimeError("the answer came to its end although the proxy was killed")
    except aiohttp.ClientError:
        pass
    finally:
        upstream.script = Script(events=40, chunks=20, keep=upstream.script.keep)
