"""Which request is which: an endpoint by its path, a conversation of an agent or something beside it by its body.

Only an agent's conversation is ever changed ahead of a refusal. All else goes through as it is: with the edits its
conversation already has, and nothing new.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..formats import format_named
from ..laws import is_held_by_provider
from ..types import FormatName
from .settings import Settings
from .toolbox import has_tools

__all__ = ["Endpoint", "endpoint_of", "side_request", "upstream_url"]

Does = Literal["answer", "count", "compact"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint whose body is a conversation."""

    format: FormatName
    does: Does
    """`answer`: calls the model. `count`: counts its tokens. `compact`: the provider's own compaction."""

    @property
    def list_key(self) -> str:
        return format_named(self.format).list_key


_ENDPOINTS: tuple[tuple[str, Endpoint], ...] = (
    ("/messages", Endpoint("anthropic", "answer")),
    ("/messages/count_tokens", Endpoint("anthropic", "count")),
    ("/chat/completions", Endpoint("chat", "answer")),
    ("/responses", Endpoint("responses", "answer")),
    ("/responses/input_tokens", Endpoint("responses", "count")),
    ("/responses/compact", Endpoint("responses", "compact")),
)
"""By the end of the path: gateways put a prefix of their own before it."""


def endpoint_of(method: str, path: str) -> Endpoint | None:
    """The endpoint of a request; None for everything that only passes through."""
    bare = path.partition("?")[0].rstrip("/")
    return next((e for end, e in _ENDPOINTS if method == "POST" and bare.endswith(end)), None)


# --- what is no conversation of an agent ----------------------------------------------------------------------------

_SUMMARY = re.compile(
    r"CRITICAL: .{0,60}TEXT ONLY"  # Claude Code 2.1
    r"|Your task is to create a detailed summary of (?:the|this|our) conversation"  # the same, older releases
    r"|CONTEXT CHECKPOINT COMPACTION"  # Codex with a provider of the user's own
    r"|<state_snapshot>"  # Gemini CLI and Qwen Code
    r"|Summarize (?:the|this|our) conversation"
    r"|Write a (?:short |concise |brief )?(?:title|summary) (?:of|for) (?:the|this)",
    re.IGNORECASE | re.DOTALL,
)
_SEARCHED_CHARS = 4_000


def side_request(endpoint: Endpoint, request: Mapping[str, Any]) -> str | None:
    """Why this is no turn of an agent's conversation; None when it is one."""
    if endpoint.does != "answer":
        return "the provider's own compaction" if endpoint.does == "compact" else "a token count"
    if is_held_by_provider(request):
        return "a conversation that the provider holds"
    items = request.get(endpoint.list_key)
    if not isinstance(items, list) or not any(_answered(item) for item in items):
        return "a single exchange"
    if not request.get("functions") and not has_tools(request, items):
        return "no tools"
    if isinstance(items[-1], dict) and items[-1].get("type") == "compaction_trigger":  # Codex, 2026-11
        return "the agent's own compaction"
    if _SUMMARY.search(_last_text(items)):
        return "the agent's own summary"
    return None


def _answered(item: Any) -> bool:
    """Whether the model has said something by then."""
    if not isinstance(item, Mapping):
        return False
    return item.get("role") == "assistant" or item.get("type") in ("function_call", "custom_tool_call", "reasoning")


def _last_text(items: list[Any]) -> str:
    """What the request ends with, where that is not the model's own."""
    last: Any = items[-1]
    content = last.get("content") if isinstance(last, Mapping) and last.get("role") in ("user", "system") else None
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = [b.get("text") for b in blocks if isinstance(b, Mapping)]
    return next((t[:_SEARCHED_CHARS] for t in reversed(texts) if isinstance(t, str)), "")


# --- where it goes ---------------------------------------------------------------------------------------------------

CHATGPT = "https://chatgpt.com/backend-api/codex"
"""Where Codex sends what a ChatGPT login pays for."""


def upstream_url(raw_path: str, headers: Mapping[str, str], settings: Settings) -> str:
    """The full URL that a request goes on to: of the one upstream that was named, else by path and headers."""
    if settings.upstream:
        return _joined(settings.upstream, raw_path)
    if "chatgpt-account-id" in headers:
        return CHATGPT + raw_path.removeprefix("/backend-api/codex").removeprefix("/v1")
    path = raw_path.partition("?")[0]
    is_anthropic = "anthropic-version" in headers or "x-api-key" in headers or "/messages" in path or path == "/"
    return _joined(settings.anthropic if is_anthropic else settings.openai, raw_path)


def _joined(upstream: str, raw_path: str) -> str:
    """One slash between them, and a version that both name only once."""
    root = upstream.rstrip("/")
    if root.endswith("/v1") and (raw_path == "/v1" or raw_path.startswith("/v1/")):
        raw_path = raw_path.removeprefix("/v1")
    return root + raw_path
