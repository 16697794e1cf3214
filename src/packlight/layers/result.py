"""What layers say in place of a tool result, and what they must not touch."""

from __future__ import annotations

from collections.abc import Iterable

from ..formats import encode_as_is
from ..summary.wording import outcome_of, preview, target_of
from ..types import Edit
from ..view import ResultAt, View


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
    if result.call is None:
        return "tool result"
    return f"{result.tool} {target_of(result.call)}".strip() or "tool result"


def cleared(view: View, layer: str, result: ResultAt, reason: str) -> Edit | None:
    """An edit that puts one informative line in place of a result; None when that would not make it smaller."""
    text = taken_text(view, result)
    ref, where = view.refer(text)
    tokens = round(view.count(text) * view.ratio)
    line = f"[cleared to save room: {target_words(result)} -> {outcome_of(result.part)}; {size_words(len(text), tokens)}; {where}]"
    return _replaced(view, layer, "cleared", result, line, reason, ref)


def previewed(
    view: View, layer: str, result: ResultAt, reason: str, *, head_chars: int, tail_chars: int, error_lines: int = 20
) -> Edit | None:
    """An edit that shows beginning, end and error lines of a result; None when that would not make it smaller."""
    text = taken_text(view, result)
    ref, where = view.refer(text)
    shown = preview(result.part.text, head_chars=head_chars, tail_chars=tail_chars, error_lines=error_lines)
    tokens = round(view.count(text) * view.ratio)
    head = f"[long output of {target_words(result)}: {size_words(len(text), tokens)}; {where}; its beginning and end follow]"
    return _replaced(view, layer, "stored", result, f"{head}\n{shown}", reason, ref)


def _replaced(view: View, layer: str, action: str, result: ResultAt, text: str, reason: str, ref: str) -> Edit | None:
    new = view.format.replace_result(view.messages[result.message].data, result.part, text)
    if new is None:
        return None
    path = target_of(result.call) if result.call else ""
    edit = view.replace(
        layer,
        action,
        result.span,
        [new],
        reason=reason,
        ref=ref,
        call_id=result.part.call_id,
        tool=result.tool,
        path=path,
    )
    return edit if edit.tokens_after < result.tokens else None


def clearable(view: View) -> Iterable[ResultAt]:
    """Results that a layer may clear: seen by the model, not cleared yet, not the provider's, not kept by the user."""
    for result in view.results():
        done = result.edit is not None and result.edit.action == "cleared"
        if result.message < view.first_unseen and not done and not result.part.server and not view.is_kept(result):
            yield result
