"""What the command line costs before it does anything, as ratios to `python -c pass` in the same run.

    python bench/cli.py            # prints, and writes bench/results/cli.md

CPU seconds (user and system) of whole processes, the best of several runs: the machine may be busy.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "cli.md"
LIMIT_MS = {"import packlight": 80, "packlight --help": 200}
"""What the project promises."""
WAYS = {
    "python -c pass": ["-c", "pass"],
    "import packlight": ["-c", "import packlight"],
    "packlight --help": ["-m", "packlight", "--help"],
    "packlight compact --help": ["-m", "packlight", "compact", "--help"],
    "packlight check FILE (two messages)": ["-m", "packlight", "check", "-"],
}
REQUEST = b'{"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": "ok"}]}'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=10, help="the best of so many runs counts")
    repeat = parser.parse_args().repeat
    text = "\n".join([*header(), *rows(repeat)]) + "\n"
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(text, encoding="utf-8")
    print(text, end="")


def header() -> list[str]:
    return [
        "# Command line",
        "",
        f"`PYTHONPATH=src python bench/cli.py`: Python {platform.python_version()}, {os.cpu_count()} cores, a noisy "
        "machine: compare the ratios.",
        "",
        "| process | CPU ms | beyond `python -c pass` | `python -c pass` = 1 | promised |",
        "|---|---|---|---|---|",
    ]


def rows(repeat: int) -> list[str]:
    measured = {name: min(cpu_ms(way) for _ in range(repeat)) for name, way in WAYS.items()}
    base = measured["python -c pass"]
    return [
        f"| {name} | {ms:.0f} | {ms - base:.0f} | {ms / base:.1f} | {LIMIT_MS.get(name, '')} |"
        for name, ms in measured.items()
    ]


def cpu_ms(arguments: list[str]) -> float:
    """Of one process, its start and end included."""
    before = children_seconds()
    subprocess.run([sys.executable, *arguments], input=REQUEST, stdout=subprocess.DEVNULL, check=True)
    return (children_seconds() - before) * 1_000


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
