"""The benchmark: what it feeds policies, the rules of others as policies, and how figures become a page."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.compaction import export, figures, plan, policies, rows, turns
from bench.compaction.__main__ import _chosen
from bench.compaction.cell import Walked
from bench.compaction.packages import NotInstalled, Package, Worker
from bench.compaction.packages.translate import Sent, Translation
from bench.compaction.sessions import Log, read_log, uncompacted
from loss_help import FORMATS, call, recorded
from packlight.replay.foreign import ForeignEngine
from packlight.replay.run import SessionResult, replay
from packlight.replay.weights import Weights

PACKAGES = Path(plan.__file__).parent / "packages"
WINDOW = 12_000
KINDS = sorted({kind for _, kind, _ in rows._BY_CLASS.values()}, key=lambda k: k.__name__)


def long_session(format: str = "anthropic", calls: int = 40) -> Any:
    steps = [("user", "Fix the build of release-9. " + "It fails. " * 20)]
    for n in range(calls):
        steps.append(call("read", f"line of file_{n}.py\n" * 60, path=f"src/file_{n}.py"))
        if n % 9 == 8:
            steps += [("say", f"Done with part {n}."), ("user", f"Now part {n + 1}, and never touch vendor/.")]
    return recorded([*steps, ("say", "All done.")], format)


def walked(policy: Any, session: Any, window: int = WINDOW) -> SessionResult:
    weights = Weights(session)
    engine = ForeignEngine(policy, "x", None, window, copies=False)
    return replay(session, policy="x", window_tokens=window, compactor_factory=lambda *_: engine, weights=weights)


def made(kind: type[policies.Policy], window: int = WINDOW) -> policies.Policy:
    return kind(None, window, head_tokens=500)


# ---- sessions


def lines(*records: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(r).encode() for r in records)


@pytest.mark.parametrize(
    "compaction",
    [
        {"type": "system", "subtype": "compact_boundary"},
        {"type": "system", "subtype": "microcompact_boundary"},
        {"type": "user", "isCompactSummary": True, "message": {"role": "user", "content": "summary"}},
        {"type": "compacted", "payload": {"message": "summary"}},
    ],
)
def test_recorded_compaction_is_left_out(compaction):
    before, after = {"type": "user", "n": 1}, {"type": "user", "n": 2}
    kept, at = uncompacted(lines(before, {**compaction, "timestamp": 100}, after))
    assert (kept, at) == (lines(before, after), 100.0)


def test_pi_is_read_up_to_its_first_compaction():
    kept, _ = uncompacted(lines({"type": "session"}, {"type": "message"}, {"type": "compaction"}, {"type": "message"}))
    assert kept == lines({"type": "session"}, {"type": "message"})


def test_usage_behind_a_compaction_is_that_of_the_whole_log(tmp_path):
    def said(n: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
        at = {"uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "timestamp": f"2026-01-01T00:{n:02}:00Z"}
        return {"type": role, **at, "message": {"role": role, "content": content, **more}}

    def answer(n: int, text: str, tokens: int) -> dict[str, Any]:
        blocks = [{"type": "text", "text": text}]
        return said(n, "assistant", blocks, id=f"m{n}", usage={"input_tokens": tokens}, model="claude-opus-4-6")

    boundary = {"type": "system", "subtype": "compact_boundary", "timestamp": "2026-01-01T00:02:30Z"}
    file = tmp_path / "session.jsonl"
    long = "All of the tests are to be run. " * 400
    file.write_bytes(
        lines(said(0, "user", long), answer(1, "First.", 9_000), said(2, "user", "Go on."), boundary)
        + b"\n"
        + lines(answer(3, "Second.", 900))
    )
    log = read_log(file)
    assert log is not None
    (segment,) = log.session.segments
    assert [t.usage["input_tokens"] > 8_000 for t in segment.turns] == [True, True]
    assert "release-4417" in json.dumps(segment.messages)  # the rules to look for later


def test_head_that_a_file_does_not_tell_is_assumed(tmp_path):
    file = tmp_path / "plain.json"
    file.write_text(json.dumps([{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]))
    log = read_log(file)
    assert log is not None and 20_000 < log.tokens < 21_000


# ---- rules as policies


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_rule_sends_valid_requests(kind, format):
    result = walked(made(kind), long_session(format))
    assert (result.invalid, result.errors) == ([], [])
    assert result.batches or kind is policies.Identity


@pytest.mark.parametrize("kind", [policies.Tail, policies.PiRule, policies.OpenCodeRule, policies.CodexRule])
def test_folding_keeps_within_the_window_in_few_batches(kind):
    result = walked(made(kind, 80_000), long_session(calls=250), 80_000)
    assert not result.not_fitting
    assert result.prefix_breaks == len(result.batches) <= 8


def test_clearing_is_sticky_unless_it_is_decided_anew():
    sticky, anew = (
        walked(made(kind), long_session()) for kind in (policies.ClearToolUsesAtLeast, policies.ClearToolUsesAnew)
    )
    assert 0 < sticky.prefix_breaks < anew.prefix_breaks


def test_minimum_gain_saves_batches():
    without, least = (
        walked(made(kind), long_session()) for kind in (policies.ClearToolUsesEarly, policies.ClearToolUsesEarlyAtLeast)
    )
    assert len(least.batches) < len(without.batches)


def test_codex_keeps_what_the_user_typed_and_a_summary_that_is_billed():
    policy, session = made(policies.CodexRule, 16_000), long_session()
    sent = [policy(session.segments[0].messages[: t.end], format="anthropic") for t in session.segments[0].turns]
    assert "release-9" in json.dumps(sent[-1]) and "never touch vendor/" in json.dumps(sent[-1])
    assert policy.side_input_tokens > 1_000 > policy.side_output_tokens > 0


# ---- packages in environments of their own

DRIVER = f"""
import sys
sys.path.insert(0, {str(PACKAGES)!r})
from worker import serve

