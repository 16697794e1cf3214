"""The proxy's figures: they are those of the provider, hold no text, stay small, and are the sum of all workers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")

from packlight.proxy import Settings, watch
from packlight.proxy.engine import Engine, Exchange
from packlight.proxy.figures import figures, merged, merged_turns, turns
from packlight.proxy.metrics import METRICS, prometheus
from packlight.proxy.money import usd_of
from packlight.proxy.routes import Endpoint
from packlight.proxy.watch import Watch
from packlight.testing import ModelServer
from proxy_talk import RESULT, TASK, TOOLS, WINDOW, counting, grow, proxied, read

SOURCE = str(Path(__file__).parent.parent / "src")
ANSWER = Endpoint("anthropic", "answer")


# --- what is counted -------------------------------------------------------------------------------------------------


def test_figures_are_those_of_the_provider() -> None:
    async def work() -> None:
        async with proxied() as (proxy, server, client):
            await grow(client, proxy.url, 14, session="one")
            await grow(client, proxy.url, 5, session="two", model="unheard-of")
            found = json.loads((await read(client, f"{proxy.url}/packlight/figures.json"))[1])
            total = found["totals"]
            assert total["requests"] == len(server.tokens) == 19
            assert total["input_tokens"] == sum(server.tokens) and total["cached_tokens"] == sum(server.cached_tokens)
            assert total["compactions"] >= 2 and total["calls"] == 13 + 4
            assert total["unpriced"] == 5 and total["usd"] > 0
            assert total["tokens_before"] > 1.3 * total["tokens_after"]
            assert found["open"] == total["errors"] == total["refused"] == 0
            assert [t["id"].partition("/")[2] for t in found["threads"]] == ["two", "one"], "the newest first"
            one = found["threads"][1]
            assert len(one["points"]) == 13 and one["tokens_before"] > WINDOW > one["tokens_after"]
            rows = json.loads((await read(client, f"{proxy.url}/packlight/turns.json?thread={one['id']}"))[1])
            assert [t["is_side"] for t in rows] == [True] + 13 * [False]
            batches = [t for t in rows if t["batch"]]
            assert len(batches) == one["totals"]["compactions"]
            assert all("over the budget" in t["reason"] and t["layers"] and t["new_edits"] for t in batches)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("model", "usage", "usd"),
    [
        (  # 3 USD in, 15 out; reads at a tenth, writes at 1.25, for an hour at 2
            "claude-sonnet-4-5",
            {
                "input_tokens": 1_000,
                "cache_read_input_tokens": 10_000,
                "cache_creation_input_tokens": 3_000,
                "cache_creation": {"ephemeral_5m_input_tokens": 2_000, "ephemeral_1h_input_tokens": 1_000},
                "output_tokens": 100,
            },
            (1_000 * 3 + 10_000 * 0.3 + 2_000 * 3.75 + 1_000 * 6 + 100 * 15) / 1e6,
        ),
        (  # 1.25 in, 10 out; cached at a tenth
            "gpt-5",
            {
                "prompt_tokens": 5_000,
                "prompt_tokens_details": {"cached_tokens": 4_000},
                "completion_tokens": 10,
            },
            (1_000 * 1.25 + 4_000 * 0.125 + 10 * 10) / 1e6,
        ),
        ("claude-sonnet-4-5", {}, None),
        ("unheard-of", {"input_tokens": 5}, None),
        ("gpt-5", {"prompt_tokens": -5, "completion_tokens": "much"}, None),
    ],
)
def test_price_of_a_request(model: str, usage: dict[str, Any], usd: float | None) -> None:
    assert usd_of(model, usage) == (None if usd is None else pytest.approx(usd))


def test_price_file_that_cannot_be_read_prices_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "models.json").write_text("[")
    monkeypatch.setenv("PACKLIGHT_MODELS", str(tmp_path / "models.json"))
    assert usd_of("claude-with-no-such-name", {"input_tokens": 5}) is None


# --- what is fetched again -------------------------------------------------------------------------------------------


class Agent:
    """Grows one conversation through an engine, call by call."""

    def __init__(self, **settings: Any) -> None:
        self.engine = Engine(Settings(**{"journal": None, "window_tokens": WINDOW, **settings}))
        self.messages: list[Any] = [{"role": "user", "content": TASK}]

    def calls(self, *calls: tuple[str, dict[str, Any]], result: str = RESULT) -> Exchange:
        """The model's next answer makes these calls; the request with their results."""
        ids = [f"t{len(self.messages)}-{k}" for k in range(len(calls))]
        said = [
            {"type": "tool_use", "id": id, "name": tool, "input": arguments}
            for id, (tool, arguments) in zip(ids, calls, strict=True)
        ]
        results = [{"type": "tool_result", "tool_use_id": id, "content": result} for id in ids]
        self.messages += [{"role": "assistant", "content": said}, {"role": "user", "content": results}]
        return self.again()

    def again(self, **more: Any) -> Exchange:
        body = {"model": "m", "max_tokens": 500, "tools": TOOLS, "messages": self.messages, **more}
        return self.engine.begin(ANSWER, {"x-api-key": "k"}, json.dumps(body).encode())

    def fill(self) -> Exchange:
        """On until a batch takes the beginning out."""
        for n in range(40):
            exchange = self.calls(("bash", {"command": f"make step{n}"}))
            if exchange.c is not None and exchange.c.report.new_edits:
                return exchange
        raise AssertionError("no batch was due")


