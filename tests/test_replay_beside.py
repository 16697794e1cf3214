"""The agent's own compactions in the report: what its summary kept, beside our digest."""

from __future__ import annotations

from packlight.replay.beside import beside_json, beside_rows, beside_text, reads_line
from packlight.replay.loss.recorded import ComparedCompaction, Kept

POOR = Kept(tokens=1_000, edited=4, edited_named=3, only_read=7, only_read_named=0, references=9, references_visible=2)
RICH = Kept(tokens=900, edited=4, edited_named=4, only_read=7, only_read_named=6, references=9, references_visible=8)


def compaction(window: int = 1) -> ComparedCompaction:
    about = {"reads": 5, "reads_again": 3, "reads_before": 8, "reads_before_again": 4}
    return ComparedCompaction(window=window, summary=POOR, recorded=POOR, digest=RICH, **about)


def test_compactions_are_added_up() -> None:
    rows = beside_rows([compaction(1), compaction(2)])
    assert rows[0] == ["tokens", "2k", "2k", "2k"]
    assert ["files only read, named", "0 of 14", "0 of 14", "12 of 14"] in rows
    assert reads_line([compaction(1), compaction(2)]).startswith("afterwards 6 of 10 reads")


def test_what_was_not_there_has_no_row() -> None:
    """No short message of the user stood in these windows."""
    assert not any("messages" in row[0] for row in beside_rows([compaction()]))
    assert beside_text([], indent="") == [] and beside_json([]) == []


def test_text_is_a_table_with_a_line_about_reads() -> None:
    lines = beside_text([compaction()], indent="  ")
    assert lines[0].split() == ["its", "summary", "all", "it", "went", "on", "with", "our", "digest"]
    assert lines[-1].strip() == reads_line([compaction()])
    assert beside_json([compaction()])[0]["digest"]["edited_named"] == 4
