"""What would have saved most: told with what it saves and how to do it, and nothing where nothing is worth it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from packlight.cli import _parser
from packlight.replay.advice import advice_on
from packlight.replay.columns import measures_of
from packlight.replay.compare import Replayed, compared
from packlight.replay.report import render_all
from packlight.replay.session import Session
from test_money import STEADY, session_of, usage
from test_replay import ClearingEngine, Forgetful, Idle, recorded


def replayed(session: Session, engine: type[ClearingEngine] = Idle, **options: Any) -> Replayed:
    def made(model: str | None, policy: str, window_tokens: int | None) -> Any:
        return Idle() if policy == "none" else engine()

    return compared(session, ["none", "thrifty"], made, measures=measures_of(), **options)


def saving(reader: str = "codex", engine: type[ClearingEngine] = Idle, rounds: int = 60, **options: Any) -> Replayed:
    """A policy that costs half."""
    found = replayed(replace(recorded(rounds), reader=reader), engine, **options)
    none, thrifty = found.rows
    halves = [replace(c, usd=c.usd / 2) for c in thrifty.without]
    return replace(found, rows=[none, replace(thrifty, charges=halves)])


def test_steady_session_needs_no_advice() -> None:
    found = replayed(session_of(*STEADY))
    assert advice_on([found]) == []
    assert "nothing stands out" in render_all([found])


def test_cheapest_policy_with_its_command() -> None:
    found = saving(window_tokens=50_000)
    (advice,) = advice_on([found])
    row = found.rows[1]
    assert advice.usd == pytest.approx(row.without_usd - row.usd)
    assert advice.ratio == pytest.approx(1 - row.usd / row.without_usd)
    assert advice.what.startswith("policy thrifty: $")
    assert advice.how == "packlight run --policy thrifty --window-tokens 50000 codex"
    text = render_all([found])
    assert text.index("what would have saved most") < text.index("what filled the windows")
    assert advice.how in text


def test_commands_are_ones_that_the_command_line_takes() -> None:
    """As they stand: what is meant for us comes before the agent's name."""
    parser, _ = _parser()
    for reader in ("codex", "claude-code", "pi"):
        (advice,) = advice_on([saving(reader, window_tokens=50_000)])
        args, rest = parser.parse_known_args(shlex.split(advice.how)[1:])
        assert (args.policy, args.window_tokens, rest) == ("thrifty", 50_000, [])
        assert reader == "pi" or args.command_line == [advice.how.split()[-1]]


def test_each_agent_has_its_command_where_it_saves_most_first() -> None:
    (advice,) = advice_on([saving("pi", rounds=30), saving("claude-code")])
    assert advice.how == "packlight run --policy thrifty claude, packlight proxy --policy thrifty"


def test_policy_with_a_fault_is_not_advised() -> None:
    assert advice_on([saving(engine=Forgetful)]) == []


@pytest.mark.parametrize(("seconds", "word"), [(60.0, "broken prefixes: 1 "), (400.0, "pauses")])
def test_what_is_paid_again_is_told_with_what_it_cost(seconds: float, word: str) -> None:
    found = replayed(session_of(*STEADY, (usage(0, 6_700), 20.0 + seconds, "user")))
    (advice,) = advice_on([found])
    (miss,) = found.money.misses
    assert advice.what.startswith(word)
    assert (advice.usd, advice.ratio) == (miss.usd, miss.usd / found.money.total_usd)


def test_session_that_uses_no_cache_is_told_so() -> None:
    plain = [(usage(0, 0, 5_000 + 600 * n), 10.0 * n, "result" if n else "user") for n in range(6)]
    found = replayed(session_of(*plain))
    (advice,) = advice_on([found])
    assert advice.what.startswith("prompt caching")
    assert advice.usd == pytest.approx(found.money.total_usd - found.money.simulated_usd)
    assert advice_on([replayed(session_of(*plain), recorded=False)]) == [], "a simulated bill knows of no client"
