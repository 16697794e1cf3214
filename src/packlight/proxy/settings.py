"""What the proxy was told: one object, made of the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from ..errors import PacklightError
from ..store import state_folder

__all__ = ["LOCAL", "Mode", "Settings"]

Mode = Literal["fit", "rescue", "shadow"]
LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine for itself."""


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

    def __post_init__(self) -> None:
        """Raises PacklightError for an upstream that is no URL, and for one that is this proxy itself."""
        for url in filter(None, (self.upstream, self.anthropic, self.openai)):
            host, port = _place(url)
            if port == self.port and host in {*LOCAL, self.host}:
                raise PacklightError(f"{url} is where this proxy listens: name the provider behind it")

    @property
    def is_local(self) -> bool:
        """Only this machine can reach it."""
        return self.host in LOCAL

    @property
    def folder(self) -> Path | None:
        """Where anything is written at all."""
        return self.store or self.journal


def _place(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        pass
    raise PacklightError(f"{url!r} is no http(s) URL, so nothing can go on to it")
