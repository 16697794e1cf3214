"""A conversation with the edits that are in effect: what layers plan on.

`View` never changes: `with_edits` gives a new one. Positions are always those of the source, the conversation as
the caller gave it, so a plan made on a view stays true whatever else is planned beside it.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, takewhile
from typing import Any

from .types import Edit, Format, Json, Message, Part, Position

Place = tuple[int, int]
"""`(message index, index in its parts)`."""


@dataclass(slots=True)
class ResultAt:
    """A tool result in a view, with what stands in its place now."""

    view: View = field(repr=False)
    message: int
    place: int
    """Index in the message's parts."""
    part: Part
    edit: Edit | None
    """The edit that stands in its place, if any: a preview, a placeholder."""
    tokens: int
    """Of what stands there now."""
    span: tuple[Position, Position]

    @property
    def call(self) -> Part | None:
        """The call it answers."""
        return self.view.call_of(self.message, self.place)

    @property
    def tool(self) -> str:
        return self.call.tool if self.call else ""

    @property
    def arguments(self) -> Mapping[str, Json]:
        return (self.call.arguments if self.call else None) or {}


@dataclass(frozen=True)
class Pairs:
    """Which result answers which call, by occurrence: ids repeat in the wild."""

    answer: Mapping[Place, Place]
    """call -> result"""
    question: Mapping[Place, Place]
    """result -> call"""
    unanswered: tuple[Place, ...]
    orphans: tuple[Place, ...]
    """Results whose call is not there, or was answered before."""


def pair(messages: Sequence[Message]) -> Pairs:
    """Pair calls and results: a result answers the first open call of its id in the newest message that has one."""
    open_calls: dict[str, dict[int, list[int]]] = defaultdict(dict)
    answer: dict[Place, Place] = {}
    orphans: list[Place] = []
    for i, message in enumerate(messages):
        for k, part in enumerate(message.parts):
            if part.kind == "call" and not part.server:
                open_calls[part.call_id].setdefault(i, []).append(k)
            elif part.kind == "result" and not part.server:
                waiting = open_calls.get(part.call_id)
                if not waiting:
                    orphans.append((i, k))
                    continue
                newest = max(waiting)
                answer[(newest, waiting[newest].pop(0))] = (i, k)
                if not waiting[newest]:
                    del waiting[newest]
    unanswered = sorted((i, k) for waiting in open_calls.values() for i, ks in waiting.items() for k in ks)
    question = {result: call for call, result in answer.items()}
    return Pairs(answer, question, tuple(unanswered), tuple(orphans))


def plain_reference(text: str) -> tuple[str, str]:
    """The reference of a text, and the words that name it to a model."""
    ref = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return ref, f"ref {ref}"


def noted(*words: str) -> str:
    """What a placeholder says; how to get the content back is left out where nobody could."""
    return "; ".join(filter(None, words))


