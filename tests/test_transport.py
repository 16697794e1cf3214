"""Who is asked for a summary: the official SDKs against a provider on loopback, functions of every kind, and afit."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace

import anthropic
import openai
import pytest

import checker
import talk
from engine import frozen, packlight, seen
from packlight.summary.frame import TITLES
from packlight.testing import ScriptedSummariser
from packlight.types import SummaryReply, SummaryRequest
from sdk_agents import agent, ask, async_ask, async_drive, client_of, drive
from summary_provider import SummaryLoopback
from talk import WINDOW

APIS = {"anthropic": "claude-haiku-5-5", "openai": "gpt-5.6"}
WIRE = {"anthropic": "anthropic", "openai": "chat"}
PROSE = TITLES["prose"]


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "dummy")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")


def compactor(writer, **options):
    return packlight.Compactor("claude-opus-5-5", window_tokens=WINDOW, writer=writer, **options)


def fitted(writer, how="fit", **options):
    request = talk.request("anthropic")
    made = compactor(writer, **options)
    c = made.fit(request) if how == "fit" else asyncio.run(made.afit(request))
    assert checker.check(c.request, "anthropic") == [] and c.fits
    return c


def named(api, provider, **options):
    """A writer named by a string, at the provider's address."""
    url = provider.url + ("/v1" if api == "openai" else "")
    return packlight.model_writer(f"{api}:{APIS[api]}", base_url=url, api_key="dummy", **options)


# --- the official SDKs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["fit", "afit"])
@pytest.mark.parametrize("api", APIS)
def test_string_names_a_model(api, how):
    with SummaryLoopback("good") as provider:
        c = fitted(named(api, provider), how)
    (body,) = provider.asked
    assert c.report.error is None and PROSE in seen(c)
    assert body["model"] == APIS[api] and "tools" not in body and not body.get("stream")
    (call,) = c.report.summary_calls
    assert call.model == APIS[api] and call.output_tokens == 700 and call.seconds > 0
    assert call.input_tokens == provider.count(body) + (5 if api == "anthropic" else 0)


@pytest.mark.parametrize("api", APIS)
def test_environment_names_the_server(api, monkeypatch):
    with SummaryLoopback("good") as provider:
        monkeypatch.setenv(f"{api.upper()}_BASE_URL", provider.url + ("/v1" if api == "openai" else ""))
        c = fitted(f"{api}:{APIS[api]}")
    assert c.report.error is None and len(provider.asked) == 1


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_clients_are_taken_as_they_are(api, is_async):
    with SummaryLoopback("good") as provider:
        client = client_of(WIRE[api], provider.url, is_async=is_async)

        async def twice():
            made = compactor(packlight.model_writer(client, model=APIS[api]))
            for n in range(2):
                messages = [{"role": "user", "content": f"Task {n}"}, *talk.turns("anthropic", 60)]
                c = await made.afit({"model": "claude-opus-5-5", "messages": messages})
                assert c.report.error is None and PROSE in seen(c)
            if is_async:
                await client.close()

        asyncio.run(twice())
        if not is_async:
            assert fitted(packlight.model_writer(client, model=APIS[api])).report.error is None
            client.close()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("tool_call", "it called a tool"),
        ("only_reasoning", "it was cut short"),
        ("cut_short", "it was cut short"),
        ("empty", "it was empty"),
        ("refusal", "it was a refusal"),
        ("rate_limit", "429"),
        ("raises", "500"),
    ],
)
def test_provider_faults_leave_the_digest(api, word, said):
    alone = fitted(None)
    with SummaryLoopback(word) as provider, client_of(WIRE[api], provider.url) as client:
        c = fitted(packlight.model_writer(client, model=APIS[api]))
    assert frozen(c.request) == frozen(alone.request)
    assert isinstance(c.report.error, packlight.SummaryError) and said in str(c.report.error)


@pytest.mark.parametrize("how", ["fit", "afit"])
@pytest.mark.parametrize("api", APIS)
def test_silent_server_times_out(api, how):
    with SummaryLoopback("good") as provider:
        provider.scripted.ask = lambda request: time.sleep(1) or SummaryReply(text="late")
        client = client_of(WIRE[api], provider.url, is_async=how == "afit")

        async def asked():
            writer = packlight.model_writer(client, model=APIS[api], timeout_seconds=0.1)
            c = await compactor(writer).afit(talk.request("anthropic"))
            await client.close()
            return c

        if how == "afit":
            c = asyncio.run(asked())
        else:
            with client:
                c = fitted(packlight.model_writer(client, model=APIS[api], timeout_seconds=0.1))
    assert "timed out" in str(c.report.error) and c.report.summary_calls[0].seconds < 0.9


