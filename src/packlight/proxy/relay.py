"""One request through the proxy: on to the provider, the reply back as it comes.

What is decided is decided elsewhere (`engine`); here bytes are moved. Nothing is held back that can be passed on,
except: a refusal, until it is clear whether it can be cured; and the announcement of a streamed answer, where the
request is large enough to be refused in the stream.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from .continued import Continued
from .encodings import decoder, readable_only, reply_body
from .engine import Engine, Exchange
from .events import READ_AHEAD_BYTES, Stream
from .routes import Endpoint, endpoint_of, upstream_url
from .watch import Watch

__all__ = ["PassedBack", "Relay"]

T = TypeVar("T")

RECEIPT_HEADER = "x-packlight"
MAX_REPLY_BYTES = 64 << 20
"""A whole reply larger than this is not looked into."""
LOOK_SECONDS = 1.0
"""After such a silence it is looked whether the connection still stands: aiohttp (3.14) tells nothing where a reply's
chunks are malformed."""
PIECE_BYTES = 1 << 18
"""A large body is written in such pieces: other connections go on meanwhile."""
_OF_ONE_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""RFC 9110, section 7.6.1."""
_NOT_ON = _OF_ONE_HOP | {"host", "content-length", "expect", "x-packlight-token"}
"""`Expect` has had its answer here."""
_NOT_BACK = _OF_ONE_HOP | {"content-length"}


class Relay:
    """Sends requests on. `session` must not decode replies; `run` runs what takes time beside the event loop."""

    def __init__(self, engine: Engine, session: aiohttp.ClientSession, watch: Watch) -> None:
        self.engine = engine
        self.session = session
        self.watch = watch
        self._ways_out: dict[tuple[str, str], str | None] = {}

    async def __call__(self, request: web.Request, path: str, headers: Mapping[str, str]) -> web.StreamResponse:
        """`path` is without its token, the names of `headers` are in lower case."""
        endpoint = endpoint_of(request.method, path)
        url = URL(upstream_url(path, headers, self.engine.settings), encoded=True)
        try:
            if endpoint is None:
                return await self._through(request, url)
            return await self._answered(request, url, endpoint, headers)
        except (aiohttp.ClientError, TimeoutError) as error:
            self.watch.unreachable += 1
            return _unreachable(url, error)

    async def _through(self, request: web.Request, url: URL) -> web.StreamResponse:
        """Everything that is no conversation: body and reply are passed on as they come."""
        headers = _headers_on(request.headers)
        body = request.content if request.body_exists else None
        if body is not None and request.content_length is not None:
            headers["Content-Length"] = str(request.content_length)
        sent = self.session.request(
            request.method, url, headers=headers, data=body, allow_redirects=False, proxy=self.way_out(url)
        )
        async with sent as up:
            return await _passed(request, up, Incoming(up))

    async def _answered(
        self, request: web.Request, url: URL, endpoint: Endpoint, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        data = await request.read()
        exchange = await self._run(lambda: self.engine.begin(endpoint, headers, data))
        way = _Way(self, request, url, exchange)
        if exchange.turn is not None:
            return await Continued(request, exchange, exchange.turn, way)()
        while True:
            async with way.post() as up:
                response = await self._reply(request, up, exchange)
            if response is not None:
                return response

    async def _reply(
        self, request: web.Request, up: aiohttp.ClientResponse, exchange: Exchange
    ) -> web.StreamResponse | None:
        """The reply, passed back; None when the request is to be sent again."""
        incoming = Incoming(up)
        if up.content_type == "text/event-stream" and up.status < 300:
            return await self._streamed(request, up, exchange, incoming)
        if up.status < 400 and exchange.asks_stream and not up.content_type.endswith("json"):
            self.watch.note(exchange, up.status)
            return await _passed(request, up, incoming, exchange)
        data = await incoming.whole()
        body = reply_body(data, up.headers.get("Content-Encoding", "")) if data is not None else None
        if await self._run(lambda: exchange.replied(up.status, body)):
            return None
        self.watch.note(exchange, up.status)
        return await _passed(request, up, incoming, exchange)

    async def _streamed(
        self, request: web.Request, up: aiohttp.ClientResponse, exchange: Exchange, incoming: Incoming
    ) -> web.StreamResponse | None:
        stream = Stream(decoder(up.headers.get("Content-Encoding", "")))
        if exchange.may_be_refused:
            while not stream.begun and stream.error is None and incoming.held_bytes <= READ_AHEAD_BYTES:
                if not (chunk := await incoming.hold()):
                    break
                stream.feed(chunk)
            if stream.error is not None and await self._run(lambda: exchange.refused(200, stream.error)):
                return None
        incoming.see = stream.feed
        try:
            return await _passed(request, up, incoming, exchange)
        finally:  # of a client that has left, too: what was counted was paid for
            await asyncio.shield(self._run(lambda: self._end(exchange, up.status, stream)))

    def _end(self, exchange: Exchange, status: int, stream: Stream) -> None:
        exchange.answered(stream.usage, is_taken=stream.is_answer)
        self.watch.note(exchange, status)

    def way_out(self, url: URL) -> str | None:
        """The proxy that this machine's environment names for a URL. (aiohttp's `trust_env` would add credentials of a
        .netrc file to requests, too.)"""
        known = (url.scheme, url.host or "")
        if known not in self._ways_out:  # a look at the whole environment, at each request
            self._ways_out[known] = None if proxy_bypass(known[1]) else getproxies().get(url.scheme)
        return self._ways_out[known]

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, work)


