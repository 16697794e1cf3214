"""Policies are data: which layers run when, and when a batch is due."""

from __future__ import annotations

import functools
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import body, compactor, lawful, packlight
from layer_help import WIRES, Talk, prose, view_of
from packlight import PRESETS, Policy, Size
from packlight.layers import CompactHistory, MicroCompact, NanoHistory, ReactiveCompact
from packlight.policy import MOST_PAID_RATIO, classic, never, over_budget, preset, thrifty
from packlight.replay.cost import Prices, PromptCache, Units
from packlight.replay.readers import read_sessions
from packlight.replay.walk import walk
from packlight.replay.weights import Weights
from packlight.types import Summary

EXAMPLES = Path(__file__).parent.parent / "examples"

TABLE = {
    "default": ("ReadAgain ToolResultBudget", "", "MicroCompact CompactHistory", "ReactiveCompact", over_budget),
    "thrifty": ("ReadAgain ToolResultBudget", "", "CompactHistory", "ReactiveCompact", thrifty),
    "classic": (
        "",
        "ClassicToolResultBudget SnipCompact ClassicMicroCompact",
        "ClassicHistory",
        "ReactiveCompact",
        classic,
    ),
    "nano": ("", "NanoHistory", "", "ReactiveCompact", never),
    "none": ("", "", "", "", never),
}
"""The presets as the design gives them."""


def names(layers):
    return " ".join(type(layer).__name__ for layer in layers)


@pytest.mark.parametrize("name", TABLE)
def test_presets_are_the_designs_table(name):
    policy = PRESETS[name]
    lists = (policy.on_arrival, policy.each_call, policy.when_due, policy.on_overflow)
    assert (*map(names, lists), policy.due) == TABLE[name]
    assert policy.name == name and set(PRESETS) == set(TABLE)


def test_articles_numbers():
    budget, snip, micro = PRESETS["classic"].each_call
    assert (budget.max_message_chars, budget.min_result_chars, budget.preview_chars) == (200_000, 30_000, 2_000)
    assert (snip.max_messages, snip.keep_first, snip.keep_last) == (50, 3, 47)
    assert (micro.keep_results, micro.min_chars) == (3, 120)
    (history,) = PRESETS["nano"].each_call
    assert (history.max_messages, history.keep_last) == (20, 6)


def test_policies_are_data():
    """Comparable, readable, changed by `replace`, never in place."""
    policy = PRESETS["default"]
    assert policy == replace(policy) and policy != PRESETS["thrifty"]
    other = replace(policy, when_due=(MicroCompact(keep_recent_tokens=20_000), CompactHistory()))
    assert other != policy and other.when_due[0].keep_recent_tokens == 20_000
    assert "MicroCompact" in repr(policy)
    with pytest.raises(FrozenInstanceError):
        policy.name = "mine"
    with pytest.raises(TypeError):
        PRESETS["mine"] = policy


@pytest.mark.parametrize("bad", ["defualt", "", "Default", 7, None])
def test_unknown_policy_is_a_clear_error(bad):
    with pytest.raises(packlight.PacklightError, match=r"default, thrifty, classic, nano, none") as error:
        packlight.Compactor(policy=bad)
    assert repr(bad) in str(error.value)


def test_preset_gives_a_policy_itself():
    policy = Policy(name="mine", due=never)
    assert preset(policy) is policy and preset("nano") is PRESETS["nano"]


@pytest.mark.parametrize("name", ["default", "thrifty", "classic", "nano"])
def test_writer_goes_into_every_summary(name):
    def writer(job):
        yield from ()
        return Summary(text="MINE")

    changed = preset(name, writer)
    layers = [*changed.each_call, *changed.when_due]
    assert [x.writer for x in layers if hasattr(x, "writer")] == [writer]
    assert changed.on_overflow == PRESETS[name].on_overflow == (ReactiveCompact(),)  # never waits for a model
    assert preset(name) is PRESETS[name]


# ---- when a batch is due


def size(tokens=50_000, budget_tokens=170_000, **about):
    about = {"base_tokens": 30_000, "cache_read_ratio": 0.1, "cache_write_ratio": 1.25, "chars": 0} | about
    return Size(tokens=tokens, budget_tokens=budget_tokens, **about)


def test_over_budget():
    assert over_budget(size(170_000)) is None
    assert "170,001 tokens are over the budget of 170,000" in over_budget(size(170_001))
    assert over_budget(size(10**9, None)) is None  # a window that nobody knows is not guessed


def test_thrifty_when_the_cache_is_cold():
    assert thrifty(size(50_000)) is None
    assert "cold" in thrifty(size(50_000, cold=True))
    assert thrifty(size(33_000, cold=True)) is None  # too little would be freed
    assert "over the budget" in thrifty(size(180_000))


