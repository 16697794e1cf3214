"""The recall tool of the proxy: real clients, a strict provider, and a model that asks for what was taken out."""

from __future__ import annotations

import contextlib
import json
import random
import re
import sqlite3
import urllib.request

import anthropic
import openai
import pytest

import checker
from checker import plain
from engine import MODELS, key_of
from loopback import Loopback
from packlight.proxy.money import usd_of
from packlight.store.files import DATABASE
from packlight.testing import Call, ModelServer, Refusal, Reply
from proxy_thread import ThreadedProxy
from sdk_agents import HEADS, agent, ask, client_of, drive, print_of_tool, read_reply, results_of
from talk import WIRES

WINDOW = 16_000
every_wire = pytest.mark.parametrize("wire", WIRES)
every_way = pytest.mark.parametrize("how", ["create", "stream"])
_NAMES = ("read", "bash")
TOOLS = {
    "anthropic": [{"name": n, "input_schema": {"type": "object"}} for n in _NAMES],
    "chat": [{"type": "function", "function": {"name": n, "parameters": {"type": "object"}}} for n in _NAMES],
    "responses": [{"type": "function", "name": n, "parameters": {"type": "object"}, "strict": False} for n in _NAMES],
}


PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}


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


def run(wire, how, urls, **head):
    """An agent whose n-th request goes to `urls(n)`; its replies."""
    seen, clients = [], {}

    def asked(request):
        url = urls(len(seen))
        client = clients.get(url) or clients.setdefault(url, client_of(wire, url))
        seen.append(ask(wire, client, how)(request))
        return seen[-1]

    try:
        drive(agent(wire, tools=TOOLS[wire], **head), asked)
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


def batches_in(folder):
    """How many batches of edits were recorded; what was recalled stands under owners of its own."""
    query = "SELECT c.owner FROM batches b JOIN conversations c ON c.id = b.conversation"
    with contextlib.closing(sqlite3.connect(folder / DATABASE)) as store:
        return sum(not owner.endswith(b"/recall") for (owner,) in store.execute(query))


def calls_in(body):
    """How many calls of the tool stand in the list of a request."""
    return "".join(items_of(body)).count('"name": "recall"')


def has_tool(body):
    return '"name": "recall"' in json.dumps(body.get("tools"))


def strict(script, **options):
    """A provider that refuses what breaks a rule of its API."""
    return ModelServer(script, judge=lambda wire, body: checker.check(body, wire), **options)


class Talk:
    """A client that is driven by hand."""

    def __init__(self, wire, how, url, items=None):
        self.wire, self.client = wire, client_of(wire, url)
        self.asked = ask(wire, self.client, how)
        self.items = items or [{"role": "user", "content": "Fix the parser."}]
        self.head = {"model": MODELS[wire], **HEADS[wire], "tools": TOOLS[wire]}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.client.close()

    def say(self, text=None):
        """One request; its reply and the calls in it, which are answered."""
        if text:
            self.items.append({"role": "user", "content": text})
        reply = self.asked({**self.head, key_of(self.wire): list(self.items)})
        said, calls = read_reply(self.wire, reply)
        self.items += [plain(item) for item in said]
        self.items += results_of(self.wire, [(id, f"result of {name}") for id, name, _ in calls]) if calls else []
        return plain(reply), calls


class Talks:
    """A user who goes on when the model has ended, each request through another proxy."""

    def __init__(self, wire, how, tool):
        self.wire, self.how, self.tool = wire, how, tool

    def go(self, url, count):
        items, replies = [{"role": "user", "content": "Fix the parser."}], []
        head = {"model": MODELS[self.wire], **HEADS[self.wire], "tools": TOOLS[self.wire]}
        for turn in range(count):
            with client_of(self.wire, url()) as client:
                replies.append(ask(self.wire, client, self.how)({**head, key_of(self.wire): list(items)}))
            said, calls = read_reply(self.wire, replies[-1])
            items += said
            results = [(id, self.tool(name, arguments, turn)) for id, name, arguments in calls]
            items += results_of(self.wire, results) if calls else [{"role": "user", "content": f"Go on, {turn}."}]
        return replies


def text_of(wire, reply):
    if wire == "anthropic":
        return "|".join(b["text"] for b in reply["content"] if b["type"] == "text")
    if wire == "chat":
        return reply["choices"][0]["message"]["content"]
    return "|".join(b["text"] for item in reply["output"] for b in item.get("content") or ())


def usage_of(reply):
    usage = reply["usage"]
    read = usage.get("prompt_tokens", usage.get("input_tokens")) + usage.get("cache_read_input_tokens", 0)
    return read, usage.get("completion_tokens", usage.get("output_tokens"))