def test_what_was_taken_out_and_comes_again_is_counted() -> None:
    agent = Agent()
    agent.calls(("read_file", {"path": "src/a.py"}), ("read_file", {"path": "src/b.py"}))
    assert agent.calls(("read_file", {"path": "src/a.py"})).calls == (1, 0), "nothing was taken out yet"
    assert agent.fill().calls == (1, 0)
    assert agent.calls(("read_file", {"path": "src/a.py"}), ("read_file", {"path": "src/new.py"})).calls == (2, 1)
    assert agent.calls(("bash", {"command": "cat src/b.py"})).calls == (1, 1), "the same file in another way"
    assert agent.calls(("bash", {"command": "make step0"})).calls == (1, 1), "the same command"
    assert agent.again().calls == (1, 1), "a client that tries again asks for the same"


def test_changing_a_file_is_no_fetching() -> None:
    agent = Agent()
    agent.calls(("read_file", {"path": "src/a.py"}))
    agent.fill()
    edit = {"path": "src/a.py", "old_string": "x", "new_string": "y"}
    assert agent.calls(("edit_file", edit), ("write_file", {"path": "src/a.py", "content": "z"})).calls == (2, 0)


def test_a_call_made_before_its_like_was_taken_out_is_none() -> None:
    agent = Agent()
    agent.calls(("read_file", {"path": "src/a.py"}))
    for _ in range(40):
        exchange = agent.calls(("read_file", {"path": "src/a.py"}))
        if exchange.c is not None and exchange.c.report.new_edits:
            break
    assert exchange.calls == (1, 0), "the model still saw it when it asked"
    assert agent.calls(("read_file", {"path": "src/a.py"})).calls == (1, 1)


def test_nothing_is_fetched_again_in_shadow_mode() -> None:
    agent = Agent(mode="shadow")
    agent.calls(("read_file", {"path": "src/a.py"}))
    agent.fill()
    assert agent.calls(("read_file", {"path": "src/a.py"})).calls == (1, 0), "nothing was taken out in truth"


def test_another_process_counts_the_same(tmp_path: Path) -> None:
    agent = Agent(journal=tmp_path / "state")
    agent.calls(("read_file", {"path": "src/a.py"}))
    agent.fill()
    agent.engine.close()
    agent.engine = Engine(agent.engine.settings)
    assert agent.calls(("read_file", {"path": "src/a.py"})).calls == (1, 1)
    agent.engine.close()


# --- what is kept ----------------------------------------------------------------------------------------------------


def exchange_of(engine: Engine, session: str) -> Exchange:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    return engine.begin(ANSWER, {"x-claude-code-session-id": session}, json.dumps(body).encode())


