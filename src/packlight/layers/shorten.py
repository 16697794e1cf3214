"""Making one thing smaller in its place: a result, the arguments of a call, a text, an image.

What is taken out is named by its reference, and what stays says how much is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..formats import encode_as_is
from ..summary.wording import head as head_of
from ..summary.wording import tail as tail_of
from ..types import Edit, Json, Part
from ..view import View, noted
from .fold import is_joined
from .result import previewed

FIXED_LAYER = "reactive_compact"
_NOTE_CHARS = 120


def cut_text(view: View, text: str, keep_chars: int) -> tuple[str, str]:
    """Beginning and end of a text with a note of what is missing, and the reference of the whole; at line borders."""
    ref, where = view.refer(text)
    begin, end = head_of(text, keep_chars * 2 // 3), tail_of(text, keep_chars // 3)
    missing = len(text) - len(begin) - len(end)
    note = noted(f"{missing:,} characters left out here to save room", where)
    return f"{begin}\n[{note}]\n{end}", ref


def results(view: View, keep_chars: int, *, unseen: bool) -> Iterator[Edit]:
    """Previews of results longer than that, biggest first; unseen ones too when they may."""
    for result in sorted(view.results(), key=lambda r: -r.tokens):
        if len(result.part.text) <= keep_chars + _NOTE_CHARS or result.part.server:
            continue
        if result.message >= view.first_unseen and not unseen:
            continue
        if result.edit is not None and result.edit.action != "stored":
            continue
        reason = "the request would not fit"
        edit = previewed(
            view,
            FIXED_LAYER,
            result,
            reason,
            head_chars=keep_chars * 2 // 3,
            tail_chars=keep_chars // 3,
            error_lines=keep_chars // 200,
        )
        if edit:
            yield edit


_LONG_TEXT, _LONG_ARGUMENTS = "a long text", "long arguments"


def _is_free(view: View, i: int, block: int, reason: str) -> bool:
    """Whether nothing stands in place of it but what was cut for the same reason: that may be cut further."""
    edit = view.edit_of(i, block)
    return edit is None or (edit.layer == FIXED_LAYER and edit.reason == reason)


def arguments(view: View, keep_chars: int) -> Iterator[Edit]:
    """Long strings inside the arguments of calls, cut; keys and short values stay, so the call keeps its shape."""
    for i, message in enumerate(view.messages):
        if message.role != "assistant" or not _is_free(view, i, -1, _LONG_ARGUMENTS):
            continue
        new: dict[int, dict[str, Json]] = {}
        for k, part in enumerate(message.parts):
            if part.kind != "call" or part.server or not _is_free(view, i, part.block, _LONG_ARGUMENTS):
                continue
            if (small := _small_arguments(view, part, keep_chars)) is not None:
                new[k] = small
        if new:
            yield from _with_arguments(view, i, new)


_OBJECT_CALLS = frozenset({"tool_use", "function", "function_call"})
"""Calls whose arguments are an object of the tool's own; a shell's or a computer's action has a fixed form."""


def _small_arguments(view: View, part: Part, keep_chars: int) -> dict[str, Json] | None:
    if part.arguments is not None and part.type in _OBJECT_CALLS:
        small = _small(view, part.arguments, keep_chars)
        return small if small is not part.arguments else None
    if part.type in ("custom_tool_call", "custom") and len(part.arguments_text) > keep_chars + _NOTE_CHARS:
        return {"input": cut_text(view, part.arguments_text, keep_chars)[0]}
    return None


