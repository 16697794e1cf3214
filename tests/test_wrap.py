"""`packlight.wrap` around the real SDKs, against a provider that enforces a window and all rules of its API."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from pathlib import Path

import anthropic
import openai
import pytest

from engine import MODELS, frozen, key_of, packlight
from loopback import BOUND, Loopback
from packlight.testing import Refusal
from sdk_agents import HEADS, ROOM, TASK, agent, ask, async_ask, async_drive, client_of, create, drive
from talk import WIRES, begins_with, opening, talk, thinking, unmarked

WINDOW = 24_000
every_wire = pytest.mark.parametrize("wire", WIRES)
every_way = pytest.mark.parametrize("how", ["create", "stream"])
sync_and_async = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def provider():
    with Loopback(WINDOW) as running:
        yield running


def run(wire, provider, how="create", is_async=False, head=None, **options):
    """One agent through a wrapped client; the number of its turns, and the client."""
    client = packlight.wrap(client_of(wire, provider.url, is_async=is_async), **options)
    steps = agent(wire, **(head or {}))
    if not is_async:
        with client:
            return drive(steps, ask(wire, client, how)), client

    async def running():
        async with client:
            return await async_drive(steps, async_ask(wire, client, how))

    return asyncio.run(running()), client


def request(wire, count=60, **more):
    return {"model": MODELS[wire], **HEADS[wire], **more, key_of(wire): talk(wire, count)}


def sizes(provider):
    return [len(json.dumps(body)) for body in provider.requests]


# --- every call fits -------------------------------------------------------------------------------------------------


@every_wire
@every_way
@sync_and_async
def test_run_never_fails(provider, wire, how, is_async):
    turns, client = run(wire, provider, how, is_async, window_tokens=WINDOW)
    assert provider.refusals == [] and turns == 60 == len(provider.requests) - 1
    assert "ORCHID-7731" in json.dumps(provider.requests[-1])
    assert client.packlight.report.edits and client.packlight.report.error is None


@pytest.mark.parametrize(("wire", "how"), [("anthropic", "beta"), *((wire, "raw") for wire in WIRES)])
def test_other_ways_to_ask_fit_too(wire, how):
    with Loopback(12_000, turns=25) as provider:
        turns, client = run(wire, provider, how, window_tokens=12_000)
    assert provider.refusals == [] and turns == 25
    assert client.packlight.report.edits


@every_wire
def test_fit_gives_the_same_request(wire, provider):
    """What `wrap` sends is what `Compactor.fit` returns."""
    body = request(wire)
    with packlight.wrap(client_of(wire, provider.url), window_tokens=WINDOW) as client:
        create(wire, client)(**body)
    expected = packlight.Compactor(window_tokens=WINDOW).fit(body, format=wire).request
    assert frozen(provider.requests[0]) == frozen(expected)


@every_wire
def test_request_that_fits_goes_as_it_is(wire, provider):
    body = request(wire, 3)
    for client in (client_of(wire, provider.url), packlight.wrap(client_of(wire, provider.url), window_tokens=WINDOW)):
        with client:
            create(wire, client)(**body)
    bare, wrapped = provider.requests
    assert json.dumps(wrapped) == json.dumps(bare)


@every_wire
@sync_and_async
def test_any_iterable_is_taken(wire, provider, is_async):
    body = request(wire)
    body[key_of(wire)] = iter(body[key_of(wire)])
    client = packlight.wrap(client_of(wire, provider.url, is_async=is_async), window_tokens=WINDOW)
    reply = create(wire, client)(**body)
    if is_async:
        reply = asyncio.run(_awaited(client, reply))
    else:
        client.close()
    assert provider.refusals == [] and reply.usage and client.packlight.report.outcome == "compacted"


async def _awaited(client, reply):
    async with client:
        return await reply


def test_parse_fits_too(provider):
    with packlight.wrap(client_of("chat", provider.url), window_tokens=WINDOW) as client:
        client.chat.completions.parse(**request("chat"))
    with packlight.wrap(client_of("anthropic", provider.url), window_tokens=WINDOW) as client:
        if hasattr(client.messages, "parse"):  # not in older versions
            client.messages.parse(**request("anthropic"))
    assert provider.refusals == [] and provider.requests


# --- an overflow is rescued ------------------------------------------------------------------------------------------

UNKNOWN = {"anthropic": {}, "chat": {"model": "nobody-knows"}, "responses": {"model": "nobody-knows"}}
"""Heads of which no window of 24,000 tokens is known. (Claude's name stays: thinking is bound by its name.)"""


@every_wire
@sync_and_async
@pytest.mark.parametrize(("how", "refuse_in_stream"), [("create", False), ("stream", False), ("stream", True)])
def test_overflow_is_rescued(wire, is_async, how, refuse_in_stream):
    with Loopback(WINDOW, turns=30, refuse_in_stream=refuse_in_stream) as provider:
        turns, _ = run(wire, provider, how, is_async, head=UNKNOWN[wire])
    assert turns == 30
    assert len(provider.refusals) == 1, "the window was learned"
    assert len(provider.requests) == 32


@every_wire
@sync_and_async
def test_stream_of_create_is_rescued(wire, is_async):
    """Also where the caller iterates over the events."""
    body = {**request(wire), **UNKNOWN[wire], "stream": True}
    with Loopback(WINDOW, refuse_in_stream=True) as provider:
        client = packlight.wrap(client_of(wire, provider.url, is_async=is_async))
        kinds = asyncio.run(_async_kinds(wire, client, body)) if is_async else _kinds(wire, client, body)
    assert len(provider.refusals) == 1 and len(provider.requests) == 2
    assert len(kinds) >= 3 and "error" not in kinds
    assert len({*kinds} & {"message_start", "response.created"}) == (wire != "chat")


def _kinds(wire, client, body):
    with client:
        return [getattr(event, "type", "chunk") for event in create(wire, client)(**body)]


async def _async_kinds(wire, client, body):
    async with client:
        return [getattr(event, "type", "chunk") async for event in await create(wire, client)(**body)]


@every_wire
def test_hopeless_request_raises_with_figures(wire):
    with (
        Loopback(2_000) as provider,
        packlight.wrap(client_of(wire, provider.url), window_tokens=2_000) as client,
        pytest.raises(packlight.ContextWindowExceeded) as raised,
    ):
        create(wire, client)(**request(wire, system="Careful. " * 2_000) if wire == "anthropic" else hopeless(wire))
    assert raised.value.limit_tokens == 2_000
    assert raised.value.needed_tokens > 2_000
    assert raised.value.__cause__.status_code == 400
    assert 1 <= len(provider.requests) <= 4
    assert all(now < was for was, now in itertools.pairwise(sizes(provider)))


def hopeless(wire):
    body = request(wire)
    if wire == "responses":
        return {**body, "instructions": "Careful. " * 2_000}
    return {**body, "tools": [{"type": "function", "function": {"name": "x", "description": "Careful. " * 2_000}}]}


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
def test_shorter_answer_is_asked_for(wire):
    """Input and answer together were too much: the history stays as it is."""
    body = request(wire, 10, **{ROOM[wire]: 20_000})
    with (
        Loopback(WINDOW, splits_room=True) as provider,
        packlight.wrap(client_of(wire, provider.url), window_tokens=500_000) as client,
    ):
        create(wire, client)(**body)
    first, second = provider.requests
    assert first["messages"] == second["messages"]
    assert first[ROOM[wire]] == 20_000 and 256 <= second[ROOM[wire]] < WINDOW - provider.count(body)
    assert body[ROOM[wire]] == 20_000


def test_error_comes_as_it_is_without_a_store(provider, tmp_path):
    """A store that can't be read: nothing can be recorded, so the provider's error is what the caller gets."""
    store = packlight.open_store(tmp_path / "s")
    packlight.Compactor(window_tokens=WINDOW, store=store).fit(request("chat"))
    store.close()
    (tmp_path / "s" / "store.db").write_bytes(b"rubbish" * 1_000)
    with (
        packlight.wrap(client_of("chat", provider.url), window_tokens=WINDOW, store=tmp_path / "s") as client,
        pytest.raises(openai.BadRequestError),
    ):
        client.chat.completions.create(**request("chat"))
    assert client.packlight.report.outcome == "failed"


# --- everything else is the SDK's own --------------------------------------------------------------------------------


@every_wire
@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500])
def test_other_errors_pass(wire, status, provider):
    provider.fault = lambda text: status
    raised = []
    for client in (client_of(wire, provider.url), packlight.wrap(client_of(wire, provider.url), window_tokens=WINDOW)):
        with client, pytest.raises((anthropic.APIStatusError, openai.APIStatusError)) as caught:
            create(wire, client)(**request(wire, 3))
        raised.append((type(caught.value), str(caught.value), caught.value.status_code))
    assert raised[0] == raised[1] and raised[0][2] == status
    assert len(provider.requests) == 2, "one each"