PAID_LONG = {"paid_tokens": 1e6, "unedited_paid_tokens": 1e6}
"""So much that no batch is dear beside it."""


def test_thrifty_rent_against_purchase():
    """Due once carrying the removable part has cost what writing the rest anew would cost."""
    purchase = 30_000 * (1.25 - 0.1)
    assert thrifty(size(carried_tokens=int(purchase / 0.1) - 1, **PAID_LONG)) is None
    assert "has cost more" in thrifty(size(carried_tokens=int(purchase / 0.1) + 1, **PAID_LONG))
    assert thrifty(size(carried_tokens=int(purchase / 0.1) + 1, cache_read_ratio=0.025, **PAID_LONG)) is None


def test_a_batch_for_the_rent_waits_until_it_is_cheap_beside_what_was_paid():
    paid = (30_000 * 1.25 - MOST_PAID_RATIO * 50_000 * 0.1) / (MOST_PAID_RATIO - 1)
    rented = {"carried_tokens": 10**7}
    assert thrifty(size(paid_tokens=paid * 0.99, unedited_paid_tokens=paid * 0.99, **rented)) is None
    assert thrifty(size(paid_tokens=paid * 1.01, unedited_paid_tokens=paid * 1.01, **rented))
    assert thrifty(size(paid_tokens=paid * 0.5, unedited_paid_tokens=paid, **rented))  # earlier ones have saved that


grown = st.lists(st.integers(1, 30_000), min_size=1, max_size=150)


@settings(deadline=None)
@given(grown, st.sampled_from([0.02, 0.1, 0.5]), st.integers(0, 60_000), st.integers(1_000, 60_000))
def test_a_session_that_ends_anywhere_cost_little_more_than_without_batches(steps, read, fixed, left):
    """Whatever grows, and whenever it ends: thrifty's batches never make it a tenth dearer."""
    tokens = without = sent = sent_without = fixed
    paid = unedited = carried = 0.0
    base = fixed + left
    for step in steps:
        tokens, without = tokens + step, without + step
        now = size(
            tokens,
            None,
            base_tokens=base,
            carried_tokens=int(carried),
            fixed_tokens=fixed,
            paid_tokens=paid,
            unedited_paid_tokens=unedited,
            cache_read_ratio=read,
        )
        unedited += now.price_of(without, sent_without)
        if thrifty(now):
            tokens, carried = base, 0.0
            paid += now.price_of(tokens, fixed)
        else:
            carried += max(0, tokens - base)
            paid += now.price_of(tokens, sent)
        sent, sent_without = tokens, without
        assert paid <= 1.1 * unedited


@pytest.mark.parametrize("name", ["claude-code-chinese-web", "claude-code-go-cli", "codex-typescript-release"])
@pytest.mark.parametrize("read", [0.1, 0.025])
def test_a_recorded_session_that_ends_anywhere_cost_little_more(name, read):
    """By the simulated prompt cache of a replay, which knows nothing of how a compactor counts."""
    (session,) = read_sessions(EXAMPLES / f"{name}.jsonl")
    weights = Weights(session)
    prices = Prices(input_usd=1.0, cache_read_usd=read, cache_write_usd=1.25)
    sheet = {"provider": "anthropic", "input_usd": 1.0, "cache_read_usd": read, "cache_write_usd": 1.25}
    models = dict.fromkeys({"made-up", session.model, *(t.model for s in session.segments for t in s.turns)}, sheet)
    made = packlight.Compactor("made-up", policy="thrifty", window_tokens=200_000, model_overrides=models)
    ours, without = PromptCache(prices), PromptCache(prices)
    units, paid, unedited, batches = Units(weights), 0.0, 0.0, 0
    for call in walk(session, made, weights):
        at = call.window, call.recorded.thinking
        paid += ours.charge(units(call.messages, *at), call.now_seconds).usd
        unedited += without.charge(units(call.source, *at), call.now_seconds).usd
        batches += call.is_batch
        assert paid <= 1.1 * unedited
    assert batches or read < 0.1


def conversation(rounds, chars=6_000):
    """A chat with a system prompt of its own, and files that were read in it."""
    messages = [{"role": "system", "content": prose("rules", 40)}, {"role": "user", "content": "Tidy up."}]
    for n in range(rounds):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": f'{{"path": "f{n}.py"}}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": prose(f"f{n}", 2_000)[:chars]})
    return messages


def test_a_preview_of_a_new_result_does_not_pay_the_rent():
    """What is shortened before it was ever sent rewrites no cache."""
    large = conversation(30, chars=90_000)
    made, carried = compactor("chat", policy="thrifty", max_input_tokens=60_000), []
    shortened = 0
    for end in range(2, len(large), 2):
        c = made.fit(body(large[:end], "chat"), now_seconds=float(end))
        carried.append(c.state.size.carried_tokens)
        shortened += any(e.start[0] >= c.state.view.first_unseen for e in c.report.new_edits)
        if any(e.start[0] < c.state.view.first_unseen for e in c.report.new_edits):
            break
    assert shortened >= 3 and carried == sorted(carried) and carried[-1] > 0


