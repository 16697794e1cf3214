"""The baseline: a proxy of the same stack (aiohttp server, aiohttp client) that only passes through.

python -m bench.proxy.passthrough --port 9001 --upstream http://127.0.0.1:9000
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

MAX_BODY_BYTES = 64 << 20
OWN_HEADERS = {"host", "content-length", "transfer-encoding", "connection"}


def app(upstream: str) -> web.Application:
    made = web.Application(client_max_size=MAX_BODY_BYTES)
    session = web.AppKey("session", aiohttp.ClientSession)

    async def client(made: web.Application) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as made[session]:
            yield

    async def passed(request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in OWN_HEADERS}
        data = await request.read()
        url = upstream + request.raw_path
        async with made[session].request(request.method, url, data=data, headers=headers) as got:
            kept = {name: value for name, value in got.headers.items() if name.lower() not in OWN_HEADERS}
            response = web.StreamResponse(status=got.status, headers=kept)
            await response.prepare(request)
            async for chunk in got.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    made.cleanup_ctx.append(client)
    made.router.add_route("*", "/{path:.*}", passed)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True)
    args = parser.parse_args()
    web.run_app(app(args.upstream), host="127.0.0.1", port=args.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
