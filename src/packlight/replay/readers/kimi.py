"""Kimi Code: `wire.jsonl` (`~/.kimi-code/sessions/*/*/agents/*/`), from which the agent makes its context again.

What its records do to the context is told by kimi-code, packages/agent-core/src/agent/context/index.ts and
compaction/ (November 2026). Kimi CLI's older `context.jsonl` is a list of messages.
"""

from __future__ import annotations

from typing import Any

from ...types import Json
from ..session import Notes, RecordedCompaction, Segment, Session, Turn
from .chat_log import ChatLog, call_of
from .claude_window import CLEARED
from .lines import kind_of
from .sessions import Windows, session_of
from .values import Record, as_text, count, first_text, mapping, mappings, number, string, usage_of

_FAILED = "<system>ERROR: Tool execution failed.</system>\n"
_CLEARED_FROM_CHARS = 400
"""Results below 100 tokens, by its own estimate, are left by its clearing of old ones."""


def recognise(records: list[Record]) -> bool:
    kinds = {kind_of(r) for r in records[:50]}
    return bool(kinds & {"context.append_message", "context.append_loop_event"})


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """The one session of an agent; each sub-agent has a file of its own."""
    reader = _Reader(notes)
    segments = reader.read(records)
    return [session_of("kimi", "chat", segments, notes, name, model=reader.model, head=reader.head)]


class _Context:
    """Messages as the agent keeps them: `{role, content, toolCalls, toolCallId}`, an answer with its `turn`."""

    def __init__(self, notes: Notes) -> None:
        self.messages: list[Record] = []
        self.system = ""
        self._notes = notes

    def segment(self) -> Segment | None:
        log = ChatLog(self._notes)
        log.say("system", self.system)
        for message in self.messages:
            content = _content(message.get("content"), self._notes)
            if message.get("role") == "assistant":
                calls = [
                    call_of(c.get("id"), c.get("name"), c.get("arguments")) for c in mappings(message.get("toolCalls"))
                ]
                thought = "".join(string(p.get("think")) for p in mappings(message.get("content")))
                log.answer(content, calls, turn=message.get("turn"), reasoning=thought)
            elif message.get("role") == "tool":
                log.result(message.get("toolCallId"), content)
            else:
                log.say("user", content)
        return log.segment()


