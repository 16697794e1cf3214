"""What a request takes longer than through a bare pass-through: when nothing is due, for a batch, and beside one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from aiohttp import ClientSession

from . import client, sessions
from .client import Took, median, quantile
from .processes import PASSTHROUGH, Server, packlight, running, upstream_kind

LARGE_BYTES, SMALL_BYTES = 1_000_000, 8_000
AT_ONCE = 8
ROOMY_TOKENS = 1_000_000
"""A window in which nothing is due."""
DUE_TOKENS = 300_000
"""A window that 1 MB comes near to: the next turns make a batch due."""
GROWTH_TURNS = (160, 40)
PAUSE_SECONDS = 0.01
"""Between two small requests: a hundred a second are under way beside a batch."""


def bodies(seed: int, size_bytes: int, count: int) -> list[bytes]:
    """Requests of a conversation that grows a turn a request from that size on; small ones of many conversations."""
    if size_bytes >= LARGE_BYTES:
        session, at = sessions.with_bytes(seed, size_bytes, more_turns=count)
        return [session.body(calls, stream=True) for calls in session.calls[at : at + count]]
    out: list[bytes] = []
    while len(out) < count:
        session = sessions.grown(10_000 * seed + len(out), 12, result_chars=500)
        out += [session.body(calls, stream=True) for calls in session.calls[5:]]
    return out[:count]


async def compared(asking: ClientSession, servers: Sequence[Server], groups: Iterator[list[bytes]]) -> dict[str, Any]:
    """Each group of bodies at once, to each server in turn, so that all share what else the machine does.

    The first group is not counted: what a conversation's first request costs is measured on its own.
    """
    took: dict[str, list[Took]] = {server.name: [] for server in servers}
    cpu = dict.fromkeys(took, 0.0)
    for number, group in enumerate(groups):
        for server in servers if number % 2 else reversed(servers):
            before = server.cpu_seconds
            replies = await asyncio.gather(*(client.ask(asking, server.url, body) for body in group))
            if number:
                took[server.name] += replies
                cpu[server.name] += server.cpu_seconds - before
    return {name: summary(all_) | {"cpu_ms": 1e3 * cpu[name] / len(all_)} for name, all_ in took.items()}


def summary(took: Sequence[Took]) -> dict[str, Any]:
    first, whole = ([1e3 * getattr(t, name) for t in took] for name in ("first_seconds", "whole_seconds"))
    return {
        "requests": len(took),
        "failed": sum(t.status != 200 for t in took),
        "first_median_ms": median(first),
        "first_p99_ms": quantile(first, 0.99),
        "whole_median_ms": median(whole),
        "whole_p99_ms": quantile(whole, 0.99),
    }


def sequential(size_bytes: int, count: int) -> Iterator[list[bytes]]:
    for body in bodies(11, size_bytes, count):
        yield [body]


def together(size_bytes: int, rounds: int) -> Iterator[list[bytes]]:
    """Eight conversations at the same time."""
    yield from map(list, zip(*(bodies(20 + n, size_bytes, rounds) for n in range(AT_ONCE)), strict=True))


async def idle(scale: float) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with (
        running(upstream_kind()) as up,
        running(PASSTHROUGH, up.url) as bare,
        running(packlight("--window-tokens", str(ROOMY_TOKENS)), up.url) as ours,
    ):
        async with client.session() as asking:
            for name, size_bytes, count in (("1 MB", LARGE_BYTES, 300), ("8 kB", SMALL_BYTES, 1_000)):
                number = max(20, round(count * scale))
                one = await compared(asking, [bare, ours], sequential(size_bytes, number))
                figures[f"{name}, one at a time"] = one
                many = await compared(asking, [bare, ours], together(size_bytes, max(10, number // AT_ONCE)))
                figures[f"{name}, {AT_ONCE} at once"] = many
            figures["1 MB, not seen before"] = await compared(
                asking, [bare, ours], ([bodies(100 + n, LARGE_BYTES, 1)[0]] for n in range(max(5, round(20 * scale))))
            )
    return figures


async def batches(scale: float) -> dict[str, Any]:
    """Conversations that are brought just below the budget, and then beyond it, while small requests go on."""
    talks = [_around(200 + n) for n in range(max(7, round(60 * scale)))]
    figures: dict[str, Any] = {}
    with running(upstream_kind()) as up:
        for kind in (PASSTHROUGH, packlight("--window-tokens", str(DUE_TOKENS))):
            with running(kind, up.url) as server:
                figures[server.name] = await _beside(server, talks, must_shrink=server.name == "packlight")
    return figures


def _around(seed: int) -> tuple[bytes, bytes, bytes]:
    """A request that fits the window by any estimate, one that just fits, and one some turns later that does not."""
    due_bytes = round(DUE_TOKENS * 0.98 * 4)
    session, at = sessions.with_bytes(seed, due_bytes)
    first, near, after = (session.body(session.calls[at - turns], stream=True) for turns in (*GROWTH_TURNS, 0))
    return first, near, after


async def _beside(server: Server, talks: Sequence[tuple[bytes, bytes, bytes]], *, must_shrink: bool) -> dict[str, Any]:
    took: dict[str, list[Took]] = {"alone": [], "beside small requests": [], "small requests beside": []}
    cpu = 0.0
    async with client.session() as asking:
        for body in talks[0]:  # how the upstream counts is learned
            await client.ask(asking, server.url, body)
        without = await _small(asking, server, asyncio.create_task(asyncio.sleep(3)))
        for (*before, after), (*second, later) in zip(talks[1::2], talks[2::2], strict=False):
            for body in (*before, *second):
                _expect(await client.ask(asking, server.url, body), body, whole=True)
            start = server.cpu_seconds
            took["alone"].append(await client.ask(asking, server.url, after))
            cpu += server.cpu_seconds - start
            task = asyncio.create_task(client.ask(asking, server.url, later))
            took["small requests beside"] += await _small(asking, server, task)
            took["beside small requests"].append(await task)
            if must_shrink:
                _expect(took["alone"][-1], after, whole=False)
                _expect(task.result(), later, whole=False)
    figures = {name: summary(all_) for name, all_ in (*took.items(), ("small requests alone", without))}
    figures["alone"]["cpu_ms"] = 1e3 * cpu / len(took["alone"])
    return figures


def _expect(took: Took, body: bytes, *, whole: bool) -> None:
    """A batch where it was to be, and none where it was not. Raises RuntimeError: it would measure something else."""
    if (took.received_bytes == len(body)) != whole:
        raise RuntimeError(f"a batch was {'made too early' if whole else 'not made'}: {took.received_bytes:,} bytes")


async def _small(asking: ClientSession, server: Server, until: asyncio.Future[Any]) -> list[Took]:
    """Small requests of other conversations, with pauses as agents make them, until that is done."""
    texts = bodies(12, SMALL_BYTES, 40)
    asked: list[asyncio.Task[Took]] = []
    while not until.done():
        asked.append(asyncio.create_task(client.ask(asking, server.url, texts[len(asked) % len(texts)])))
        await asyncio.sleep(PAUSE_SECONDS)
    return await asyncio.gather(*asked)


async def run(scale: float) -> dict[str, Any]:
    return {"idle": await idle(scale), "batches": await batches(scale)}
