"""What an agent's own summary kept, counted on a session made by hand, beside the digest in as many tokens."""

from __future__ import annotations

import pytest

from loss_help import FORMATS, call, recorded
from packlight.replay.loss.recorded import ComparedCompaction, Kept, compare_compactions
from packlight.replay.session import RecordedCompaction, Session
from packlight.types import FormatName

BEFORE = [
    ("user", "Fix it."),
    call("Read", "def load_rows(max_rows): pass\n" * 40, file_path="/repo/src/rows.py"),
    call("Read", "PAGE_SIZE = 50\n" * 40, file_path="/repo/src/pages.py"),
    call("Read", "again", file_path="/repo/src/pages.py"),
    call("Edit", file_path="/repo/src/rows.py", old_string="pass", new_string="return own_name"),
    ("user", "Never touch\nmigrations."),
    ("say", "I shall keep that in mind."),
]
SUMMARY = "The user said: Never touch migrations. I changed rows.py; PAGE_SIZE matters, and so on. " + "Words. " * 200
AFTER = [
    ("user", SUMMARY),
    call("Bash", "2 files: load_rows", command="grep PAGE_SIZE max_rows new_name"),
    call("Read", "PAGE_SIZE = 50", file_path="/repo/src/pages.py"),
    call("Read", "other", file_path="/repo/src/other.py"),
    call("Bash", command="grep load_rows PAGE_SIZE own_name"),
]


def session(format: FormatName = "anthropic", summary: str = SUMMARY) -> Session:
    before, after = (recorded(steps, format).segments[0] for steps in (BEFORE, AFTER))
    after.compaction = RecordedCompaction("compaction", summary)
    return Session("made", "messages", format, [before, after])


@pytest.mark.parametrize("format", FORMATS)
def test_what_the_summary_kept(format: FormatName) -> None:
    """`load_rows` was told again before it was used again; `own_name` and `new_name` came from the agent."""
    (compared,) = compare_compactions(session(format))
    kept = compared.summary
    assert (kept.edited, kept.edited_named, kept.only_read, kept.only_read_named) == (1, 1, 1, 0)
    assert (kept.short_messages, kept.short_messages_quoted) == (2, 1)
    assert (kept.references, kept.references_visible) == (2, 1)
    assert compared.recorded.references_visible == 1
    assert (compared.reads, compared.reads_again, compared.reads_before, compared.reads_before_again) == (2, 1, 3, 1)


@pytest.mark.parametrize("format", FORMATS)
def test_digest_gets_as_many_tokens(format: FormatName) -> None:
    (compared,) = compare_compactions(session(format))
    kept = compared.digest
    assert 0 < kept.tokens <= compared.recorded.tokens
    assert (kept.edited_named, kept.only_read_named, kept.short_messages_quoted) == (1, 1, 2)


def test_messages_that_came_along_count_for_both() -> None:
    made = session()
    made.segments[1].messages[1:1] = made.segments[0].messages[-3:]
    for turn in made.segments[1].turns:
        turn.end += 3
    (compared,) = compare_compactions(made)
    assert compared.recorded.short_messages_quoted == 1
    assert compared.digest.tokens <= compared.recorded.tokens


def test_windows_without_a_readable_summary_are_left_out() -> None:
    assert compare_compactions(session(summary="")) == ()
    alone = session()
    alone.segments = alone.segments[1:]
    assert compare_compactions(alone) == ()


def test_results_add_up() -> None:
    (compared,) = compare_compactions(session())
    twice = compared.summary + compared.summary
    assert isinstance(compared, ComparedCompaction)
    assert (twice.edited, twice.references) == (2, 4)
    assert Kept() + compared.digest == compared.digest