def test_figures_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MAX_ALL_TURNS", 50)
    monkeypatch.setattr(watch, "MAX_THREADS", 8)
    engine, seen = Engine(Settings(journal=None)), Watch()
    for n in range(200):
        seen.note(exchange_of(engine, f"s{n % 12}"), 200)
    assert len(seen.threads) <= 8 and sum(len(t.turns) for t in seen.threads.values()) <= 50
    assert seen.requests == seen.totals.requests == 200, "the sums go on"
    for _ in range(100):
        seen.note(exchange_of(engine, "alone"), 200)
    assert [t.rpartition("/")[2] for t in seen.threads] == ["alone"], "the newest conversation stays"


def test_text_of_batches_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, seen = Agent(), Watch()
    seen.note(agent.fill(), 200)
    one = seen.batches[0].tokens
    monkeypatch.setattr(watch, "MAX_BATCH_TOKENS", 3 * one)
    for _ in range(6):
        seen.note(agent.fill(), 200)
    assert 1 <= len(seen.batches) < 7 and sum(b.tokens for b in seen.batches) <= 3 * one
    assert seen.batches[-1].id == next(iter(seen.threads.values())).turns[-1].batch, "the newest are kept"


def test_sum_of_processes_is_that_of_one() -> None:
    agent, engine = Agent(), Engine(Settings(journal=None))
    exchanges = [agent.calls(("bash", {"command": f"make {n}"})) for n in range(20)]
    exchanges += [exchange_of(engine, f"s{n}") for n in range(5)]
    whole, parts, chance = Watch(), [Watch(), Watch(), Watch()], random.Random(7)
    for exchange in exchanges:
        status = chance.choice([200, 200, 200, 429])
        whole.note(exchange, status)
        chance.choice(parts).note(exchange, status)
    one, three = figures(whole), merged([figures(p) for p in parts])
    assert three["totals"] == pytest.approx(one["totals"])
    assert three["by_outcome"] == one["by_outcome"] and three["seconds_buckets"] == one["seconds_buckets"]
    assert {t["id"]: t["totals"]["requests"] for t in three["threads"]} == {
        t["id"]: t["totals"]["requests"] for t in one["threads"]
    }
    id = one["threads"][-1]["id"]
    sizes = [t["tokens_before"] for t in merged_turns([turns(p, id) for p in parts])]
    assert sizes == [t["tokens_before"] for t in turns(whole, id)] and len(sizes) == 20
    joined = next(t for t in three["threads"] if t["id"] == id)
    assert [p[1:] for p in joined["points"]] == [p[1:] for p in one["threads"][-1]["points"]]


