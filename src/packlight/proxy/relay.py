"""One request through the proxy: on to the provider, the reply back as it comes.

What is decided is decided elsewhere (`engine`); here bytes are moved. Nothing is held back that can be passed on,
except: a refusal, until it is clear whether it can be cured; and the announcement of a streamed answer, where the
request is large enough to be refused in the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from .continued import Continued
from .engine import Engine, Exchange
from .events import Stream, decoder, readable_only, reply_body
from .routes import Endpoint, endpoint_of, upstream_url
from .watch import Watch

__all__ = ["Relay"]

T = TypeVar("T")

RECEIPT_HEADER = "x-packlight"
MAX_REPLY_BYTES = 64 << 20
"""A whole reply larger than this is not looked into."""
READ_AHEAD_BYTES = 1 << 20
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
_NOT_ON = _OF_ONE_HOP | {"host", "content-length", "x-packlight-token"}
_NOT_BACK = _OF_ONE_HOP | {"content-length"}


class Relay:
    """Sends requests on. `session` must not decode replies; `run` runs what takes time beside the event loop."""

    def __init__(self, engine: Engine, session: aiohttp.ClientSession, watch: Watch) -> None:
        self.engine = engine
        self.session = session
        self.watch = watch

    async def __call__(self, request: web.Request, path: str) -> web.StreamResponse:
        endpoint = endpoint_of(request.method, path)
        url = URL(upstream_url(path, _lower(request.headers), self.engine.settings), encoded=True)
        try:
            if endpoint is None:
                return await self._through(request, url)
            return await self._answered(request, url, endpoint)
        except (aiohttp.ClientConnectionError, aiohttp.InvalidURL, TimeoutError) as error:
            return _unreachable(url, error)

    async def _through(self, request: web.Request, url: URL) -> web.StreamResponse:
        """Everything that is no conversation: body and reply are passed on as they come."""
        headers = _headers_on(request.headers)
        body = request.content if request.body_exists else None
        if body is not None and request.content_length is not None:
            headers["Content-Length"] = str(request.content_length)
        async with self.session.request(request.method, url, headers=headers, data=body, allow_redirects=False) as up:
            return await _passed(request, up)

    async def _answered(self, request: web.Request, url: URL, endpoint: Endpoint) -> web.StreamResponse:
        data = await request.read()
        exchange = await self._run(lambda: self.engine.begin(endpoint, _lower(request.headers), data))
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
        if up.content_type == "text/event-stream" and up.status == 200:
            return await self._streamed(request, up, exchange)
        data = await up.read()
        body = reply_body(data, up.headers.get("Content-Encoding", "")) if len(data) <= MAX_REPLY_BYTES else None
        if await self._run(lambda: exchange.replied(up.status, body)):
            return None
        self.watch.note(exchange, up.status)
        response = web.Response(status=up.status, reason=up.reason, headers=_headers_back(up.headers, exchange))
        response.body = data
        return response

    async def _streamed(
        self, request: web.Request, up: aiohttp.ClientResponse, exchange: Exchange
    ) -> web.StreamResponse | None:
        stream = Stream(decoder(up.headers.get("Content-Encoding", "")))
        held: list[bytes] = []
        chunks = up.content.iter_any()
        if exchange.may_overflow:
            async for chunk in chunks:
                held.append(chunk)
                stream.feed(chunk)
                if stream.overflow is not None or stream.begun or sum(map(len, held)) > READ_AHEAD_BYTES:
                    break
            if stream.overflow is not None and await self._run(lambda: exchange.refused(200, stream.overflow)):
                return None
        response = web.StreamResponse(status=up.status, reason=up.reason, headers=_headers_back(up.headers, exchange))
        await response.prepare(request)
        try:
            for chunk in held:
                await response.write(chunk)
            async for chunk in chunks:
                await response.write(chunk)
                stream.feed(chunk)
        except aiohttp.ClientError:  # cut upstream: the client must see it cut too
            _cut(request)
        finally:  # of a client that has left, too: what was counted was paid for
            await asyncio.shield(self._run(lambda: self._end(exchange, up.status, stream)))
        return response

    def _end(self, exchange: Exchange, status: int, stream: Stream) -> None:
        exchange.answered(stream.usage)
        self.watch.note(exchange, status)

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
        headers = _headers_on(self.request.headers)
        if self.exchange.is_changed:
            headers.popall("Content-Encoding", None)
        if (accepted := headers.get("Accept-Encoding")) is not None:
            headers["Accept-Encoding"] = readable_only(accepted) if self.exchange.turn is None else "identity"
        return self.relay.session.post(self.url, headers=headers, data=self.exchange.data, allow_redirects=False)

    def headers(self, up: aiohttp.ClientResponse) -> CIMultiDict[str]:
        return _headers_back(up.headers, self.exchange)

    def cut(self) -> None:
        _cut(self.request)

    async def run(self, work: Callable[[], T]) -> T:
        return await self.relay._run(work)

    def note(self, status: int) -> None:
        self.relay.watch.note(self.exchange, status)


async def _passed(request: web.Request, up: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=up.status, reason=up.reason, headers=_headers_back(up.headers))
    length = up.headers.get("Content-Length")
    if length is not None and length.isdecimal():
        response.content_length = int(length)
    await response.prepare(request)
    try:
        async for chunk in up.content.iter_any():
            await response.write(chunk)
    except aiohttp.ClientError:
        _cut(request)
    return response


def _cut(request: web.Request) -> None:
    """End the connection without the mark of a complete reply."""
    if request.transport is not None:
        request.transport.close()


def _lower(headers: CIMultiDictProxy[str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


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


def _unreachable(url: URL, error: Exception) -> web.Response:
    """There is no reply to pass back. SDKs take a 502 as they take a connection that fails: they try again."""
    where = f"{url.scheme}://{url.raw_authority}"
    why = f"packlight could not reach {where}: {str(error) or type(error).__name__}"
    body: dict[str, Any] = {"type": "error", "error": {"type": "api_error", "message": why}}
    return web.json_response(body, status=502, headers={RECEIPT_HEADER: "upstream unreachable"})
