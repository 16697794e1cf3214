"""The digest: a writer of summaries that needs no model.

It folds old turns into one text: the user's words, the plan, open errors, the files, a log of what was done, an
index of names and copies of the files being worked on. It is written from the whole source each time, never from
its own earlier text, and it is a pure function of the view: the same view gives the same bytes, in any process.

What is written here about the conversation is data. A line that could be taken for a line of the digest's own
frame, or for a message of somebody's, is marked before it goes in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import tee

from ..types import Summary, SummaryJob, SummaryReply, SummaryRequest
from .copies import copies_text
from .facts import facts_of
from .frame import BEGIN, END, TITLES, neutral
from .log import earlier_actions, log_lines, newest_first
from .names import Names, visible_words
from .secrets import mask
from .state import decisions
from .wording import encodable, head
from .words import allotted, cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Options of the digest: what share of `max_tokens` each section may take. Call it as a `Writer`."""

    words_ratio: float = 0.40
    instructions_ratio: float = 0.08
    plan_ratio: float = 0.10
    errors_ratio: float = 0.05
    decisions_ratio: float = 0.04
    files_ratio: float = 0.14
    log_ratio: float = 0.07
    names_ratio: float = 0.42
    copies_ratio: float = 0.34
    small_tokens: int = 1_500
    """Below it only words, open items and files are written."""
    recall_line: str = ""
    """One line that says how to get at what is left out, where the caller offers a way."""

    def __call__(self, job: SummaryJob) -> Generator[SummaryRequest, SummaryReply, Summary]:
        """The summary of the job, at once. Needs no reply: it never yields."""
        return _written(self, job)


digest = Digest()


def _written(options: Digest, job: SummaryJob) -> Generator[SummaryRequest, SummaryReply, Summary]:
    yield from ()  # a generator, as every writer is
    return Summary(text=write(options, job), end=job.end)


def write(options: Digest, job: SummaryJob) -> str:
    """The text of the digest, at most `job.max_tokens` long (empty when not even its frame fits)."""
    draft = _Draft(options, job)
    for _ in range(5):
        text = draft.text()
        tokens = draft.tokens(text)
        if tokens <= job.max_tokens:
            return text
        draft.scale *= min(0.95, job.max_tokens / tokens)
    return draft.shortest()


