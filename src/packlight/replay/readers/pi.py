"""pi: session files (`~/.pi/agent/sessions/*/*.jsonl`), versions 1 (a list) to 3 (a tree), and `pi --mode json`.

What the entries become in a request is told by pi-mono, packages/coding-agent/src/core/session-manager.ts and
messages.ts, and packages/ai/src/providers/transform-messages.ts (January 2026). The system prompt and the tools are
not recorded.
"""

from __future__ import annotations

from ...types import Json
from ..session import Notes, RecordedCompaction, Session, Turn
from .claude_window import Block, BlockWindows, called, clean_blocks, image, returned
from .lines import kind_of
from .sessions import session_of
from .values import Record, anthropic_usage, count, first_text, mapping, mappings, number, seconds, string

_COMPACTED = "conversation history before this point was compacted into the following summary"
_BOOKKEEPING = frozenset({
    "session", "thinking_level_change", "model_change", "custom", "label", "session_info", "compaction",
    "agent_start", "agent_end", "turn_start", "turn_end", "message_start", "message_update", "queue_update",
    "tool_execution_start", "tool_execution_update", "tool_execution_end", "auto_retry_start", "auto_retry_end",
    "compaction_start", "auto_compaction_start",
})  # fmt: skip
_BROKEN_OFF = ("aborted", "error")
_SKIPS_BROKEN_OFF = 3
"""From this version of the file on, pi does not send again what a broken-off response had said."""
_ROOT = -1


def recognise(records: list[Record]) -> bool:
    for record in records[:50]:
        if kind_of(record) == "session" and "cwd" in record and isinstance(record.get("id"), str):
            return True
        message = mapping(record.get("message"))
        if kind_of(record) == "message" and message.get("role") in ("toolResult", "bashExecution"):
            return True
    return False


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """The one session that a file holds, with the branches that the user left."""
    header = next((r for r in records if kind_of(r) == "session"), {})
    segments = _Reader(notes, count(header.get("version")) or 1).read(map(_entry, records))
    return [session_of("pi", "anthropic", segments, notes, name, header.get("id"))]


def _entry(record: Record) -> Record:
    """What is told of the entries while the agent works is read as the entry itself."""
    kind, compaction = kind_of(record), mapping(record.get("result"))
    if kind == "message_end":
        return {**record, "type": "message"}
    if kind in ("compaction_end", "auto_compaction_end"):
        return {**compaction, "type": "compaction" if compaction else "custom"}
    return record


class _Reader(BlockWindows):
    """Walks the entries once."""

    def __init__(self, notes: Notes, version: int) -> None:
        super().__init__(notes)
        self._version = version
        self._thinking = ""
        self._entries: list[Record] = []
        self._parents: list[int] = []
        """Place of each entry's parent: always further up, whatever the file says."""
        self._place_of: dict[str, int] = {}

    def take(self, entry: Record) -> None:
        place, parent = len(self._entries), self._parent_of(entry)
        if parent != place - 1:
            self._go_on("rewind", self._path(parent))
        self._entries.append(entry)
        self._parents.append(parent)
        if isinstance(entry.get("id"), str) and kind_of(entry) != "session":
            self._place_of.setdefault(entry["id"], place)
        if kind_of(entry) in ("session", "thinking_level_change"):
            self._thinking = string(entry.get("thinkingLevel")) or self._thinking
        if kind_of(entry) == "compaction":
            self._go_on("compaction", self._path(place))
        else:
            self._add(place, live=True)

    def _parent_of(self, entry: Record) -> int:
        """The entry before where the file has no tree, or the parent is not there."""
        before = len(self._entries) - 1
        if "parentId" not in entry or kind_of(entry) == "session":
            return before
        parent = entry["parentId"]
        if parent is None:
            return before if not self._place_of else _ROOT
        if isinstance(parent, str) and parent in self._place_of:
            return self._place_of[parent]
        self.notes.add("entry whose parent is not in the file: it follows the one before")
        return before

    def _path(self, place: int) -> list[int]:
        path = []
        while place != _ROOT:
            path.append(place)
            place = self._parents[place]
        return path[::-1]

    def _go_on(self, kind: str, path: list[int]) -> None:
        """A new window with what stands on this path: the last summary, what was kept, and what came behind it."""
        self.begin(RecordedCompaction(kind))
        at = next((i for i in reversed(range(len(path))) if kind_of(self._entries[path[i]]) == "compaction"), None)
        compaction = self._entries[path[at]] if at is not None else {}
        if at is not None:
            first = self._first_kept(compaction)
            path = [p for p in path[:at] if p >= first] + path[at + 1 :]
            self.window.user([_summary(_COMPACTED, compaction)])
        preserved = sum([self._add(p, live=False) for p in path])
        about = compaction if kind == "compaction" else {}
        tokens = count(about.get("tokensBefore")) or None
        self.begun_by = RecordedCompaction(kind, string(about.get("summary")), preserved, tokens)

    def _first_kept(self, compaction: Record) -> int:
        index, first = compaction.get("firstKeptEntryIndex"), compaction.get("firstKeptEntryId")
        if isinstance(index, int) and 0 <= index <= len(self._entries):
            return index
        if isinstance(first, str) and first in self._place_of:
            return self._place_of[first]
        self.notes.add("compaction that does not say what it kept: nothing before it is shown")
        return len(self._entries)

    def _add(self, place: int, *, live: bool) -> bool:
        """Put an entry into the window; False when the model does not see it."""
        entry = self._entries[place]
        kind, message = kind_of(entry), mapping(entry.get("message"))
        if kind == "message" and message.get("role") == "assistant":
            return self._assistant(place, entry, message, live=live)
        blocks: list[Block] = []
        if kind == "message":
            blocks = self._said_to_model(message)
        elif kind == "custom_message":
            blocks = _blocks(entry.get("content"))
        elif kind == "branch_summary" and string(entry.get("summary")):
            blocks = [_summary("following is a summary of a branch that this conversation came back from", entry)]
        elif kind not in _BOOKKEEPING and live:
            self.notes.add(f"entry of unknown type {kind!r} skipped")
        self.window.user(blocks)
        return bool(blocks)

    def _said_to_model(self, message: Record) -> list[Block]:
        role = message.get("role")
        if role == "toolResult":
            is_error = message.get("isError") is True
            return [returned(message.get("toolCallId"), _blocks(message.get("content")), is_error=is_error)]
        if role == "bashExecution":
            return [] if message.get("excludeFromContext") else [_text(_ran(message))]
        if role not in ("user", "custom", "hookMessage"):
            self.notes.add(f"message of unknown role {str(role)!r} left out")
            return []
        return _blocks(message.get("content"))

    def _assistant(self, place: int, entry: Record, message: Record, *, live: bool) -> bool:
        blocks, turn = _spoken(message), _turn(entry, message)
        if not blocks and not turn.usage:
            return False  # broken off before anything was sent, or came back
        if message.get("stopReason") in _BROKEN_OFF and self._version >= _SKIPS_BROKEN_OFF:
            blocks = []
        said, _ = self.window.assistant(str(place), blocks)
        turn.thinking = self._thinking
        said.turn = turn if live else None
        return bool(blocks)


