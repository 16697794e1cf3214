"""The laws, tried on generated histories of all three formats."""

from __future__ import annotations

import copy
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import checker
import strategies
import test_checker
from engine import POLICIES, compact, compactor, frozen, lawful, packlight, seen, size_tokens

FORMATS = ("anthropic", "chat", "responses")
quick = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
ratio = st.sampled_from([0.15, 0.35, 0.6, 0.9])


def _window(made, share):
    return max(500, int(size_tokens(made.request, made.format) * share))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("format", FORMATS)
@quick
@given(data=st.data(), share=ratio)
def test_every_law_after_one_compaction(format, policy, data, share):
    made = data.draw(strategies.history(format))
    before = frozen(made.request)
    c = compact(made.request, format, policy, _window(made, share))
    assert frozen(made.request) == before
    lawful(made.request, c, format)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("format", FORMATS)
@quick
@given(data=st.data(), share=ratio)
def test_broken_input_gains_nothing(format, policy, data, share):
    made = data.draw(strategies.history(format, broken=True))
    window = _window(made, share)
    lawful(made.request, compact(made.request, format, policy, window), format)
    mended = compact(made.request, format, policy, window, repair=True)
    assert checker.check(mended.request, format) == []
    assert frozen(mended.restore()) == frozen(made.request)
    assert checker.check(packlight.repair(made.request, format=format), format) == []


@pytest.mark.parametrize("format", FORMATS)
@quick
@given(data=st.data())
def test_repair_leaves_valid_requests_alone(format, data):
    made = data.draw(strategies.history(format).filter(lambda h: "one_id" not in h.features))
    if not checker.check(made.request, format):
        assert packlight.validate(made.request, format=format) == []
        assert frozen(packlight.repair(made.request, format=format)) == frozen(made.request)


@pytest.mark.parametrize("format", FORMATS)
@quick
@given(data=st.data())
def test_both_judges_agree(format, data):
    made = data.draw(strategies.history(format, broken=True))
    ours = {v.rule for v in packlight.validate(made.request, format=format)}
    theirs = {f.rule for f in checker.findings(made.request, format)}
    assert bool(ours) == bool(theirs), (ours, theirs)


BEYOND = {"bad_role", "misplaced_block", "missing_call_id", "bad_content", "duplicate_item_id", "empty_list"}
"""What no client sends and no compaction makes: a provider refuses it, we need not know it."""

UNMENDABLE = {"compaction_misplaced", "thinking_missing"}
"""Only the provider could make what is missing."""


@pytest.mark.parametrize(
    ("format", "rule", "entries"),
    [(f, *case) for f, table in test_checker.BAD.items() for case in table if case[0] not in BEYOND],
)
def test_each_broken_rule_is_found_and_mended(format, rule, entries):
    request = entries if isinstance(entries, dict) else {strategies.list_key(format): entries}
    assert packlight.validate(request, format=format) != []
    if rule not in UNMENDABLE:
        assert checker.check(packlight.repair(request, format=format), format) == []


@pytest.mark.parametrize(
    ("format", "name"), [(f, n) for f, table in test_checker.GOOD.items() for n in table if n != "plain text"]
)
def test_each_kept_rule_passes(format, name):
    entries = test_checker.GOOD[format][name]
    request = entries if isinstance(entries, dict) else {strategies.list_key(format): entries}
    assert packlight.validate(request, format=format) == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("format", FORMATS)
@settings(quick, max_examples=8)
@given(data=st.data())
def test_ten_rounds_of_its_own_result(format, policy, data):
    """Compact, write back, append, ten times over: always valid, the newest user words always there."""
    made = data.draw(strategies.history(format, max_turns=15))
    rng = random.Random(made.seed + 1)
    window = max(3000, size_tokens(made.request, format))
    agent = compactor(format, window_tokens=window, policy=policy)
    provider = checker.Binding()
    for _ in range(10):
        c = agent.fit(made.request)
        lawful(made.request, c, format)
        if format == "anthropic" and "manual_thinking" not in made.features:
            assert provider.send(c.request) == []
        made = strategies.append_turns(rng, made.with_entries(list(c.messages)), 1)


@pytest.mark.parametrize("policy", ["default", "thrifty"])
@pytest.mark.parametrize("format", FORMATS)
@settings(quick, max_examples=12)
@given(data=st.data())
def test_full_history_gets_the_same_edits(format, policy, data):
    """Sent in full and parsed anew, a request comes out byte-identical the second time."""
    made = data.draw(strategies.history(format, max_turns=20))
    rng = random.Random(made.seed + 1)
    window = max(3000, size_tokens(made.request, format) * 8 // 10)
    agent = compactor(format, window_tokens=window, policy=policy)
    for _ in range(6):
        c = agent.fit(copy.deepcopy(made.request))
        lawful(made.request, c, format)
        again = agent.fit(copy.deepcopy(made.request))
        assert frozen(again.request) == frozen(c.request) or again.report.new_edits
        made = strategies.append_turns(rng, made, 1)


@pytest.mark.parametrize("format", FORMATS)
@quick
@given(data=st.data())
def test_sdk_objects_are_taken_as_they_are(format, data):
    made = data.draw(strategies.history(format))
    wrapped = {**made.request, made.key: strategies.as_sdk(made)}
    c = compact(wrapped, format, "default", _window(made, 0.35))
    lawful(wrapped, c, format)
    assert frozen(c.restore()) == frozen(made.request)
    given_ids = {id(entry) for entry in wrapped[made.key]}
    kept = {frozen(entry): entry for entry in c.messages}
    assert all(id(kept[frozen(e)]) in given_ids for e in wrapped[made.key] if frozen(e) in kept)


@pytest.mark.parametrize("format", FORMATS)
@quick
@given(data=st.data())
def test_user_words_stay_verbatim(format, data):
    """The last thing the user typed is always there, whatever the policy."""
    made = data.draw(strategies.history(format))
    for policy in POLICIES:
        c = compact(made.request, format, policy, max(4000, _window(made, 0.5)))
        if c.fits:
            assert made.facts[-1] in seen(c)