class _Draft:
    """One digest in the making: sections written to a budget, of facts that are read once."""

    def __init__(self, options: Digest, job: SummaryJob) -> None:
        self.options, self.job, self.view = options, job, job.view
        self.scale = 1.0
        self.facts = facts_of(job)
        self.logged: dict[int, Iterator[str]] = {}

    def tokens(self, text: str) -> int:
        return int(self.view.count(text) * self.view.ratio + 0.999)

    def text(self) -> str:
        self.written: dict[str, str] = {}
        self.whole: set[str] = set()
        """Sections that hold all there is to say."""
        self.spent = self.tokens(self._framed([]))
        for name in _SMALL_ORDER if self.small else _ORDER:
            self._write(name, self._budget(name))
        for name in _MUST_SURVIVE:  # what the others left
            left = self.job.max_tokens * self.scale - self.spent
            if left > _SPARE * self.job.max_tokens and name not in self.whole:
                self._write(name, self.tokens(self.written.get(name, "")) + int(left))
        return self._framed([self.written[name] for name in TITLES if name in self.written])

    @property
    def small(self) -> bool:
        return self.job.max_tokens < self.options.small_tokens

    def _write(self, name: str, budget_tokens: int) -> None:
        """Write a section, in place of a shorter one that stands there."""
        old, new = self.written.get(name, ""), self._section(name, budget_tokens)
        if len(new) > len(old):
            self.written[name] = new
            self.spent += self.tokens(new) - (self.tokens(old) if old else -1)

    def _budget(self, name: str) -> int:
        """A section's share; what must not be lost gets the room that its shortest form takes, if it can."""
        most = self.job.max_tokens
        share = getattr(self.options, f"{name}_ratio") * (1.4 if self.small else 1.0) * most
        if name in ("files", "plan"):
            shortest = "\n".join(self.facts.touched_files if name == "files" else self._open_items())
            share = max(share, min(self.tokens(shortest) * 1.1 + 20, 0.4 * most))
        left = most - self.spent - (_KEPT_FOR_NAMES * most if name == "copies" else 0)
        return int(min(share, left) * self.scale)

    def _framed(self, sections: Sequence[str]) -> str:
        recall = [self.options.recall_line] if self.options.recall_line else []
        return "\n\n".join(["\n".join([BEGIN, *recall]), *sections, END])

    def _section(self, name: str, budget_tokens: int) -> str:
        """A section within its budget: written by characters, measured, and written once more when it is too large."""
        write_body: Callable[[int], str] = getattr(self, f"_{name}")
        title = TITLES[name]
        room = budget_tokens - self.tokens(title) - 2
        chars = int(room * self.facts.chars_per_token)
        best = ""
        for _ in range(5):
            if chars < 24:
                break
            body = write_body(chars)
            if len(body) < 0.9 * chars:
                self.whole.add(name)
            if not body:
                break
            body = mask(encodable(body))
            tokens = self.tokens(body)
            if tokens <= room:
                best = body if len(body) > len(best) else best
                if tokens > 0.85 * room or name in self.whole:
                    break
                chars = int(chars * room / tokens * 0.95)
            elif best:
                break
            else:
                chars = int(min(chars, len(body)) * room / tokens * 0.95)
                self.whole.discard(name)
        return f"{title}\n{best}" if best else ""

    # ---- sections

    def _words(self, max_chars: int) -> str:
        texts = list(dict.fromkeys(self.facts.typed))
        sizes = allotted([len(t) + 2 for t in texts], max_chars - 60, 160)
        kept = [cut(t, n - 2) for t, n in zip(texts, sizes, strict=True) if n > 2]
        lost = sum(1 for n in sizes if n <= 2)
        if lost and kept:
            kept.insert(1, f"[{lost} earlier messages of the user left out]")
        return "\n\n".join(kept)

    def _instructions(self, max_chars: int) -> str:
        found = self.facts.instructions
        sizes = allotted([len(t) + 2 for t in found], max_chars, 200)
        return "\n\n".join(cut(t, n - 2) for t, n in zip(found, sizes, strict=True) if n > 2)

    def _open_items(self) -> list[str]:
        return [line for line in self.facts.plan if not line.startswith(("[completed]", "[cancelled]", "[done]"))]

    def _plan(self, max_chars: int) -> str:
        whole = sum(map(len, self.facts.plan)) + len(self.facts.plan) <= max_chars
        return _fitting(self.facts.plan if whole else self._open_items(), max_chars)

    def _errors(self, max_chars: int) -> str:
        return _fitting(self.facts.errors[::-1], max_chars, newest_first=True)

    def _decisions(self, max_chars: int) -> str:
        own = decisions(self.view, self.job.start, self.job.end, max_chars)
        return _fitting(
            [f"- {neutral(t)}" for t in own[::-1]] + self.facts.earlier.decisions[::-1], max_chars, newest_first=True
        )

    def _files(self, max_chars: int) -> str:
        """Every path that was touched, last touched first; what was done to it while there is room."""
        done = self.facts.touched_files
        lines = [f"{path}: {what}" for path, what in done.items()]
        if sum(map(len, lines)) + len(lines) <= max_chars:
            return "\n".join(lines)
        names = list(done)
        spare = max_chars - sum(map(len, names)) - len(names)
        out: list[str] = []
        for name, line in zip(names, lines, strict=True):
            more = len(line) - len(name)
            out.append(line if more <= spare else name)
            spare -= more if more <= spare else 0
        return _fitting(out, max_chars, lost="files")

    def _log(self, max_chars: int) -> str:
        view, facts, marks = self.view, self.facts, self.facts.marks
        report = min(1_200, max_chars // 8)
        lines = self.logged.get(report) or newest_first(
            view, facts.events, facts.said, self.job.start, self.job.end, report, marks
        )
        self.logged[report], lines = tee(lines)  # a second try goes over the same lines
        newest = [marks[message] for message in sorted(marks, reverse=True)]
        return neutral("\n".join(log_lines(lines, max_chars, newest, self._left_out)))

    def _left_out(self, marks: Sequence[str]) -> str:
        return earlier_actions(self.view, self.job.start, self.job.end, marks)

    def _names(self, max_chars: int) -> str:
        return self.names.text(max_chars)

    @cached_property
    def names(self) -> Names:
        return self.facts.mentions.seen(visible_words([*self.written.values(), *self.facts.visible_texts]))

    def _copies(self, max_chars: int) -> str:
        return copies_text(self.facts.models, self.facts.blocks, max_chars)

    def shortest(self) -> str:
        """The frame around as much of the user's newest words as fits; nothing when that is too much, too."""
        room = 4 * self.job.max_tokens
        newest = self.facts.typed[-1] if self.facts.typed else ""
        while room > 16:
            text = self._framed([f"{TITLES['words']}\n{mask(cut(newest, room))}"])
            if self.tokens(text) <= self.job.max_tokens:
                return text
            room //= 2
        text = self._framed([])
        return text if self.tokens(text) <= self.job.max_tokens else ""


_KEPT_FOR_NAMES = 0.12
"""Copies leave this much: names are cheaper for what they hold."""
_SPARE = 0.08
"""Room worth writing a section once more for."""
_MUST_SURVIVE = ("words", "instructions", "plan", "files")
_SMALL_ORDER = ("words", "instructions", "plan", "errors", "files", "names", "log")
_ORDER = (*_SMALL_ORDER[:5], "decisions", "log", "copies", "names")
"""What is written first has first claim on the room; names come last, since they leave out what stands above."""


def _fitting(lines: Sequence[str], max_chars: int, *, newest_first: bool = False, lost: str = "more") -> str:
    """As many of the lines as fit, in order; with `newest_first` they are turned around after choosing."""
    out: list[str] = []
    room = max_chars - 24
    for n, line in enumerate(lines):
        if len(line) + 1 > room:
            if not out and n == 0:
                out.append(head(line, max(0, room)))
            if not newest_first:
                out.append(f"[{len(lines) - len(out)} {lost} left out]")
            break
        room -= len(line) + 1
        out.append(line)
    return "\n".join(reversed(out) if newest_first else out)