def test_a_batch_that_would_leave_more_than_it_is_worth_is_not_made_and_not_planned_at_each_call():
    """What a first batch leaves is a guess until it was planned."""
    planned = []

    def keeps_nearly_all(view, target):
        planned.append(len(view.messages))
        return []

    policy = replace(PRESETS["thrifty"], when_due=(keeps_nearly_all,))
    made, messages = compactor("chat", policy=policy, window_tokens=10**6), conversation(60)
    for end in range(2, len(messages), 2):
        c = made.fit(body(messages[:end], "chat"), now_seconds=float(end))
        assert not c.report.new_edits and c.report.reason == "nothing is due"
    assert 1 <= len(planned) <= 3


def test_a_system_prompt_in_the_list_counts_as_fixed():
    c = compactor("chat", policy="thrifty").fit(body(conversation(3), "chat"))
    system = c.state.view.messages[0]
    assert c.state.view.fixed_tokens == c.state.size.fixed_tokens == system.tokens > 500


def test_thrifty_without_prices_is_default():
    unknown = {"cache_read_ratio": None, "carried_tokens": 10**9}
    assert thrifty(size(50_000, cold=True, **unknown)) is None
    assert thrifty(size(180_000, **unknown)) == over_budget(size(180_000))


def test_classic_threshold():
    assert classic(size(chars=50_000)) is None and "50,000" in classic(size(chars=50_001))
    assert functools.partial(classic, max_chars=10)(size(chars=11))


def test_nano_and_none_are_never_due():
    assert PRESETS["nano"].due(size(10**9)) is None and PRESETS["none"].due(size(10**9, chars=10**9)) is None


def history(wire, rounds, start=0):
    talk = Talk(wire)
    if not start:
        talk.user("The task.")
    talk.number = start
    for n in range(start, start + rounds):
        talk.call("Read", {"file_path": f"{n}.py"}, prose(f"text {n}", 60))
    return talk.messages


def test_thrifty_compacts_when_the_user_was_away():
    """The same conversation, a minute later and an hour later: only then is the cache cold and a batch free."""
    messages = history("anthropic", 60)
    agent = compactor("anthropic", model="claude-opus-4-6", policy="thrifty", window_tokens=1_000_000)
    request = body(messages, "anthropic", model="claude-opus-4-6")
    first = agent.fit(request, now_seconds=0.0)
    soon = agent.fit(request, now_seconds=60.0)
    late = agent.fit(request, now_seconds=7_300.0)
    assert not first.changed and not soon.changed
    assert late.changed and "cold" in late.report.reason
    lawful(request, late, "anthropic")


# ---- none


@pytest.mark.parametrize("wire", WIRES)
def test_none_never_changes_anything(wire):
    """It measures, and says that it does not fit."""
    request = body(history(wire, 80), wire)
    agent = compactor(wire, policy="none", window_tokens=9_000)
    for c in (agent.fit(request), agent.fit(request, force=True), agent.fit(request, now_seconds=9e9)):
        assert c.request is request or c.request == request
        assert not c.changed and not c.fits and c.report.edits == ()
        assert c.report.tokens_after == c.report.tokens_before > 9_000


# ---- a policy of one's own


def test_any_callable_is_a_layer():
    def forget_first_result(view, target):
        result = next(view.results())
        new = view.format.replace_result(view.messages[result.message].data, result.part, "(gone)")
        return [view.replace("mine", "cleared", result.span, [new])]

    policy = Policy(name="mine", when_due=(forget_first_result,), due=lambda size: "always")
    request = body(history("chat", 3), "chat")
    c = compactor("chat", policy=policy, window_tokens=5_000).fit(request)
    lawful(request, c, "chat")
    assert c.report.layers == ("mine",) and c.messages[2]["content"] == "(gone)"


def test_other_thresholds_by_replace():
    policy = replace(PRESETS["nano"], each_call=(NanoHistory(max_messages=10),))
    request = body(history("chat", 6), "chat")
    assert not compactor("chat", policy="nano").fit(request).changed
    c = compactor("chat", policy=policy).fit(request)
    lawful(request, c, "chat")
    assert c.changed and len(c.messages) == 8


def test_a_layer_sees_its_view_and_changes_nothing():
    talk = Talk("chat")
    talk.messages = history("chat", 30)
    view = view_of(talk)
    before = view.rendered()
    with pytest.raises(FrozenInstanceError):
        view.ratio = 2.0
    MicroCompact()(view, packlight.Target(budget_tokens=9_000, target_tokens=4_000))
    assert view.rendered() == before and view.edits == ()
