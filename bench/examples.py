"""What compaction does to the recorded sessions in examples/: the table of the README.

python bench/examples.py [-o bench/results/examples.md]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import packlight
from packlight.replay.readers import find_files, read_sessions
from packlight.replay.run import SessionResult, replay

EXAMPLES = Path(__file__).parent.parent / "examples"
POLICIES = ("none", "default", "thrifty", "classic", "nano")
WINDOW_TOKENS = 100_000


def compactor(model: str | None, policy: str, window_tokens: int | None) -> packlight.Compactor:
    return packlight.Compactor(model, policy=policy, window_tokens=window_tokens)


def rows() -> list[SessionResult]:
    found = []
    for file in find_files(EXAMPLES):
        for session in read_sessions(file):
            for policy in POLICIES:
                found.append(replay(session, policy=policy, window_tokens=WINDOW_TOKENS, compactor_factory=compactor))
    return found


def table(results: list[SessionResult]) -> str:
    out = [
        "| session (model calls) | policy | mean request, tokens | largest | batches | prefix breaks | invalid | over the window | restored |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for r in results:
        out.append(
            f"| {r.session} ({r.turns}) | {r.policy} | {r.mean_context_tokens:,} | {max(r.after_tokens):,} | {len(r.batches)} "
            f"| {r.prefix_breaks} | {r.invalid_requests} | {len(r.not_fitting)} | {'all' if r.restored else 'NO'} |"
        )
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="write the table there")
    args = parser.parse_args()
    head = f"# The examples at a window of {WINDOW_TOKENS:,} tokens\n\n`python bench/examples.py -o bench/results/examples.md`\n\n"
    text = head + table(rows()) + "\n"
    print(text)
    if args.output:
        args.output.write_text(text)


if __name__ == "__main__":
    main()
