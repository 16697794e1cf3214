"""What an agent's own compaction kept, beside what our digest keeps of the same turns in no more tokens.

At each window that begins with a summary whose text the file has: three texts are asked the same questions. *Summary*
is the recorded summary alone; *recorded* is all that the new window began with; *digest* is that with the digest in
place of what the agent wrote, at most as long, and the same messages kept. Files count as named when their base name
stands there.

Read with care: the later references are those that the agent used without seeing them again, so it must have had them
from its own window (they favour what was recorded); and the share of files that are read again says nothing without
the share from before. That our digest names every file is no merit of its prose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

from ...formats import encode, format_named
from ...summary import digest
from ...summary.files import file_events
from ...summary.follow import normal
from ...types import Json, SummaryJob
from ...view import View
from ..session import Segment, Session
from ..weights import counting
from .calls import needs_of
from .identifiers import identifiers, keys_of, stands_in
from .texts import MessageText, MessageTexts, view_of
from .words import SHORT_CHARS

Text = Sequence[MessageText]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How much of a window stands in what took its place. Several can be added."""

    tokens: int = 0
    edited: int = 0
    """Files that were changed."""
    edited_named: int = 0
    only_read: int = 0
    only_read_named: int = 0
    short_messages: int = 0
    """What the user typed, messages of at most `words.SHORT_CHARS`."""
    short_messages_quoted: int = 0
    """Word for word, space aside."""
    references: int = 0
    """Names of the window before that the agent used later before it saw them again."""
    references_visible: int = 0

    def __add__(self, other: Kept) -> Kept:
        return Kept(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCompaction:
    """One compaction that the agent made itself."""

    window: int
    """Index of the segment that begins with it."""
    summary: Kept
    recorded: Kept
    digest: Kept
    reads: int
    """Reads of files in the new window."""
    reads_again: int
    """Those of a file that was read in the window before."""
    reads_before: int
    reads_before_again: int
    """The same inside of the window before: how often this agent reads twice anyway."""


def compare_compactions(session: Session) -> tuple[ComparedCompaction, ...]:
    """The compactions of a session whose summary the file has."""
    return tuple(
        _compared(session, window)
        for window, segment in enumerate(session.segments)
        if window and segment.turns and segment.compaction is not None and segment.compaction.summary.strip()
    )


def _compared(session: Session, window: int) -> ComparedCompaction:
    before, after = session.segments[window - 1], session.segments[window]
    texts, count = MessageTexts(session.format), counting(session.model)
    opening = after.messages[: after.turns[0].end]
    old = {encode(m) for m in before.messages}
    kept = [m for m in opening if encode(m) in old]
    written_tokens = sum(count(m) for m in opening if encode(m) not in old)
    ours = _digest(session, before, kept, written_tokens, count)
    summary = after.compaction.summary if after.compaction else ""
    asked = _Questions(texts, before, after)
    as_message = texts.format.reference
    reads_before, reads = _reads(texts, before.messages), _reads(texts, after.messages[len(opening) :])
    known = set(reads_before)
    return ComparedCompaction(
        window=window,
        summary=asked.of([texts(as_message(summary))], count(summary)),
        recorded=asked.of(list(map(texts, opening)), sum(map(count, opening))),
        digest=asked.of(list(map(texts, [as_message(ours), *kept])), count(ours) + sum(map(count, kept))),
        reads=len(reads),
        reads_again=sum(path in known for path in reads),
        reads_before=len(reads_before),
        reads_before_again=len(reads_before) - len(known),
    )


def _digest(
    session: Session, before: Segment, kept: Sequence[Any], max_tokens: int, count: Callable[[Json], int]
) -> str:
    fmt = format_named(session.format)
    view = View(format=fmt, messages=view_of(fmt, before.messages).messages, count=count)
    stay = {encode(m) for m in kept}
    places = [i for i, m in enumerate(before.messages) if encode(m) in stay]
    end = len(before.messages)
    job = SummaryJob(view=view, start=0, end=end, max_tokens=max_tokens, visible_from=end, kept=frozenset(places))
    try:
        next(digest(job))
    except StopIteration as done:
        return str(done.value.text)
    raise AssertionError("the digest asks no model")


class _Questions:
    """What one window held, to be looked for in what stands for it."""

    def __init__(self, texts: MessageTexts, before: Segment, after: Segment) -> None:
        events = file_events(view_of(texts.format, before.messages))
        self._edited = {normal(e.path) for e in events if e.path and e.ok and e.action in ("edit", "write")}
        self._read = {normal(e.path) for e in events if e.path and e.ok and e.action == "read"} - self._edited
        typed = chain.from_iterable(texts(m).typed for m in before.messages)
        self._short = [" ".join(text.split()) for text in typed if len(text) <= SHORT_CHARS]
        self._references = _later_references(texts, before, after)

    def of(self, messages: Text, tokens: int) -> Kept:
        shown = "\n".join(text for m in messages for _, text in m.sayings)
        flat = " ".join(shown.split())
        keys = frozenset(key for name in identifiers(shown) for key in keys_of(name))
        return Kept(
            tokens=tokens,
            edited=len(self._edited),
            edited_named=_named(self._edited, shown),
            only_read=len(self._read),
            only_read_named=_named(self._read, shown),
            short_messages=len(self._short),
            short_messages_quoted=sum(text in flat for text in self._short),
            references=len(self._references),
            references_visible=sum(stands_in(name, keys) for name in self._references),
        )


def _named(paths: Iterable[str], text: str) -> int:
    bases = (path.rstrip("/").rpartition("/")[2] for path in paths)
    return sum(re.search(rf"(?<![\w.-]){re.escape(base)}(?![\w-])", text) is not None for base in bases)


def _later_references(texts: MessageTexts, before: Segment, after: Segment) -> list[str]:
    """Names that results or the user told in the window before, used in the new one before they are told again."""
    told = frozenset().union(*(_told(texts(m)) for m in before.messages))
    found: dict[str, None] = {}
    used: set[str] = set()
    at = after.turns[0].end
    for message in after.messages[at:]:
        names = frozenset().union(*(needs.names for needs in needs_of(texts.format, [message])))
        for name in sorted(names):
            if name not in used and stands_in(name, told):
                found[name] = None
        text = texts(message)
        used |= names
        used.update(key.removeprefix("/") for key in text.keys if not key.startswith("/"))
    return list(found)


def _told(message: MessageText) -> frozenset[str]:
    by_who = message.keys_by_who
    return by_who.get("result", frozenset()) | by_who.get("user", frozenset())


def _reads(texts: MessageTexts, messages: Sequence[Any]) -> list[str]:
    events = file_events(view_of(texts.format, messages))
    return [normal(e.path) for e in events if e.path and e.ok and e.action == "read"]
