"""What a digest tells of, read off the source once for all digests of one request.

Nothing here depends on the edits in effect or on the room there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ..types import SummaryJob
from .copies import Block, ranked_blocks
from .earlier import read_earlier
from .files import file_events
from .follow import file_models, normal
from .fragments import FileModel
from .frame import neutral
from .log import marks_of
from .names import Known, Mentions, Source, Touch, mentions, strings
from .rules import rule
from .state import last_plan, open_errors
from .stretches import stretches
from .wording import clean, one_line
from .words import loaded_instructions, said


def facts_of(job: SummaryJob) -> Facts:
    """The facts of the stretch that a job is about."""
    span = (job.start, job.end, job.visible_from, job.kept)
    known: dict[Any, Facts] = job.view.memo.setdefault("facts", {})
    if span not in known:
        known[span] = Facts(job)
    return known[span]


class Facts:
    """The facts of a stretch of the source, each worked out when it is first asked for."""

    def __init__(self, job: SummaryJob) -> None:
        self.job, self.view = job, job.view
        self.events = file_events(self.view, job.start, job.end)
        self.said = [s for s in said(self.view, job.start, job.end) if s.message not in job.kept]
        self.earlier = read_earlier([s.text for s in self.said if s.kind == "digest"])

    @cached_property
    def chars_per_token(self) -> float:
        """Measured on the conversation itself: Chinese and base64 take more tokens than English."""
        texts = [
            p.text or p.arguments_text
            for m in self.view.messages[self.job.start : self.job.end][-200:]
            for p in m.parts
        ]
        sample = "\n".join(t[:400] for t in texts if t)[-12_000:]
        tokens = int(self.view.count(sample) * self.view.ratio + 0.999)
        return len(sample) / max(1, tokens) if len(sample) > 200 else 3.0

    @cached_property
    def typed(self) -> list[str]:
        own = [s.text for s in self.said if s.kind == "typed"]
        return [neutral(clean(t)) for t in [*self.earlier.words, *own]]

    @cached_property
    def instructions(self) -> list[str]:
        loaded = dict(loaded_instructions(self.view, self.job.start, self.job.end))
        texts = dict.fromkeys([*self.earlier.instructions, *(s.text for s in self.said if s.kind == "instructions")])
        found = [neutral(clean(t)) for t in texts]
        return found + [f"(loaded by a tool) {name}\n{neutral(clean(s.text))}" for name, s in loaded.items()]

    @cached_property
    def plan(self) -> list[str]:
        lines = last_plan(self.view, self.job.start, self.job.end) or self.earlier.plan
        return [neutral(clean(line)) for line in lines]

    @cached_property
    def errors(self) -> list[str]:
        return [neutral(f) for f in open_errors(self.view, self.events, 5, 6)]

    @cached_property
    def touched_files(self) -> dict[str, str]:
        """What was done to each file, last touched first."""
        counts: dict[str, dict[str, int]] = {}
        shown: dict[str, str] = {}
        for path, what in reversed(self.earlier.files.items()):
            shown[normal(path)] = path
            counts[normal(path)] = {what: 1}
        for event in self.events:
            if event.action == "run":
                for path in _IN_COMMAND.findall(event.command[:2_000])[:8]:
                    counts.setdefault(normal(path), {"in a command": 1})
                    shown.setdefault(normal(path), path)
            elif event.path and event.action != "search":
                key = normal(event.path)
                answered = event.result_message >= 0
                verb = _PAST[event.action] if event.ok else f"{event.action} {'failed' if answered else 'unanswered'}"
                entry = counts.pop(key, {})
                entry[verb] = entry.pop(verb, 0) + 1
                counts[key] = entry
                if key not in shown:
                    shown[key] = one_line(event.path, 400, keep_end=True)
        _merge_relative(counts)
        return {
            neutral(shown[key]): ", ".join(f"{v} {n}x" if n > 1 else v for v, n in reversed(entry.items()))
            for key, entry in reversed(counts.items())
        }

    @cached_property
    def marks(self) -> dict[int, str]:
        """The references of the stretches, by the messages in which these end."""
        job, enlist = self.job, self.view.enlist
        found = stretches(self.view, job.start, job.end, job.kept) if enlist else []
        return marks_of((s.last, enlist(s.text)) for s in found) if enlist else {}

    @cached_property
    def models(self) -> list[FileModel]:
        return file_models(self.view, self.events, self.job.start, self.job.end)

    @cached_property
    def blocks(self) -> list[Block]:
        lines = {line for text in self.visible_texts for line in text.split("\n") if len(line) > 8}
        shown = {_NUMBERED.sub("", line, count=1) if line[0].isspace() or line[0].isdigit() else line for line in lines}
        return ranked_blocks(self.models, shown, self.view.turns)

    @cached_property
    def mentions(self) -> Mentions:
        """Where names stand in the texts."""
        known: Known = self.view.memory.pop("names", None) or Known()  # taken out: two threads may write a digest
        found = mentions(self._sources(), self._touches(), self.view.turns[self.job.end], known)
        self.view.memory["names"] = known
        return found

    @cached_property
    def visible_texts(self) -> list[str]:
        """What stands verbatim around the digest, newest first."""
        messages = [
            *self.view.messages[: self.job.start],
            *self.view.messages[max(self.job.visible_from, self.job.end) :],
        ]
        return [
            t
            for m in reversed(messages)
            for p in m.parts
            for t in (p.text, *strings(p.arguments), p.arguments_text)
            if t
        ]

    def _touches(self) -> dict[str, Touch]:
        found: dict[str, Touch] = {}
        for event in self.events:
            if event.path:
                old = found.get(event.path, Touch(-1, -1))
                changed = event.action in ("edit", "write") and event.ok
                turn = self.view.turns[event.message]
                found[event.path] = Touch(turn, turn if changed else old.edit)
        return found

    def _sources(self) -> Iterator[Source]:
        """The texts of the old turns, newest first."""
        callers = {(e.message, e.place): e.path for e in self.events if e.path}
        readers = {(e.message, e.place): e.path for e in self.events if e.path and e.action == "read"}
        question = self.view.pairs.question
        for i in range(self.job.end - 1, self.job.start - 1, -1):
            message, turn = self.view.messages[i], self.view.turns[i]
            for k in range(len(message.parts) - 1, -1, -1):
                part = message.parts[k]
                if part.kind == "call":
                    path = callers.get((i, k), "")
                    texts = strings(part.arguments) if part.arguments else [part.arguments_text]
                    yield from (Source(t, turn, path) for t in reversed(texts) if t)
                elif part.text:
                    path = readers.get(question.get((i, k), (-1, -1)), "")
                    yield Source(part.text, turn, path, message.role == "user" and part.kind == "text")


def _merge_relative(counts: dict[str, dict[str, int]]) -> None:
    """A relative path is the same file as the one absolute path that ends in it."""
    ends: dict[str, list[str]] = {}
    for key in counts:
        ends.setdefault(key.rpartition("/")[2], []).append(key)
    for key in [k for k in counts if not k.startswith(("/", "~")) and k[1:3] != ":/"]:
        same = [k for k in ends[key.rpartition("/")[2]] if k != key and k.endswith("/" + key) and k in counts]
        if len(same) == 1:
            for verb, n in counts.pop(key).items():
                counts[same[0]][verb] = counts[same[0]].get(verb, 0) + n


_NUMBERED = rule(r"^\s{0,8}\d{1,6}(?:\t|→|:)")
"""The number that a reading tool sets before a line."""
_IN_COMMAND = rule(r"(?<![\w./:@-])(?:[\w.@-]{0,80}/){1,12}[\w.@-]{1,80}\.[A-Za-z]\w{0,7}\b")
"""A path of a file inside a shell command."""
_PAST = {"read": "read", "write": "written", "edit": "edited", "delete": "deleted"}
