"""`packlight compact`: one request, made to fit."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict

from ..compaction import Compaction, Report
from ..errors import StoreError
from ..jsonio import dump
from ..oneshot import compact
from ..types import Json
from .policies import known_policy
from .streams import check_output, load, say, write


def run(args: argparse.Namespace) -> int:
    known_policy(args.policy)
    check_output(args.output)
    request = load(args.file)
    result = compact(
        request,
        policy=args.policy,
        model=args.model,
        store=args.store,
        format=args.format,
        force=args.force,
        window_tokens=args.window_tokens,
        repair=args.repair,
    )
    report = result.report
    if isinstance(report.error, StoreError):  # what was taken out would end with this process
        raise report.error
    write(args.output, dump(result.request))
    if args.json:
        say(dump(_report_json(result), indent=2).decode())
    else:
        say(_report_text(report, result.fits, kept=args.store is not None))
    return 0 if result.fits and report.error is None else 1


def _report_json(result: Compaction) -> dict[str, Json]:
    report = result.report
    fields = {k: v for k, v in asdict(report).items() if k not in ("error", "edits", "new_edits", "violations")}
    return {
        **fields,
        "fits": result.fits,
        "changed": result.changed,
        "conversation": result.conversation,
        "layers": list(report.layers),
        "edits": [asdict(e) for e in report.edits],
        "new_edits": len(report.new_edits),
        "violations": [str(v) for v in report.violations],
        "error": str(report.error) if report.error else None,
    }


def _report_text(report: Report, fits: bool, *, kept: bool) -> str:
    budget = "window not known: give --window-tokens N or --model M"
    if report.budget_tokens is not None:
        budget = f"budget {report.budget_tokens:,}, window from {report.window_source}"
    lines = [
        f"{report.outcome}: {report.reason}",
        f"tokens {report.tokens_before:,} -> {report.tokens_after:,} ({budget})",
    ]
    counts = Counter(f"{edit.layer}: {edit.action}" for edit in report.new_edits)
    lines += [f"  {n} x {what}" for what, n in counts.items()]
    if report.violations:
        lines.append(f"  {len(report.violations)} places were broken before: `packlight check` lists them")
    if report.error is not None:
        lines.append(f"  error: {report.error}")
    if not fits:
        lines.append("  it is still over the budget: nothing more can be taken out")
    if report.new_edits and not kept:
        lines.append("  what was taken out is kept nowhere else: --store DIR keeps it for `restore` and `recall`")
    return "\n".join(lines)
