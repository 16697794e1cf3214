"""How long a `fit` takes: when nothing is due, and for one whole batch.

    python bench/fit.py [-o bench/results/fit.md]

CPU seconds of this process, the least of a few runs. Every figure stands beside a baseline of the same run: encoding
and hashing the same messages once with msgspec and sha256, which is the least that recognising them can cost.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import packlight

SIZES = ((1_000, 2_000_000), (10_000, 20_000_000))
LINE = "def return class self value handler import os path if None for x in range config_loader token_decode"
WORDS = LINE.split()


def history(messages: int, size_bytes: int) -> dict[str, Any]:
    """One user message, then an agent that reads, greps and runs tests: a request body in Anthropic's format."""
    rng = random.Random(1)
    lines = [" ".join(rng.choice(WORDS) for _ in range(8)) for _ in range(500)]
    out: list[dict[str, Any]] = [{"role": "user", "content": "Fix the login bug. Never touch prod.db."}]
    each = size_bytes // (messages // 2) - 250
    for i in range(messages // 2):
        tool = (
            {"name": "Read", "input": {"file_path": f"src/f{i % 50}.py"}}
            if i % 3
            else {"name": "Bash", "input": {"command": f"pytest tests/test_{i}.py"}}
        )
        call = {"type": "tool_use", "id": f"toolu_{i}", **tool}
        text: list[str] = []
        length = 0
        while length < each:
            text.append(f"{lines[(i + len(text)) % 500]} {i + len(text)}")
            length += len(text[-1]) + 1
        out.append({"role": "assistant", "content": [{"type": "text", "text": f"Step {i}."}, call]})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{i}", "content": "\n".join(text)}
        out.append({"role": "user", "content": [result]})
    return {"model": "claude-opus-4-6", "max_tokens": 8_000, "system": "You are a coding agent.", "messages": out}


def least(run: Callable[[], object], times: int = 3) -> float:
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def encode_and_hash(request: dict[str, Any]) -> None:
    for message in request["messages"]:
        hashlib.sha256(msgspec.json.encode(message)).digest()


def rows(messages: int, size_bytes: int) -> list[tuple[str, float]]:
    request = history(messages, size_bytes)
    body = json.dumps(request)
    anew = [json.loads(body) for _ in range(6)]
    baseline = least(lambda: encode_and_hash(request))
    idle = packlight.Compactor(window_tokens=100_000_000)
    idle.fit(request)
    same = least(lambda: idle.fit(request), 10)
    parsed = least(lambda: idle.fit(anew.pop()))
    memory = least(lambda: batch(request, body, None))
    known = min(batch_of_known(request, body) for _ in range(3))
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(100))
        disk = least(lambda: batch(request, body, f"{folder}/{next(names)}"))
    return [
        ("encode and hash once (baseline)", baseline),
        ("fit, nothing due, same objects", same),
        ("fit, nothing due, parsed anew", parsed),
        ("a whole batch, the conversation known from before, in memory", known),
        ("first fit with a whole batch, in memory", memory),
        ("first fit with a whole batch, with a folder", disk),
    ]


def batch(request: dict[str, Any], body: str, store: str | None) -> None:
    compactor = packlight.Compactor(window_tokens=200_000, store=store)
    c = compactor.fit(request)
    assert c.changed and c.fits, c.report.reason
    compactor.store.close()


def memory_rows(messages: int, size_bytes: int) -> list[tuple[str, float]]:
    """What is held, and the peak on the way, in MB beside the parsed history."""
    body = json.dumps(history(messages, size_bytes))
    rows: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, store in (("in memory", None), ("with a folder", folder)):
            tracemalloc.start()
            request = json.loads(body)
            parsed = tracemalloc.get_traced_memory()[0]
            compactor = packlight.Compactor(window_tokens=200_000, store=store)
            c = compactor.fit(request)
            held, peak = tracemalloc.get_traced_memory()
            assert c.changed
            compactor.store.close()
            tracemalloc.stop()
            rows += [(f"after a batch {name}", (held - parsed) / 1e6), (f"peak of it {name}", (peak - parsed) / 1e6)]
    return [("the parsed history (baseline)", parsed / 1e6), *rows]


def batch_of_known(request: dict[str, Any], body: str) -> float:
    """As in an agent's loop: every message was read by an earlier fit; then there is room no more."""
    fresh = json.loads(body)
    total = packlight.Compactor(window_tokens=10**9).fit(fresh).report.tokens_before
    compactor = packlight.Compactor(window_tokens=round(1.2 * total))
    compactor.fit(fresh)
    due = {**fresh, "max_tokens": round(0.85 * total)}
    start = time.process_time()
    c = compactor.fit(due)
    seconds = time.process_time() - start
    assert c.changed and c.fits, c.report.reason
    return seconds


def import_seconds(code: str) -> float:
    def once() -> float:
        program = f"import time; t = time.process_time(); {code}; print(time.process_time() - t)"
        return float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)

    return min(once() for _ in range(5))


def report() -> str:
    out = ["# How long a fit takes", "", "`python bench/fit.py -o bench/results/fit.md`", ""]
    out += [f"Python {platform.python_version()}, CPU milliseconds, least of a few runs.", ""]
    for messages, size_bytes in SIZES:
        table = rows(messages, size_bytes)
        base = table[0][1]
        out += [f"## {messages:,} messages, {size_bytes / 1e6:.0f} MB", "", "| | ms | x baseline |", "|---|---:|---:|"]
        out += [f"| {name} | {seconds * 1000:.2f} | {seconds / base:.2f} |" for name, seconds in table]
        out.append("")
    json_import = import_seconds("import json")
    ours = import_seconds("import packlight")
    first_use = import_seconds("import packlight; packlight.Compactor")
    out += ["## Import", "", "| | ms | x `import json` |", "|---|---:|---:|"]
    for name, seconds in (("import packlight", ours), ("import packlight; packlight.Compactor", first_use)):
        out.append(f"| `{name}` | {seconds * 1000:.1f} | {seconds / max(json_import, 1e-4):.1f} |")
    out.append("")
    table = memory_rows(*SIZES[-1])
    out += [f"## Memory, {SIZES[-1][0]:,} messages", "", "| | MB | x baseline |", "|---|---:|---:|"]
    out += [f"| {name} | {megabytes:.1f} | {megabytes / table[0][1]:.2f} |" for name, megabytes in table]
    out.append("")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="write the table there")
    args = parser.parse_args()
    text = report()
    print(text)
    if args.output:
        args.output.write_text(text)


if __name__ == "__main__":
    main()
