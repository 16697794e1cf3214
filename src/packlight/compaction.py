"""What a `fit` gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from .provider import headers_for
from .types import Edit, Json, SummaryCall, Violation

Outcome = Literal["unchanged", "reapplied", "compacted", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was done to a request, and why. Immutable.

    Tokens are calibrated: the provider's own count where there was one, else an estimate (`counter` names it).
    """

    outcome: Outcome
    """`unchanged`: as given. `reapplied`: with the edits it already had. `compacted`: with a new batch.
    `failed`: something went wrong (`error`); the request has the edits it already had and nothing new."""
    reason: str
    tokens_before: int
    """Size of the conversation as given."""
    tokens_after: int
    """Size of the request to send."""
    budget_tokens: int | None
    """None when the model's window is not known."""
    window_tokens: int | None
    window_source: str
    """Where the window comes from: `argument`, `model data`, `learned from an error`, `unknown`."""
    edits: tuple[Edit, ...] = ()
    """All edits in effect, by position in the conversation behind the request."""
    new_edits: tuple[Edit, ...] = ()
    """Those of this fit's batch."""
    violations: tuple[Violation, ...] = ()
    """What was broken in the request already, where a batch was checked and left something broken."""
    counter: str = ""
    error: Exception | None = None
    """What failed. With `outcome` `compacted` the batch stands all the same: the store could not be written and what
    was taken out is held in memory, or a model wrote no usable summary and the digest stands alone."""
    summary_calls: tuple[SummaryCall, ...] = ()
    """The calls of a summarising model that this fit made, for whoever pays for them."""

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that made the new batch, in order of their first edit."""
        return tuple(dict.fromkeys(e.layer for e in self.new_edits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """A request that is ready to send.

    `request` has the shape that was given; unchanged parts are the same objects.
    """

    request: Any
    messages: list[Any]
    fits: bool
    """False when it is known to be over its budget although nothing more can be taken out."""
    changed: bool
    """The messages are not those given."""
    report: Report
    conversation: str = ""
    """What recall asks for: the name given, or that of the first batch; empty when nothing was taken out yet."""
    given: Any = field(default=None, repr=False)
    attempt: int = 0
    """How often it was shrunk after an overflow."""
    state: Any = field(default=None, repr=False)
    """The engine's own notes for `record_usage` and `recover`."""

    @property
    def headers(self) -> dict[str, str]:
        """What the provider wants in the header of this request, for the compaction of its own that stands in it.

        For `extra_headers` of Anthropic's SDK (beside `betas`, name that one there); empty for every other request.
        """
        return headers_for(self.messages)

    def restore(self) -> Json:
        """The request as it was given: the same object."""
        return self.given
