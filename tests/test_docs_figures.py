"""docs/proxy/figures.md says what there is: every metric, path and attribute, and every bound."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("aiohttp")

from packlight.proxy import board, spans, watch
from packlight.proxy.metrics import METRICS
from proxy_talk import grow, proxied, read

PAGE = (Path(__file__).parent.parent / "docs" / "proxy" / "figures.md").read_text("utf-8")


def rows(section: str) -> list[list[str]]:
    """The cells of a section's table."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return [[c.strip() for c in line.strip("|").split(" | ")] for line in re.findall(r"^\| `.*\|$", text, re.MULTILINE)]


def test_every_metric_is_told() -> None:
    assert [(name.strip("`"), kind) for name, kind, _ in rows("`/metrics`")] == [
        (n, k) for n, (k, _) in METRICS.items()
    ]


def test_every_attribute_is_told() -> None:
    tree = ast.parse(inspect.getsource(spans))
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    used = {t for t in texts if re.fullmatch(r"(gen_ai|packlight|http|error)(\.[a-z_]+)+", t)}
    told = {name for row in rows("OpenTelemetry") for name in re.findall(r"`([a-z_.]+)`", row[0])}
    assert told == used and len(used) > 20


def test_bounds_are_those_of_the_code() -> None:
    bounds = watch.MAX_THREADS, watch.MAX_TURNS, watch.MAX_ALL_TURNS, board.MAX_THREADS_SHOWN
    told = "The last {:,} conversations are remembered, with at most {:,} requests each and {:,} in all;"
    assert told.format(*bounds) in PAGE and f"the newest {board.MAX_THREADS_SHOWN} conversations" in PAGE
    assert f"Text of the newest {watch.MAX_BATCHES} batches" in PAGE and board.PEER_SECONDS == 2


def test_every_path_is_there() -> None:
    async def work() -> None:
        async with proxied() as (proxy, _, client):
            await grow(client, proxy.url, 12)
            (thread,) = proxy.watch.threads.values()
            batch = next(t.batch for t in thread.turns if t.batch)
            for path, _ in rows("As JSON"):
                asked = path.strip("`").replace("thread=ID", f"thread={thread.id}").replace("id=ID", f"id={batch}")
                status, text = await read(client, proxy.url + asked.replace("KEY", proxy.access.key))
                assert status == 200 and len(text) > 10, path

    asyncio.run(work())
