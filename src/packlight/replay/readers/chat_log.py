"""A Chat conversation put together from an agent's log: calls and results joined by id, one model call an answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...types import Json
from ..session import Notes, Segment, Turn
from .values import Record, as_text, mapping, mappings


@dataclass(slots=True)
class Call:
    """A tool call and what came back."""

    id: str
    data: dict[str, Any]
    result: Record | None = None


@dataclass(slots=True)
class Round:
    """An answer of the model, and what came behind it (in the first one, only the latter)."""

    answer: Record = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    behind: list[Record] = field(default_factory=list)
    turn: Turn | None = None
    """None when this was no model call of this window."""


class ChatLog:
    """The window as it stands: told in the order of the log, it gives back what the API takes."""

    def __init__(self, notes: Notes) -> None:
        self.rounds: list[Round] = [Round()]
        self._notes = notes
        self._asked = False
        self._open: dict[str, Call] = {}

    @property
    def model_spoke_last(self) -> bool:
        """True when nothing has come since the model's last answer: no result, no message."""
        last = self.rounds[-1]
        return bool(last.answer) and not last.behind and not any(c.result for c in last.calls)

    def say(self, role: str, content: Json) -> None:
        """A message that the model did not write; an empty one is none."""
        content = clean_content(content)
        if content:
            self._asked = self._asked or role not in ("system", "developer")
            self.rounds[-1].behind.append({"role": role, "content": content})

    def answer(
        self,
        content: Json,
        calls: Iterable[Call] = (),
        *,
        turn: Turn | None,
        reasoning: Json = None,
    ) -> Round:
        """What the model wrote. Before anybody asked it, it is no model call: a greeting, words put into its mouth."""
        entry = Round({"role": "assistant", "content": clean_content(content)}, turn=turn if self._asked else None)
        if isinstance(reasoning, str) and reasoning:
            entry.answer["reasoning_content"] = reasoning
        self.rounds.append(entry)
        self.more_calls(entry, calls)
        return entry

    def more_calls(self, entry: Round, calls: Iterable[Call]) -> None:
        """Calls of one response that the log has apart."""
        known = {c.id for c in entry.calls}
        for call in calls:
            if call.id in known:
                self._notes.add("call recorded twice: the first one stays")
                continue
            known.add(call.id)
            entry.calls.append(call)
            self._open[call.id] = call

    def result(self, call_id: Json, content: Json, name: Json = None) -> bool:
        """The result of the newest call with this id; False when none waits for it."""
        call = self._open.pop(call_id, None) if isinstance(call_id, str) else None
        if call is None:
            self._notes.add("tool result whose call is not in the window, or was answered before, left out")
            return False
        named = {"name": name} if isinstance(name, str) and name else {}
        call.result = {"role": "tool", "tool_call_id": call.id, **named, "content": clean_content(content)}
        return True

    def segment(self) -> Segment | None:
        """What stands in the window; None when no model call belongs to it."""
        if not any(r.turn for r in self.rounds):
            return None
        messages: list[Record] = []
        turns: list[Turn] = []
        for entry in self.rounds:
            if entry.turn and messages:
                entry.turn.end = len(messages)
                turns.append(entry.turn)
            messages += self._messages(entry)
        return Segment(messages, turns)

    def _messages(self, entry: Round) -> list[Record]:
        """Calls that were never answered though the log goes on are left out; nothing is invented for them."""
        is_open = entry is self.rounds[-1] and self.model_spoke_last
        calls = [c for c in entry.calls if is_open or c.result]
        self._notes.add("call without a result left out", len(entry.calls) - len(calls))
        answer = dict(entry.answer)
        if calls:
            answer["tool_calls"] = [c.data for c in calls]
        is_empty = not calls and not answer.get("content")
        self._notes.add("answer without words or calls left out", 1 if answer and is_empty else 0)
        kept = [answer] if answer and not is_empty else []
        return [*kept, *(c.result for c in calls if c.result), *entry.behind]


def call_of(call_id: Json, name: Json, arguments: Json) -> Call:
    """A function call from its pieces: arguments that are a text already stay as they are."""
    text = arguments if isinstance(arguments, str) else as_text(mapping(arguments))
    known = call_id if isinstance(call_id, str) else as_text(call_id)
    function = {"name": name if isinstance(name, str) else "unknown", "arguments": text}
    return Call(known, {"id": known, "type": "function", "function": function})


def calls_of(tool_calls: Json) -> list[Call]:
    """The calls of a Chat message, as the log has them: `{id, function: {name, arguments}}`."""
    found = []
    for call in mappings(tool_calls):
        function = mapping(call.get("function"))
        if function:
            found.append(call_of(call.get("id"), function.get("name"), function.get("arguments")))
    return found


def clean_content(content: Json) -> str | list[Json]:
    """Content that the API takes: a text, or parts without empty texts; what is neither becomes its JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(_is_part(b) for b in content):
        return as_text(content)
    return [b for b in content if b["type"] != "text" or b["text"].strip()] or ""


def joined(before: str | list[Json], behind: str | list[Json]) -> str | list[Json]:
    """One content of two: texts on lines of their own, else parts."""
    if isinstance(before, str) and isinstance(behind, str):
        return "\n".join(t for t in (before, behind) if t)
    return [*as_parts(before), *as_parts(behind)]


def as_parts(content: str | list[Json]) -> list[Json]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}] if content.strip() else []


def _is_part(value: Json) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    return value["type"] != "text" or isinstance(value.get("text"), str)
