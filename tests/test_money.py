"""Where the input money went: by the usage that the file records, else simulated; each reason told apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from packlight.replay.compare import Prediction, compared
from packlight.replay.content import Filling, superseded, views_of
from packlight.replay.cost import Prices, PromptCache, Units
from packlight.replay.money import Money, Paid, money_of, prices_for, sheet, total
from packlight.replay.readers import read_sessions
from packlight.replay.session import Segment, Session, Turn, as_if
from packlight.replay.weights import Weights
from test_replay import ClearingEngine

EXAMPLES = Path(__file__).parent.parent / "examples"
OPUS = "claude-opus-4-5"  # input 5, read 0.5, write 6.25, from 4,096 tokens on
HEAD = 5_000


def usage(read: int, write: int = 0, plain: int = 0, *, hour: int | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "input_tokens": plain,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
    }
    return told if hour is None else {**told, "cache_creation": {"ephemeral_1h_input_tokens": hour}}


def session_of(*calls: tuple[dict[str, Any] | None, float, str], model: str = OPUS, **about: Any) -> Session:
    """Calls by usage, time, and what was added before them: "user" or "result"."""
    messages: list[dict[str, Any]] = []
    turns = []
    for n, (used, seconds, added) in enumerate(calls):
        if added == "user":
            messages.append({"role": "user", "content": f"please do {n}"})
        elif added == "result":
            content = [{"type": "tool_result", "tool_use_id": f"call_{n - 1}", "content": f"{n} " + "word " * 400}]
            messages.append({"role": "user", "content": content})
        turns.append(Turn(len(messages), used, seconds, model))
        call = {"type": "tool_use", "id": f"call_{n}", "name": "Read", "input": {"path": f"{n}.py"}}
        messages.append({"role": "assistant", "content": [call]})
    return Session("made", "claude-code", "anthropic", [Segment(messages, turns)], model=model, **about)


def money(session: Session, **options: Any) -> Money:
    return money_of(session, Weights(session), **options)


STEADY = (
    (usage(0, HEAD), 0.0, "user"),
    (usage(HEAD, 600, 3), 10.0, "result"),
    (usage(HEAD + 600, 500), 20.0, "result"),
)
"""5,000, 5,603 and 6,100 tokens; three stand behind the last mark and are sent twice."""


def test_steady_session_reads_and_writes_once() -> None:
    found = money(session_of(*STEADY))
    assert found.is_recorded and found.is_priced and found.misses == []
    assert found.tokens == {"read": 10_600, "new": 6_097, "rest": 6, "cold": 0, "broken": 0, "window": 0}
    assert found.usd["read"] == pytest.approx(10_600 * 0.5 / 1e6)
    assert found.usd["new"] == pytest.approx(6_097 * 6.25 / 1e6)
    assert found.usd["rest"] == pytest.approx((3 * 5 + 3 * 6.25) / 1e6)
    assert found.total_usd == pytest.approx(sum(found.usd_by_turn))


def test_broken_prefix_is_told_with_its_price_and_cause() -> None:
    found = money(session_of(*STEADY, (usage(0, 6_700), 60.0, "user")))
    (miss,) = found.misses
    assert (miss.why, miss.turn, miss.before, miss.is_full) == ("broken", 3, "a user message", True)
    assert (miss.sent_tokens, miss.missed_tokens, miss.gap_seconds) == (6_100, 6_100, 40.0)
    assert miss.usd == pytest.approx(6_100 * (6.25 - 0.5) / 1e6)
    assert found.extra_usd("broken") == miss.usd and found.extra_usd("cold") == 0
    assert found.tokens["broken"] == 6_100 and found.tokens["new"] == 6_697


def test_partial_miss_is_no_full_one() -> None:
    (miss,) = money(session_of(*STEADY, (usage(4_500, 2_200), 60.0, "result"))).misses
    assert (miss.missed_tokens, miss.is_full, miss.before) == (1_600, False, "tool results")


def test_long_gap_is_a_cold_restart() -> None:
    found = money(session_of(*STEADY, (usage(0, 6_700), 20.0 + 301, "user")))
    assert [m.why for m in found.misses] == ["cold"]
    assert found.tokens["cold"] == 6_100 and found.tokens["broken"] == 0


def test_gap_is_between_requests_not_answers() -> None:
    """An answer of 6,000 tokens takes two minutes to write: its request was sent well within the cache's life."""
    late = {**usage(0, 6_700), "output_tokens": 6_000}
    (miss,) = money(session_of(*STEADY, (late, 20.0 + 400, "user"))).misses
    assert (miss.why, miss.gap_seconds) == ("broken", 280.0)


