"""What a valid request is, where it may be cut, what an edit must take with it, and how a broken one is mended."""

from __future__ import annotations

from .cuts import pinned, segments
from .mend import repair, repairs
from .rules import gained, rendered_messages, validate, violations
from .thinking import all_thinking, unbound_thinking

__all__ = [
    "all_thinking",
    "gained",
    "pinned",
    "rendered_messages",
    "repair",
    "repairs",
    "segments",
    "unbound_thinking",
    "validate",
    "violations",
]
