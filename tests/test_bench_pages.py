"""The benchmark's pages: which sessions are walked, and what the figures are made into."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.compaction import aims, figures, loses, page, plan, rows, tables
from bench.compaction.__main__ import ROOT, pages
from bench.compaction.chosen import DESIGNED_ON, chosen
from bench.compaction.columns import COST, CUT_OFF, EQR, FRR, Column
from bench.compaction.rows import Row
from bench.compaction.turns import COLUMNS

ROWS = {r.name: r for r in [*rows.ours(), *rows.rules()]}
RIVAL = "clear_tool_uses 50k keep 10, at least 12k"


# ---- which sessions


def recorded(folder: Path, name: str, words: int, start: int = 0) -> None:
    """A session of as many different words."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    texts = [" ".join(f"word{n}" for n in range(at, at + 500)) for at in range(start, start + words, 500)]
    turns = [
        {"role": role, "content": text} for text in texts for role, text in (("user", text), ("assistant", "Yes."))
    ]
    file.write_text(json.dumps(turns))


def names(folder: Path, least: int = 25_000) -> list[str]:
    return [log.name for log in chosen(folder, least)]


def test_longest_session_of_each_repository_is_chosen(tmp_path):
    for name, words, start in (
        ("a/short.json", 2_000, 0),
        ("a/deep/long.json", 3_000, 9_000),
        ("b/b.json", 2_000, 20_000),
    ):
        recorded(tmp_path, name, words, start)
    recorded(tmp_path, "c/too-short.json", 100, 40_000)
    assert names(tmp_path) == ["deep/long", "b/b"]


def test_sessions_that_an_aim_is_set_for_are_chosen_as_well(tmp_path):
    recorded(tmp_path, f"a/{DESIGNED_ON[0]}.json", 2_000)
    recorded(tmp_path, "a/long.json", 3_000, 9_000)
    assert names(tmp_path) == ["a/long", f"a/{DESIGNED_ON[0]}"]


def test_copy_is_left_out_even_of_a_session_that_is_not_chosen(tmp_path):
    recorded(tmp_path, "a/first.json", 2_000)
    recorded(tmp_path, "a/longer.json", 3_000, 9_000)
    recorded(tmp_path, "copies/first.json", 2_500)
    assert names(tmp_path) == ["a/longer"]


def test_session_filled_up_with_one_text_is_left_out(tmp_path):
    recorded(tmp_path, "a/a.json", 2_000)
    turns = json.loads((tmp_path / "a/a.json").read_text())
    (tmp_path / "b").mkdir()
    (tmp_path / "b/b.json").write_text(json.dumps([{"role": "user", "content": "the same " * 3_000}, turns[1]] * 5))
    assert names(tmp_path) == ["a/a"]


def test_files_in_the_folder_itself_stand_for_themselves(tmp_path):
    recorded(tmp_path, "a.json", 2_000)
    recorded(tmp_path, "b.json", 2_000, 9_000)
    assert [name.partition("/")[2] for name in names(tmp_path)] == ["a", "b"]


# ---- what the figures are made into


def cell(cost: int, kept: int = 100, quoted: int = 100, words: int = 100, **more: Any) -> dict[str, Any]:
    """Figures of a walk, of hundred names and hundred edits."""
    names = {"references": 100, "visible": kept, "in_place": kept, "drawn": 100, "drawn_visible": 10}
    charge = {"read": 0, "write": 0, "plain": cost}
    return {
        "charge_trailing": charge,
        "charge_best": charge,
        "side_input_tokens": 0,
        "side_output_tokens": 0,
        "misses": {"turns": 0, "context_tokens": 0},
        "references": dict.fromkeys(("0", "10", "30"), names),
        "quotes": {"quotable": 100, "quoted": quoted},
        "recall": None,
        "copies": None,
        "rules": {"1": [1, 1], "3": [0, 0]},
        "words_at_end": [words, 100],
        "mean_tokens": 50_000,
        "largest_tokens": 100_000,
        "batches": 1,
        "prefix_breaks": 1,
        "invalid": 0,
        "over": {"128000": 0},
        "ms_per_turn": 0.5,
        "key": "now",
        **more,
    }