def _small(view: View, value: Any, keep_chars: int) -> Any:
    if isinstance(value, str):
        return cut_text(view, value, keep_chars)[0] if len(value) > keep_chars + _NOTE_CHARS else value
    if isinstance(value, Mapping):
        new = {k: _small(view, v, keep_chars) for k, v in value.items()}
        return new if any(new[k] is not v for k, v in value.items()) else value
    if isinstance(value, list):
        items = [_small(view, v, keep_chars) for v in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def _with_arguments(view: View, i: int, new: Mapping[int, Mapping[str, Json]]) -> Iterator[Edit]:
    message = view.messages[i]
    changed = view.format.replace_arguments(message.data, new)
    calls = [message.parts[k] for k in new]
    about: dict[str, Any] = {"reason": _LONG_ARGUMENTS, "call_id": calls[0].call_id, "tool": calls[0].tool}
    blocks = view.format.blocks(changed) if calls[0].block >= 0 else None
    if blocks is None:
        if not all(_is_free(view, i, p.block, _LONG_ARGUMENTS) for p in message.parts):
            return
        text = encode_as_is(message.data).decode()
        yield from _if_smaller(
            view, view.replace(FIXED_LAYER, "shortened", ((i,), (i + 1,)), [changed], ref=view.refer(text)[0], **about)
        )
        return
    for part in calls:
        span = ((i, part.block), (i, part.block + 1))
        text = encode_as_is(part.arguments).decode()
        yield from _if_smaller(
            view, view.replace(FIXED_LAYER, "shortened", span, [blocks[part.block]], ref=view.refer(text)[0], **about)
        )


def _if_smaller(view: View, edit: Edit) -> Iterator[Edit]:
    """The edit, when it is smaller than what stands there now."""
    standing = view.edit_of(edit.start[0], edit.start[1] if len(edit.start) == 2 else -1)
    if edit.tokens_after < (standing.tokens_after if standing else edit.tokens_before):
        yield edit


def texts(
    view: View,
    keep_chars: int,
    roles: tuple[str, ...],
    skip: frozenset[int] | set[int] = frozenset(),
) -> Iterator[Edit]:
    """Texts longer than that in messages of these roles, cut, oldest first."""
    for i, message in enumerate(view.messages):
        if message.role not in roles or i in skip:
            continue
        if is_joined(view, i):
            yield from _cut_joined(view, i, keep_chars)
            continue
        for part in message.parts:
            if part.kind != "text" or len(part.text) <= keep_chars + _NOTE_CHARS or part.type == "refusal":
                continue
            if not _is_free(view, i, part.block, _LONG_TEXT):
                continue
            cut, ref = cut_text(view, part.text, keep_chars)
            yield from _replaced_part(view, i, part, cut, ref, _LONG_TEXT, FIXED_LAYER)


def _cut_joined(view: View, i: int, keep_chars: int) -> Iterator[Edit]:
    """The long texts of a user's message that stands in one with our own text, cut there."""
    joined = view.edit_of(i)
    if joined is None:
        return
    data = joined.replacement[0]
    content = data["content"]
    for part in view.messages[i].parts:
        if part.kind != "text" or len(part.text) <= keep_chars + _NOTE_CHARS:
            continue
        cut, _ = cut_text(view, part.text, keep_chars)
        if isinstance(content, str):
            content = content.replace(part.text, cut, 1)
        else:
            content = [{**b, "text": cut} if b.get("text") == part.text else b for b in content]
    if content is data["content"]:
        return
    span = (joined.start, joined.end)
    new = {**data, "content": content}
    edit = view.replace(joined.layer, joined.action, span, [new], reason=joined.reason, ref=joined.ref)
    if edit.tokens_after < joined.tokens_after:
        yield edit


def media(
    view: View, *, keep_newest: int = 0, layer: str = FIXED_LAYER, places: set[tuple[int, int]] | None = None
) -> Iterator[Edit]:
    """Images and documents replaced by a line that says what was there: oldest first, or those at these places."""
    found = [
        (i, k)
        for i, m in enumerate(view.messages)
        if m.images and not view.is_folded(i)
        for k, p in enumerate(m.parts)
        if p.media
    ]
    chosen = found[: len(found) - keep_newest] if places is None else [at for at in found if at in places]
    for i, k in chosen:
        part = view.messages[i].parts[k]
        if view.edit_of(i, part.block) is not None or (part.kind == "result" and part.server):
            continue
        ref, where = view.refer(encode_as_is(_raw(view, i, part)).decode())
        line = f"[{noted(f'{_media_words(part)} taken out to save room', where)}]"
        if part.kind == "result":
            text = f"{part.text}\n{line}" if part.text else line
            new = view.format.replace_result(view.messages[i].data, part, text)
            if new is not None:
                span = ((i,), (i + 1,)) if part.block < 0 else ((i, part.block), (i, part.block + 1))
                yield view.replace(layer, "cleared", span, [new], reason="media", ref=ref, call_id=part.call_id)
        else:
            yield from _replaced_part(view, i, part, line, ref, "media", layer, action="cleared")


def _raw(view: View, i: int, part: Part) -> Json:
    data = view.messages[i].data
    return data if part.block < 0 else (view.format.blocks(data) or [])[part.block]


def _media_words(part: Part) -> str:
    size = next((f" of {m.width}x{m.height} pixels" for m in part.media if m.width and m.height), "")
    return f"{len(part.media)} media" if len(part.media) > 1 else f"{part.media[0].kind}{size}"


def _replaced_part(
    view: View, i: int, part: Part, text: str, ref: str, reason: str, layer: str, *, action: str = "shortened"
) -> Iterator[Edit]:
    new = view.format.replace_text(view.messages[i].data, part, text)
    span = ((i, part.block), (i, part.block + 1)) if part.block >= 0 else ((i,), (i + 1,))
    edit = view.replace(layer, action, span, [new], reason=reason, ref=ref)
    yield from [edit] if part.media else _if_smaller(view, edit)
