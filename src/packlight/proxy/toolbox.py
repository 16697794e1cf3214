"""Where the tools of a request stand: beside its list, or in the list (Responses), as Codex has them.

Codex 0.171 sends no `tools` with its default model; its list begins with an item `{"type": "additional_tools", "role":
"developer", "tools": [...]}`, of namespaces. OpenAI's types (openai 3.57, `AdditionalTools`) allow any tool there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..types import Json

__all__ = ["first_box", "has_tools", "names_of", "tools_of"]


def first_box(items: Sequence[Json]) -> int | None:
    """Index of the first item of the list that brings tools."""
    return next((i for i, item in enumerate(items) if _tools_in(item)), None)


def has_tools(request: Mapping[str, Any], items: Sequence[Json]) -> bool:
    """Whether a request has any; its list is only looked through where none stand beside it."""
    beside = request.get("tools")
    return (isinstance(beside, list) and bool(beside)) or first_box(items) is not None


def tools_of(request: Mapping[str, Any], items: Sequence[Json]) -> list[Json]:
    """All tools of a request; namespaces as they stand."""
    beside = request.get("tools")
    return [*(beside if isinstance(beside, list) else ()), *(tool for item in items for tool in _tools_in(item))]


def names_of(tools: Sequence[Json]) -> Iterator[str | None]:
    """The names of tools, those in namespaces too."""
    for tool in tools:
        if isinstance(tool, Mapping):
            function = tool.get("function")
            yield tool.get("name") or (function.get("name") if isinstance(function, Mapping) else None)
            yield from names_of(inner) if isinstance(inner := tool.get("tools"), list) else ()


def _tools_in(item: Json) -> Sequence[Json]:
    if not isinstance(item, Mapping) or item.get("type") != "additional_tools":
        return ()
    tools = item.get("tools")
    return tools if isinstance(tools, list) else ()
