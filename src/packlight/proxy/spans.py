"""One OpenTelemetry span a request, for who runs the proxy under an SDK (`opentelemetry-instrument packlight proxy`).

The names are those of OpenTelemetry's conventions for generative AI (semantic-conventions 0.66b2; and
`gen_ai.conversation.compacted`, semantic-conventions-genai, 2026-05), and `packlight.*` for what they have no name for.
Where there is no SDK nothing is done. No text of a conversation is in a span.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

try:
    from opentelemetry import propagate, trace
except ModuleNotFoundError:
    HAS_API = False
else:
    HAS_API = True

from .engine import Exchange
from .watch import Turn

__all__ = ["tracer"]

_OPERATIONS = {"answer": "chat", "count": "count_tokens", "compact": "compact"}
_PROVIDERS = {"anthropic": "anthropic", "chat": "openai", "responses": "openai"}
"""By API: who serves it in truth is not known here."""
_NANO = 1_000_000_000


def tracer() -> Callable[[Exchange, Turn], None] | None:
    """What makes a span of an exchange that has ended; None where OpenTelemetry's API is not installed."""
    return _record if HAS_API else None


def _record(exchange: Exchange, turn: Turn) -> None:
    operation = _OPERATIONS[turn.does]
    span = trace.get_tracer("packlight").start_span(
        f"{operation} {turn.model}".strip(),
        context=propagate.extract(exchange.headers),
        kind=trace.SpanKind.CLIENT,
        start_time=int(exchange.began_seconds * _NANO),
    )
    if span.is_recording():
        span.set_attributes(_attributes(exchange, turn, operation))
        if turn.status >= 400:
            span.set_status(trace.StatusCode.ERROR)
    span.end(time.time_ns())


def _attributes(exchange: Exchange, turn: Turn, operation: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDERS[turn.format],
        "gen_ai.request.model": turn.model,
        "gen_ai.conversation.id": exchange.session or exchange.thread,
        "gen_ai.conversation.compacted": exchange.is_changed,
        "http.response.status_code": turn.status,
        "packlight.outcome": turn.outcome,
        "packlight.reason": turn.reason,
        "packlight.tokens_before": turn.tokens_before,
        "packlight.tokens_after": turn.tokens_after,
        "packlight.edits": turn.edits,
        "packlight.new_edits": turn.new_edits,
        "packlight.layers": turn.layers,
        "packlight.rescues": turn.rescues,
        "packlight.recalls": turn.recalls,
        "packlight.tool_calls": turn.calls,
        "packlight.refetches": turn.refetches,
        "packlight.added_seconds": turn.seconds,
    }
    if exchange.usages:
        told["gen_ai.usage.input_tokens"] = turn.input_tokens
        told["gen_ai.usage.output_tokens"] = turn.output_tokens
        told["gen_ai.usage.cache_read.input_tokens"] = turn.cached_tokens
        told["gen_ai.usage.cache_creation.input_tokens"] = turn.written_tokens
    if turn.window_tokens is not None:
        told["packlight.window_tokens"] = turn.window_tokens
    if turn.usd is not None:
        told["packlight.usd"] = turn.usd
    if turn.error:
        told["packlight.error"] = turn.error
    if turn.status >= 400:
        told["error.type"] = str(turn.status)
    return told
