"""Walks what is not known yet, and renders the page.

python -m bench.compaction                                   the sessions in examples/, without others' packages
python -m bench.compaction --sessions DIR --environments DIR
python -m bench.compaction --sessions DIR --known --rows default,thrifty          after a change of ours
python -m bench.compaction --render                          only the page
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import page, plan, rows
from .cell import Walked
from .rows import Row
from .sessions import Log, logs, read_log

ROOT = Path(__file__).parent.parent.parent
WINDOWS = (128_000, 64_000, 200_000)


@dataclass(frozen=True)
class Task:
    file: Path
    cell: plan.Cell
    key: str
    environments: Path
    with_memory: bool


def main() -> None:
    args = _arguments()
    if not args.render:
        _walk_all(args)
    found = plan.read_results(args.results)
    installed, missing = rows.installed(args.environments)
    walked = plan.versions(found)
    known = [row for name in missing if name in walked for row in rows.elsewhere(name, walked[name])]
    missing = {name: why for name, why in missing.items() if name not in walked}
    args.page.write_text(page.page(found, [*rows.ours(), *rows.rules(), *installed, *known], missing))
    print(page.summary(found))


def all_rows(environments: Path) -> list[Row]:
    return [*rows.ours(), *rows.rules(), *rows.installed(environments)[0]]


def _walk_all(args: argparse.Namespace) -> None:
    tasks: list[Task] = []
    results: dict[Path, plan.Results] = {}
    wanted = _chosen(all_rows(args.environments), args.rows)
    found_logs = _logs(args)
    first = next((f for f, log in found_logs if log.session.format == page.COMMON_FORMAT), found_logs[0][0])
    for file, log in found_logs:
        results[file] = known = plan.Results(args.results, log.name)
        known.about = _about(log)
        for row in wanted:
            if log.session.format not in row.formats:
                continue
            key = plan.key_of(row, log)
            found = [c for c in plan.cells(row, args.windows, args.shifts) if not known.has(c, key)]
            tasks += [
                Task(file, c, key, args.environments, file == first and c.walked_window == WINDOWS[0]) for c in found
            ]
    versions = {r.name: r.version for r in wanted}
    order = {window: n for n, window in enumerate(args.windows)}
    kind = {r.name: ("rule", "control", "package", "ours", "layer").index(r.kind) for r in wanted}
    tasks.sort(key=lambda t: (t.cell.shift != 1.0, order[t.cell.window_tokens], kind[t.cell.row], str(t.file)))
    with ProcessPoolExecutor(args.processes) as pool:
        waiting = {pool.submit(_figures, task): task for task in tasks}
        for n, done in enumerate(as_completed(waiting), start=1):
            task = waiting[done]
            try:
                figures = done.result()
            except Exception as error:  # one walk that fails is told; the others go on
                print(f"\n{task.file.stem}: {task.cell}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            results[task.file].put(task.cell, task.key, {**figures, "version": versions[task.cell.row]})
            results[task.file].write()
            print(f"\r{n} of {len(tasks)} walks", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def _chosen(found: list[Row], names: str) -> list[Row]:
    """Those of these names; a name that no row has stands for all that it is a part of."""
    if not names:
        return found
    exact = {r.name for r in found} & set(names.split(","))
    parts = set(names.split(",")) - exact
    return [r for r in found if r.name in exact or any(p in r.name for p in parts)]


def _logs(args: argparse.Namespace) -> list[tuple[Path, Log]]:
    chosen = [n for n in args.names.split(",") if n]
    if args.known:
        chosen += plan.read_results(args.results)
    found = [
        (Path(log.session.path or ""), log)
        for log in logs(args.sessions, args.least_tokens)
        if not chosen or any(n in log.name for n in chosen)
    ]
    if not found:
        sys.exit(f"no session of {args.least_tokens:,} tokens or more in {args.sessions}")
    return found


def _about(log: Log) -> dict[str, Any]:
    session = log.session
    return {
        "name": log.name,
        "reader": session.reader,
        "format": session.format,
        "model": session.model,
        "turns": session.turns,
        "tokens": log.tokens,
        "head_tokens": round(log.weights.head(0)),
    }


@functools.lru_cache(maxsize=1)
def _log(file: Path) -> Log:
    log = read_log(file)
    assert log is not None
    return log


def _figures(task: Task) -> dict[str, Any]:
    """In a process of its own."""
    row = next(r for r in all_rows_cached(task.environments) if r.name == task.cell.row)
    limits = (task.cell.walked_window,) if row.knows_window else WINDOWS
    walked = Walked(_log(task.file), row, task.cell.walked_window, task.cell.read_ratio, limits)
    figures = walked.figures()
    return {**figures, **walked.memory()} if task.with_memory else figures


@functools.lru_cache(maxsize=1)
def all_rows_cached(environments: Path) -> Sequence[Row]:
    return all_rows(environments)


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--sessions", type=Path, default=ROOT / "examples", help="folder with session files (default: examples/)")
    add("--names", default="", help="only sessions whose name holds one of these, comma-separated")
    add("--known", action="store_true", help="only sessions that have figures already")
    add("--least-tokens", type=int, default=90_000, help="only sessions whose longest request has as many")
    add("--rows", default="", help="only these rows, comma-separated; parts of names do")
    add("--windows", type=lambda t: [int(n) for n in _numbers(t)], default=list(WINDOWS))
    add("--shifts", type=_numbers, default=list(plan.SHIFTS), help="factors on the window, averaged over")
    add("--environments", type=Path, default=ROOT / ".environments", help="virtual environments of the packages")
    add("--processes", type=int, default=2)
    add("--results", type=Path, default=ROOT / "bench" / "results" / "compaction")
    add("--page", type=Path, default=ROOT / "docs" / "benchmark.md")
    add("--render", action="store_true", help="walk nothing")
    return parser.parse_args()


if __name__ == "__main__":
    main()
