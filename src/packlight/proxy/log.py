"""What is said on the terminal: a line each, whatever is in it."""

from __future__ import annotations

import contextlib
import json
import logging
import sys

from .settings import Settings
from .watch import Thread, Turn

__all__ = ["log", "logger", "say"]


def say(line: str) -> None:
    """One line, whatever is in it; a log that nobody reads any more stops nothing."""
    shown = "".join(c if c.isprintable() else "?" for c in line)
    with contextlib.suppress(OSError, ValueError):
        print(shown, file=sys.stderr, flush=True)


def log(settings: Settings, thread: Thread, turn: Turn) -> None:
    """One line: of every request as JSON, or of those that were changed or failed for people."""
    if settings.json_log:
        fields = {name: getattr(turn, name) for name in turn.__slots__}
        say(json.dumps({"thread": thread.id, **fields}))
    elif not settings.quiet and (turn.new_edits or turn.rescues or turn.error or turn.outcome == "passed"):
        size = f"{turn.tokens_before:,} -> {turn.tokens_after:,} tokens"
        rescued = f", sent again {turn.rescues} times" if turn.rescues else ""
        say(f"{turn.outcome}: {turn.model} {thread.id}: {size}{rescued}: {turn.error or turn.reason}")


class _Lines(logging.Handler):
    """What aiohttp has to say, a line each: of what came in and is no HTTP, of what went wrong in answering."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        why = f": {type(error).__name__}: {' '.join(str(error).split())}" if error else ""
        say(f"packlight: {record.getMessage()}{why}")


def logger(settings: Settings) -> logging.Logger:
    """Of one proxy; where its command has the terminal it says nothing."""
    made = logging.Logger("packlight.proxy", logging.CRITICAL if settings.quiet else logging.WARNING)
    made.addHandler(_Lines())
    return made
