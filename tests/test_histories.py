"""Whole histories of every shape that peers fail on: valid, small enough, restored, and stable over many rounds."""

from __future__ import annotations

import random

import pytest

import cases
import checker
import strategies
from engine import POLICIES, compact, compactor, frozen, key_of, lawful, packlight, seen, size_tokens

FILES = cases.history_files()


def _id(path):
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("path", FILES, ids=_id)
def test_history_fits_a_third_of_its_size(path, policy):
    format, request = cases.load_history(path)
    size = size_tokens(request, format)
    c = compact(request, format, policy, max_input_tokens=int(size * 0.35))
    lawful(request, c, format)
    assert c.fits and c.report.tokens_after <= size * 0.35
    assert c.report.tokens_after == pytest.approx(size_tokens(c.request, format), rel=0.02)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("path", [p for p in FILES if "orphan" in p.stem], ids=_id)
def test_broken_history_is_mended(path, policy):
    format, request = cases.load_history(path)
    c = compact(request, format, policy, size_tokens(request, format) // 2, repair=True)
    assert checker.check(c.request, format) == []
    assert frozen(c.restore()) == frozen(request)


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_history_is_restored_from_its_store(path, tmp_path):
    """By the result and the folder alone, in another compactor's hands."""
    format, request = cases.load_history(path)
    store = str(tmp_path / "s")
    c = compact(request, format, "default", size_tokens(request, format) // 2, store=store)
    assert c.changed
    assert frozen(packlight.restore(c.request, store)) == frozen(request)


def _many_rounds(format, seed, write_back, policy="default", rounds=23, store=None):
    """Lets a history grow by four turns a round; yields each round's compaction and the history it was made of."""
    rng = random.Random(seed + 1000)
    features = frozenset({"parallel", "user_turns", "signed", "readable", "split_results", "cache_marks"})
    made = strategies.build(format, seed=seed, turns=8, features=features)
    window = max(12_000, size_tokens(made.request, format) * 2)
    agent = compactor(format, window_tokens=window, policy=policy, store=store)
    for _ in range(rounds):
        c = agent.fit(made.request)
        yield c, made
        held = made.with_entries(list(c.messages)) if write_back else made
        made = strategies.append_turns(rng, held, 4)


@pytest.mark.parametrize("write_back", [True, False], ids=["write-back", "full-history"])
@pytest.mark.parametrize("format", ["anthropic", "chat", "responses"])
def test_facts_and_paths_survive_23_rounds(format, write_back, tmp_path):
    """Every fact the user stated stands in the request; every path touched stands there or is one recall away."""
    store, batches = str(tmp_path / "s"), 0
    for c, made in _many_rounds(format, 11, write_back, store=store):
        lawful(made.request, c, format)
        assert c.fits
        batches += c.changed
    assert batches >= 3
    text = seen(c)
    assert len(made.facts) >= 15
    assert [fact for fact in made.facts if fact not in text] == []
    gone = [path for path in made.paths if path not in text]
    assert [path for path in gone if path not in str(packlight.recall(store, path))] == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("format", ["anthropic", "chat", "responses"])
def test_result_is_compacted_again(format, policy):
    """Ten rounds of compact, write back, go on, under each policy."""
    for c, made in _many_rounds(format, 5, True, policy, rounds=10):
        lawful(made.request, c, format)
        assert c.fits


@pytest.mark.parametrize("policy", ["default", "thrifty"])
@pytest.mark.parametrize("format", ["anthropic", "chat", "responses"])
def test_edits_stick_for_a_caller_who_knows_nothing(format, policy):
    """The full history each time: what was sent at turn t begins what is sent at t+1, unless a batch ran."""
    last, quiet = None, 0
    for c, _ in _many_rounds(format, 3, False, policy):
        sent = [frozen(_bare(m)) for m in c.messages]
        if last is not None and not c.report.new_edits:
            assert sent[: len(last)] == last
            quiet += 1
        last = sent
    assert quiet >= 3


def _bare(message):
    plain = checker.plain(message)
    if isinstance(plain.get("content"), list):
        return {**plain, "content": [{k: v for k, v in b.items() if k != "cache_control"} for b in plain["content"]]}
    return plain


def test_bound_thinking_is_never_sent_after_an_edit():
    """A provider that ties thinking to its prefix sees every request of a growing conversation, in both habits."""
    for write_back in (False, True):
        provider = checker.Binding()
        for c, _ in _many_rounds("anthropic", 7, write_back):
            assert provider.send(c.request) == []


SHAPES = {
    "one user message, hundreds of tool turns": {"turns": 250, "features": frozenset()},
    "a huge pasted message": {"turns": 10, "features": frozenset({"huge_paste"})},
    "big arguments": {"turns": 40, "features": frozenset({"big_arguments"})},
    "one id for every call": {"turns": 60, "features": frozenset({"one_id", "parallel"})},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("format", ["anthropic", "chat", "responses"])
def test_shapes_that_peers_fail_on(format, shape):
    made = strategies.build(format, seed=1, **SHAPES[shape])
    size = size_tokens(made.request, format)
    for policy in POLICIES:
        c = packlight.compact(made.request, policy=policy, max_input_tokens=size // 5, force=True, format=format)
        lawful(made.request, c, format)
        assert c.fits, policy
    assert made.facts[0] in seen(c)


@pytest.mark.parametrize("format", ["anthropic", "chat", "responses"])
def test_giant_last_result(format):
    """1.5 MB that the model has not seen: shortened because it could not be sent otherwise, never emptied."""
    made = strategies.build(format, seed=2, turns=3, features=frozenset())
    giant = "\n".join(f"2026-11-20 INFO line {n} of the dump" for n in range(45_000))
    entries = list(made.entries)
    last = entries[-1]
    if format == "anthropic":
        entries[-1] = {**last, "content": [{**last["content"][-1], "content": giant}]}
        entries[-2] = {
            **entries[-2],
            "content": [b for b in entries[-2]["content"] if b["type"] != "tool_use"]
            + [b for b in entries[-2]["content"] if b.get("id") == last["content"][-1]["tool_use_id"]],
        }
    else:
        entries[-1] = {**last, "output" if format == "responses" else "content": giant}
    request = {**made.request, key_of(format): entries}
    assert len(giant) > 1_500_000
    for policy in POLICIES:
        c = packlight.compact(request, policy=policy, window_tokens=100_000, force=True, format=format)
        lawful(request, c, format)
        assert c.fits
        assert "line 0 of the dump" in seen(c)
        if policy in ("default", "thrifty"):  # the articles' previews are a beginning only
            assert "line 44999 of the dump" in seen(c)
