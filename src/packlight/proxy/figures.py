"""The figures of a watch as JSON, and those of several processes as one.

Each worker process has figures of its own; what is shown is always the sum of all that answered.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from .. import jsonio
from .watch import Batch, Thread, Turn, Watch

__all__ = ["batch_of", "figures", "merged", "merged_turns", "turns"]

Json = dict[str, Any]

MAX_POINTS = 60
"""Of the small curve of a conversation."""
_SUMMED = ("open", "unreachable")
_TEXT_KEYS = ("text", "content", "output", "thinking")
MAX_EDITS_SHOWN = 500


def figures(watch: Watch) -> Json:
    """Of this process: totals, and each conversation with its newest turn and a small curve, newest first."""
    with watch.lock:
        return {
            "pids": [os.getpid()],
            "totals": asdict(watch.totals),
            "open": watch.open,
            "unreachable": watch.unreachable,
            "by_outcome": [[*key, count] for key, count in sorted(watch.by_outcome.items())],
            "seconds_buckets": list(watch.seconds_buckets),
            "threads": [_thread(t) for t in reversed(watch.threads.values())],
        }


def _thread(thread: Thread) -> Json:
    last = thread.turns[-1]
    drawn = [t for t in thread.turns if not t.is_side]
    step = len(drawn) // MAX_POINTS + 1
    size = drawn[-1] if drawn else last
    return {
        "id": thread.id,
        "model": size.model,
        "format": size.format,
        "first_seconds": thread.first_seconds,
        "last_seconds": last.at_seconds,
        "tokens_before": size.tokens_before,
        "tokens_after": size.tokens_after,
        "window_tokens": size.window_tokens,
        "totals": asdict(thread.totals),
        "points": [[t.at_seconds, t.tokens_before, t.tokens_after] for t in reversed(drawn[::-step])],
    }


def turns(watch: Watch, id: str) -> list[Json]:
    """Of one conversation, as far as they are remembered, oldest first; empty for one that is not known."""
    with watch.lock:
        thread = watch.threads.get(id)
        found = list(thread.turns) if thread else []
    return [_shown(t) for t in found]


def _shown(turn: Turn) -> Json:
    return {name: getattr(turn, name) for name in Turn.__slots__}


# --- of several processes --------------------------------------------------------------------------------------------


def merged(parts: Sequence[Json]) -> Json:
    """The figures of several processes as one. A conversation may have requests in each of them."""
    threads: dict[str, list[Json]] = {}
    for part in parts:
        for thread in part["threads"]:
            threads.setdefault(thread["id"], []).append(thread)
    by_outcome: Counter[tuple[Any, ...]] = Counter()
    for part in parts:
        for *key, count in part["by_outcome"]:
            by_outcome[tuple(key)] += count
    joined = [_joined(found) for found in threads.values()]
    return {
        "pids": [pid for part in parts for pid in part["pids"]],
        "totals": _sums(part["totals"] for part in parts),
        **{name: sum(part[name] for part in parts) for name in _SUMMED},
        "by_outcome": [[*key, count] for key, count in sorted(by_outcome.items())],
        "seconds_buckets": [sum(counts) for counts in zip(*(p["seconds_buckets"] for p in parts), strict=True)],
        "threads": sorted(joined, key=lambda t: -t["last_seconds"]),
    }


def merged_turns(parts: Iterable[list[Json]]) -> list[Json]:
    return sorted((turn for part in parts for turn in part), key=lambda t: t["at_seconds"])


def _joined(found: Sequence[Json]) -> Json:
    points = sorted(point for t in found for point in t["points"])
    return {
        **max(found, key=lambda t: t["last_seconds"]),
        "first_seconds": min(t["first_seconds"] for t in found),
        "totals": _sums(t["totals"] for t in found),
        "points": points[-len(found) * MAX_POINTS :: len(found)] if len(points) > MAX_POINTS else points,
    }


def _sums(totals: Iterable[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for each in totals:
        for name, value in each.items():
            sums[name] = sums.get(name, 0) + value
    return sums


# --- text ------------------------------------------------------------------------------------------------------------


def batch_of(watch: Watch, id: str) -> Json | None:
    """A batch with its text: what stands now in place of what. None for one whose text is no longer held."""
    with watch.lock:
        batch = next((b for b in watch.batches if b.id == id), None)
    return _with_text(batch) if batch else None


def _with_text(batch: Batch) -> Json:
    return {
        "id": batch.id,
        "thread": batch.thread,
        "turn": _shown(batch.turn),
        "edits_left_out": max(0, len(batch.edits) - MAX_EDITS_SHOWN),
        "edits": [
            {
                "action": e.action,
                "layer": e.layer,
                "tool": e.tool,
                "path": e.path,
                "start": list(e.start),
                "end": list(e.end),
                "tokens_before": round(e.tokens_before * batch.ratio),
                "tokens_after": round(e.tokens_after * batch.ratio),
                "text": "\n".join(map(_text, e.replacement)),
            }
            for e in batch.edits[:MAX_EDITS_SHOWN]
        ],
    }


def _text(value: Any) -> str:
    """What a model reads of a message or block; its JSON where there is more in it than text."""
    found = _texts(value)
    return "\n".join(found) if found else jsonio.dump(value).decode("utf-8", "replace")


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if not isinstance(value, dict) or value.get("role") == "assistant":
        return []
    return [text for key in _TEXT_KEYS if key in value for text in _texts(value[key])]
