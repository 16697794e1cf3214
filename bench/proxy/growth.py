"""What grows: one conversation's cost by its length, the memory over many requests, and 200 slow streams at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any

from . import client, sessions
from .client import median
from .processes import PASSTHROUGH, Server, packlight, running, upstream_kind

MARKS = (20, 200, 1_000, 2_000)
AROUND = 10
"""So many requests up to a mark are taken together."""
WINDOW_TOKENS = 200_000
STREAMS = 200
STREAM_CHUNKS, STREAM_GAP_SECONDS = 100, 0.1
MEMORY_MARKS = (1_000, 5_000, 10_000)


async def conversation(scale: float) -> dict[str, Any]:
    """The nth request of a conversation that grows a turn a request: time and CPU by the body's size."""
    marks = [mark for mark in MARKS if mark <= MARKS[-1] * scale or mark <= 200]
    session = sessions.grown(7, marks[-1], result_chars=1_800)
    figures: dict[str, Any] = {}
    with running(upstream_kind(events=8, chunks=1)) as up:
        for kind in (PASSTHROUGH, packlight("--window-tokens", str(WINDOW_TOKENS))):
            with running(kind, up.url) as server:
                figures[server.name] = await _grown(server, session, marks)
    return figures


async def _grown(server: Server, session: sessions.Session, marks: list[int]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    batches, peak = 0, 0
    walls: list[float] = []
    cpus: list[float] = []
    async with client.session() as asking:
        for number, count in enumerate(session.calls, 1):
            body = session.body(count, stream=True)
            is_near = any(mark - AROUND < number <= mark for mark in marks)
            cpu = server.cpu_seconds if is_near else 0.0
            took = await client.ask(asking, server.url, body)
            batches += took.received_bytes < peak
            peak = took.received_bytes
            if is_near:
                walls.append(took.whole_seconds)
                cpus.append(server.cpu_seconds - cpu)
            if number in marks:
                sent = took.received_bytes / 1e6
                rows[str(number)] = {
                    "body_mb": len(body) / 1e6,
                    "sent_mb": sent,
                    "whole_ms": 1e3 * median(walls),
                    "cpu_ms": 1e3 * median(cpus),
                    "cpu_ms_per_mb": 1e3 * median(cpus) / (len(body) / 1e6),
                    "batches": batches,
                    "rss_mb": server.rss_mb,
                }
                walls, cpus = [], []
    return rows


async def streams(scale: float) -> dict[str, Any]:
    """Slow streams side by side: errors, and what a chunk costs."""
    count = max(20, round(STREAMS * scale))
    figures: dict[str, Any] = {}
    options = {"events": STREAM_CHUNKS * 4, "chunks": STREAM_CHUNKS, "gap_seconds": STREAM_GAP_SECONDS}
    with running(upstream_kind(**options)) as up:
        two = packlight("--workers", "2", name="packlight --workers 2")
        for kind in (PASSTHROUGH, packlight(), two):
            with running(kind, up.url) as server:
                figures[server.name] = await _streamed(server, count)
    return figures


async def _streamed(server: Server, count: int) -> dict[str, Any]:
    session = sessions.grown(9, 12)
    body = session.body(session.calls[-1], stream=True)
    async with client.session() as asking:
        cpu = server.cpu_seconds
        took = await asyncio.gather(
            *(client.ask(asking, server.url, body) for _ in range(count)), return_exceptions=True
        )
        cpu = server.cpu_seconds - cpu
    whole = [t for t in took if isinstance(t, client.Took) and t.status == 200 and b"message_stop" in t.data]
    chunks = sum(t.chunks for t in whole)
    return {
        "streams": count,
        "failed": count - len(whole),
        "chunks": chunks,
        "cpu_us_per_chunk": 1e6 * cpu / max(1, chunks),
        "slowest_seconds": max((t.whole_seconds for t in whole), default=0.0),
        "rss_mb": server.rss_mb,
    }


async def memory(scale: float) -> dict[str, Any]:
    """The proxy's memory over many requests: of many conversations one after another, and of one."""
    marks = [max(100, round(mark * scale)) for mark in MEMORY_MARKS]
    figures: dict[str, Any] = {}
    with running(upstream_kind(events=8, chunks=1)) as up:
        for name, requests in (("many conversations", _many), ("one conversation", _one)):
            for kind in (PASSTHROUGH, packlight("--window-tokens", "40000")):
                with running(kind, up.url) as server:
                    figures[f"{name}, {server.name}"] = await _remembered(server, requests(marks[-1]), marks)
    return figures


def _many(count: int) -> Iterator[tuple[sessions.Session, int]]:
    """Conversations of 40 requests, each of which grows past the window."""
    for seed in range(-(-count // 40)):
        session = sessions.grown(1_000 + seed, 40, result_chars=16_000)
        yield from ((session, calls) for calls in session.calls)


def _one(count: int) -> Iterator[tuple[sessions.Session, int]]:
    """One conversation that gains a turn at every tenth request, as when its client tries again."""
    session = sessions.grown(999, -(-count // 10), result_chars=1_000)
    yield from ((session, session.calls[number // 10]) for number in range(count))


async def _remembered(server: Server, requests: list[tuple[sessions.Session, int]], marks: list[int]) -> dict[str, Any]:
    rows: dict[str, Any] = {"0": server.rss_mb}
    shrunk = failed = 0
    async with client.session() as asking:
        for number, (session, calls) in enumerate(islice(requests, marks[-1]), 1):
            body = session.body(calls)
            took = await client.ask(asking, server.url, body)
            failed += took.status != 200
            shrunk += took.received_bytes < len(body)
            if number in marks:
                rows[str(number)] = server.rss_mb
    return {"rss_mb": rows, "failed": failed, "shrunk": shrunk, "last_body_mb": len(body) / 1e6}


async def run(scale: float) -> dict[str, Any]:
    return {
        "streams": await streams(scale),
        "conversation": await conversation(scale),
        "memory": await memory(scale),
    }
