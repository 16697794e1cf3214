"""Claude Code: session files (`~/.claude/projects/*/*.jsonl`) and `--output-format stream-json`.

One API response is logged as several records, one a block; results, attachments and bookkeeping stand between
them. The system prompt and the tools are recorded since 2.1.26x.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..session import Notes, RecordedCompaction, Session, Turn
from .attachments import head_of, text_of
from .claude_window import BlockWindows, clean_blocks
from .lines import kind_of
from .sessions import session_of
from .values import Record, count, first_text, mapping, mappings, seconds, string, strings

_SUMMARY = "This session is being continued from a previous conversation that ran out of context."
_SYNTHETIC = "<synthetic>"
_BOOKKEEPING = frozenset({
    "progress", "summary", "file-history-snapshot", "file-history-delta", "queue-operation", "custom-title", "ai-title",
    "agent-name", "agent-color", "agent-setting", "last-prompt", "mode", "permission-mode", "pr-link", "tag",
    "relocated", "worktree-state", "attribution-snapshot", "speculation-accept", "content-replacement", "continued-in",
    "cost-state", "ended-by-model", "bridge-session", "observer-ref", "isolation-latch", "atis-latch", "frame-link",
    "marble-origami-snapshot", "result", "stream_event", "rate_limit_event",
})  # fmt: skip
"""Kinds of records that are nothing to the model, up to 2.1.258."""
_MOST_ABANDONED_RATIO = 0.5


def recognise(records: list[Record]) -> bool:
    for record in records[:200]:
        message = record.get("message")
        kind = kind_of(record)
        if kind in ("user", "assistant") and isinstance(message, dict) and "role" in message:
            return True
        if kind in ("file-history-snapshot", "queue-operation") or (kind == "summary" and "leafUuid" in record):
            return True
        if kind == "system" and ("session_id" in record or "sessionId" in record or _subtype(record) == "init"):
            return True
    return False


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    records = _main_chain(_once(records, notes), notes)
    reader = _Reader(notes, _replacements(records))
    segments = reader.read(_without_abandoned(records, notes))
    return [session_of("claude-code", "anthropic", segments, notes, name, _session_id(records), head=reader.head)]


class _Reader(BlockWindows):
    """Walks the records once."""

    def __init__(self, notes: Notes, replaced: Mapping[str, str]) -> None:
        super().__init__(notes)
        self.head: Record = {}
        self._replaced = replaced
        self._seen: dict[str, Record] = {}
        self._preserved: list[str] = []
        self._prompt_due = False
        """A query began whose prompt a stream does not repeat."""

    def take(self, record: Record) -> None:
        kind = kind_of(record)
        if isinstance(record.get("uuid"), str):
            self._seen[record["uuid"]] = record
        if kind == "assistant":
            self._assistant(record, live=True)
        elif kind == "user":
            self._user(record)
        elif kind == "attachment":
            self._attachment(record)
        elif kind == "system":
            self._system(record)
        elif kind == "fork-context-ref":
            self.notes.add("sub-agent that went on from its parent's context, which is not in the file")
        elif kind not in _BOOKKEEPING:
            self.notes.add(f"record of unknown type {kind!r} skipped")

    def _assistant(self, record: Record, *, live: bool) -> None:
        message = record.get("message")
        if not isinstance(message, dict):
            return
        if message.get("model") == _SYNTHETIC or record.get("isApiErrorMessage"):
            self.notes.add("message made by the client, not by the model, left out")
            return
        if self._prompt_due and self.window.waits_for_user:
            self.window.missing_prompt()
        self._prompt_due = False
        message_id = str(message.get("id") or record.get("uuid") or len(self.window.rounds))
        entry, is_new = self.window.assistant(message_id, clean_blocks(message.get("content")))
        if is_new and live:
            entry.turn = Turn(0, None, seconds(record.get("timestamp")), first_text(message.get("model")))
        if entry.turn and isinstance(message.get("usage"), dict):
            entry.turn.usage = message["usage"]  # the last record of a response has the final figures

    def _user(self, record: Record) -> None:
        blocks = self._as_sent(record)
        if self._is_summary(record, blocks):
            if not self.window.is_empty:
                self._new_window()  # 1.0.x logs no boundary
            summary = "\n".join(str(b["text"]) for b in blocks if "text" in b)
            self.begun_by = replace(self.begun_by or RecordedCompaction("compaction"), summary=summary)
        if any(b.get("type") != "tool_result" for b in blocks):
            self._prompt_due = False
        self.window.user(blocks)
        if self._preserved:
            self._keep_preserved()

    def _as_sent(self, record: Record) -> list[Record]:
        """What a user's record says; a result as what the client sent in its place."""
        blocks = clean_blocks(_message(record).get("content"))
        texts = [self._replaced.get(string(b.get("tool_use_id"))) for b in blocks]
        return [b if t is None else {**b, "content": t} for b, t in zip(blocks, texts, strict=True)]

    def _is_summary(self, record: Record, blocks: list[Record]) -> bool:
        first = blocks[0].get("text") if blocks else None
        return bool(record.get("isCompactSummary")) or (isinstance(first, str) and first.startswith(_SUMMARY))

    def _attachment(self, record: Record) -> None:
        attachment = mapping(record.get("attachment"))
        for key, value in head_of(attachment).items():
            self.notes.add(f"changed {key} of the requests: the first stay", self.head.setdefault(key, value) != value)
        stripped = string(attachment.get("type")) in ("thinking_stripped", "thinking_drop")
        self.notes.add("thinking that the client took out of its requests: still shown", stripped)
        text = text_of(record)
        if text is None:
            self.notes.add(f"attachment of unknown kind {attachment.get('type')!r} left out")
        elif text.strip():
            self.window.text(text)

    def _system(self, record: Record) -> None:
        subtype = _subtype(record)
        if subtype == "compact_boundary":
            in_stream = _message(record).get("compact_metadata")
            metadata = mapping(record.get("compactMetadata") or record.get("compact_metadata") or in_stream)
            self._new_window(count(metadata.get("preTokens", metadata.get("pre_tokens"))) or None)
            self._preserved = strings(mapping(metadata.get("preservedMessages")).get("uuids"))
        elif subtype == "microcompact_boundary":
            metadata = mapping(record.get("microcompactMetadata"))
            self.clear(strings(metadata.get("compactedToolIds")), count(metadata.get("preTokens")) or None)
        elif subtype == "snip_boundary":
            self.notes.add("cut inside the conversation by the client: what it took out is still shown")
        elif subtype == "init":
            self._prompt_due = True

    def _new_window(self, tokens_before: int | None = None) -> None:
        self.begin(RecordedCompaction("compaction", tokens_before=tokens_before))
        self._prompt_due = False

    def _keep_preserved(self) -> None:
        """Messages that a compaction kept stand behind its summary; the file does not repeat them."""
        ids, self._preserved = self._preserved, []
        kept = [self._seen[i] for i in ids if i in self._seen]
        self.notes.add("message kept over a compaction, but not in the file", len(ids) - len(kept))
        if self.begun_by:
            self.begun_by = replace(self.begun_by, preserved_messages=len(kept))
        for record in kept:
            if kind_of(record) == "assistant":
                self._assistant(record, live=False)
            elif kind_of(record) == "user":
                self.window.user(self._as_sent(record))


