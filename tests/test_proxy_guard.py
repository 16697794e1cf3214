"""Who may come in; and what never leaves a request: the token upstream, credentials and text into files and logs."""

from __future__ import annotations

import asyncio

import pytest

from packlight.proxy.guard import admitted
from packlight.proxy.log import log
from packlight.proxy.settings import Settings
from proxy_help import PATHS, Link, agent_request, answer_of, encoded, line, post, reply, run

TOKEN = "t0ken-of-this-proxy"


def get(path="/v1/models", host="Host: localhost\r\n", more=""):
    return f"GET {path} HTTP/1.1\r\n{host}{more}\r\n".encode("latin-1")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8787", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8787", "localhost:8787"]
)
def test_names_of_this_machine_are_served(host):
    async def work():
        async with line(reply(b"x")) as on:
            assert (await on.ask(get(host=f"Host: {host}\r\n"))).status == 200

    run(work())


@pytest.mark.parametrize(
    "host",
    [
        "Host: example.org\r\n",
        "Host: 127.0.0.1.example.org\r\n",
        "Host: localhost.example.org\r\n",
        "Host: 127.0.0.1@example.org\r\n",
        "Host: 10.0.0.7:8787\r\n",
        "Host: [::2]\r\n",
        "Host: [\r\n",
        "Host: \xff\r\n",
        "Host:\r\n",
        "",
        "Host: localhost\r\nHost: example.org\r\n",
    ],
)
def test_names_that_a_page_could_have_made_point_here_are_refused(host):
    async def work():
        async with line(reply(b"x")) as on:
            for path in ("/v1/models", "/healthz", "/", "/metrics"):
                assert (await on.ask(get(path, host))).status in (400, 403)
            assert on.upstream.requests == []

    run(work())


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:3000", 200),
        ("http://127.0.0.1:8787", 200),
        ("http://[::1]:1", 200),
        ("https://example.org", 403),
        ("http://localhost.example.org", 403),
        ("null", 403),
        ("http://[", 403),
        ("file://", 403),
        ("\xff\xfe", 403),
        ("chrome-extension://abcdef", 403),
    ],
)
def test_pages_of_other_origins_are_refused(origin, status):
    async def work():
        async with line(reply(b"x")) as on:
            assert (await on.ask(get(more=f"Origin: {origin}\r\n"))).status == status
            assert len(on.upstream.requests) == (status == 200)

    run(work())


def test_whole_url_as_target_counts_as_host():
    local = Settings()
    assert admitted(local, "http://localhost:8787/v1/x?y", {"host": "evil"}) == ("/v1/x?y", "")
    assert admitted(local, "HTTP://localhost", {}) == ("/", "")
    assert admitted(local, "http://example.org/v1/x", {"host": "localhost"})[1] != ""


def test_ipv6_loopback_is_served():
    async def work():
        async with line(reply(b"x"), host="::1") as on:
            assert on.proxy.url.startswith("http://[::1]:")
            link = Link(*await asyncio.open_connection("::1", on.proxy.port))
            on.links.append(link)
            await link.send(get(host=f"Host: [::1]:{on.proxy.port}\r\n"))
            assert (await link.message(is_reply=True)).status == 200

    run(work())


def test_websocket_is_told_to_use_http():
    async def work():
        async with line(reply(b"x")) as on:
            more = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"
            assert (await on.ask(get("/v1/responses", more=more))).status == 426
            assert on.upstream.requests == []

    run(work())


@pytest.mark.parametrize("place", ["header", "path"])
def test_open_proxy_asks_for_its_token_and_keeps_it(place):
    async def work():
        async with line(reply(answer_of("anthropic")), host="0.0.0.0", token=TOKEN) as on:
            prefix, headers = ("", f"X-Packlight-Token: {TOKEN}\r\n") if place == "header" else (f"/token/{TOKEN}", "")
            headers += "Host: build.example.org\r\n"
            for path in ("/v1/messages?x=%2F", "/v1/files"):
                data = post(prefix + path, b"{}", headers).replace(b"Host: 127.0.0.1\r\n", b"")
                assert (await on.ask(data)).status == 200
                assert on.sent.target == path
                assert TOKEN.encode() not in on.sent.head

    run(work())


