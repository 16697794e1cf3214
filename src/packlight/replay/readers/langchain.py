"""LangChain messages: a list as `dumpd` writes it (constructors), as `messages_to_dict` does (`{"type", "data"}`), or
as `model_dump` (flat); or an object that holds such a list as `messages`, as LangGraph's state does.
"""

from __future__ import annotations

from ...types import Json
from ..session import Notes, Session, Turn
from .chat_form import in_chat_form
from .claude_window import Block, Window, called, clean_blocks, image_at, returned
from .lines import kind_of
from .sessions import session_of
from .values import Record, first_text, mapping, mappings, string, usage_of

_KINDS = frozenset({"human", "ai", "system", "tool", "function", "chat", "remove"})
_OURS = frozenset({"additional_kwargs", "response_metadata", "tool_call_id"})
"""Keys that a flat message has and no other format's."""


def recognise(records: list[Record]) -> bool:
    messages = _messages(records)
    return bool(messages) and all(_kind_and_data(m)[0] for m in messages)


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """The one conversation, with a call at its end when the last word is not the model's."""
    reader = _Reader(notes)
    for number, message in enumerate(_messages(records)):
        reader.take(f"answer {number}", *_kind_and_data(message))
    reader.window.ask()
    return [session_of("langchain", "chat", in_chat_form([reader.window.segment()], reader.system), notes, name)]


class _Reader:
    def __init__(self, notes: Notes) -> None:
        self.window = Window(notes)
        self.system = ""
        self._notes = notes

    def take(self, answer_id: str, kind: str, data: Record) -> None:
        if kind == "ai":
            calls = [*mappings(data.get("tool_calls")), *mappings(data.get("invalid_tool_calls"))]
            blocks = [called(c.get("id"), c.get("name"), c.get("args")) for c in calls]
            answer, _ = self.window.assistant(answer_id, [*self._blocks(data.get("content")), *blocks])
            answer.turn = _turn(data)
        elif kind == "tool":
            self.window.user([returned(data.get("tool_call_id"), self._blocks(data.get("content")))])
        elif kind == "system" and self.window.is_empty and not self.system:
            self.system = "\n\n".join(b["text"] for b in self._blocks(data.get("content")) if "text" in b)
        elif kind in ("human", "system", "chat"):
            if kind == "system":
                self._notes.add("system message inside the conversation read as the user's")
            self.window.user(self._blocks(data.get("content")))
        else:
            self._notes.add(f"message of type {kind!r} left out")

    def _blocks(self, content: Json) -> list[Block]:
        """Text and images; calls stand in `tool_calls` as well, reasoning has no place in Chat Completions."""
        blocks = []
        for part in [{"type": "text", "text": p} if isinstance(p, str) else p for p in _listed(content)]:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                blocks.append({"type": "text", "text": part["text"]})
            elif isinstance(part, dict) and (shown := image_at(mapping(part.get("image_url")).get("url"))):
                blocks.append(shown)
            elif isinstance(part, dict) and kind_of(part) not in ("tool_use", "input_json_delta"):
                self._notes.add(f"part of type {kind_of(part)!r} left out")
        return clean_blocks(blocks)


def _listed(content: Json) -> list[Json]:
    return content if isinstance(content, list) else [content]


def _messages(records: list[Record]) -> list[Record]:
    if len(records) == 1 and "type" not in records[0] and isinstance(records[0].get("messages"), list):
        return mappings(records[0]["messages"])
    return records


def _kind_and_data(message: Record) -> tuple[str, Record]:
    """The kind is empty when it is none of LangChain's."""
    kind, ident, data = kind_of(message), message.get("id"), message.get("data")
    if kind == "constructor" and isinstance(ident, list) and ident:
        kind, data = string(ident[-1]), message.get("kwargs")
    elif data is None and "content" in message and _OURS & message.keys():
        data = message
    kind = kind.removesuffix("Chunk").removesuffix("Message").lower()
    return (kind, data) if kind in _KINDS and isinstance(data, dict) else ("", {})


def _turn(data: Record) -> Turn:
    metadata = mapping(data.get("response_metadata"))
    model = first_text(metadata.get("model_name"), metadata.get("model"))
    counted = mapping(data.get("usage_metadata"))
    details, sent = mapping(counted.get("input_token_details")), counted.get("input_tokens") or None
    read, written = details.get("cache_read"), details.get("cache_creation")
    return Turn(0, usage_of(sent, counted.get("output_tokens"), cached=read, written=written), None, model)
