"""A proxy as a process, or as several on one port: how they begin, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .board import Access
from .log import log, say
from .server import Proxy
from .settings import Settings

__all__ = ["serve"]

RESTART_SECONDS = 0.2
"""Before a worker takes the place of one that died."""
ORPHAN_SECONDS = 1.0
"""How often a worker looks whether the process that began it is there: it would hold the port, and nobody end it."""


def serve(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM. Raises OSError when it can't begin."""
    if settings.workers > 1:
        with tempfile.TemporaryDirectory(prefix="packlight-") as folder:
            _supervise(settings, Access(folder=Path(folder)))
    else:
        asyncio.run(_serve(settings))


async def _serve(
    settings: Settings, access: Access | None = None, *, says_where: bool = True, parent: int | None = None
) -> None:
    """Until told to end, or until the process `parent` is gone, whoever killed it."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt instead
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
    async with Proxy(settings, access) as proxy:
        proxy.watch.listeners.append(lambda thread, turn: log(settings, thread, turn))
        if proxy.engine.trouble:
            say(f"nothing can be recorded, so all ends with this process: {proxy.engine.trouble}")
        if says_where:
            say(f"packlight proxy on {proxy.url} ({_about(settings)})")
            say(f"live page: {proxy.page_url}")
        while not stop.is_set() and parent in (None, os.getppid()):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), ORPHAN_SECONDS)


def _supervise(settings: Settings, access: Access) -> None:
    """One process a worker on the same port; when one dies another takes its place, when we are told to end all do.

    Raises OSError when the port can't be had.
    """
    children: set[int] = set()
    ended = False

    def end(number: int, frame: object) -> None:
        nonlocal ended
        ended = True
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)

    with _reserved(settings) as port:
        settings = replace(settings, port=port)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        for worker in range(settings.workers):
            children.add(_worker(settings, access, says_where=worker == 0))
        while children:
            child, status = os.wait()
            children.discard(child)
            if not ended and status != 0:
                time.sleep(RESTART_SECONDS)
                children.add(_worker(settings, access))
            if ended:
                end(0, None)  # one that was begun while we were told


_ENDING = (signal.SIGINT, signal.SIGTERM)


def _worker(settings: Settings, access: Access, *, says_where: bool = False) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # told to end just now, it would run its parent's handler
    parent, child = os.getpid(), os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        return child
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    code = 1
    try:
        asyncio.run(_serve(settings, access, says_where=says_where, parent=parent))
        code = 0
    except Exception as error:
        say(f"packlight: a worker ended: {type(error).__name__}: {error}")
    finally:
        os._exit(code)


@contextlib.contextmanager
def _reserved(settings: Settings) -> Iterator[int]:
    """The port that all workers listen on, held without listening on it."""
    family, _, _, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, socket.SOCK_STREAM) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(address)
        yield held.getsockname()[1]


def _about(settings: Settings) -> str:
    where = f"store {settings.store}" if settings.store else "no text kept" if not settings.journal else "edits kept"
    return f"{settings.mode}, {settings.policy}, {where}; upstream {settings.upstream or 'by path'}"