def make(setting, side):
    asked = []

    def policy(messages, head, now):
        asked.append(now)
        if len(messages) > setting["most"]:
            raise ValueError("too many")
        print("noise")
        said = {{"role": "user", "content": side.ask("a/b.py " + setting["format"])[:7]}}
        return [*messages[1:], said, {{"asked": asked}}]
    return policy

serve(make)
"""


@pytest.fixture
def package(tmp_path):
    python = tmp_path / "fake" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "driver.py").write_text(DRIVER)
    return Package("fake", str(tmp_path / "driver.py"), {"fake": {}})


def test_package_answers_over_its_pipe(package, tmp_path):
    worker = Worker(package, tmp_path, {"tokens_per_char": 0.5, "format": "chat", "most": 3})
    first, second, third = ({"role": "user", "content": c} for c in "abc")
    try:
        assert worker([first, second], head={}, now_seconds=1.0) == [
            second,
            {"role": "user", "content": "## Goal"},
            {"asked": [1.0]},
        ]
        sent = worker([first, second, third], head={}, now_seconds=2.0)
        assert sent[0] is second and sent[1] is third and sent[-1] == {"asked": [1.0, 2.0]}
        assert worker.side_input_tokens == 2 * 0.5 * len("a/b.py chat")
        with pytest.raises(RuntimeError, match="too many"):
            worker([first, second, third, first], head={}, now_seconds=3.0)
        assert worker([third, first], head={}, now_seconds=4.0)[-1] == {"asked": [4.0]}  # another window
    finally:
        worker.close()


def test_package_that_is_not_there_is_told(package, tmp_path):
    with pytest.raises(NotInstalled, match="other is not installed"):
        replace(package, name="other").version(tmp_path)
    with pytest.raises(NotInstalled, match="fake"):
        package.version(tmp_path)


MIXED = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}}]},
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "body", "is_error": True},
            {"type": "text", "text": "and now?"},
        ],
    },
]


def test_translation_gives_back_the_same_objects():
    translation = Translation("anthropic")
    units = translation.units(MIXED)
    assert [(u.role, u.text) for u in units] == [
        ("user", "hello"),
        ("assistant", ""),
        ("tool", "body"),
        ("user", "and now?"),
    ]
    assert all(a is b for a, b in zip(translation.back(map(Sent, units)), MIXED, strict=True))


def test_translation_carries_changes_back():
    translation = Translation("anthropic")
    _, asked, body, question = translation.units(MIXED)
    sent = [Sent(None, "summary"), Sent(asked, arguments={"a": {"path": "short"}}), Sent(body, "gone"), Sent(question)]
    summary, call_, results = translation.back(sent)
    assert summary == {"role": "user", "content": "summary"}
    assert call_["content"][0]["input"] == {"path": "short"}
    assert results["content"] == [{**MIXED[2]["content"][0], "content": "gone"}, MIXED[2]["content"][1]]
    assert MIXED[1]["content"][0]["input"] == {"path": "x"}


# ---- walks and figures


def log_of(session: Any) -> Log:
    return Log("made/made", session, Weights(session, unseen_head_tokens=500))


def by_turn(**of: list[int]) -> dict[str, list[int]]:
    """Columns of two requests."""
    return {name: of.get(name, [0, 0]) for name in turns.COLUMNS}


BY_TURN = by_turn(read=[0, 60], write=[100, 50], batch=[0, 1])


def test_figures_are_kept_and_found_again(tmp_path):
    row, log = rows.rules()[0], log_of(long_session(calls=6))
    cell = next(plan.cells(row, (64_000,), (1.0,)))
    results = plan.Results(tmp_path, log.name)
    key = plan.key_of(row, log)
    assert not results.has(cell, key)
    results.about = {"name": log.name}
    results.put(cell, key, {"turns": 2, "by_turn": BY_TURN})
    results.write()
    again = plan.read_results(tmp_path)[log.name]
    assert again.has(cell, key) and not again.has(cell, plan.key_of(row, log_of(long_session(calls=7))))
    assert again.cells[str(cell)]["by_turn"] == BY_TURN
    for file in (tmp_path / "turns").iterdir():
        file.unlink()
    assert not plan.read_results(tmp_path)[log.name].has(cell, key)


def test_row_is_walked_only_where_its_figures_differ():
    by_name = {r.name: r for r in [*rows.ours(), *rows.rules()]}
    count = {n: len(list(plan.cells(r, (128_000, 200_000), (1.0, 0.8)))) for n, r in by_name.items()}
    assert (count["none"], count["pi's rule"], count["thrifty"]) == (1, 4, 10)
    assert len(list(plan.cells(by_name["pi's rule"], (64_000,), (1.0, 0.8)))) == 1


def test_shifted_walk_is_told_another_window_and_another_price():
    (row,) = (r for r in rows.ours() if r.name == "thrifty")
    cells = [c for c in plan.cells(row, (200_000,), (1.0, 0.8)) if c.read_ratio == 0.1]
    assert [c.walked_window for c in cells] == [200_000, 160_000]
    assert [c.told_read_ratio for c in cells] == pytest.approx([0.1, 0.08])


def test_rows_are_chosen_by_name_by_kind_or_by_a_part_of_it():
    found = [*rows.ours(), *rows.rules()]
    assert [r.name for r in _chosen(found, "default,Codex")] == ["default", "Codex's rule"]
    assert {r.kind for r in _chosen(found, "ours,layer")} == {"ours", "layer"}
    assert len(_chosen(found, "default without")) == 4
    assert _chosen(found, "") == found


def test_walk_says_what_a_policy_costs_and_loses():
    log = log_of(long_session())
    by_name = {r.name: r for r in [*rows.ours(), *rows.rules()]}
    none, cut = (Walked(log, by_name[n], WINDOW).figures() for n in ("none", "empty"))
    assert none["misses"]["turns"] == none["prefix_breaks"] == none["invalid"] == 0
    assert none["charge_trailing"]["read"] > none["charge_trailing"]["write"] > 0
    assert cut["mean_tokens"] < none["mean_tokens"] and cut["prefix_breaks"] > 30


@pytest.mark.parametrize("name", ["empty", "Codex's rule", "clear_tool_uses 50k keep 10"])
def test_figures_of_the_requests_add_up_to_those_of_the_session(name):
    log = log_of(long_session())
    walked = Walked(log, next(r for r in rows.rules() if r.name == name), 16_000).figures()
    columns = walked["by_turn"]
    assert set(columns) == set(turns.COLUMNS) and {len(column) for column in columns.values()} == {walked["turns"]}
    sums = {column: sum(numbers) for column, numbers in columns.items()}
    assert {column: sums[column] for column in turns.CHARGED} == walked["charge_trailing"]
    for column, figure in (
        ("batch", "batches"),
        ("prefix_break", "prefix_breaks"),
        ("side_input", "side_input_tokens"),
    ):
        assert sums[column] == walked[figure] and (sums[column] > 0 or column == "side_input")
    missing = [any(missed) for missed in zip(columns["names_missed"], columns["quotes_missed"], strict=True)]
    assert sum(missing) == walked["misses"]["turns"]
    assert turns.paid(columns, 0.1)[-1] == pytest.approx(figures.price(walked, 0.1, "trailing"))
    assert turns.unpacked(json.loads(json.dumps(turns.packed(columns)))) == columns


def test_cost_when_cut_off_is_the_highest_from_the_first_batch_on():
    none = by_turn(read=[0, 100], write=[100, 100])
    early = by_turn(read=[0, 0], write=[200, 10], batch=[1, 0])
    late = {**early, "batch": [0, 1]}
    assert turns.highest(early, none, 0.1) == 2.0
    at_end = (210 * 1.25) / (200 * 1.25 + 10)
    assert turns.highest(late, none, 0.1) == turns.highest(by_turn(write=[200, 10]), none, 0.1) == pytest.approx(at_end)
    assert turns.highest(late, none, None) == pytest.approx(210 / 300)
    assert turns.paid(by_turn(side_input=[0, 7], side_output=[0, 1], plain=[5, 0]), 0.1) == [5, 17]


def test_every_request_is_exported_with_its_cost_so_far(tmp_path):
    results = plan.Results(tmp_path, "repo/made")
    results.about = {"name": "repo/made"}
    found = {r.name: r for r in [*rows.ours(), *rows.rules()]}
    wanted = [found[name] for name in ("identity", "thrifty")]
    none = {"key": "", "by_turn": by_turn(read=[0, 100], write=[100, 60])}
    own = {"key": "", "by_turn": by_turn(read=[0, 40], write=[100, 20], batch=[0, 1], names_missed=[0, 3])}
    results.cells = {"thrifty|128000|1|None": own, "default|128000|1|0.1": own, "thrifty|64000|1|0.1": own}
    assert list(export.lines(results, wanted, [128_000])) == []
    results.cells |= {"identity|128000|1|0.1": none, "thrifty|128000|1|0.1": {"key": "of before"}}
    lines_ = [dict(zip(export.HEAD, line, strict=True)) for line in export.lines(results, wanted, [128_000])]
    assert [(of["policy"], of["window_tokens"], of["request"]) for of in lines_] == [
        *(("thrifty", 128_000, 0), ("thrifty", 128_000, 1), ("identity", "", 0), ("identity", "", 1))
    ]
    last = lines_[1]
    assert (last["sent_tokens"], last["batch"], last["names_missed"], last["read_ratio"]) == (60, 1, 3, None)
    assert (last["cost_so_far"], last["uncompacted_so_far"], last["cost_so_far_at_0.1"]) == (160, 260, 154)


CELL = {
    "charge_trailing": {"read": 1_000, "write": 100, "plain": 10},
    "side_input_tokens": 7,
    "side_output_tokens": 1,
    "misses": {"turns": 2, "context_tokens": 300},
}


def test_price_counts_side_calls_and_misses():
    assert figures.price(CELL, 0.1, "trailing") == pytest.approx(100 + 125 + 10 + 7 + 5)
    assert figures.price(CELL, None, "trailing") == pytest.approx(1_000 + 100 + 10 + 7 + 5)
    misses = 300 * 0.1 + 2 * (1_500 * 1.25 + 150 * 5)
    assert figures.price(CELL, 0.1, "trailing", misses=True) == pytest.approx(247 + misses)


def test_rival_dominates_only_when_nothing_is_worse():
    assert figures.dominates([0.5, 0.1, None], [0.5, 0.2, None])
    assert not figures.dominates([0.5, 0.1], [0.5, 0.1])
    assert not figures.dominates([0.4, 0.3], [0.5, 0.2])
