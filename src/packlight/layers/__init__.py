"""The layers, one file each: callables that plan edits on a view and change nothing."""

from __future__ import annotations

from .compact_history import ClassicHistory, CompactHistory, NanoHistory
from .media_limits import MediaLimits
from .micro_compact import ClassicMicroCompact, MicroCompact
from .provider_history import ProviderHistory
from .reactive_compact import ReactiveCompact
from .read_again import ReadAgain
from .snip_compact import SnipCompact
from .tool_result_budget import ClassicToolResultBudget, ToolResultBudget

__all__ = [
    "ClassicHistory",
    "ClassicMicroCompact",
    "ClassicToolResultBudget",
    "CompactHistory",
    "MediaLimits",
    "MicroCompact",
    "NanoHistory",
    "ProviderHistory",
    "ReactiveCompact",
    "ReadAgain",
    "SnipCompact",
    "ToolResultBudget",
]
