"""Compaction that the provider does itself, as Anthropic (on demand, `compact-2026-09-04`) and OpenAI offer it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .binding import compaction_signature, is_signed
from .replies import Counted, Reply, compaction_item

Json = Any
BETA = "compact-2026-09-04"
COMPACT_PATH = "/responses/compact"
_NOT_BESIDE = ("context_management", "stop_sequences", "output_format")


def wrong(body: Json, headers: Mapping[str, str]) -> str:
    """What Anthropic refuses of a request that asks for a compaction or carries one; empty when nothing."""
    named = BETA in headers.get("anthropic-beta", "")
    blocks = list(_blocks(body))
    asks = body.get("compaction") is not None
    if asks and not named:
        return f"compaction: requires anthropic-beta: {BETA}"
    if blocks and not named:
        return "messages.0.content.0: Input tag 'compaction' found using 'type' does not match any of the expected tags"
    if len(blocks) > 1:
        return "compaction_block_ambiguous: send only the block the conversation returned last"
    for place, block in blocks:
        if place != (0, 0):
            return "compaction_block_misplaced: the block must be the first of the conversation"
        if extra := set(block) - {"type", "content", "signature", "cache_control"}:
            return f"messages.0.content.0.compaction.{min(extra)}: Extra inputs are not permitted"
        if not is_signed(block):
            return "compaction_content_mismatch: the block is not what was returned"
    return _unfit(body) if asks else ""


def _unfit(body: Json) -> str:
    """What a request for a compaction may not hold."""
    if beside := next((key for key in _NOT_BESIDE if body.get(key)), ""):
        return f"{beside} can't be combined with compaction"
    is_forced = (body.get("tool_choice") or {}).get("type") in ("any", "tool")
    if is_forced or (body.get("output_config") or {}).get("format"):
        return "tool_choice and output_config.format can't be combined with compaction"
    messages = body.get("messages") or []
    if not messages:
        return "compaction_nothing_to_summarize: no messages"
    last = messages[-1].get("content")
    if messages[-1]["role"] == "assistant" and any(b.get("type") == "tool_use" for b in last if isinstance(b, dict)):
        return "compaction_incomplete_turn: the last assistant turn is not finished"
    return ""


def _blocks(body: Json) -> Iterator[tuple[tuple[int, int], Json]]:
    for m, message in enumerate(body.get("messages") or ()):
        content = message.get("content")
        for b, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict) and block.get("type") == "compaction":
                yield (m, b), block


def retold(number: int, body: Json) -> Reply:
    """What a server writes that nobody told what to write."""
    items = body.get("messages") or body.get("input") or []
    return Reply(f"Summary {number}: {len(items)} messages were exchanged; the work goes on.")


def anthropic_answer(reply: Reply, number: int, counted: Counted, body: Json) -> Json:
    """One signed block, or none with the reason why."""
    is_written = bool(reply.text) and not reply.is_cut and not reply.calls
    block = {"type": "compaction", "content": reply.text, "signature": compaction_signature(body, reply.text)}
    step = {"type": "compaction", "input_tokens": counted.input_tokens, "output_tokens": reply.output_tokens}
    stop = "compaction" if is_written else "max_tokens" if reply.is_cut else "tool_use" if reply.calls else "end_turn"
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [block] if is_written else [],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0, "iterations": [step]},
    }


def openai_answer(reply: Reply, number: int, counted: Counted, body: Json) -> Json:
    """The users' messages as they were, and one item that only the provider can read."""
    items = body.get("input") or []
    kept = [{**i, "type": "message", "id": f"msg_{number}_{n}"} for n, i in enumerate(items) if i.get("role") == "user"]
    sealed = compaction_item(number)
    usage = {
        "input_tokens": counted.input_tokens,
        "output_tokens": reply.output_tokens,
        "total_tokens": counted.input_tokens + reply.output_tokens,
    }
    return {
        "id": f"resp_{number}",
        "object": "response.compaction",
        "created_at": 1,
        "output": [*kept, sealed] if reply.text and not reply.is_cut else kept,
        "usage": usage,
    }