@pytest.mark.parametrize("api", APIS)
def test_overflow_of_the_summariser_makes_smaller_parts(api):
    """Its window is not what we thought: the error names it, or does not."""
    with SummaryLoopback("good") as provider, client_of(WIRE[api], provider.url) as client:
        provider.summary_window_tokens = 14_000
        c = fitted(packlight.model_writer(client, model=APIS[api]))
    assert c.report.error is None and PROSE in seen(c)
    assert 1 <= len(provider.refusals) <= 6
    assert sum(call.error is not None for call in c.report.summary_calls) == len(provider.refusals)


def test_other_servers_get_max_tokens():
    """OpenAI's reasoning models refuse `max_tokens`; most servers that speak like it know nothing else."""
    with SummaryLoopback("good") as provider:
        fitted(named("openai", provider))
        assert provider.asked[0]["max_tokens"] > 1_000 and "max_completion_tokens" not in provider.asked[0]
    sent = {}
    client = openai.OpenAI(api_key="dummy")
    client.chat.completions.create = lambda **body: sent.update(body) or 1 / 0
    with client:
        fitted(packlight.model_writer(client, model="gpt-5.6"))
    assert sent["max_completion_tokens"] > 1_000 and "max_tokens" not in sent


def test_missing_sdk_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "anthropic", None)
    error = fitted("anthropic:claude-haiku-5-5").report.error
    assert "pip install 'packlight[anthropic]'" in str(error)


# --- a wrapped client that also writes its summaries -----------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_loop_runs_to_its_end_with_a_writer(api, is_async):
    wire = WIRE[api]
    with SummaryLoopback("good", window_tokens=24_000, turns=45) as provider:
        raw = client_of(wire, provider.url, is_async=is_async)
        writer = packlight.model_writer(raw, model="small-model")
        policy = replace(packlight.PRESETS["default"], when_due=(packlight.layers.CompactHistory(),))
        client = packlight.wrap(raw, window_tokens=24_000, writer=writer, policy=policy)
        if is_async:

            async def run():
                turns = await async_drive(agent(wire), async_ask(wire, client, "create"))
                await raw.close()
                return turns

            turns = asyncio.run(run())
        else:
            turns = drive(agent(wire), ask(wire, client, "create"))
            raw.close()
    assert turns == 45 and provider.refusals == []
    assert len(provider.asked) >= 2 and all(body["model"] == "small-model" for body in provider.asked)
    earlier = ["summary so far]" in str(body["messages"]) for body in provider.asked]
    assert earlier == sorted(earlier) and earlier[-1], "what one wrote, the next one brings up to date"


def test_sync_client_takes_no_async_writer():
    writer = packlight.model_writer(anthropic.AsyncAnthropic(api_key="dummy"), model="m")
    with anthropic.Anthropic(api_key="dummy") as client, pytest.raises(TypeError, match="can only be awaited"):
        packlight.wrap(client, writer=writer)


# --- functions -------------------------------------------------------------------------------------------------------

SUMMARY = "\n".join(
    f"## {title}\nSomething about it."
    for title in (
        "Current goal",
        "Findings and decisions",
        "Files read and changed",
        "Remaining work",
        "Constraints from the user",
    )
)


def of_prompt(prompt):
    assert "You write the working summary" in prompt and "record begins]" in prompt
    return SUMMARY


def of_request(request: SummaryRequest):
    assert "record begins]" in request.prompt and request.max_tokens > 1_000
    return SummaryReply(text=SUMMARY, input_tokens=7, output_tokens=3, model="mine")


async def async_of_prompt(prompt: str) -> str:
    await asyncio.sleep(0)
    return of_prompt(prompt)


class Callable:
    async def __call__(self, request: packlight.SummaryRequest) -> str:
        return of_request(request).text


@pytest.mark.parametrize("how", ["fit", "afit"])
@pytest.mark.parametrize("function", [of_prompt, of_request, lambda prompt: SUMMARY])
def test_sync_functions(function, how):
    c = fitted(function, how)
    assert c.report.error is None and "Something about it." in seen(c)
    call = c.report.summary_calls[0]
    assert call.seconds > 0 and (call.model, call.input_tokens) in (("mine", 7), ("", None))


@pytest.mark.parametrize("function", [async_of_prompt, Callable(), lambda prompt: async_of_prompt(prompt)])
def test_async_functions(function):
    c = fitted(function, "afit")
    assert c.report.error is None and "Something about it." in seen(c)


@pytest.mark.parametrize("function", [async_of_prompt, Callable()])
def test_async_function_in_fit_is_a_mistake(function):
    """Told at the first call, not when the window is full."""
    with pytest.raises(TypeError, match="use afit"):
        compactor(function).fit({"model": "claude-opus-5-5", "messages": talk.opening()})


def test_function_that_turns_out_to_be_async():
    c = fitted(lambda prompt: async_of_prompt(prompt))
    assert "use afit" in str(c.report.error)