def test_writes_for_an_hour_cost_twice_and_live_an_hour() -> None:
    hourly = [(usage(0, 5_000, hour=5_000), 0.0, "user"), (usage(5_000, 600, hour=600), 10.0, "result")]
    session = session_of(*hourly, (usage(0, 6_000, hour=6_000), 10.0 + 1_800, "user"))
    found = money(session)
    assert [m.why for m in found.misses] == ["broken"], "half an hour is no reason"
    assert found.usd["new"] == pytest.approx((5_600 + 400) * 2 * 5 / 1e6)
    assert prices_for(session).lifetime_seconds == 3_600
    assert prices_for(session_of(*STEADY)).lifetime_seconds == 300


def test_new_window_is_nobodys_miss() -> None:
    session = session_of(*STEADY)
    other = session_of((usage(2_000, 3_000), 30.0, "user"), (usage(5_000, 100), 40.0, "result"))
    found = money(replace(session, segments=[*session.segments, *other.segments]))
    assert found.tokens["window"] == 3_000 and found.misses == []


def test_short_prefixes_are_never_cached() -> None:
    found = money(session_of((usage(0, 0, 3_000), 0.0, "user"), (usage(0, 4_200), 5.0, "result")))
    assert found.misses == [], "the model caches from 4,096 tokens on"


def test_other_model_is_the_cause() -> None:
    session = session_of(*STEADY, (usage(0, 6_700), 60.0, "user"))
    session.segments[0].turns[-1].model = "claude-sonnet-4-5"
    found = money(session)
    assert found.misses[0].changed == "another model" and found.misses[0].before == "a user message"
    assert found.usd_by_turn[-1] == pytest.approx(6_700 * 3.75 / 1e6), "at the price of that model"


def test_other_thinking_level_is_the_cause() -> None:
    """Recorded and simulated: the provider's cache of the messages goes with it."""
    session = session_of(*STEADY, (usage(0, 6_700), 60.0, "user"))
    session.segments[0].turns[-1].thinking = "high"
    assert [m.changed for m in money(session).misses] == ["another thinking level"]
    assert [m.changed for m in money(session, recorded=False).misses] == ["another thinking level"]


def test_automatic_cache_counts_steps_as_rest() -> None:
    """OpenAI finds a prefix in steps of 128 tokens: what is left over is no miss."""
    turns = [{"input_tokens": n, "cached_input_tokens": c} for n, c in ((9_000, 0), (9_500, 8_960), (9_900, 0))]
    session = session_of(*((u, 10.0 * n, "result" if n else "user") for n, u in enumerate(turns)), model="gpt-5.1")
    found = money(session)
    assert found.tokens["rest"] == 40 and found.tokens["new"] == 9_000 + 500 + 400
    assert [(m.turn, m.missed_tokens) for m in found.misses] == [(2, 9_500)]
    assert found.tokens["read"] == 8_960


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_system_prompt_in_the_list_is_kept_in_the_cache_as_one_beside_it(role: str) -> None:
    """Whatever is edited behind it."""
    system = {"role": role, "content": "rule " * 4_000}
    said = [{"role": "user", "content": text * 2_000} for text in ("first ", "other ")]
    session = Session("made", "list", "chat", [Segment([system, *said], [])])
    cache, units = PromptCache(Prices()), Units(weights := Weights(session))
    cache.charge(units([system, said[0]], 0), 0.0)
    again = cache.charge(units([system, said[1]], 0), 1.0)
    assert again.read_tokens == pytest.approx(weights.head(0) + weights.message(system))