def _replacements(records: list[Record]) -> dict[str, str]:
    """By call: what was sent for a result that was too large beside the others of its message."""
    logged = [r.get("replacements") for r in records if kind_of(r) == "content-replacement"]
    found = [one for replacements in logged for one in mappings(replacements)]
    return {string(f.get("toolUseId")): f["replacement"] for f in found if isinstance(f.get("replacement"), str)}


def _session_id(records: list[Record]) -> str:
    """A stream has its own name for it, some wrap its records."""
    found = ((r.get("sessionId"), r.get("session_id"), _message(r).get("session_id")) for r in records)
    return next((i for ids in found if (i := first_text(*ids))), "session")


def _subtype(record: Record) -> Any:
    return record.get("subtype") or _message(record).get("subtype")


def _once(records: list[Record], notes: Notes) -> list[Record]:
    """Without records that a resumed session wrote a second time."""
    seen: set[str] = set()
    kept = []
    for record in records:
        uuid = record.get("uuid")
        if isinstance(uuid, str) and uuid in seen:
            notes.add("record written twice: the first one counts")
            continue
        if isinstance(uuid, str):
            seen.add(uuid)
        kept.append(record)
    return kept


def _main_chain(records: list[Record], notes: Notes) -> list[Record]:
    main = [r for r in records if not (r.get("isSidechain") or r.get("parent_tool_use_id"))]
    if not any(kind_of(r) in ("user", "assistant") for r in main):
        return records  # a sub-agent's own file
    notes.add("record of a sub-agent left out", len(records) - len(main))
    return main


