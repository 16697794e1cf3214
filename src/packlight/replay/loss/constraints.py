"""Whether rules that the user gave outlive compactions; and rules to plant in a session that has none.

Presence is a fair proxy for being obeyed: in recorded episodes of agents (arXiv 2606.22528) rules that survived were
violated in 0 %, those that were dropped in 38 %. Not seen is a rule that the user took back later: its line counts as
well; nor a rule that stands in a file or a tool's output. A policy that keeps all that users type passes by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..session import Segment, Session
from ..walk import Call
from .texts import Changes, MessageTexts
from .words import lines_of

_RULE = re.compile(
    r"\b(?:never|always|must(?:n't)?|do(?:es)? not|don'?t|only|avoid|make sure|ensure|without|no longer|should(?:n'?t)?"
    r"|prefer|remember|keep in mind|instead of|not allowed|forbidden|required?|nur|nie(?:mals)?|immer|keine?|muss)\b"
    r"|不要|必须|只能|禁止|总是|不能|务必|一定要|始终",
    re.IGNORECASE,
)
RULES = (
    "Never push anything to the branch release-4417.",
    "All new endpoints must live under /internal/v7.",
    "Don't touch the folder legacy_billing, another team owns it.",
    "Log messages should be in British English.",
    "Use at most 3 retries for anything that goes over the network.",
    "Every new function needs a docstring with an example.",
    "Do not add a dependency without asking me first.",
    "Keep the public name fetch_ledger as it is, customers call it.",
    "Dates are always written as 2031-07-04, nothing else.",
    "Run only the tests in tests/smoke_quick, the rest takes hours.",
    "The config key maxOutboxSize must stay below 512.",
    "Write commit messages without emoji.",
)
"""Made up, each with something that no session says by chance."""
Position = Literal["top", "middle", "end"]
POSITIONS: tuple[Position, ...] = ("top", "middle", "end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One rule, and in which requests it stood while the agent's own window went on."""

    line: str
    stated: int
    """Call whose request first held it."""
    present: tuple[bool, ...]
    """Call by call from there on."""
    after_compactions: tuple[bool, ...]
    """After the first batch of edits since it was stated, after the second, ..."""

    def at(self, ratio: float) -> bool:
        """Whether it stood at this share of the rest of its window."""
        return self.present[min(len(self.present) - 1, int(ratio * len(self.present)))]


@dataclass(frozen=True, slots=True)
class Survival:
    """The rules of a session. Results of several sessions can be added."""

    constraints: tuple[Constraint, ...]

    def after(self, compactions: int) -> float | None:
        """Of the rules that went through so many compactions, the share that still stood; None when none did."""
        return _share([c.after_compactions[compactions - 1] for c in self._tested(compactions)])

    def at(self, ratio: float) -> float | None:
        """The share that stood at this share of the rest of its window, of rules that met a compaction at all."""
        return _share([c.at(ratio) for c in self._tested(1)])

    def _tested(self, compactions: int) -> list[Constraint]:
        return [c for c in self.constraints if len(c.after_compactions) >= compactions]

    def __add__(self, other: Survival) -> Survival:
        return Survival(self.constraints + other.constraints)


def _share(present: Sequence[bool]) -> float | None:
    return sum(present) / len(present) if present else None


@dataclass(slots=True)
class _Watched:
    line: str
    stated: int
    holders: int
    """Messages of the request that hold it."""
    present: list[bool] = field(default_factory=list)
    after_compactions: list[bool] = field(default_factory=list)


class ConstraintSurvival:
    """A measure: what becomes of each line in which the user stated a rule, or of the given lines only."""

    def __init__(self, texts: MessageTexts, lines: Sequence[str] | None = None) -> None:
        self._texts, self._lines = texts, lines
        self._source, self._sent = Changes(texts), Changes(texts)
        self._watched: dict[str, _Watched] = {}
        self._ended: list[_Watched] = []

    def see(self, call: Call) -> None:
        if call.is_first:
            self._ended += self._watched.values()
            self._watched, self._source, self._sent = {}, Changes(self._texts), Changes(self._texts)
        come, gone = self._sent.see(call.messages)
        for w in self._watched.values():
            w.holders += sum(w.line in m.user_text for m in come) - sum(w.line in m.user_text for m in gone)
        for line in self._stated(call):
            if line not in self._watched:
                holders = sum(line in m.user_text for m in self._sent.messages)
                self._watched[line] = _Watched(line, call.turn, holders)
        for w in self._watched.values():
            w.present.append(w.holders > 0)
            if call.is_batch:
                w.after_compactions.append(w.holders > 0)

    def _stated(self, call: Call) -> list[str]:
        typed = [text for message in self._source.see(call.source)[0] for text in message.typed]
        if self._lines is not None:
            return [line for line in self._lines for text in typed if line in text]
        return [line for text in typed for line in constraints_in(text)]

    @property
    def result(self) -> Survival:
        return Survival(
            tuple(
                Constraint(
                    line=w.line,
                    stated=w.stated,
                    present=tuple(w.present),
                    after_compactions=tuple(w.after_compactions),
                )
                for w in (*self._ended, *self._watched.values())
            )
        )


def constraints_in(text: str) -> list[str]:
    """The lines of a text that state a rule, as far as a word tells."""
    return [line for line in lines_of(text) if _RULE.search(line)]


def plant(session: Session, position: Position, lines: Sequence[str] = RULES) -> Session:
    """The session with the lines typed by the user at this place of each window, all in one message.

    At the top they stand in the window's first message of the user, in the middle and at the end in what stands
    before the call half way, or nine tenths of the way, through. The session given is not changed.
    """
    segments = [_planted(session, segment, position, "\n".join(lines)) for segment in session.segments]
    return replace(session, segments=segments)


def _planted(session: Session, segment: Segment, position: Position, text: str) -> Segment:
    if not segment.turns:
        return segment
    turn = segment.turns[{"top": 0, "middle": len(segment.turns) // 2, "end": len(segment.turns) * 9 // 10}[position]]
    at = turn.end
    messages = list(segment.messages)
    before = messages[at - 1] if at else None
    if session.format == "anthropic" and before is not None and before.get("role") == "user":
        messages[at - 1] = {**before, "content": [*_blocks(before), {"type": "text", "text": text}]}
        return replace(segment, messages=messages)
    messages.insert(at, {"role": "user", "content": text})
    turns = [replace(t, end=t.end + 1) if t.end >= at else t for t in segment.turns]
    return replace(segment, messages=messages, turns=turns)


def _blocks(message: dict[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content}]
