"""Mending broken requests, without inventing anything but a note that something is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ..formats import plain, read_message, split
from ..types import Edit, Format, Json, Message, Part
from ..view import apply, pair, without_mark
from .rules import (
    MAX_CACHE_MARKS,
    broken_arguments,
    count_marks,
    is_held_by_provider,
    marks_of_head,
    output_type,
    uncounted,
    violations,
)


def repair(request: Json, format: str | None = None) -> Json:
    """The request with its broken places mended: same shape, untouched parts the same objects; itself when valid.

    Results without a call are taken out, calls without a result get one that says so, empty texts get a visible
    one, arguments that are no JSON become an object that holds them, half surrogates become U+FFFD, reused ids get a
    number. What the model is told is never invented. The same request always gives the same result.
    """
    fmt, items, head = split(request, format)
    edits = repairs(fmt, [read_message(fmt, m, uncounted) for m in items], head)
    if not edits:
        return request
    mended = apply(fmt, items, edits, plain)
    return mended if isinstance(request, (list, tuple)) else {**request, fmt.list_key: mended}


def repairs(fmt: Format, messages: Sequence[Message], head: Mapping[str, Any]) -> list[Edit]:
    """The edits that mend a list: message spans, sorted. Empty when there is nothing to mend."""
    given = messages
    messages = _with_own_ids(fmt, messages)
    broken = violations(fmt, messages, head)
    if messages is given and not broken:
        return []
    gone = {v.position for v in broken if v.rule in ("orphan_server_result", "unanswered_server_call")}
    mended = [_mended(fmt, m, {b[1] for b in gone if b[0] == i}) for i, m in enumerate(messages)]
    _drop_orphans(fmt, messages, mended, head)
    _answer_open(fmt, messages, mended)
    if fmt.name == "responses":
        for (i, k), (j, _) in pair(messages).answer.items():
            kind = output_type(messages[i].parts[k])
            if mended[j] and mended[j][0].get("type") != kind:
                mended[j][0] = {**mended[j][0], "type": kind}
    for i, message in enumerate(messages):
        mended[i] = [m for m in mended[i] if not _is_empty(fmt, m, message)]
    _start_with_user(fmt, messages, mended)
    _drop_marks(fmt, mended, head)
    return [
        Edit("repair", "repaired", (i,), (i + 1,), tuple(new), reason="mended")
        for i, new in enumerate(mended)
        if len(new) != 1 or new[0] is not given[i].data
    ]


def _mended(fmt: Format, message: Message, gone: set[int]) -> list[dict[str, Json]]:
    data = _whole_characters(message.data) if message.lone_surrogates else message.data
    broken = {
        k: {"_invalid": p.arguments_text}
        for k, p in enumerate(message.parts)
        if fmt.name != "anthropic" and p.kind == "call" and broken_arguments(p)
    }
    if broken:
        data = fmt.replace_arguments(data, broken)
    if fmt.name == "chat" and data.get("tool_calls") == []:
        data = {k: v for k, v in data.items() if k != "tool_calls"}
    field = {"chat": "content", "responses": "output"}.get(fmt.name, "")
    if field and message.role == "tool" and data.get(field, None if fmt.name == "chat" else "") is None:
        data = {**data, field: "(no output)"}
    if fmt.name != "anthropic" and data.get("content") == []:
        kind = {"chat": "text"}.get(fmt.name, "output_text" if message.role == "assistant" else "input_text")
        data = {**data, "content": [{"type": kind, "text": "(no text)"}]}
    return [_with_mended_blocks(fmt, message, data, gone)]


def _with_mended_blocks(fmt: Format, message: Message, data: dict[str, Json], gone: set[int]) -> dict[str, Json]:
    """Visible texts, results before other content, no mark on thinking; without the blocks at these places."""
    old = fmt.blocks(data)
    if not old or (isinstance(data.get("content"), str) and data["content"].strip()):
        return data
    blocks = [_visible(b) for n, b in enumerate(old) if n not in gone]
    if fmt.name == "anthropic" and message.role == "assistant":
        blocks = [without_mark(b) if _type_of(b).endswith("thinking") else b for b in blocks]
    elif fmt.name == "anthropic":
        blocks.sort(key=lambda b: _type_of(b) != "tool_result")
    same = len(blocks) == len(old) and all(a is b for a, b in zip(blocks, old, strict=True))
    return data if same else fmt.with_blocks(data, blocks)


def _type_of(block: Json) -> str:
    return str(block.get("type") or "") if isinstance(block, dict) else ""


def _visible(block: Json) -> Json:
    texts = ("text", "input_text", "output_text")
    if isinstance(block, dict) and block.get("type") in texts and not str(block.get("text") or "").strip():
        return {**block, "text": "(no text)"}
    if isinstance(block, dict) and block.get("type") == "tool_result" and isinstance(block.get("content"), list):
        inner = [_visible(b) for b in block["content"]]
        if any(a is not b for a, b in zip(inner, block["content"], strict=True)):
            return {
                **block,
                "content": [
                    ({**b, "text": "(no output)"} if b is not a else b)
                    for a, b in zip(block["content"], inner, strict=True)
                ],
            }
    return block


def _whole_characters(value: Json) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole_characters(v) for v in value]
    if isinstance(value, dict):
        return {_whole_characters(k): _whole_characters(v) for k, v in value.items()}
    return value


def _drop_orphans(
    fmt: Format, messages: Sequence[Message], mended: list[list[dict[str, Json]]], head: Mapping[str, Any]
) -> None:
    if is_held_by_provider(head):
        return
    pairs = pair(messages)
    far = {at for at in pairs.question if not _answers_in_place(fmt, messages, pairs.question[at][0], at[0])}
    doomed: dict[int, set[int]] = {}
    for i, k in (*pairs.orphans, *far):
        doomed.setdefault(i, set()).add(messages[i].parts[k].block)
    for i, gone in doomed.items():
        if -1 in gone:
            mended[i] = []
            continue
        kept = [b for n, b in enumerate(fmt.blocks(messages[i].data) or []) if n not in gone]
        mended[i] = [fmt.with_blocks(mended[i][0], kept)] if kept else []


def _answers_in_place(fmt: Format, messages: Sequence[Message], i: int, j: int) -> bool:
    if fmt.name == "responses":
        return True
    if fmt.name == "chat":
        return all(messages[n].role == "tool" for n in range(i + 1, j))
    return all(messages[n].role in ("tool", "user") for n in range(i + 1, j + 1))


def _answer_open(fmt: Format, messages: Sequence[Message], mended: list[list[dict[str, Json]]]) -> None:
    """A call without a result gets one right behind it; one whose result came too late gets that one."""
    pairs = pair(messages)
    late = {call: r for call, r in pairs.answer.items() if not _answers_in_place(fmt, messages, call[0], r[0])}
    waiting = sorted([*pairs.unanswered, *late])
    for i, group in groupby(waiting, key=lambda at: at[0]):
        calls = [(messages[i].parts[k], late.get((i, k))) for _, k in group]
        calls = [(c, r) for c, r in calls if c.type != "mcp_approval_request"]
        if not calls or not mended[i]:
            continue
        results = [_result_for(fmt, call, messages[at[0]] if at else None, at) for call, at in calls]
        if fmt.name == "anthropic":
            _put_blocks(fmt, messages, mended, i, results)
        else:
            end = i + 1
            while end < len(messages) and messages[end].role == "tool" and fmt.name == "chat":
                end += 1
            mended[end - 1] = [*mended[end - 1], *results]


def _result_for(fmt: Format, call: Part, late: Message | None, at: tuple[int, int] | None) -> dict[str, Json]:
    if late is not None and at is not None:
        block = late.parts[at[1]].block
        return late.data if block < 0 else (fmt.blocks(late.data) or [])[block]
    text = "(interrupted: this call has no recorded output)"
    if fmt.name == "anthropic":
        return {"type": "tool_result", "tool_use_id": call.call_id, "content": text, "is_error": True}
    if fmt.name == "chat":
        return {"role": "tool", "tool_call_id": call.call_id, "content": text}
    return {"type": output_type(call), "call_id": call.call_id, "output": text}


def _put_blocks(
    fmt: Format, messages: Sequence[Message], mended: list[list[dict[str, Json]]], i: int, results: list[Any]
) -> None:
    n = i + 1
    if n < len(messages) and messages[n].role in ("user", "tool") and mended[n]:
        blocks = list(fmt.blocks(mended[n][0]) or [])
        at = sum(isinstance(b, dict) and b.get("type") == "tool_result" for b in blocks)
        mended[n] = [fmt.with_blocks(mended[n][0], [*blocks[:at], *results, *blocks[at:]]), *mended[n][1:]]
    else:
        mended[i] = [*mended[i], {"role": "user", "content": results}]


def _with_own_ids(fmt: Format, messages: Sequence[Message]) -> Sequence[Message]:
    """The messages with a number on each id that was used before, on call and result; themselves when none was.

    The first call keeps its id, for the cache's sake. Anthropic and Chat take an id again in a later message.
    """
    calls = [
        (i, k, p) for i, m in enumerate(messages) for k, p in enumerate(m.parts) if p.kind == "call" and not p.server
    ]
    used: Counter[tuple[int, str]] = Counter()
    new: dict[tuple[int, int], str] = {}
    for i, k, part in calls:
        scope = 0 if fmt.name == "responses" else i
        used[(scope, part.call_id)] += 1
        if used[(scope, part.call_id)] > 1 and part.type != "mcp_approval_request":
            new[(i, k)] = f"{part.call_id}_d{used[(scope, part.call_id)] - 1}"
    if not new:
        return messages
    answer = pair(messages).answer
    new |= {answer[call]: name for call, name in new.items() if call in answer}
    changed = {i: messages[i].data for i, _ in new}
    for (i, k), name in new.items():
        changed[i] = _renamed(fmt, changed[i], messages[i].parts[k], name)
    return [read_message(fmt, changed[i], uncounted) if i in changed else m for i, m in enumerate(messages)]


def _renamed(fmt: Format, data: dict[str, Json], part: Part, name: str) -> dict[str, Json]:
    if fmt.name == "responses":
        return {**data, "call_id": name}
    if fmt.name == "anthropic":
        blocks = list(data["content"])
        key = "id" if part.kind == "call" else "tool_use_id"
        blocks[part.block] = {**blocks[part.block], key: name}
        return {**data, "content": blocks}
    if part.kind == "result":
        return {**data, "tool_call_id": name}
    calls = list(data["tool_calls"])
    calls[part.index] = {**calls[part.index], "id": name}
    return {**data, "tool_calls": calls}


def _is_empty(fmt: Format, data: dict[str, Json], source: Message) -> bool:
    parts = fmt.parts(data)
    if fmt.name == "responses":
        return False
    if source.role == "assistant":
        return not any(p.kind != "thinking" for p in parts) and not data.get("audio")
    return fmt.name == "anthropic" and not parts


def _start_with_user(fmt: Format, messages: Sequence[Message], mended: list[list[dict[str, Json]]]) -> None:
    if fmt.name == "responses":
        for i, message in enumerate(messages):
            following = next((m for new in mended[i + 1 :] for m in new), None)
            alone = following is None or fmt.role(following) != "assistant"
            if alone and mended[i] and any(p.type == "reasoning" for p in message.parts):
                mended[i] = []
    if fmt.name != "anthropic":
        return
    for new in mended:
        first = next((m for m in new if fmt.role(m) != "system"), None)
        if first is not None:
            parts = fmt.parts(first)
            if fmt.role(first) == "assistant" and not (parts and parts[0].type.startswith("compaction")):
                new.insert(0, fmt.reference("(The beginning of this conversation is missing.)"))
            return
    if mended:
        mended[-1].append(fmt.reference("(This conversation is empty.)"))


def _drop_marks(fmt: Format, mended: list[list[dict[str, Json]]], head: Mapping[str, Any]) -> None:
    """The oldest cache marks of the messages go until no more than four are left."""
    if fmt.name != "anthropic":
        return
    excess = marks_of_head(head) - MAX_CACHE_MARKS
    excess += sum(count_marks(m.get("content")) for new in mended for m in new)
    for new in mended:
        for n, message in enumerate(new):
            while excess > 0 and count_marks(message.get("content")):
                message = new[n] = fmt.with_blocks(message, _without_first_mark(message["content"]))
                excess -= 1


def _without_first_mark(blocks: list[Json]) -> list[Json]:
    out = list(blocks)
    for n, block in enumerate(blocks):
        if not isinstance(block, dict):
            continue
        if block.get("cache_control"):
            out[n] = without_mark(block)
            return out
        if count_marks(block.get("content")):
            out[n] = {**block, "content": _without_first_mark(block["content"])}
            return out
    return out