@dataclass(frozen=True, kw_only=True)
class View:
    """The source messages and the edits in effect."""

    format: Format
    messages: Sequence[Message]
    count: Callable[[Json], int]
    """Counts the tokens of a JSON value, uncalibrated."""
    edits: tuple[Edit, ...] = ()
    """Sorted by position, disjoint."""
    first_unseen: int = 0
    """Messages from here on have never been sent to a model."""
    head: Mapping[str, Any] = field(default_factory=dict)
    """The request without its list: system, tools, model, ..."""
    head_tokens: int = 0
    counted_tokens: int | None = None
    """Sum of the messages' tokens, where it is known already."""
    ratio: float = 1.0
    """True tokens per counted token, learned from usage."""
    taken_ratio: float | None = None
    """The same of what the edits took out: it was learned before that was gone. None: as `ratio`."""
    binds_thinking: bool = True
    """The model checks signed thinking against everything before it."""
    refer: Callable[[str], tuple[str, str]] = plain_reference
    """Gives a text's reference, and the words by which a placeholder says how to get it back; "" where nothing can."""
    transcript: str = ""
    """A plain file with all messages, one JSON line each, where there is one."""
    enlist: Callable[[str], str] | None = None
    """Gives the reference of a stretch of turns (`summary.stretches`), by its list; None where nobody recalls."""
    keep: Callable[[ResultAt], bool] | None = None
    """Results that the user wants left alone."""
    memo: dict[str, Any] = field(default_factory=dict, repr=False)
    """What was worked out of the source once, for all views of it: it does not depend on the edits."""
    memory: dict[str, Any] = field(default_factory=dict, repr=False)
    """The same from one batch of the conversation to the next: for lists of messages that go on from one another."""

    def with_edits(self, planned: Iterable[Edit]) -> View:
        """The view with these edits as well. Raises ValueError when one cuts across another."""
        planned = list(planned)
        return replace(self, edits=merge(self.edits, planned)) if planned else self

    @property
    def pairs(self) -> Pairs:
        known = self.memo.get("pairs")
        if known is None:
            known = self.memo["pairs"] = pair(self.messages)
        return known

    @property
    def turns(self) -> Sequence[int]:
        """How many answers the model had begun up to and with each source message, and at the end."""
        known: list[int] | None = self.memo.get("turns")
        if known is None:
            speaks = [m.role == "assistant" for m in self.messages]
            begun = (now and not before for now, before in zip(speaks, [False, *speaks], strict=False))
            known = self.memo["turns"] = [*accumulate(begun, initial=0)][1:]
            known.append(known[-1] if known else 0)
        return known

    @cached_property
    def saved_tokens(self) -> int:
        return sum(e.tokens_before - e.tokens_after for e in self.edits)

    @cached_property
    def source_tokens(self) -> int:
        known = self.counted_tokens
        return self.head_tokens + (sum(m.tokens for m in self.messages) if known is None else known)

    @cached_property
    def fixed_tokens(self) -> int:
        """System prompt and tools, calibrated, also where they begin the list: nothing of it may go."""
        leading = takewhile(lambda m: m.role == "system", self.messages)
        return round((self.head_tokens + sum(m.tokens for m in leading)) * self.ratio)

    @cached_property
    def tokens(self) -> int:
        """Size of the request now, calibrated."""
        return round((self.source_tokens - self.saved_tokens) * self.ratio)

    @cached_property
    def original_tokens(self) -> int:
        """Size of the request without edits, calibrated."""
        if self.taken_ratio is None:
            return round(self.source_tokens * self.ratio)
        return round((self.source_tokens - self.saved_tokens) * self.ratio + self.saved_tokens * self.taken_ratio)

    def call_of(self, message: int, place: int) -> Part | None:
        """The call that the result at this place answers."""
        at = self.pairs.question.get((message, place))
        return self.messages[at[0]].parts[at[1]] if at else None

    @cached_property
    def _by_message(self) -> Mapping[int, Edit]:
        """Source message -> the message-span edit that covers it."""
        covered: dict[int, Edit] = {}
        for edit in self.edits:
            if len(edit.start) == 1:
                covered.update(dict.fromkeys(range(edit.start[0], edit.end[0]), edit))
        return covered

    @cached_property
    def _by_block(self) -> Mapping[Position, Edit]:
        """(message, block) -> the block-span edit that covers it."""
        return {
            (edit.start[0], b): edit
            for edit in self.edits
            if len(edit.start) == 2
            for b in range(edit.start[1], edit.end[1])
        }

    def edit_of(self, message: int, block: int = -1) -> Edit | None:
        """The edit in whose span this message, or this block of it, lies."""
        return self._by_message.get(message) or (self._by_block.get((message, block)) if block >= 0 else None)

    def is_folded(self, message: int) -> bool:
        """True when a summary or nothing stands for it any more."""
        edit = self._by_message.get(message)
        return edit is not None and edit.action in ("summarised", "removed")

    def tokens_of(self, message: int) -> int:
        """What this source message weighs now, uncalibrated; 0 for one that an edit over several messages covers."""
        edit = self._by_message.get(message)
        if edit is not None:
            return edit.tokens_after if edit.end[0] - edit.start[0] == 1 else 0
        return self.messages[message].tokens - self._saved_in_blocks.get(message, 0)

    @cached_property
    def _saved_in_blocks(self) -> Mapping[int, int]:
        saved: dict[int, int] = {}
        for e in self.edits:
            if len(e.start) == 2:
                saved[e.start[0]] = saved.get(e.start[0], 0) + e.tokens_before - e.tokens_after
        return saved

    def results(self, start: int = 0) -> Iterator[ResultAt]:
        """The tool results that still stand from message `start` on, oldest first (the provider's own tools' too)."""
        for i in range(start, len(self.messages)):
            if self.is_folded(i):
                continue
            for k, part in enumerate(self.messages[i].parts):
                if part.kind == "result":
                    yield self._result(i, k, part)

    def _result(self, i: int, k: int, part: Part) -> ResultAt:
        edit = self.edit_of(i, part.block)
        span: tuple[Position, Position] = ((i,), (i + 1,))
        if part.block >= 0:
            span = ((i, part.block), (i, part.block + 1))
        alone = len(self.messages[i].parts) == 1
        standing = self.messages[i].tokens if alone else self.span_tokens(span)
        return ResultAt(self, i, k, part, edit, edit.tokens_after if edit else standing, span)

    def is_kept(self, result: ResultAt) -> bool:
        """Whether the user wants this result left alone."""
        return self.keep is not None and self.keep(result)

    def replace(
        self, layer: str, action: Any, span: tuple[Position, Position], new: Sequence[Json], **about: Any
    ) -> Edit:
        """An edit of that span with its tokens counted; `about` holds the remaining fields of `Edit`."""
        return Edit(
            layer,
            action,
            *span,
            tuple(new),
            tokens_before=self.span_tokens(span),
            tokens_after=sum(map(self.count, new)),
            **about,
        )

    def span_tokens(self, span: tuple[Position, Position]) -> int:
        """What the source weighs there, uncalibrated."""
        start, end = span
        if len(start) == 1:
            return sum(m.tokens for m in self.messages[start[0] : end[0]])
        blocks = self.format.blocks(self.messages[start[0]].data) or []
        return sum(map(self.count, blocks[start[1] : end[1]]))

    def rendered(self) -> list[Json]:
        """The list as it would be sent, cache marks aside: a message is read once, and its marks move."""
        return apply(self.format, [m.data for m in self.messages], self.edits, move_marks=False)