@pytest.mark.parametrize("said", [17, b"bytes", ["text"]])
def test_function_must_give_text(said):
    assert "gives a text or a SummaryReply" in str(fitted(lambda prompt: said).report.error)


def test_slow_async_function_times_out():
    async def slow(prompt):
        await asyncio.sleep(30)

    c = fitted(packlight.model_writer(slow, timeout_seconds=0.05), "afit")
    assert isinstance(c.report.error.__cause__, TimeoutError)


@pytest.mark.parametrize(
    ("source", "options", "error"),
    [
        ("claude-haiku-5-5", {}, ValueError),
        ("mistral:large", {}, ValueError),
        ("anthropic:", {}, ValueError),
        ("openai: ", {}, ValueError),
        (42, {}, TypeError),
        (len, {"base_url": "http://x"}, TypeError),
    ],
)
def test_bad_writer_is_named(source, options, error):
    with pytest.raises(error):
        packlight.model_writer(source, **options)


def test_client_needs_a_model():
    with openai.OpenAI(api_key="dummy") as client, pytest.raises(TypeError, match="needs `model`"):
        packlight.Compactor(writer=client)


def test_generator_is_a_writer_as_before():
    def own(job):
        reply = yield SummaryRequest(system="s", prompt="p", max_tokens=9, transport=ScriptedSummariser("my words"))
        return packlight.Summary(text=f"[mine] {reply.text}", end=job.end)

    c = fitted(own)
    assert "[mine] my words" in seen(c) and len(c.report.summary_calls) == 1


def test_generator_without_a_transport_is_told():
    errors = []

    def own(job):
        reply = yield SummaryRequest(system="s", prompt="p", max_tokens=9)
        errors.append(reply.error)
        return packlight.Summary(text="[mine] without", end=job.end)

    fitted(own)
    assert isinstance(errors[0], packlight.SummaryError)


# --- while a summary is being written --------------------------------------------------------------------------------


class Gate:
    """A summariser that waits until it is let go."""

    def __init__(self):
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.count = 0

    async def __call__(self, prompt: str) -> str:
        self.count += 1
        self.asked.set()
        await self.go.wait()
        return SUMMARY


def test_what_arrives_meanwhile_is_kept():
    """One conversation, asked about again while a summary is written: the first commit wins, nothing is lost."""

    async def run():
        gate = Gate()
        made = compactor(packlight.model_writer(gate, window_tokens=200_000))
        first = asyncio.create_task(made.afit(talk.request("anthropic", 60)))
        await gate.asked.wait()
        gate.asked.clear()
        second = asyncio.create_task(made.afit(talk.request("anthropic", 62)))
        await gate.asked.wait()
        small = await made.afit({"model": "claude-opus-5-5", "messages": talk.opening("Another one.")})
        assert not small.changed
        gate.go.set()
        done = [await first, await second]
        later = await made.afit(talk.request("anthropic", 63))
        return [*done, later], gate.count

    (first, second, later), asked = asyncio.run(run())
    assert asked == 2
    for c, count in ((first, 60), (second, 62), (later, 63)):
        assert checker.check(c.request, "anthropic") == [] and c.fits and c.report.error is None
        assert f"src/file_{count - 1}.py:1: " in seen(c), "the newest turn is there"
        assert frozen(c.restore()) == frozen(talk.request("anthropic", count))
    assert talk.begins_with(talk.sent(later, "anthropic"), talk.sent(first, "anthropic")) or talk.begins_with(
        talk.sent(later, "anthropic"), talk.sent(second, "anthropic")
    )
    assert later.report.outcome == "reapplied"


def test_sync_function_leaves_the_loop_free():
    ticks = 0
    threads = set()

    def slow(prompt):
        threads.add(threading.get_ident())
        time.sleep(0.2)
        return SUMMARY

    async def run():
        nonlocal ticks
        made = asyncio.create_task(compactor(slow).afit(talk.request("anthropic")))
        while not made.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return await made

    assert asyncio.run(run()).report.error is None
    assert ticks >= 8 and threads.isdisjoint({threading.get_ident()})


def test_cancelled_fit_leaves_nothing_behind():
    async def run():
        gate = Gate()
        made = compactor(gate)
        waiting = asyncio.create_task(made.afit(talk.request("anthropic")))
        await gate.asked.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.go.set()
        return await made.afit(talk.request("anthropic"))

    c = asyncio.run(run())
    assert c.report.error is None and "Something about it." in seen(c)


def test_overflow_is_rescued_without_a_model():
    scripted = ScriptedSummariser("good")
    made = compactor(scripted)
    c = made.fit(talk.request("anthropic"))
    asked = len(scripted.requests)
    less = made.recover(c, ValueError(f"prompt is too long: {c.report.tokens_after + 50} tokens > 3500 maximum"))
    assert less.fits and len(scripted.requests) == asked and less.report.summary_calls == ()
