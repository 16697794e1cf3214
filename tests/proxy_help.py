"""The proxy over real sockets: an upstream and a client that write and see every byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import talk
from packlight.proxy import Proxy, Settings

Json = Any
PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
WAIT_SECONDS = 20.0
"""Longer than anything here takes; a test that hangs ends."""
TOOLS = {
    "anthropic": [{"name": "Read", "input_schema": {"type": "object"}}],
    "chat": [{"type": "function", "function": {"name": "Read", "parameters": {"type": "object"}}}],
    "responses": [{"type": "function", "name": "Read", "parameters": {"type": "object"}}],
}
ROOM = {"anthropic": {"max_tokens": 1_000}, "chat": {}, "responses": {}}


@dataclass
class Message:
    """A request or a reply as it came."""

    head: bytes
    """First line and headers, as sent."""
    body: bytes = b""
    """Without its chunks' frames."""
    is_whole: bool = True
    """It ended as it said it would."""

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode("latin-1")

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]

    @property
    def status(self) -> int:
        return int(self.line.split(" ")[1])

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self.head.decode("latin-1").rstrip("\r\n").split("\r\n")[1:]
        return [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def get(self, name: str) -> str:
        return ", ".join(self.all(name))

    @property
    def json(self) -> Json:
        return json.loads(self.body)


class Link:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)

    async def some(self) -> bytes:
        """What has come, at least a byte; empty at the end."""
        try:
            return await asyncio.wait_for(self.reader.read(1 << 16), WAIT_SECONDS)
        except ConnectionError:
            return b""

    async def gone(self) -> None:
        """Until the other end has left."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(1 << 16):
                pass

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        self.writer.transport.abort()

    async def message(self, *, is_reply: bool = False, method: str = "GET") -> Message:
        """A whole message, or as much of it as came."""
        found = Message(await self.head())
        while is_reply and found.status in (100, 103):
            found = Message(await self.head())
        try:
            await asyncio.wait_for(self._body(found, is_reply, method), WAIT_SECONDS)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            found.body += getattr(error, "partial", b"")
            found.is_whole = False
        return found

    async def _body(self, found: Message, is_reply: bool, method: str) -> None:
        if is_reply and (method == "HEAD" or found.status in (204, 304)):
            return
        if "chunked" in found.get("Transfer-Encoding"):
            while size := int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16):
                found.body += await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
        elif found.all("Content-Length"):
            found.body = await self.reader.readexactly(int(found.get("Content-Length")))
        elif is_reply:
            found.body = await self.reader.read()


Answer = Callable[[Message, Link], Awaitable[None]]


class Upstream:
    """Answers each request by `answer`; keeps what came."""

    def __init__(self, answer: Answer | bytes) -> None:
        self.answer = answer
        self.reads_bodies = True
        self.requests: list[Message] = []
        self.connections = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Upstream:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        link = Link(reader, writer)
        try:
            while True:
                got = await link.message() if self.reads_bodies else Message(await link.head())
                self.requests.append(got)
                if isinstance(self.answer, bytes):
                    await link.send(self.answer)
                else:
                    await self.answer(got, link)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError, TimeoutError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()


def reply(body: bytes | Json = b"", status: str = "200 OK", headers: str = "", length: bool = True) -> bytes:
    """A reply with a length. `headers` are whole lines."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "" if isinstance(body, bytes) else "Content-Type: application/json\r\n"
    size = f"Content-Length: {len(data)}\r\n" if length else ""
    return f"HTTP/1.1 {status}\r\n{kind}{headers}{size}\r\n".encode("latin-1") + data


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def event(data: Json, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def answer_of(wire: str, tokens: int = 100) -> Json:
    """A small reply."""
    if wire == "anthropic":
        usage = {"input_tokens": tokens, "output_tokens": 5}
        return {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}], "usage": usage}
    if wire == "chat":
        said = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
        return {"object": "chat.completion", "choices": [said], "usage": {"prompt_tokens": tokens}}
    return {"object": "response", "output": [], "usage": {"input_tokens": tokens, "output_tokens": 5}}


def too_long(wire: str, used: int, limit: int) -> Json:
    """An overflow in the provider's words."""
    if wire == "anthropic":
        message = f"prompt is too long: {used} tokens > {limit} maximum"
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    message = (
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in {used} tokens."
    )
    return {"error": {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}}


def post(path: str, body: bytes, headers: str = "", kind: str = "application/json") -> bytes:
    """A request as a client writes it. `headers` are whole lines."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n{headers}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


def agent_request(wire: str, turns: int, **more: Json) -> Json:
    """An agent's conversation of so many turns: about 1,000 tokens each."""
    return talk.request(wire, turns, tools=TOOLS[wire], **ROOM[wire], **more)


def encoded(body: Json) -> bytes:
    """JSON as no encoder of ours writes it: what is passed through unchanged can be told from what is written anew."""
    return json.dumps(body, separators=(" , ", " :  ")).encode()


def items_of(got: Message, wire: str) -> list[str]:
    """The list that arrived upstream, each entry as a text."""
    return talk.unmarked(got.json["input" if wire == "responses" else "messages"])


@dataclass
class Line:
    """A proxy between a raw client and a raw upstream."""

    proxy: Proxy
    upstream: Upstream
    links: list[Link] = field(default_factory=list)

    async def connect(self) -> Link:
        link = Link(*await asyncio.open_connection("127.0.0.1", self.proxy.port, limit=1 << 20))
        self.links.append(link)
        return link

    async def ask(self, data: bytes) -> Message:
        """A request on a connection of its own, and its reply."""
        link = await self.connect()
        await link.send(data)
        try:
            return await link.message(is_reply=True, method=data.split(b" ", 1)[0].decode())
        finally:
            link.close()

    async def post(self, wire: str, body: Json, headers: str = "") -> Message:
        return await self.ask(post(PATHS[wire], encoded(body), headers))

    @property
    def sent(self) -> Message:
        """What arrived upstream last."""
        return self.upstream.requests[-1]


@contextlib.asynccontextmanager
async def line(answer: Answer | bytes, **settings: Any) -> AsyncIterator[Line]:
    """A running proxy; what is recorded is kept in memory unless the settings name a folder."""
    async with Upstream(answer) as upstream:
        told = {"upstream": upstream.url, "port": 0, "journal": None, "quiet": True} | settings
        async with Proxy(Settings(**told)) as proxy:
            made = Line(proxy, upstream)
            try:
                yield made
            finally:
                for link in made.links:
                    link.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    """One test's coroutine; it may not hang."""
    asyncio.run(asyncio.wait_for(work, 3 * WAIT_SECONDS))
