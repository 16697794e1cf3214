"""What layers say in place of a tool result, and what they must not touch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ..formats import encode_as_is
from ..summary.wording import outcome_of, preview, target_at
from ..types import Edit, Json
from ..view import ResultAt, View, noted
from .keep import is_kept

Action = Literal["stored", "cleared"]


def size_words(chars: int, tokens: int) -> str:
    return f"{chars:,} characters, about {tokens:,} tokens"


def taken_text(view: View, result: ResultAt) -> str:
    """What is stored of a result: its text, or its JSON when it is not only text."""
    if result.part.text and not result.part.media:
        return result.part.text
    data = view.messages[result.message].data
    block = data if result.part.block < 0 else (view.format.blocks(data) or [])[result.part.block]
    return encode_as_is(block).decode()


def target_words(result: ResultAt) -> str:
    """Tool and target, as a person would name the call."""
    target = target_at(result.view, result.message, result.place)
    return f"{result.tool} {target}".strip() or "tool result"


def cleared(view: View, layer: str, result: ResultAt, reason: str) -> Edit | None:
    """An edit that puts one informative line in place of a result; None when that would not make it smaller."""
    text = taken_text(view, result)
    ref, where = view.refer(text)
    size = size_words(len(text), round(source_tokens(view, result) * view.ratio))
    line = f"[cleared to save room: {target_words(result)} -> {outcome_of(result.part)}; {noted(size, where)}]"
    return _replaced(view, layer, "cleared", result, line, reason, ref)


def previewed(
    view: View, layer: str, result: ResultAt, reason: str, *, head_chars: int, tail_chars: int, error_lines: int = 20
) -> Edit | None:
    """An edit that shows beginning, end and error lines of a result; None when that would not make it smaller."""
    text = taken_text(view, result)
    ref, where = view.refer(text)
    shown = preview(result.part.text, head_chars=head_chars, tail_chars=tail_chars, error_lines=error_lines)
    size = size_words(len(text), round(source_tokens(view, result) * view.ratio))
    head = f"[long output of {target_words(result)}: {noted(size, where)}; its beginning and end follow]"
    return _replaced(view, layer, "stored", result, f"{head}\n{shown}", reason, ref)


def source_tokens(view: View, result: ResultAt) -> int:
    """What the result weighs in the source, uncalibrated; a message with nothing else in it is not counted again."""
    message = view.messages[result.message]
    if result.part.block >= 0 and len(message.parts) > 1:
        return view.span_tokens(result.span)
    role: Json = message.data.get("role")
    frame: int = view.memo.setdefault("frame", {}).get(str(role), -1)
    if frame < 0:
        frame = view.memo["frame"][str(role)] = view.count({"role": role, "content": []})
    return max(1, message.tokens - (frame if result.part.block >= 0 else 0))


def _replaced(
    view: View, layer: str, action: Action, result: ResultAt, text: str, reason: str, ref: str
) -> Edit | None:
    new = view.format.replace_result(view.messages[result.message].data, result.part, text)
    if new is None:
        return None
    before, after = source_tokens(view, result), view.count(new)
    if after >= min(before, result.tokens):
        return None
    return Edit(
        layer,
        action,
        *result.span,
        (new,),
        reason=reason,
        ref=ref,
        call_id=result.part.call_id,
        tool=result.tool,
        path=target_at(view, result.message, result.place),
        tokens_before=before,
        tokens_after=after,
    )


def clearable(view: View) -> Iterable[ResultAt]:
    """Results that a layer may clear: seen by the model, not cleared yet, not the provider's, not kept by the user."""
    for result in view.results():
        done = result.edit is not None and result.edit.action == "cleared"
        if result.message < view.first_unseen and not done and not result.part.server and not is_kept(view, result):
            yield result