ASKS = Call("recall", {"query": "parser.py"})
READS = Call("read", {"path": "src/parser.py"})


# --- long runs -------------------------------------------------------------------------------------------------------


@every_wire
@every_way
def test_agent_works_on_past_its_window_and_never_hears_of_recall(wire, how, tmp_path):
    with Curious(WINDOW, turns=70) as provider, proxied(provider, tmp_path) as proxy:
        seen = run(wire, how, lambda n: proxy.url)
    assert provider.refusals == []
    assert len(provider.requests) > len(seen) + 15
    assert all(map(has_tool, provider.requests))
    assert not any("recall" in json.dumps(plain(reply)) for reply in seen)
    assert max(map(calls_in, provider.requests)) >= 3
    found = [item for body in provider.requests for item in items_of(body) if "--- ref " in item]
    assert any("read src/module_" in item and ": value_" in item for item in found)
    assert 2 <= breaks(provider) <= min(9, batches_in(tmp_path))


@pytest.mark.parametrize("seed", range(2))
@every_wire
def test_whatever_the_model_asks_each_request_is_valid_and_begins_with_the_one_before(wire, seed, tmp_path):
    """But for batches."""
    chance = random.Random(f"{wire} {seed}")

    def script(number, body):
        many = chance.choices([ASKS, READS, Call("recall", {"query": f"ref {number:012x}", "page": 2})], k=3)
        calls = tuple(many[chance.randrange(4) :])
        text = chance.choice(["", " Let me see. ", "So.\n"])
        return Reply(text if calls else text or "Done.", calls, "hm")

    def tool(name, arguments, turn):
        return f"{name} of turn {turn}\n" * chance.randrange(1, 200)

    binding = checker.Binding()

    def judge(wire, body):
        return checker.check(body, wire) + (binding.send(body) if wire == "anthropic" else [])

    steps = Talks(wire, chance.choice(["create", "stream"]), tool)
    provider = ModelServer(script, judge=judge, window_tokens=9_000)
    with provider, proxied(provider, tmp_path) as a, proxied(provider, tmp_path) as b:
        replies = steps.go(lambda: chance.choice([a.url, b.url]), 30)
    assert provider.refusals == []
    assert not any("recall" in json.dumps(plain(reply)) for reply in replies)
    assert breaks(provider) <= batches_in(tmp_path)


@every_wire
def test_every_process_over_the_same_folder_puts_the_same_back(wire, tmp_path):
    with Curious(WINDOW, turns=40) as provider, proxied(provider, tmp_path) as a, proxied(provider, tmp_path) as b:
        run(wire, "stream", lambda n: (a.url, b.url)[n % 2])
    assert provider.refusals == [] and all(map(has_tool, provider.requests))
    assert max(map(calls_in, provider.requests)) >= 3
    assert 1 <= breaks(provider) <= 5


# --- one exchange ----------------------------------------------------------------------------------------------------


@every_wire
@every_way
def test_call_alone_is_answered_and_the_client_gets_one_reply(wire, how, tmp_path):
    script = [
        Reply("I look.", (ASKS,), "hm"),
        Reply("", (ASKS, ASKS), "hm"),
        Reply("Found it.", thinking="so"),
        Reply("Bye."),
    ]
    with strict(script) as provider, proxied(provider, tmp_path) as proxy, Talk(wire, how, proxy.url) as talk:
        reply, calls = talk.say()
        assert not calls and "recall" not in json.dumps(reply)
        assert text_of(wire, reply) == ("I look.\n\nFound it." if wire == "chat" else "I look.|Found it.")
        assert usage_of(reply) == (provider.tokens[0], 240)
        talk.say("Thanks.")
    assert provider.refusals == []
    first, second, third, fourth = map(items_of, provider.requests)
    assert second[: len(first)] == first and third[: len(second)] == second and fourth[: len(third)] == third
    assert calls_in(provider.requests[3]) == 3
    assert "Nothing was found for 'parser.py'" in second[-1]
    assert "Found it." in fourth[-2] and "Thanks." in fourth[-1]
    assert "I look." not in fourth[-2]


