"""ATIF trajectories (Harbor's `trajectory.json`, 1.0 to 1.8, and what comes after them): steps in which a call and its
result stand together.

Converters of other agents' logs write one response as several steps. They are one model call when they have the same
metrics, when nothing stands between them that the model could have answered, or when only the last one has metrics.
"""

from __future__ import annotations

from typing import Any

from ...types import Json
from ..session import Notes, RecordedCompaction, Session, Turn
from .chat_log import Call, ChatLog, Round, as_parts, call_of, clean_content, joined
from .sessions import Windows, runs_of, session_of
from .values import Record, as_text, count, first_text, mapping, mappings, seconds, string, usage_of

_HANDOFF = "Performed context summarization and handoff"
"""How terminus-2 begins the step of a compaction; only newer versions mark it in `extra.context_management`."""


def recognise(records: list[Record]) -> bool:
    return any(_is_trajectory(r) for r in records[:20])


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """One session for each trajectory, and one for each trajectory of a sub-agent inside it."""
    found = runs_of(records, _is_trajectory, name=name, notes=notes)
    return [session for record, named, own in found for session in _with_sub_agents(record, named, own)]


def _with_sub_agents(record: Record, name: str, notes: Notes) -> list[Session]:
    sessions, waiting = [], [(record, name or first_text(record.get("session_id")) or "session", notes)]
    while waiting:
        trajectory, named, own = waiting.pop(0)
        sessions.append(_session(trajectory, named, own))
        for i, sub in enumerate(mappings(trajectory.get("subagent_trajectories"))):
            sub_id = first_text(sub.get("trajectory_id"), sub.get("session_id")) or f"sub-agent-{i}"
            waiting.append((sub, f"{named}#{sub_id}", Notes()))
    return sessions


def _session(record: Record, name: str, notes: Notes) -> Session:
    agent = mapping(record.get("agent"))
    model = first_text(agent.get("model_name"))
    steps = mappings(record.get("steps"))
    reader = _Reader(notes, model, metrics_end_a_response=_has_metrics_at_ends(steps))
    reader.adds_its_record = agent.get("name") == "claude-code"
    segments = reader.read(steps)
    notes.add("further part of the session in another file", bool(record.get("continued_trajectory_ref")))
    if record.get("final_metrics") and not any(t.usage for s in segments for t in s.turns):
        notes.add("usage that stands in the file as a total only")
    head = {"tools": mappings(agent.get("tool_definitions")) or None}
    return session_of("atif", "chat", segments, notes, name, model=model, head=head)


class _Reader(Windows[ChatLog]):
    """Walks the steps once."""

    def __init__(self, notes: Notes, model: str | None, *, metrics_end_a_response: bool) -> None:
        super().__init__(ChatLog, notes)
        self._model = model
        self._metrics_end_a_response = metrics_end_a_response
        self.adds_its_record = False
        self._last: tuple[Round, Json] | None = None
        """The response being read, and its metrics; None when the next step begins a new one."""

    def take(self, step: Record) -> None:
        source = step.get("source")
        if mapping(step.get("extra")).get("is_sidechain"):
            self.notes.add("step of a sub-agent left out")
        elif source == "agent":
            self._agent(step)
        elif _is_handoff(step):
            self.begin(RecordedCompaction("compaction"))  # the next step has what the new window begins with
            self._last = None
        else:
            self._last = None
            self.window.say("system" if source == "system" else "user", _content(step.get("message"), self.notes))

    def _agent(self, step: Record) -> None:
        calls = [
            call_of(c.get("tool_call_id"), c.get("function_name"), c.get("arguments"))
            for c in mappings(step.get("tool_calls"))
        ]
        results = mappings(mapping(step.get("observation")).get("results"))
        content = _content(step.get("message"), self.notes)
        if calls and results and not _joins(calls, results):  # a protocol of text, whose commands the writer took out
            content = [*as_parts(content), {"type": "text", "text": as_text([c.data["function"] for c in calls])}]
            calls = []
        self._response(step, content, calls)
        for place, result in enumerate(results):
            self._result(result, calls, place)

    def _response(self, step: Record, content: str | list[Json], calls: list[Call]) -> None:
        metrics = step.get("metrics")
        usage, reasoning = _usage(metrics), step.get("reasoning_content")
        content = "" if calls and _is_made_up(content) else content
        made = step.get("llm_call_count")
        is_whole = made == 0 or count(made) > 1  # converters give 1 to each piece of a response
        entry = None if is_whole else self._same_response(metrics)
        if entry:
            self.window.more_calls(entry, calls)
            entry.answer["content"] = clean_content(joined(entry.answer["content"], content))
        else:
            turn = Turn(0, None, seconds(step.get("timestamp")), first_text(step.get("model_name"), self._model))
            entry = self.window.answer(content, calls, turn=turn, reasoning=reasoning)
            if step.get("is_copied_context") or made == 0:  # nothing was asked for it here
                entry.turn = None
        if count(made) > 1:
            self.notes.add("usage of several calls in one step left out")
        elif entry.turn and usage:
            entry.turn.usage = usage
        self._last = None if is_whole or step.get("is_copied_context") else (entry, metrics)

    def _same_response(self, metrics: Json) -> Round | None:
        """The response that a step goes on with; None when it is a new one."""
        if self._last is None:
            return None
        entry, before = self._last
        if self._metrics_end_a_response:
            goes_on = not before
        else:
            goes_on = self.window.model_spoke_last or (bool(before) and metrics == before)
        return entry if goes_on else None

    def _result(self, result: Record, calls: list[Call], place: int) -> None:
        content = _content(result.get("content"), self.notes)
        if self.adds_its_record and isinstance(content, str):
            content = _as_sent(content)
        if not calls:
            self.window.say("user", content)
            return
        call_id = result.get("source_call_id")
        self.window.result(calls[place].id if call_id is None and place < len(calls) else call_id, content)


