"""What was said right before a call, cut to a line: for reports whose reader asked for text."""

from __future__ import annotations

from collections.abc import Collection

from ..summary.words import said
from ..view import View
from .content import views_of
from .session import Session

TITLE = -1
"""The key of the first words that the user typed."""
_MOST_CHARS = 240


def texts_of(session: Session, turns: Collection[int]) -> dict[int, str]:
    """The title of a session, and what stood right before these calls of it."""
    found: dict[int, str] = {}
    turn = 0
    for segment, view in zip(session.segments, views_of(session), strict=True):
        start = 0
        for call in segment.turns:
            if turn in turns and (text := _text(view, start, call.end)):
                found[turn] = text
            start, turn = call.end, turn + 1
        if TITLE not in found:
            typed = next((s.text for s in said(view, 0, len(view.messages)) if s.kind == "typed"), "")
            if typed:
                found[TITLE] = _line(typed)[:80]
    return found


def _text(view: View, start: int, end: int) -> str:
    """What the user typed, else the last text that is not the assistant's."""
    typed = [s.text for s in said(view, start, end) if s.kind == "typed"]
    messages = [m for m in view.messages[start:end] if m.role != "assistant"]
    texts = typed or [p.text for m in messages for p in m.parts if p.text]
    return _line(texts[-1]) if texts else ""


def _line(text: str) -> str:
    line = " ".join(text[: 4 * _MOST_CHARS].split())
    return line if len(line) <= _MOST_CHARS else line[: _MOST_CHARS - 1] + "…"
