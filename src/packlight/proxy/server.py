"""The proxy as a running thing: an application, its sockets, its processes and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import aiohttp
from aiohttp import web

from ..errors import StoreError
from .board import Access, Board
from .engine import Engine
from .guard import admitted
from .relay import PassedBack, Relay
from .settings import Settings
from .spans import tracer
from .watch import Thread, Turn, Watch

__all__ = ["Proxy", "say", "serve"]

MAX_REQUEST_BYTES = 512 << 20
MAX_LINE_BYTES = 256 << 10
_INVENTED = ("Content-Type", "Date", "Server")
"""What aiohttp adds to a reply that has none."""
CONNECT_SECONDS = 30.0
_LOOKED_AFTER = {"TCP_KEEPIDLE": 60, "TCP_KEEPALIVE": 60, "TCP_KEEPINTVL": 60, "TCP_KEEPCNT": 5}
"""As Anthropic's SDK has it (anthropic 2.12, `_DefaultHttpxClient`); each system has some of them."""
SWITCH_SECONDS = 0.0002
"""How long a thread that plans a batch may keep the interpreter from the event loop (Python's own is 0.005)."""
COLLECTED = (5_000, 2_000, 100)
"""What is remembered of conversations are millions of objects without cycles: a collection of them all stops every
request for 0.2 s and finds next to nothing. The youngest, of a batch, go in small steps, 3 ms each, and those that
outlive them when nobody waits."""
IDLE_SECONDS, IDLE_STEPS = 1.0, 20
"""How often it is looked whether nobody waits, and so many small steps are together."""
THREADS = 4
GRACE_SECONDS = 5.0
RESTART_SECONDS = 0.2
"""Before a worker takes the place of one that died."""
ORPHAN_SECONDS = 1.0
"""How often a worker looks whether the process that began it is there: it would hold the port, and nobody end it."""


class Proxy:
    """A proxy in this process: `async with Proxy(settings) as proxy` serves until it is left; `port` is then known."""

    def __init__(self, settings: Settings, access: Access | None = None) -> None:
        """`access` is what several processes of one start share."""
        self.settings = settings
        self.access = access or Access()
        self.engine = Engine(settings)
        self.watch = Watch(tracer())
        self.port = settings.port
        self._runner: web.AppRunner | None = None
        self._stack = contextlib.AsyncExitStack()

    @property
    def url(self) -> str:
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        token = f"/token/{self.settings.token}" if self.settings.token else ""
        return f"http://{host}:{self.port}{token}"

    @property
    def page_url(self) -> str:
        """Of the live page, with the key that opens text."""
        return f"{self.url}/?key={self.access.key}"

    async def __aenter__(self) -> Proxy:
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.freeze()
        gc.set_threshold(*COLLECTED)
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="packlight"))
        session = await self._stack.enter_async_context(_session())
        app = self._app(Relay(self.engine, session, self.watch))
        self._runner = web.AppRunner(
            app,
            auto_decompress=False,
            handler_cancellation=True,
            access_log=None,
            logger=_logger(self.settings),
            shutdown_timeout=GRACE_SECONDS,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
        )
        await self._runner.setup()
        self._stack.push_async_callback(self._runner.cleanup)
        collecting = asyncio.create_task(self._collect())
        self._stack.callback(collecting.cancel)
        if self.settings.journal and not self.settings.store:
            loop.run_in_executor(None, self._purge)
        shared = self.settings.workers > 1 or None
        site = web.TCPSite(self._runner, self.settings.host, self.settings.port, backlog=1024, reuse_port=shared)
        try:
            await site.start()
            if self.access.socket:
                await web.UnixSite(self._runner, str(self.access.socket)).start()
        except OSError:
            await self.__aexit__()
            raise
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()
        self.engine.close()

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(IDLE_SECONDS)
            if not self.watch.open and gc.get_count()[1] >= IDLE_STEPS:
                gc.collect(1)

    def _purge(self) -> None:
        """Forget conversations that nobody went on with. Of a folder that the user named nothing is removed."""
        with contextlib.suppress(StoreError):  # what can't be written is said when something is to be recorded
            self.engine.store.purge(keep_days=self.settings.keep_days)

    def _app(self, relay: Relay) -> web.Application:
        board = Board(self.watch, self.settings, self.access)

        @web.middleware  # not a route: a router has its own opinion of paths
        async def handle(request: web.Request, handler: object) -> web.StreamResponse:
            headers = {name.lower(): value for name, value in request.headers.items()}
            path, why = admitted(self.settings, request.raw_path, headers)
            if why:
                return _refused(403, why)
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return _refused(426, "this proxy speaks HTTP only: send the request by POST")
            if request.method in ("GET", "HEAD") and path.partition("?")[0] == "/healthz":
                return web.json_response({"status": "ok", "requests": self.watch.requests})
            if (shown := await board(request, path)) is not None:
                return shown
            with self.watch.opened():
                return await relay(request, path, headers)

        app = web.Application(client_max_size=MAX_REQUEST_BYTES, middlewares=[handle])
        app.on_response_prepare.append(_as_upstream)
        return app


