"""A request whose reply may hold calls of the recall tool: those are answered here, and the client gets one reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from ..formats import encode_as_is
from ..types import Json
from .encodings import decoder, reply_body
from .engine import Exchange
from .events import READ_AHEAD_BYTES, Events, Stream, json_of
from .recall import Turn
from .recall.wire import Said, Stitch

__all__ = ["Continued", "Way"]

T = TypeVar("T")
_NO_REPLY = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What comes of reading something else as a reply."""


class Way(Protocol):
    """How requests are sent and replies begun."""

    def post(self) -> AbstractAsyncContextManager[aiohttp.ClientResponse]: ...
    def headers(self, up: aiohttp.ClientResponse) -> CIMultiDict[str]: ...
    def cut(self) -> None:
        """End the connection to the client without the mark of a complete reply."""
        ...

    async def run(self, work: Callable[[], T]) -> T: ...
    def note(self, status: int) -> None: ...


def _decoded(decode: Callable[[bytes], bytes], chunk: bytes) -> bytes:
    """Raises ClientPayloadError for what is not in the encoding that it is said to be in: as good as cut."""
    try:
        return decode(chunk)
    except Exception as error:
        raise aiohttp.ClientPayloadError(str(error)) from error


@dataclass
class Continued:
    """One request of the client, and the reply it gets. Calling it gives the reply, which may have been sent."""

    request: web.Request
    exchange: Exchange
    turn: Turn
    way: Way
    response: web.StreamResponse | None = None
    """A stream to the client that has begun."""
    replies: list[Json] = field(default_factory=list)
    """Those before the client's own that were not streamed."""
    stitch: Stitch = field(init=False)
    is_odd: bool = False
    """A reply could not be read: from there on all is passed on as it comes."""

    def __post_init__(self) -> None:
        self.stitch = self.turn.wire.stitch()

    async def __call__(self) -> web.StreamResponse:
        status = 0
        try:
            while True:
                async with self.way.post() as up:
                    status = up.status
                    streamed = up.status == 200 and up.content_type == "text/event-stream"
                    reply = await (self._streamed(up) if streamed else self._whole(up))
                if reply is not None:
                    return reply
        except aiohttp.ClientError:
            if self.response is None:
                raise
            self.way.cut()
            return self.response
        finally:
            if status:
                self.way.note(status)

    async def _next(self, reply: Json) -> bool:
        """Whether another request has to be sent; else all is recorded that the client does not see."""
        said = self._said(reply)
        if said is None:
            return False
        if not await self.way.run(lambda: self.turn.goes_on(said, self.exchange.c)):
            await self.way.run(lambda: self.turn.ended(said, self.exchange.c))
            self.exchange.error = self.turn.error or self.exchange.error
            return False
        await self.way.run(self.exchange.go_on)
        return True

    def _said(self, reply: Json) -> Said | None:
        return self._tried(lambda: self.turn.wire.read(reply))

    def _tried(self, reading: Callable[[], T]) -> T | None:
        """None where what has come is no reply of this API."""
        try:
            return reading()
        except _NO_REPLY:
            self.is_odd = True
            return None

    # --- not streamed -------------------------------------------------------------------------------------------------

    async def _whole(self, up: aiohttp.ClientResponse) -> web.StreamResponse | None:
        """The reply; None when another request is to be sent."""
        data = await up.read()
        body = reply_body(data, up.headers.get("Content-Encoding", ""))
        if await self.way.run(lambda: self.exchange.replied(up.status, body)):
            return None
        if up.status != 200 or not isinstance(body, dict):
            return await self._refused(up, data, body)
        if await self._next(body):
            self.replies.append(body)
            return None
        headers = self.way.headers(up)
        said = self._said(body)
        if said is not None and (self.replies or said.hides):
            whole = self._tried(lambda: encode_as_is(self.turn.wire.joined([*self.replies, body])))
            if whole is not None:
                headers.popall("Content-Encoding", None)
                data = whole
        return web.Response(status=up.status, reason=up.reason, headers=headers, body=data)

    async def _refused(self, up: aiohttp.ClientResponse, data: bytes, body: Any) -> web.StreamResponse | None:
        if up.status >= 400 and self.exchange.is_too_long(up.status, body) and self.turn.smaller():
            await self.way.run(self.exchange.go_on)
            return None
        if self.response is None:
            return web.Response(status=up.status, reason=up.reason, headers=self.way.headers(up), body=data)
        await self.response.write(self.stitch.failure(up.status, body))
        return self.response

    # --- streamed -----------------------------------------------------------------------------------------------------

    async def _streamed(self, up: aiohttp.ClientResponse) -> web.StreamResponse | None:
        decode = decoder(up.headers.get("Content-Encoding", "")) or (lambda data: data)
        stream, events, held = Stream(), Events(), bytearray()
        self.stitch.begin()
        waits = self.exchange.may_be_refused
        try:
            async for chunk in up.content.iter_any():
                for event in events.feed(_decoded(decode, chunk)):
                    stream.note(event)
                    held += self._event(event)
                if waits and stream.error is not None and await self._cured(stream.error):
                    stream.usage.clear()
                    return None
                waits = waits and not stream.begun and len(held) < READ_AHEAD_BYTES
                if held and not waits:
                    await self._write(up, bytes(held))
                    held.clear()
        finally:  # of a client that has left, too: what was counted was paid for
            noted = self.way.run(lambda: self.exchange.answered(stream.usage, is_taken=stream.is_answer))
            await asyncio.shield(noted)
        said = self._tried(self.stitch.reply) if self.stitch.is_over and not self.is_odd else None
        if said is not None and await self._next(said):
            await self._write(up, bytes(held))
            self.stitch.go_on()
            return None
        end = self._tried(self.stitch.end)
        response = await self._write(up, bytes(held) + (end or b"") + events.left())
        if end is None:
            raise aiohttp.ClientPayloadError("the end of the reply can't be read")
        return response

    def _event(self, raw: bytes) -> bytes:
        passed = None if self.is_odd else self._tried(lambda: self.stitch.event(raw, json_of(raw)))
        return raw if passed is None else passed

    async def _cured(self, error: Json) -> bool:
        """Whether to send it again: as the engine says, or with a smaller answer to the model's call."""
        if await self.way.run(lambda: self.exchange.refused(200, error)):
            return True
        if self.exchange.is_too_long(200, error) and self.turn.smaller():
            await self.way.run(self.exchange.go_on)
            return True
        return False

    async def _write(self, up: aiohttp.ClientResponse, data: bytes) -> web.StreamResponse:
        if self.response is None:
            headers = self.way.headers(up)
            headers.popall("Content-Encoding", None)
            self.response = web.StreamResponse(status=up.status, reason=up.reason, headers=headers)
            await self.response.prepare(self.request)
        if data:
            await self.response.write(data)
        return self.response
