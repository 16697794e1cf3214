"""Walks what is not known yet, and renders the pages.

python -m bench.compaction                                   the sessions in examples/, without others' packages
python -m bench.compaction --sessions DIR --environments DIR
python -m bench.compaction --sessions DIR --rows ours,layer --spread default,thrifty    after a change of ours
python -m bench.compaction --render                          only the pages
python -m bench.compaction --turns pi-large --rows default,thrifty > turns.csv    every request of a session
"""

from __future__ import annotations

import argparse
import csv
import functools
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import export, page, plan, rows, tables
from .cell import Walked
from .chosen import chosen
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
    if args.turns is not None:
        _export(args)
        return
    if not args.render:
        _walk_all(args)
    for name, text in pages(args.results, args.environments).items():
        (args.pages / name).write_text(text)


def pages(results: Path, environments: Path) -> dict[str, str]:
    """By name of the file. A package that is not installed here has figures from where it was, or is named."""
    found = plan.read_results(results)
    shown, missing = _with_figures(found, environments)
    return {"benchmark.md": page.page(found, shown, missing), "benchmark-tables.md": tables.page(found, shown)}


def _with_figures(found: Mapping[str, plan.Results], environments: Path) -> tuple[list[Row], dict[str, str]]:
    """The rows that can be walked here or were somewhere; and the others, with the reason."""
    installed, missing = rows.installed(environments)
    walked = plan.versions(found)
    known = [row for name in missing if name in walked for row in rows.elsewhere(name, walked[name])]
    missing = {name: why for name, why in missing.items() if name not in walked}
    return [*rows.ours(), *rows.rules(), *installed, *known], missing


def _export(args: argparse.Namespace) -> None:
    found = {name: r for name, r in plan.read_results(args.results).items() if args.turns in name}
    if not found:
        sys.exit(f"no session with {args.turns!r} in its name in {args.results}")
    wanted = _chosen(_with_figures(found, args.environments)[0], args.rows)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(export.HEAD)
    for results in found.values():
        out.writerows(export.lines(results, wanted, args.windows))


def all_rows(environments: Path) -> list[Row]:
    return [*rows.ours(), *rows.rules(), *rows.installed(environments)[0]]


def _walk_all(args: argparse.Namespace) -> None:
    wanted = _chosen(all_rows(args.environments), args.rows)
    found = _logs(args)
    results = {file: plan.Results(args.results, log.name) for file, log in found}
    for file, log in found:
        results[file].about = _about(log)
    tasks = _tasks(args, wanted, found, results)
    versions = {r.name: r.version for r in wanted}
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


def _tasks(
    args: argparse.Namespace,
    wanted: Sequence[Row],
    found: Sequence[tuple[Path, Log]],
    results: Mapping[Path, plan.Results],
) -> list[Task]:
    """What is not known yet; first others' rows on the sessions that have all of them. And memory for one session."""
    tasks: list[Task] = []
    spread = {row.name for row in _chosen(wanted, args.spread)} if args.spread else set()
    first = next((f for f, log in found if log.session.format == tables.COMMON_FORMAT), found[0][0])
    for file, log in found:
        windows = plan.with_room(args.windows, log.weights.head(0))
        for row in (r for r in wanted if log.session.format in r.formats):
            key = plan.key_of(row, log)
            shifts = plan.SHIFTS if row.name in spread else plan.SHIFTS[:1]
            cells = [c for c in plan.cells(row, windows, shifts) if not results[file].has(c, key)]
            tasks += [
                Task(file, c, key, args.environments, file == first and c.walked_window == WINDOWS[0]) for c in cells
            ]
    order = {window: n for n, window in enumerate(args.windows)}
    order.setdefault(plan.ANY_WINDOW, 0)
    kind = {r.name: ("rule", "control", "package", "ours", "layer").index(r.kind) for r in wanted}
    late = {file: log.session.format != tables.COMMON_FORMAT for file, log in found}

    def place(task: Task) -> tuple[Any, ...]:
        cell = task.cell
        return cell.shift != 1.0, order[cell.window_tokens], late[task.file], kind[cell.row], str(task.file)

    return sorted(tasks, key=place)


def _chosen(found: Sequence[Row], names: str) -> list[Row]:
    """Those of these names or kinds; what is neither stands for all names that it is a part of."""
    if not names:
        return list(found)
    exact = {n for r in found for n in (r.name, r.kind)} & set(names.split(","))
    parts = set(names.split(",")) - exact
    return [r for r in found if exact & {r.name, r.kind} or any(p in r.name for p in parts)]


def _logs(args: argparse.Namespace) -> list[tuple[Path, Log]]:
    names = [n for n in args.names.split(",") if n]
    if names or args.all:
        of_all = logs(args.sessions, args.least_tokens)
        found = [log for log in of_all if args.all or any(n in log.name for n in names)]
    else:
        found = chosen(args.sessions, args.least_tokens)
    if not found:
        sys.exit(f"no session of {args.least_tokens:,} tokens or more in {args.sessions}")
    return [(Path(log.session.path or ""), log) for log in found]


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
    walked = Walked(_log(task.file), row, task.cell.walked_window, task.cell.told_read_ratio, limits)
    figures = walked.figures()
    return {**figures, **walked.memory()} if task.with_memory else figures


@functools.lru_cache(maxsize=1)
def all_rows_cached(environments: Path) -> Sequence[Row]:
    return all_rows(environments)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--sessions", type=Path, default=ROOT / "examples", help="folder with session files (default: examples/)")
    add("--names", default="", help="not the chosen ones, but sessions whose name holds one of these, comma-separated")
    add("--all", action="store_true", help="not only the chosen ones: every session")
    add("--least-tokens", type=int, default=100_000, help="only sessions whose longest request has as many")
    add("--rows", default="", help="only these rows, comma-separated: names, parts of names, kinds (ours, layer, rule)")
    add("--windows", type=_numbers, default=list(WINDOWS))
    add("--spread", metavar="ROWS", default="", help="of --rows, these in four windows around as well: what is luck")
    add("--environments", type=Path, default=ROOT / ".environments", help="virtual environments of the packages")
    add("--processes", type=int, default=2)
    add("--results", type=Path, default=ROOT / "bench" / "results" / "compaction")
    add("--pages", type=Path, default=ROOT / "docs", help="folder of the pages")
    add("--render", action="store_true", help="walk nothing")
    add("--turns", metavar="SESSION", help="walk nothing, print as CSV what every request cost and missed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
