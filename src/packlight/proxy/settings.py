"""What the proxy was told: one object, made of the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..store import state_folder

__all__ = ["Mode", "Settings"]

Mode = Literal["fit", "rescue", "shadow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a proxy behaves. Immutable, and the same in each of its processes."""

    mode: Mode = "fit"
    """`fit`: change a request when it would not fit, or was refused for its length. `rescue`: only when refused.
    `shadow`: never; the figures say what would have been."""
    policy: Literal["default", "thrifty"] = "default"
    upstream: str | None = None
    """One upstream for all paths; None tells Anthropic's and OpenAI's by path and headers."""
    anthropic: str = "https://api.anthropic.com"
    openai: str = "https://api.openai.com"
    window_tokens: int | None = None
    """Of every model; None: what is known of it, or learned from a refusal."""
    keep_tools: tuple[str, ...] = ()
    store: Path | None = None
    """A folder where what is taken out is kept too, as plain files that placeholders name; None keeps no content."""
    journal: Path | None = field(default_factory=lambda: state_folder() / "proxy")
    """Where edits are recorded when there is no store; None keeps them in memory."""
    host: str = "127.0.0.1"
    port: int = 8787
    token: str | None = None
    """Asked of every request when others than this machine can reach the proxy."""
    workers: int = 1
    keep_days: float = 30
    recall_tool: bool = False
    json_log: bool = False
    quiet: bool = False
    """No line for a changed request."""

    @property
    def is_local(self) -> bool:
        """Only this machine can reach it."""
        return self.host in ("127.0.0.1", "::1", "localhost")

    @property
    def folder(self) -> Path | None:
        """Where anything is written at all."""
        return self.store or self.journal
