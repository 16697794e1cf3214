"""Real agents, as people run them, past their window: without packlight, through its proxy, and after leaving it.

    scripts/e2e                            # all, writes bench/results/e2e.md and e2e.json
    scripts/e2e --client codex --json

A provider on this machine with a small window answers with calls of each agent's own shell tool. It refuses what does
not fit, what an independent checker finds wrong, and signed thinking behind another prefix than it was made behind.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from .clients import CLIENTS, Client  # noqa: E402
from .install import cache_folder, installed  # noqa: E402
from .report import rendered, verdict  # noqa: E402
from .runs import Bench, Outcome  # noqa: E402

RESULTS = ROOT / "bench" / "results"
MORE_REPORTS = 3


def main() -> int:
    args = _arguments()
    outcomes: list[Outcome] = []
    for name in args.client or CLIENTS:
        outcomes += _all_ways(CLIENTS[name], installed(CLIENTS[name], args.cache), args.windows)
    data = {
        "command": "scripts/e2e" + "".join(f" --client {name}" for name in args.client or ()),
        "date": datetime.now(UTC).date().isoformat(),
        "python": sys.version.split()[0],
        "clients": {name: f"{c.package} {c.version}" for name, c in CLIENTS.items()},
        "window_tokens": {name: c.window_tokens for name, c in CLIENTS.items()},
        "outcomes": [outcome.as_json() for outcome in outcomes],
    }
    text = rendered(data, outcomes)
    print(json.dumps(data, indent=1) if args.json else text)
    if not args.client:
        (RESULTS / "e2e.md").write_text(text)
        (RESULTS / "e2e.json").write_text(json.dumps(data, indent=1) + "\n")
    failures = verdict(outcomes)
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _all_ways(client: Client, binary: Path, windows: float) -> list[Outcome]:
    outcomes = [_alone(client, binary, windows)]
    for leaves in (False, True) if client.leave else (False,):
        outcomes += _through(client, binary, windows, leaves)
    return outcomes


def _alone(client: Client, binary: Path, windows: float) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(client, binary, Path(folder), ROOT / "src")
        with bench.provider(windows) as provider:
            return _told(bench.direct(provider, client.start, way="without packlight"))


def _through(client: Client, binary: Path, windows: float, leaves: bool) -> list[Outcome]:
    """Through the proxy, then resumed straight to the provider; with `leaves` after the client's own compaction.
    A session that does not come back that way is taken up through the proxy again."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(client, binary, Path(folder), ROOT / "src")
        with bench.provider(windows) as provider:
            outcomes = [_told(bench.behind(provider, client.start, way="through packlight"))]
            if not client.resume:
                return outcomes
            if leaves:
                provider.more(0)
                bench.behind(provider, client.leave, way="")
            provider.more(MORE_REPORTS)
            left = _told(bench.direct(provider, client.resume, way="left well" if leaves else "left"))
            if leaves:
                return [left]
            outcomes.append(left)
            if not left.ended_well:
                provider.more(MORE_REPORTS)
                outcomes.append(_told(bench.behind(provider, client.resume, way="back through packlight")))
            return outcomes


def _told(outcome: Outcome) -> Outcome:
    print(f"{outcome.client}, {outcome.way}: {'ended well' if outcome.ended_well else outcome.said}", file=sys.stderr)
    return outcome


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/e2e", description=__doc__.partition("\n")[0])
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only this one; may be given again")
    parser.add_argument("--windows", type=float, default=3, help="how far past the window (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="where the agents are installed")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
