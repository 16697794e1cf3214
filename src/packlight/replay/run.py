"""Walks a recorded session through the engine, call by call, as its agent would have.

Each call gets the request that the agent sent then, in full and unedited; what the engine makes of it is measured
and checked from outside. Nothing is written: journal and store live in memory and end with the walk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .. import jsonio
from ..formats import format_named, read_message, split
from ..laws import gained, violations
from ..oneshot import restore
from ..store import Store
from ..tokens.usage import input_tokens
from ..types import Edit, Format, FormatName, Json, Message, Violation
from .session import ReaderName, Segment, Session, Turn


class _Report(Protocol):
    @property
    def tokens_before(self) -> int: ...
    @property
    def tokens_after(self) -> int: ...
    @property
    def new_edits(self) -> Sequence[Edit]: ...
    @property
    def error(self) -> object: ...


class Compaction(Protocol):
    """What a replay asks of one."""

    @property
    def request(self) -> Any: ...
    @property
    def changed(self) -> bool: ...
    @property
    def fits(self) -> bool: ...
    @property
    def report(self) -> _Report: ...
    def restore(self) -> Any: ...


class Engine(Protocol):
    """What a replay walks through: `packlight.Compactor`, or anybody's policy in its shape."""

    @property
    def store(self) -> Store | None:
        """Where it keeps what it takes out; None for one that keeps nothing."""
        ...

    def fit(self, request: Any, /, *, now_seconds: float | None = None, format: str | None = None) -> Any:
        """A `Compaction`."""
        ...

    def record_usage(self, compaction: Any, usage: Any, /) -> object: ...


Factory = Callable[[str | None, str, int | None], Engine]
"""Makes a fresh engine, with an empty journal, from model, policy and window."""


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
    reader: ReaderName
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
    progress: Callable[[int, int], None] | None = None,
) -> SessionResult:
    """Walk one session through a fresh engine.

    Until the engine changes a request, the usage that the file records for it is given to the engine, as the agent
    would have done.
    """
    result = SessionResult(
        session.name, session.reader, session.format, session.model, policy, window_tokens, session.path, session.notes
    )
    walk = _Walk(session, result, compactor_factory(session.model, policy, window_tokens))
    for segment in session.segments:
        if walk.turn:
            result.segment_starts.append(walk.turn)
        walk.new_window()
        for turn in segment.turns:
            walk.step(segment, turn)
            if progress:
                progress(walk.turn, session.turns)
        walk.check_restored()
    return result


class _Walk:
    """One policy on its way through a session."""

    def __init__(self, session: Session, result: SessionResult, engine: Engine) -> None:
        self.turn = 0
        self._session, self._result, self._engine = session, result, engine
        self._format = format_named(session.format)
        self._validator = _Validator(self._format)
        self._sent: Sequence[Any] | None = None
        self._last: tuple[Any, Compaction] | None = None
        self._now_seconds = 0.0
        """Turns without a time get the one before: a replay never reads the clock."""

    def new_window(self) -> None:
        """The next request does not go on from the last one: the agent began a new window."""
        self._sent = None

    def step(self, segment: Segment, turn: Turn) -> None:
        request = self._session.request(segment, turn)
        self._now_seconds = turn.seconds if turn.seconds is not None else self._now_seconds
        compaction: Compaction = self._engine.fit(request, now_seconds=self._now_seconds, format=self._session.format)
        self._last = request, compaction
        self._measure(compaction, turn)
        is_batch = bool(compaction.report.new_edits)
        if is_batch:
            self._note_batch(compaction)
        self._check_prefix(compaction, is_batch)
        if compaction.changed:
            self._check_valid(request, compaction)
        elif turn.usage:
            self._engine.record_usage(compaction, turn.usage)
        self.turn += 1

    def check_restored(self) -> bool:
        """True when the last compaction gives back its request, value by value."""
        if self._last is None:
            return True
        request, compaction = self._last
        same = bool(compaction.restore() == request)
        if compaction.changed and self._engine.store is not None:
            rebuilt = restore(compaction.request, self._engine.store, all=True, format=self._session.format)
            same = same and rebuilt == request
        self._result.restored &= same
        return same

    def _measure(self, compaction: Compaction, turn: Turn) -> None:
        report, result = compaction.report, self._result
        result.before_tokens.append(report.tokens_before)
        result.after_tokens.append(report.tokens_after)
        result.recorded_tokens.append(input_tokens(turn.usage))
        if not compaction.fits:
            result.not_fitting.append(self.turn)
        if report.error:
            result.errors.append(f"turn {self.turn}: {report.error}")

    def _note_batch(self, compaction: Compaction) -> None:
        report = compaction.report
        self._result.batches.append(
            BatchSeen(
                turn=self.turn,
                layers=Counter(e.layer for e in report.new_edits),
                actions=Counter(e.action for e in report.new_edits),
                tokens_before=report.tokens_before,
                tokens_after=report.tokens_after,
                taken_out=sum(bool(e.ref) for e in report.new_edits),
                restored=self.check_restored(),
            )
        )

    def _check_prefix(self, compaction: Compaction, is_batch: bool) -> None:
        sent = self._list(compaction.request)
        before, self._sent = self._sent, sent
        if before is None or begins_with(sent, before):
            return
        (self._result.breaks_at_batch if is_batch else self._result.breaks_elsewhere).append(self.turn)

    def _list(self, request: Any) -> Sequence[Any]:
        messages: Sequence[Any] = request[self._session.list_key] if isinstance(request, Mapping) else request
        return messages

    def _check_valid(self, request: Any, compaction: Compaction) -> None:
        found = self._validator(compaction.request)
        if found:
            found = gained(self._validator(request), found)
        self._result.invalid += [(self.turn, v) for v in found]


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


def begins_with(sent: Sequence[Any], before: Sequence[Any]) -> bool:
    """True when a request begins with the one before, byte for byte, cache marks aside."""
    return len(sent) >= len(before) and all(
        a is b or _bytes_of(a) == _bytes_of(b) for a, b in zip(sent, before, strict=False)
    )


def _bytes_of(message: Any) -> bytes:
    return jsonio.dump(_without_marks(message))


def _without_marks(value: Json) -> Json:
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if k != "cache_control"}
    if isinstance(value, list):
        return [_without_marks(v) for v in value]
    return value