def merge(edits: Sequence[Edit], planned: Sequence[Edit]) -> tuple[Edit, ...]:
    """Edits in effect after a plan: a planned one takes the place of those inside its span.

    Raises ValueError when two spans cross.
    """
    everything = [(e.start, e.end, n, e) for n, e in enumerate((*edits, *planned))]
    everything.sort(key=lambda x: x[:3])
    kept: list[tuple[Position, Position, int, Edit]] = []
    for new in everything:
        while kept and _overlap(kept[-1], new):
            before = kept[-1]
            if new[2] > before[2] and new[0] <= before[0] and before[1] <= new[1]:
                kept.pop()
            elif before[2] > new[2] and new[1] <= before[1]:
                break
            else:
                a, b = before[3], new[3]
                raise ValueError(f"edits cross: {a.layer} {a.start}..{a.end} and {b.layer} {b.start}..{b.end}")
        else:
            kept.append(new)
    return tuple(e for _, _, _, e in kept)


def _overlap(a: tuple[Position, Position, int, Edit], b: tuple[Position, Position, int, Edit]) -> bool:
    """Whether b, which does not begin before a, begins inside it; two insertions at one place do too."""
    return b[0] < a[1] or (a[0], a[1]) == (b[0], b[1])


def apply(
    fmt: Format,
    items: Sequence[Any],
    edits: Sequence[Edit],
    plain: Callable[[Any], Json] = lambda m: m,
    *,
    move_marks: bool = True,
) -> list[Any]:
    """The list with the edits made. Entries that no edit touches are the same objects.

    `plain` gives an entry as a dict (entries may be SDK objects). A cache mark inside a replaced span moves to the
    end of what replaces it, so marks never grow in number (Anthropic allows four).
    """
    out: list[Any] = []
    at = 0
    i = 0
    while i < len(edits):
        edit = edits[i]
        out.extend(items[at : edit.start[0]])
        if len(edit.start) == 1:
            if move_marks and edit.action != "repaired":  # mended ones keep their own
                out.extend(_with_mark(fmt, edit.replacement, items[edit.start[0] : edit.end[0]], plain))
            else:
                out.extend(edit.replacement)
            at = edit.end[0]
            i += 1
            continue
        first = i
        while i < len(edits) and edits[i].start[0] == edit.start[0] and len(edits[i].start) == 2:
            i += 1
        data = plain(items[edit.start[0]])
        out.append(fmt.with_blocks(data, _edited_blocks(fmt.blocks(data) or [], edits[first:i])))
        at = edit.start[0] + 1
    out.extend(items[at:])
    return out


