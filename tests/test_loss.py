"""What is lost is found, and nothing else: references and quotes, in every wire format, on sessions made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from loss_help import FORMATS, Step, call, measured, padding, recorded
from packlight.compactor import Compactor
from packlight.replay.loss import EditQuotes, FutureReferences
from packlight.replay.loss.controls import Control, bag, empty, identity, tail
from packlight.replay.readers import read_sessions
from packlight.replay.session import Segment, Session
from packlight.types import FormatName

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.jsonl"))
FOUND = "src/app/loader.py:12: def load_config(path):\nid 7f3a9c21 port 8080"
READ = "    return load_config(path)"
OLD = f"{READ}\n    #"
STEPS: list[Step] = [
    ("user", "Fix first_prompt.py."),
    call("Grep", FOUND, pattern="own_pattern"),
    *padding(11),
    call(
        "Read", "1\tdef f(path):\n2\t    return load_config(path)\n3\t    # end\n", file_path="/repo/src/app/loader.py"
    ),
    call("Edit", file_path="src/app/loader.py", old_string=OLD, new_string="    return load_config(8080)"),
    ("user", "Also rename old_name, please."),
    call("Bash", command="grep old_name first_prompt.py own_pattern"),
]


def names(measure: FutureReferences) -> list[tuple[str, int, bool, bool]]:
    return [(r.name, r.age_calls, r.visible, r.in_place) for r in measure.references]


@pytest.mark.parametrize("format", FORMATS)
def test_references_and_their_age(format: FormatName) -> None:
    """What the first prompt or the agent brought up is none; age is counted from the last mention."""
    measure = measured(FutureReferences, recorded(STEPS, format), identity())
    assert names(measure) == [
        ("repo/src/app/loader.py", 12, True, True),
        ("8080", 13, True, True),
        ("load_config", 1, True, True),
        ("src/app/loader.py", 1, True, True),
        ("old_name", 1, True, True),
    ]
    result = measure.result
    assert [result.rows[age].references for age in (0, 5, 10, 30)] == [5, 2, 2, 0]
    assert (result.calls, result.calls_whole) == (3, 3)


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_cut_is_missed(format: FormatName) -> None:
    """Without the search's result the number is gone; the path and the symbol stand in the newest read."""

    def without_search(messages: Sequence[Any]) -> list[Any]:
        return [m for m in messages if "7f3a9c21" not in str(m)]

    measure = measured(FutureReferences, recorded(STEPS, format), Control(without_search))
    missed = [name for name, _, visible, _ in names(measure) if not visible]
    assert missed == ["repo/src/app/loader.py", "8080"]
    assert measure.result.rows[10].ratio == 0.0
    assert measure.result.calls_whole == 1


@pytest.mark.parametrize("format", FORMATS)
def test_quotes_of_edits(format: FormatName) -> None:
    session = recorded(STEPS, format)
    assert measured(EditQuotes, session, identity()).result.ratio == 1.0
    measure = measured(EditQuotes, session, empty())
    (quote,) = measure.quotes
    assert quote.missing == (READ,)
    assert quote.path == "src/app/loader.py"
    assert measure.result.ratio == 0.0


def test_quotes_of_patches_and_batches() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n context line\n-old line of it\n+new\n*** End Patch"
    steps = [
        ("user", "Go on."),
        call("Read", "context line\nold line of it\nanother text", path="a.py"),
        call("apply_patch", input=patch),
        call("MultiEdit", path="a.py", edits=[{"old_text": "another text", "new_text": "x"}]),
        call("Edit", path="a.py", old_text="nowhere to be seen", new_text="x"),
        call("Edit", path="a.py", old_text="short", new_text="x"),
    ]
    result = measured(EditQuotes, recorded(steps), identity()).result
    assert (result.edits, result.quotable, result.quoted) == (3, 2, 2)
    assert (result + result).quotable == 4


