"""Measures the proxy and renders the page.

python -m bench.proxy                                  all parts; others' proxies where they are installed
python -m bench.proxy --parts latency,crash            some parts: the others' figures stay
python -m bench.proxy --scale 0.1                      a quick look: nothing is written
python -m bench.proxy --render                         only the page

`--environments DIR` is a folder of virtual environments, each named as its package:
`python3.12 -m venv DIR/cliffcompaction && DIR/cliffcompaction/bin/pip install cliffcompaction` (distil-llm;
`headroom-ai[proxy]` as headroom-ai).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from . import crash, growth, latency, page, peers

RESULTS = Path(__file__).parent.parent / "results" / "proxy.json"
PARTS = ("latency", "growth", "crash", "peers")


def main() -> None:
    args = _arguments()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    runs: dict[str, Callable[[], Coroutine[Any, Any, dict[str, Any]]]] = {
        "latency": lambda: latency.run(args.scale),
        "growth": lambda: growth.run(args.scale),
        "crash": crash.run,
        "peers": lambda: peers.run(args.environments),
    }
    for name in [] if args.render else args.parts.split(","):
        began = time.monotonic()
        load = f"{os.getloadavg()[0]:.1f}"
        results[name] = {
            "figures": asyncio.run(runs[name]()),
            "command": f"PYTHONPATH=src python -m bench.proxy --parts {name}",
            "machine": f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load} at the start, "
            f"niceness {os.nice(0)}",
        }
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    text = page.page(results)
    print(text)
    if args.scale == 1:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        RESULTS.with_suffix(".md").write_text(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of requests")
    parser.add_argument("--environments", type=Path, default=Path(".environments"))
    parser.add_argument("--render", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
