"""How far the default token counter is from the true counts, by kind of text, and how fast it is.

    python bench/tokens.py > bench/results/tokens.md

Reads only `tests/data/token_counts.json`: texts that the weights were not fitted to, with their true counts (ctok 1.3.0
for Claude, o200k_base for GPT). Speed is given as a ratio to `json.dumps` of the same text, measured in CPU time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from packlight.tokens import ByteClassCounter  # noqa: E402

FAMILIES = ("claude_old", "claude", "gpt")


def samples() -> list[dict]:
    return json.loads((ROOT / "tests" / "data" / "token_counts.json").read_text(encoding="utf-8"))


def errors(rows: list[dict], family: str, count: Callable[[str], float]) -> list[float]:
    return [count(row["text"]) / row[family] - 1 for row in rows]


def summary(found: list[float]) -> str:
    mean = sum(map(abs, found)) / len(found)
    return f"{mean:.0%} ({min(found):+.0%} to {max(found):+.0%})"


def error_table(rows: list[dict]) -> None:
    kinds = sorted({row["kind"] for row in rows})
    print("| kind | texts | " + " | ".join(FAMILIES) + " | chars/4 on claude |")
    print("|---|---|" + "---|" * (len(FAMILIES) + 1))
    for kind in [*kinds, "all"]:
        chosen = [row for row in rows if kind in ("all", row["kind"])]
        cells = [summary(errors(chosen, family, ByteClassCounter(family).count)) for family in FAMILIES]
        naive = summary(errors(chosen, "claude", lambda text: len(text) / 4))
        print(f"| {kind} | {len(chosen)} | " + " | ".join(cells) + f" | {naive} |")


def cpu_seconds(run: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def speed_table(rows: list[dict]) -> None:
    count = ByteClassCounter("claude").count
    code = "\n".join(row["text"] for row in rows if row["text"].isascii())
    mixed = "\n".join(row["text"] for row in rows)
    han = "".join(row["text"] for row in rows if row["kind"] in ("zh_CN", "zh_TW", "ja", "prose_zh"))
    print("\n| text | MB/s | time against `json.dumps` |")
    print("|---|---|---|")
    for name, text in (("ASCII", code), ("all kinds mixed", mixed), ("Chinese and Japanese", han)):
        text = text * (4_000_000 // len(text.encode()) + 1)
        ours = cpu_seconds(lambda text=text: count(text))
        dumps = cpu_seconds(lambda text=text: json.dumps(text, ensure_ascii=False))
        print(f"| {name} | {len(text.encode()) / ours / 1e6:.0f} | {ours / dumps:.1f} |")
    short = code[1000:1200]
    calls = 2000
    each = cpu_seconds(lambda: [count(short) for _ in range(calls)]) / calls
    print(f"\nOne call with 200 bytes: {each * 1e6:.1f} microseconds.")


def main() -> None:
    rows = samples()
    print("# The default token counter\n")
    print("Made by `python bench/tokens.py > bench/results/tokens.md`. Mean error, and its range in a kind:")
    print("texts of at most 1,300 characters that the weights were not fitted to (`run`, one character, was).\n")
    error_table(rows)
    speed_table(rows)


if __name__ == "__main__":
    main()
