"""GitHub Copilot CLI: `~/.copilot/session-state/*/events.jsonl`.

`assistant.message` holds the calls, `tool.execution_complete` what they gave back; everything about hooks, permissions
and the screen is bookkeeping. The tools are not recorded; nor is the size of the input, only that of the output.
"""

from __future__ import annotations

from ..session import Notes, RecordedCompaction, Session, Turn
from .chat_form import in_chat_form
from .claude_window import Block, BlockWindows, called, clean_blocks, returned
from .lines import kind_of
from .sessions import session_of
from .values import Record, count, first_text, mapping, mappings, seconds, string

_KEYS = frozenset({"messageId", "toolCallId", "toolRequests", "turnId"})
_BOOKKEEPING = (
    "hook.", "permission.", "session.", "tool.", "assistant.", "subagent.", "skill.", "abort", "external_", "result",
)  # fmt: skip
"""How the kinds of events begin that are nothing to the model."""


def recognise(records: list[Record]) -> bool:
    for record in records[:50]:
        data = mapping(record.get("data"))
        if kind_of(record) == "session.start" and ("copilotVersion" in data or "producer" in data):
            return True
        if kind_of(record).startswith(("assistant.", "tool.")) and _KEYS & data.keys():
            return True
    return False


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    reader = _Reader(notes)
    segments = in_chat_form(reader.read(records), reader.system)
    return [session_of("copilot", "chat", segments, notes, name, reader.session_id)]


class _Reader(BlockWindows):
    """Walks the events once."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(notes)
        self.session_id = ""
        self.system = ""

    def take(self, event: Record) -> None:
        kind, data = kind_of(event), mapping(event.get("data"))
        if data.get("parentToolCallId") or event.get("agentId"):
            self.notes.add("event of a sub-agent left out")
        elif kind == "session.start":
            self.session_id = self.session_id or string(data.get("sessionId"))
        elif kind == "system.message":
            self._system(string(data.get("content")))
        elif kind in ("user.message", "system.notification"):
            self.window.user(clean_blocks(data.get("transformedContent") or data.get("content")))
            self.notes.add("attachment left out", len(mappings(data.get("attachments"))))
        elif kind == "assistant.message":
            self._assistant(event, data)
        elif kind == "tool.execution_complete":
            self.window.user([_result(data)])
        elif kind == "session.compaction_complete" and data.get("success") is not False:
            self._compacted(data)
        elif kind == "session.truncation":
            self.notes.add("truncation by the agent, of which the file does not say what it took")
        elif not kind.startswith(_BOOKKEEPING):
            self.notes.add(f"event of unknown type {kind!r} skipped")

    def _system(self, text: str) -> None:
        """It is written again each time the user speaks."""
        if self.system and text != self.system:
            self.notes.add("changed system prompt: the first one stays")
        self.system = self.system or text

    def _assistant(self, event: Record, data: Record) -> None:
        calls = [
            called(c.get("toolCallId"), c.get("name"), c.get("arguments")) for c in mappings(data.get("toolRequests"))
        ]
        blocks = [*clean_blocks(data.get("content")), *calls]
        answer, is_new = self.window.assistant(string(data.get("messageId")) or str(event.get("id")), blocks)
        if is_new:
            output = count(data.get("outputTokens"))
            usage = {"output_tokens": output} if output else None
            answer.turn = Turn(0, usage, seconds(event.get("timestamp")), first_text(data.get("model")))

    def _compacted(self, data: Record) -> None:
        summary = string(data.get("summaryContent"))
        self.notes.add(f"compaction, of which the file says only {'the summary' if summary else 'that it was'}")
        self.begin(RecordedCompaction("compaction", summary, 0, count(data.get("preCompactionTokens")) or None))
        self.window.user(clean_blocks(summary))


def _result(data: Record) -> Block:
    """`detailedContent` is for the screen."""
    result = mapping(data.get("result") or data.get("error"))
    return returned(data.get("toolCallId"), string(result.get("content")) or string(result.get("message")))
