"""Short conversations in all three formats, and views of them, for the tests of layers and policies."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import checker
from engine import packlight
from packlight.formats import read_message, split
from packlight.tokens import count_value, counter_for
from packlight.types import Edit, Summary, Target
from packlight.view import View

Json = Any
WIRES = ("anthropic", "chat", "responses")


class Talk:
    """A conversation in the making: `Talk("chat").user("hi").call("Read", {"file_path": "a"}, "text")`."""

    def __init__(self, wire: str) -> None:
        self.wire = wire
        self.messages: list[Json] = []
        self.number = 0

    def user(self, content: Json) -> Talk:
        self.messages.append({"role": "user", "content": content})
        return self

    def system(self, text: str) -> Talk:
        self.messages.append({"role": "system", "content": text})
        return self

    def says(self, text: str) -> Talk:
        self.messages.append({"role": "assistant", "content": text})
        return self

    def call(self, tool: str, arguments: Json, result: Json, *, error: bool = False) -> Talk:
        return self.calls([(tool, arguments)]).results([result], error=error)

    def calls(self, calls: Sequence[tuple[str, Json]]) -> Talk:
        """One response with these calls; their results are still missing."""
        first, self.number = self.number, self.number + len(calls)
        self.messages += _CALLS[self.wire]([(f"c{first + n}", tool, a) for n, (tool, a) in enumerate(calls)])
        return self

    def results(self, contents: Sequence[Json], *, error: bool = False) -> Talk:
        """The results of the newest calls."""
        first = self.number - len(contents)
        self.messages += _RESULTS[self.wire]([(f"c{first + n}", c) for n, c in enumerate(contents)], error)
        return self


def _anthropic_calls(calls: list[tuple[str, str, Json]]) -> list[Json]:
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": t, "input": a} for i, t, a in calls]}
    ]


def _anthropic_results(results: list[tuple[str, Json]], error: bool) -> list[Json]:
    flag = {"is_error": True} if error else {}
    return [
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": i, "content": c, **flag} for i, c in results],
        }
    ]


def _chat_calls(calls: list[tuple[str, str, Json]]) -> list[Json]:
    entries = [
        {"id": i, "type": "function", "function": {"name": t, "arguments": json.dumps(a)}}
        if not isinstance(a, str)
        else {"id": i, "type": "custom", "custom": {"name": t, "input": a}}
        for i, t, a in calls
    ]
    return [{"role": "assistant", "content": None, "tool_calls": entries}]


def _chat_results(results: list[tuple[str, Json]], error: bool) -> list[Json]:
    return [{"role": "tool", "tool_call_id": i, "content": c} for i, c in results]


def _responses_calls(calls: list[tuple[str, str, Json]]) -> list[Json]:
    return [
        {"type": "function_call", "call_id": i, "name": t, "arguments": json.dumps(a)}
        if not isinstance(a, str)
        else {"type": "custom_tool_call", "call_id": i, "name": t, "input": a}
        for i, t, a in calls
    ]


def _responses_results(results: list[tuple[str, Json]], error: bool) -> list[Json]:
    return [{"type": "function_call_output", "call_id": i, "output": c} for i, c in results]


_CALLS: dict[str, Callable[..., list[Json]]] = {
    "anthropic": _anthropic_calls,
    "chat": _chat_calls,
    "responses": _responses_calls,
}
_RESULTS: dict[str, Callable[..., list[Json]]] = {
    "anthropic": _anthropic_results,
    "chat": _chat_results,
    "responses": _responses_results,
}
_COUNTER = counter_for("gpt-5.6")


def count(value: Json) -> int:
    return count_value(value, _COUNTER)


def view_of(talk: Talk, **about: Any) -> View:
    """What a layer is given: all seen but what came after the last assistant message."""
    fmt, items, _ = split(talk.messages, talk.wire)
    messages = tuple(read_message(fmt, m, count) for m in items)
    last = max((i for i, m in enumerate(messages) if m.role == "assistant"), default=-1)
    return View(format=fmt, messages=messages, count=count, first_unseen=about.pop("first_unseen", last + 1), **about)


def target(tokens: int, **about: Any) -> Target:
    return Target(budget_tokens=about.pop("budget_tokens", tokens), target_tokens=tokens, **about)


def planned(layer: Any, talk: Talk, tokens: int, **about: Any) -> tuple[View, list[Edit]]:
    """The view after a layer, and its edits: what it leaves is checked by both judges."""
    view = view_of(talk, **about)
    edits = layer(view, target(tokens))
    after = view.with_edits(edits)
    assert after.tokens < view.tokens if edits else after.tokens == view.tokens
    sound(talk, after.rendered())
    return after, edits


def sound(talk: Talk, rendered: Json) -> None:
    assert checker.new_violations(talk.messages, rendered, talk.wire) == []
    assert not packlight.validate(rendered, talk.wire) or packlight.validate(talk.messages, talk.wire)


def result_texts(talk: Talk, rendered: Json) -> list[str]:
    """The results that stand, as text, oldest first."""
    fmt, items, _ = split(rendered, talk.wire)
    return [p.text for m in items for p in read_message(fmt, m, count).parts if p.kind == "result"]


def prose(name: str, lines: int = 30) -> str:
    """A text of its own, about 12 tokens a line."""
    return "\n".join(f"{name} line {n}: the value of item_{n} is {n * 37 % 101} today" for n in range(lines))


def roles(talk: Talk, rendered: Json) -> list[str]:
    fmt, items, _ = split(rendered, talk.wire)
    return [fmt.role(m) for m in items]


def read(path, **more):
    return ("Read", {"file_path": path, **more})


def short(job):
    """A writer of one line, which says what it was given."""
    yield from ()
    return Summary(text=f"SUMMARY of messages {job.start} to {job.end}.")
