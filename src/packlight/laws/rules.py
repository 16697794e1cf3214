"""The rules of the three APIs as small properties, one function a rule.

Sources: platform.claude.com and developers.openai.com (September to November 2026), the types of the official SDKs,
and the error texts that providers sent to the users in tests/data/bugs.jsonl.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..formats import read_message, split
from ..types import Format, Json, Message, Part, Violation
from ..view import Pairs, View, pair

MAX_CACHE_MARKS = 4
"""Anthropic: "A maximum of 4 blocks with cache_control may be provided"."""
HELD_BY_PROVIDER = ("previous_response_id", "conversation", "thread")
"""With one of these the provider adds messages that we don't see: a result's call may be there, and its count says
nothing about ours."""

Rule = Callable[[Sequence[Message], Pairs, Mapping[str, Any]], Iterable[Violation]]


def validate(request: Json, format: str | None = None) -> list[Violation]:
    """The places where a request (or a bare list) breaks a rule of its API; empty when valid.

    Checks shape and order, not the tokens. Raises InvalidRequest when it is no request at all.
    """
    fmt, items, head = split(request, format)
    return violations(fmt, [read_message(fmt, m, uncounted) for m in items], head)


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
    return [known.get(id(data)) or read_message(view.format, data, uncounted) for data in view.rendered()]


def is_held_by_provider(head: Mapping[str, Any]) -> bool:
    """Whether the beginning of the conversation is kept at the provider."""
    return any(head.get(key) for key in HELD_BY_PROVIDER)


def uncounted(value: Json) -> int:
    """For reading messages whose size is no matter."""
    return 0


# --- rules of all three ------------------------------------------------------------------------------------------


def _lone_surrogates(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    for i, message in enumerate(messages):
        if message.lone_surrogates:
            yield Violation((i,), "lone_surrogate", "half a surrogate pair can't be sent as UTF-8")


def _orphans(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    if is_held_by_provider(head):
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
            yield Violation(
                _at(i, messages[i].parts[k]),
                "result_not_adjacent",
                f"result {part.call_id!r} comes later than the next turn",
            )
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
    elif messages[first].role == "assistant" and not is_compaction(messages[first]):
        yield Violation((first,), "first_not_user", "the first message must be the user's")


def _empty_anthropic(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    for i, message in enumerate(messages):
        is_prefill = i == len(messages) - 1 and message.role == "assistant"
        # Claude Code 2.1.332 sends `output_config` for the rest of the conversation this way (beta per-turn-control).
        is_setting = message.role == "system" and "output_config" in message.data
        if not message.parts and not is_prefill and not is_setting:
            yield Violation((i,), "empty_content", "a message must have content")
        for part in message.parts:
            inside = message.data["content"][part.block].get("content") if part.type == "tool_result" else None
            blank = any(_is_blank_text(b) for b in inside) if isinstance(inside, list) else False
            if blank or (part.kind == "text" and not part.text.strip()):
                yield Violation(_at(i, part), "empty_text", "a text block must have visible text")


def _is_blank_text(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and not str(block.get("text") or "").strip()


def _thinking_anthropic(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    for i, message in enumerate(messages):
        if message.role == "assistant" and message.parts and all(p.kind == "thinking" for p in message.parts):
            yield Violation((i,), "thinking_alone", "an assistant message must hold more than thinking")
        for part in message.parts:
            if part.kind == "thinking" and message.data["content"][part.block].get("cache_control"):
                yield Violation(_at(i, part), "mark_on_thinking", "thinking can't carry a cache mark")


def _manual_thinking(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    """Older Claude models in manual mode: an open tool loop's newest response begins with its thinking."""
    thinking = head.get("thinking")
    if not isinstance(thinking, Mapping) or thinking.get("type") != "enabled":
        return
    last = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].role == "assistant"), None)
    if last is None or not any(p.kind == "call" and not p.server for p in messages[last].parts):
        return
    if any(p.kind != "result" for m in messages[last + 1 :] for p in m.parts):
        return  # the user spoke: the loop is over
    first = last
    while first and messages[first - 1].role == "assistant":
        first -= 1
    if messages[first].parts and messages[first].parts[0].kind != "thinking":
        yield Violation(
            (first, 0), "thinking_missing", "with manual thinking an open tool loop begins with its thinking"
        )


