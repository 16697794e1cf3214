"""GitHub Copilot CLI: `~/.copilot/session-state/*/events.jsonl`.

`assistant.message` holds the calls, `tool.execution_complete` what they gave back; everything about hooks, permissions
and the screen is bookkeeping. The tools are not recorded; nor is the size of the input, only that of the output.
"""

from __future__ import annotations

from typing import Any

from ..session import Notes, RecordedCompaction, Segment, Session, Turn, seconds_of
from .chat_form import in_chat_form
from .claude_window import Block, Window, clean_blocks
from .lines import kind_of
from .values import count, mapping, mappings, string

Record = dict[str, Any]

_BOOKKEEPING = ("hook.", "permission.", "session.", "tool.", "assistant.", "subagent.", "skill.", "abort", "external_")


def recognise(records: list[Record]) -> bool:
    """True when these are Copilot's."""
    for record in records[:50]:
        data = mapping(record.get("data"))
        if kind_of(record) == "session.start" and ("copilotVersion" in data or "producer" in data):
            return True
        if (
            kind_of(record) in ("assistant.message", "tool.execution_complete")
            and {"messageId", "toolCallId"} & data.keys()
        ):
            return True
    return False


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """The one session that a file holds."""
    reader = _Reader(notes)
    for record in records:
        reader.take(record)
    reader.finish()
    models = [t.model for s in reader.segments for t in s.turns if t.model]
    return [
        Session(
            name=name or reader.session_id or "session",
            reader="copilot",
            format="chat",
            segments=in_chat_form(reader.segments, reader.system),
            model=models[0] if models else None,
            notes=notes.lines(),
        )
    ]


class _Reader:
    """Walks the events once; holds the window as it stands."""

    def __init__(self, notes: Notes) -> None:
        self.segments: list[Segment] = []
        self.session_id = ""
        self.system = ""
        self._notes = notes
        self._window = Window(notes)
        self._begun_by: RecordedCompaction | None = None

    def take(self, event: Record) -> None:
        kind, data = kind_of(event), mapping(event.get("data"))
        if data.get("parentToolCallId"):
            self._notes.add("event of a sub-agent left out")
        elif kind == "session.start":
            self.session_id = self.session_id or string(data.get("sessionId"))
        elif kind == "system.message":
            self._system(string(data.get("content")))
        elif kind in ("user.message", "system.notification"):
            self._window.user(clean_blocks(data.get("transformedContent") or data.get("content")))
            self._notes.add("attachment left out", len(mappings(data.get("attachments"))))
        elif kind == "assistant.message":
            self._assistant(event, data)
        elif kind == "tool.execution_complete":
            self._window.user([_result(data)])
        elif kind == "session.compaction_complete" and data.get("success") is not False:
            self._compacted(data)
        elif kind == "session.truncation":
            self._notes.add("truncation by the agent, of which the file does not say what it took")
        elif not kind.startswith(_BOOKKEEPING):
            self._notes.add(f"event of unknown type {kind!r} skipped")

    def finish(self) -> None:
        segment = self._window.segment()
        if segment:
            segment.compaction = self._begun_by
            self.segments.append(segment)

    def _system(self, text: str) -> None:
        """It is written again each time the user speaks."""
        if self.system and text != self.system:
            self._notes.add("changed system prompt: the first one stays")
        self.system = self.system or text

    def _assistant(self, event: Record, data: Record) -> None:
        calls = [_call(c) for c in mappings(data.get("toolRequests"))]
        blocks = [*clean_blocks(data.get("content")), *calls]
        answer, is_new = self._window.assistant(string(data.get("messageId")) or str(event.get("id")), blocks)
        if is_new:
            output, model = count(data.get("outputTokens")), data.get("model")
            answer.turn = Turn(
                0,
                {"output_tokens": output} if output else None,
                seconds_of(event.get("timestamp")),
                model if isinstance(model, str) else None,
            )

    def _compacted(self, data: Record) -> None:
        summary = string(data.get("summaryContent"))
        self._notes.add(f"compaction, of which the file says only {'the summary' if summary else 'that it was'}")
        self.finish()
        self._window = Window(self._notes)
        self._window.user(clean_blocks(summary))
        self._begun_by = RecordedCompaction("compaction", summary, 0, count(data.get("preCompactionTokens")) or None)


def _call(request: Record) -> Block:
    arguments = request.get("arguments")
    return {
        "type": "tool_use",
        "id": request.get("toolCallId"),
        "name": string(request.get("name")),
        "input": arguments if isinstance(arguments, str | dict) else {},
    }


def _result(data: Record) -> Block:
    """`detailedContent` is for the screen."""
    result = mapping(data.get("result") or data.get("error"))
    text = string(result.get("content")) or string(result.get("message"))
    return {"type": "tool_result", "tool_use_id": data.get("toolCallId"), "content": text}