@pytest.mark.parametrize("given", ["", "x", TOKEN[:-1], TOKEN + "x", "\xff", "é"])
@pytest.mark.parametrize("path", ["/v1/models", "/healthz", "/", "/metrics", "/token", "/token/", "/token/x/v1/models"])
def test_open_proxy_refuses_who_has_no_token(given, path):
    async def work():
        async with line(reply(b"x"), host="0.0.0.0", token=TOKEN) as on:
            got = await on.ask(get(path, more=f"X-Packlight-Token: {given}\r\n"))
            assert got.status == 403
            assert TOKEN.encode() not in got.body
            assert on.upstream.requests == []

    run(work())


def test_without_a_token_no_path_is_cut():
    async def work():
        async with line(reply(b"x")) as on:
            await on.ask(get("/token/abc/v1/models"))
            assert on.sent.target == "/token/abc/v1/models"

    run(work())


SECRETS = {
    "x-api-key": "sk-ant-api03-SECRET1",
    "authorization": "Bearer sk-proj-SECRET2",
    "api-key": "azure-SECRET3",
    "cookie": "session=SECRET4",
    "x-goog-api-key": "AIza-SECRET5",
}


@pytest.mark.parametrize("store", [True, False])
def test_credentials_are_in_no_file_log_or_figure(store, tmp_path, capsys):
    folder = tmp_path / "state"

    async def work():
        place = {"store": folder} if store else {"journal": folder}
        async with line(reply(answer_of("anthropic")), window_tokens=16_000, quiet=False, **place) as on:
            settings = on.proxy.settings
            for json_log in (False, True):
                object.__setattr__(settings, "json_log", json_log)
                on.proxy.watch.listeners = [lambda thread, turn: log(settings, thread, turn)]
                for name, value in SECRETS.items():
                    got = await on.post("anthropic", agent_request("anthropic", 20), f"{name}: {value}\r\n")
                    assert got.get("x-packlight").startswith("compacted" if not json_log else "reapplied")
                    assert on.sent.get(name) == value
                    await on.ask(post(PATHS["anthropic"], b"broken", f"{name}: {value}\r\n"))
            assert "SECRET" not in repr(on.proxy.watch.threads)
            on.upstream.answer = reply({"error": {"message": "no"}}, "401 No")
            await on.post("anthropic", agent_request("anthropic", 20), "x-api-key: sk-ant-SECRET6\r\n")

    run(work())
    captured = capsys.readouterr()
    assert "SECRET" not in captured.err + captured.out
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) >= 3
    for path in files:
        assert b"SECRET" not in path.read_bytes(), path
        assert path.stat().st_mode & 0o077 == 0 or path.name == ".gitignore", path
    assert folder.stat().st_mode & 0o077 == 0


def test_log_stays_one_line_whatever_a_client_says(capsys):
    async def work():
        async with line(reply(answer_of("responses")), quiet=False, window_tokens=16_000) as on:
            settings = on.proxy.settings
            on.proxy.watch.listeners.append(lambda thread, turn: log(settings, thread, turn))
            odd = "a\nforged: line\r\x1b[2J\u2028\ud800"
            got = await on.post("responses", agent_request("responses", 20, model=odd, prompt_cache_key=odd))
            assert got.status == 200

    run(work())
    logged = capsys.readouterr().err
    assert len(logged.splitlines()) == 1
    assert "\x1b" not in logged


def test_log_that_nobody_reads_stops_nothing(monkeypatch):
    class Broken:
        def write(self, text):
            raise BrokenPipeError

        flush = close = write

    async def work():
        async with line(reply(answer_of("chat")), quiet=False, window_tokens=16_000) as on:
            settings = on.proxy.settings
            on.proxy.watch.listeners.append(lambda thread, turn: log(settings, thread, turn))
            monkeypatch.setattr("sys.stderr", Broken())
            got = await on.post("chat", agent_request("chat", 20))
            assert (got.status, got.is_whole) == (200, True)
            got = await on.ask(post(PATHS["chat"], encoded({"model": "x"})))
            assert got.status == 200
            monkeypatch.undo()

    run(work())


@pytest.mark.parametrize("quiet", [False, True])
def test_what_is_no_http_is_one_line_of_the_log_and_none_where_a_command_has_the_terminal(quiet, capfd):
    async def work():
        async with line(reply(b"x"), quiet=quiet) as on:
            for second in ("Content-Length: 2\r\n", "Transfer-Encoding: chunked\r\n"):
                assert (await on.ask(get(more=f"Content-Length: 1\r\n{second}"))).status == 400
            assert (await on.ask(get())).status == 200

    run(work())
    logged = capfd.readouterr().err.splitlines()
    assert len(logged) == (0 if quiet else 2), logged
    assert all(each.startswith("packlight: ") and "BadHttpMessage" in each for each in logged)
