"""The window of an Anthropic conversation, put together from records that arrive one block at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...types import Json
from ..session import Notes, RecordedCompaction, Segment, Turn
from .sessions import Windows
from .values import string

CLEARED = "[Old tool result content cleared]"
"""What Claude Code leaves in the place of a result that it cleared."""
NOT_RECORDED = "[This message is not in the session file.]"

Block = dict[str, Any]


@dataclass(slots=True)
class Round:
    """An assistant message and the user's turn behind it (in the first one, only the latter)."""

    id: str = ""
    assistant: list[Block] = field(default_factory=list)
    results: list[Block] = field(default_factory=list)
    texts: list[Block] = field(default_factory=list)
    turn: Turn | None = None
    """None when the message came into the window with a compaction: no model call of this segment."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """What it was in the last segment, and the state that it was in then."""
    state: tuple[bool, int, int, int] | None = None


class Window:
    """What the model sees now.

    Anthropic's own form. It serves agents of other providers as well: `chat_form` makes Chat Completions of it.
    """

    def __init__(self, notes: Notes) -> None:
        self.rounds: list[Round] = [Round()]
        self._notes = notes
        self._by_id: dict[str, Round] = {}
        self._by_call: dict[str, Round] = {}
        self._answered: set[str] = set()
        self._cleared: set[str] = set()

    @property
    def is_empty(self) -> bool:
        return not self.rounds[0].texts and len(self.rounds) == 1

    @property
    def waits_for_user(self) -> bool:
        """True when the model has spoken last."""
        last = self.rounds[-1]
        return not (last.results or last.texts)

    @property
    def length(self) -> int:
        """How many messages it has."""
        return sum(bool(r.assistant) + bool(r.results or r.texts) for r in self.rounds)

    def assistant(self, message_id: str, blocks: list[Block]) -> tuple[Round, bool]:
        """Blocks of one response: a new round, or more of one that is there. True when it is new."""
        found = self._by_id.get(message_id)
        entry = found or Round(message_id)
        if found is None:
            if self.is_empty:
                self.missing_prompt()
            self._by_id[message_id] = entry
            self.rounds.append(entry)
        for block in blocks:
            if block.get("type") == "tool_use" and not self._new_call(block, entry):
                continue
            entry.assistant.append(block)
        return entry, found is None

    def _new_call(self, block: Block, entry: Round) -> bool:
        call_id = block.get("id")
        if not isinstance(call_id, str) or call_id in self._by_call:
            self._notes.add("call recorded twice: the first one stays")
            return False
        self._by_call[call_id] = entry
        return True

    def missing_prompt(self) -> None:
        self._notes.add("user message missing in the file: a placeholder stands for it")
        self.text(NOT_RECORDED)

    def user(self, blocks: list[Block]) -> None:
        """Blocks of a user record: results go behind their calls, the rest to the end."""
        for block in blocks:
            if block.get("type") != "tool_result":
                self.rounds[-1].texts.append(block)
                continue
            call_id = block.get("tool_use_id")
            entry = self._by_call.get(call_id) if isinstance(call_id, str) else None
            if entry is None or call_id in self._answered:
                self._notes.add("tool result whose call is not in the window, or was answered before, left out")
                continue
            self._answered.add(str(call_id))
            entry.results.append(block)

    def text(self, text: str) -> None:
        self.rounds[-1].texts.append({"type": "text", "text": text})

    def ask(self) -> None:
        """A call at the end, where the last word is not the model's."""
        if not (self.waits_for_user or self.is_empty):
            self.assistant("pending", [])[0].turn = Turn(0)

    def knows(self, call_id: str) -> bool:
        return call_id in self._by_call

    def held(self, call_ids: list[str]) -> list[str]:
        """Those of these calls whose result stands in it."""
        return [i for i in call_ids if i in self._answered and i not in self._cleared]

    def clear(self, call_ids: list[str]) -> None:
        """These results are not sent any more. The calls so far belong to the segment that ended with it."""
        for entry in self.rounds:
            entry.turn = None
        self._cleared.update(call_ids)
        for call_id in call_ids:
            entry = self._by_call[call_id]
            entry.results = [{**b, "content": CLEARED} if b.get("tool_use_id") == call_id else b for b in entry.results]
            entry.state = None

    def segment(self) -> Segment | None:
        """What stands in the window as messages; None when no model call belongs to it."""
        if not any(r.turn for r in self.rounds):
            return None
        messages: list[dict[str, Any]] = []
        turns: list[Turn] = []
        for entry in self.rounds:
            if entry.turn:
                entry.turn.end = len(messages)
                turns.append(entry.turn)
            messages += self._messages(entry)
        return Segment(messages, turns)

    def _messages(self, entry: Round) -> list[dict[str, Any]]:
        """Those of a round; while nothing in it changes, the same objects in every segment."""
        state = entry is self.rounds[-1], len(entry.assistant), len(entry.results), len(entry.texts)
        if entry.state != state:
            blocks, said = self._whole(entry), [*entry.results, *entry.texts]
            spoken = [{"role": "assistant", "content": blocks}] if blocks else []
            entry.state, entry.messages = state, [*spoken, *([{"role": "user", "content": said}] if said else [])]
        return entry.messages

    def _whole(self, entry: Round) -> list[Block]:
        """The assistant's blocks, without calls that were never answered though the file goes on."""
        if entry is self.rounds[-1]:
            return list(entry.assistant)
        blocks = [b for b in entry.assistant if b.get("type") != "tool_use" or b["id"] in self._answered]
        self._notes.add("call without a result left out", len(entry.assistant) - len(blocks))
        if any(b.get("type") not in ("thinking", "redacted_thinking") for b in blocks):
            return blocks
        self._notes.add("response of nothing but thinking left out", 1 if blocks else 0)
        return []


def called(call_id: Json, name: Json, arguments: Json) -> Block:
    """A call. Arguments that are a text, since they were no JSON, stay one."""
    known = arguments if isinstance(arguments, str | dict) else {}
    return {"type": "tool_use", "id": call_id, "name": string(name), "input": known}


def returned(call_id: Json, content: Json, *, is_error: bool = False) -> Block:
    """What a call gave back."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {**block, "is_error": True} if is_error else block


def image(media_type: str, data: Json) -> Block:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": string(data)}}


def image_at(url: Json) -> Block | None:
    """The image that a URL holds; None where it only points to one."""
    media_type, is_data, data = string(url).removeprefix("data:").partition(";base64,")
    return image(media_type, data) if is_data and string(url).startswith("data:") else None


def clean_blocks(content: Json) -> list[Block]:
    """Content as blocks that the API takes: no empty text."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [_clean_result(b) for b in content if isinstance(b, dict) and not _is_empty(b)]


def _is_empty(block: Block) -> bool:
    if block.get("type") != "text":
        return False
    text = block.get("text")
    return not (isinstance(text, str) and text.strip())


def _clean_result(block: Block) -> Block:
    content = block.get("content")
    if block.get("type") != "tool_result" or not isinstance(content, list):
        return block
    kept = [b for b in content if not (isinstance(b, dict) and _is_empty(b))]
    return block if len(kept) == len(content) else {**block, "content": kept}


class BlockWindows(Windows[Window]):
    """Windows made of blocks; a client may also clear results in one."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(Window, notes)

    def clear(self, call_ids: list[str], tokens_before: int | None = None) -> None:
        """A new window with these results cleared; the same one goes on where it holds none of them."""
        held = self.window.held(call_ids)
        if not held:
            return
        if self.end():
            self.begun_by = RecordedCompaction("microcompaction", "", self.window.length, tokens_before)
        self.window.clear(held)