@every_wire
@sync_and_async
def test_stream_is_the_sdks_own(wire, provider, is_async):
    """Same type, same events, and usage only where the caller asked for it."""
    body = {**request(wire, 3), "stream": True}
    bare, wrapped = (client_of(wire, provider.url, is_async=is_async) for _ in range(2))
    found = [_events(wire, client, body, is_async) for client in (bare, packlight.wrap(wrapped, window_tokens=WINDOW))]
    (bare_type, bare_events), (own_type, own_events) = found
    assert own_type is bare_type and len(own_events) == len(bare_events) >= 3
    assert [type(e) for e in own_events] == [type(e) for e in bare_events]
    assert frozen(provider.requests[0]) == frozen(provider.requests[1])


def _events(wire, client, body, is_async):
    async def running():
        async with client:
            stream = await create(wire, client)(**body)
            return type(stream), [event async for event in stream]

    if is_async:
        return asyncio.run(running())
    with client:
        stream = create(wire, client)(**body)
        return type(stream), list(stream)


@every_wire
@sync_and_async
def test_other_errors_in_stream_come_when_read(wire, is_async):
    body = {**request(wire, 3), "stream": True}
    outcomes = []
    with Loopback(WINDOW, refuse_in_stream=True) as provider:
        provider.fault = lambda text: 400
        for wraps in (lambda client: client, packlight.wrap):
            client = wraps(client_of(wire, provider.url, is_async=is_async))
            outcomes.append(asyncio.run(_read_async(wire, client, body)) if is_async else _read(wire, client, body))
    assert outcomes[0] == outcomes[1]
    assert len(provider.requests) == 2