def test_names_alone_are_not_in_place() -> None:
    """A bag of names is visible, but tells nothing of what was said about them."""

    def bagged(messages: Sequence[Any]) -> list[Any]:
        return [{"role": "user", "content": "load_config\n8080\nsrc/app/loader.py\nold_name"}]

    measure = measured(FutureReferences, recorded(STEPS), Control(bagged))
    assert [visible for _, _, visible, _ in names(measure)] == [True] * 5
    assert not any(in_place for *_, in_place in names(measure))


def test_half_of_the_words_of_a_line_are_in_place() -> None:
    def shortened(messages: Sequence[Any]) -> list[Any]:
        return [{"role": "user", "content": "src/app/loader.py def\nload_config\nport id 8080"}]

    measure = measured(FutureReferences, recorded(STEPS), Control(shortened))
    assert {name for name, _, _, in_place in names(measure) if in_place} == {"8080"}


def test_recorded_window_is_what_the_agent_had() -> None:
    """After the agent's own compaction only what its new window holds counts; origin is known from before."""
    session = recorded(STEPS)
    later = recorded(
        [("user", "Summary: port 8080, first_prompt.py."), call("Bash", command="use 8080 load_config first_prompt.py")]
    )
    session = Session("made", "messages", "anthropic", [*session.segments, *later.segments])
    measure = measured(FutureReferences, session, identity())
    assert names(measure)[5:] == [("8080", 1, True, True)]


def test_rewind_keeps_the_age_of_what_stays() -> None:
    first = recorded(STEPS).segments[0]
    again = Segment(first.messages[:-2], first.turns[-2:-1])
    session = Session("made", "messages", "anthropic", [first, again])
    measure = measured(FutureReferences, session, identity())
    assert ("8080", 15, True, True) in names(measure)[5:]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_controls_on_recorded_sessions(path: Path) -> None:
    """Identity loses nothing; a bag of names is better at names than the tail, and not better at quotes."""
    (session,) = read_sessions(path)

    def both(engine: Any) -> tuple[Any, Any]:
        return tuple(measured(m, session, engine).result for m in (FutureReferences, EditQuotes))  # type: ignore[return-value]

    names, quotes = both(identity())
    assert {r.ratio for r in names.rows.values()} | {r.in_place_ratio for r in names.rows.values()} <= {1.0, None}
    assert quotes.ratio in (1.0, None)
    whole = names.rows[0].references
    names, quotes = both(empty())
    assert names.rows[0].references == whole
    assert names.rows[0].ratio < 0.1
    (tail_names, tail_quotes), (bag_names, bag_quotes) = both(tail(30_000)), both(bag(30_000, session.format))
    assert bag_names.rows[10].ratio > tail_names.rows[10].ratio
    assert bag_names.rows[10].in_place_ratio < bag_names.rows[10].ratio
    assert (bag_quotes.ratio or 0) <= (tail_quotes.ratio or 0)
    assert tail_names.rows[0].chance_ratio < tail_names.rows[0].ratio


@pytest.mark.parametrize("budget", [2_000, 20_000, 50_000])
def test_more_is_never_worse(budget: int) -> None:
    (session,) = read_sessions(EXAMPLES[0])

    def with_more(engine: Control) -> Control:
        return Control(lambda messages: [*engine.plan(messages), {"role": "user", "content": "more read_file 8080"}])

    less, more = tail(budget), with_more(tail(budget))
    for make in (FutureReferences, EditQuotes):
        a, b = (measured(make, session, engine) for engine in (less, more))
        seen_a = [not q.missing for q in a.quotes] if make is EditQuotes else [r.visible for r in a.references]
        seen_b = [not q.missing for q in b.quotes] if make is EditQuotes else [r.visible for r in b.references]
        assert all(y or not x for x, y in zip(seen_a, seen_b, strict=True))


def test_engine_is_measured_the_same_each_time() -> None:
    """Nothing hangs on the order of sets, and the measure leaves the request alone."""
    (session,) = read_sessions(EXAMPLES[0])

    def run() -> Any:
        return measured(FutureReferences, session, Compactor(session.model, window_tokens=60_000)).result

    first = run()
    assert first == run()
    assert 0 < first.rows[0].visible < first.rows[0].references
