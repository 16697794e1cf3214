"""`tool_result_budget`: a large fresh result becomes a preview and a reference, before it is first sent.

That costs no cache: nothing behind it has been sent yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Edit, Target
from ..view import ResultAt, View
from .keep import is_kept
from .result import previewed

NAME = "tool_result_budget"
ERROR_LINES = 20
ERROR_LINE_CHARS = 150
"""What an error line weighs in a preview, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultBudget:
    """Shortens each unseen result that is larger than its budget."""

    max_result_tokens: int | None = None
    """None: a quarter of the request's budget, at most 25,000 tokens."""
    head_chars: int = 6_000
    tail_chars: int = 3_000

    def __call__(self, view: View, target: Target) -> list[Edit]:
        limit = self.limit_tokens(target.budget_tokens)
        over = (r for r in _fresh(view) if r.tokens * view.ratio > limit and not is_kept(view, r))
        edits = (self._preview(view, result, limit) for result in over)
        return [e for e in edits if e]

    def limit_tokens(self, budget_tokens: int) -> int:
        """A result up to this size stays whole in a request of that budget."""
        return self.max_result_tokens or min(25_000, max(200, budget_tokens // 4))

    def _preview(self, view: View, result: ResultAt, limit: int) -> Edit | None:
        """Beginning, end and error lines, all together about as many tokens as the budget allows."""
        chars = len(result.part.text) / max(1.0, result.tokens * view.ratio) * limit * 0.8
        wanted = self.head_chars + self.tail_chars + ERROR_LINES * ERROR_LINE_CHARS
        share = min(1.0, chars / wanted)
        return previewed(
            view,
            NAME,
            result,
            f"over the result budget of {limit:,} tokens",
            head_chars=round(self.head_chars * share),
            tail_chars=round(self.tail_chars * share),
            error_lines=round(ERROR_LINES * share),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicToolResultBudget:
    """The first article's L3: the newest message's results together over 200,000 characters, the biggest first.

    Its own example stores a single result of 50,000 characters too, which its rule alone would not: `max_result_chars`.
    """

    max_message_chars: int = 200_000
    min_result_chars: int = 30_000
    max_result_chars: int = 50_000
    preview_chars: int = 2_000

    def __call__(self, view: View, target: Target) -> list[Edit]:
        fresh = sorted((r for r in _fresh(view) if not is_kept(view, r)), key=lambda r: -len(r.part.text))
        total = sum(len(r.part.text) for r in fresh)
        edits: list[Edit] = []
        for result in fresh:
            chars = len(result.part.text)
            if chars < self.max_result_chars and (total <= self.max_message_chars or chars <= self.min_result_chars):
                continue
            reason = "over the article's result budget"
            edit = previewed(view, NAME, result, reason, head_chars=self.preview_chars, tail_chars=0, error_lines=0)
            if edit:
                edits.append(edit)
                total -= chars
        return edits


def _fresh(view: View) -> list[ResultAt]:
    """Text results that the model has not seen and nobody has shortened."""
    return [r for r in view.results(view.first_unseen) if r.edit is None and r.part.text and not r.part.media]