def _read(wire, client, body):
    got = []
    with client, create(wire, client)(**body) as stream:
        try:
            got.extend(type(event).__name__ for event in stream)
        except Exception as error:
            got += [type(error), str(error)]
    return got


async def _read_async(wire, client, body):
    got = []
    async with client, await create(wire, client)(**body) as stream:
        try:
            async for event in stream:
                got += [type(event).__name__]
        except Exception as error:
            got += [type(error), str(error)]
    return got


def test_other_calls_are_left_alone(provider):
    messages = talk("anthropic")
    with packlight.wrap(client_of("anthropic", provider.url), window_tokens=WINDOW) as client:
        counted = client.messages.count_tokens(model=MODELS["anthropic"], messages=messages)
        assert counted.input_tokens > WINDOW and client.packlight.report is None
    assert provider.paths == ["/v1/messages/count_tokens"]


@every_wire
def test_client_stays_what_it_is(wire, provider):
    original = client_of(wire, provider.url, timeout=7, default_headers={"x-team": "a"})
    early = create(wire, original)
    client = packlight.wrap(original, window_tokens=WINDOW)
    assert type(client) is type(original) and client.base_url == original.base_url and client.timeout == 7
    with pytest.raises((anthropic.BadRequestError, openai.BadRequestError)):
        early(**request(wire))
    assert not hasattr(original, "packlight")
    create(wire, client)(**request(wire))
    client.close()
    assert original.is_closed(), "the connections are the same"


