"""What can be had back, what of the user's words stays, whether rules survive and copies are true."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loss_help import FORMATS, call, measured, padding, recorded
from loss_help import recorded as session_of
from packlight.compactor import Compactor
from packlight.replay.loss import (
    ConstraintSurvival,
    CopyTruth,
    EditQuotes,
    Findability,
    FutureReferences,
    Losses,
    MessageTexts,
    UserWords,
)
from packlight.replay.loss.constraints import POSITIONS, RULES, Position, constraints_in, plant
from packlight.replay.loss.controls import Control, ControlReport, empty, identity, tail
from packlight.replay.loss.rebuilt import CopyLine, copied_lines
from packlight.replay.readers import read_sessions
from packlight.replay.walk import walk
from packlight.store import Document, MemoryStore
from packlight.store.base import BatchRow, text_hash
from packlight.summary.frame import BEGIN, END, TITLES
from packlight.types import Edit, FormatName

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.jsonl"))


class Batches(Control):
    """A control whose every request but the first is a new batch of edits."""

    def fit(self, request: Any, /, **about: Any) -> Any:
        c = super().fit(request, **about)
        edits = (Edit("made", "cleared", (0,), (1,), ()),) if c.changed else ()
        return SimpleNamespace(
            request=c.request,
            changed=c.changed,
            fits=True,
            restore=c.restore,
            report=ControlReport(c.report.tokens_before, c.report.tokens_after, edits),
        )


def store_of(*documents: Document) -> MemoryStore:
    store = MemoryStore()
    row = BatchRow(
        id="b", parent=None, owner="", conversation="c", key=b"k", key_index=1, result=b"r", result_index=1,
        body=b"", originals=(), version=1, created_seconds=0.0,
    )  # fmt: skip
    store.put_batch(row, {}, documents, chain=[b"k"])
    return store


def document(text: str, path: str = "", kind: str = "result") -> Document:
    return Document(ref=text_hash(text)[:12], text=text, conversation="c", kind=kind, path=path)


# ---- findability

LOST = "def load_all(max_rows):\n    return load_rows(max_rows)"
NEEDING = [
    ("user", "Go."),
    call("Read", LOST, file_path="src/rows.py"),
    *padding(3),
    call("Edit", file_path="src/rows.py", old_string="    return load_rows(max_rows)", new_string="    pass"),
]


def found(store: MemoryStore | None, shown: str = "") -> Any:
    def plan(messages: Sequence[Any]) -> list[Any]:
        return [{"role": "user", "content": shown or "Go."}]

    texts = MessageTexts("anthropic")
    references, quotes = FutureReferences(texts), EditQuotes(texts)
    measure = Findability(texts, store, references, quotes)
    for each in walk(recorded(NEEDING), Control(plan)):
        for m in (references, quotes, measure):
            m.see(each)
    return measure.result


def test_one_recall_by_path() -> None:
    result = found(store_of(document(LOST, "/repo/src/rows.py")))
    assert (result.names.missed, result.names.by_path, result.names.by_reference) == (2, 2, 0)
    assert (result.quotes.missed, result.quotes.by_path, result.quotes.found) == (1, 1, 1)
    assert (result + result).names.ratio == 1.0


def test_one_recall_by_visible_reference() -> None:
    kept = document(LOST)
    assert found(store_of(kept)).names.found == 0
    result = found(store_of(kept), f"[cleared: ref {kept.ref}]")
    assert (result.names.by_path, result.names.by_reference, result.quotes.by_reference) == (0, 2, 1)


def test_recall_shows_one_page() -> None:
    assert found(store_of(document("x\n" * 20_000 + LOST, "src/rows.py"))).names.found == 0


def test_arguments_are_read_without_escapes() -> None:
    text = '{"content": "def load_all(max_rows):\\n    return load_rows(max_rows)"}'
    assert found(store_of(document(text, "src/rows.py", "arguments"))).quotes.by_path == 1


def test_engine_without_store() -> None:
    assert found(None) is None


# ---- the user's words

SAID = "Please fix it.\nNever touch migrations.\n\nThe port is 8080."
TALK = [("user", SAID), *padding(2), ("user", "<system-reminder>only a note</system-reminder>"), *padding(2)]


@pytest.mark.parametrize("format", FORMATS)
def test_words_are_kept_by_lines(format: FormatName) -> None:
    def plan(messages: Sequence[Any]) -> list[Any]:
        return [{"role": "user", "content": "Please fix it.\nThe port is 8080."}, *messages[1:]]

    result = measured(UserWords, session_of(TALK, format), Batches(plan)).result
    end = result.at_end
    assert (end.lines, end.lines_kept, end.short_messages, end.short_messages_kept) == (3, 2, 1, 0)
    assert (end.chars, end.chars_kept) == (14 + 23 + 17, 14 + 17)
    assert len(result.at_batches) == 4


def test_what_a_tool_prints_is_not_the_users_word() -> None:
    steps = [("user", SAID), call("Bash", SAID, command="cat notes"), *padding(1)]
    measure = measured(UserWords, session_of(steps), Control(lambda messages: list(messages[1:])))
    assert measure.result.at_end.lines_kept == 0


def test_words_under_controls() -> None:
    session = session_of(TALK)
    assert measured(UserWords, session, identity()).result.at_end.ratio == 1.0
    assert measured(UserWords, session, Control(lambda _: [])).result.at_end.ratio == 0.0


# ---- rules


def test_rules_are_told_from_talk() -> None:
    text = "Hello there.\nNever use tabs.\n  don't commit  \n请不要修改测试\nThe sky is blue."
    assert constraints_in(text) == ["Never use tabs.", "don't commit", "请不要修改测试"]


def test_rule_survives_so_many_compactions() -> None:
    """Gone from the third batch on."""

    def plan(messages: Sequence[Any]) -> list[Any]:
        return [*messages[:1], *messages[2:]] if len(messages) < 8 else list(messages[2:])

    session = session_of([("user", SAID), *padding(5)])
    (rule,) = (survival := measured(ConstraintSurvival, session, Batches(plan)).result).constraints
    assert (rule.line, rule.stated) == ("Never touch migrations.", 0)
    assert rule.present == (True, True, True, True, False)
    assert rule.after_compactions == (True, True, True, False)
    assert [survival.after(n) for n in (1, 3, 4, 5)] == [1.0, 1.0, 0.0, None]
    assert [survival.at(ratio) for ratio in (0.05, 1.0)] == [1.0, 0.0]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("position", POSITIONS)
def test_planted_rules_stand_where_they_should(format: FormatName, position: Position) -> None:
    session = session_of([("user", "Go."), *padding(20)], format)
    planted = plant(session, position)
    assert planted.turns == session.turns
    assert "release-4417" not in str(session)

    def survived(engine: Any) -> Any:
        return measured(lambda texts: ConstraintSurvival(texts, RULES), planted, engine).result

    rules = survived(identity()).constraints
    assert [c.line for c in rules] == list(RULES)
    assert {c.stated for c in rules} == {{"top": 0, "middle": 10, "end": 18}[position]}
    gone = survived(Control(lambda messages: list(messages[-1:]))).constraints
    assert not any(c.present[-1] for c in gone)


def test_tail_forgets_rules_of_the_middle() -> None:
    """What the published tables say of truncation."""
    session = plant(session_of([("user", "Go."), *padding(200)]), "middle")
    measure = measured(lambda texts: ConstraintSurvival(texts, RULES), session, tail(2_000))
    assert [c.at(0.05) for c in measure.result.constraints] == [True] * len(RULES)
    assert [c.at(1.0) for c in measure.result.constraints] == [False] * len(RULES)


# ---- copies

COPIES = f"""{BEGIN}

