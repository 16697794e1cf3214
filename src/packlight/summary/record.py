"""The old turns as a text for a summarising model: who spoke, what was called, what came back.

Plain text only: no tool blocks, no signed thinking, nothing that another API could refuse. Long texts are cut, secrets
masked. Entries begin with a line that holds a code which nobody in the record could know, so that no text in it can
pretend to be another speaker's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..types import Json, Message, Part, SummaryJob
from ..view import View
from .secrets import mask
from .wording import clean, is_failure, preview
from .words import cut, said

SIZES = (2_400, 800, 250)
"""Characters that a tool's result may take, tried in this order until the record fits a few requests."""
_USUAL_REQUESTS = 4
_USER_RATIO = 4
"""What the user typed may be so much longer than a result, what the assistant said half of that."""
_ERROR_LINES = 4
_NOTES = {"instructions": "instructions that were loaded", "note": "note of the client", "digest": "earlier digest"}


@dataclass(frozen=True, slots=True)
class Entry:
    message: int
    who: str
    text: str


@dataclass(frozen=True)
class Record:
    """A stretch of the old turns, up to source message `end`."""

    entries: tuple[Entry, ...]
    end: int

    @cached_property
    def code(self) -> str:
        """Made of everything in the record: no text in it can hold it."""
        material = "\0".join(f"{e.who}\0{e.text}" for e in self.entries)
        return hashlib.sha256(material.encode("utf-8", "replace")).hexdigest()[:12]

    @cached_property
    def text(self) -> str:
        return "\n".join(f"[{self.code} {e.who}]\n{e.text}" for e in self.entries)

    def said_by(self, *who: str) -> str:
        """All that those said whose label begins so."""
        return "\n".join(e.text for e in self.entries if e.who.startswith(who))


def next_record(job: SummaryJob, start: int, room_tokens: int) -> Record:
    """What of the job fits a request from source message `start` on: at least one message, cut to the room.

    Before it stands what the user asked first, behind its end what the user asked last: neither goes away.
    """
    view = job.view
    room_chars = room_tokens * _chars_per_token(view, start, job.end)
    size = next((s for s in SIZES if _weight(job, start, s) <= room_chars * _USUAL_REQUESTS), SIZES[-1])
    around = _around(job, min(size * _USER_RATIO, int(room_chars / 6)))
    entries: list[Entry] = []
    left = room_chars - sum(len(e.text) for e in around)
    end = start
    for i in range(start, job.end):
        own = list(_entries(view, i, size))
        length = sum(len(e.text) + len(e.who) + 20 for e in own)
        if length > left and entries:
            break
        if length > left:
            most = max(40, int(left / len(own)) - 60)
            own = [Entry(e.message, e.who, cut(e.text, most)) for e in own][: max(1, int(left / 100))]
            length = int(left)
        entries += own
        left -= length
        end = i + 1
    before = [e for e in around if e.message < start]
    behind = [e for e in around if e.message >= job.end] if end == job.end else []
    return Record((*before, *entries, *behind), end)


def _around(job: SummaryJob, limit_chars: int) -> list[Entry]:
    """The first and the last request of the user, where they stand outside the job."""
    view = job.view
    outside = [*range(job.start), *range(max(job.visible_from, job.end), len(view.messages))]
    typed = [(s.message, s.text) for i in outside for s in said(view, i, i + 1) if s.kind == "typed"]
    chosen = dict([t for t in typed if t[0] < job.start][:1] + [t for t in typed if t[0] >= job.end][-1:])
    return [Entry(i, "user, stays word for word", cut(mask(clean(t)), limit_chars)) for i, t in chosen.items()]


def _chars_per_token(view: View, start: int, end: int) -> float:
    sample = "\n".join((p.text or p.arguments_text)[:400] for m in view.messages[start:end][-200:] for p in m.parts)
    tokens = view.count(sample[-12_000:]) * view.ratio
    return min(4.0, len(sample[-12_000:]) / tokens) if len(sample) > 200 and tokens else 3.0


def _weight(job: SummaryJob, start: int, size: int) -> int:
    """Characters of the record with results of that size, about."""
    parts = (p for m in job.view.messages[start : job.end] for p in m.parts)
    return sum(min(len(p.text) + len(p.arguments_text), size if p.kind == "result" else size * 2) + 40 for p in parts)


def _entries(view: View, i: int, size: int) -> Iterator[Entry]:
    message = view.messages[i]
    if message.role in ("user", "system"):
        for s in said(view, i, i + 1):
            who = _NOTES.get(s.kind, "user")
            yield Entry(i, who, cut(mask(clean(s.text)), size * (_USER_RATIO if s.kind == "typed" else 1)))
    for k, part in enumerate(message.parts):
        yield from _entry(view, message, (i, k), part, size)


def _entry(view: View, message: Message, place: tuple[int, int], part: Part, size: int) -> Iterator[Entry]:
    i, k = place
    if part.kind == "call":
        yield Entry(i, f"calls {_name(part.tool)}", _arguments(part, size // 2))
    elif part.kind == "result":
        call = view.call_of(i, k)
        who = f"result of {_name(call.tool) if call else 'a tool'}{', failed' if is_failure(part) else ''}"
        shown = "".join(f"[{m.kind}]" for m in part.media)
        head = size * 3 // 5
        text = preview(mask(part.text), head_chars=head, tail_chars=size - head, error_lines=_ERROR_LINES)
        yield Entry(i, who, text + shown or "(nothing)")
    elif part.kind == "media":
        yield Entry(i, message.role, "".join(f"[{m.kind}]" for m in part.media) or "[media]")
    elif message.role == "assistant" and part.text.strip():
        spoken = any(p.kind == "text" and p.text.strip() for p in message.parts)
        if part.kind == "text" or (part.kind == "thinking" and not spoken):
            yield Entry(i, "assistant", cut(mask(clean(part.text)), size * _USER_RATIO // 2))


def _name(tool: str) -> str:
    """A tool's name as one plain word: some servers let anybody choose it."""
    return "".join(c if c.isalnum() or c in "_-./:" else "_" for c in tool[:80]) or "a tool"


def _arguments(part: Part, limit_chars: int) -> str:
    if part.arguments is None:
        return cut(clean(mask(part.arguments_text)), limit_chars * 2)
    return cut(clean(json.dumps(_shortened(part.arguments, limit_chars), ensure_ascii=False)), limit_chars * 4)


def _shortened(value: Json, limit_chars: int, depth: int = 0) -> Json:
    if isinstance(value, str):
        return cut(mask(value), limit_chars)
    if depth > 4:
        return "..."
    if isinstance(value, Mapping):
        return {k: _shortened(v, limit_chars, depth + 1) for k, v in list(value.items())[:40]}
    if isinstance(value, list):
        return [_shortened(v, limit_chars, depth + 1) for v in value[:40]]
    return value