def _without_abandoned(records: list[Record], notes: Notes) -> list[Record]:
    """Without the branches that the user went back from: file order, pruned by the tree."""
    path = _path_to_leaf(records)
    if not path:
        return records
    kept_messages = {_message_id(records[i]) for i in path if kind_of(records[i]) == "assistant"}
    calls = {
        str(b.get("id"))
        for r in records
        if kind_of(r) == "assistant" and _message_id(r) in kept_messages
        for b in _blocks(r)
    }
    kept_ids = {str(records[i]["uuid"]) for i in path}
    kept = []
    for index, record in enumerate(records):
        if index in path or _belongs(record, kept_messages, calls, kept_ids):
            kept_ids.add(str(record.get("uuid")))
            kept.append(record)
    dropped = len(records) - len(kept)
    if dropped > _MOST_ABANDONED_RATIO * len(records):
        notes.add("tree of messages that can't be followed: everything is read in file order")
        return records
    notes.add("record of an abandoned branch left out", dropped)
    return kept


def _belongs(record: Record, messages: set[str], calls: set[str], kept_ids: set[str]) -> bool:
    kind = kind_of(record)
    if kind not in ("user", "assistant", "attachment") or not record.get("uuid") or record.get("isCompactSummary"):
        return True
    if kind == "assistant":
        return _message_id(record) in messages
    if any(str(b.get("tool_use_id")) in calls for b in _blocks(record) if b.get("type") == "tool_result"):
        return True
    return kind == "attachment" and str(record.get("parentUuid")) in kept_ids


def _path_to_leaf(records: list[Record]) -> set[int]:
    """Indices from the last message up to the root; a parent that is not there is the record before."""
    index_of = {r["uuid"]: i for i, r in enumerate(records) if isinstance(r.get("uuid"), str)}
    spoken = [
        i for i, r in enumerate(records) if kind_of(r) in ("user", "assistant") and isinstance(r.get("uuid"), str)
    ]
    at = spoken[-1] if spoken else None
    path: set[int] = set()
    lowest = len(records)
    in_tree = sorted(index_of.values())
    while at is not None:
        path.add(at)
        lowest = min(lowest, at)
        record = records[at]
        parent = index_of.get(str(record.get("parentUuid") or record.get("logicalParentUuid")))
        if parent is None or parent in path:  # a root, an orphan, a cycle: do not drop all that came before
            parent = _below(in_tree, lowest)
        at = parent
    return path


def _below(indices: list[int], limit: int) -> int | None:
    place = bisect_left(indices, limit)
    return indices[place - 1] if place else None


def _message_id(record: Record) -> str:
    return str(_message(record).get("id") or record.get("uuid"))


def _blocks(record: Record) -> list[Record]:
    return mappings(_message(record).get("content"))


def _message(record: Record) -> Record:
    return mapping(record.get("message"))