def test_without_cache_figures_it_is_simulated() -> None:
    session = session_of(*(({"input_tokens": sum(u.values())}, t, a) for u, t, a in STEADY))
    found = money(session)
    assert not found.is_recorded and found.total_usd == pytest.approx(found.simulated_usd)
    assert found.tokens["read"] == pytest.approx(10_603) and found.misses == []
    assert found.total_tokens == pytest.approx(5_000 + 5_603 + 6_100)


def test_simulation_finds_a_cold_cache() -> None:
    session = session_of(*(({"input_tokens": sum(u.values())}, 400 * t, a) for u, t, a in STEADY))
    assert [m.why for m in money(session).misses] == ["cold", "cold"]


def test_simulation_agrees_with_a_steady_bill() -> None:
    found = money(session_of(*STEADY))
    assert found.simulated_usd == pytest.approx(found.total_usd, rel=0.01)


def test_times_unknown_at_first_are_no_gap() -> None:
    calls = [({"input_tokens": 9_000 + 500 * n}, 0.0, "result" if n else "user") for n in range(4)]
    session = session_of(*calls)
    for turn in session.segments[0].turns[:-1]:
        turn.seconds = None
    session.segments[0].turns[-1].seconds = 1.7e9
    assert money(session).misses == []


def test_bill_of_the_file_stands_beside_ours() -> None:
    session = session_of(*STEADY)
    assert money(session).billed_usd is None
    for turn in session.segments[0].turns:
        turn.billed_usd = 0.5
    found = money(session)
    assert found.billed_usd == 1.5
    assert total([found, found]).billed_usd == 3.0
    assert total([found, money(session_of(*STEADY))]).billed_usd is None, "told only where it is whole"


def test_unknown_price_is_said() -> None:
    found = money(session_of(*STEADY, model="house-model-1"))
    assert not found.is_priced
    assert found.usd["read"] == pytest.approx(10_600 * 0.1 / 1e6)


def test_as_if_by_another_model() -> None:
    session = as_if(session_of(*STEADY), "claude-sonnet-4-5")
    found = money(session, recorded=False)
    assert not found.is_recorded and found.usd["read"] == pytest.approx(10_603 * 0.3 / 1e6, rel=0.01)
    assert session.segments[0].turns[0].model == "claude-sonnet-4-5"


def test_price_step_counts_the_whole_request() -> None:
    prices = sheet("gpt-5.5")
    assert prices is not None and prices.steps
    small, large = (sum(Paid(0, 0, 0, n).usd(prices)) / n for n in (100_000, 300_000))
    assert large == pytest.approx(2 * small)
    assert Paid(10, 0, 0, 0).usd(Prices(cache_read_usd=None))[0] == pytest.approx(10 / 1e6), "no cache: plain input"


# what filled the windows


def fillings(session: Session) -> dict[str, Filling]:
    return {f.tool or f.kind: f for f in money(session).content}


def test_content_is_weighed_by_the_calls_that_sent_it() -> None:
    session = session_of(*STEADY)
    found = fillings(session)
    assert found.keys() == {"system", "user", "Read", "calls"}
    weights = Weights(session)
    assert found["system"].token_turns == pytest.approx(3 * weights.head(0))
    results = [m for m in session.segments[0].messages if m["role"] == "user" and isinstance(m["content"], list)]
    assert found["Read"].token_turns == pytest.approx(2 * weights.message(results[0]) + weights.message(results[1]))


def test_content_adds_up_to_the_bill() -> None:
    found = money(session_of(*STEADY))
    assert sum(f.usd for f in found.content) == pytest.approx(found.total_usd, rel=0.01)
    assert sum(f.token_turns for f in found.content) == pytest.approx(found.total_tokens, rel=0.01)


def read_of(n: int, path: str, text: str) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"r{n}", "name": "Read", "input": {"file_path": path}}
    result = {"type": "tool_result", "tool_use_id": f"r{n}", "content": text}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def test_what_was_read_again_is_superseded() -> None:
    text = "\n".join(f"line {i}" for i in range(50))
    messages = [{"role": "user", "content": "go"}, *read_of(0, "a.py", text), *read_of(1, "b.py", "other " * 40)]
    messages += [*read_of(2, "a.py", text + "\nmore"), *read_of(3, "a.py", "File unchanged since last read.")]
    turns = [Turn(n, {"input_tokens": 100 * n}) for n in (1, 3, 5, 7, 9)]
    session = Session("made", "messages", "anthropic", [Segment(messages, turns)], model=OPUS)
    (view,) = views_of(session)
    assert superseded(view) == {(2, 0): 6}, "the note that nothing changed shows nothing"
    (reads,) = [f for f in money(session).content if f.tool == "Read"]
    weight = Weights(session).message(messages[2])
    assert reads.superseded_token_turns == pytest.approx(2 * weight)
    assert 0 < reads.superseded_usd < reads.usd


