"""The proxy's live page: whole and alone, figures for everybody, text only for whoever has the key."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")

from packlight.proxy import Proxy
from packlight.testing import Call, Refusal, Reply
from proxy_talk import RESULT, TASK, counting, grow, proxied, read

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
HOSTILE = "</script><img src=x onerror=alert(1)>&amp;"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
VOID = {"meta", "link", "br", "img", "input"}


class Reading(HTMLParser):
    """Well-formed, and what it holds: each element's text by id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self.inside: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        for _, id in self.open:
            self.inside.setdefault(id, []).append(tag)
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("id") or ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for id in {id for _, id in self.open if id}:
            self.text[id] = self.text.get(id, "") + data + " "


async def page_of(client: Any, proxy: Proxy) -> str:
    status, text = await read(client, f"{proxy.url}/", **HTML)
    assert status == 200
    return text


def test_page_is_whole_and_alone() -> None:
    async def work() -> None:
        async with proxied() as (proxy, _, client):
            text = await page_of(client, proxy)
            reading = Reading(text)
            tags = [tag for tag, _ in reading.tags]
            assert tags.count("script") == 1 and "link" not in tags and "img" not in tags
            assert not [a for _, a in reading.tags if {"src", "srcset", "onerror", "onload"} & a.keys()]
            assert set(re.findall(r"https?://[^\s\"'<]+", text)) == {"http://www.w3.org/2000/svg"}, "a name, no address"
            assert not re.search(r"@import|url\(|innerHTML|insertAdjacentHTML|document\.write|eval\(", text)
            policy = next(a["content"] for _, a in reading.tags if a.get("http-equiv") == "Content-Security-Policy")
            assert policy and policy.startswith("default-src 'none'") and "connect-src 'self'" in policy
            assert ("html", {"lang": "en"}) in reading.tags
            for words in ("prefers-color-scheme: dark", ":focus-visible", "aria-label", "max-width: 560px", "noscript"):
                assert words in text

    asyncio.run(work())


def test_only_a_browser_gets_the_page() -> None:
    async def work() -> None:
        async with proxied() as (proxy, _, client):
            assert "scripted" in (await read(client, f"{proxy.url}/"))[1], "from upstream"
            assert "scripted" in (await read(client, f"{proxy.url}/", Accept="application/json"))[1]
            assert "scripted" in (await read(client, f"{proxy.url}/v1/models", **HTML))[1]
            async with client.head(f"{proxy.url}/", headers=HTML) as reply:
                assert reply.status == 200, "as the upstream answers it"
            async with client.get(f"{proxy.url}/", headers=HTML) as reply:
                assert reply.headers["Cache-Control"] == "no-store" and reply.headers["X-Frame-Options"] == "DENY"
                assert reply.content_type == "text/html"

    asyncio.run(work())


def test_no_text_in_the_figures() -> None:
    async def work() -> None:
        async with proxied() as (proxy, _, client):
            await grow(client, proxy.url, 14)
            figures = (await read(client, f"{proxy.url}/packlight/figures.json"))[1]
            id = json.loads(figures)["threads"][0]["id"]
            turns = (await read(client, f"{proxy.url}/packlight/turns.json?thread={id}"))[1]
            metrics = (await read(client, f"{proxy.url}/metrics"))[1]
            assert len(json.loads(turns)) == 14
            for told in (figures, turns, metrics, await page_of(client, proxy)):
                assert "zebra7461" not in told and "xylophone" not in told and "seq 3" not in told
                assert proxy.access.key not in told

    asyncio.run(work())


def test_text_is_for_whoever_has_the_key() -> None:
    async def work() -> None:
        async with proxied() as (proxy, _, client):
            await grow(client, proxy.url, 14)
            rows = [t for thread in proxy.watch.threads.values() for t in thread.turns]
            batch = next(t.batch for t in rows if t.batch)
            url = f"{proxy.url}/packlight/batch.json?id={batch}"
            for key in ("", "&key=", "&key=wrong", f"&key={proxy.access.key[:-1]}", "&key=%ff%00é"):
                status, text = await read(client, url + key)
                assert status == 403 and "seq" not in text
            status, text = await read(client, f"{url}&key={proxy.access.key}")
            edits = json.loads(text)["edits"]
            assert status == 200 and len(edits) == next(t.new_edits for t in rows if t.batch)
            assert all("seq" in e["text"] and e["tokens_after"] < e["tokens_before"] for e in edits)
            assert RESULT not in text, "what was taken out is the client's own"
            gone = await read(client, f"{proxy.url}/packlight/batch.json?id=1-1&key={proxy.access.key}")
            assert gone[0] == 404
            assert proxy.page_url == f"{proxy.url}/?key={proxy.access.key}"

    asyncio.run(work())


def test_each_start_has_a_key_of_its_own() -> None:
    async def work() -> None:
        async with proxied() as (one, _, _), proxied() as (other, _, _):
            assert one.access.key != other.access.key and len(one.access.key) >= 32
            assert one.access.key not in repr(one.access)

    asyncio.run(work())