def _turn(entry: Record, message: Record) -> Turn:
    usage = mapping(message.get("usage"))
    cost = mapping(usage.get("cost"))
    billed = sum(number(cost.get(k)) or 0 for k in ("input", "cacheRead", "cacheWrite"))
    return Turn(
        0,
        anthropic_usage(*(usage.get(k) for k in ("input", "cacheRead", "cacheWrite", "output"))),
        seconds(entry.get("timestamp")) or _seconds(message.get("timestamp")),
        first_text(message.get("model")),
        billed or None,
    )


def _seconds(milliseconds: Json) -> float | None:
    known = number(milliseconds)
    return known / 1000 if known else None


def _spoken(message: Record) -> list[Block]:
    return [b for block in mappings(message.get("content")) if (b := _spoken_block(block))]


def _spoken_block(block: Block) -> Block | None:
    kind, signature = kind_of(block), block.get("thinkingSignature")
    if kind == "toolCall":
        return called(block.get("id"), block.get("name"), mapping(block.get("arguments")))
    if kind == "thinking" and block.get("redacted"):
        return {"type": "redacted_thinking", "data": string(signature)}
    if kind == "thinking" and signature:
        return {"type": "thinking", "thinking": string(block.get("thinking")), "signature": str(signature)}
    said = string(block.get("thinking")) or string(block.get("text"))
    return _text(said) if said.strip() else None


def _blocks(content: Json) -> list[Block]:
    """Text and images, as the user and tools send them."""
    if isinstance(content, str):
        return clean_blocks(content)
    return clean_blocks([
        image(string(b.get("mimeType")), b.get("data")) if kind_of(b) == "image" else _text(string(b.get("text")))
        for b in mappings(content)
    ])  # fmt: skip


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _summary(what: str, entry: Record) -> Block:
    return _text(f"The {what}:\n\n<summary>\n{string(entry.get('summary'))}\n</summary>")


def _ran(message: Record) -> str:
    """A command that the user ran with `!`."""
    output, code = string(message.get("output")), message.get("exitCode")
    lines = [f"Ran `{message.get('command')}`", f"```\n{output}\n```" if output else "(no output)"]
    if message.get("cancelled"):
        lines.append("\n(command cancelled)")
    elif code:
        lines.append(f"\nCommand exited with code {code}")
    if message.get("truncated") and message.get("fullOutputPath"):
        lines.append(f"\n[Output truncated. Full output: {message['fullOutputPath']}]")
    return "\n".join(lines)
