"""A provider that answers by script: quick enough not to be what is measured.

    python -m bench.proxy.upstream --port 9000 [--events 200] [--chunks 20] [--gap-seconds 0]

It speaks Anthropic's messages, streamed and not. A token is four bytes of the body. What it received is told in a
header of the reply (`x-received-bytes`), since that is what a proxy changes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

MAX_BODY_BYTES = 64 << 20
BYTES_PER_TOKEN = 4


class Asked(msgspec.Struct):
    """All that is looked at of a request; the rest is skipped."""

    stream: bool = False
    model: str = ""


_asked = msgspec.json.Decoder(Asked)


@dataclass(frozen=True, kw_only=True)
class Script:
    """How each request is answered."""

    events: int = 200
    """Pieces of the text of a streamed reply."""
    chunks: int = 20
    """Writes that they go out in."""
    gap_seconds: float = 0.0
    """Between two writes."""
    keep: Callable[[str, bytes], None] | None = None
    """Told the path and body of each request."""


@dataclass
class Upstream:
    script: Script = field(default_factory=Script)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("GET", "/healthz", _healthy)
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if self.script.keep is not None:
            self.script.keep(request.path, body)
        tokens = len(body) // BYTES_PER_TOKEN
        headers = {"x-received-bytes": str(len(body))}
        if request.path.endswith("/count_tokens"):
            return web.json_response({"input_tokens": tokens}, headers=headers)
        asked = _asked.decode(body) if body else Asked()
        if not asked.stream:
            return web.json_response(reply(asked.model, tokens), headers=headers)
        return await self._stream(request, asked.model, tokens, headers)

    async def _stream(
        self, request: web.Request, model: str, tokens: int, headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", **headers})
        await response.prepare(request)
        events = stream_events(model, tokens, self.script.events)
        each = -(-len(events) // self.script.chunks)
        with contextlib.suppress(ConnectionResetError):  # whoever asked has gone
            for start in range(0, len(events), each):
                if start and self.script.gap_seconds:
                    await asyncio.sleep(self.script.gap_seconds)
                await response.write(b"".join(events[start : start + each]))
        return response


async def _healthy(request: web.Request) -> web.Response:
    return web.Response(text="ok")


def reply(model: str, tokens: int) -> dict[str, object]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": "Next I run the tests."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": tokens, "output_tokens": 8},
    }


def stream_events(model: str, tokens: int, pieces: int) -> list[bytes]:
    """The events of one streamed reply, each as its bytes."""
    start = {**reply(model, tokens), "content": [], "stop_reason": None}
    block = {"type": "text", "text": ""}
    return [
        _event("message_start", message=start),
        _event("content_block_start", index=0, content_block=block),
        *[_piece(number) for number in range(pieces)],
        _event("content_block_stop", index=0),
        _event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": pieces}),
        _event("message_stop"),
    ]


def _piece(number: int) -> bytes:
    return _event("content_block_delta", index=0, delta={"type": "text_delta", "text": f"word {number} of the reply "})


def _event(kind: str, **more: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--events", type=int, default=Script.events)
    parser.add_argument("--chunks", type=int, default=Script.chunks)
    parser.add_argument("--gap-seconds", type=float, default=Script.gap_seconds)
    args = parser.parse_args()
    script = Script(events=args.events, chunks=args.chunks, gap_seconds=args.gap_seconds)
    web.run_app(Upstream(script).app(), host="127.0.0.1", port=args.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
