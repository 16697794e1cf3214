"""One OpenTelemetry span a request: the names of the conventions, no text, nothing where nobody listens."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("opentelemetry")

from opentelemetry import trace

from packlight.proxy import spans
from packlight.testing import Refusal
from proxy_talk import TASK, WINDOW, counting, grow, proxied

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Span(trace.NonRecordingSpan):
    """Keeps what it is told, as an SDK's span does."""

    def __init__(self, name: str, context: Any, kind: Any, start_time: int) -> None:
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self.name, self.kind, self.start_time, self.end_time = name, kind, start_time, 0
        self.parent = trace.get_current_span(context).get_span_context()
        self.attributes: dict[str, Any] = {}
        self.status: Any = None

    def is_recording(self) -> bool:
        return True

    def set_attributes(self, attributes: Any) -> None:
        self.attributes |= attributes

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status

    def end(self, end_time: int | None = None) -> None:
        self.end_time = end_time or time.time_ns()


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[Span]:
    """The spans that were made, by a tracer in the place of an SDK's."""
    made: list[Span] = []

    class Tracer:
        def start_span(self, name: str, context: Any, kind: Any, start_time: int) -> Span:
            made.append(Span(name, context, kind, start_time))
            return made[-1]

    monkeypatch.setattr(spans.trace, "get_tracer", lambda name: Tracer())
    return made


def test_span_of_each_request(ended: list[Span]) -> None:
    async def work() -> None:
        async with proxied() as (proxy, server, client):
            began = time.time_ns()
            await grow(client, proxy.url, 14, session="s-1")
            assert len(ended) == 14
            for span, tokens, cached in zip(ended, server.tokens, server.cached_tokens, strict=True):
                told = span.attributes
                assert span.name == "chat claude-sonnet-5" and span.kind is trace.SpanKind.CLIENT
                assert began <= span.start_time + 1_000_000 and span.start_time < span.end_time <= time.time_ns()
                assert told["gen_ai.operation.name"] == "chat" and told["gen_ai.provider.name"] == "anthropic"
                assert told["gen_ai.request.model"] == "claude-sonnet-5" and told["gen_ai.conversation.id"] == "s-1"
                assert told["gen_ai.usage.input_tokens"] == tokens
                assert told["gen_ai.usage.cache_read.input_tokens"] == cached
                assert told["packlight.tokens_after"] <= WINDOW == told["packlight.window_tokens"]
                assert told["gen_ai.conversation.compacted"] == (told["packlight.edits"] > 0)
            assert any(s.attributes["packlight.layers"] for s in ended)
            assert ended[-1].attributes["gen_ai.conversation.compacted"] is True
            text = repr([s.attributes for s in ended])
            assert "zebra7461" not in text and "xylophone" not in text

    asyncio.run(work())


def test_span_belongs_to_the_caller_and_tells_a_refusal(ended: list[Span]) -> None:
    async def work() -> None:
        async with proxied(lambda number, body: Refusal(429, "slow down")) as (proxy, _, client):
            body = {"model": "m", "messages": [{"role": "user", "content": TASK}]}
            async with client.post(f"{proxy.url}/v1/messages", json=body, headers={"traceparent": PARENT}) as reply:
                assert reply.status == 429
            (span,) = ended
            assert trace.format_trace_id(span.parent.trace_id) == PARENT.split("-")[1]
            assert span.status is trace.StatusCode.ERROR and span.attributes["error.type"] == "429"
            assert "gen_ai.usage.input_tokens" not in span.attributes, "nobody counted"

    asyncio.run(work())


def test_without_an_sdk_nothing_is_told() -> None:
    async def work() -> None:
        async with proxied(counting) as (proxy, _, client):
            await grow(client, proxy.url, 3)
            assert proxy.watch.requests == 3

    asyncio.run(work())


def test_without_the_api_there_is_no_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spans.tracer() is not None
    monkeypatch.setattr(spans, "HAS_API", False)
    assert spans.tracer() is None
