"""Counts a JSON value as the model will read it: a message, a list of them, `system`, `tools`.

One walk collects the strings a model sees and the weight of what is no text; the strings are counted together.
Ids, cache marks and the words of the wire format are not shown to a model and cost nothing; each message and
each block costs a few tokens of framing instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..media import is_media, read_one
from .counter import Counter
from .images import IMAGE_RULES, ImageRule, media_tokens

MESSAGE_TOKENS = 3
"""Role and end of one message (OpenAI cookbook, counting tokens: 3 and 4; Claude: see below)."""

CLAUDE_CALL_TOKENS, CLAUDE_FIELD_TOKENS, CLAUDE_RESULT_TOKENS = 26, 12, 13
"""Tags around a call, around each field of its input, and around its result. From 112 turns with one call in recorded
sessions of claude-opus-4-5 (2025-12 to 2026-02): reported input less the exact count of texts is 45 + 12 a field."""

CALL_TOKENS, RESULT_TOKENS = 12, 8
"""The same for a function call of OpenAI, whose arguments are one text."""

_UNSEEN = frozenset(
    [
        "type",
        "role",
        "id",
        "tool_use_id",
        "call_id",
        "tool_call_id",
        "cache_control",
        "status",
        "index",
        "phase",
        "is_error",
        "item_id",
        "prompt_cache_breakpoint",
        "caller",
        "model",
        "usage",
        "stop_reason",
        "object",
        "created_at",
        "annotations",
        "logprobs",
        "detail",
        "media_type",
    ]
)
"""Fields of messages and blocks that no model reads."""

_BARE = frozenset(
    [
        "content",
        "text",
        "thinking",
        "output",
        "arguments",
        "name",
        "function",
        "tool_calls",
        "summary",
        "reasoning_content",
        "reasoning",
        "refusal",
        "title",
        "context",
        "source",
        "file",
        "data",
        "custom",
        "result",
        "results",
        "stdout",
        "stderr",
        "url",
        "query",
        "action",
        "commands",
    ]
)
"""Fields whose value is read, but not their name."""

_SEALED = frozenset({"signature", "encrypted_content", "thoughtSignature", "thought_signature", "encrypted_stdout"})
_THINKING = frozenset({"thinking", "redacted_thinking", "reasoning"})

_NOT, _AS_SEALED, _WITHOUT_NAME = 0, 1, 2
_READ = {
    **dict.fromkeys(("input", *_BARE), _WITHOUT_NAME),
    **dict.fromkeys(_SEALED, _AS_SEALED),
    **dict.fromkeys(_UNSEEN, _NOT),
}
"""How a field is read; any other with its name."""

_FRAMES = {
    "tool_use": CLAUDE_CALL_TOKENS,
    "server_tool_use": CLAUDE_CALL_TOKENS,
    "mcp_tool_use": CLAUDE_CALL_TOKENS,
    "tool_result": CLAUDE_RESULT_TOKENS,
    "mcp_tool_result": CLAUDE_RESULT_TOKENS,
    "function": CALL_TOKENS,
    "function_call": CALL_TOKENS,
    "custom_tool_call": CALL_TOKENS,
    "function_call_output": RESULT_TOKENS,
    "custom_tool_call_output": RESULT_TOKENS,
}
_MAX_DEPTH = 64


def count_value(value: Any, counter: Counter, *, image_rule: str | None = None) -> int:
    """Tokens of a message, a block, a list of them, `system` or `tools`.

    `image_rule` names one of `IMAGE_RULES`; without it the counter's own family decides.
    """
    if isinstance(value, str):
        return counter.count(value)
    walk = _Walk(IMAGE_RULES.get(image_rule or counter.name) or IMAGE_RULES["other"])
    walk.value(value, 0)
    return walk.tokens + counter.count("\n".join(walk.texts))


def sealed_tokens(data_chars: int) -> int:
    """What encrypted reasoning of that many base64 characters weighs: its bytes less a header of 650, by four.

    The rule of Codex (codex-rs, context manager, `estimate_reasoning_length`, 2026), whose client has no other
    way to know either.
    """
    return max(0, data_chars * 3 // 4 - 650) // 4


class _Walk:
    """Collects texts and the tokens of everything else."""

    __slots__ = ("rule", "texts", "tokens")

    def __init__(self, rule: ImageRule) -> None:
        self.rule = rule
        self.texts: list[str] = []
        self.tokens = 0

    def value(self, value: Any, depth: int) -> None:
        if isinstance(value, str):
            self.texts.append(value)
        elif isinstance(value, (list, tuple)):
            if depth > _MAX_DEPTH:
                self.json(value)
                return
            for item in value:
                if type(item) is dict:
                    self.mapping(item, depth + 1)
                else:
                    self.value(item, depth + 1)
        elif isinstance(value, Mapping):
            self.mapping(value, depth)
        elif value is not None and not isinstance(value, bool):
            self.texts.append(str(value) if isinstance(value, (int, float)) else repr(value))

    def mapping(self, value: Mapping[str, Any], depth: int) -> None:
        kind = value.get("type")
        if kind is not None and is_media(value):
            self.tokens += media_tokens(read_one(value), self.rule, detail=_detail(value))
            return
        if (
            depth > _MAX_DEPTH
            or "input_schema" in value
            or "parameters" in value
            or (kind == "function" and _defines(value))
        ):
            self.json(value)
            return
        if "role" in value:
            self.tokens += MESSAGE_TOKENS
            if value["role"] == "tool":
                self.tokens += RESULT_TOKENS
        if isinstance(kind, str):
            self.tokens += _FRAMES.get(kind, 0)
            if kind in _THINKING:
                self.thinking(value, depth)
                return
        self.fields(value, depth)

    def fields(self, value: Mapping[str, Any], depth: int) -> None:
        texts = self.texts
        for key, inner in value.items():
            how = _READ.get(key)
            if how == _NOT or inner is None:
                continue
            if how is None:
                texts.append(key)
            if type(inner) is str and how != _AS_SEALED:
                texts.append(inner)
            elif how == _AS_SEALED:
                self.tokens += sealed_tokens(len(inner)) if isinstance(inner, str) else 0
            elif key == "input" and not isinstance(inner, (str, list)):
                self.arguments(inner)
            else:
                self.value(inner, depth + 1)

    def thinking(self, value: Mapping[str, Any], depth: int) -> None:
        """Readable thinking is often a summary of what the seal holds: the larger of the two counts."""
        sealed = 0
        for key in ("signature", "data", "encrypted_content"):
            if isinstance(value.get(key), str):
                sealed += sealed_tokens(len(value[key]))
        readable = [value[key] for key in ("thinking", "summary", "content") if value.get(key)]
        chars = sum(len(text) for text in readable if isinstance(text, str))
        self.value(readable, depth)
        self.tokens += max(0, sealed - chars // 4)

    def arguments(self, value: Any) -> None:
        """The input of an Anthropic call: names and values of its fields, strings as they are."""
        if type(value) is not dict and not isinstance(value, Mapping):
            self.json(value)
            return
        self.tokens += CLAUDE_FIELD_TOKENS * len(value)
        for key, inner in value.items():
            self.texts.append(str(key))
            if isinstance(inner, str):
                self.texts.append(inner)
            else:
                self.json(inner)

    def json(self, value: Any) -> None:
        self.texts.append(_json_text(value))


def _defines(value: Mapping[str, Any]) -> bool:
    """A function's definition, not a call of it: models read it as JSON, like whatever has a schema."""
    function = value.get("function")
    return isinstance(function, Mapping) and "arguments" not in function


def _detail(block: Mapping[str, Any]) -> str:
    link = block.get("image_url")
    detail = link.get("detail") if isinstance(link, Mapping) else block.get("detail")
    return detail if isinstance(detail, str) else ""


def _json_text(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError):
        pass
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    except (TypeError, ValueError, RecursionError):
        return "\n".join(_leaves(value))


def _leaves(value: Any) -> Iterator[str]:
    """Names and values of a structure too deep or too odd for an encoder."""
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, Mapping):
            rest += [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple)):
            rest += item
        else:
            yield item if isinstance(item, str) else str(item)
