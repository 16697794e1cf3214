"""Codex CLI rollouts (`~/.codex/sessions/**/rollout-*.jsonl`): the items of the Responses API, and events.

Only `response_item` records (bare items in old files) are history; `event_msg` repeats them for the screen, but has
the usage.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from ...types import Json
from ..session import Notes, RecordedCompaction, Segment, Session, Turn
from .lines import kind_of
from .sessions import Windows, session_of
from .values import Record, first_text, mappings, seconds, string

_BY_MODEL = frozenset({
    "reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call",
    "image_generation_call",
})  # fmt: skip
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
_OUTPUTS = frozenset(
    {"function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output"}
)
_COMPACTIONS = frozenset({"compaction", "compaction_summary", "context_compaction"})
_ITEMS = _BY_MODEL | _OUTPUTS | _COMPACTIONS | {"message", "agent_message"}
_NOT_SENT = frozenset({"ghost_snapshot"})
_CLIENT_KEYS = frozenset({"internal_chat_message_metadata_passthrough", "metadata"})
_BOOKKEEPING = frozenset(
    {"event_msg", "session_meta", "turn_context", "world_state", "inter_agent_communication_metadata"}
)


def recognise(records: list[Record]) -> bool:
    first = next(iter(records), {})
    if "record_type" in first or ("instructions" in first and {"id", "timestamp"} <= first.keys()):
        return True
    kinds = {kind_of(r) for r in records[:50] if isinstance(r.get("payload"), dict)}
    return bool(kinds & {"session_meta", "response_item", "turn_context", "event_msg", "compacted"})


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    reader = _Reader(notes, _usage_place(records))
    segments, head = reader.read(records), {"instructions": reader.instructions}
    names = name, reader.session_id
    return [session_of("codex", "responses", segments, notes, *names, model=reader.model, head=head)]


class _Window:
    """Items, and the calls that were made with them."""

    def __init__(self, notes: Notes) -> None:
        self.items: list[Record] = []
        self.turns: list[Turn] = []
        self._notes = notes

    def segment(self) -> Segment | None:
        return _paired(self.items, self.turns, self._notes) if any(t.end for t in self.turns) else None


class _Reader(Windows[_Window]):
    """Walks the records once."""

    def __init__(self, notes: Notes, usage_place: str) -> None:
        super().__init__(_Window, notes)
        self.session_id: str | None = None
        self.instructions: str | None = None
        self.model: str | None = None
        self._usage_place = usage_place
        self._open: Turn | None = None
        """The response whose items are being read."""
        self._behind = False
        """Something that the model did not write has come since."""
        self._usage: Mapping[str, Json] | None = None
        self._total: Json = None

    def take(self, record: Record) -> None:
        kind, payload = kind_of(record), record.get("payload")
        if not isinstance(payload, dict):
            kind, payload = ("response_item", record) if kind in _ITEMS or kind in _NOT_SENT else (kind, record)
        if kind == "response_item":
            self._item(payload, record.get("timestamp"))
        elif kind == "event_msg":
            self._event(payload)
        elif kind == "compacted":
            self._compacted(payload)
        elif kind == "turn_context":
            self.model = first_text(payload.get("model")) or self.model
        elif kind == "session_meta" or (not kind and "instructions" in payload):
            self._meta(payload)
        elif kind not in _BOOKKEEPING and "record_type" not in record:
            self.notes.add(f"record of unknown type {kind!r} skipped")

    def _meta(self, payload: Record) -> None:
        if self.session_id is not None:
            return  # a resumed or forked session repeats it: the first one counts
        self.session_id, forked = str(payload.get("id")), payload.get("forked_from_id")
        self.notes.add("session that goes on from another: what was copied from there counts too", bool(forked))
        base = payload.get("base_instructions")
        self.instructions = first_text(base.get("text") if isinstance(base, dict) else payload.get("instructions"))

    def _item(self, payload: Record, timestamp: Json) -> None:
        if kind_of(payload) in _NOT_SENT:
            return
        item = {k: v for k, v in payload.items() if k not in _CLIENT_KEYS}
        if _is_hollow(item):
            self.notes.add("reasoning without its content left out")
        elif _is_empty(item):
            return
        if not _is_model(item):
            self._behind = True
            if kind_of(item) not in _OUTPUTS:
                self._open = None
        elif self._open is None or (self._behind and self._usage_came()):
            self._begin(timestamp)
        if not _is_hollow(item):
            self.window.items.append(item)

    def _begin(self, timestamp: Json) -> None:
        self._open = Turn(len(self.window.items), None, seconds(timestamp), self.model)
        self._behind = False
        if self._usage_place == "before":
            self._open.usage, self._usage = self._usage, None
        if self.window.items:
            self.window.turns.append(self._open)

    def _usage_came(self) -> bool:
        """True when the open response has ended: its usage, or the next one's, has been written."""
        if not self._usage_place:
            return True
        if self._usage_place == "before":
            return self._usage is not None
        return self._open is not None and self._open.usage is not None

    def _event(self, payload: Record) -> None:
        kind, info = kind_of(payload), payload.get("info")
        if kind == "thread_rolled_back":
            self._roll_back(payload.get("num_turns"))
        if kind != "token_count" or not isinstance(info, dict):
            return
        total = info.get("total_token_usage")
        if total is not None and total == self._total:
            return  # written again, or an estimate after a compaction
        self._total = total
        usage = info.get("last_token_usage")
        if not isinstance(usage, dict):
            return
        if self._usage_place == "before":
            self._usage = usage
        elif self._open is not None and self._open.usage is None:
            self._open.usage = usage
        elif self.window.turns and self.window.turns[-1].usage is None:
            self.window.turns[-1].usage = usage

    def _roll_back(self, turns: Json) -> None:
        typed = [i for i, item in enumerate(self.window.items) if item.get("role") == "user"]
        if not isinstance(turns, int) or not 0 < turns <= len(typed):
            return
        self.notes.add("turn rolled back by the user", turns)
        kept = self.window.items[: typed[-turns]]
        self.begin(RecordedCompaction("rewind", preserved_messages=len(kept)))
        self.window.items, self._open = kept, None

    def _compacted(self, payload: Record) -> None:
        history, summary = payload.get("replacement_history"), string(payload.get("message"))
        before, self._open = self.window.items, None
        self.begin(RecordedCompaction("compaction", summary))
        if isinstance(history, list):
            for item in mappings(history):
                self._item(item, None)
            self.window.turns, self._open = [], None
        else:
            typed = [i for i in before if i.get("role") == "user"]
            self.window.items = [*typed, *([_user(summary)] if summary else [])]
        kept = sum(item in before for item in self.window.items)
        self.begun_by = RecordedCompaction("compaction", summary, kept)
        if not (summary or any(kind_of(i) in _COMPACTIONS for i in self.window.items)):
            self.notes.add("compaction whose summary is not in the file")


