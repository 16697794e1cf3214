"""What became of all runs, as a table and as a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .runs import Outcome

Json = Any
ROW = "| {} | {} | {} | {} | {} | {} | {} | {} | {} |"
HEAD = (
    "agent",
    "way",
    "ended well",
    "reports read",
    "windows",
    "requests answered",
    "refused for length",
    "refused otherwise",
    "own summaries and titles",
)

ABOUT = """\
A provider on the same machine has a small window, answers with calls of each agent's own shell tool (long outputs, each
with a figure), and refuses what does not fit, what an independent checker finds wrong, and signed thinking behind
another prefix than it was made behind. A run ended well when the agent itself printed the sum of all figures.

`left`: grown through the proxy, the proxy stopped, the same session resumed straight to the provider. `left well`: the
same after the agent's own compaction, made through the proxy as its page in docs/proxy says. `back`: a session that
did not come back when it had left, taken up through the proxy again.
"""


def rendered(data: Json, outcomes: list[Outcome]) -> str:
    return "\n".join(_lines(data, outcomes)) + "\n"


def _lines(data: Json, outcomes: list[Outcome]) -> Iterator[str]:
    yield "# Real agents past their window"
    yield f"\n`{data['command']}`, {data['date']}, Python {data['python']}.\n"
    yield ABOUT
    yield ROW.format(*HEAD)
    yield "|---|---|---|---:|---:|---:|---:|---:|---:|"
    for o in outcomes:
        ended = (
            "yes" if o.ended_well and o.exit_code == 0 else f"yes (exit code {o.exit_code})" if o.ended_well else "no"
        )
        refused = sum(o.refused_otherwise.values())
        yield ROW.format(
            o.client, o.way, ended, o.steps, o.windows, o.requests, o.refused_for_length, refused, o.side_requests
        )
    yield "\n| agent | way | what it said at its end | refused otherwise | what packlight said |"
    yield "|---|---|---|---|---|"
    for o in outcomes:
        why = "; ".join(f"{kind} ({n})" for kind, n in o.refused_otherwise.items())
        yield f"| {o.client} | {o.way} | {_cell(o.said)} | {_cell(why)} | {_cell(o.proxy_said)} |"
    yield "\n| agent | package | window, tokens |"
    yield "|---|---|---:|"
    for name, package in data["clients"].items():
        yield f"| {name} | {package} | {data['window_tokens'][name]:,} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def verdict(outcomes: list[Outcome]) -> list[str]:
    """What does not hold of what is promised; empty when all does."""
    return [f"{o.client}, {o.way}: {why}" for o in outcomes for why in _broken(o)]


def _broken(o: Outcome) -> Iterator[str]:
    if o.way == "without packlight" and o.ended_well and not o.refused_for_length:
        yield "it fitted: nothing is shown"
    if o.way in ("through packlight", "left well", "back through packlight") and not o.ended_well:
        yield f"it did not end well: {o.said}"
    if o.way != "through packlight":
        return
    if o.refused_otherwise:
        yield f"refused for something else than length: {o.refused_otherwise}"
    if o.windows < 2:
        yield f"it grew to {o.windows} windows only"
    if o.forgotten or o.repeated:
        yield f"{o.forgotten} turns lacked the user's words, {o.repeated} results were gone before they were read"