{TITLES["copies"]}
--- src/a.py
@1
first line of it
second line of it
@9
ninth line of it
--- diff of something
--- src/b.py
@?
line somewhere in it

{END}"""
PATHS = ("src/a.py", "src/b.py")


def test_copies_are_read_off_a_digest() -> None:
    assert list(copied_lines(COPIES, PATHS)) == [
        ("src/a.py", CopyLine(1, "first line of it")),
        ("src/a.py", CopyLine(2, "second line of it")),
        ("src/a.py", CopyLine(9, "ninth line of it")),
        ("src/a.py", CopyLine(10, "--- diff of something")),
        ("src/b.py", CopyLine(0, "line somewhere in it")),
    ]


def truth(*later: Any) -> Any:
    def plan(messages: Sequence[Any]) -> list[Any]:
        return [{"role": "user", "content": COPIES}]

    class Once(Batches):
        made = 0

        def fit(self, request: Any, /, **about: Any) -> Any:
            c = super().fit(request, **about)
            self.made += 1
            if self.made != 3:
                c.report = ControlReport(0, 0)
            return c

    steps = [("user", "Go."), call("Read", "x", path="src/a.py"), call("Read", "x", path="src/b.py"), ("say", "now")]
    return measured(CopyTruth, session_of([*steps, *later, ("say", "done")]), Once(plan))


def test_next_read_confirms_copies() -> None:
    file = "first line of it\nsecond line, changed\n3\n4\n5\n6\n7\nninth line of it"
    measure = truth(call("Read", file, path="/repo/src/a.py"), call("Read", "line somewhere in it", path="src/b.py"))
    result = measure.result
    assert (result.compared, result.confirmed, result.numbered, result.in_place, result.reads) == (5, 3, 2, 1, 2)
    assert [w.line.text for w in measure.wrong] == ["second line of it", "--- diff of something"]


def test_partial_read_speaks_for_its_lines() -> None:
    result = truth(call("Read", "     9→ninth line of it\n    10→other", path="src/a.py", offset=9, limit=2)).result
    assert (result.compared, result.confirmed, result.in_place) == (2, 1, 1)


def test_own_edits_are_no_errors_of_a_copy() -> None:
    edit = call("Edit", path="src/a.py", old_string="second line of it", new_string="new")
    result = truth(edit, call("Read", COPIES.replace("second", "2nd"), path="src/a.py"))
    assert (result.result.compared, result.result.ratio) == (3, 1.0)
    written = truth(call("Write", path="src/a.py", content="all new"), call("Read", "all new", path="src/a.py"))
    assert written.result.compared == 0


@pytest.mark.parametrize("command", ["git rebase origin/main", "python - <<'E'\nopen('src/a.py','w').write(x)\nE"])
def test_what_a_command_sets_anew_is_no_error_of_a_copy(command: str) -> None:
    changed = call("Read", "all new", path="src/a.py")
    assert truth(changed).result.compared == 4
    assert truth(call("Bash", "done", command=command), changed).result.compared == 0


def test_a_relative_path_that_ends_like_another_may_be_another_file() -> None:
    """What is read there says nothing of a copy; what is written there might be it."""
    assert truth(call("Read", "all new", path="a.py")).result.compared == 0
    assert truth(call("Read", "all new", path="/repo/src/a.py")).result.compared == 4
    written = truth(call("Write", path="a.py", content="all new"), call("Read", "all new", path="src/a.py"))
    assert written.result.compared == 0


def test_policy_without_copies() -> None:
    assert measured(CopyTruth, session_of(TALK), identity()).result is None


# ---- together


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_all_measures_on_a_recorded_session(path: Path) -> None:
    (session,) = read_sessions(path)
    engine = Compactor(session.model, window_tokens=70_000)
    losses = measured(lambda texts: Losses(texts, engine.store), session, engine)
    result = losses.result
    missed = result.references.rows[0].references - result.references.rows[0].visible
    assert result.found.names.missed == missed
    assert 0 <= result.found.names.found <= missed
    assert result.words.at_end.ratio is None or 0 < result.words.at_end.ratio <= 1
    nothing = measured(lambda texts: Losses(texts, None), session, empty()).result
    assert nothing.found is None and nothing.copies is None
    assert nothing.quotes.ratio in (0.0, None)
