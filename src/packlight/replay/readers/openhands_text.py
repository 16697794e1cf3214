"""The words that OpenHands makes of an event for its model (V0: `ConversationMemory` and the events' own `to_*`)."""

from __future__ import annotations

from ...types import Json
from .values import Record, as_text, mapping, mappings, string

_SHOWN = {"run": ("command", "execute_bash"), "run_ipython": ("code", "execute_ipython"), "browse": ("url", "browse")}
"""Actions written as text: the argument that is shown, and the tag around it."""


def action_text(event: Record) -> Json:
    """An action that is no call: a message, or what was done, in the agent's or the user's words."""
    args, kind = mapping(event.get("args")), event.get("action")
    if kind == "message":
        return _with_images(args.get("content"), args.get("image_urls"))
    if kind == "finish":
        return "\n".join(t for t in (_thought(args), args.get("final_thought")) if isinstance(t, str) and t)
    if kind == "run" and event.get("source") == "user":
        return f"User executed the command:\n{args.get('command')}"
    key, tag = _SHOWN.get(str(kind), ("", str(kind)))
    shown = args.get(key) if key else as_text({k: v for k, v in args.items() if k != "thought"})
    return f"{_thought(args)}\n<{tag}>\n{shown}\n</{tag}>".strip()


def observation_text(event: Record) -> Json:
    """What came back, as the model was shown it."""
    extras, content = mapping(event.get("extras")), event.get("content")
    kind, text = event.get("observation"), string(content)
    if kind == "run":
        shown = _run(text, extras)
        called = isinstance(event.get("tool_call_metadata"), dict) or event.get("source") != "user"
        return shown if called else f"\nObserved result of command executed by user:\n{shown}"
    if kind == "recall":
        return _recalled(extras)
    if kind == "edit" and isinstance(extras.get("formatted_output_and_error"), str):
        return extras["formatted_output_and_error"]
    if kind == "error":
        return f"{text}\n[Error occurred in processing last action]"
    if kind == "user_rejected":
        return f"OBSERVATION:\n{text}\n[Last action has been rejected by the user]"
    return content if isinstance(content, list) else _with_images(text, extras.get("image_urls"))


def _run(text: str, extras: Record) -> str:
    metadata = mapping(extras.get("metadata"))
    if not metadata:
        code = extras.get("exit_code")
        return text if code is None else f"{text}\n[Command finished with exit code {code}]"
    parts = [f"{metadata.get('prefix') or ''}{text}{metadata.get('suffix') or ''}"]
    if metadata.get("working_dir"):
        parts.append(f"[Current working directory: {metadata['working_dir']}]")
    if metadata.get("py_interpreter_path"):
        parts.append(f"[Python interpreter: {metadata['py_interpreter_path']}]")
    if metadata.get("exit_code", -1) != -1:
        parts.append(f"[Command finished with exit code {metadata['exit_code']}]")
    return "\n".join(parts)


def _recalled(extras: Record) -> str:
    """The pieces of a recall. The template around them is not in the file."""
    hosts = mapping(extras.get("runtime_hosts"))
    pieces = [
        *(extras.get(k) for k in ("repo_name", "repo_directory", "repo_instructions")),
        as_text(hosts) if hosts else "",
        *(extras.get(k) for k in ("additional_agent_instructions", "date", "conversation_instructions")),
        *(knowledge.get("content") for knowledge in mappings(extras.get("microagent_knowledge"))),
    ]
    return "\n".join(p for p in pieces if isinstance(p, str) and p)


def _thought(args: Record) -> str:
    thought = args.get("thought")
    return string(thought) or string(mapping(thought).get("text"))


def _with_images(text: Json, urls: Json) -> Json:
    images = [u for u in urls if isinstance(u, str) and u] if isinstance(urls, list) else []
    if not images:
        return text
    shown = [{"type": "image_url", "image_url": {"url": u}} for u in images]
    return [{"type": "text", "text": string(text)}, *shown]
