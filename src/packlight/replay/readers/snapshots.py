"""Logs that hold the whole request of every call: windows are what begins with what was sent before."""

from __future__ import annotations

from collections.abc import Iterable

from ..session import Segment, Turn
from .values import Record


def segments_of(calls: Iterable[tuple[list[Record], Turn]]) -> list[Segment]:
    """A new window wherever a request does not begin with the one before it."""
    segments: list[Segment] = []
    for messages, turn in calls:
        if not messages:
            continue
        before = segments[-1].messages if segments else []
        if segments and messages[: len(before)] == before:
            before += messages[len(before) :]
        else:
            segments.append(Segment(list(messages), []))
        turn.end = len(messages)
        segments[-1].turns.append(turn)
    return segments
