"""packlight keeps LLM agents working past their context window.

    compactor = packlight.Compactor("claude-opus-4-6")
    c = compactor.fit(request)                              # valid, fits, prefix stable
    reply = client.messages.create(**c.request)
    compactor.record_usage(c, reply.usage)

See the README for the rest, docs/ for the laws it keeps.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from .integrations.recall_tool import recall_tool
    from .integrations.wrap import wrap
    from .laws import repair, validate
    from .oneshot import compact, restore
    from .policy import PRESETS, Policy, Size
    from .retrieval import recall
    from .store import Document, Store, open_store
    from .tokens import Counter
    from .types import (
        Edit,
        Layer,
        Message,
        Part,
        Summary,
        SummaryCall,
        SummaryJob,
        SummaryReply,
        SummaryRequest,
        Target,
        Transport,
        Violation,
        Writer,
    )
    from .view import View
    from .writers import model_writer, provider_writer

__version__ = "0.1.0"

_HOMES = {
    "compaction": "Compaction Report",
    "compactor": "Compactor",
    "errors": "ContextWindowExceeded InvalidRequest NotFound PacklightError StoreError SummaryError UnknownFormat",
    "integrations.recall_tool": "recall_tool",
    "integrations.wrap": "wrap",
    "laws": "repair validate",
    "oneshot": "compact restore",
    "policy": "PRESETS Policy Size",
    "retrieval": "recall",
    "store": "Document Store open_store",
    "tokens": "Counter",
    "types": "Edit Layer Message Part Summary SummaryCall SummaryJob SummaryReply SummaryRequest Target Transport"
    " Violation Writer",
    "view": "View",
    "writers": "model_writer provider_writer",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import packlight` itself stays cheap."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])


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
    "SummaryCall",
    "SummaryError",
    "SummaryJob",
    "SummaryReply",
    "SummaryRequest",
    "Target",
    "Transport",
    "UnknownFormat",
    "View",
    "Violation",
    "Writer",
    "compact",
    "model_writer",
    "open_store",
    "provider_writer",
    "recall",
    "recall_tool",
    "repair",
    "restore",
    "validate",
    "wrap",
]