def _is_trajectory(record: Record) -> bool:
    return string(record.get("schema_version")).startswith("ATIF") and isinstance(record.get("steps"), list)


def _is_handoff(step: Record) -> bool:
    managed = mapping(mapping(step.get("extra")).get("context_management"))
    if managed:
        return managed.get("boundary") == "replace"
    return step.get("source") == "system" and string(step.get("message")).startswith(_HANDOFF)


def _has_metrics_at_ends(steps: list[Record]) -> bool:
    """True when steps with and without metrics alternate, as where a converter gives a response's to its last step."""
    by_agent = [bool(s.get("metrics")) for s in steps if s.get("source") == "agent"]
    return 0.1 * len(by_agent) < sum(by_agent) < len(by_agent)


def _joins(calls: list[Call], results: list[Record]) -> bool:
    """True when it can be told which call each result answers."""
    return len(calls) == len(results) or all(isinstance(r.get("source_call_id"), str) for r in results)


def _is_made_up(content: str | list[Json]) -> bool:
    """Whether a converter wrote this in the place of a message: "Executed Bash toolu_..."."""
    return isinstance(content, str) and content.startswith("Executed ") and "\n" not in content


def _usage(metrics: Json) -> Any:
    told = mapping(metrics)
    return usage_of(
        told.get("prompt_tokens"),
        told.get("completion_tokens"),
        cached=told.get("cached_tokens"),
        written=mapping(told.get("extra")).get("cache_creation_input_tokens"),
    )


def _as_sent(text: str) -> str:
    """Without what Harbor writes behind a result of Claude Code: the agent's own record of it, which no model saw.

    Seen in trajectories of ATIF 1.4: the output once more, then everything as JSON.
    """
    before, mark, record = text.rpartition("\n\n[metadata] {")
    text = before if mark and record.rstrip().endswith("}") else text
    for mark in ("\n\n[stderr]\n", "\n\n[stdout]\n"):
        before, _, again = text.rpartition(mark)
        text = before if again.strip() and again.strip() in before else text
    return text


def _content(message: Json, notes: Notes) -> str | list[Json]:
    """A message as text, or its parts; an image or a sound is a file of its own, here named only."""
    if not isinstance(message, list):
        return message if isinstance(message, str) else "" if message is None else as_text(message)
    parts: list[Json] = []
    for part in mappings(message):
        if part.get("type") == "text":
            parts.append({"type": "text", "text": str(part.get("text") or "")})
        else:
            notes.add("image or sound that is not in the file: named only")
            parts.append({"type": "text", "text": f"[{part.get('type')}: {mapping(part.get('source')).get('path')}]"})
    return parts
