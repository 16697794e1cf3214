"""Gemini CLI: recorded chats (`~/.gemini/tmp/*/chats/session-*.json`, later `.jsonl`).

A message of the model holds its calls with their results. The later files are a log: a record with a known id stands
for it from then on, `$rewindTo` takes a message and all behind it away, and `$set` with messages is a new context
(gemini-cli 0.61, packages/core/src/services/chatRecordingService.ts). The system prompt and the tools are not recorded.
"""

from __future__ import annotations

from ..session import Notes, RecordedCompaction, Segment, Session, Turn
from .chat_form import in_chat_form
from .claude_window import Block, Window, called, returned
from .gemini import response_text, said
from .lines import kind_of
from .sessions import Windows, session_of
from .values import Record, count, first_text, mapping, mappings, seconds, string

_BY_CLIENT = frozenset({"info", "error", "warning"})
_SNAPSHOT = "<state_snapshot>"


def recognise(records: list[Record]) -> bool:
    head = records[0] if records else {}
    if "sessionId" in head and "projectHash" in head:
        return True
    return any(kind_of(r) == "gemini" and "content" in r for r in [*records[:50], *mappings(head.get("messages"))])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    reader = _Reader(notes)
    segments = in_chat_form(reader.read(records))
    return [session_of("gemini-cli", "chat", segments, notes, name, reader.head.get("sessionId"))]


class _Messages:
    """Those that are valid now, by their ids; a window is put together of them when it ends."""

    def __init__(self, notes: Notes) -> None:
        self.by_id: dict[str, Record] = {}
        self.carried: set[str] = set()
        """Ids of those that the window began with."""
        self._notes = notes

    def put(self, message: Record) -> None:
        self.by_id[string(message.get("id")) or f"message {len(self.by_id)}"] = message

    def segment(self) -> Segment | None:
        window, last = Window(self._notes), ""
        for message_id, message in self.by_id.items():
            last = self._add(window, message_id, message, last)
        return window.segment()

    def _add(self, window: Window, message_id: str, message: Record, last: str) -> str:
        """Put a message into the window; gives the id of the response that it belongs to."""
        kind = kind_of(message)
        if kind == "user":
            window.user(said(message.get("content"), self._notes))
        elif kind != "gemini":
            if kind not in _BY_CLIENT:
                self._notes.add(f"message of unknown type {kind!r} left out")
        else:
            turn, calls = _turn(message), mappings(message.get("toolCalls"))
            if last and turn.usage is None and window.waits_for_user:
                message_id = last  # the rest of a response that the client wrote in two pieces
            blocks = said(message.get("content"), self._notes)
            blocks += [called(c.get("id"), c.get("name"), mapping(c.get("args"))) for c in calls]
            answer, is_new = window.assistant(message_id, blocks)
            if is_new and message_id not in self.carried:
                answer.turn = turn
            window.user([r for c in calls if (r := _result(c))])
            return message_id
        return last


class _Reader(Windows[_Messages]):
    """Walks the records once."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(_Messages, notes)
        self.head: Record = {}

    def take(self, record: Record) -> None:
        change = mapping(record.get("$set"))
        if "$rewindTo" in record:
            ids = list(self.window.by_id)
            place = ids.index(record["$rewindTo"]) if record["$rewindTo"] in ids else 0
            self._go_on("rewind", [self.window.by_id[i] for i in ids[:place]])
        elif isinstance(change.get("messages"), list):
            self._replace(mappings(change["messages"]))
        elif "$set" not in record and kind_of(record):
            self.window.put(record)
        elif "$set" not in record:
            self.head = self.head or record
            for message in mappings(record.get("messages")):
                self.window.put(message)

    def _replace(self, messages: list[Record]) -> None:
        before, ids = list(self.window.by_id), [m.get("id") for m in messages]
        if ids[: len(before)] == before:
            for message in messages:  # nothing went
                self.window.put(message)
            return
        self._go_on("rewind" if ids == before[: len(ids)] else "compaction", messages)

    def _go_on(self, kind: str, messages: list[Record]) -> None:
        before = self.window.by_id
        texts = [b["text"] for m in messages[:3] for b in said(m.get("content"), Notes()) if "text" in b]
        summary = next((t for t in texts if _SNAPSHOT in t), "") if kind == "compaction" else ""
        self.begin(RecordedCompaction(kind, summary))
        for message in messages:
            self.window.put(message)
        self.window.carried = set(self.window.by_id)
        self.begun_by = RecordedCompaction(kind, summary, sum(i in before for i in self.window.by_id))


def _turn(message: Record) -> Turn:
    tokens = mapping(message.get("tokens"))
    usage = {
        "promptTokenCount": count(tokens.get("input")),
        "cachedContentTokenCount": count(tokens.get("cached")),
        "candidatesTokenCount": count(tokens.get("output")),
        "thoughtsTokenCount": count(tokens.get("thoughts")),
    }
    known = usage if usage["promptTokenCount"] else None
    return Turn(0, known, seconds(message.get("timestamp")), first_text(message.get("model")))


def _result(call: Record) -> Block | None:
    """None for a call that never came back."""
    result = call.get("result")
    responses = [mapping(p.get("functionResponse")) for p in mappings(result)]
    texts = [response_text(r["response"]) for r in responses if "response" in r]
    texts += [result] if isinstance(result, str) else [b["text"] for b in said(result, Notes()) if "text" in b]
    return returned(call.get("id"), "\n".join(texts)) if texts else None
