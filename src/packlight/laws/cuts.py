"""Where a request may be cut, and which messages no edit may fold away."""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Message
from ..view import View


def segments(view: View) -> list[tuple[int, int]]:
    """The conversation as pieces `[start, end)` that only move as a whole; every border is a place to cut.

    A piece is an assistant's response with the results that answer it, or one other message.
    """
    messages = view.messages
    allowed = [True] * (len(messages) + 1)
    for i, j in _links(view):
        if _near(messages, i, j):
            allowed[i + 1 : j + 1] = [False] * (j - i)
    for i in range(1, len(messages)):
        if messages[i].role == messages[i - 1].role == "assistant":
            allowed[i] = False  # reasoning and what it belongs to, several calls of one response
    borders = [i for i, ok in enumerate(allowed) if ok]
    return list(zip(borders, borders[1:], strict=False))


def _links(view: View) -> list[tuple[int, int]]:
    """Calls and what answers them, message by message; a second result of a call hangs on it too."""
    links = {(i, j) for (i, _), (j, _) in view.pairs.answer.items()}
    if view.pairs.orphans:
        last: dict[str, int] = {}
        orphans = set(view.pairs.orphans)
        for i, message in enumerate(view.messages):
            for k, part in enumerate(message.parts):
                if part.kind == "call" and not part.server:
                    last[part.call_id] = i
                elif (i, k) in orphans and part.call_id in last:
                    links.add((last[part.call_id], i))
    return sorted(links)


def _near(messages: Sequence[Message], i: int, j: int) -> bool:
    """True when result j belongs to the same response as call i: no other response nor person spoke between."""
    answered = False
    for n in range(i + 1, j):
        role = messages[n].role
        if role in ("user", "system") or (role == "assistant" and answered):
            return False
        answered = answered or role == "tool"
    return True


def pinned(view: View) -> set[int]:
    """Messages that no edit may fold away: open calls, calls answered much later, what only the provider can read."""
    messages, pairs = view.messages, view.pairs
    last = max((i for i, m in enumerate(messages) if m.role == "assistant"), default=-1)
    keep = {i for i, _ in pairs.unanswered if view.format.name == "responses" or i == last}
    for i, j in _links(view):
        if not _near(messages, i, j):
            keep |= {i, j}
    for i, message in enumerate(messages):
        if message.role == "system" or any(p.type.startswith("compaction") for p in message.parts):
            keep.add(i)
    return keep
