"""The rules of the three APIs as small properties: what a valid request is, where it may be cut, how it is mended.

One function a rule. `violations` lists what breaks them, with position and rule; `segments` gives the pieces that
only move as a whole; `repairs` mends what can be mended without inventing anything but a note that something is
missing. Sources: platform.claude.com and developers.openai.com (September to November 2026), the types of the
official SDKs, and the error texts that providers sent to the users in tests/data/bugs.jsonl.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from .formats import FORMATS, encode, plain, read_message, split
from .types import Edit, Format, Json, Message, Part, Violation
from .view import Pairs, View, apply, pair

MAX_CACHE_MARKS = 4
"""Anthropic: "A maximum of 4 blocks with cache_control may be provided"."""

Rule = Callable[[Sequence[Message], Pairs, Mapping[str, Any]], Iterable[Violation]]


def validate(request: Json, format: str | None = None) -> list[Violation]:
    """The places where a request (or a bare list) breaks a rule of its API; empty when valid.

    Checks shape and order, not the tokens. Raises InvalidRequest when it is no request at all.
    """
    fmt, items, head = split(request, format)
    return violations(fmt, [read_message(fmt, m, _uncounted) for m in items], head)


def violations(fmt: Format, messages: Sequence[Message], head: Mapping[str, Any]) -> list[Violation]:
    """Violations of messages already read, by position."""
    pairs = pair(messages)
    found = [v for rule in _RULES[fmt.name] for v in rule(messages, pairs, head)]
    return sorted(found, key=lambda v: (v.position, v.rule))


def gained(before: Sequence[Violation], after: Sequence[Violation]) -> list[Violation]:
    """Those that came by an edit: more of a rule than there were before."""
    had = Counter(v.rule for v in before)
    new: list[Violation] = []
    for violation in after:
        had[violation.rule] -= 1
        if had[violation.rule] < 0:
            new.append(violation)
    return new


def rendered_messages(view: View) -> list[Message]:
    """The view's messages as they would be sent; those that no edit touches are the same objects."""
    known = {id(m.data): m for m in view.messages}
    return [known.get(id(data)) or read_message(view.format, data, _uncounted) for data in view.rendered()]


def _uncounted(value: Json) -> int:
    return 0


# --- rules of all three ------------------------------------------------------------------------------------------


