"""What replies and stream events tell: what was counted, whether the answer has begun, what failed.

They are the SDKs' objects, or plain JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BEFORE_THE_ANSWER = frozenset({"message_start", "ping", "response.created", "response.queued", "response.in_progress"})
_FAILURES = frozenset({"error", "response.failed"})
"""Events by which Responses reports an error; the other two streams raise it."""

_LAST = frozenset({"message_stop", "response.completed", "response.incomplete", "response.failed"})


class StreamedError(Exception):
    """An error that came as an event of a stream, as an exception."""

    def __init__(self, body: Any) -> None:
        super().__init__("the provider answered with an error, in the stream")
        self.body = body


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def is_stream(reply: Any) -> bool:
    """Whether it is an SDK's `Stream` or `AsyncStream`."""
    return hasattr(type(reply), "__stream__")


def usage_in(reply: Any) -> dict[str, Any]:
    """The fields of `usage` that a reply, or an event of a stream, states; empty when it has none."""
    holders = (_get(reply, "message"), _get(reply, "response"), reply)
    usage = next((u for h in holders if (u := _get(h, "usage")) is not None), None)
    if usage is None:
        usage = _usage_in_raw(reply)
    try:
        return {k: v for k, v in dict(usage or {}).items() if v is not None}
    except (TypeError, ValueError):
        return {}


def _usage_in_raw(reply: Any) -> Any:
    """The same for `with_raw_response`, if its body was read already."""
    response = getattr(reply, "http_response", None)
    if response is None or not getattr(response, "is_closed", False):
        return None
    try:
        body = response.json()
    except ValueError:
        return None
    return body.get("usage") if isinstance(body, dict) else None


def has_begun(event: Any) -> bool:
    """Whether this event of a stream is a part of the answer, and not only its announcement."""
    choices = _get(event, "choices")
    if choices is not None:
        return any(_says_something(choice) for choice in choices)
    kind = _get(event, "type")
    return kind is not None and kind not in _BEFORE_THE_ANSWER


def is_last(event: Any) -> bool:
    """Whether no event with usage follows. Chat's streams do not show it."""
    return _get(event, "type") in _LAST


def _says_something(choice: Any) -> bool:
    said = any(value for key, value in dict(_get(choice, "delta") or {}).items() if key != "role")
    return said or bool(_get(choice, "finish_reason"))


def error_in(event: Any) -> StreamedError | None:
    """The error that an event reports, if that is what it does."""
    if _get(event, "type") not in _FAILURES and not _is_chat_error(event):
        return None
    return StreamedError(event.model_dump() if hasattr(event, "model_dump") else event)


def _is_chat_error(event: Any) -> bool:
    """Chat's stream has no types: `data: {"error": {...}}`."""
    return isinstance(event, Mapping) and bool(event.get("error")) and event.get("type") is None
