"""Recorded sessions as the log of an agent that never compacted.

What its client took out on the way (a summary, cleared results) is put back by leaving out the record of it: so every
policy is asked to carry the whole session. The recorded agent had then lost something itself, now and then; that is the
same for every policy. Half way through the user states a dozen made-up rules (`RULES`), to be looked for later.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from packlight import jsonio
from packlight.errors import InvalidRequest
from packlight.replay.loss.constraints import plant
from packlight.replay.readers import find_files, read_sessions
from packlight.replay.session import Segment, Session, Turn, seconds_of
from packlight.replay.weights import Weights

UNSEEN_HEAD_TOKENS = 20_000
"""System prompt and tools, where the file says nothing of them: what coding agents have."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Log:
    """A session without its compactions, and what its messages weigh."""

    name: str
    session: Session
    weights: Weights

    @property
    def tokens(self) -> int:
        """The longest request of it."""
        return round(max(self.weights.request(s.messages, n) for n, s in enumerate(self.session.segments)))

    @cached_property
    def digest(self) -> str:
        """Changes when the session is read otherwise."""
        state = hashlib.sha256()
        for n, segment in enumerate(self.session.segments):
            state.update(jsonio.dump([segment.messages, [t.end for t in segment.turns], round(self.weights.head(n))]))
            state.update(repr([t.seconds for t in segment.turns]).encode())
        return state.hexdigest()

    @property
    def tokens_per_char(self) -> float:
        """Of the messages as JSON text: what a policy that counts characters has to be told."""
        messages = [m for s in self.session.segments for m in s.messages]
        return sum(map(self.weights.message, messages)) / max(1, sum(len(jsonio.dump(m)) for m in messages))


def logs(folder: Path, least_tokens: int) -> Iterator[Log]:
    """Every session under the folder whose longest request has at least so many tokens, by name of its file."""
    for file in find_files(folder):
        try:
            found = read_log(file)
        except InvalidRequest:
            continue
        if found is not None and found.tokens >= least_tokens:
            yield found


def read_log(file: Path) -> Log | None:
    """The longest session of a file; None when it holds none."""
    lines, compacted_at = uncompacted(file.read_bytes())
    sessions = [s for s in read_sessions(lines) if s.turns]
    if not sessions:
        return None
    session = plant(max(sessions, key=lambda s: s.turns), "middle")
    weights = Weights(session, unseen_head_tokens=UNSEEN_HEAD_TOKENS)
    name = f"{file.parent.name}/{file.stem}"
    return Log(
        name, replace(session, name=name, path=str(file), segments=_recounted(session, weights, compacted_at)), weights
    )


def uncompacted(source: bytes) -> tuple[bytes, float | None]:
    """The records of a session file without those of its compactions, and when the first one of these was."""
    kept, first = [], None
    for line in source.split(b"\n"):
        record = _record(line)
        if record is not None and _is_compaction(record):
            first = seconds_of(record.get("timestamp")) if first is None else first
            if record.get("type") == "compaction":  # pi: what follows refers to what it kept
                break
        else:
            kept.append(line)
    return b"\n".join(kept), first


def _record(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _is_compaction(record: Record) -> bool:
    """Claude Code's boundaries and summaries, Codex's `compacted`, pi's `compaction`."""
    subtype = record.get("subtype") if record.get("type") == "system" else None
    boundary = subtype in ("compact_boundary", "microcompact_boundary")
    return boundary or bool(record.get("isCompactSummary")) or record.get("type") in ("compacted", "compaction")


def _recounted(session: Session, weights: Weights, compacted_at: float | None) -> list[Segment]:
    """With a usage that fits the whole log: the recorded one ends at the first compaction."""
    return [
        replace(segment, turns=[_turn(t, segment, n, weights, compacted_at) for t in segment.turns])
        for n, segment in enumerate(session.segments)
    ]


def _turn(turn: Turn, segment: Segment, window: int, weights: Weights, compacted_at: float | None) -> Turn:
    if compacted_at is None or (turn.seconds is not None and turn.seconds <= compacted_at):
        return turn
    return replace(turn, usage={"input_tokens": round(weights.request(segment.messages[: turn.end], window))})