@dataclass(frozen=True, slots=True)
class _Way:
    """How one request of a client is sent on, as often as it takes."""

    relay: Relay
    request: web.Request
    url: URL
    exchange: Exchange

    def post(self) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers, data = _headers_on(self.request.headers), self.exchange.data
        if self.exchange.is_changed:
            headers.popall("Content-Encoding", None)
        accepted = ", ".join(headers.getall("Accept-Encoding", []))
        readable = readable_only(accepted) if self.exchange.turn is None else "identity"
        if readable != accepted:
            headers["Accept-Encoding"] = readable
        body: bytes | AsyncIterator[bytes] = data
        if len(data) > PIECE_BYTES:
            headers["Content-Length"] = str(len(data))
            body = _pieces(data)
        way_out = self.relay.way_out(self.url)
        return self.relay.session.post(self.url, headers=headers, data=body, allow_redirects=False, proxy=way_out)

    def headers(self, up: aiohttp.ClientResponse) -> CIMultiDict[str]:
        return _headers_back(up.headers, self.exchange)

    def cut(self) -> None:
        _cut(self.request)

    async def run(self, work: Callable[[], T]) -> T:
        return await self.relay._run(work)

    def note(self, status: int) -> None:
        self.relay.watch.note(self.exchange, status)


class PassedBack(web.StreamResponse):
    """An upstream's reply."""

    def __init__(self, up: aiohttp.ClientResponse, exchange: Exchange | None) -> None:
        super().__init__(status=up.status, reason=up.reason, headers=_headers_back(up.headers, exchange))
        self.their_headers = frozenset(name.lower() for name in up.headers)
        length = up.headers.get("Content-Length", "")
        if length.isdecimal() and "transfer-encoding" not in self.their_headers:
            self.content_length = int(length)


class Incoming:
    """A reply's body as it comes."""

    def __init__(self, up: aiohttp.ClientResponse) -> None:
        self._up = up
        self._chunks = up.content.iter_any()
        self._held: list[bytes] = []
        self.held_bytes = 0
        self.is_cut = False
        """It ended before its end."""
        self.see: Callable[[bytes], None] = lambda chunk: None
        """Is shown what comes from now on."""

    async def _next(self) -> bytes:
        while not self.is_cut:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    return await anext(self._chunks, b"")
            except TimeoutError:
                self.is_cut = self._up.connection is None or self._up.connection.transport is None
            except aiohttp.ClientError:
                self.is_cut = True
        return b""

    async def hold(self) -> bytes:
        """The next piece, kept back; empty at the end."""
        if chunk := await self._next():
            self._held.append(chunk)
            self.held_bytes += len(chunk)
        return chunk

    async def whole(self) -> bytes | None:
        """All of it, kept back; None where it is cut, or larger than what is looked into."""
        while await self.hold():
            if self.held_bytes > MAX_REPLY_BYTES:
                return None
        return None if self.is_cut else b"".join(self._held)

    async def pieces(self) -> AsyncIterator[bytes]:
        """What was kept back, then the rest."""
        while self._held:
            yield self._held.pop(0)
        while not self.is_cut and (chunk := await self._next()):
            yield chunk
            self.see(chunk)


async def _passed(
    request: web.Request, up: aiohttp.ClientResponse, incoming: Incoming, exchange: Exchange | None = None
) -> web.StreamResponse:
    """The reply back to the client, as it comes; cut where it was cut."""
    response = PassedBack(up, exchange)
    try:
        await response.prepare(request)
        async for chunk in incoming.pieces():
            await response.write(chunk)
    except aiohttp.ClientError:  # the client has left
        incoming.is_cut = True
    if incoming.is_cut:
        _cut(request)
    return response


def _cut(request: web.Request) -> None:
    """End the connection without the mark of a complete reply."""
    if request.transport is None:
        return
    if request.version < aiohttp.HttpVersion11:  # there the end of the connection is the mark: it must break
        connection = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.close()


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]


def _of_this_hop(headers: CIMultiDictProxy[str], fixed: frozenset[str]) -> frozenset[str]:
    named = ",".join(headers.getall("Connection", []))
    return fixed | {name.strip().lower() for name in named.split(",") if name.strip()}


def _headers_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    out = _of_this_hop(headers, _NOT_ON)
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in out)


def _headers_back(headers: CIMultiDictProxy[str], exchange: Exchange | None = None) -> CIMultiDict[str]:
    out = _of_this_hop(headers, _NOT_BACK)
    back = CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in out)
    if exchange is not None and (receipt := exchange.receipt):
        back[RECEIPT_HEADER] = receipt
    return back


def _said(error: Exception) -> str:
    """The system's own words for a connection that can't be had: aiohttp's repeat the host, as asyncio's do."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None
    if cause is not None and cause.errno is not None:
        return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
    return str(error) or type(error).__name__


def _unreachable(url: URL, error: Exception) -> web.Response:
    """There is no reply to pass back. SDKs take a 502 as they take a connection that fails: they try again."""
    where = f"{url.scheme}://{url.raw_authority}"
    why = f"packlight could not reach {where}: {_said(error)}"
    body: dict[str, Any] = {"type": "error", "error": {"type": "api_error", "message": why}}
    return web.json_response(body, status=502, headers={RECEIPT_HEADER: "upstream unreachable"})
