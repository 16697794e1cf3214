"""The writer that asks a model: prose in five sections, brought up to date with what is new, beside the digest's facts.

No I/O here: it yields requests and is sent replies. Whatever goes wrong ends in the digest, with the prose that stood
before, and says so in `Summary.error`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from .. import models, overflow
from ..errors import SummaryError
from ..types import Summary, SummaryJob, SummaryReply, SummaryRequest, Transport
from .audit import CUT_SHORT, faults, trimmed, without_foreign
from .beside import MIN_PROSE_TOKENS, beside, kept
from .digest import Digest, digest
from .earlier import read_earlier
from .prompts import SYSTEM, TOPICS, Topic, prompt_of
from .record import Record, next_record
from .words import loaded_instructions, said

USUAL_WINDOW_TOKENS = 32_000
"""Of a model that is not known."""
MAX_RECORD_TOKENS = 150_000
"""More in one request is read badly and slowly."""
MAX_REQUESTS = 24
"""For one summary; what is left then is for the next one."""
_TRIES = 2
_REASONING_TOKENS = 8_000
"""Room for a model's reasoning, which providers count as part of the answer; an eighth of a small window."""
_MARGIN = 1.15
"""Another model may count more tokens for the same text."""
_WORDS_PER_TOKEN = 0.6

Asking = Generator[SummaryRequest, SummaryReply, tuple[str, "Exception | None"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWriter:
    """Asks a model for the prose of a summary. Call it as a `Writer`.

    `transport` says who is asked. `window_tokens` is the window of that model, where it is not known by its name: a
    longer history is summarised in parts. `instructions` are added to the prompt. With other `topics` an answer is
    accepted when it has these headings.
    """

    transport: Transport
    window_tokens: int | None = None
    instructions: str = ""
    topics: tuple[Topic, ...] = TOPICS
    digest: Digest = field(default=digest, repr=False)

    def __call__(self, job: SummaryJob) -> Generator[SummaryRequest, SummaryReply, Summary]:
        return _written(self, job)


def _written(writer: ModelWriter, job: SummaryJob) -> Generator[SummaryRequest, SummaryReply, Summary]:
    draft = beside(writer.digest, job)
    if draft.room_tokens < MIN_PROSE_TOKENS:
        return Summary(text=draft.alone, end=job.end)
    told = _Telling(writer, job, draft.room_tokens)
    error = yield from told.steps()
    text = draft.text(told.prose, told.end) if told.prose else kept(draft)
    if error is None and told.prose and text is draft.alone:
        error = SummaryError("there was no room for the model's summary beside what must survive")
    return Summary(text=text, end=job.end, error=error)


class _Telling:
    """One summary in the making: the prose so far, and how far it reaches."""

    def __init__(self, writer: ModelWriter, job: SummaryJob, most_tokens: int) -> None:
        self.writer, self.job = writer, job
        self.prose = job.previous.text if job.previous else ""
        self.end = job.previous.end if job.previous else job.start
        known = models.lookup(writer.transport.model) if writer.transport.model else None
        window_tokens = writer.window_tokens or (known.context_window_tokens if known else None)
        self.window_tokens = window_tokens or USUAL_WINDOW_TOKENS
        self.max_output_tokens = (known.max_output_tokens if known else None) or self.window_tokens
        self.most_tokens = min(most_tokens, self.window_tokens // 6, self.max_output_tokens * 3 // 4)

    def steps(self) -> Generator[SummaryRequest, SummaryReply, Exception | None]:
        """Go over what is new, a part at a time. Gives what ended it early; the prose stands as far as it came."""
        for _ in range(MAX_REQUESTS):
            if self.end >= self.job.end:
                return None
            record = self._next_record()
            if record is None:
                return SummaryError(f"a window of {self.window_tokens:,} tokens is too small to summarise with")
            prose, error = yield from self._asked(record)
            if error is None:
                self.prose, self.end = prose, record.end
            elif not self._learned(error.__cause__):
                return error
        return SummaryError(f"the history is too long for {MAX_REQUESTS} requests")

    def _learned(self, error: BaseException | None) -> bool:
        """Whether the window turned out to be smaller than thought: then a smaller part is tried."""
        found = overflow.classify(error) if error else None
        if found is None:
            return False
        self.window_tokens = min(found.limit_tokens or self.window_tokens, self.window_tokens * 2 // 3)
        return True

    @property
    def answer_tokens(self) -> int:
        wanted = self.most_tokens * 5 // 4 + min(_REASONING_TOKENS, self.window_tokens // 8)
        return min(wanted, self.max_output_tokens)

    def _next_record(self) -> Record | None:
        """What of the rest fits one request; None where not even a little does."""
        frame = self._tokens(SYSTEM + self._prompt(Record((), self.end), "x" * 80))
        room = min(MAX_RECORD_TOKENS, int(self.window_tokens / _MARGIN) - self.answer_tokens - frame)
        most = room
        for _ in range(6):
            if room < 200:
                return None
            record = next_record(self.job, self.end, room)
            if (tokens := self._tokens(record.text)) <= most:
                return record
            room = int(room * min(0.9, most / tokens))
        return None

    def _asked(self, record: Record) -> Asking:
        """The prose with this record in it, or what was wrong: one more try where the answer itself was."""
        problem, answer_tokens = "", self.answer_tokens
        for _ in range(_TRIES):
            reply = yield SummaryRequest(
                system=SYSTEM,
                prompt=self._prompt(record, problem),
                max_tokens=answer_tokens,
                transport=self.writer.transport,
            )
            if reply.error is not None:
                failed = SummaryError(f"the summariser failed: {reply.error}"[:500])
                failed.__cause__ = reply.error
                return "", failed
            text = trimmed(reply.text)
            found = faults(text, reply, record, self.writer.topics, (self._tokens(text), self.most_tokens))
            if not found:
                return without_foreign(text, record, self._users_words(), self.writer.topics), None
            problem = "; ".join(found)
            if reply.stop_reason in CUT_SHORT:  # a reasoning model may have spent it all before it began
                spare = self.window_tokens - int(self._tokens(SYSTEM + self._prompt(record)) * _MARGIN)
                answer_tokens = max(answer_tokens, min(answer_tokens * 2, spare, self.max_output_tokens))
        return "", SummaryError(f"the summary could not be used: {problem}")

    def _prompt(self, record: Record, problem: str = "") -> str:
        return prompt_of(
            record=record.text,
            code=record.code,
            topics=self.writer.topics,
            words=int(self.most_tokens * _WORDS_PER_TOKEN),
            earlier=self.prose,
            instructions=self.writer.instructions,
            focus=self.job.focus,
            problem=problem,
        )

    def _users_words(self) -> str:
        """All that the user said, or loaded as instructions."""
        view, end = self.job.view, len(self.job.view.messages)
        spoken = list(said(view, 0, end))
        earlier = read_earlier([s.text for s in spoken if s.kind == "digest"])
        own = [s.text for s in spoken if s.kind in ("typed", "instructions")]
        loaded = [s.text for _, s in loaded_instructions(view, 0, end)]
        return "\n".join([*own, *loaded, *earlier.words, *earlier.instructions])

    def _tokens(self, text: str) -> int:
        return int(self.job.view.count(text) * self.job.view.ratio + 0.999)
