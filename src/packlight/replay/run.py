"""What a policy did to a session: sizes, batches, and the checks of the laws, made from outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..formats import format_named, read_message, split
from ..laws import gained, violations
from ..oneshot import restore
from ..tokens.usage import input_tokens
from ..types import Format, FormatName, Message, Violation
from .prefix import begins_with
from .session import Session
from .walk import Call, Engine, Factory, walk
from .weights import Weights


class Measure(Protocol):
    """Reads off every call what it wants to know."""

    def see(self, call: Call, /) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """One batch of edits, as it happened."""

    turn: int
    """Index among all turns of the session."""
    layers: Mapping[str, int]
    actions: Mapping[str, int]
    tokens_before: int
    tokens_after: int
    taken_out: int
    """Edits whose content can be had back by reference."""
    restored: bool


@dataclass(slots=True)
class SessionResult:
    """What one policy did to one session."""

    session: str
    reader: str
    format: FormatName
    model: str | None
    policy: str
    window_tokens: int | None
    path: str | None = None
    notes: list[str] = field(default_factory=list)
    before_tokens: list[int] = field(default_factory=list)
    """Input tokens of each call without compaction."""
    after_tokens: list[int] = field(default_factory=list)
    """Input tokens of each call as it was sent."""
    recorded_tokens: list[int | None] = field(default_factory=list)
    """The same without compaction, as the file has it."""
    segment_starts: list[int] = field(default_factory=list)
    """Turns at which the agent's own compaction, or a rewind, began a new window."""
    batches: list[BatchSeen] = field(default_factory=list)
    breaks_at_batch: list[int] = field(default_factory=list)
    breaks_elsewhere: list[int] = field(default_factory=list)
    """Turns whose request does not begin with the one before, though nothing new was edited."""
    invalid: list[tuple[int, Violation]] = field(default_factory=list)
    """Violations that the recorded request did not have, by turn."""
    not_fitting: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    restored: bool = True
    """Every batch, and the last call of every window, gave back the request as it was."""

    @property
    def turns(self) -> int:
        return len(self.after_tokens)

    @property
    def tokens_before(self) -> int:
        return sum(self.before_tokens)

    @property
    def tokens_after(self) -> int:
        return sum(self.after_tokens)

    @property
    def mean_context_tokens(self) -> int:
        return round(self.tokens_after / self.turns) if self.turns else 0

    @property
    def invalid_requests(self) -> int:
        return len({turn for turn, _ in self.invalid})

    @property
    def prefix_breaks(self) -> int:
        return len(self.breaks_at_batch) + len(self.breaks_elsewhere)


def replay(
    session: Session,
    *,
    policy: str,
    window_tokens: int | None,
    compactor_factory: Factory,
    measures: Sequence[Measure] = (),
    weights: Weights | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SessionResult:
    """Walk one session through a fresh engine, and check what it did from outside."""
    result = SessionResult(
        session.name, session.reader, session.format, session.model, policy, window_tokens, session.path, session.notes
    )
    engine = compactor_factory(session.model, policy, window_tokens)
    checks = _Checks(session, result, engine)
    for call in walk(session, engine, weights):
        for measure in (checks, *measures):
            measure.see(call)
        if progress:
            progress(call.turn + 1, session.turns)
    checks.end()
    return result


class _Checks:
    """The figures and findings of a `SessionResult`."""

    def __init__(self, session: Session, result: SessionResult, engine: Engine) -> None:
        self._result, self._engine = result, engine
        self._format = session.format
        self._validator = _Validator(format_named(session.format))
        self._last: Call | None = None

    def see(self, call: Call) -> None:
        if call.is_first and self._last is not None:
            self._result.segment_starts.append(call.turn)
            self._restored(self._last)
        self._measure(call)
        if call.is_batch:
            self._note_batch(call)
        self._check_prefix(call)
        if call.compaction.changed:
            self._check_valid(call)
        self._last = call

    def end(self) -> None:
        if self._last is not None:
            self._restored(self._last)

    def _restored(self, call: Call) -> bool:
        """True when the compaction gives back its request, value by value."""
        same = bool(call.compaction.restore() == call.given)
        if call.compaction.changed and self._engine.store is not None:
            rebuilt = restore(call.sent, self._engine.store, all=True, format=self._format)
            same = same and rebuilt == call.given
        self._result.restored &= same
        return same

    def _measure(self, call: Call) -> None:
        report, result = call.compaction.report, self._result
        result.before_tokens.append(report.tokens_before)
        result.after_tokens.append(report.tokens_after)
        result.recorded_tokens.append(input_tokens(call.recorded.usage))
        if not call.compaction.fits:
            result.not_fitting.append(call.turn)
        if report.error:
            result.errors.append(f"turn {call.turn + 1}: {report.error}")

    def _note_batch(self, call: Call) -> None:
        report = call.compaction.report
        self._result.batches.append(
            BatchSeen(
                turn=call.turn,
                layers=Counter(e.layer for e in report.new_edits),
                actions=Counter(e.action for e in report.new_edits),
                tokens_before=report.tokens_before,
                tokens_after=report.tokens_after,
                taken_out=sum(bool(e.ref) for e in report.new_edits),
                restored=self._restored(call),
            )
        )

    def _check_prefix(self, call: Call) -> None:
        if call.is_first or self._last is None or begins_with(call.messages, self._last.messages):
            return
        (self._result.breaks_at_batch if call.is_batch else self._result.breaks_elsewhere).append(call.turn)

    def _check_valid(self, call: Call) -> None:
        found = self._validator(call.sent)
        if found:
            found = gained(self._validator(call.given), found)
        self._result.invalid += [(call.turn, v) for v in found]


class _Validator:
    """`packlight.validate`, reading each message object once."""

    def __init__(self, fmt: Format) -> None:
        self._format = fmt
        self._read: dict[int, tuple[Any, Message]] = {}

    def __call__(self, request: Any) -> list[Violation]:
        _, messages, head = split(request, self._format.name)
        return violations(self._format, [self._message(m) for m in messages], head)

    def _message(self, raw: Any) -> Message:
        known = self._read.get(id(raw))
        if known is None:  # the object is kept, so that its id stays its own
            known = self._read[id(raw)] = raw, read_message(self._format, raw, lambda _: 0)
        return known[1]
