"""Conversations through the proxy: kept apart, side by side, over one store, and what of them is never touched."""

from __future__ import annotations

import asyncio
import gc
import random
import sqlite3
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checker
import strategies
from engine import MODELS
from packlight.proxy import Proxy, Settings, server
from packlight.proxy.engine import Engine
from packlight.proxy.routes import endpoint_of
from packlight.store import open_store
from proxy_help import (
    PATHS,
    ROOM,
    TOOLS,
    Line,
    Link,
    Message,
    agent_request,
    answer_of,
    encoded,
    items_of,
    line,
    post,
    reply,
    run,
)
from talk import WIRES, begins_with, unmarked

KEY = "x-api-key: sk-{}\r\n"


async def counted(got: Message, link: Link) -> None:
    """An upstream that counts what it is sent."""
    wire = next(w for w, path in PATHS.items() if got.target.startswith(path))
    await link.send(reply(answer_of(wire, len(got.body) // 2)))


@pytest.mark.parametrize("wire", WIRES)
def test_prefix_stays_between_batches(wire):
    async def work():
        async with line(counted, window_tokens=16_000) as on:
            breaks, before = 0, []
            for n in range(1, 60):
                got = await on.post(wire, agent_request(wire, n))
                now = items_of(on.sent, wire)
                assert checker.check(on.sent.json, wire) == []
                assert len(on.sent.body) < 16_000 * 2.2
                is_batch = got.get("x-packlight").startswith("compacted")
                assert is_batch or begins_with(now, before)
                breaks, before = breaks + is_batch, now
            assert 1 <= breaks <= 12

    run(work())


def test_two_keys_never_share_a_batch():
    async def work():
        async with line(reply(answer_of("anthropic")), window_tokens=16_000) as on:
            conversation = agent_request("anthropic", 20)
            first = await on.post("anthropic", conversation, KEY.format("a"))
            second = await on.post("anthropic", conversation, KEY.format("b"))
            again = await on.post("anthropic", conversation, KEY.format("a"))
            nobody = await on.post("anthropic", conversation)
            assert [m.get("x-packlight").split(";")[0] for m in (first, second, again, nobody)] == [
                "compacted",
                "compacted",
                "reapplied",
                "compacted",
            ]
            owners = {thread.owner for thread in on.proxy.watch.threads.values()}
            assert len(owners) == 3

    run(work())


RENEWED = {
    "claude": ("sk-ant-oat01-{}", {"metadata": {"user_id": '{"account_uuid": "u1", "session_id": "s"}'}}, ""),
    "codex": ("eyJhbGci.{}.x", {}, "chatgpt-account-id: acc-1\r\nsession-id: s1\r\n"),
    "jwt": ("eyJhbGci.eyJpc3MiOiJpIiwic3ViIjoicyJ9.{}", {}, ""),
}


@pytest.mark.parametrize("login", RENEWED)
def test_login_that_renews_its_token_keeps_its_conversation(login):
    token, more, headers = RENEWED[login]

    async def work():
        async with line(reply(answer_of("anthropic")), window_tokens=16_000) as on:
            conversation = agent_request("anthropic", 20, **more)
            for name, outcome in (("one", "compacted"), ("two", "reapplied")):
                auth = f"Authorization: Bearer {token.format(name)}\r\n{headers}"
                got = await on.post("anthropic", conversation, auth)
                assert got.get("x-packlight").startswith(outcome)

    run(work())


def test_login_of_another_account_is_another_owner():
    async def work():
        async with line(reply(answer_of("anthropic")), window_tokens=16_000) as on:
            for account in ("u1", "u2"):
                more = {"metadata": {"user_id": f'{{"account_uuid": "{account}"}}'}}
                auth = "Authorization: Bearer sk-ant-oat01-x\r\n"
                got = await on.post("anthropic", agent_request("anthropic", 20, **more), auth)
                assert got.get("x-packlight").startswith("compacted")

    run(work())


def test_fifty_conversations_at_once():
    async def work():
        async with line(counted, window_tokens=16_000) as on:

            async def talk_of(number: int) -> None:
                before: list[str] = []
                for count in (18, 19, 20):
                    conversation = agent_request("chat", count)
                    conversation["messages"][0]["content"] += f" Number {number}."
                    got = await on.post("chat", conversation, KEY.format(number % 7))
                    assert got.status == 200
                    sent = next(r for r in reversed(on.upstream.requests) if f"Number {number}.".encode() in r.body)
                    items = items_of(sent, "chat")
                    assert f"Number {number}." in items[0]
                    assert not before or "compacted" in got.get("x-packlight") or begins_with(items, before)
                    before = items

            await asyncio.gather(*map(talk_of, range(50)))
            assert len(on.upstream.requests) == 150
            assert all(checker.check(r.json, "chat") == [] for r in on.upstream.requests)

    run(work())


def test_parallel_requests_of_one_conversation_are_sent_the_same_bytes():
    async def work():
        async with line(reply(answer_of("responses")), window_tokens=16_000) as on:
            got = await asyncio.gather(*[on.post("responses", agent_request("responses", 20)) for _ in range(8)])
            assert {m.status for m in got} == {200}
            assert len({r.body for r in on.upstream.requests}) == 1

    run(work())


def test_two_proxies_over_one_store_send_the_same_bytes(tmp_path):
    async def work():
        async with line(reply(answer_of("chat", 4_268)), journal=tmp_path / "state", window_tokens=16_000) as one:
            told = Settings(upstream=one.upstream.url, port=0, journal=tmp_path / "state", window_tokens=16_000)
            async with Proxy(told) as proxy:
                two = Line(proxy, one.upstream)
                got = await asyncio.gather(*[on.post("chat", agent_request("chat", 20)) for on in (one, two, one, two)])
                assert all(m.get("x-packlight") for m in got)
                assert len({r.body for r in one.upstream.requests}) == 1
                await one.post("chat", agent_request("chat", 21))
                await two.post("chat", agent_request("chat", 21))
                assert one.upstream.requests[-1].body == one.upstream.requests[-2].body

    run(work())


@pytest.mark.parametrize("fault", ["read-only", "a file", "newer"])
def test_state_folder_that_can_not_be_used_stops_nothing(fault, tmp_path, monkeypatch):
    folder = tmp_path / "state"
    if fault == "a file":
        folder.write_text("x")
    elif fault == "read-only":  # for root, too
        monkeypatch.setattr("os.link", lambda *args: (_ for _ in ()).throw(OSError(30, "Read-only file system")))
        monkeypatch.setattr(
            "packlight.store.database.prepare_folder",
            lambda folder: (_ for _ in ()).throw(OSError(30, "Read-only file system")),
        )
    else:
        store = open_store(folder)
        store.put_fact("x", b"y")
        store.close()
        with sqlite3.connect(folder / "store.db") as db:
            db.execute("PRAGMA user_version = 999")
        db.close()

    async def work():
        async with line(counted, journal=folder, window_tokens=16_000) as on:
            small = agent_request("chat", 2)
            assert (await on.post("chat", small)).status == 200
            assert on.sent.body == encoded(small)
            got = await on.post("chat", agent_request("chat", 20))
            assert got.status == 200
            assert "error=" in got.get("x-packlight")

    run(work())


# --- what is never touched -------------------------------------------------------------------------------------------


SIDE = {
    "a title": {"tools": []},
    "no tools": {"tools": None},
    "held by the provider": {"previous_response_id": "resp_1"},
}


@pytest.mark.parametrize("name", SIDE)
def test_side_requests_get_no_new_edits(name):
    async def work():
        async with line(reply(answer_of("responses")), window_tokens=16_000) as on:
            asked = agent_request("responses", 20) | SIDE[name]
            got = await on.post("responses", asked)
            assert (on.sent.body, got.get("x-packlight")) == (encoded(asked), "")

    run(work())


LAST_ITEMS = {
    "trigger": {"type": "compaction_trigger"},
    "claude": {"role": "user", "content": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."},
    "checkpoint": {"role": "user", "content": [{"type": "input_text", "text": "CONTEXT CHECKPOINT COMPACTION: go"}]},
}


@pytest.mark.parametrize("name", LAST_ITEMS)
def test_agents_own_summary_gets_no_new_edits_but_those_it_had(name):
    async def work():
        async with line(counted, window_tokens=16_000) as on:
            own = agent_request("responses", 20)
            own["input"].append(LAST_ITEMS[name])
            await on.post("responses", own)
            assert on.sent.body == encoded(own)
            await on.post("responses", agent_request("responses", 20))
            before = items_of(on.sent, "responses")
            got = await on.post("responses", own)
            assert got.get("x-packlight").startswith("reapplied")
            assert items_of(on.sent, "responses") == [*before, *unmarked([LAST_ITEMS[name]])]

    run(work())


@pytest.mark.parametrize(("wire", "end"), [("anthropic", "/count_tokens"), ("responses", "/input_tokens")])
def test_tokens_are_counted_of_what_would_be_sent(wire, end):
    async def work():
        async with line(reply({"input_tokens": 5}), window_tokens=16_000) as on:
            asked = agent_request(wire, 20)
            path = PATHS[wire] + end
            await on.ask(post(path, encoded(asked)))
            assert on.sent.body == encoded(asked)
            await on.post(wire, asked)
            before = items_of(on.sent, wire)
            await on.ask(post(path, encoded(asked)))
            assert on.sent.target == path
            assert items_of(on.sent, wire) == before

    run(work())


def test_rescue_mode_waits_for_the_refusal_and_shadow_mode_changes_nothing():
    async def work():
        for mode in ("rescue", "shadow"):
            async with line(reply(answer_of("chat")), window_tokens=16_000, mode=mode) as on:
                asked = agent_request("chat", 20)
                got = await on.post("chat", asked)
                assert (on.sent.body, got.get("x-packlight")) == (encoded(asked), "")
                turn = next(iter(on.proxy.watch.threads.values())).turns[-1]
                assert (turn.tokens_after < 10_000) == (mode == "shadow")

    run(work())


# --- random conversations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=12)
@given(data=st.data())
def test_random_conversations_stay_valid_and_their_prefix_stays(wire, data):
    """What fits is sent byte for byte; what does not is valid, and goes on from what was sent before."""
    talk = data.draw(strategies.history(wire, max_turns=12))
    rng = random.Random(data.draw(st.integers(0, 1_000)))
    window = data.draw(st.sampled_from([4_000, 8_000, 1_000_000]))
    engine = Engine(Settings(journal=None, window_tokens=window))
    endpoint = endpoint_of("POST", PATHS[wire])
    before: list[str] = []
    for _ in range(6):
        asked = {"tools": TOOLS[wire], **ROOM[wire], "model": MODELS[wire], **talk.request}
        body = encoded(asked)
        exchange = engine.begin(endpoint, {}, body)
        assert exchange.error is None
        assert exchange.c is not None
        if exchange.c.report.outcome == "unchanged":
            assert exchange.data is body
        sent = Message(b"", exchange.data)
        assert checker.new_violations(asked, sent.json, wire) == []
        now = items_of(sent, wire)
        assert exchange.c.report.outcome == "compacted" or begins_with(now, before)
        assert window < 1_000_000 or exchange.data is body
        before = now
        talk = strategies.append_turns(rng, talk, 3)


def test_what_outlives_a_batch_is_collected_when_no_request_is_open(monkeypatch):
    class Cycle:
        def __init__(self):
            self.itself = self

    async def work():
        monkeypatch.setattr(server, "IDLE_SECONDS", 0.01)
        monkeypatch.setattr(server, "IDLE_STEPS", 0)
        async with line(reply(b"x")) as on:
            outlived = Cycle()
            gc.collect(0)
            left = weakref.ref(outlived)
            with on.proxy.watch.opened():
                del outlived
                await asyncio.sleep(0.2)
                assert left() is not None, "somebody waits"
            while left() is not None:
                await asyncio.sleep(0.01)

    run(work())
