"""What a replay found, for a person in a terminal and for a machine as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from .. import models
from .beside import beside_json, beside_text
from .columns import COLUMNS, MEANING, cost_ratio, mean_context, policies_table
from .compare import BASE, Replayed, Row
from .loss.recorded import ComparedCompaction
from .run import BatchSeen, SessionResult
from .spending import Spending, money_json, predictions
from .text import Paint, fitted, fold, share, table, times, usd_text

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


def as_json(replayed: Replayed, row: Row) -> dict[str, Any]:
    """One object for a session under a policy; the names are a promise."""
    result = row.result
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
        "cost": _cost_json(row),
        "loss": {c.name.lower(): c.value([row]) for c in COLUMNS if c.measures},
        "compactions": beside_json(replayed.compactions),
        "money": money_json(replayed.money, replayed.prediction),
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


def _cost_json(row: Row) -> dict[str, Any]:
    """Simulated under a prompt cache, with the policy and without any."""
    return {
        "usd": row.usd,
        "without_usd": row.without_usd,
        "ratio": cost_ratio([row]),
        "mean_context_tokens": mean_context([row]),
        "read_tokens": round(sum(c.read_tokens for c in row.charges)),
        "write_tokens": round(sum(c.write_tokens for c in row.charges)),
        "plain_tokens": round(sum(c.plain_tokens for c in row.charges)),
        "usd_by_turn": [c.usd for c in row.charges],
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


def render_all(sessions: Sequence[Replayed], *, color: bool = False, width: int = 80, details: bool = False) -> str:
    """Everything: the money first, then the policies; of several sessions the total, and each in one line."""
    if len(sessions) == 1:
        return render_session(sessions[0], color=color, width=width)
    called = [s for s in sessions if s.turns]
    if called and len(called) < len(sessions):
        text = render_all(called, color=color, width=width, details=details)
        return f"{text}\n  without a model call: {len(sessions) - len(called):,} of {len(sessions):,} sessions\n"
    paint = Paint(color)
    lines = [
        Spending(sessions).render(color=color, width=width),
        *_policies(sessions, paint, width),
        *_beside([c for s in sessions for c in s.compactions], paint),
        *predictions(sessions),
    ]
    lines += ["", paint.bold("  by session"), *_by_session(sessions, width)]
    text = fold("\n".join(lines), width) + "\n"
    if details:
        text += "".join("\n" + render_session(s, color=color, width=width) for s in sessions)
    return text


def render_session(session: Replayed, *, color: bool = False, width: int = 80) -> str:
    """One session: its money, the policies side by side, and what each of them did."""
    paint = Paint(color)
    names = [session.name, session.reader, session.format, session.model or "model not recorded"]
    head = [" ".join(name.split()) for name in names]
    lines = [paint.bold("  ".join(head))]
    if not session.turns:
        return "\n".join([*lines, "  no model call in this session", *_notes(session)]) + "\n"
    turns = "turn (call of the model)" if session.turns == 1 else "turns (calls of the model)"
    lines += [f"  {session.turns:,} {turns}{_windows(session)}", ""]
    lines += [Spending([session]).render(color=color, width=width), *_policies([session], paint, width)]
    lines += [*_beside(session.compactions, paint), *predictions([session]), ""]
    lines += [render(r, color=color, width=width) for r in session.rows if r.result.policy != BASE]
    return fold("\n".join([*lines, *_notes(session)]).rstrip(), width) + "\n"


def _policies(sessions: Sequence[Replayed], paint: Paint, width: int) -> list[str]:
    rows = [r for s in sessions for r in s.rows]
    lines = [paint.bold("  what the policies would have changed, under the same simulated prompt cache")]
    lines += [policies_table(rows, indent="    ", width=width), f"    {MEANING}"]
    if any(s.money.is_recorded for s in sessions):
        paid, simulated = (sum(getattr(s.money, f"{n}_usd") for s in sessions) for n in ("total", "simulated"))
        lines.append(f"    none is what was sent: {usd_text(simulated)} in this simulation, {usd_text(paid)} as paid")
    unknown = sorted({r.result.model or "a model not recorded" for r in rows if not _window_known(r.result)})
    if unknown:
        lines.append(
            f"    nothing is compacted where the window is not known: {', '.join(unknown[:3])}; see --window-tokens"
        )
    return lines


def _beside(found: Sequence[ComparedCompaction], paint: Paint) -> list[str]:
    lines = beside_text(found, indent="    ")
    title = f"  at the agent's own compactions ({len(found)}): its summary beside our digest in no more tokens"
    return ["", paint.bold(title), *lines] if lines else []


def _window_known(result: SessionResult) -> bool:
    known = models.lookup(result.model) if result.model else None
    return bool(result.window_tokens or (known and known.context_window_tokens))


def _by_session(sessions: Sequence[Replayed], width: int) -> list[str]:
    policies = [r.result.policy for r in sessions[0].rows if r.result.policy != BASE]
    rows = [["session", "reader", "turns", "input cost", "broken", "cold", *policies]]
    for session in sessions:
        extra = [session.money.extra_usd(why) for why in ("broken", "cold")]
        ratios = [cost_ratio([r]) for r in session.rows if r.result.policy != BASE]
        rows.append(
            [
                session.name,
                session.reader,
                f"{session.turns:,}",
                usd_text(session.money.total_usd),
                *(usd_text(e) if e else "" for e in extra),
                *("-" if r is None else share(r) for r in ratios),
            ]
        )
    meaning = "    broken, cold: what was paid beyond reading it from the cache"
    if policies:
        meaning += f"; {', '.join(policies)}: cost by that of none"
    return [*fitted(rows, width, left=2, indent="    ", most=36), meaning]


def render(row: Row, *, color: bool = False, width: int = 80) -> str:
    """What one policy did to one session; one line where it did nothing."""
    paint, result = Paint(color), row.result
    window = f"window {result.window_tokens:,} tokens" if result.window_tokens else "window of the model"
    lines = [paint.bold(f"  policy {result.policy}, {window}")]
    if _is_idle(row):
        return lines[0] + ": nothing done, every request goes as it is\n"
    lines += [*_figures(row, paint), "", *_chart(row, width, paint), "", *_findings(result, paint)]
    return "\n".join(lines) + "\n"


def _is_idle(row: Row) -> bool:
    result = row.result
    return not (result.batches or result.prefix_breaks or result.invalid or result.not_fitting or result.errors)


def _sizes(row: Row) -> tuple[list[int], list[int]]:
    """Tokens of each call without and with, on the scale of the provider's counts, as in the table of policies."""
    return [round(c.tokens) for c in row.without], [round(c.tokens) for c in row.charges]