@every_wire
@sync_and_async
def test_copies_are_wrapped_too(wire, provider, is_async):
    client = packlight.wrap(client_of(wire, provider.url, is_async=is_async), window_tokens=WINDOW)
    other = client.with_options(timeout=5).copy(max_retries=1)
    assert other.timeout == 5 and other.max_retries == 1 and other.packlight is client.packlight
    reply = create(wire, other)(**request(wire))
    if is_async:
        asyncio.run(_awaited(other, reply))
    other.close() if not is_async else None
    assert provider.refusals == [] and client.packlight.report.outcome == "compacted"


def test_azure_is_wrapped_too(provider):
    azure = openai.AzureOpenAI(azure_endpoint=provider.url, api_key="dummy", api_version="2026-01-01", max_retries=0)
    with packlight.wrap(azure, window_tokens=WINDOW) as client:
        client.chat.completions.create(**request("chat"))
    assert provider.refusals == [] and "/deployments/" in provider.paths[0]


def test_what_is_no_request_is_the_providers_to_tell(provider):
    with (
        packlight.wrap(client_of("chat", provider.url), window_tokens=WINDOW) as client,
        pytest.raises(openai.BadRequestError),
    ):
        provider.fault = lambda text: 400
        client.chat.completions.create(model="gpt-5.6", messages=["just text"])
    assert client.packlight.report is None