def test_the_same_output_again_is_superseded() -> None:
    messages = [*read_of(0, "a", "ok " * 50), *read_of(1, "b", "no " * 50), *read_of(2, "c", "ok " * 50)]
    session = Session("made", "messages", "anthropic", [Segment(messages, [])], model=OPUS)
    assert superseded(views_of(session)[0]) == {(1, 0): 5}


def test_notes_of_the_client_are_not_the_users_words() -> None:
    note = "<system-reminder>" + "remember the rules " * 30 + "</system-reminder>"
    session = session_of(*STEADY)
    session.segments[0].messages[0]["content"] = [{"type": "text", "text": note}, {"type": "text", "text": "do it"}]
    found = fillings(session)
    assert found["notes"].token_turns > 5 * found["user"].token_turns


def test_totals_add_up() -> None:
    one, other = money(session_of(*STEADY)), money(session_of(*STEADY, (usage(0, 6_700), 60.0, "user")))
    both = total([one, other])
    assert both.total_usd == pytest.approx(one.total_usd + other.total_usd)
    assert len(both.misses) == 1 and len(both.usd_by_turn) == 7
    assert sum(f.usd for f in both.content) == pytest.approx(sum(f.usd for m in (one, other) for f in m.content))


# on real sessions


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.jsonl")), ids=lambda p: p.stem)
def test_examples_add_up(path: Path) -> None:
    (session,) = read_sessions(path)
    found = money(session)
    assert found.is_recorded and found.is_priced
    assert found.total_usd == pytest.approx(sum(found.usd_by_turn))
    assert sum(f.usd for f in found.content) == pytest.approx(found.total_usd, rel=0.03)
    assert found.simulated_usd == pytest.approx(found.total_usd - found.extra_usd("broken"), rel=0.15)
    assert all(f.superseded_usd <= f.usd for f in found.content)


class Guessing(ClearingEngine):
    """Says that every request has 1,000 tokens."""

    def fit(self, request: Any, /, *, now_seconds: float | None = None, format: str | None = None) -> Any:
        compaction = super().fit(request, now_seconds=now_seconds)
        compaction.report.tokens_before = 1_000
        compaction.request = request
        return compaction


def test_prediction_is_judged_by_the_next_usage() -> None:
    calls = [({"input_tokens": n}, float(n), "result" if i else "user") for i, n in enumerate((7, 800, 1_000, 1_250))]
    found = compared(session_of(*calls), ["none"], lambda *_: Guessing())
    assert found.prediction == Prediction(3, pytest.approx(0.2), pytest.approx(0.25), 1)
    assert json.loads(json.dumps(found.without_tokens)) == pytest.approx([7, 800, 1_000, 1_250], rel=0.1)
    unknown = compared(session_of((None, 0.0, "user")), ["none"], lambda *_: Guessing())
    assert unknown.prediction is None


def test_content_adds_up_to_what_was_paid() -> None:
    """To the cent and the token, although our weights and the provider's counts differ."""
    odd = (*STEADY, (usage(0, 6_700, 90), 60.0, "user"), (usage(2_000), 70.0, "result"))
    for session in (session_of(*odd), *read_sessions(EXAMPLES / "codex-typescript-release.jsonl")):
        found = money(session)
        assert sum(f.usd for f in found.content) == pytest.approx(found.total_usd)
        assert sum(f.token_turns for f in found.content) == pytest.approx(found.total_tokens)


def test_requests_in_flight_at_once_have_no_gap_below_zero() -> None:
    (miss,) = money(session_of(*STEADY, (usage(0, 6_700), 5.0, "user"))).misses
    assert miss.gap_seconds == 0.0
