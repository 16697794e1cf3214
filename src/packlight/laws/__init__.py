"""What a valid request is, where it may be cut, what an edit must take with it, and how a broken one is mended."""

from __future__ import annotations

from .cuts import pinned, segments
from .mend import repair, repairs
from .rules import MAX_CACHE_MARKS, gained, is_held_by_provider, marks_of_head, rendered_messages, validate, violations
from .thinking import all_thinking, unbound_thinking

__all__ = [
    "MAX_CACHE_MARKS",
    "all_thinking",
    "gained",
    "is_held_by_provider",
    "marks_of_head",
    "pinned",
    "rendered_messages",
    "repair",
    "repairs",
    "segments",
    "unbound_thinking",
    "validate",
    "violations",
]
