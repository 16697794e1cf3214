"""Claude Code's attachments as text.

The client sends them inside `<system-reminder>`. Before 2.1.29x it records only their data: the words around the data
here are close to the client's, not equal to them. Later records have what was sent as well (`rendered`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...types import Json
from .values import mapping, mappings, strings

_WITHOUT_TEXT = frozenset({
    "hook_system_message", "hook_non_blocking_error", "hook_cancelled", "hook_error_during_execution",
    "hook_permission_decision", "command_permissions", "structured_output", "auto_mode", "already_read_file",
    "edited_image_file", "dynamic_skill", "context_efficiency", "prompt_snapshot", "deferred_tools_record",
    "credential_org", "thinking_stripped", "thinking_drop",
})  # fmt: skip
"""Shown to the user, or settings of the client: the model does not see them, or not here."""
_TEXT_KEYS = ("content", "body", "text", "message", "newDate", "date")


def text_of(record: Mapping[str, Json]) -> str | None:
    """What the model sees of an attachment; empty for nothing, None when the kind is not known."""
    if isinstance(record.get("rendered"), list):
        return _lines(record["rendered"])
    attachment = mapping(record.get("attachment"))
    kind = str(attachment.get("type"))
    if kind in _WITHOUT_TEXT:
        return ""
    if kind == "queued_command":
        return _lines(attachment.get("prompt"))
    render = _RENDER.get(kind)
    text = render(attachment) if render else next(filter(None, (_lines(attachment.get(k)) for k in _TEXT_KEYS)), "")
    if not text:
        return "" if render else None
    return f"<system-reminder>\n{text}\n</system-reminder>"


def head_of(attachment: Mapping[str, Json]) -> dict[str, Any]:
    """System prompt and tools of a request, where an attachment holds them (2.1.26x and later)."""
    if attachment.get("type") != "prompt_snapshot":
        return {}
    texts = [attachment.get("cliPrefix"), *strings(attachment.get("systemPrompt"))]
    system = [{"type": "text", "text": t} for t in texts if isinstance(t, str) and t]
    tools = [_tool(t) for t in mappings(attachment.get("tools"))]
    return {k: v for k, v in (("system", system), ("tools", tools)) if v}


def _tool(tool: Mapping[str, Json]) -> dict[str, Any]:
    """`schema` is the whole definition, or that of its input alone."""
    schema = mapping(tool.get("schema"))
    known = {"name": tool.get("name"), "description": tool.get("description"), "input_schema": schema}
    return schema if "input_schema" in schema else known


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


def _files(key: str) -> Callable[[Mapping[str, Any]], str]:
    def render(a: Mapping[str, Any]) -> str:
        texts = [(f.get("path", f.get("name")), _lines(f.get("content", f.get("text")))) for f in mappings(a.get(key))]
        return "\n\n".join(f"Contents of {path}:\n\n{text}" for path, text in texts if text)

    return render


def _values(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda a: "\n".join(f"{k}: {v}" for k, v in mapping(a.get(key)).items())


def _plan(a: Mapping[str, Any]) -> str:
    text = _lines(a.get("planContent"))
    return f"The plan in {a.get('planFilePath')}:\n\n{text}" if text else ""


_RENDER: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "file": _file,
    "compact_file_reference": _file_reference,
    "edited_text_file": _edited,
    "nested_memory": _memory,
    "hook_additional_context": _hook,
    "hook_success": _hook_success,
    "hook_blocking_error": lambda a: _hook({**a, "content": mapping(a.get("blockingError")).get("blockingError")}),
    "instructions": _files("files"),
    "relevant_memories": _files("memories"),
    "invoked_skills": _files("skills"),
    "context_sections": _files("sections"),
    "environment": _values("snapshot"),
    "session_context": _values("context"),
    "plan_file_reference": _plan,
    "opened_file_in_ide": lambda a: f"The user opened the file {a.get('filename')} in the IDE.",
    "skill_listing": _listing("The following skills are available:", "content"),
    "deferred_tools_delta": _listing("These tools can be loaded by name:", "body", "addedLines", "addedNames"),
    "agent_listing_delta": _listing("These agent types are available:", "addedLines", "addedTypes"),
    "mcp_instructions_delta": _listing("Instructions of the MCP servers:", "addedBlocks"),
    "task_reminder": _tasks,
    "todo_reminder": _tasks,
}
