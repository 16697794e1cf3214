"""Claude Code's attachments as text.

The client sends them inside `<system-reminder>`, but records only their data: the words around the data here are
close to the client's, not equal to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...types import Json
from .values import mappings

_WITHOUT_TEXT = frozenset({"hook_system_message", "command_permissions", "auto_mode", "hook_non_blocking_error"})
"""Shown to the user, or settings of the client: the model does not see them."""


def text_of(attachment: Mapping[str, Json]) -> str | None:
    """What the model sees of an attachment; empty for nothing, None when the kind is not known."""
    kind = str(attachment.get("type"))
    if kind in _WITHOUT_TEXT:
        return ""
    if kind == "queued_command":
        return _lines(attachment.get("prompt"))
    render = _RENDER.get(kind)
    text = render(attachment) if render else _lines(attachment.get("content"))
    if not text:
        return "" if render else None
    return f"<system-reminder>\n{text}\n</system-reminder>"


def _lines(value: Json) -> str:
    """Text, or a list of texts or text blocks."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return _lines(value.get("content", value.get("text")))
    if isinstance(value, list):
        return "\n".join(filter(None, map(_lines, value)))
    return ""


def _file(a: Mapping[str, Any]) -> str:
    content = a.get("content")
    text = _lines(content.get("file")) if isinstance(content, Mapping) else _lines(content)
    return f"Called the Read tool on {a.get('filename')}. Its result:\n{text}" if text else ""


def _file_reference(a: Mapping[str, Any]) -> str:
    return (
        f"Note: {a.get('filename')} was read before the last conversation was summarized, but its contents are too "
        "large to include. Use the Read tool if you need to access it."
    )


def _edited(a: Mapping[str, Any]) -> str:
    snippet = _lines(a.get("snippet"))
    return f"Note: {a.get('filename')} was modified. The relevant changes, with line numbers:\n{snippet}"


def _memory(a: Mapping[str, Any]) -> str:
    text = _lines(a.get("content"))
    return f"Contents of {a.get('path')}:\n\n{text}" if text else ""


def _hook(a: Mapping[str, Any]) -> str:
    text = _lines(a.get("content"))
    return f"{a.get('hookName', 'hook')} hook: {text}" if text else ""


def _hook_success(a: Mapping[str, Any]) -> str:
    """Only these two hooks speak to the model when they succeed."""
    return _hook(a) if a.get("hookEvent") in ("SessionStart", "UserPromptSubmit") else ""


def _listing(title: str, *keys: str) -> Callable[[Mapping[str, Any]], str]:
    def render(a: Mapping[str, Any]) -> str:
        text = next(filter(None, (_lines(a.get(k)) for k in keys)), "")
        return f"{title}\n{text}" if text else ""

    return render


def _tasks(a: Mapping[str, Any]) -> str:
    tasks = mappings(a.get("content"))
    rows = [f"- [{t.get('status')}] {t.get('subject') or t.get('content')}" for t in tasks]
    return "\n".join(["The task tools haven't been used recently. Use them if they help; else ignore this.", *rows])


_RENDER: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "file": _file,
    "compact_file_reference": _file_reference,
    "edited_text_file": _edited,
    "nested_memory": _memory,
    "hook_additional_context": _hook,
    "hook_success": _hook_success,
    "skill_listing": _listing("The following skills are available:", "content"),
    "deferred_tools_delta": _listing("These tools can be loaded by name:", "addedLines", "addedNames"),
    "agent_listing_delta": _listing("These agent types are available:", "addedLines", "addedTypes"),
    "mcp_instructions_delta": _listing("Instructions of the MCP servers:", "addedBlocks"),
    "task_reminder": _tasks,
    "todo_reminder": _tasks,
}