def test_page_is_as_guarded_as_the_proxy() -> None:
    async def work() -> None:
        async with proxied(host="0.0.0.0", token="secret-token") as (proxy, _, client):
            bare = f"http://127.0.0.1:{proxy.port}"
            for path in ("/", "/metrics", "/packlight/figures.json", f"/packlight/batch.json?key={proxy.access.key}"):
                assert (await read(client, bare + path, **HTML))[0] == 403
                status, _ = await read(client, f"{bare}/token/secret-token{path}", **HTML)
                assert status == (404 if "batch" in path else 200)
        async with proxied() as (proxy, _, client):
            foreign = {"Host": "evil.example", **HTML}
            assert (await read(client, f"{proxy.url}/packlight/figures.json", **foreign))[0] == 403
            assert (await read(client, f"{proxy.url}/metrics", Origin="https://evil.example"))[0] == 403

    asyncio.run(work())


@pytest.mark.parametrize("query", ["thread=", "thread=%ff%fe", "thread=nobody/here", "&&&=", "own=1", "%"])
def test_odd_queries_are_answered(query: str) -> None:
    async def work() -> None:
        async with proxied() as (proxy, _, client):
            status, text = await read(client, f"{proxy.url}/packlight/turns.json?{query}")
            assert (status, json.loads(text)) == (200, [])
            assert (await read(client, f"{proxy.url}/packlight/figures.json?{query}"))[0] == 200

    asyncio.run(work())


# --- in a browser ----------------------------------------------------------------------------------------------------

_FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--virtual-time-budget=6000", "--dump-dom"),
]


async def seen_by_browser(url: str, folder: Path) -> Reading:
    assert BROWSER is not None
    command = [BROWSER, *_FLAGS, f"--user-data-dir={folder / 'profile'}", url]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=120)
    text = done.stdout.decode()
    start = text.index("<html")
    return Reading(re.sub(r"<script>.*?</script>", "", text[start:], flags=re.DOTALL))


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_browser_shows_the_figures(tmp_path: Path) -> None:
    def script(number: int, body: Any) -> Any:
        return Refusal(400, "prompt and all that") if body["model"] == HOSTILE else counting(number, body)

    async def work() -> None:
        async with proxied(script) as (proxy, _, client):
            await grow(client, proxy.url, 14, session="first-of-all")
            await grow(client, proxy.url, 3, session=HOSTILE.replace("/", ""), model="unheard-of")
            headers = {"x-api-key": "k", "x-claude-code-session-id": "first-of-all"}
            body = {"model": HOSTILE, "messages": [{"role": "user", "content": TASK}]}
            async with client.post(f"{proxy.url}/v1/messages", json=body, headers=headers) as reply:
                assert reply.status == 400
            reading = await seen_by_browser(proxy.page_url, tmp_path)
            total = proxy.watch.totals
            tiles, rows, one = (reading.text[id] for id in ("tiles", "list", "one"))
            assert "2 conversations" in tiles and "18 requests" in tiles
            assert f"{total.compactions} batches of edits" in tiles and "1 refused by the provider" in tiles
            assert "first-of-all" in rows and "unheard-of" in rows and "<img src=x" in rows, "text stays text"
            assert "img" not in reading.inside["list"] + reading.inside["one"]
            assert reading.text["state"].strip() == "fit, default", "live"
            assert "over the budget" in one and "Refusals and errors" in one and "svg" in reading.inside["one"]
            chart = next(a["aria-label"] for t, a in reading.tags if t == "svg" and a.get("role") == "img")
            assert chart and "Tokens of 13 requests" in chart and f"the window is {12_000:,}" in chart
            opened = [a for t, a in reading.tags if t == "button" and a.get("data-batch")]
            assert len(opened) == total.compactions, "with the key each batch can be opened"
            assert "zebra7461" not in " ".join(reading.text.values())
            without = await seen_by_browser(f"{proxy.url}/", tmp_path)
            assert "over the budget" in without.text["one"]
            assert not [a for t, a in without.tags if t == "button" and a.get("data-batch")]

    asyncio.run(work())


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_browser_shows_recalls_where_there_is_the_tool(tmp_path: Path) -> None:
    def script(number: int, body: Any) -> Any:
        asks = number in (4, 5, 7) and any(t["name"] == "recall" for t in body["tools"])
        return Reply(calls=(Call("recall", {"query": "seq 1"}),)) if asks else counting(number, body)

    async def seen(*, recall_tool: bool) -> Reading:
        async with proxied(script, recall_tool=recall_tool) as (proxy, _, client):
            await grow(client, proxy.url, 6)
            return await seen_by_browser(proxy.page_url, tmp_path)

    found, other = asyncio.run(seen(recall_tool=True)), asyncio.run(seen(recall_tool=False))
    assert "3 recalls by the model" in found.text["tiles"] and "3 recalls" in found.text["one"]
    assert "the model recalled" in found.text["one"] and found.inside["one"].count("circle") == 2
    assert "recall" not in " ".join(other.text[id] for id in ("tiles", "list", "one"))


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_browser_before_the_first_request_and_under_a_token(tmp_path: Path) -> None:
    async def work() -> None:
        async with proxied(host="0.0.0.0", token="secret-token", mode="shadow") as (proxy, _, _):
            page = f"http://127.0.0.1:{proxy.port}/token/secret-token"
            for url in (page, f"{page}/?key={proxy.access.key}"):
                reading = await seen_by_browser(url, tmp_path)
                assert "None yet." in reading.text["list"] and "0 conversations" in reading.text["tiles"]
                assert reading.text["state"].strip() == "shadow, default"

    asyncio.run(work())
