"""opencode: an export (`opencode export`: `{"info", "messages"}`), or the files of its storage one behind the other.

A message is told by its parts, and can hold several model calls, each between `step-start` and `step-finish`. Claude's
sessions come as Anthropic Messages, all others as Chat Completions. The system prompt and the tools are not recorded;
what a compaction and a pruning leave in the window is told by packages/opencode/src/session/message-v2.ts (1.1).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...types import Json
from ..session import Notes, RecordedCompaction, Session, Turn
from .chat_form import in_chat_form
from .claude_window import Block, BlockWindows, called, clean_blocks, image_at, returned
from .lines import kind_of
from .sessions import session_of
from .values import Record, anthropic_usage, mapping, mappings, number, string

_ASKED = "What did we do so far?"
"""What stands before the summary, as the user's word."""
_SUBTASK = "The following tool was executed by the user"
_UNSEEN = frozenset({"step-start", "step-finish", "patch", "snapshot", "agent", "retry", "compaction"})


def recognise(records: list[Record]) -> bool:
    if len(records) == 1:
        messages = mappings(records[0].get("messages"))
        return bool(messages) and all("info" in m and isinstance(m.get("parts"), list) for m in messages)
    return any(_is_part(r) for r in records) or any(_is_message(r) for r in records[:200])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session each id; a dump can hold many."""
    by_session: dict[str, list[Record]] = {}
    for message in _messages(records, notes):
        by_session.setdefault(string(message.get("sessionID")) or "session", []).append(message)
    sessions: list[Session] = []
    for ident, messages in by_session.items():
        label = f"{name}#{ident}" if name and len(by_session) > 1 else name or ident
        sessions.append(_session(messages, label, Notes() if sessions else notes))
    return sessions


def _messages(records: list[Record], notes: Notes) -> list[Record]:
    """Messages in the order of their making, each with its `parts`."""
    exported = mappings(records[0].get("messages")) if len(records) == 1 else []
    messages = [{**mapping(m.get("info")), "parts": mappings(m.get("parts"))} for m in exported]
    parts: dict[str, list[Record]] = {}
    for record in records:
        if _is_part(record):
            parts.setdefault(record["messageID"], []).append(record)
        elif _is_message(record):
            messages.append(record)
    known = {str(m.get("id")) for m in messages}
    notes.add("part whose message is not in the file left out", sum(len(p) for i, p in parts.items() if i not in known))
    messages = [{"parts": sorted(parts.get(str(m.get("id")), []), key=_id), **m} for m in messages]
    return sorted(messages, key=lambda m: (number(mapping(m.get("time")).get("created")) or 0, _id(m)))


def _session(messages: list[Record], name: str, notes: Notes) -> Session:
    models = [string(m.get("modelID")) for m in messages if m.get("role") == "assistant"]
    is_claude = "claude" in next(filter(None, models), "")
    segments, model = _Reader(notes, is_claude).read(messages), next(filter(None, models), None)
    if is_claude:
        return session_of("opencode", "anthropic", segments, notes, name, model=model)
    return session_of("opencode", "chat", in_chat_form(segments), notes, name, model=model)


class _Reader(BlockWindows):
    """Walks the messages once."""

    def __init__(self, notes: Notes, is_claude: bool) -> None:
        super().__init__(notes)
        self._is_claude = is_claude
        self._pruned: list[tuple[float, str]] = []
        """When the client cleared a result, and of which call."""
        self._told: list[Record] = []
        """The messages so far, without summaries."""
        self._tail: Json = None
        """Id of the message from which on the next compaction keeps what there is."""

    def take(self, message: Record) -> None:
        if message.get("role") == "assistant" and message.get("summary") is True:
            self._compacted(message)
            return
        marker = next((p for p in message["parts"] if kind_of(p) == "compaction"), None)
        self._tail = marker.get("tail_start_id") if marker else self._tail
        self._told.append(message)
        self._add(message, live=True)

    def _add(self, message: Record, *, live: bool) -> None:
        if message.get("role") == "user":
            self.window.user([b for p in message["parts"] for b in self._of_user(p)])
        elif message.get("role") != "assistant":
            self.notes.add("message of unknown role left out")
        else:
            self._clear_pruned(number(mapping(message.get("time")).get("created")) or 0)
            for step, parts in enumerate(_steps(message["parts"])):
                self._step(f"{message.get('id')} {step}", message, parts, live=live)

    def _step(self, ident: str, message: Record, parts: list[Record], *, live: bool) -> None:
        blocks = [b for p in parts if (b := self._of_model(p))]
        finished = next((p for p in reversed(parts) if kind_of(p) == "step-finish"), message)
        turn = _turn(message, finished)
        if not blocks and not turn.usage:
            return  # broken off before anything came back
        answer, _ = self.window.assistant(ident, clean_blocks(blocks))
        answer.turn = turn if live else None
        self.window.user([r for p in parts if kind_of(p) == "tool" and (r := _result(p))])
        for part in parts:
            at = number(mapping(mapping(part.get("state")).get("time")).get("compacted"))
            if at:
                self._pruned.append((at, str(part.get("callID"))))

    def _clear_pruned(self, now: float) -> None:
        """Results that were pruned before this call are sent as a placeholder."""
        due = [call for at, call in self._pruned if at <= now]
        self._pruned = [(at, call) for at, call in self._pruned if at > now]
        self.clear(due)

    def _compacted(self, message: Record) -> None:
        """The summary, and behind it what it does not stand for; the summary of a call that failed is none."""
        summary = "\n\n".join(string(p.get("text")) for p in message["parts"] if kind_of(p) == "text")
        if message.get("error") or not summary:
            self.notes.add("compaction that failed")
            return
        ids = [m.get("id") for m in self._told]
        kept = self._told[ids.index(self._tail) :] if self._tail in ids else []
        self.begin(RecordedCompaction("compaction", summary, len(kept)))
        self._pruned, self._tail = [], None
        self.window.text(_ASKED)
        self.window.assistant(str(message.get("id")), clean_blocks(summary))
        for earlier in kept:
            self._add(earlier, live=False)

    def _of_user(self, part: Record) -> list[Block]:
        kind = kind_of(part)
        if kind == "text":
            return [] if part.get("ignored") else clean_blocks(part.get("text"))
        if kind == "subtask":
            return [{"type": "text", "text": _SUBTASK}]
        shown = image_at(part.get("url")) if kind == "file" else None
        if shown and shown["source"]["media_type"].startswith("image/"):
            return [shown]
        if kind not in _UNSEEN and not (kind == "file" and string(part.get("mime")).startswith("text/")):
            self.notes.add(f"part of type {kind!r} left out")
        return []

    def _of_model(self, part: Record) -> Block | None:
        kind, metadata = kind_of(part), mapping(part.get("metadata"))
        if kind == "text" and isinstance(part.get("text"), str):
            return {"type": "text", "text": part["text"]}
        if kind == "tool":
            return called(part.get("callID"), part.get("tool"), mapping(mapping(part.get("state")).get("input")))
        signature = mapping(metadata.get("anthropic")).get("signature")
        if kind == "reasoning" and self._is_claude and isinstance(signature, str) and signature:
            return {"type": "thinking", "thinking": string(part.get("text")), "signature": signature}
        if kind == "reasoning":
            self.notes.add("reasoning that can't be sent again left out")
        elif kind not in _UNSEEN:
            self.notes.add(f"part of type {kind!r} left out")
        return None


def _turn(message: Record, finished: Record) -> Turn:
    tokens, model = mapping(finished.get("tokens")), string(message.get("modelID"))
    cache, completed = mapping(tokens.get("cache")), number(mapping(message.get("time")).get("completed"))
    usage = anthropic_usage(tokens.get("input"), cache.get("read"), cache.get("write"), tokens.get("output"))
    return Turn(0, usage, completed / 1000 if completed else None, model or None)


def _result(part: Record) -> Block | None:
    """None for a call that was broken off."""
    state = mapping(part.get("state"))
    failed = state.get("status") == "error"
    text = state.get("error" if failed else "output")
    return returned(part.get("callID"), text, is_error=failed) if isinstance(text, str) else None


def _steps(parts: list[Record]) -> Iterator[list[Record]]:
    """At least one, as a message is at least one call."""
    step: list[Record] = []
    for part in parts:
        if kind_of(part) == "step-start" and step:
            yield step
            step = []
        step.append(part)
    yield step


def _is_part(record: Record) -> bool:
    return isinstance(record.get("messageID"), str) and "sessionID" in record and "type" in record


def _is_message(record: Record) -> bool:
    return isinstance(record.get("role"), str) and isinstance(record.get("sessionID"), str) and "time" in record


def _id(value: Json) -> str:
    return string(value.get("id"))
