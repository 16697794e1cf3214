"""A model's prose beside the digest's facts, in one text: what the prose forgets is still there.

The prose is a section of the digest, its first, and takes its room from what the digest says in passing (the log,
names, copies, decisions), never from what must survive: the user's words, instructions, open plan, open errors, files.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from ..types import Summary, SummaryJob, SummaryReply, SummaryRequest
from ..view import View
from .digest import Digest, write
from .earlier import sections
from .frame import BEGIN, TITLES, neutral
from .rules import rule
from .secrets import mask
from .wording import encodable

PROSE_RATIO = 0.35
"""Of the room of a summary, at most."""
MAX_PROSE_TOKENS = 4_000
MIN_PROSE_TOKENS = 150
"""Below that a model can't say what five headings ask for."""
_MUST_SURVIVE = ("words", "instructions", "plan", "errors", "files")
_PARTLY = "(It reaches up to message {} only; what came later stands in the sections below.)"
_PARTLY_READ = rule(r"\A\(It reaches up to message (\d{1,9}) only;[^\n]*\n")

_TOP_HEADING = rule(r"^#{1,2}(?= )", re.MULTILINE)
"""The prose's headings stand below the digest's."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The digest alone, and how much room prose may have beside it."""

    job: SummaryJob
    options: Digest
    alone: str
    facts_tokens: dict[str, int]
    """What each section that must survive weighs."""
    room_tokens: int

    def text(self, prose: str, end: int) -> str:
        """The digest with this prose, which reaches up to source message `end`; alone where that would cost facts."""
        body = _TOP_HEADING.sub("###", mask(encodable(neutral(prose))))
        if end < self.job.end:
            body = f"{_PARTLY.format(end)}\n{body}"
        body = f"{TITLES['prose']}\n{body}"
        most = self.job.max_tokens - _tokens(self.job.view, body) - 8
        digest = write(self._with_room(most), replace(self.job, max_tokens=most)) if most > 0 else ""
        head, gap, rest = digest.partition("\n\n")
        text = f"{head}\n\n{body}\n\n{rest}"
        whole = gap and _tokens(self.job.view, text) <= self.job.max_tokens and self._keeps(digest)
        return text if whole else self.alone

    def _with_room(self, most: int) -> Digest:
        """The options that give what must survive the room it takes alone, out of this much.

        More than it takes, in fact: a section is written by estimate, to at least 85 % of its share.
        """
        told = sections(self.alone)
        ratios: dict[str, Any] = {
            f"{name}_ratio": tokens * (1.25 if _CUT in told[name] else 1.6) / most
            for name, tokens in self.facts_tokens.items()
        }
        return replace(self.options, small_tokens=0, **ratios)

    def _keeps(self, digest: str) -> bool:
        """Whether what must survive is all there: word for word, or cut no shorter than alone."""
        now, before = sections(digest), sections(self.alone)
        return all(_is_kept(before[name], now.get(name, "")) for name in self.facts_tokens)


_CUT = "left out"
"""What a section says that was cut."""


def _is_kept(before: str, now: str) -> bool:
    return now == before or (_CUT in before and len(now) >= 0.9 * len(before))


def beside(options: Digest, job: SummaryJob) -> Beside:
    """The digest of a job, and the room it leaves for prose."""
    alone = write(options, job)
    told = sections(alone)
    facts = {n: _tokens(job.view, f"{TITLES[n]}\n{told[n]}") for n in _MUST_SURVIVE if n in told}
    room = min(PROSE_RATIO * job.max_tokens, MAX_PROSE_TOKENS, 0.9 * job.max_tokens - 1.2 * sum(facts.values()) - 80)
    return Beside(job, options, alone, facts, int(room))


def carried(options: Digest, job: SummaryJob) -> Generator[SummaryRequest, SummaryReply, Summary]:
    """The digest, with the prose of an earlier summary kept in it while there is room."""
    yield from ()
    draft = beside(options, job)
    return Summary(text=kept(draft), end=job.end)


def kept(draft: Beside) -> str:
    """The text of a draft with the prose that stands in the conversation already, where it has any and room for it."""
    old = draft.job.previous
    if old is None or _tokens(draft.job.view, old.text) > draft.room_tokens:
        return draft.alone
    return draft.text(old.text, old.end)


def standing_prose(view: View, start: int, end: int, layer: str) -> Summary | None:
    """What a model wrote into the summary that stands for source messages of [start, end) now, and how far it reaches.

    Only our own recorded edits are read, never the text of the conversation.
    """
    edits = [e for e in view.edits if e.layer == layer and len(e.start) == 1 and e.start[0] < end and start < e.end[0]]
    texts = (p.text for e in edits for m in e.replacement for p in view.format.parts(m) if BEGIN in p.text)
    prose = next((told["prose"] for t in texts if "prose" in (told := sections(t[t.index(BEGIN) :]))), "")
    if not prose:
        return None
    partly = _PARTLY_READ.match(prose)
    reach = int(partly[1]) if partly else max(e.end[0] for e in edits)
    return Summary(text=prose[partly.end() :] if partly else prose, end=max(start, min(reach, end)))


def _tokens(view: View, text: str) -> int:
    return int(view.count(text) * view.ratio + 0.999)