def _lone_surrogates(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    for i, message in enumerate(messages):
        if message.lone_surrogates:
            yield Violation((i,), "lone_surrogate", "half a surrogate pair can't be sent as UTF-8")


def _orphans(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    if head.get("previous_response_id") or head.get("conversation"):
        return  # their calls are on the server
    answered = {messages[i].parts[k].call_id for i, k in pairs.answer}
    for i, k in pairs.orphans:
        part = messages[i].parts[k]
        rule = "duplicate_result" if part.call_id in answered else "orphan_result"
        text = "answers a call that has its result" if rule == "duplicate_result" else "answers no call before it"
        yield Violation(_at(i, part), rule, f"result {part.call_id!r} {text}")


def _unanswered(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    for i, k in pairs.unanswered:
        part = messages[i].parts[k]
        if part.type != "mcp_approval_request":
            yield Violation(_at(i, part), "unanswered_call", f"call {part.call_id!r} of {part.tool!r} has no result")


def _at(i: int, part: Part) -> tuple[int, ...]:
    return (i, part.block) if part.block >= 0 else (i,)


# --- Anthropic ---------------------------------------------------------------------------------------------------


def _adjacent_anthropic(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    """Results stand in the user turn right behind their calls, before any other content of it."""
    turn_of = _turns(messages)
    for (i, k), (j, m) in pairs.answer.items():
        if turn_of[j] != turn_of[i] + 1:
            part = messages[j].parts[m]
            yield Violation(_at(i, messages[i].parts[k]), "result_not_adjacent", f"result {part.call_id!r} comes later than the next turn")
    for i, message in enumerate(messages):
        other = False
        for part in message.parts if message.role == "user" else ():
            if part.kind == "result" and not part.server and other:
                yield Violation(_at(i, part), "result_after_content", "tool results come first in a user message")
            other = other or part.kind != "result"


def _turns(messages: Sequence[Message]) -> list[int]:
    """Number of the turn each message belongs to: neighbours of one side are one turn to the API."""
    numbers: list[int] = []
    turn, before = 0, None
    for message in messages:
        side = "user" if message.role == "tool" else message.role
        turn += side != before
        before = side
        numbers.append(turn)
    return numbers


def _roles_anthropic(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    first = next((i for i, m in enumerate(messages) if m.role != "system"), None)
    if first is None:
        yield Violation((), "no_user_message", "there must be at least one user message")
    elif messages[first].role == "assistant":
        yield Violation((first,), "first_not_user", "the first message must be the user's")


def _empty_anthropic(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    for i, message in enumerate(messages):
        if not message.parts and not (i == len(messages) - 1 and message.role == "assistant"):
            yield Violation((i,), "empty_content", "a message must have content")
        for part in message.parts:
            if part.kind == "text" and not part.text.strip():
                yield Violation(_at(i, part), "empty_text", "a text block must have visible text")


def _thinking_anthropic(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    for i, message in enumerate(messages):
        if message.role == "assistant" and message.parts and all(p.kind == "thinking" for p in message.parts):
            yield Violation((i,), "thinking_alone", "an assistant message must hold more than thinking")


def _server_results(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    """A server tool's result stands in the assistant message of its call."""
    for i, message in enumerate(messages):
        calls = {p.call_id for p in message.parts if p.kind == "call" and p.server}
        for part in message.parts:
            if part.kind == "result" and part.server and part.call_id not in calls:
                yield Violation(_at(i, part), "orphan_server_result", f"result {part.call_id!r} has no server tool call in its message")


def _cache_marks(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    marks = sum(_marks(head.get(key)) for key in ("tools", "system"))
    for i, message in enumerate(messages):
        content = message.data.get("content")
        marks += _marks(content)
        if isinstance(content, list):
            marks += sum(_marks(b.get("content")) for b in content if isinstance(b, dict))
        if marks > MAX_CACHE_MARKS:
            yield Violation((i,), "too_many_cache_marks", f"at most {MAX_CACHE_MARKS} blocks may carry cache_control")
            return


def _marks(blocks: Any) -> int:
    return sum(isinstance(b, dict) and bool(b.get("cache_control")) for b in blocks) if isinstance(blocks, list) else 0


def _compaction_first(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    said = False
    for i, message in enumerate(messages):
        for part in message.parts:
            if part.type.startswith("compaction") and part.kind == "opaque" and said and message.role == "user":
                yield Violation(_at(i, part), "compaction_misplaced", "a compaction block comes before what it does not stand for")
            said = said or message.role != "system"


# --- Chat Completions --------------------------------------------------------------------------------------------


def _adjacent_chat(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    """Tool messages stand right behind the assistant message whose calls they answer."""
    for (i, k), (j, _) in pairs.answer.items():
        if any(messages[n].role != "tool" for n in range(i + 1, j)):
            part = messages[i].parts[k]
            yield Violation((i,), "result_not_adjacent", f"something stands between call {part.call_id!r} and its tool message")


def _shape_chat(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    for i, message in enumerate(messages):
        if message.role == "assistant" and not any(p.kind != "thinking" for p in message.parts) and not message.data.get("audio"):
            yield Violation((i,), "empty_content", "an assistant message must have content or tool_calls")
        for part in message.parts:
            if part.kind == "call" and part.type == "function" and part.arguments is None and part.arguments_text.strip():
                yield Violation((i,), "bad_arguments", f"arguments of call {part.call_id!r} are no JSON object")
        if any(p.kind == "text" and p.block >= 0 and not p.text for p in message.parts):
            yield Violation((i,), "empty_text", "a text part must have text")


# --- Responses ---------------------------------------------------------------------------------------------------


def _reasoning(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    """A reasoning item is followed by the item it belongs to."""
    for i, message in enumerate(messages):
        if not any(p.type == "reasoning" for p in message.parts):
            continue
        following = messages[i + 1] if i + 1 < len(messages) else None
        if following is None and (head.get("previous_response_id") or head.get("conversation")):
            continue
        if following is None or following.role != "assistant":
            yield Violation((i,), "reasoning_alone", "a reasoning item must be followed by the item it belongs to")


_COMMON: tuple[Rule, ...] = (_lone_surrogates, _orphans, _unanswered)
_RULES: dict[str, tuple[Rule, ...]] = {
    "anthropic": (
        *_COMMON,
        _adjacent_anthropic,
        _roles_anthropic,
        _empty_anthropic,
        _thinking_anthropic,
        _server_results,
        _cache_marks,
        _compaction_first,
    ),
    "chat": (*_COMMON, _adjacent_chat, _shape_chat),
    "responses": (*_COMMON, _reasoning),
}


# --- where a request may be cut ----------------------------------------------------------------------------------


def segments(view: View) -> list[tuple[int, int]]:
    """The conversation as pieces `[start, end)` that only move as a whole; every border is a place to cut.

    A piece is an assistant's response with the results that answer it, or one other message.
    """
    messages = view.messages
    allowed = [True] * (len(messages) + 1)
    for (i, _), (j, _) in view.pairs.answer.items():
        if _near(messages, i, j):
            allowed[i + 1 : j + 1] = [False] * (j - i)
    for i in range(1, len(messages)):
        if messages[i].role == messages[i - 1].role == "assistant":
            allowed[i] = False  # reasoning and what it belongs to, several calls of one response
    borders = [i for i, ok in enumerate(allowed) if ok]
    return list(zip(borders, borders[1:], strict=False))


def _near(messages: Sequence[Message], i: int, j: int) -> bool:
    """True when result j belongs to the same response as call i: no other response nor person spoke between."""
    answered = False
    for n in range(i + 1, j):
        role = messages[n].role
        if role in ("user", "system") or (role == "assistant" and answered):
            return False
        answered = answered or role == "tool"
    return True


def pinned(view: View) -> set[int]:
    """Messages that no edit may fold away: open calls, calls answered much later, what only the provider can read."""
    messages, pairs = view.messages, view.pairs
    last = max((i for i, m in enumerate(messages) if m.role == "assistant"), default=-1)
    keep = {i for i, _ in pairs.unanswered if view.format.name == "responses" or i == last}
    for (i, _), (j, _) in pairs.answer.items():
        if not _near(messages, i, j):
            keep |= {i, j}
    for i, message in enumerate(messages):
        if message.role == "system" or any(p.type.startswith("compaction") for p in message.parts):
            keep.add(i)
    return keep


# --- signed thinking ---------------------------------------------------------------------------------------------


def unbound_thinking(view: View, planned: Sequence[Edit]) -> list[Edit]:
    """The further edits that a plan needs where thinking is bound to everything before it.

    Anthropic (Opus 5.5, Fable 5.1 and later, unknown Claude models; platform.claude.com, September 2026): one changed
    place makes every thinking block behind it invalid. So all of it behind the first edit goes, the open tool loop's
    included. Nothing to do for other models: their thinking since the last typed message stays as it is.
    """
    if view.format.name != "anthropic" or not view.binds_thinking or not planned:
        return []
    first = min(e.start for e in planned)
    after = view.with_edits(planned)
    out: list[Edit] = []
    for i in range(first[0], len(view.messages)):
        message = view.messages[i]
        if message.role == "assistant" and after.edit_of(i) is None:
            out.extend(_without_thinking(after, i, first))
    return out


def _without_thinking(view: View, i: int, first: tuple[int, ...]) -> Iterator[Edit]:
    parts = view.messages[i].parts
    gone = [p for p in parts if p.kind == "thinking" and (i, p.block) >= first]
    if not gone:
        return
    reason = "signed thinking is bound to what was edited before it"
    if len(gone) == len(parts):
        yield view.replace("laws", "removed", ((i,), (i + 1,)), [], reason=reason)
        return
    for part in gone:
        if view.edit_of(i, part.block) is None:
            yield view.replace("laws", "removed", ((i, part.block), (i, part.block + 1)), [], reason=reason)


# --- mending -----------------------------------------------------------------------------------------------------


def repair(request: Json, format: str | None = None) -> Json:
    """The request with its broken places mended: same shape, untouched parts the same objects; itself when valid.

    Results without a call are taken out, calls without a result get one that says so, empty texts get a visible
    one, arguments that are no JSON become an object that holds them, half surrogates become U+FFFD, reused ids get a
    number. What the model is told is never invented. The same request always gives the same result.
    """
    fmt, items, head = split(request, format)
    edits = repairs(fmt, [read_message(fmt, m, _uncounted) for m in items], head)
    if not edits:
        return request
    mended = apply(fmt, items, edits, plain)
    return mended if isinstance(request, (list, tuple)) else {**request, fmt.list_key: mended}


def repairs(fmt: Format, messages: Sequence[Message], head: Mapping[str, Any]) -> list[Edit]:
    """The edits that mend a list: message spans, sorted. Empty when there is nothing to mend."""
    if not violations(fmt, messages, head) and not _reused_ids(fmt, messages):
        return []
    mended = [_mended(fmt, m) for m in messages]
    _drop_orphans(fmt, messages, mended, head)
    _rename_reused(fmt, messages, mended)
    _answer_open(fmt, messages, mended)
    for i, message in enumerate(messages):
        mended[i] = [m for m in mended[i] if not _is_empty(fmt, m, message)]
    _start_with_user(fmt, messages, mended)
    return [
        Edit("repair", "repaired", (i,), (i + 1,), tuple(new), reason="mended")
        for i, new in enumerate(mended)
        if len(new) != 1 or new[0] is not messages[i].data
    ]


def _mended(fmt: Format, message: Message) -> list[dict[str, Json]]:
    data = _whole_characters(message.data) if message.lone_surrogates else message.data
    broken = {
        k: {"_invalid": p.arguments_text}
        for k, p in enumerate(message.parts)
        if fmt.name == "chat" and p.kind == "call" and p.type == "function" and p.arguments is None and p.arguments_text.strip()
    }
    if broken:
        data = fmt.replace_arguments(data, broken)
    blocks = fmt.blocks(data)
    if blocks and isinstance(data.get("content"), (list, str)):
        visible = [_visible(b) for b in blocks]
        results_first = sorted(visible, key=lambda b: not (isinstance(b, dict) and b.get("type") == "tool_result"))
        if message.role == "assistant":
            results_first = visible
        if any(a is not b for a, b in zip(results_first, blocks, strict=True)) and (
            isinstance(data.get("content"), list) or not str(data["content"]).strip()
        ):
            data = fmt.with_blocks(data, results_first)
    return [data]


def _visible(block: Json) -> Json:
    if isinstance(block, dict) and block.get("type") == "text" and not str(block.get("text") or "").strip():
        return {**block, "text": "(no text)"}
    if isinstance(block, dict) and block.get("type") == "tool_result" and isinstance(block.get("content"), list):
        inner = [_visible(b) for b in block["content"]]
        if any(a is not b for a, b in zip(inner, block["content"], strict=True)):
            return {**block, "content": [({**b, "text": "(no output)"} if b is not a else b) for a, b in zip(block["content"], inner, strict=True)]}
    return block


def _whole_characters(value: Json) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole_characters(v) for v in value]
    if isinstance(value, dict):
        return {_whole_characters(k): _whole_characters(v) for k, v in value.items()}
    return value


def _drop_orphans(fmt: Format, messages: Sequence[Message], mended: list[list[dict[str, Json]]], head: Mapping[str, Any]) -> None:
    if head.get("previous_response_id") or head.get("conversation"):
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
    return {"type": f"{call.type}_output", "call_id": call.call_id, "output": text}


def _put_blocks(fmt: Format, messages: Sequence[Message], mended: list[list[dict[str, Json]]], i: int, results: list[Any]) -> None:
    n = i + 1
    if n < len(messages) and messages[n].role in ("user", "tool") and mended[n]:
        blocks = list(fmt.blocks(mended[n][0]) or [])
        at = sum(isinstance(b, dict) and b.get("type") == "tool_result" for b in blocks)
        mended[n] = [fmt.with_blocks(mended[n][0], [*blocks[:at], *results, *blocks[at:]]), *mended[n][1:]]
    else:
        mended[i] = [*mended[i], {"role": "user", "content": results}]


def _reused_ids(fmt: Format, messages: Sequence[Message]) -> bool:
    if fmt.name == "responses":
        ids = [p.call_id for m in messages for p in m.parts if p.kind == "call" and not p.server]
        return len(ids) != len(set(ids))
    return fmt.name == "chat" and any(
        len(ids) != len(set(ids)) for m in messages if len(ids := [p.call_id for p in m.parts if p.kind == "call"]) > 1
    )


def _rename_reused(fmt: Format, messages: Sequence[Message], mended: list[list[dict[str, Json]]]) -> None:
    """A later call with a used id gets a number, its result too; the first keeps its own, for the cache's sake."""
    if not _reused_ids(fmt, messages):
        return
    pairs = pair(messages)
    used: Counter[str] = Counter()
    before = -1
    for (i, k), (j, _) in sorted(pairs.answer.items()):
        part = messages[i].parts[k]
        if fmt.name == "chat" and i != before:
            used.clear()
        before = i
        used[part.call_id] += 1
        if used[part.call_id] == 1 or not mended[i] or not mended[j]:
            continue
        new = f"{part.call_id}_d{used[part.call_id] - 1}"
        if fmt.name == "responses":
            mended[i][0] = {**mended[i][0], "call_id": new}
            mended[j][0] = {**mended[j][0], "call_id": new}
        else:
            calls = list(mended[i][0]["tool_calls"])
            calls[part.index] = {**calls[part.index], "id": new}
            mended[i][0] = {**mended[i][0], "tool_calls": calls}
            mended[j][0] = {**mended[j][0], "tool_call_id": new}


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
            if fmt.role(first) == "assistant":
                new.insert(0, fmt.reference("(The beginning of this conversation is missing.)"))
            return
    if mended:
        mended[-1].append(fmt.reference("(This conversation is empty.)"))


__all__ = [
    "FORMATS",
    "encode",
    "gained",
    "pinned",
    "rendered_messages",
    "repair",
    "repairs",
    "segments",
    "unbound_thinking",
    "validate",
    "violations",
]
