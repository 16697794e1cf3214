"""The figures in the text format of Prometheus, version 0.0.4.

Written here and not by a library: the figures are kept anyhow, for the page, and summed over the worker processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .watch import BUCKETS_SECONDS

__all__ = ["CONTENT_TYPE", "METRICS", "prometheus"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

METRICS: Mapping[str, tuple[str, str]] = {
    "packlight_requests_total": ("counter", "Requests with a conversation, by API, what they do, outcome and status."),
    "packlight_batches_total": ("counter", "Requests with a new batch of edits."),
    "packlight_rescues_total": ("counter", "Requests sent again after a refusal."),
    "packlight_recalls_total": ("counter", "The model's calls of recall that were answered here."),
    "packlight_errors_total": ("counter", "Failures of packlight's own; the request went on."),
    "packlight_unreachable_total": ("counter", "Requests that found no upstream."),
    "packlight_tokens_before_total": ("counter", "Tokens of the conversations as the clients have them."),
    "packlight_tokens_after_total": ("counter", "Tokens of what was sent; in shadow mode, would have been."),
    "packlight_input_tokens_total": ("counter", "Input as the providers counted it, cached or not."),
    "packlight_cached_tokens_total": ("counter", "Of the input, read from the providers' caches."),
    "packlight_written_tokens_total": ("counter", "Of the input, written to the providers' caches."),
    "packlight_output_tokens_total": ("counter", "Output as the providers counted it."),
    "packlight_usd_total": ("counter", "Cost at list prices, where the price is known."),
    "packlight_unpriced_total": ("counter", "Answers whose price or usage is not known."),
    "packlight_tool_calls_total": ("counter", "Tool calls of the agents."),
    "packlight_refetches_total": ("counter", "Tool calls that fetch again what was taken out; at most."),
    "packlight_added_seconds": ("histogram", "What packlight took of each request before it was sent."),
    "packlight_open_requests": ("gauge", "Requests that have not ended, streams included."),
    "packlight_conversations": ("gauge", "Conversations remembered."),
    "packlight_workers": ("gauge", "Processes whose figures these are."),
}
"""Each with its type and what it says."""

_TOTALS = {
    "packlight_batches_total": "compactions",
    "packlight_rescues_total": "rescues",
    "packlight_recalls_total": "recalls",
    "packlight_errors_total": "errors",
    "packlight_tokens_before_total": "tokens_before",
    "packlight_tokens_after_total": "tokens_after",
    "packlight_input_tokens_total": "input_tokens",
    "packlight_cached_tokens_total": "cached_tokens",
    "packlight_written_tokens_total": "written_tokens",
    "packlight_output_tokens_total": "output_tokens",
    "packlight_usd_total": "usd",
    "packlight_unpriced_total": "unpriced",
    "packlight_tool_calls_total": "calls",
    "packlight_refetches_total": "refetches",
}


def prometheus(figures: Mapping[str, Any]) -> str:
    """The text of `/metrics`."""
    totals = figures["totals"]
    samples: dict[str, list[str]] = {name: [f"{name} {_number(totals[key])}"] for name, key in _TOTALS.items()}
    samples["packlight_requests_total"] = [
        f'packlight_requests_total{{api="{api}",does="{does}",outcome="{outcome}",status="{status}"}} {count}'
        for api, does, outcome, status, count in figures["by_outcome"]
    ]
    samples["packlight_unreachable_total"] = [f"packlight_unreachable_total {figures['unreachable']}"]
    samples["packlight_added_seconds"] = list(_histogram(figures["seconds_buckets"], totals["seconds"]))
    samples["packlight_open_requests"] = [f"packlight_open_requests {figures['open']}"]
    samples["packlight_conversations"] = [f"packlight_conversations {len(figures['threads'])}"]
    samples["packlight_workers"] = [f"packlight_workers {len(figures['pids'])}"]
    lines = [
        line
        for name, (kind, told) in METRICS.items()
        for line in (f"# HELP {name} {told}", f"# TYPE {name} {kind}", *samples[name])
    ]
    return "\n".join([*lines, ""])


def _histogram(counts: list[int], seconds: float) -> Iterator[str]:
    below = 0
    for bound, count in zip((*BUCKETS_SECONDS, "+Inf"), counts, strict=True):
        below += count
        yield f'packlight_added_seconds_bucket{{le="{bound}"}} {below}'
    yield f"packlight_added_seconds_sum {_number(seconds)}"
    yield f"packlight_added_seconds_count {below}"


def _number(value: float) -> str:
    return str(round(value, 9))
