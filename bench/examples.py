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
    sessions = [session for file in find_files(EXAMPLES) for session in read_sessions(file)]
    return [
        replay(session, policy=policy, window_tokens=WINDOW_TOKENS, compactor_factory=compactor)
        for session in sessions
        for policy in POLICIES
    ]


def table(results: list[SessionResult]) -> str:
    names = "session (model calls),policy,mean request,largest,batches,prefix breaks,invalid,over window,restored"
    lines = [names.split(","), ["---", "---", *["---:"] * 6, "---"]]
    lines += [
        [
            f"{r.session} ({r.turns})",
            r.policy,
            f"{r.mean_context_tokens:,}",
            f"{max(r.after_tokens):,}",
            str(len(r.batches)),
            str(r.prefix_breaks),
            str(r.invalid_requests),
            str(len(r.not_fitting)),
            "all" if r.restored else "NO",
        ]
        for r in results
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="write the table there")
    args = parser.parse_args()
    command = "`python bench/examples.py -o bench/results/examples.md`"
    head = f"# The examples in a window of {WINDOW_TOKENS:,} tokens\n\n{command}, sizes in tokens\n\n"
    text = head + table(rows()) + "\n"
    print(text)
    if args.output:
        args.output.write_text(text)


if __name__ == "__main__":
    main()
