"""OpenHands V0: a list of events (or one a line), or the results of an evaluation, whose `history` is such a list.

An action and its observation are joined by the id of the tool call; the model's own response stands in the action
whole. What the model saw is worked out as OpenHands does it (`ConversationMemory`, `View`); events without a tool
call (old files, agents that write their actions as text) become text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...types import Json
from ..session import Notes, RecordedCompaction, Session, Turn
from .chat_log import ChatLog, Round, call_of, calls_of
from .openhands_text import action_text, observation_text
from .sessions import Windows, runs_of, session_of
from .values import Record, first_text, mapping, mappings, seconds, string, usage_of

_NOT_SEEN = ("null", "agent_state_changed")
_NOT_DONE = ("null", "change_agent_state", "recall", "condensation_request")
"""Kinds of observations and actions that are not in the history of the agent."""


def recognise(records: list[Record]) -> bool:
    first = [r for r in records[:20] if _is_event(r) or any(map(_is_event, events_of(r)[:20]))]
    return len(first) * 2 > len(records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session for each instance of an evaluation, or the one that the events are."""
    return read_runs("openhands", records, _is_event, name, notes)


def read_runs(
    reader: str,
    records: list[Record],
    is_event: Callable[[Record], bool],
    name: str,
    notes: Notes,
    known: Callable[[list[Record], Notes], list[Record]] = lambda events, _: events,
) -> list[Session]:
    """One session for each instance of an evaluation, or the one that the events are; `known` makes V0 of them."""
    if any(map(is_event, records)):
        return [_session(reader, {}, known(records, notes), name, notes)]
    found = runs_of(records, events_of, name=name, notes=notes)
    return [_session(reader, record, known(events_of(record), own), named, own) for record, named, own in found]


def _session(reader: str, record: Record, events: list[Record], name: str, notes: Notes) -> Session:
    metrics = mapping(record.get("metrics"))
    history = _History(notes, {string(u.get("response_id")): u for u in mappings(metrics.get("token_usages"))})
    segments = history.read(events)
    about = mapping(record.get("metadata"))
    model = first_text(*(mapping(about.get(key)).get("model") for key in ("llm_config", "llm")))
    head = {"tools": history.tools or None}
    return session_of(reader, "chat", segments, notes, name, record.get("instance_id"), model=model, head=head)


class _History(Windows[ChatLog]):
    """Walks the events once; holds the history as it stands."""

    def __init__(self, notes: Notes, usages: Mapping[str, Record]) -> None:
        super().__init__(ChatLog, notes)
        self._usages = usages
        """What the results tell of each response, by its id."""
        self.tools: list[Json] = []
        self._events: list[Record] = []
        """Those not forgotten: the history that a condensation works on."""
        self._rounds: dict[str, Round] = {}
        self._summary = ""
        self._place: Json = None
        """Where the summary stands among the events that are left; at their end when it is no number."""

    def take(self, event: Record) -> None:
        action = event.get("action")
        if action == "condensation":
            self._condense(_args(event))
        elif isinstance(action, str):
            if action not in _NOT_DONE:
                self._events.append(event)
                self._action(event, live=True)
        elif event.get("observation") not in _NOT_SEEN:
            self._events.append(event)
            self._observation(event)

    def _action(self, event: Record, *, live: bool) -> None:
        args, metadata = _args(event), event.get("tool_call_metadata")
        if event.get("action") == "system":
            self.tools = self.tools or mappings(args.get("tools"))
            self.window.say("system", args.get("content"))
        elif event.get("source") != "agent":
            self.window.say("user", action_text(event))
        elif isinstance(metadata, dict):
            self._response(event, metadata, live=live)
        else:
            self.window.answer(action_text(event), turn=self._turn(event, {}) if live else None)

    def _response(self, event: Record, metadata: Record, *, live: bool) -> None:
        """One response can have several actions; each of them has it whole."""
        response = mapping(metadata.get("model_response"))
        message = mapping(next(iter(mappings(response.get("choices"))), {}).get("message"))
        turn = self._turn(event, response) if live else None
        if event.get("action") == "finish":  # kept as words, not as a call (its result is never recorded)
            self.window.answer(action_text(event), turn=turn)
            return
        response_id = str(response.get("id") or metadata.get("tool_call_id"))
        calls = calls_of(message.get("tool_calls"))
        calls = calls or [call_of(metadata.get("tool_call_id"), metadata.get("function_name"), _args(event))]
        entry = self._rounds.get(response_id)
        if entry is None:
            reasoning = message.get("reasoning_content")
            self._rounds[response_id] = self.window.answer(
                message.get("content"), calls, turn=turn, reasoning=reasoning
            )
        else:
            known = {c.id for c in entry.calls}
            self.window.more_calls(entry, (c for c in calls if c.id not in known))

    def _turn(self, event: Record, response: Record) -> Turn:
        told = self._usages.get(string(response.get("id")), {})
        read, written = told.get("cache_read_tokens"), told.get("cache_write_tokens")
        known = usage_of(told.get("prompt_tokens"), told.get("completion_tokens"), cached=read, written=written)
        usage = mapping(response.get("usage")) or known
        model = first_text(response.get("model"), told.get("model"))
        return Turn(0, usage, seconds(event.get("timestamp")), model)

    def _observation(self, event: Record) -> None:
        metadata, text = event.get("tool_call_metadata"), observation_text(event)
        if isinstance(metadata, dict):
            self.window.result(metadata.get("tool_call_id"), text, metadata.get("function_name"))
        else:
            self.window.say("user", text)

    def _condense(self, args: Record) -> None:
        """Forgets events, and begins a new window: what is left, the summary at its place."""
        forgotten, before = _forgotten(args), len(self._events)
        self._events = [e for e in self._events if not _known(e) or e["id"] not in forgotten]
        if isinstance(args.get("summary"), str):
            self._summary, self._place = args["summary"], args.get("summary_offset")
        self.begin(RecordedCompaction("compaction", self._summary))
        self.notes.add("event forgotten by the agent's condenser", before - len(self._events))
        self._rounds = {}
        for event in self._view():
            if isinstance(event.get("action"), str):
                self._action(event, live=False)
            else:
                self._observation(event)

    def _view(self) -> list[Record]:
        """The history with the last summary at its place."""
        if not self._summary:
            return self._events
        known = isinstance(self._place, int) and self._place >= 0
        at = self._place if known else len(self._events)
        return [*self._events[:at], {"observation": "condense", "content": self._summary}, *self._events[at:]]


def _forgotten(args: Record) -> frozenset[Json] | range:
    ids, start, end = (
        args.get(k) for k in ("forgotten_event_ids", "forgotten_events_start_id", "forgotten_events_end_id")
    )
    if isinstance(ids, list):
        return frozenset(i for i in ids if isinstance(i, (int, str)))
    return range(start, end + 1) if isinstance(start, int) and isinstance(end, int) else frozenset()


def _known(event: Record) -> bool:
    return isinstance(event.get("id"), (int, str))


def _args(event: Record) -> Record:
    return mapping(event.get("args"))


def events_of(record: Record) -> list[Record]:
    """The events of a result; very old ones have pairs of action and observation."""
    history = record.get("history")
    events: list[Record] = []
    for entry in history if isinstance(history, list) else []:
        events += mappings(entry if isinstance(entry, list) else [entry])
    return events


def _is_event(record: Record) -> bool:
    named = any(isinstance(record.get(k), str) for k in ("action", "observation"))
    return named and bool({"args", "extras", "content"} & record.keys()) and "role" not in record
