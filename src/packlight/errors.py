"""Every error packlight raises on purpose.

PacklightError
├── InvalidRequest          the caller gave something that is no request (also a ValueError)
│   └── UnknownFormat       it could be none of the three formats
├── ContextWindowExceeded   nothing more can be taken out; carries the figures
├── StoreError              the store cannot be read or written
│   └── NotFound            no such reference in this conversation
├── SummaryError            a writer gave no usable summary (never leaves `fit`: it stands in the report)
└── AgentError              `packlight agent` can't begin or go on: no SDK, no key, a model that refuses
"""

from __future__ import annotations


class PacklightError(Exception):
    """Base of all of them."""


class InvalidRequest(PacklightError, ValueError):
    """The input is not a request body nor a list of messages."""


class UnknownFormat(InvalidRequest):
    """The format can't be told; name it."""


class ContextWindowExceeded(PacklightError):
    """The smallest valid form of a request is still too large.

    `needed_tokens` is the size of that form, `limit_tokens` what the model takes; None when unknown.
    """

    def __init__(self, message: str, *, needed_tokens: int | None = None, limit_tokens: int | None = None) -> None:
        super().__init__(message)
        self.needed_tokens = needed_tokens
        self.limit_tokens = limit_tokens


class StoreError(PacklightError):
    """The store can't be read or written: a full disk, a read-only folder, a damaged file."""


class NotFound(StoreError, KeyError):
    """Nothing in the store answers to that reference, in that conversation."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SummaryError(PacklightError):
    """A writer gave nothing that may stand for the history."""


class AgentError(PacklightError):
    """The agent can't begin or go on; the line says what is missing, or what the model's server said."""
