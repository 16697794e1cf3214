"""How well the simulated price of a session agrees with what it was billed.

    python -m bench.money SESSION...

Takes recorded sessions that hold their own bill (pi). Each of a session's windows is a row: billed, our price of the
recorded usage, simulated, and what prefixes that broke for no reason in the file cost beyond a read: no simulation can
know them. A change of the thinking level is in the file.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from packlight.replay.money import money_of
from packlight.replay.readers import read_sessions
from packlight.replay.weights import Weights


def main(paths: list[str]) -> None:
    print("| session, window | calls | billed | priced | simulated | broken | simulated + broken, by billed |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for path in paths:
        for session in read_sessions(path):
            for n, segment in enumerate(session.segments):
                window = replace(session, segments=[segment])
                money = money_of(window, Weights(window))
                if not money.billed_usd:
                    continue
                known = money_of(window, Weights(window), recorded=False)
                broken = max(0.0, money.extra_usd("broken") - known.extra_usd("broken"))
                figures = (money.billed_usd, money.total_usd, money.simulated_usd, broken)
                ratio = (money.simulated_usd + broken) / money.billed_usd - 1
                cells = " | ".join(f"{f:.2f}" for f in figures)
                print(f"| {session.name} {n + 1} | {len(segment.turns)} | {cells} | {ratio:+.1%} |")


if __name__ == "__main__":
    main(sys.argv[1:])