def _paired(items: list[Record], turns: list[Turn], notes: Notes) -> Segment:
    """The window without what the API refuses: outputs without a call, calls that never got an output."""
    dropped, late = _unpaired(items, [t.end for t in turns], notes)
    items = _rebuilt(items, turns, dropped, late)
    lone = _lone_reasoning(items, {t.end for t in turns})
    notes.add("reasoning of a response that was broken off left out", len(lone))
    items = _rebuilt(items, turns, lone, {})
    return Segment(items, [t for t in turns if t.end])


def _rebuilt(items: list[Record], turns: list[Turn], dropped: set[int], late: dict[int, list[int]]) -> list[Record]:
    """The items without the dropped ones, the late ones moved; the ends of the turns follow."""
    moved = {index for indices in late.values() for index in indices}
    kept: list[Record] = []
    new_place = []
    for index, item in enumerate(items):
        kept += [items[i] for i in late.get(index, ())]
        new_place.append(len(kept))
        if index not in dropped and index not in moved:
            kept.append(item)
    for turn in turns:
        turn.end = new_place[turn.end] if turn.end < len(new_place) else len(kept)
    return kept


def _lone_reasoning(items: list[Record], ends: set[int]) -> set[int]:
    """Reasoning belongs to the item behind it: here are those where that was left out, or never written."""
    lone: set[int] = set()
    for index in range(len(items) - 2, -1, -1):
        if kind_of(items[index]) == "reasoning":
            follower = index + 1
            if follower in ends or follower in lone or not _is_model(items[follower]):
                lone.add(index)
    return lone


def _unpaired(items: list[Record], ends: list[int], notes: Notes) -> tuple[set[int], dict[int, list[int]]]:
    """What has to be left out; and the outputs that came late, by the request that must hold them already."""
    open_calls: dict[str, int] = {}
    unanswered: set[int] = set()
    orphans: set[int] = set()
    late: dict[int, list[int]] = {}
    for index, item in enumerate(items):
        call_id = item.get("call_id")
        if kind_of(item) in _CALLS and isinstance(call_id, str):
            if call_id in open_calls:
                unanswered.add(open_calls[call_id])
            open_calls[call_id] = index
        elif kind_of(item) in _OUTPUTS:
            call = open_calls.pop(call_id, None) if isinstance(call_id, str) else None
            place = bisect_right(ends, call) if call is not None else 0
            if call is None:
                orphans.add(index)
            elif place < len(ends) and ends[place] <= index:
                late.setdefault(ends[place], []).append(index)
    unanswered |= {i for i in open_calls.values() if i < max(ends)}
    notes.add("output whose call is not in the window left out", len(orphans))
    notes.add("call without an output left out", len(unanswered))
    return unanswered | orphans, late


def _usage_place(records: list[Record]) -> str:
    """Where the usage of a response stands: 0.40 writes it before its items, later versions after them."""
    model_first = False
    for record in records:
        payload = record.get("payload")
        if not isinstance(payload, dict):
            continue
        if kind_of(payload) == "token_count" and payload.get("info"):
            return "after" if model_first else "before"
        model_first = model_first or (kind_of(record) == "response_item" and _is_model(payload))
    return ""


def _is_model(item: Record) -> bool:
    if kind_of(item) == "message":
        return item.get("role") == "assistant"
    return kind_of(item) in _BY_MODEL


def _is_hollow(item: Record) -> bool:
    """Reasoning whose content was taken out of the file: neither readable nor something the API could resolve."""
    return kind_of(item) == "reasoning" and not any(item.get(k) for k in ("encrypted_content", "summary", "content"))


def _is_empty(item: Record) -> bool:
    return kind_of(item) == "message" and not item.get("content")


def _user(text: str) -> Record:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
