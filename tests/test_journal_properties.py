"""The journal on generated histories: whatever was done in whatever habit, the way back is exact."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import checker
import strategies
from engine import POLICIES, compact, compactor, packlight, size_tokens
from packlight.store import MemoryStore
from talk import begins_with, copied, sent, unmarked

FORMATS = ("anthropic", "chat", "responses")
quick = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
"""Without shrinking, which takes minutes here: a failure prints its seed."""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("format", FORMATS)
@quick
@given(data=st.data(), broken=st.booleans(), repair=st.booleans())
def test_every_step_is_undone(format, policy, data, broken, repair):
    """One shot after the other with turns in between, as from the command line; each `restore` takes back one."""
    made = data.draw(strategies.history(format, broken=broken, max_turns=15))
    rng, store = random.Random(made.seed + 1), MemoryStore()
    current, whole, steps = made.request, list(made.request[made.key]), []
    for _ in range(3):
        window = max(500, size_tokens(current, format) // 2)
        c = compact(copied(current), format, policy, window, store=store, repair=repair)
        assert c.report.error is None
        kept = c.messages if c.report.new_edits else current[made.key]
        if c.report.new_edits:
            steps.append(current)
        longer = strategies.append_turns(rng, made.with_entries(list(kept)), 1)
        more = longer.request[made.key][len(kept) :]
        for step in steps:
            step[made.key] = [*step[made.key], *more]
        whole += more
        current = longer.request
    for step in reversed(steps):
        current = packlight.restore(copied(current), store, format=format)
        assert unmarked(current[made.key]) == unmarked(step[made.key])
    if steps:
        assert unmarked(current[made.key]) == unmarked(whole)
        with pytest.raises(packlight.NotFound):
            packlight.restore(current, store, format=format)


@pytest.mark.parametrize("policy", ["default", "thrifty"])
@pytest.mark.parametrize("format", FORMATS)
@quick
@given(data=st.data())
def test_both_habits_send_the_same(format, policy, data):
    """One caller sends everything each time, one writes our output back: the provider can't tell them apart."""
    made = data.draw(strategies.history(format, max_turns=15))
    rng = random.Random(made.seed + 1)
    window, store = max(3000, size_tokens(made.request, format)), MemoryStore()
    full = compactor(format, window_tokens=window, policy=policy)
    back = compactor(format, window_tokens=window, policy=policy, store=store)
    whole, mine = made, made
    for _ in range(5):
        c, d = full.fit(copied(whole.request)), back.fit(copied(mine.request))
        assert c.report.error is None and d.report.error is None
        assert sent(d, format) == sent(c, format)
        again = back.fit(copied({**mine.request, made.key: list(d.messages)}))
        assert sent(again, format) == sent(d, format) and not again.report.new_edits
        longer = strategies.append_turns(rng, whole, 2)
        more = longer.request[made.key][len(whole.request[made.key]) :]
        whole, mine = longer, made.with_entries([*d.messages, *more])
    if back.fit(mine.request).conversation:
        undone = packlight.restore(mine.request, store, all=True, format=format)
        assert unmarked(undone[made.key]) == unmarked(whole.request[made.key])


@pytest.mark.parametrize("format", FORMATS)
@quick
@given(data=st.data())
def test_forks_do_not_meet(format, data):
    """Branches taken at any place and grown by turns: each is stable by itself, and valid."""
    made = data.draw(strategies.history(format, max_turns=12))
    agent = compactor(format, window_tokens=max(3000, size_tokens(made.request, format)))
    branches, before = {0: made}, {0: []}
    for step in range(10):
        name = data.draw(st.sampled_from(sorted(branches)))
        if step % 3 == 2:
            branches[step], before[step] = branches[name], before[name]
            name = step
        grown = strategies.append_turns(random.Random(made.seed + step), branches[name], 1)
        branches[name] = grown
        c = agent.fit(copied(grown.request))
        assert c.report.error is None
        assert checker.new_violations(grown.request, c.request, format) == []
        assert c.report.new_edits or begins_with(sent(c, format), before[name])
        before[name] = sent(c, format)
    for name, grown in branches.items():
        if before[name]:
            again = agent.fit(copied(grown.request))
            assert begins_with(sent(again, format), before[name]) or again.report.new_edits