def _server_results(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    """A server tool's result stands behind its call, in the assistant's messages; only the last may still wait."""
    waiting: dict[str, tuple[int, Part]] = {}
    for i, message in enumerate(messages):
        for part in message.parts:
            if part.kind == "call" and part.server:
                waiting[part.call_id] = (i, part)
            elif part.kind == "result" and part.server and waiting.pop(part.call_id, None) is None:
                why = f"result {part.call_id!r} has no server tool call before it"
                yield Violation(_at(i, part), "orphan_server_result", why)
    last = max((i for i, m in enumerate(messages) if m.role == "assistant"), default=-1)
    for i, part in waiting.values():
        if i != last:
            why = f"server tool call {part.call_id!r} has no result"
            yield Violation(_at(i, part), "unanswered_server_call", why)


def _call_ids(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    """Two calls of one turn have two ids; assistant messages in a row are one turn."""
    ids: set[str] = set()
    for i, message in enumerate(messages):
        if message.role != "assistant":
            ids = set()
            continue
        own = [p.call_id for p in message.parts if p.kind == "call"]
        if len(own) != len(set(own)) or not ids.isdisjoint(own):
            yield Violation((i,), "duplicate_call_id", "two calls of one turn have the same id")
        ids.update(own)


def _cache_marks(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    marks = marks_of_head(head)
    for i, message in enumerate(messages):
        marks += count_marks(message.data.get("content"))
        if marks > MAX_CACHE_MARKS:
            yield Violation((i,), "too_many_cache_marks", f"at most {MAX_CACHE_MARKS} blocks may carry cache_control")
            return


def marks_of_head(head: Mapping[str, Any]) -> int:
    """Cache marks outside of the messages; a top-level `cache_control` takes one of the four as well."""
    return sum(count_marks(head.get(key)) for key in ("tools", "system")) + bool(head.get("cache_control"))


def count_marks(blocks: Any) -> int:
    """Cache marks on blocks and on the blocks inside them."""
    if not isinstance(blocks, list):
        return 0
    return sum(bool(b.get("cache_control")) + count_marks(b.get("content")) for b in blocks if isinstance(b, dict))


def is_compaction(message: Message) -> bool:
    """Whether a message begins with the provider's own summary of what came before it."""
    return bool(message.parts) and message.parts[0].type.startswith("compaction")


def _compaction_first(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    said = False
    for i, message in enumerate(messages):
        for part in message.parts:
            if part.type.startswith("compaction") and part.kind == "opaque" and said:
                yield Violation(
                    _at(i, part), "compaction_misplaced", "a compaction block comes before what it does not stand for"
                )
            said = said or message.role != "system"


# --- Chat Completions --------------------------------------------------------------------------------------------


def _adjacent_chat(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    """Tool messages stand right behind the assistant message whose calls they answer."""
    for (i, k), (j, _) in pairs.answer.items():
        if any(messages[n].role != "tool" for n in range(i + 1, j)):
            part = messages[i].parts[k]
            yield Violation(
                (i,), "result_not_adjacent", f"something stands between call {part.call_id!r} and its tool message"
            )


def _shape_chat(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    for i, message in enumerate(messages):
        data = message.data
        says = any(p.kind != "thinking" for p in message.parts) or data.get("audio")
        if (message.role == "assistant" and not says) or data.get("content") == []:
            yield Violation((i,), "empty_content", "an assistant message must have content or tool_calls")
        if message.role == "tool" and data.get("content") is None:
            yield Violation((i,), "null_result", "a tool message must have content")
        if data.get("tool_calls") == []:
            yield Violation((i,), "empty_tool_calls", "tool_calls must be left out when there are none")


def broken_arguments(part: Part) -> bool:
    """Whether a function call's arguments are no JSON object (a model that was cut off; many servers refuse it)."""
    return part.type in ("function", "function_call") and part.arguments is None and bool(part.arguments_text.strip())


def _arguments(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    for i, message in enumerate(messages):
        for part in message.parts:
            if part.kind == "call" and broken_arguments(part):
                yield Violation((i,), "bad_arguments", f"arguments of call {part.call_id!r} are no JSON object")


def _empty_parts(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    for i, message in enumerate(messages):
        for part in message.parts:
            if part.kind == "text" and part.block >= 0 and not part.text.strip():
                yield Violation(_at(i, part), "empty_text", "a text part must have visible text")


# --- Responses ---------------------------------------------------------------------------------------------------


def _reasoning(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    """A reasoning item is followed by the item it belongs to."""
    for i, message in enumerate(messages):
        if not any(p.type == "reasoning" for p in message.parts):
            continue
        following = messages[i + 1] if i + 1 < len(messages) else None
        if following is None and is_held_by_provider(head):
            continue
        if following is None or following.role != "assistant":
            yield Violation((i,), "reasoning_alone", "a reasoning item must be followed by the item it belongs to")


def _shape_responses(messages: Sequence[Message], pairs: Pairs, head: Mapping[str, Any]) -> Iterator[Violation]:
    for i, message in enumerate(messages):
        if message.data.get("content") == [] and "role" in message.data:
            yield Violation((i,), "empty_content", "a message must have content")
        if message.role == "tool" and message.data.get("output", "") is None:
            yield Violation((i,), "null_result", "an output must have a value")
    for (i, k), (j, m) in pairs.answer.items():
        call, result = messages[i].parts[k], messages[j].parts[m]
        if result.type != output_type(call):
            yield Violation((j,), "wrong_result_type", f"a {call.type} is answered by {output_type(call)}")


_ANSWERS = {"mcp_approval_request": "mcp_approval_response", "tool_search_call": "tool_search_output"}
"""Of the items whose answer is not named after them."""


def output_type(call: Part) -> str:
    """The type of the item that answers a call."""
    return _ANSWERS.get(call.type, f"{call.type}_output")


_COMMON: tuple[Rule, ...] = (_lone_surrogates, _orphans, _unanswered)
_RULES: dict[str, tuple[Rule, ...]] = {
    "anthropic": (
        *_COMMON,
        _adjacent_anthropic,
        _roles_anthropic,
        _empty_anthropic,
        _thinking_anthropic,
        _manual_thinking,
        _server_results,
        _call_ids,
        _cache_marks,
        _compaction_first,
    ),
    "chat": (*_COMMON, _adjacent_chat, _shape_chat, _arguments, _empty_parts),
    "responses": (*_COMMON, _reasoning, _arguments, _empty_parts, _shape_responses),
}
