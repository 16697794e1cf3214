"""A summariser that fails is not asked again at once: each failure in a row doubles the pause."""

from __future__ import annotations

from ..errors import SummaryError

FIRST_SECONDS = 60.0
LONGEST_SECONDS = 1_800.0


class Breaker:
    """Remembers how the last calls ended. Time is an argument; shareable between threads."""

    def __init__(self) -> None:
        self._failures = 0
        self._until_seconds = 0.0
        self._why = ""

    def paused(self, now_seconds: float) -> SummaryError | None:
        """Why nobody is asked now; None when somebody may be."""
        left = self._until_seconds - now_seconds
        if not self._failures or left <= 0 or left > LONGEST_SECONDS:  # a clock that went back pauses nothing
            return None
        return SummaryError(f"the summariser is not asked for {left:,.0f} seconds more, it failed last: {self._why}")

    def note(self, error: Exception | None, now_seconds: float) -> None:
        """How a summary ended: with an error, or well."""
        if error is None:
            self._failures = 0
            return
        pause = min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(self._failures, 10))
        self._failures += 1
        self._until_seconds = now_seconds + pause
        self._why = f"{error}"[:300] or type(error).__name__
