"""Kimi Code: `wire.jsonl` (`~/.kimi-code/sessions/*/*/agents/*/`), from which the agent makes its context again.

What its records do to the context is told by kimi-code, packages/agent-core/src/agent/context/index.ts and
compaction/ (November 2026). Kimi CLI's older `context.jsonl` is a list of messages.
"""

from __future__ import annotations

from typing import Any

from ...types import Json
from ..session import Notes, RecordedCompaction, Session, Turn
from .chat_form import in_chat_form
from .claude_window import Block, BlockWindows, Round, called, clean_blocks, image_at, returned
from .lines import kind_of
from .sessions import session_of
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
    found = reader.read(records)
    segments = in_chat_form(found, reader.system)
    return [session_of("kimi", "chat", segments, notes, name, model=reader.model, head=reader.head)]


class _Reader(BlockWindows):
    """Walks the records once, as the agent does when it goes on with a session."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(notes)
        self.model: str | None = None
        self.system = ""
        self.head: Record = {}
        self._messages: list[Record] = []
        """What the agent counts when it compacts: `{role, content, toolCalls, toolCallId, origin}`."""
        self._cutoff = 0
        """Before this message the long results have been cleared."""
        self._steps: dict[str, Record] = {}
        self._ids: dict[str, str] = {}
        """Ids of calls, of which some come again, as they stand in the window."""
        self._open: set[str] = set()
        """Calls that wait for their result; until then what else is said waits, too."""
        self._waiting: list[Record] = []

    def take(self, record: Record) -> None:
        kind = kind_of(record)
        if kind == "context.append_message":
            self._waiting.append(mapping(record.get("message")))
        elif kind == "context.append_loop_event":
            self._event(mapping(record.get("event")), number(record.get("time")))
        elif kind == "context.apply_compaction":
            self._compacted(record)
        elif kind == "micro_compaction.apply":
            self._clear_old(count(record.get("cutoff")))
        elif kind == "context.clear":
            self._go_on(RecordedCompaction("rewind"), [])
        elif kind == "context.undo":
            self._undone(count(record.get("count")))
        elif kind in ("config.update", "llm.request", "llm.tools_snapshot"):
            self._settings(record)
        if not self._open:
            self._say_waiting()

    def _settings(self, record: Record) -> None:
        self.model = first_text(record.get("model"), record.get("modelAlias"), self.model)
        self.system = self.system or string(record.get("systemPrompt"))
        keys = ("name", "description", "parameters")
        tools = [{k: t[k] for k in keys if k in t} for t in mappings(record.get("tools"))]
        if tools and not self.head:
            self.head = {"tools": [{"type": "function", "function": t} for t in tools]}

    def _event(self, event: Record, time_ms: float | None) -> None:
        kind, uuid = kind_of(event), string(event.get("stepUuid") or event.get("uuid"))
        step, call_id = self._steps.get(uuid), string(event.get("toolCallId"))
        if kind == "step.begin":
            self._open.clear()
            self._say_waiting()
            self._steps[uuid] = {"role": "assistant", "content": [], "toolCalls": []}
            self._put(self._steps[uuid]).turn = Turn(0, None, None, self.model)
        elif kind == "tool.result":
            result = mapping(event.get("result"))
            output = result.get("output")
            if result.get("isError") and isinstance(output, str):
                output = _FAILED + output
            self._open.discard(call_id)
            self._put({"role": "tool", "toolCallId": call_id, "content": output})
        elif step is None:
            self.notes.add("piece of an answer that never began left out")
        elif kind == "content.part":
            step["content"].append(event.get("part"))
            self._round(step).assistant += _blocks([event.get("part")], self.notes)
        elif kind == "tool.call":
            call = {"id": call_id, "name": event.get("name"), "arguments": event.get("args")}
            step["toolCalls"].append(call)
            self._open.add(call_id)
            self._call(step, call)
        elif kind == "step.end" and (turn := self._round(step).turn):
            turn.seconds = time_ms / 1000 if time_ms else None
            turn.usage = _usage(mapping(event.get("usage")))

    def _say_waiting(self) -> None:
        for message in self._waiting:
            self._put({k: v for k, v in message.items() if k != "id"})
        self._waiting = []

    def _put(self, message: Record) -> Round:
        """Puts a message behind the others, and what it says into the window."""
        self._messages.append(message)
        entry = self.window.rounds[-1]
        blocks = _blocks(message.get("content"), self.notes)
        if message.get("role") == "assistant":
            is_summary = bool(message.get("origin"))  # the only answer with one; it stands first, and nobody asked
            entry = self.window.rounds[0] if is_summary else self._round(message)
            entry.assistant += blocks
            for call in mappings(message.get("toolCalls")):
                self._call(message, call)
        elif message.get("role") == "tool":
            message["id"] = self._ids.get(string(message.get("toolCallId")), "")
            self.window.user([returned(message["id"], blocks)])
        else:
            self.window.user(blocks)
        return entry

    def _round(self, message: Record) -> Round:
        return self.window.assistant(str(id(message)), [])[0]

    def _call(self, message: Record, call: Record) -> None:
        """An id that comes again gets a number."""
        given = string(call.get("id"))
        self._ids[given] = f"{given}#{len(self._ids)}" if self.window.knows(given) else given
        self.window.assistant(str(id(message)), [called(self._ids[given], call.get("name"), call.get("arguments"))])

    def _compacted(self, record: Record) -> None:
        """Since protocol 1.4 the user's own words stay, and the summary stands behind them."""
        summary = string(record.get("contextSummary")) or string(record.get("summary"))
        origin = {"kind": "compaction_summary"}
        if number(record.get("keptUserMessageCount")) is None:
            kept = self._messages[count(record.get("compactedCount")) :]
            told = [{"role": "assistant", "content": summary, "origin": origin}, *kept]
        else:
            typed, most = [m for m in self._messages if _is_typed(m)], count(record.get("keptUserMessageCount"))
            first = count(record.get("keptHeadUserMessageCount"))
            kept = typed if most >= len(typed) else [*typed[:first], *typed[len(typed) - most + first :]]
            told = [*kept, {"role": "user", "content": summary, "origin": origin}]
        tokens = count(record.get("tokensBefore")) or None
        self._go_on(RecordedCompaction("compaction", summary, len(kept), tokens), told)

    def _clear_old(self, cutoff: int) -> None:
        old, self._cutoff = self._messages[self._cutoff : cutoff], max(cutoff, self._cutoff)
        self.clear([m["id"] for m in old if "id" in m and _is_long(m)])

    def _undone(self, prompts: int) -> None:
        typed = [i for i, m in enumerate(self._messages) if _is_typed(m)]
        if 0 < prompts <= len(typed):
            kept = self._messages[: typed[-prompts]]
            self._go_on(RecordedCompaction("rewind", "", len(kept)), kept)

    def _go_on(self, how: RecordedCompaction, messages: list[Record]) -> None:
        self.begin(how)
        self._messages, self._ids, self._steps, self._cutoff = [], {}, {}, 0
        for message in messages:
            self._put(message)


