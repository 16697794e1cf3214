"""What a replay found, for a person in a terminal and for a machine as JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, TextIO

from .run import BatchSeen, SessionResult

_BLOCKS = " ▁▂▃▄▅▆▇█"
_SHADE = "░"
_CHART_ROWS = 7
_MOST_BATCHES_SHOWN = 8
_WORDS = {
    "stored": ("result cut to a preview", "results cut to previews"),
    "cleared": ("result cleared", "results cleared"),
    "summarised": ("summary", "summaries"),
    "shortened": ("part shortened", "parts shortened"),
    "removed": ("part removed", "parts removed"),
    "inserted": ("part inserted", "parts inserted"),
    "repaired": ("place repaired", "places repaired"),
}


def as_json(result: SessionResult) -> dict[str, Any]:
    """One object a session; the names are a promise."""
    return {
        "session": result.session,
        "path": result.path,
        "reader": result.reader,
        "format": result.format,
        "model": result.model,
        "policy": result.policy,
        "window_tokens": result.window_tokens,
        "turns": result.turns,
        "tokens_before": result.tokens_before,
        "tokens_after": result.tokens_after,
        "mean_context_tokens_before": _mean(result.before_tokens),
        "mean_context_tokens": result.mean_context_tokens,
        "peak_tokens_before": max(result.before_tokens, default=0),
        "peak_tokens": max(result.after_tokens, default=0),
        "batches": len(result.batches),
        "prefix_breaks": result.prefix_breaks,
        "prefix_breaks_outside_batches": len(result.breaks_elsewhere),
        "invalid_requests": result.invalid_requests,
        "restored": result.restored,
        "not_fitting": len(result.not_fitting),
        "windows": len(result.segment_starts) + 1,
        "batch_list": [_batch_json(b) for b in result.batches],
        "tokens_by_turn": {
            "before": result.before_tokens,
            "after": result.after_tokens,
            "recorded": result.recorded_tokens,
        },
        "violations": [{"turn": turn, "violation": str(v)} for turn, v in result.invalid],
        "errors": result.errors,
        "notes": result.notes,
    }


def _batch_json(batch: BatchSeen) -> dict[str, Any]:
    return {
        "turn": batch.turn,
        "layers": dict(batch.layers),
        "actions": dict(batch.actions),
        "tokens_before": batch.tokens_before,
        "tokens_after": batch.tokens_after,
        "restored": batch.restored,
    }


def use_color(stream: TextIO) -> bool:
    """Colours for a terminal whose user did not switch them off (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def render(result: SessionResult, *, color: bool = False, width: int = 80) -> str:
    """The block of one session."""
    paint = _Paint(color)
    window = f"window {result.window_tokens:,} tokens" if result.window_tokens else "window of the model"
    head = [result.session, result.reader, result.format, result.model or "model not recorded"]
    lines = [paint.bold("  ".join(head)), f"  policy {result.policy}, {window}", ""]
    if not result.turns:
        return "\n".join([*lines, "  no model call in this session", *_notes(result)]) + "\n"
    lines += _figures(result, paint)
    lines += ["", *_chart(result, width, paint), "", *_findings(result, width, paint), *_notes(result)]
    return "\n".join(lines) + "\n"


def summary(results: Sequence[SessionResult]) -> str:
    """One row for each session and policy."""
    names = "session,policy,turns,mean before,mean after,saved,batches,breaks,invalid,restored"
    rows = [
        [
            r.session if len(r.session) <= 36 else r.session[:35] + "…",
            r.policy,
            f"{r.turns:,}",
            f"{_mean(r.before_tokens):,}",
            f"{r.mean_context_tokens:,}",
            _change(r.tokens_before, r.tokens_after),
            str(len(r.batches)),
            str(r.prefix_breaks),
            str(r.invalid_requests),
            "yes" if r.restored else "NO",
        ]
        for r in results
    ]
    return _table([names.split(","), *rows], left=2)


def _figures(result: SessionResult, paint: _Paint) -> list[str]:
    before, after = result.before_tokens, result.after_tokens
    rows = [
        ["", "without", "with", ""],
        ["input tokens, all turns", f"{sum(before):,}", f"{sum(after):,}", _change(sum(before), sum(after))],
        ["mean context", f"{_mean(before):,}", f"{_mean(after):,}", _change(_mean(before), _mean(after))],
        ["largest request", f"{max(before):,}", f"{max(after):,}", _change(max(before), max(after))],
    ]
    lines = _table(rows, left=1, indent="  ").splitlines()
    return [f"  {result.turns:,} turns{_windows(result)}", "", paint.dim(lines[0]), *lines[1:]]


def _windows(result: SessionResult) -> str:
    count = len(result.segment_starts)
    return f"; the agent itself began a new window {_times(count)}" if count else ""


def _findings(result: SessionResult, width: int, paint: _Paint) -> list[str]:
    good, bad = paint.good, paint.bad
    lines = _batches(result.batches, width)
    outside = len(result.breaks_elsewhere)
    where = "none" if not result.prefix_breaks else f"{len(result.breaks_at_batch)} at a batch, {outside} elsewhere"
    lines.append(f"  prefix breaks     {(bad if outside else good)(where)}")
    invalid = result.invalid_requests
    lines.append(f"  invalid requests  {(bad if invalid else good)(str(invalid) if invalid else 'none')}")
    lines += [f"                    turn {turn}: {v}" for turn, v in result.invalid[:3]]
    if result.batches:
        lines.append(f"  taken out         {_taken_out(result)}")
        verdict = good("all of it can be had back") if result.restored else bad("NOT all of it can be had back")
        lines.append(f"                    {verdict}")
    if result.not_fitting:
        lines.append(f"  {bad('did not fit')}       {len(result.not_fitting):,} requests, also after compaction")
    return lines + [f"  {bad('error')}             {e}" for e in result.errors[:3]]


def _taken_out(result: SessionResult) -> str:
    """What the last request of each window is without."""
    ends = [*(start - 1 for start in result.segment_starts), result.turns - 1]
    tokens = sum(max(0, result.before_tokens[end] - result.after_tokens[end]) for end in ends)
    return f"{tokens:,} tokens by the end" + (f" of the {len(ends)} windows" if len(ends) > 1 else "")


def _batches(batches: Sequence[BatchSeen], width: int) -> list[str]:
    lines = [f"  batches           {len(batches) or 'none: everything fits'}"]
    shown = batches if len(batches) <= _MOST_BATCHES_SHOWN else batches[: _MOST_BATCHES_SHOWN - 1]
    for batch in shown:
        sizes = f"{batch.tokens_before:>9,} -> {batch.tokens_after:>8,}"
        line = f"    turn {batch.turn + 1:>5,}  {sizes}   {_actions(batch.actions)} ({', '.join(batch.layers)})"
        lines.append(line if len(line) <= width else line[: width - 1] + "…")
    if len(shown) < len(batches):
        lines.append(f"    and {len(batches) - len(shown):,} more")
    return lines


def _actions(actions: Mapping[str, int]) -> str:
    names = [(n, _WORDS.get(a, (a, a))) for a, n in sorted(actions.items(), key=lambda item: -item[1])]
    return ", ".join(f"{n:,} {one if n == 1 else many}" for n, (one, many) in names)


def _notes(result: SessionResult) -> list[str]:
    return ["", "  about the file", *(f"    {note}" for note in result.notes)] if result.notes else []


def _chart(result: SessionResult, width: int, paint: _Paint) -> list[str]:
    """Tokens by turn: what was sent as a solid shape, what would have been as the shade behind it."""
    top = max(max(result.before_tokens), max(result.after_tokens), 1)
    label_width = len(f"{top:,}")
    columns = max(10, min(width - label_width - 5, 4 * result.turns, 100))
    before = _binned(result.before_tokens, columns)
    after = _binned(result.after_tokens, columns)
    lines = [f"  {'tokens by turn':<{label_width}}   {paint.solid('█')} with  {paint.shade(_SHADE)} without"]
    for row in range(_CHART_ROWS, 0, -1):
        label = f"{top:,}" if row == _CHART_ROWS else "0" if row == 1 else ""
        cells = [_cell(a, b, top, row) for a, b in zip(after, before, strict=True)]
        runs = ("".join(run) for _, run in groupby("".join(cells).rstrip(), key=_SHADE.__eq__))
        drawn = "".join(paint.shade(r) if r[0] == _SHADE else paint.solid(r) for r in runs)
        lines.append(f"  {label:>{label_width}} ┤{drawn}")
    marks = [" "] * columns
    for starts, mark in ((result.segment_starts, "│"), ([b.turn for b in result.batches], "▲")):
        for turn in starts:
            marks[turn * columns // result.turns] = mark
    legend = ["▲ batch"] * bool(result.batches) + ["│ new window of the agent"] * bool(result.segment_starts)
    if legend:
        lines.append(f"  {'':>{label_width}}  {''.join(marks).rstrip()}")
        lines.append(f"  {'':>{label_width}}  {paint.dim('   '.join(legend))}")
    return lines


def _cell(after: int, before: int, top: int, row: int) -> str:
    filled = round(after / top * _CHART_ROWS * 8) - (row - 1) * 8
    if filled > 0:
        return _BLOCKS[min(filled, 8)]
    return _SHADE if round(before / top * _CHART_ROWS * 8) - (row - 1) * 8 > 3 else " "


def _binned(values: Sequence[int], columns: int) -> list[int]:
    """The largest value that falls into each column."""
    count = len(values)
    spans = ((i * count // columns, max(i * count // columns + 1, (i + 1) * count // columns)) for i in range(columns))
    return [max(values[start:end]) for start, end in spans]


def _table(rows: Sequence[Sequence[str]], *, left: int, indent: str = "") -> str:
    """Aligned columns: the first `left` of them to the left, the rest to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _mean(values: Sequence[int]) -> int:
    return round(sum(values) / len(values)) if values else 0


def _change(before: int, after: int) -> str:
    return f"{(after - before) / before:+.0%}" if before and after != before else "="


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


class _Paint:
    """Colours, or none."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def _code(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and text.strip() else text

    def bold(self, text: str) -> str:
        return self._code("1", text)

    def dim(self, text: str) -> str:
        return self._code("2", text)

    def good(self, text: str) -> str:
        return self._code("32", text)

    def bad(self, text: str) -> str:
        return self._code("1;31", text)

    def solid(self, text: str) -> str:
        return self._code("36", text)

    def shade(self, text: str) -> str:
        return self._code("90", text)