@every_wire
@every_way
def test_requests_in_between_stand_in_the_figures(wire, how, tmp_path):
    model = "claude-sonnet-5" if wire == "anthropic" else "gpt-5.6"
    script = [Reply("", (ASKS,)), Reply("", (ASKS,)), Reply("Done.")]
    with strict(script) as provider, proxied(provider, tmp_path) as proxy, Talk(wire, how, proxy.url) as talk:
        talk.head["model"] = model
        talk.say()
        watch = proxy.proxy.watch
    totals, [turn] = watch.totals, next(iter(watch.threads.values())).turns  # noted behind the end of the stream
    assert len(provider.tokens) == 3
    assert (totals.requests, totals.recalls, turn.recalls) == (1, 2, 2)
    assert (totals.input_tokens, totals.output_tokens) == (sum(provider.tokens), 240)
    assert totals.cached_tokens == sum(provider.cached_tokens)
    usage = {"input_tokens": totals.input_tokens, "output_tokens": 240}
    assert 0 < totals.usd <= usd_of(model, {**usage, "cache_read_input_tokens": 0}) and totals.unpriced == 0


@every_wire
@every_way
def test_call_beside_others_is_put_back_with_its_result(wire, how, tmp_path):
    script = [Reply("Both.", (READS, ASKS, READS), "hm"), Reply("Done.")]
    with strict(script) as provider, proxied(provider, tmp_path) as proxy, Talk(wire, how, proxy.url) as talk:
        reply, calls = talk.say()
        assert [name for _, name, _ in calls] == ["read", "read"] and "recall" not in json.dumps(reply)
        assert usage_of(reply) == (provider.tokens[0], 80)
        talk.say()
        talk.say("And now?")
    assert provider.refusals == []
    first, second, third = map(items_of, provider.requests)
    assert third[: len(second)] == second and second[: len(first)] == first
    text = "".join(second)
    assert calls_in(provider.requests[1]) == 1
    assert text.count("Nothing was found") == 1 and text.count("result of read") == 2


@every_wire
@every_way
def test_calls_that_the_proxy_answers_are_none_of_the_agents(wire, how, tmp_path):
    beside = [Reply("Both.", (READS, ASKS, READS), "hm"), Reply("", (ASKS,)), Reply("More.", (READS, ASKS))]
    script = [*beside, Reply("Done.")]
    with strict(script) as provider, proxied(provider, tmp_path) as proxy, Talk(wire, how, proxy.url) as talk:
        for _ in range(3):
            talk.say()
        watch = proxy.proxy.watch
    assert watch.totals.recalls == 3
    turns = next(iter(watch.threads.values())).turns
    assert [(turn.calls, turn.recalls) for turn in turns] == [(0, 1), (2, 2), (1, 0)]


@every_wire
@every_way
def test_alone_then_beside_others(wire, how, tmp_path):
    script = [Reply("", (ASKS,), "hm"), Reply("Both.", (ASKS, READS), "so"), Reply("Done.")]
    with strict(script) as provider, proxied(provider, tmp_path) as proxy, Talk(wire, how, proxy.url) as talk:
        assert len(talk.say()[1]) == 1
        talk.say()
    assert provider.refusals == [] and calls_in(provider.requests[2]) == 2
    assert items_of(provider.requests[2])[: len(items_of(provider.requests[1]))] == items_of(provider.requests[1])


