"""The proxy as an application: what comes in goes to the relay or the board, over connections of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import aiohttp
from aiohttp import web

from ..errors import StoreError
from .board import Access, Board
from .engine import Engine
from .guard import admitted
from .log import logger
from .relay import PassedBack, Relay
from .settings import Settings
from .spans import tracer
from .watch import Watch

__all__ = ["Proxy"]

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
            logger=logger(self.settings),
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