def test_run_says_where_the_page_is(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": SOURCE}
    url = "os.environ['ANTHROPIC_BASE_URL'] + '/metrics'"
    look = f"import os, urllib.request as u; print(u.urlopen({url}).read().decode())"
    command = [sys.executable, "-m", "packlight", "run", "--", sys.executable, "-c", look]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert samples(ended.stdout.strip())["packlight_open_requests"][""] == 0
    assert re.search(r"^packlight: live page http://127\.0\.0\.1:\d+/\?key=[\w-]{32}$", ended.stderr, re.MULTILINE)


# --- for Prometheus --------------------------------------------------------------------------------------------------

_SAMPLE = re.compile(r'(packlight_[a-z_]+)(\{[a-z_]+="[^"\\\n]*"(?:,[a-z_]+="[^"\\\n]*")*\})? ([0-9.e+-]+|\+Inf)')


def samples(text: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = _SAMPLE.fullmatch(line)
            assert match, line
            found.setdefault(match[1], {})[match[2] or ""] = float(match[3])
    return found


def test_metrics_say_what_happened() -> None:
    async def work() -> None:
        async with proxied() as (proxy, server, client):
            await grow(client, proxy.url, 14)
            status, text = await read(client, f"{proxy.url}/metrics")
            async with client.get(f"{proxy.url}/metrics") as reply:
                assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            found = samples(text)
            total = proxy.watch.totals
            assert status == 200 and text.endswith("\n")
            assert sum(found["packlight_requests_total"].values()) == 14
            compacted = '{api="anthropic",does="answer",outcome="compacted",status="200"}'
            assert found["packlight_requests_total"][compacted] == total.compactions >= 2
            assert found["packlight_input_tokens_total"][""] == sum(server.tokens)
            assert found["packlight_usd_total"][""] == pytest.approx(total.usd)
            assert found["packlight_tool_calls_total"][""] == 13
            buckets = list(found["packlight_added_seconds_bucket"].values())
            assert buckets == sorted(buckets) and buckets[-1] == found["packlight_added_seconds_count"][""] == 14
            assert found["packlight_added_seconds_sum"][""] == pytest.approx(total.seconds)
            assert found["packlight_conversations"][""] == found["packlight_workers"][""] == 1

    asyncio.run(work())


def test_metrics_are_told_before_their_samples() -> None:
    lines = prometheus(figures(Watch())).splitlines()
    for name, (kind, told) in METRICS.items():
        at = lines.index(f"# HELP {name} {told}")
        assert lines[at + 1] == f"# TYPE {name} {kind}"
        assert name.endswith("_total") == (kind == "counter")
        assert name == "packlight_requests_total" or lines[at + 2].startswith(name), "a counter begins at zero"


def test_upstream_that_is_not_there_is_counted() -> None:
    async def work() -> None:
        async with proxied() as (proxy, server, client):
            server.__exit__()
            await asyncio.sleep(0)
            async with client.post(f"{proxy.url}/v1/messages", json={"messages": []}) as reply:
                assert reply.status == 502
            assert samples((await read(client, f"{proxy.url}/metrics"))[1])["packlight_unreachable_total"][""] == 1

    asyncio.run(work())


# --- several workers -------------------------------------------------------------------------------------------------


def get(url: str) -> tuple[int, str]:
    """On a connection of its own, so that any worker may answer."""
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until(what: Any, seconds: float = 20.0) -> Any:
    end = time.monotonic() + seconds
    while True:
        try:
            if found := what():
                return found
        except (OSError, ValueError):
            pass
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers need fork")
def test_any_worker_tells_of_all(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path)}
    environment["PYTHONPATH"] = SOURCE
    with ModelServer(counting, window_tokens=WINDOW) as server:
        options = ["--workers", "2", "--port", url.rpartition(":")[2], "--upstream", server.url]
        command = [sys.executable, "-m", "packlight", "proxy", *options, "--window-tokens", str(WINDOW)]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            try:
                pids = until(lambda: len(f := json.loads(get(f"{url}/packlight/figures.json")[1])["pids"]) == 2 and f)
                asyncio.run(grown_apart(url))
                found = [json.loads(get(f"{url}/packlight/figures.json")[1]) for _ in range(6)]
                assert all(f["totals"]["requests"] == 14 and len(f["threads"]) == 1 for f in found)
                assert all(samples(get(f"{url}/metrics")[1])["packlight_workers"][""] == 2 for _ in range(4))
                rows = json.loads(get(f"{url}/packlight/turns.json?thread={found[0]['threads'][0]['id']}")[1])
                assert len(rows) == 14 and {t["batch"].partition("-")[0] for t in rows if t["batch"]} <= {
                    str(pid) for pid in pids
                }
                assert process.stderr is not None
                key = process.stderr.readline() + process.stderr.readline()
                key = key.partition("?key=")[2].strip()
                batch = next(t["batch"] for t in rows if t["batch"])
                answers = [get(f"{url}/packlight/batch.json?id={batch}&key={key}") for _ in range(6)]
                assert all(status == 200 and "cleared" in text for status, text in answers)
                assert get(f"{url}/packlight/batch.json?id={batch}&key={key}x")[0] == 403
                os.kill(pids[0], signal.SIGKILL)
                until(lambda: pids[0] not in (f := json.loads(get(f"{url}/packlight/figures.json")[1])["pids"]) and f)
            finally:
                process.terminate()
                try:
                    process.communicate(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise
    assert not list(tmp_path.glob("packlight-*")), "nothing stays behind"
    state = [p.read_bytes() for p in (tmp_path / "state").rglob("*") if p.is_file()]
    assert state and not any(key.encode() in data for data in state)


async def grown_apart(url: str) -> None:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as client:
        await grow(client, url, 14)