@every_way
def test_thinking_goes_back_behind_what_it_was_thought_of(how, tmp_path):
    binding = checker.Binding()
    script = [Reply("", (ASKS,), "one"), Reply("Found.", (), "two"), Reply("Bye.", (), "three"), Reply("End.")]
    judge = lambda wire, body: checker.check(body, wire) + binding.send(body)  # noqa: E731
    with (
        ModelServer(script, judge=judge) as provider,
        proxied(provider, tmp_path) as proxy,
        Talk("anthropic", how, proxy.url) as talk,
    ):
        reply, _ = talk.say()
        assert [b["type"] for b in reply["content"]] == ["thinking", "thinking", "text"]
        talk.say("On.")
        talk.say("On.")
    assert provider.refusals == []
    roles = [m["role"] for m in provider.requests[-1]["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user", "assistant", "user"]


@every_wire
@every_way
def test_a_model_that_never_stops_asking_is_told_that_it_is_enough(wire, how, tmp_path):
    script = [Reply("", (ASKS,))] * 30
    with strict(script) as provider, proxied(provider, tmp_path) as proxy, Talk(wire, how, proxy.url) as talk:
        reply, calls = talk.say()
    assert not calls and len(provider.requests) == 11
    assert "which is enough" in items_of(provider.requests[-1])[-1]
    assert "which is enough" not in items_of(provider.requests[8])[-1]
    assert "recall" not in json.dumps(reply)
    if wire != "responses":
        assert (reply.get("stop_reason") or reply["choices"][0]["finish_reason"]) in ("end_turn", "stop")


# --- which conversations ---------------------------------------------------------------------------------------------


@every_wire
def test_conversation_under_way_never_gets_the_tool(wire, tmp_path):
    with strict([]) as provider, proxied(provider, tmp_path, recall_tool=False) as without:
        with Talk(wire, "create", without.url) as talk:
            talk.say()
        with proxied(provider, tmp_path) as proxy, Talk(wire, "create", proxy.url, talk.items) as later:
            later.say("On.")
            later.say("On.")
    assert not any(map(has_tool, provider.requests)) and provider.refusals == []


@every_wire
def test_request_without_tools_or_with_a_tool_of_that_name_stays_as_it_is(wire, tmp_path):
    own = json.loads(json.dumps(TOOLS[wire]).replace('"bash"', '"recall"'))
    script = lambda number, body: Reply("", (ASKS,)) if body.get("tools") else Reply("A title.")  # noqa: E731
    with strict(script) as provider, proxied(provider, tmp_path) as proxy:
        for tools in ([], own):
            with Talk(wire, "create", proxy.url) as talk:
                talk.head = (
                    {**talk.head, "tools": tools} if tools else {k: v for k, v in talk.head.items() if k != "tools"}
                )
                _, calls = talk.say()
                assert [name for _, name, _ in calls] == (["recall"] if tools else [])
    assert [body.get("tools") for body in provider.requests] == [None, own]


def test_responses_that_the_provider_keeps_get_no_tool(tmp_path):
    with strict([]) as provider, proxied(provider, tmp_path) as proxy, Talk("responses", "create", proxy.url) as talk:
        del talk.head["store"]
        talk.say()
    assert not has_tool(provider.requests[0])


# --- tools that stand in the list ------------------------------------------------------------------------------------

BOX = {
    "type": "additional_tools",
    "id": "at_1",
    "role": "developer",
    "tools": [
        {
            "type": "namespace",
            "name": "functions",
            "description": "",
            "tools": [{"type": "custom", "name": "exec", "description": "Runs code.", "format": {"type": "text"}}],
        },
        {"type": "namespace", "name": "clock", "description": "Time.", "tools": TOOLS["responses"]},
    ],
}
"""As Codex 0.171 sends them with its default model."""


@every_way
def test_tools_in_the_list_get_it_beside_them(how, tmp_path):
    items = [BOX, {"role": "user", "content": "Fix the parser."}]
    head = {"model": MODELS["responses"], **HEADS["responses"]}
    seen = []
    with (
        Curious(WINDOW, turns=40) as provider,
        proxied(provider, tmp_path) as proxy,
        client_of("responses", proxy.url) as client,
    ):
        calls = [None]
        while calls:
            seen.append(ask("responses", client, how)({**head, "input": list(items)}))
            said, calls = read_reply("responses", seen[-1])
            results = [(id, print_of_tool(name, arguments, len(seen))) for id, name, arguments in calls]
            items += [*said, *results_of("responses", results)]
    boxes = [body["input"][0]["tools"] for body in provider.requests]
    assert provider.refusals == [] and len(provider.requests) > len(seen) + 5
    assert all(box[:-1] == BOX["tools"] and box[-1]["name"] == "recall" for box in boxes)
    assert not any("tools" in body for body in provider.requests)
    assert not any("recall" in json.dumps(plain(reply)) for reply in seen)
    assert any("--- ref " in item for item in items_of(provider.requests[-1]))
    assert breaks(provider) <= batches_in(tmp_path)


def test_tools_in_the_list_stay_as_they_are_where_one_has_that_name(tmp_path):
    own = json.loads(json.dumps(BOX).replace('"bash"', '"recall"'))
    items = [own, {"role": "user", "content": "Go."}]
    with (
        strict([]) as provider,
        proxied(provider, tmp_path) as proxy,
        Talk("responses", "create", proxy.url, items) as talk,
    ):
        del talk.head["tools"]
        talk.say()
    assert provider.requests[0]["input"][0] == own


# --- clients that change what they got -------------------------------------------------------------------------------


def _respelled(wire, items):
    """Blanks cut off, ids of items and reasoning left out, as agents do."""
    out = []
    for item in items:
        if item.get("type") == "reasoning":
            continue
        item = {k: v for k, v in item.items() if not (wire == "responses" and k in ("id", "status"))}
        if isinstance(item.get("content"), list) and item.get("role") == "assistant":
            item["content"] = [
                {**b, "text": b["text"].strip()} if "text" in b else b
                for b in item["content"]
                if b["type"] != "thinking"
            ]
        elif isinstance(item.get("content"), str):
            item["content"] = item["content"].strip()
        out.append(item)
    return out


@every_wire
def test_exchange_is_put_back_though_the_client_spells_its_reply_anew(wire, tmp_path):
    script = [Reply("I look. ", (ASKS,), "hm"), Reply(" Found it.\n", (), "so"), Reply("Bye.")]
    with strict(script) as provider, proxied(provider, tmp_path) as proxy, Talk(wire, "create", proxy.url) as talk:
        talk.say()
        talk.items = _respelled(wire, talk.items)
        talk.say("On.")
    assert provider.refusals == []
    second, third = map(items_of, provider.requests[1:])
    assert third[: len(second)] == second


@every_wire
def test_reply_that_is_another_one_is_left_as_the_client_has_it(wire, tmp_path):
    script = [Reply("", (ASKS,)), Reply("Found it."), Reply("Bye.")]
    with strict(script) as provider, proxied(provider, tmp_path) as proxy, Talk(wire, "create", proxy.url) as talk:
        talk.say()
        talk.items = json.loads(json.dumps(talk.items).replace("Found it.", "Something else."))
        talk.say("On.")
    assert provider.refusals == [] and calls_in(provider.requests[-1]) == 0
    assert "Something else." in "".join(items_of(provider.requests[-1]))


# --- when it goes wrong ----------------------------------------------------------------------------------------------


@every_wire
@every_way
def test_answer_too_large_to_be_sent_is_replaced_by_a_line(wire, how, tmp_path):
    words = "prompt is too long: 30000 tokens > 20000 maximum"

    def script(number, body):
        last = items_of(body)[-1]
        if number == 1:
            return Reply("I look.", (ASKS,))
        return Reply("Good.") if "too large" in last else Refusal(message=words, code="context_length_exceeded")

    with strict(script) as provider, proxied(provider, tmp_path) as proxy, Talk(wire, how, proxy.url) as talk:
        reply, _ = talk.say()
    assert text_of(wire, reply).endswith("Good.")


@every_wire
@every_way
def test_failure_behind_a_call_reaches_the_client(wire, how, tmp_path):
    script = [Reply("I look.", (ASKS,)), Refusal(status=429, message="slow down", code="rate_limit")]
    errors = (anthropic.APIStatusError, openai.APIError)
    with strict(script) as provider, proxied(provider, tmp_path) as proxy, Talk(wire, how, proxy.url) as talk:
        if (wire, how) == ("responses", "stream"):
            with talk.client.responses.create(**talk.head, input=talk.items, stream=True) as events:
                last = [plain(event) for event in events][-1]
            assert last["type"] == "error" and last["message"] == "slow down"
            return
        with pytest.raises(errors, match="slow down"):
            talk.say()


@every_wire
def test_stream_without_a_call_comes_byte_for_byte(wire, tmp_path):
    body = {"model": MODELS[wire], **HEADS[wire], "tools": TOOLS[wire], "stream": True}
    data = json.dumps({**body, key_of(wire): [{"role": "user", "content": "Go."}]}).encode()

    def read(url):
        request = urllib.request.Request(url + PATHS[wire], data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.read()

    script = lambda number, body: Reply("Hi.", (READS, READS), "hm")  # noqa: E731
    with strict(script) as bare, strict(script) as other, proxied(other, tmp_path) as proxy:
        direct, through = read(bare.url), read(proxy.url)
    assert has_tool(other.requests[0])
    counted = re.compile(rb'"(?:input_tokens|prompt_tokens|total_tokens)": \d+')  # the tool is counted too
    assert counted.sub(b"", through) == counted.sub(b"", direct)


def test_tokens_are_counted_of_what_would_be_sent(tmp_path):
    script = [Reply("I look.", (ASKS,)), Reply("Found it.")]
    with (
        strict(script) as provider,
        proxied(provider, tmp_path) as proxy,
        Talk("anthropic", "create", proxy.url) as talk,
    ):
        talk.say()
        talk.items.append({"role": "user", "content": "On."})
        about = {"model": talk.head["model"], "tools": TOOLS["anthropic"], "messages": talk.items}
        counted = talk.client.messages.count_tokens(**about).input_tokens
        bare = provider.count(about)
        talk.say()
    sent = provider.requests[-1]
    assert counted == provider.count({key: sent[key] for key in about}) > bare


@every_wire
def test_conversation_that_cannot_be_written_down_goes_on(wire, tmp_path):
    """The tool is not given where it could not be remembered."""
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "x"
    with strict([]) as provider, proxied(provider, folder) as proxy, Talk(wire, "create", proxy.url) as talk:
        talk.say()
        talk.say("On.")
    assert provider.refusals == [] and len(provider.requests) == 2
    assert not any(map(has_tool, provider.requests))
