"""What would have saved most of a replay's money, and how to do it: the few lines that come first.

Each is told alone: what one of them saves the others can't save again. A policy is advised only when the proxy takes
it, and when it came out of the replay without a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .columns import by_policy, cost, cost_ratio, mean_context, reference_recall
from .compare import Replayed, Row
from .text import share, tokens_text, usd_text

ADVISED = ("default", "thrifty")
"""What `packlight run` and `packlight proxy` take."""
LEAST_RATIO = 0.03
"""Less than this share of the money is not worth a change."""
_COMMANDS = {"claude-code": "packlight run{} claude", "codex": "packlight run{} codex"}
"""With its options: behind the agent's name they would be the agent's."""


@dataclass(frozen=True, slots=True)
class Advice:
    usd: float
    """What it would have saved."""
    ratio: float
    what: str
    how: str


def advice_on(sessions: Sequence[Replayed]) -> list[Advice]:
    """The dearest first; empty where nothing stands out."""
    found = [*_policies(sessions), *_uncached(sessions), *_paid_again(sessions)]
    return sorted((a for a in found if a.ratio >= LEAST_RATIO), key=lambda a: -a.usd)


def _policies(sessions: Sequence[Replayed]) -> list[Advice]:
    """The cheapest policy."""
    groups = by_policy([r for s in sessions for r in s.rows])
    flawless = [rows for name, rows in groups.items() if name in ADVISED and not any(map(_has_fault, rows))]
    if not flawless:
        return []
    rows = min(flawless, key=cost)
    without = sum(r.without_usd for r in rows)
    before = sum(sum(c.tokens for c in r.without) for r in rows) / max(1, sum(len(r.without) for r in rows))
    seen = reference_recall(rows)
    lost = "" if seen is None else f"; {share(seen)} of the names used again stayed in sight"
    what = (
        f"policy {rows[0].result.policy}: {usd_text(cost(rows))} instead of {usd_text(without)} (both simulated),"
        f" requests of {tokens_text(mean_context(rows))} tokens instead of {tokens_text(before)}{lost}"
    )
    return [Advice(without - cost(rows), 1 - (cost_ratio(rows) or 1.0), what, _command(rows))]


def _has_fault(row: Row) -> bool:
    return bool(row.result.invalid_requests or row.result.errors or not row.result.restored)


def _command(rows: Sequence[Row]) -> str:
    """For each agent, the one where it saves most first."""
    result = rows[0].result
    options = "" if result.policy == "default" else f" --policy {result.policy}"
    options += f" --window-tokens {result.window_tokens}" if result.window_tokens else ""
    saved = sorted(rows, key=lambda r: r.usd - r.without_usd)
    commands = dict.fromkeys(_COMMANDS.get(r.result.reader, "packlight proxy{}") for r in saved)
    return ", ".join(command.format(options) for command in commands)


def _uncached(sessions: Sequence[Replayed]) -> list[Advice]:
    """Where most of what was sent went past the cache, as the usage has it."""
    found = [s.money for s in sessions if s.money.is_recorded and s.money.tokens["rest"] > s.money.total_tokens / 2]
    paid, simulated = sum(m.total_usd for m in found), sum(m.simulated_usd for m in found)
    what = f"prompt caching: {usd_text(simulated)} (simulated) instead of {usd_text(paid)}, where most was not cached"
    how = "mark the requests for the cache (Anthropic: cache_control), or switch it on in the client"
    return [Advice(paid - simulated, (paid - simulated) / _whole_usd(sessions), what, how)] if found else []


def _whole_usd(sessions: Sequence[Replayed]) -> float:
    return sum(s.money.total_usd for s in sessions) or 1.0


def _paid_again(sessions: Sequence[Replayed]) -> list[Advice]:
    """What was paid a second time, beyond reading it from the cache."""
    whole = _whole_usd(sessions)
    misses = [m for s in sessions for m in s.money.misses]
    cold, broken = ([m for m in misses if m.why == why] for why in ("cold", "broken"))
    cold_usd, broken_usd = (sum(m.usd for m in found) for found in (cold, broken))
    return [
        Advice(
            cold_usd,
            cold_usd / whole,
            f"pauses that the cache did not outlive: {len(cold):,} requests paid again",
            "compact before a long pause, or begin a new session after it",
        ),
        Advice(
            broken_usd,
            broken_usd / whole,
            f"broken prefixes: {len(broken):,} requests that the warm cache did not find",
            "the client changed what stands at the front, or the provider dropped it: see the turns below",
        ),
    ]