def _edited_blocks(blocks: Sequence[Json], edits: Sequence[Edit]) -> list[Json]:
    out: list[Json] = []
    at = 0
    for edit in edits:
        out.extend(blocks[at : edit.start[1]])
        new = list(edit.replacement)
        mark = _last_mark(blocks[edit.start[1] : edit.end[1]])
        if mark is not None and new and isinstance(new[-1], dict):
            new[-1] = {**new[-1], "cache_control": mark}
        out.extend(new)
        at = edit.end[1]
    out.extend(blocks[at:])
    return out


def _last_mark(blocks: Iterable[Json]) -> Json | None:
    marks = [b["cache_control"] for b in blocks if isinstance(b, dict) and b.get("cache_control")]
    return marks[-1] if marks else None


def _with_mark(fmt: Format, new: Sequence[Json], old: Sequence[Any], plain: Callable[[Any], Json]) -> list[Json]:
    out = list(new)
    if not out or fmt.name == "responses":
        return out
    marks = (_last_mark(fmt.blocks(plain(m)) or ()) for m in reversed(old) if _may_be_marked(m))
    mark = next((m for m in marks if m is not None), None)
    blocks = fmt.blocks(out[-1]) if mark is not None else None
    if blocks and isinstance(blocks[-1], dict):
        out[-1] = fmt.with_blocks(out[-1], [*blocks[:-1], {**blocks[-1], "cache_control": mark}])
    return out


def _may_be_marked(message: Any) -> bool:
    """False for what is surely without a cache mark: nearly every message, and every call asks it of all."""
    content = message.get("content") if type(message) is dict else None
    if type(content) is not list:
        return type(content) is not str
    for block in content:  # noqa: SIM110
        if type(block) is not dict or "cache_control" in block:
            return True
    return False


def marked_as(fmt: Format, originals: Sequence[Json], given: Sequence[Json], edits: Sequence[Edit]) -> list[Json]:
    """The originals of an edited stretch with the cache marks that the edited one has now.

    A mark on what stands in an edit's place goes to the end of what it stands for, from where `apply` takes it back.
    """
    if fmt.name == "responses":
        return list(originals)
    if len(edits[0].start) == 1:
        bare = [with_mark(fmt, m, None) for m in originals]
        mark = _last_mark(b for m in given for b in fmt.blocks(m) or [])
        return [*bare[:-1], with_mark(fmt, bare[-1], mark)] if bare and mark is not None else bare
    old, new = fmt.blocks(originals[0]) or [], fmt.blocks(given[0]) or []
    blocks: list[Json] = []
    read = at = 0
    for edit in edits:
        blocks.extend(new[at : at + edit.start[1] - read])
        at += edit.start[1] - read
        inside = [without_mark(b) for b in old[edit.start[1] : edit.end[1]]]
        mark = _last_mark(new[at : at + len(edit.replacement)])
        if mark is not None and inside and isinstance(inside[-1], dict):
            inside[-1] = {**inside[-1], "cache_control": mark}
        blocks.extend(inside)
        at += len(edit.replacement)
        read = edit.end[1]
    return [fmt.with_blocks(originals[0], [*blocks, *new[at:]])]


def without_mark(block: Json) -> Json:
    """The block without its cache mark; the same object when it has none."""
    if isinstance(block, dict) and "cache_control" in block:
        return {k: v for k, v in block.items() if k != "cache_control"}
    return block


def with_mark(fmt: Format, message: Json, mark: Json | None) -> Json:
    """The message without its cache marks, but with this one at its end; the same object when nothing changes."""
    blocks = fmt.blocks(message)
    if not blocks:
        return message
    bare = [without_mark(b) for b in blocks]
    if mark is not None and isinstance(bare[-1], dict):
        bare[-1] = {**bare[-1], "cache_control": mark}
    return fmt.with_blocks(message, bare) if any(a is not b for a, b in zip(bare, blocks, strict=True)) else message