def _figures(row: Row, paint: Paint) -> list[str]:
    before, after = _sizes(row)
    rows = [
        ["", "without", "with", ""],
        ["input tokens, all turns", f"{sum(before):,}", f"{sum(after):,}", _change(sum(before), sum(after))],
        ["mean request", f"{_mean(before):,}", f"{_mean(after):,}", _change(_mean(before), _mean(after))],
        ["largest request", f"{max(before):,}", f"{max(after):,}", _change(max(before), max(after))],
    ]
    lines = table(rows, left=1, indent="  ").splitlines()
    return [paint.dim(lines[0]), *lines[1:]]


def _windows(session: Replayed) -> str:
    count = len(session.window_starts)
    return f"; the agent itself began a new window {times(count)}" if count else ""


def _findings(result: SessionResult, paint: Paint) -> list[str]:
    good, bad = paint.good, paint.bad
    lines = _batches(result.batches)
    outside = len(result.breaks_elsewhere)
    where = "none" if not result.prefix_breaks else f"{len(result.breaks_at_batch)} at a batch, {outside} elsewhere"
    lines.append(f"  prefix breaks     {(bad if outside else good)(where)}")
    invalid = result.invalid_requests
    lines.append(f"  invalid requests  {(bad if invalid else good)(str(invalid) if invalid else 'none')}")
    lines += [f"                    turn {turn + 1}: {v}" for turn, v in result.invalid[:3]]
    if result.batches:
        lines.append(f"  taken out         {_taken_out(result)}")
        verdict = good("all of it can be had back") if result.restored else bad("NOT all of it can be had back")
        lines.append(f"                    {verdict}")
    if result.not_fitting:
        lines.append(f"  {bad('did not fit')}       {len(result.not_fitting):,} requests, also after compaction")
    return lines + [f"  {bad('error')}             {e}" for e in _errors(result.errors)[:3]]


def _errors(errors: Sequence[str]) -> list[str]:
    """Each kind once, at its first turn."""
    kinds = [e.partition(": ")[2] for e in errors]
    counts = Counter(kinds)
    first = dict(zip(reversed(kinds), reversed(errors), strict=True))
    return [f"{first[kind]} ({times(n)})" for kind, n in counts.items()]


def _taken_out(result: SessionResult) -> str:
    """What the last request of each window is without."""
    ends = [*(start - 1 for start in result.segment_starts), result.turns - 1]
    tokens = sum(max(0, result.before_tokens[end] - result.after_tokens[end]) for end in ends)
    return f"{tokens:,} tokens by the end" + (f" of the {len(ends)} windows" if len(ends) > 1 else "")


def _batches(batches: Sequence[BatchSeen]) -> list[str]:
    lines = [f"  batches           {len(batches) or 'none'}"]
    shown = batches if len(batches) <= _MOST_BATCHES_SHOWN else batches[: _MOST_BATCHES_SHOWN - 1]
    for batch in shown:
        sizes = f"{batch.tokens_before:>9,} -> {batch.tokens_after:>8,}"
        line = f"    turn {batch.turn + 1:>5,}  {sizes}   {actions_text(batch.actions)} ({', '.join(batch.layers)})"
        lines.append(line)
    if len(shown) < len(batches):
        lines.append(f"    and {len(batches) - len(shown):,} more")
    return lines


def actions_text(actions: Mapping[str, int]) -> str:
    names = [(n, _WORDS.get(a, (a, a))) for a, n in sorted(actions.items(), key=lambda item: -item[1])]
    return ", ".join(f"{n:,} {one if n == 1 else many}" for n, (one, many) in names)


def _notes(session: Replayed) -> list[str]:
    return ["", "  about the file", *(f"    {note}" for note in session.notes)] if session.notes else []


def _chart(row: Row, width: int, paint: Paint) -> list[str]:
    """Tokens by turn: what was sent as a solid shape, what would have been as the shade behind it."""
    result, (without, sent) = row.result, _sizes(row)
    top = max(*without, *sent, 1)
    label_width = len(f"{top:,}")
    columns = max(10, min(width - label_width - 5, 4 * result.turns, 100))
    before, after = _binned(without, columns), _binned(sent, columns)
    lines = [f"  {'tokens by turn':<{label_width}}   {paint.solid('█')} with  {paint.shade(_SHADE)} without"]
    for height in range(_CHART_ROWS, 0, -1):
        label = f"{top:,}" if height == _CHART_ROWS else "0" if height == 1 else ""
        cells = [_cell(a, b, top, height) for a, b in zip(after, before, strict=True)]
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


def _mean(values: Sequence[int]) -> int:
    return round(sum(values) / len(values)) if values else 0


def _change(before: int, after: int) -> str:
    return f"{(after - before) / before:+.0%}" if before and after != before else "="