class _Reader(Windows[_Context]):
    """Walks the records once, as the agent does when it goes on with a session."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(_Context, notes)
        self.model: str | None = None
        self.head: Record = {}
        self._steps: dict[str, Record] = {}
        self._open: set[str] = set()
        """Calls that wait for their result; until then what else is said waits, too."""
        self._waiting: list[Record] = []

    def take(self, record: Record) -> None:
        kind = kind_of(record)
        if kind == "context.append_message":
            self._waiting.append({**mapping(record.get("message")), "turn": None})
        elif kind == "context.append_loop_event":
            self._event(mapping(record.get("event")), number(record.get("time")))
        elif kind == "context.apply_compaction":
            self._compacted(record)
        elif kind == "micro_compaction.apply":
            self._cleared(count(record.get("cutoff")))
        elif kind == "context.clear":
            self._go_on("rewind", [])
        elif kind == "context.undo":
            self._undone(count(record.get("count")))
        elif kind in ("config.update", "llm.request", "llm.tools_snapshot"):
            self._settings(record)
        if not self._open:
            self.window.messages += self._waiting
            self._waiting = []

    def _undone(self, prompts: int) -> None:
        typed = [i for i, m in enumerate(self.window.messages) if _is_typed(m)]
        if 0 < prompts <= len(typed):
            self._go_on("rewind", self.window.messages[: typed[-prompts]])

    def _settings(self, record: Record) -> None:
        self.model = first_text(record.get("model"), record.get("modelAlias"), self.model)
        self.window.system = self.window.system or string(record.get("systemPrompt"))
        keys = ("name", "description", "parameters")
        tools = [{k: t[k] for k in keys if k in t} for t in mappings(record.get("tools"))]
        if tools and not self.head:
            self.head = {"tools": [{"type": "function", "function": t} for t in tools]}

    def _event(self, event: Record, time_ms: float | None) -> None:
        kind, step = kind_of(event), self._steps.get(string(event.get("stepUuid") or event.get("uuid")))
        if kind == "step.begin":
            step = {"role": "assistant", "content": [], "toolCalls": [], "turn": Turn(0, None, None, self.model)}
            self._steps[string(event.get("uuid"))] = step
            self.window.messages += [*self._waiting, step]
            self._waiting, self._open = [], set()
        elif kind == "tool.result":
            result, call_id = mapping(event.get("result")), string(event.get("toolCallId"))
            output = result.get("output")
            if result.get("isError") and isinstance(output, str):
                output = _FAILED + output
            self._open.discard(call_id)
            self.window.messages.append({"role": "tool", "toolCallId": call_id, "content": output})
        elif step is None:
            self.notes.add("piece of an answer that never began left out")
        elif kind == "content.part":
            step["content"].append(event.get("part"))
        elif kind == "tool.call":
            call_id = string(event.get("toolCallId"))
            step["toolCalls"].append({"id": call_id, "name": event.get("name"), "arguments": event.get("args")})
            self._open.add(call_id)
        elif kind == "step.end" and step["turn"]:
            step["turn"].seconds = time_ms / 1000 if time_ms else None
            step["turn"].usage = _usage(mapping(event.get("usage")))

    def _compacted(self, record: Record) -> None:
        """Since protocol 1.4 the user's own words stay, and the summary stands behind them."""
        messages, summary = self.window.messages, string(record.get("contextSummary")) or string(record.get("summary"))
        if number(record.get("keptUserMessageCount")) is None:
            kept = messages[count(record.get("compactedCount")) :]
            told = [{"role": "assistant", "content": summary}, *kept]
        else:
            typed, most = [m for m in messages if _is_typed(m)], count(record.get("keptUserMessageCount"))
            first = count(record.get("keptHeadUserMessageCount"))
            kept = typed if most >= len(typed) else [*typed[:first], *typed[len(typed) - most + first :]]
            origin = {"kind": "compaction_summary"}
            told = [*kept, {"role": "user", "content": summary, "origin": origin}]
        self._go_on("compaction", told, summary, len(kept), count(record.get("tokensBefore")) or None)

    def _cleared(self, cutoff: int) -> None:
        old, new = self.window.messages[:cutoff], self.window.messages[cutoff:]
        told = [{**m, "content": CLEARED} if _is_long_result(m) else m for m in old]
        if told != old:
            self._go_on("microcompaction", [*told, *new], "", len(told) + len(new))

    def _go_on(
        self, kind: str, messages: list[Record], summary: str = "", kept: int = 0, tokens_before: int | None = None
    ) -> None:
        system = self.window.system
        self.begin(RecordedCompaction(kind, summary, kept, tokens_before))
        self.window.system = system
        self.window.messages = [{**m, "turn": None} for m in messages]
        self._steps.clear()


def _is_typed(message: Record) -> bool:
    """Whether the user wrote it: what its client, its hooks and its tasks say has another origin."""
    origin = mapping(message.get("origin"))
    return message.get("role") == "user" and (
        origin.get("kind", "user") == "user" or origin.get("trigger") == "user-slash"
    )


def _is_long_result(message: Record) -> bool:
    content = message.get("content")
    text = content if isinstance(content, str) else as_text(content)
    return message.get("role") == "tool" and len(text) >= _CLEARED_FROM_CHARS


def _usage(usage: Record) -> Any:
    fresh, read, written = (count(usage.get(k)) for k in ("inputOther", "inputCacheRead", "inputCacheCreation"))
    return usage_of(fresh + read + written or None, usage.get("output"), cached=read, written=written)


def _content(parts: Json, notes: Notes) -> Json:
    """Text, or parts where there is more; thoughts apart."""
    if not isinstance(parts, list):
        return parts if isinstance(parts, str) else "" if parts is None else as_text(parts)
    found: list[Json] = []
    for part in mappings(parts):
        url = mapping(part.get("imageUrl")).get("url")
        if kind_of(part) == "text":
            found.append({"type": "text", "text": string(part.get("text"))})
        elif kind_of(part) == "image_url" and isinstance(url, str):
            found.append({"type": "image_url", "image_url": {"url": url}})
        elif kind_of(part) != "think":
            notes.add(f"part of type {kind_of(part)!r} left out")
    return found[0]["text"] if len(found) == 1 and "text" in found[0] else found
