"""Summaries that the provider writes itself, through the real SDKs, where thinking is bound to what is before it."""

from __future__ import annotations

import asyncio
import itertools
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checker
from engine import frozen, key_of, packlight
from packlight.layers import ProviderHistory
from packlight.provider import BETA, ProviderCompaction, with_beta
from packlight.testing import Call, ModelServer, Refusal, Reply
from packlight.types import SummaryReply
from sdk_agents import HEADS, TASK, agent, ask, async_ask, async_drive, client_of, drive
from strategies import append_turns, history
from talk import begins_with, unmarked

WINDOW = 12_000
MODELS = {"anthropic": "claude-opus-5-5", "responses": "gpt-5.5"}
every_wire = pytest.mark.parametrize("wire", sorted(MODELS))


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def script(number, body):
    """Forty steps, each with thinking and a call."""
    if number > 40:
        return Reply("All done.", thinking="nothing is left")
    return Reply(f"step {number}", calls=(Call("read", {"path": f"src/f{number}.py"}),), thinking=f"thought {number}")


def provider(**options):
    judge = {"judge": lambda wire, body: checker.check(body, wire)}
    return ModelServer(script, **{"window_tokens": WINDOW, "binds_thinking": True, **judge, **options})


def run(wire, server, how="create", is_async=False, **options):
    """One agent through a wrapped client whose provider compacts: the client and its reports."""
    client = client_of(wire, server.url, is_async=is_async)
    client = packlight.wrap(client, writer="provider", window_tokens=WINDOW, **options)
    reports = []

    def noted(reply):
        reports.append(client.packlight.report)
        return reply

    steps = agent(wire, model=MODELS[wire])
    if is_async:

        async def asked(request):
            return noted(await async_ask(wire, client, how)(request))

        async def running():
            async with client:
                return await async_drive(steps, asked)

        assert asyncio.run(running()) == 40
    else:
        with client:
            assert drive(steps, lambda request: noted(ask(wire, client, how)(request))) == 40
    return client, reports


def swapped(reports):
    return [r for r in reports if "provider_history" in r.layers]


def first_block(body):
    content = body["messages"][0]["content"]
    return content[0] if isinstance(content, list) else {"type": "text"}


# --- the whole way ---------------------------------------------------------------------------------------------------