def results(tmp_path: Path, name: str = "repo/made", tokens: int = 190_000, **of: dict[str, Any]) -> plan.Results:
    """A session with these walks in a window of 128,000 tokens, and one that does nothing."""
    made = plan.Results(tmp_path, name)
    made.about = {"name": name, "reader": "x", "format": "anthropic", "model": None, "turns": 7, "tokens": tokens}
    made.about["head_tokens"] = 1_000
    for row, figures_ in {"identity": cell(100), **of}.items():
        made.cells[f"{row}|128000|1|0.1"] = figures_
    return made


def test_page_says_what_no_policy_goes_below(tmp_path):
    """Every token written once, system and tools read by each of the six later calls."""
    found = {"repo/made": results(tmp_path, identity=cell(500_000))}
    least = (190_000 * 1.25 + 1_000 * 0.1 * 6) / 500_000
    assert f"costs {least:.2f} of" in page.page(found, [ROWS["identity"]], {})


def losses(made: plan.Results, read: loses.Reading = Column.on) -> tuple[loses.Loss, ...]:
    shown = [ROWS[n] for n in ("identity", "default", "thrifty", RIVAL)]
    return loses.compared({made.about["name"]: made}, shown, (128_000,), read).losses


def around(row: str, *of: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Walks in the windows around 128,000 tokens."""
    return {f"{row}|128000|{shift:g}|0.1": cell for shift, cell in zip(plan.SHIFTS[1:], of, strict=True)}


@pytest.mark.parametrize(
    ("own", "rival", "why"),
    [
        (cell(90, 95), cell(80, 95), [""]),
        (cell(90, 95), cell(89, 95), [loses.LUCK]),
        (cell(90, 95, words=90), cell(80, 95, words=40), ["the user's words stay (law 5): 90 %, there 40 %"]),
        (cell(100), cell(80), [loses.LEFT_ALONE]),
        (cell(100, 60), cell(80, 60), [""]),
        (cell(90, 95), cell(80, 95, largest_tokens=70_000), [loses.HANDS_ON]),
        (cell(90, 95), cell(80, 94), []),
        (cell(90, 95), cell(90, 95), []),
        (cell(90, 95), cell(80, 95, over={"128000": 1}), []),
        (cell(90, 95), cell(80, 95, invalid=1), []),
    ],
)
def test_loss_is_told_with_its_law(own, rival, why, tmp_path):
    assert [loss.why for loss in losses(results(tmp_path, default=own, **{RIVAL: rival}))] == why


@pytest.mark.parametrize(
    ("own", "rival", "why", "on_average"),
    [
        ((90, 70, 70, 70, 70), 80, [loses.LUCK], []),
        ((90, 95, 95, 70, 95), 80, [""], [""]),
        ((79, 90, 90, 90, 90), 80, [], [""]),
    ],
)
def test_loss_is_luck_where_it_is_none_on_the_mean_of_the_windows_around(own, rival, why, on_average, tmp_path):
    made = results(tmp_path, default=cell(own[0], 95), **{RIVAL: cell(rival, 95)})
    made.cells |= around("default", *(cell(cost, 95) for cost in own[1:]))
    assert [loss.why for loss in losses(made)] == ([""] if why else [])  # the rival was not walked there
    assert losses(made, Column.around) == ()
    made.cells |= around(RIVAL, *[cell(rival, 95)] * 4)
    assert [loss.why for loss in losses(made)] == why
    assert [loss.why for loss in losses(made, Column.around)] == on_average
    shown = page.page({"repo/made": made}, [ROWS[n] for n in ("identity", "default", RIVAL)], {})
    assert ("128,000 and around" in shown) == bool(on_average)
    made.cells |= around(RIVAL, *[cell(rival, 95, over={"128000": 1})] * 4)
    assert losses(made, Column.around) == ()


def test_rival_that_does_the_same_in_every_window_is_compared_with_ours_in_five(tmp_path):
    masking = "mask all but the last 10"
    made = results(tmp_path, default=cell(90, 95), **{masking: cell(80, 95, over={"128000": 0, "200000": 0})})
    shown = [ROWS[n] for n in ("identity", "default", masking)]
    for others, lost in ((85, 1), (70, 0)):
        made.cells |= around("default", *[cell(others, 95)] * 4)
        assert len(loses.compared({"repo/made": made}, shown, (128_000,), Column.around).losses) == lost


def test_page_shows_a_rival_that_wins_and_what_was_not_run(tmp_path):
    shown = [ROWS[n] for n in ("identity", "default", RIVAL)]
    made = {"repo/made": results(tmp_path, default=cell(90, 95), **{RIVAL: cell(80, 95)})}
    text = page.page(made, shown, {"other": "can't be installed"})
    assert f"| repo/made | default | {RIVAL} |  | 128,000 | 0.80 / 0.90 | 0.05 / 0.05 | 0.00 / 0.00 |" in text
    assert "| **default** | 1 | 0.90 | 0.90 | 95 | 100 | 100 | 100 | 0 | 0 | 0.5 |" in text
    assert "- other: can't be installed" in text
    alone = {"repo/made": results(tmp_path, default=cell(100), **{RIVAL: cell(80)})}
    assert f"| repo/made | default | {RIVAL} (0.80) | 128,000 |" in page.page(alone, shown, {})


def test_sessions_that_the_digest_was_designed_on_are_part_of_no_mean(tmp_path):
    designed = results(tmp_path, f"pi/{DESIGNED_ON[0]}", default=cell(10))
    found = {"repo/made": results(tmp_path, default=cell(90)), f"pi/{DESIGNED_ON[0]}": designed}
    assert "| **default** | 1 | 0.90 |" in page.page(found, [ROWS["default"]], {})
    full = tables.page(found, [ROWS["default"]])
    assert "| **default** | 1 | 0.90 |" in full and "| **default** | 0.10 |" in full


def test_means_over_all_formats_hold_only_rows_walked_on_each(tmp_path):
    chat = results(tmp_path, "repo/chat", default=cell(50))
    chat.about["format"] = "chat"
    found = {"repo/made": results(tmp_path, default=cell(90), **{RIVAL: cell(80)}), "repo/chat": chat}
    _, _, everywhere = tables.page(found, list(ROWS.values())).partition("### In every format")
    everywhere, _, by_session = everywhere.partition("## By session")
    assert "| **default** | 2 | 0.70 |" in everywhere and RIVAL not in everywhere and RIVAL in by_session


def test_session_is_no_part_of_a_window_that_its_tools_fill(tmp_path):
    full = results(tmp_path, "repo/full", default=cell(10), **{RIVAL: cell(5)})
    full.about |= {"head_tokens": 100_000, "format": "chat"}
    found = {"repo/made": results(tmp_path, default=cell(90), **{RIVAL: cell(80)}), "repo/full": full}
    assert plan.with_room([64_000, 128_000, 200_000], 100_000) == [200_000]
    assert COST.by_session(found, ROWS["default"], 128_000) == {"repo/made": 0.9}
    assert loses.compared(found, [ROWS["default"], ROWS[RIVAL]], (128_000,)).pairs == 1


def test_aim_is_told_with_the_sessions_that_are_furthest_from_it(tmp_path):
    found = {
        f"repo/{n}": results(tmp_path, f"repo/{n}", default=cell(90, kept)) for n, kept in enumerate((90, 98, 100))
    }
    lines = [line for line in aims.lines(found, ROWS.values()) if line[2:4] == ["over 10", "128,000"]]
    assert lines == [
        ["default", "all (3), mean", "over 10", "128,000", "at least 95.0 %", "96.0 %", "90.0 %", "100.0 %", "yes"]
    ]


def test_sessions_that_miss_what_is_meant_for_each_are_named(tmp_path):
    made = {
        f"repo/{n}": results(tmp_path, f"repo/{n}", 100_000, default=cell(100, kept)) for n, kept in enumerate((90, 99))
    }
    for of_session in made.values():
        of_session.cells = {n.replace("|128000|", "|200000|"): figures for n, figures in of_session.cells.items()}
    assert aims.missed(made, ROWS.values()) == [
        "- default, over 10 at 200,000 tokens, at least 99.0 %: repo/0 (90.0 %)"
    ]


def test_what_is_paid_when_a_session_is_cut_off_is_that_of_the_worst_session(tmp_path):
    def paying(*plain: int) -> dict[str, Any]:
        return cell(sum(plain), by_turn={**dict.fromkeys(COLUMNS, (0, 0)), "plain": plain, "batch": (1, 0)})

    found = {name: results(tmp_path, name, default=paying(first, 10)) for name, first in (("r/a", 60), ("r/b", 55))}
    assert CUT_OFF.of_all(found, ROWS["default"], 128_000) is None  # nothing to compare with
    for made in found.values():
        made.cells["identity|128000|1|0.1"] = paying(50, 50)
    assert CUT_OFF.by_session(found, ROWS["default"], 128_000) == {"r/a": 1.2, "r/b": 1.1}
    assert CUT_OFF.of_all(found, ROWS["default"], 128_000) == 1.2
    found["r/b"].cells["default|128000|1|0.1"] = cell(65)  # walked before the figures of requests were kept
    assert CUT_OFF.of_all(found, ROWS["default"], 128_000) is None


def test_aim_for_sessions_that_fit_leaves_out_the_others(tmp_path):
    aim = aims.Aim("default", 128_000, "0.1", most=1.0, over="worst", of="that fit")
    found = {
        n: results(tmp_path, n, tokens, default=cell(cost))
        for n, tokens, cost in (("r/a", 90_000, 99), ("r/b", 190_000, 200))
    }
    values = aim.by_session(found, ROWS["default"])
    assert values == {"r/a": 0.99} and aim.met(aim.measured(list(values.values())))


def spread(made: plan.Results, row: Row = ROWS["default"]) -> list[figures.Value | None]:
    return [column.around(made, row, 128_000) for column in (COST, FRR, EQR)]


def test_luck_is_shown_where_the_windows_around_were_walked(tmp_path):
    made = results(tmp_path, default=cell(90, 95))
    assert spread(made) == [None, None, None]
    made.cells |= around("default", *(cell(cost, 85) for cost in (70, 75, 80, 85)))
    assert spread(made)[0] == figures.Value(0.8, 0.7, 0.9)
    text = page.page({"repo/made": made}, [ROWS["default"]], {})
    assert "| **default** | 128,000 | 1 | 0.80 (0.70 to 0.90) | 87 (85 to 95) | 100 (100 to 100) |" in text
    assert "| **default** | 1 | 0.90 |" in text  # elsewhere the window itself


def test_luck_is_not_shown_of_a_row_that_was_not_walked_so_on_every_session(tmp_path):
    found = {name: results(tmp_path, name, default=cell(90)) for name in ("repo/a", "repo/b")}
    found["repo/a"].cells |= around("default", *[cell(80)] * 4)
    assert "How much of it is luck" not in page.page(found, [ROWS["default"]], {})
    found["repo/b"].cells |= around("default", *[cell(70)] * 4)
    assert "| **default** | 128,000 | 2 | 0.78 (0.75 to 0.90) |" in page.page(found, [ROWS["default"]], {})


def test_walks_of_older_code_are_no_part_of_the_luck(tmp_path):
    made = results(tmp_path, default=cell(90))
    made.cells |= around("default", *(cell(70, key=key) for key in ("now", "now", "now", "before")))
    assert spread(made) == [None, None, None]


@pytest.mark.parametrize("name", ["benchmark.md", "benchmark-tables.md"])
def test_page_in_the_docs_is_that_of_the_committed_figures(name, tmp_path):
    assert (ROOT / "docs" / name).read_text() == pages(ROOT / "bench/results/compaction", tmp_path)[name]
