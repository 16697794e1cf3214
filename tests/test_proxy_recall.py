"""The recall tool of the proxy: real clients, a strict provider, and a model that asks for what was taken out."""

from __future__ import annotations

import json
import re

import pytest

from checker import plain
from loopback import Loopback
from packlight.testing import Call, Reply
from proxy_thread import ThreadedProxy
from sdk_agents import agent, ask, client_of, drive
from talk import WIRES

WINDOW = 20_000
every_wire = pytest.mark.parametrize("wire", WIRES)
every_way = pytest.mark.parametrize("how", ["create", "stream"])
_NAMES = ("read", "bash")
TOOLS = {
    "anthropic": [{"name": n, "input_schema": {"type": "object"}} for n in _NAMES],
    "chat": [{"type": "function", "function": {"name": n, "parameters": {"type": "object"}}} for n in _NAMES],
    "responses": [{"type": "function", "name": n, "parameters": {"type": "object"}, "strict": False} for n in _NAMES],
}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


class Curious(Loopback):
    """A model that now and then asks for something again: alone, twice in a row, or beside another call."""

    def _say(self, turn, body):
        said = super()._say(turn, body)
        calls = _asking(turn, body)
        if not calls or turn > self.turns:
            return said
        beside = said.calls if turn % 7 == 0 else ()
        return Reply(f"Let me see, {turn}." if turn % 2 else "", calls=(*calls, *beside), thinking=said.thinking)


def _asking(turn, body):
    if turn % 7 and turn % 5 and turn % 5 != 1:
        return ()
    found = re.findall(r"ref ([0-9a-f]{12})", json.dumps(body[key_of_body(body)]))
    query = found[turn % len(found)] if found else f"module_{turn % 9}.py"
    return (Call("recall", {"query": query}),) * (2 if turn % 3 == 0 else 1)


def key_of_body(body):
    return "messages" if "messages" in body else "input"


def proxied(provider, folder, **options):
    options = {"recall_tool": True, "window_tokens": provider.window_tokens, **options}
    return ThreadedProxy(upstream=provider.url, journal=folder, **options)


def run(wire, how, provider, urls, steps=None):
    """An agent through one proxy after the other; what the client was told, as JSON."""
    seen = []
    steps = steps or agent(wire, tools=TOOLS[wire])
    clients = {}

    def asked(request):
        url = urls(len(seen))
        client = clients.get(url) or clients.setdefault(url, client_of(wire, url))
        reply = ask(wire, client, how)(request)
        seen.append((len(provider.tokens), reply))
        return reply

    try:
        drive(steps, asked)
    finally:
        for client in clients.values():
            client.close()
    return seen


def items_of(body):
    return [json.dumps(plain(item), sort_keys=True) for item in body[key_of_body(body)]]


def breaks(provider):
    """How often a request did not begin with the one before."""
    lists = [items_of(body) for body in provider.requests]
    return sum(b[: len(a)] != a for a, b in zip(lists, lists[1:], strict=False))


def recalls_in(body):
    """The texts that answered calls of the tool, as the provider saw them."""
    text = json.dumps(body)
    return text.count('"name": "recall"') - 1


# --- long runs -------------------------------------------------------------------------------------------------------


@every_wire
@every_way
def test_agent_works_on_past_its_window_and_never_hears_of_recall(wire, how, tmp_path):
    with Curious(WINDOW, turns=80) as provider, proxied(provider, tmp_path) as proxy:
        seen = run(wire, how, provider, lambda n: proxy.url)
    assert provider.refusals == []
    assert len(provider.requests) > len(seen) + 10
    assert all("recall" in json.dumps(body["tools"]) for body in provider.requests)
    assert not any("recall" in json.dumps(plain(reply)) for _, reply in seen)
    assert max(map(recalls_in, provider.requests)) >= 3
    assert 1 <= breaks(provider) <= 10
