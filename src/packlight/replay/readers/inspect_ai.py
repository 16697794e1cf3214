"""inspect_ai logs (the JSON form): one session a sample.

The model events hold the true request of each call; those count whose answer stands in the sample's messages (others
are sub-agents' and graders'). A log without events is read from its messages alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...types import Json
from ..session import Notes, Segment, Session, Turn
from .chat_log import ChatLog, call_of, clean_content
from .sessions import runs_of, segments_of, session_of
from .values import Record, first_text, mapping, mappings, seconds, usage_of

_ATTACHMENT = "attachment://"


def recognise(records: list[Record]) -> bool:
    return any(_is_log(r) for r in records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session for each sample and epoch."""
    sessions = []
    for record, named, own in runs_of(records, _is_log, name=name, notes=notes):
        samples, model = mappings(record["samples"]), first_text(record["eval"].get("model"))
        for i, sample in enumerate(samples):
            sample_name = named if len(samples) == 1 else f"{named}#{sample.get('id', i)}.{sample.get('epoch', 1)}"
            sessions.append(_session(sample, model, sample_name, Notes() if i else own))
    return sessions


def _session(sample: Record, model: str | None, name: str, notes: Notes) -> Session:
    reader = _Sample(sample, notes)
    segments: list[Segment | None] = [*segments_of(reader.calls())]
    if not segments:
        log = ChatLog(notes)
        reader.tell(log, mappings(sample.get("messages")), is_turn=True)
        segments = [log.segment()]
    return session_of("inspect-ai", "chat", segments, notes, name, model=model, head={"tools": reader.tools or None})


class _Sample:
    """Reads a sample's messages and the requests of its model events."""

    def __init__(self, sample: Record, notes: Notes) -> None:
        self.tools: list[Json] = []
        self._sample = sample
        self._notes = notes
        self._attachments: dict[str, Json] = {}
        for key in ("attachments", "events_data"):
            self._attachments.update(mapping(sample.get(key)))
        pool = sample.get("message_pool") or self._attachments.get("messages")
        self._pool = mappings(pool)

    def calls(self) -> Iterator[tuple[list[Record], Turn]]:
        """The request of each call, with its usage."""
        own = {str(m.get("id")) for m in mappings(self._sample.get("messages")) if m.get("role") == "assistant"}
        for event in mappings(self._sample.get("events")):
            if event.get("event") != "model":
                continue
            output = mapping(event.get("output"))
            answers = [mapping(c.get("message")) for c in mappings(output.get("choices"))]
            if not any(str(m.get("id")) in own for m in answers):
                self._notes.add("model call whose answer is not in the conversation left out")
                continue
            self.tools = self.tools or self._tools(event)
            log = ChatLog(Notes())
            self.tell(log, self._input(event), is_turn=False)
            log.answer("-", turn=Turn(0))  # closes the request
            segment = log.segment()
            turn = Turn(
                0, _usage(output.get("usage")), seconds(event.get("timestamp")), first_text(output.get("model"))
            )
            if segment:
                yield segment.messages[: segment.turns[-1].end], turn

    def tell(self, log: ChatLog, messages: list[Record], *, is_turn: bool) -> None:
        """Puts inspect's messages into a log."""
        for message in messages:
            role, content = message.get("role"), self._content(message.get("content"))
            if role == "assistant":
                calls = [
                    call_of(c.get("id"), c.get("function"), self._resolved(c.get("arguments")))
                    for c in mappings(message.get("tool_calls"))
                ]
                turn = Turn(0, None, None, first_text(message.get("model"))) if is_turn else None
                log.answer(content, calls, turn=turn)
            elif role == "tool":
                log.result(message.get("tool_call_id"), self._result(message, content), message.get("function"))
            else:
                log.say("system" if role == "system" else "user", content)

    def _result(self, message: Record, content: str | list[Json]) -> str | list[Json]:
        text = mapping(message.get("error")).get("message")
        return self._resolved(text) if isinstance(text, str) and not content else content

    def _input(self, event: Record) -> list[Record]:
        """The messages of a request; newer logs keep them in a pool and refer to ranges of it."""
        refs = event.get("input_refs")
        if event.get("input") or not isinstance(refs, list):
            return mappings(event.get("input"))
        ranges = [r for r in refs if isinstance(r, list) and len(r) == 2 and all(isinstance(i, int) for i in r)]
        return [message for start, end in ranges for message in self._pool[max(0, start) : max(0, end)]]

    def _tools(self, event: Record) -> list[Json]:
        keys = ("name", "description", "parameters")
        return [
            {"type": "function", "function": {k: self._resolved(tool[k]) for k in keys if k in tool}}
            for tool in mappings(event.get("tools"))
        ]

    def _content(self, content: Json) -> str | list[Json]:
        if not isinstance(content, list):
            return clean_content(self._resolved(content))
        return clean_content([self._part(p) for p in mappings(content) if p.get("type") not in ("reasoning", "data")])

    def _part(self, part: Record) -> Record:
        if part.get("type") == "text":
            return {"type": "text", "text": self._resolved(part.get("text"))}
        if part.get("type") == "image":
            return {"type": "image_url", "image_url": {"url": self._resolved(part.get("image"))}}
        return part

    def _resolved(self, value: Json) -> Any:
        """What is kept once under its hash, put back in its place."""
        if not isinstance(value, str) or not value.startswith(_ATTACHMENT):
            return value
        found = self._attachments.get(value.removeprefix(_ATTACHMENT))
        if found is None:
            self._notes.add("attachment that is not in the file")
        return value if found is None else found


def _is_log(record: Record) -> bool:
    return isinstance(record.get("samples"), list) and isinstance(record.get("eval"), dict)


def _usage(usage: Json) -> Any:
    """inspect's own names; its `input_tokens` are without the cached ones where the provider counts them so."""
    told = mapping(usage)
    return usage_of(
        told.get("input_tokens"),
        told.get("output_tokens"),
        cached=told.get("input_tokens_cache_read"),
        written=told.get("input_tokens_cache_write"),
    )