def _is_typed(message: Record) -> bool:
    """Whether the user wrote it: what its client, its hooks and its tasks say has another origin."""
    origin = mapping(message.get("origin"))
    return message.get("role") == "user" and (
        origin.get("kind", "user") == "user" or origin.get("trigger") == "user-slash"
    )


def _is_long(message: Record) -> bool:
    content = message.get("content")
    return len(content if isinstance(content, str) else as_text(content)) >= _CLEARED_FROM_CHARS


def _usage(usage: Record) -> Any:
    fresh, read, written = (count(usage.get(k)) for k in ("inputOther", "inputCacheRead", "inputCacheCreation"))
    return usage_of(fresh + read + written or None, usage.get("output"), cached=read, written=written)


def _blocks(parts: Json, notes: Notes) -> list[Block]:
    if not isinstance(parts, list):
        return clean_blocks(parts if isinstance(parts, str) else "" if parts is None else as_text(parts))
    found: list[Block] = []
    for part in mappings(parts):
        kind, shown = kind_of(part), image_at(mapping(part.get("imageUrl")).get("url"))
        if kind == "text":
            found.append({"type": "text", "text": string(part.get("text"))})
        elif kind == "think":
            found.append({"type": "thinking", "thinking": string(part.get("think"))})
        elif shown:
            found.append(shown)
        else:
            notes.add(f"part of type {kind!r} left out")
    return clean_blocks(found)
