"""packlight keeps LLM agents working past their context window.

    compactor = packlight.Compactor("claude-opus-4-6")
    c = compactor.fit(request)                              # valid, fits, prefix stable
    reply = client.messages.create(**c.request)
    compactor.record_usage(c, reply.usage)

See the README for the rest, docs/ for the laws it keeps.
"""

from __future__ import annotations

from .compaction import Compaction, Report
from .compactor import Compactor
from .errors import (
    ContextWindowExceeded,
    InvalidRequest,
    NotFound,
    PacklightError,
    StoreError,
    SummaryError,
    UnknownFormat,
)
from .laws import repair, validate
from .oneshot import compact, restore
from .policy import PRESETS, Policy, Size
from .recall import recall
from .store import Document, Store, open_store
from .tokens import Counter
from .types import (
    Edit,
    Layer,
    Message,
    Part,
    Summary,
    SummaryJob,
    SummaryReply,
    SummaryRequest,
    Target,
    Violation,
    Writer,
)
from .view import View

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "Compaction",
    "Compactor",
    "ContextWindowExceeded",
    "Counter",
    "Document",
    "Edit",
    "InvalidRequest",
    "Layer",
    "Message",
    "NotFound",
    "PacklightError",
    "Part",
    "Policy",
    "Report",
    "Size",
    "Store",
    "StoreError",
    "Summary",
    "SummaryError",
    "SummaryJob",
    "SummaryReply",
    "SummaryRequest",
    "Target",
    "UnknownFormat",
    "View",
    "Violation",
    "Writer",
    "compact",
    "open_store",
    "recall",
    "repair",
    "restore",
    "validate",
]