@every_wire
@pytest.mark.parametrize("how", ["create", "stream"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_an_agent_goes_on_behind_the_providers_own_summaries(wire, how, is_async):
    with provider() as server:
        _, reports = run(wire, server, how, is_async)
        assert server.refusals == []
        assert len(server.compactions) == len(swapped(reports)) >= 2
        assert all(r.error is None for r in reports)
        assert TASK in json.dumps(server.requests[-1])


def test_kept_turns_keep_their_thinking_behind_anthropics_summary():
    with provider() as server:
        _, reports = run("anthropic", server)
        after = [b for b in server.requests if first_block(b)["type"] == "compaction"]
        kept = [b["messages"][1] for b in after]
    assert all(m["role"] == "assistant" and m["content"][0]["type"] == "thinking" for m in kept)
    assert not [e for r in swapped(reports) for e in r.new_edits if e.layer == "laws"]


def test_a_model_that_binds_nothing_has_the_facts_right_behind_the_summary():
    with provider(binds_thinking=False) as server:
        client = packlight.wrap(client_of("anthropic", server.url), writer="provider", window_tokens=WINDOW)
        drive(agent("anthropic", model="claude-opus-4-6"), ask("anthropic", client, "create"))
        last = server.requests[-1]["messages"]
    assert last[0]["content"][0]["type"] == "compaction"
    assert TASK in json.dumps(last[1])


@every_wire
def test_between_two_compactions_requests_only_grow(wire):
    with provider() as server:
        run(wire, server)
        sent = [unmarked(body[key_of(wire)]) for body in server.requests]
        grown = [begins_with(now, before) for before, now in itertools.pairwise(sent)]
        assert grown.count(False) == len(server.compactions)


def test_the_beta_is_named_where_the_block_is_and_nowhere_else():
    with provider() as server:
        client = packlight.wrap(client_of("anthropic", server.url), writer="provider", window_tokens=WINDOW)
        steps = agent("anthropic", model=MODELS["anthropic"], betas=["context-1m-2025-08-07"])
        drive(steps, ask("anthropic", client, "beta"))
        named = [h.get("anthropic-beta", "") for p, h in zip(server.paths, server.headers, strict=True)]
        assert all("context-1m-2025-08-07" in n for n in named if n)
        assert named[0] == "context-1m-2025-08-07"
        assert named[-1] == f"context-1m-2025-08-07,{BETA}"


def test_the_betas_of_a_header_stay_in_their_place_and_in_number():
    assert with_beta({"Anthropic-Beta": f"a, {BETA}", "x": "y"}, ["b"]) == {"Anthropic-Beta": f"a,{BETA},b", "x": "y"}
    assert with_beta({}) == {"anthropic-beta": BETA}


@every_wire
def test_a_compactor_of_the_next_process_sends_the_same_bytes(wire, tmp_path):
    with provider() as server:
        client = client_of(wire, server.url)
        about = {"window_tokens": WINDOW, "store": tmp_path}
        request = long_request(wire)
        made = packlight.Compactor(writer=packlight.provider_writer(client), **about).fit(request)
        assert made.report.layers == ("provider_history",)
        again = packlight.Compactor(**about).fit(request)
    assert frozen(again.request) == frozen(made.request)
    assert again.report.outcome == "reapplied"
    assert frozen(packlight.restore(made.request, tmp_path)) == frozen(request)
    found = packlight.recall(tmp_path, "value_7", conversation=made.conversation)
    assert "value_7" in found[0].text


def long_request(wire, turns=16):
    """What an agent has after so many turns, never compacted."""
    steps = agent(wire, model=MODELS[wire])
    request = next(steps)
    with ModelServer(script, window_tokens=None, binds_thinking=True) as server:
        client = client_of(wire, server.url)
        for _ in range(turns):
            request = steps.send(ask(wire, client, "create")(request))
    steps.close()
    return checker.plain(request)


# --- what is asked ---------------------------------------------------------------------------------------------------


def test_what_only_shapes_a_reply_is_left_out_of_the_request():
    request = long_request("anthropic") | {
        "stop_sequences": ["END"],
        "tool_choice": {"type": "any"},
        "output_config": {"format": {"type": "json_schema"}, "effort": "high"},
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "stream": True,
        "metadata": {"user_id": "somebody"},
    }
    with provider() as server:
        fitted = packlight.Compactor(
            window_tokens=WINDOW, writer=packlight.provider_writer(client_of("anthropic", server.url))
        ).fit(request)
        asked = server.compactions[0]
    assert fitted.report.error is None
    assert set(asked) == {
        "model",
        "max_tokens",
        "system",
        "tools",
        "messages",
        "compaction",
        "output_config",
        "metadata",
    }
    assert asked["output_config"] == {"effort": "high"}
    assert asked["compaction"] == {"type": "summarize"}
    assert asked["system"] == request["system"]
    sent = len(asked["messages"])
    assert unmarked(asked["messages"]) == unmarked(request["messages"][:sent])
    assert [b for m in asked["messages"] for b in m["content"] if "cache_control" in b] == [
        asked["messages"][-1]["content"][-1]
    ]


def test_a_focus_takes_the_place_of_the_providers_prompt():
    with provider() as server:
        writer = packlight.provider_writer(client_of("anthropic", server.url), instructions="Name every ticket.")
        packlight.Compactor(window_tokens=WINDOW, writer=writer).fit(long_request("anthropic"), focus="the login bug")
        told = server.compactions[0]["compaction"]["instructions"]
    assert "the login bug" in told
    assert "Name every ticket." in told
    assert "Constraints from the user" in told


def test_headers_of_a_request_kept_as_arguments_of_the_sdk_go_along():
    with provider() as server:
        for wire in MODELS:
            writer = packlight.provider_writer(client_of(wire, server.url))
            given = long_request(wire) | {"extra_headers": {"x-team": "blue"}, "betas": ("context-1m-2025-08-07",)}
            assert packlight.Compactor(window_tokens=WINDOW, writer=writer).fit(given).report.error is None
        assert server.compactions and {h.get("x-team") for h in server.headers} == {"blue"}
        named = {h.get("anthropic-beta") for h in server.headers}
    assert named == {f"context-1m-2025-08-07,{BETA}", None}


def test_openai_gets_no_more_than_it_takes():
    request = long_request("responses") | {"tools": [{"type": "function", "name": "read"}], "prompt_cache_key": "k"}
    with provider() as server:
        writer = packlight.provider_writer(client_of("responses", server.url))
        c = packlight.Compactor(window_tokens=WINDOW, writer=writer).fit(request)
        asked = server.compactions[0]
    assert c.report.error is None
    assert set(asked) == {"model", "instructions", "input", "prompt_cache_key"}
    assert c.request["input"][0]["content"] == TASK


def test_what_developers_said_stays_before_openais_item():
    request = long_request("responses")
    rule = {"type": "message", "role": "developer", "content": "Answer in French."}
    request["input"].insert(0, rule)
    with provider() as server:
        writer = packlight.provider_writer(client_of("responses", server.url))
        c = packlight.Compactor(window_tokens=WINDOW, writer=writer).fit(request)
    assert c.report.layers == ("provider_history",)
    assert c.request["input"][0] == rule


# --- what goes wrong -------------------------------------------------------------------------------------------------

FAULTS = {
    "refused": lambda n, body: Refusal(message="compaction is not supported by this model"),
    "overloaded": lambda n, body: Refusal(529, "compaction_unavailable"),
    "nothing said": lambda n, body: Reply(""),
    "always cut short": lambda n, body: Reply("half a", is_cut=True),
    "always a call": lambda n, body: Reply("", calls=(Call("read", {}),)),
    "larger than it got": lambda n, body: Reply("word " * 60_000),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_without_a_summary_the_digest_stands_alone_and_the_report_says_so(fault):
    with provider(summarise=FAULTS[fault]) as server:
        _, reports = run("anthropic", server)
        assert [r for r in server.refusals if "compaction" not in r] == []
    batches = [r for r in reports if r.new_edits]
    assert batches
    assert swapped(reports) == []
    assert all(r.error is not None for r in batches)
    assert any("summary" in str(r.error) or "compaction" in str(r.error) for r in batches)


def test_one_more_try_with_more_room_or_a_plainer_word():
    def summarise(number, body):
        return [Reply("half", is_cut=True), Reply("The whole summary.")][number - 1]

    request = long_request("anthropic")
    with provider(summarise=summarise, window_tokens=40_000) as server:
        writer = packlight.provider_writer(client_of("anthropic", server.url))
        c = packlight.Compactor(window_tokens=20_000, writer=writer).fit(request, force=True)
        first, second = server.compactions
    assert c.report.error is None
    assert [call.error for call in c.report.summary_calls] == [None, None]
    assert second["max_tokens"] >= first["max_tokens"]
    assert "The whole summary." in json.dumps(c.request)

    with provider(
        summarise=lambda n, body: Reply("", calls=(Call("read", {}),)) if n == 1 else Reply("Told.")
    ) as server:
        writer = packlight.provider_writer(client_of("anthropic", server.url))
        c = packlight.Compactor(window_tokens=WINDOW, writer=writer).fit(request)
        assert "Call no tool" in server.compactions[1]["compaction"]["instructions"]
    assert c.report.error is None


def test_a_fault_later_on_puts_a_digest_in_place_of_the_block():
    def summarise(number, body):
        return Reply("The first summary.") if number == 1 else Refusal(529, "compaction_unavailable")

    with provider(summarise=summarise) as server:
        _, reports = run("anthropic", server)
        last = server.requests[-1]
        assert [r for r in server.refusals if "compaction" not in r] == []
    assert len(swapped(reports)) == 1
    assert "compaction" not in {b.get("type") for m in last["messages"] for b in m["content"] if isinstance(b, dict)}
    assert TASK in json.dumps(last)


def test_an_overflow_is_rescued_without_asking_the_provider():
    with provider() as server:
        client = client_of("anthropic", server.url)
        compactor = packlight.Compactor(window_tokens=WINDOW, writer=packlight.provider_writer(client))
        request = long_request("anthropic")
        c = compactor.fit(request)
        asked = len(server.compactions)
        used = c.report.tokens_after
        smaller = compactor.recover(c, Exception(f"prompt is too long: {used} tokens > {used * 4 // 5} maximum"))
        assert len(server.compactions) == asked
    assert smaller.report.tokens_after < c.report.tokens_after
    assert checker.check(smaller.request, "anthropic") == []


# --- when it is not asked --------------------------------------------------------------------------------------------


def told(request, wire="anthropic", **options):
    """Why the provider was not asked."""
    with provider() as server:
        writer = packlight.provider_writer(client_of(wire, server.url))
        about = {"window_tokens": WINDOW, "model": MODELS.get(wire), **options}
        c = packlight.Compactor(writer=writer, **about).fit(request)
        assert server.compactions == []
    assert c.report.new_edits
    return str(c.report.error)


def test_a_part_that_the_provider_holds_or_compacts_excludes_it():
    request = long_request("anthropic")
    threshold = {"context_management": {"edits": [{"type": "compact_20260112"}]}}
    assert "threshold" in told(request | threshold)
    assert "whole request" in told(request["messages"])
    assert "a part of the conversation" in told(
        long_request("responses") | {"previous_response_id": "resp_1"}, "responses"
    )
    chat = {"model": "gpt-5.5", "messages": [{"role": "user", "content": TASK}, *chat_turns(60)]}
    assert "'chat'" in told(chat, "responses")


def chat_turns(count):
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    for n in range(count):
        yield {"role": "assistant", "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": "c", "content": f"line {n} " * 200}


def test_what_must_stay_word_for_word_is_never_given_away():
    kept = long_request("anthropic")
    kept["messages"][0] = {"role": "user", "content": f"{TASK} <keep>f3.py</keep>"}
    assert "no place" in told(kept)
    settings_inside = long_request("anthropic")
    settings_inside["messages"].insert(
        1, {"role": "system", "content": [{"type": "text", "text": "Answer in French."}]}
    )
    assert "no place" in told(settings_inside)


def test_only_policies_that_edit_in_batches_take_it_and_only_clients_give_it():
    client = client_of("anthropic", "http://127.0.0.1:9")
    with pytest.raises(packlight.PacklightError, match="edits at each call"):
        packlight.Compactor(policy="nano", writer=packlight.provider_writer(client))
    with pytest.raises(TypeError, match="client"):
        packlight.provider_writer("anthropic:claude-opus-5-5")
    is_async = client_of("anthropic", "http://127.0.0.1:9", is_async=True)
    with pytest.raises(TypeError, match="afit"):
        packlight.Compactor("m", writer=packlight.provider_writer(is_async)).fit([{"role": "user", "content": "hi"}])


# --- any history -----------------------------------------------------------------------------------------------------


class Signed(ProviderCompaction):
    """A provider that needs no wire: it signs what it is asked to compact, and remembers it."""

    asked: list

    def __init__(self, wire):
        object.__setattr__(self, "wire", wire)
        object.__setattr__(self, "asked", [])

    format = property(lambda self: self.wire)
    is_async = False
    model = ""

    def ask(self, request):
        self.asked.append(request.body)
        if self.wire == "anthropic":
            block = {"type": "compaction", "content": f"Summary {len(self.asked)}.", "signature": "s" * 40}
            return SummaryReply(text="", items=({"role": "assistant", "content": [block]},), seconds=0.1)
        users = [i for i in request.body["input"] if i.get("role") == "user"]
        return SummaryReply(text="", items=(*users, {"type": "compaction", "encrypted_content": "gAAA"}), seconds=0.1)


@every_wire
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_history_stays_valid_restorable_and_stable(wire, data):
    talk = data.draw(history(wire))
    rng, writes_back = random.Random(data.draw(st.integers(0, 2**16))), data.draw(st.booleans())
    transport = Signed(wire)
    compactor = packlight.Compactor(
        MODELS[wire], writer=ProviderHistory(transport=transport), max_input_tokens=data.draw(st.integers(500, 6_000))
    )
    before = None
    for _ in range(3):
        request = {"model": MODELS[wire], **HEADS[wire], key_of(wire): talk.entries}
        c = compactor.fit(request, format=wire)
        assert checker.new_violations(request, c.request, wire) == []
        assert frozen(c.restore()) == frozen(request)
        for asked in transport.asked:
            new = checker.new_violations(request, asked, wire)
            assert [v for v in new if "ends_with_assistant" not in v and "no_user_message" not in v] == []
        if before is not None and not c.report.new_edits:
            assert begins_with(unmarked(c.messages), before)
        before = unmarked(c.messages)
        talk = append_turns(rng, talk.with_entries(c.messages) if writes_back else talk, 3)
