"""The client: sends bodies, and times the first byte of the answer and the last."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

HEADERS = {
    "content-type": "application/json",
    "x-api-key": "sk-ant-dummy",
    "anthropic-version": "2023-06-01",
    "accept-encoding": "identity",
}


@dataclass(frozen=True, slots=True)
class Took:
    status: int
    first_seconds: float
    """Until the first byte of the answer's body."""
    whole_seconds: float
    received_bytes: int
    """Of the request, as the upstream got it; 0 when the upstream did not answer."""
    chunks: int
    data: bytes


def session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=300), headers=HEADERS
    )


async def ask(client: aiohttp.ClientSession, url: str, body: bytes, path: str = "/v1/messages") -> Took:
    start = time.perf_counter()
    first, chunks, parts = 0.0, 0, []
    async with client.post(url + path, data=body) as got:
        async for part in got.content.iter_any():
            first = first or time.perf_counter() - start
            chunks += 1
            parts.append(part)
        whole = time.perf_counter() - start
        received = int(got.headers.get("x-received-bytes", 0))
        return Took(got.status, first, whole, received, chunks, b"".join(parts))


def quantile(values: Sequence[float], share: float) -> float:
    """The nearest rank: a value that was measured."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)