async def _as_upstream(request: web.Request, response: web.StreamResponse) -> None:
    """No header that the upstream's reply had not."""
    theirs = response.their_headers if isinstance(response, PassedBack) else {"content-type", "date"}
    for name in _INVENTED:
        if name.lower() not in theirs:
            response.headers.popall(name, None)


def _refused(status: int, why: str) -> web.Response:
    body = {"type": "error", "error": {"type": "proxy_error", "message": f"packlight: {why}"}}
    return web.json_response(body, status=status)


class _Lines(logging.Handler):
    """What aiohttp has to say, a line each: of what came in and is no HTTP, of what went wrong in answering."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        why = f": {type(error).__name__}: {' '.join(str(error).split())}" if error else ""
        say(f"packlight: {record.getMessage()}{why}")


def _logger(settings: Settings) -> logging.Logger:
    """Of one proxy; where its command has the terminal it says nothing."""
    logger = logging.Logger("packlight.proxy", logging.CRITICAL if settings.quiet else logging.WARNING)
    logger.addHandler(_Lines())
    return logger


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A connection upstream on which the system looks whether it still stands: an answer may be thought over for
    minutes, a router in between forgets it, and what the client's own SDK does against that ends here."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _LOOKED_AFTER.items():
        if (option := getattr(socket, name, None)) is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


@contextlib.asynccontextmanager
async def _session() -> AsyncIterator[aiohttp.ClientSession]:
    """Connections upstream: as many as needed, replies as they are, no cookies kept, no time limit on an answer."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60, socket_factory=_socket),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        read_bufsize=1 << 18,
        max_line_size=MAX_LINE_BYTES,
        max_field_size=MAX_LINE_BYTES,
    ) as session:
        yield session


# --- running ---------------------------------------------------------------------------------------------------------


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
        proxy.watch.listeners.append(lambda thread, turn: _log(settings, thread, turn))
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


def new_token() -> str:
    return secrets.token_urlsafe(24)


def _about(settings: Settings) -> str:
    where = f"store {settings.store}" if settings.store else "no text kept" if not settings.journal else "edits kept"
    return f"{settings.mode}, {settings.policy}, {where}; upstream {settings.upstream or 'by path'}"


def say(line: str) -> None:
    """One line, whatever is in it; a log that nobody reads any more stops nothing."""
    shown = "".join(c if c.isprintable() else "?" for c in line)
    with contextlib.suppress(OSError, ValueError):
        print(shown, file=sys.stderr, flush=True)


def _log(settings: Settings, thread: Thread, turn: Turn) -> None:
    """One line: of every request as JSON, or of those that were changed or failed for people."""
    if settings.json_log:
        fields = {name: getattr(turn, name) for name in turn.__slots__}
        say(json.dumps({"thread": thread.id, **fields}))
    elif not settings.quiet and (turn.new_edits or turn.rescues or turn.error or turn.outcome == "passed"):
        size = f"{turn.tokens_before:,} -> {turn.tokens_after:,} tokens"
        rescued = f", sent again {turn.rescues} times" if turn.rescues else ""
        say(f"{turn.outcome}: {turn.model} {thread.id}: {size}{rescued}: {turn.error or turn.reason}")