def test_file_in_a_message_is_the_sdks_to_read(provider, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG")
    source = {"type": "base64", "media_type": "image/png", "data": path}
    messages = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    with packlight.wrap(client_of("anthropic", provider.url), window_tokens=WINDOW) as client:
        client.messages.create(model="claude-opus-5-5", max_tokens=100, messages=messages)
    assert provider.requests[0]["messages"][0]["content"][0]["source"]["data"] == "iVBORw=="


def test_wrong_arguments_are_told():
    for wrong in (object(), "client", openai, None):
        with pytest.raises(TypeError, match="anthropic or openai"):
            packlight.wrap(wrong)
    with openai.OpenAI(api_key="dummy") as client:
        with pytest.raises(TypeError, match="wrapped already"):
            packlight.wrap(packlight.wrap(client))
        with pytest.raises(TypeError, match="not both: window_tokens"):
            packlight.wrap(client, packlight.Compactor(), window_tokens=1)


# --- usage -----------------------------------------------------------------------------------------------------------


@every_wire
@pytest.mark.parametrize(
    ("how", "is_async"), [("create", False), ("stream", False), ("raw", False), ("create", True), ("stream", True)]
)
def test_usage_is_recorded(wire, how, is_async):
    """A provider that counts three times what we do: the next call is measured by its count."""
    with Loopback(500_000, turns=2, chars_per_token=1.0) as provider:
        _, client = run(wire, provider, how, is_async)
    counted = provider.count(provider.requests[-1])
    assert client.packlight.report.tokens_before == pytest.approx(counted, rel=0.25)


def test_chat_stream_states_usage_only_when_asked(provider):
    with packlight.wrap(client_of("chat", provider.url), window_tokens=WINDOW) as client:
        for _ in client.chat.completions.create(**request("chat", 2), stream=True):
            pass
    assert "stream_options" not in provider.requests[0]


def test_history_that_the_provider_holds_is_not_counted(provider):
    """Its usage is that of a longer conversation than we saw."""
    with packlight.wrap(client_of("responses", provider.url)) as client:
        body = {"model": "gpt-5.6", "input": opening(), "max_output_tokens": 1_000}
        provider.chars_per_token = 0.01
        provider.window_tokens = 10**9
        client.responses.create(**body, previous_response_id="resp_1")
        client.responses.create(**body)
    assert client.packlight.report.tokens_before < 1_000


# --- conversations ---------------------------------------------------------------------------------------------------


@every_wire
def test_conversations_do_not_mix(wire):
    """Two agents, turn by turn through one client."""
    words = ["ORCHID-7731", "TULIP-1234"]
    with Loopback(12_000, turns=40) as provider:
        client = packlight.wrap(client_of(wire, provider.url), window_tokens=12_000)
        asked = ask(wire, client, "create")
        steps = [agent(wire, task=f"The code word is {word}.", tool=telling(word), turns=20) for word in words]
        waiting = [next(s) for s in steps]
        with client:
            for _, n in itertools.product(range(19), range(2)):
                waiting[n] = steps[n].send(asked(waiting[n]))
    assert provider.refusals == [] and client.packlight.report.edits
    for n, body in enumerate(provider.requests):
        text = json.dumps(body)
        assert words[n % 2] in text and words[1 - n % 2] not in text


def telling(word):
    return lambda name, arguments, turn: "\n".join(f"{word} line {n} of {turn}" for n in range(60))


def test_conversations_run_at_the_same_time():
    async def running(provider):
        async with packlight.wrap(client_of("chat", provider.url, is_async=True), window_tokens=12_000) as client:
            agents = [
                agent("chat", task=f"The code word is W{n}W.", tool=telling(f"W{n}W"), turns=15) for n in range(6)
            ]
            await asyncio.gather(*(async_drive(a, async_ask("chat", client, "create")) for a in agents))

    with Loopback(12_000, turns=1_000) as provider:
        asyncio.run(running(provider))
    assert provider.refusals == [] and len(provider.requests) == 90
    assert all(len(set(re.findall(r"W\dW", json.dumps(body)))) == 1 for body in provider.requests)


def test_conversation_may_be_named(provider):
    compactor = packlight.Compactor(window_tokens=WINDOW)
    with client_of("chat", provider.url) as client:
        one = packlight.wrap(client, compactor, conversation="ticket-12")
        one.chat.completions.create(**request("chat"))
    assert packlight.recall(compactor.store, "src/file_3.py", conversation="ticket-12")
    assert one.packlight.compactor is compactor


@every_wire
@sync_and_async
@pytest.mark.parametrize("in_stream", [False, True], ids=["status", "stream"])
def test_refused_edits_are_taken_back(wire, is_async, in_stream):
    """A provider that does not like what we write gets the request as it was, now and from then on."""
    body = {**request(wire), **({"stream": True} if in_stream else {})}

    async def twice(client):
        async with client:
            for _ in range(2):
                reply = await create(wire, client)(**body)
                assert not in_stream or len([event async for event in reply]) >= 3
                yield client.packlight.report

    with Loopback(500_000, turns=3, refuse_in_stream=in_stream) as provider:
        provider.fault = lambda text: None if "value_7_31 = " in text else 400
        client = packlight.wrap(client_of(wire, provider.url, is_async=is_async), window_tokens=WINDOW)
        if is_async:
            reports = asyncio.run(_listed(twice(client)))
        else:
            with client:
                reports = [list(create(wire, client)(**body)) and client.packlight.report for _ in range(2)]
    first, *others = provider.requests
    assert frozen(first[key_of(wire)]) != frozen(body[key_of(wire)])
    assert [frozen(other[key_of(wire)]) for other in others] == [frozen(body[key_of(wire)])] * 2
    assert reports[0].outcome == "failed" and "left alone" in reports[0].reason
    assert "some field is not what it should be" in str(reports[0].error.body)


@every_wire
def test_fault_in_a_stream_that_is_not_ours_comes_as_it_is(wire):
    """The edits were not to blame: events or error as the SDK gives them, and nothing is taken back."""
    body = {**request(wire), "stream": True}
    outcomes = []
    with Loopback(500_000, refuse_in_stream=True) as provider:
        provider.fault = lambda text: 400
        for options in (None, {"window_tokens": WINDOW}):
            client = client_of(wire, provider.url)
            wrapped = client if options is None else packlight.wrap(client, **options)
            outcomes.append(_read(wire, wrapped, body))
    assert outcomes[0] == outcomes[1] and len(provider.requests) == 3
    assert "left alone" not in wrapped.packlight.report.reason


SAYS_NOTHING = Refusal(400, "", "")


@every_wire
@sync_and_async
@pytest.mark.parametrize("in_stream", [False, True], ids=["status", "stream"])
def test_error_without_a_word_near_the_window_is_tried_smaller(wire, is_async, in_stream):
    """The user allows more than the window, as where it is not enforced; here it is, by an error without a word."""
    body = {**request(wire), **({"stream": True} if in_stream else {})}
    with Loopback(500_000, refuse_in_stream=in_stream) as provider:
        whole = len(json.dumps(body))
        provider.fault = lambda text: SAYS_NOTHING if len(text) > whole * 0.9 else None
        client = client_of(wire, provider.url, is_async=is_async)
        client = packlight.wrap(client, window_tokens=WINDOW, max_input_tokens=500_000)
        reply = create(wire, client)(**body)
        if is_async:
            asyncio.run(_awaited(client, reply))
        else:
            client.close()
    assert len(provider.requests) == 2 and client.packlight.report.outcome == "compacted"
    assert "without a word" in client.packlight.report.reason


@every_wire
@pytest.mark.parametrize(("window", "count"), [(WINDOW, 2), (120_000, 1), (None, 1)])
def test_error_without_a_word_comes_as_it_is(wire, window, count):
    """At once where the request is well within its window or none is known, after one try near it."""
    model = {"model": "unheard-of"} if window is None else {}
    with Loopback(500_000) as provider:
        provider.fault = lambda text: SAYS_NOTHING
        options = {"window_tokens": window, "max_input_tokens": 500_000}
        with (
            packlight.wrap(client_of(wire, provider.url), **options) as client,
            pytest.raises((anthropic.BadRequestError, openai.BadRequestError)),
        ):
            create(wire, client)(**{**request(wire), **model})
    assert len(provider.requests) == count


async def _listed(steps):
    return [step async for step in steps]


@every_wire
def test_fault_of_the_caller_is_told_after_new_edits(wire, provider):
    """The edits were not to blame: the error comes, and the conversation is not left alone."""
    provider.window_tokens, provider.fault = 500_000, lambda text: 400
    with packlight.wrap(client_of(wire, provider.url), window_tokens=WINDOW) as client:
        with pytest.raises((anthropic.BadRequestError, openai.BadRequestError)):
            create(wire, client)(**request(wire))
        provider.fault = lambda text: None
        create(wire, client)(**request(wire))
    edited, plain, again = map(frozen, provider.requests)
    assert edited == again != plain


@sync_and_async
def test_thinking_behind_a_changed_system_prompt_goes(is_async):
    """It is refused once, and sent without it from then on: the same bytes, and what is thought later stays."""
    first = {"model": MODELS["anthropic"], "max_tokens": 1_000, "messages": opening() + thinking(5)}
    changed = {**first, "system": "Be brief.", "messages": first["messages"] + thinking(1, start=20)}
    later = {**changed, "messages": changed["messages"] + thinking(2, start=30)}

    async def all_three(client):
        async with client:
            for body in (first, changed, later):
                yield await create("anthropic", client)(**body)

    with Loopback(500_000, turns=9) as provider:
        client = packlight.wrap(client_of("anthropic", provider.url, is_async=is_async), window_tokens=500_000)
        if is_async:
            asyncio.run(_listed(all_three(client)))
        else:
            with client:
                for body in (first, changed, later):
                    create("anthropic", client)(**body)
        assert client.packlight.report.outcome == "reapplied"
    as_given, refused, without, after = (unmarked(body["messages"]) for body in provider.requests)
    assert [BOUND in text for text in provider.refusals] == [True]
    assert [json.dumps(r).count("signature") for r in (as_given, refused, without, after)] == [5, 6, 0, 2]
    assert begins_with(after, without)


# --- the page --------------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parent.parent / "docs" / "wrap.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_page_does_what_it_says(block, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "dummy")
    monkeypatch.setenv("OPENAI_API_KEY", "dummy")
    with Loopback(1_000_000, turns=12) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url + "/v1")
        names = {"run": lambda name, arguments: f"{name} of {arguments}\n" * 50, "TASK": TASK, "tools": TOOLS}
        exec(block, names)
        if "client" in names and not asyncio.iscoroutinefunction(names["client"].post):
            names["client"].close()
    assert provider.refusals == []


TOOLS = [{"name": n, "description": n, "input_schema": {"type": "object"}} for n in ("read", "bash")]
