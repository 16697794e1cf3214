"""Old turns become the summary that the provider writes itself; what is kept behind it stays as it was.

Where signed thinking is bound to all before it (Claude 5.5, Fable 5.1 and later), only behind such a summary does the
thinking of kept turns stay valid: they follow the summarised ones directly and unchanged, begin in another role than
those end, and `system` and `tools` stay (platform.claude.com, compaction and preserved thinking, autumn 2026). So the
digest's facts stand behind it where nothing is bound yet to what is before: beside what was never sent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..driving import drive
from ..errors import SummaryError
from ..laws import MAX_CACHE_MARKS, is_held_by_provider, marks_of_head
from ..provider import ProviderCompaction
from ..summary import Digest, digest
from ..summary.audit import CUT_SHORT
from ..summary.digest import write
from ..summary.prompts import alone
from ..types import Edit, Json, SummaryJob, SummaryReply, SummaryRequest, Target
from ..view import View, apply, with_mark
from .compact_history import (
    MIN_SUMMARY_TOKENS,
    Steps,
    history_span,
    recent_tokens,
    room_beside,
    weight,
)
from .fold import pieces_of, with_contents
from .keep import kept_messages

NAME = "provider_history"
ANSWER_TOKENS = 8_192
"""Room for the provider's summary and the thinking before it: its documentation says several thousand."""
_WORDS = 1_500
"""Asked for where the caller's own instructions take the place of the provider's."""
_REPLY_ONLY = ("stream", "stop_sequences", "context_management", "output_format")
"""Of an Anthropic request: what only shapes a reply is refused where none is made."""
_COMPACT_TAKES = (
    "model",
    "instructions",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "extra_headers",
)
"""Of a Responses request, beside its input; headers where it is kept as arguments of the SDK."""
MAX_PARTS = 8

_Parts = Generator[SummaryRequest, SummaryReply, "tuple[int, list[Json], Exception | None]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderHistory:
    """Asks the provider for a compaction of the old turns; plans nothing, and says why, where it gives none.

    `instructions` take the place of the provider's own prompt (Anthropic; OpenAI takes none), as does a focus.
    """

    transport: ProviderCompaction
    keep_recent_tokens: int | None = None
    """As in `CompactHistory`."""
    max_summary_tokens: int = 40_000
    """Of the digest's facts beside it."""
    instructions: str = ""
    digest: Digest = field(default=digest, repr=False)

    def __call__(self, view: View, target: Target) -> list[Edit]:
        return drive(self.steps(view, target))[0]

    def steps(self, view: View, target: Target) -> Steps:
        if view.tokens <= target.target_tokens:
            return [], None
        _, last = history_span(view, recent_tokens(view, target, self.keep_recent_tokens))
        ends = cuts(view, last)
        if why := _unable(view, self.transport.format):
            return [], SummaryError(f"the provider was not asked to compact: {why}")
        done, items, error = yield from self._parts(view, ends, target)
        if not done:
            return [], error or SummaryError("the provider was not asked to compact: no place to cut off the old turns")
        edits = _swap(view, done, items, self._facts(view, done, target, items))
        if view.with_edits(edits).tokens >= view.tokens:
            return [], SummaryError("the provider's summary is not smaller than what it stands for")
        return edits, error

    def _parts(self, view: View, ends: Sequence[int], target: Target) -> _Parts:
        """How far the provider came, what it gave for that, and what ended it early.

        More than its window holds is summarised in parts, each together with the summary of those before.
        """
        now, done, items = view, 0, list[Json]()
        for _ in range(MAX_PARTS):
            room = target.budget_tokens - view.head_tokens * view.ratio
            fits = bisect_right(ends, room, key=lambda end: weight(now, [(0, end)]))
            if not fits or ends[fits - 1] <= done:
                break
            end = ends[fits - 1]
            reply, error = yield from self._asked(now, end, target)
            if error is not None:
                return done, items, error
            done, items = end, _without_ours(now, end, reply.items)
            now = view.with_edits(_swap(view, done, items, ""))
        return done, items, None

    def _asked(
        self, view: View, end: int, target: Target
    ) -> Generator[SummaryRequest, SummaryReply, tuple[SummaryReply, Exception | None]]:
        """The provider's answer, or what was wrong: one more try where more room or a plainer word may help."""
        usual = int(view.head.get("max_tokens") or 0)
        left = target.budget_tokens + usual - int(weight(view, [(0, end)]) + view.head_tokens * view.ratio)
        room = max(usual, min(ANSWER_TOKENS, left))
        own = alone(_WORDS, self.instructions, target.focus) if self.instructions or target.focus else ""
        for _ in range(2):
            body = _body(view, end, room, own)
            reply = yield SummaryRequest(system="", prompt="", max_tokens=room, transport=self.transport, body=body)
            if reply.error is not None or reply.items:
                return reply, reply.error
            if reply.stop_reason not in CUT_SHORT and not reply.called_tool:
                break
            room, own = max(room, min(2 * room, left)), own or (alone(_WORDS) if reply.called_tool else "")
        return reply, SummaryError(f"the provider gave no summary, it stopped with {reply.stop_reason!r}")

    def _facts(self, view: View, end: int, target: Target, items: Sequence[Json]) -> str:
        """The digest of the same turns, in the room that is left beside the provider's summary."""
        freed = weight(view, [(0, end)]) - sum(map(view.count, items)) * view.ratio
        least = min(MIN_SUMMARY_TOKENS, int(freed * 0.9))
        room = max(room_beside(target, view.tokens - freed, freed, self.max_summary_tokens), least)
        shown = [t for i in items if (t := _texts(view, i)) is not None]
        kept = frozenset(i for i in range(end) if _texts(view, view.messages[i].data) in shown)
        job = SummaryJob(view=view, start=0, end=end, max_tokens=room, visible_from=end, kept=kept)
        return write(self.digest, job)


def cuts(view: View, last: int) -> list[int]:
    """The places up to `last` where a provider may cut: no call is open there, and what follows can stay unchanged."""
    stay = {i for i in kept_messages(view) if not view.is_folded(i)}
    if view.format.name == "anthropic":  # what a system entry says would stop to hold
        stay |= {i for i, m in enumerate(view.messages) if m.role == "system"}
    stay |= {i for i, _ in view.pairs.unanswered}
    most = min([last, *stay])
    answered: dict[int, int] = {}
    for (i, _), (j, _) in view.pairs.answer.items():
        answered[i] = max(answered.get(i, 0), j)
    found, reach = [], 0
    for start, end in pieces_of(view):
        reach = max([reach, *(answered.get(i, 0) for i in range(start, end))])
        if reach < end <= most and _parts_roles(view, end) and not _stands_across(view, end):
            found.append(end)
    return found


def _parts_roles(view: View, end: int) -> bool:
    """Whether what ends before and what begins at this place are of two sides (Anthropic would merge them)."""
    if view.format.name != "anthropic" or end >= len(view.messages):
        return end < len(view.messages)
    return (view.messages[end - 1].role == "assistant") != (view.messages[end].role == "assistant")


def _stands_across(view: View, end: int) -> bool:
    """Whether an edit of ours stands across this place, or right at it."""
    return any(e.start[0] < end < e.end[0] or e.start[0] == e.end[0] == end for e in view.edits if len(e.start) == 1)


def _unable(view: View, format: str) -> str:
    """Why the provider can't compact this conversation; empty when it can."""
    head = view.head
    if view.format.name != format:
        return f"its client is for {format!r} conversations, this is a {view.format.name!r} one"
    if not head.get("model"):
        return "that takes the whole request with its model, not only the list"
    if is_held_by_provider(head):
        return "the provider holds a part of the conversation"
    management = head.get("context_management")
    edits = management.get("edits") if isinstance(management, Mapping) else None
    if any(str(e.get("type")).startswith("compact_") for e in edits or () if isinstance(e, Mapping)):
        return "the request has a threshold compaction, which excludes this one"
    return ""


def _before(view: View, end: int) -> list[Edit]:
    """Edits in effect among the first `end` messages."""
    return [e for e in view.edits if e.end[0] + (len(e.end) == 2) <= end]


def _without_ours(view: View, end: int, items: Sequence[Json]) -> list[Json]:
    """OpenAI gives back all that stood in the user's place, our earlier digests too: a new one takes their place."""
    if view.format.name != "responses":
        return list(items)
    last = [m for e in _before(view, end) for m in e.replacement[-1:] if isinstance(m, dict)]
    ours = [t for m in last if (t := _texts(view, m)) is not None]
    return [i for i in items if _texts(view, i) not in ours]


def _texts(view: View, message: Mapping[str, Json]) -> list[str] | None:
    """What a message says in the user's place; None for every other one."""
    return [p.text for p in view.format.parts(message)] if message.get("role") == "user" else None


def _body(view: View, end: int, room: int, instructions: str) -> dict[str, Json]:
    """The request for a compaction of the first `end` messages, as they were sent."""
    items = apply(view.format, [m.data for m in view.messages[:end]], _before(view, end), move_marks=False)
    if view.format.name == "responses":
        return {**{k: view.head[k] for k in _COMPACT_TAKES if view.head.get(k) is not None}, "input": items}
    body = {k: v for k, v in view.head.items() if k not in _REPLY_ONLY}
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping) and choice.get("type") in ("any", "tool"):
        del body["tool_choice"]
    output = body.get("output_config")
    if isinstance(output, Mapping):
        body["output_config"] = {k: v for k, v in output.items() if k not in ("format", "task_budget")}
    asked = {"type": "summarize", **({"instructions": instructions} if instructions else {})}
    return {**body, "messages": _marked(view, items), "max_tokens": room, "compaction": asked}


def _marked(view: View, items: Sequence[Json]) -> list[Json]:
    """With one cache mark, at the end: the beginning was read from the cache before, and is now once more."""
    bare = [with_mark(view.format, m, None) for m in items]
    parts = view.format.parts(bare[-1])
    is_free = marks_of_head(view.head) < MAX_CACHE_MARKS and not view.head.get("cache_control")
    if is_free and parts and parts[-1].kind != "thinking":
        bare[-1] = with_mark(view.format, bare[-1], {"type": "ephemeral"})
    return bare


def _swap(view: View, end: int, items: Sequence[Json], text: str) -> list[Edit]:
    """The edits that put the provider's summary in place of what it stands for, and the facts where they may stand."""
    text, ref = with_contents(view, [(0, end)], text)
    facts = [view.format.reference(text)] if text.strip() else []
    stay: list[Any] = []
    if view.format.name == "responses":  # its answer holds what users said, not what developers did
        stay = [m.data for i, m in enumerate(view.messages[:end]) if m.role == "system" and "role" in m.data]
    place = _facts_place(view)
    beside = [] if place else facts
    span = ((0,), (end,))
    reason = f"{end} messages"
    edits = [view.replace(NAME, "summarised", span, [*stay, *items, *beside], reason=reason, ref=ref)]
    if place and facts:
        edits.append(view.replace(NAME, "inserted", ((place,), (place,)), facts, reason="the facts beside it"))
    return edits


def _facts_place(view: View) -> int:
    """Where bound thinking lets facts stand: behind the results that were never sent, before what was typed since.

    0 where it binds nothing, nothing new was said, or a call is open: then they stand right behind the summary.
    """
    first = view.first_unseen
    binds = view.format.name == "anthropic" and view.binds_thinking
    if not binds or first >= len(view.messages) or view.pairs.unanswered:
        return 0
    unseen = range(first, len(view.messages))
    if any(view.messages[i].role == "assistant" for i in unseen):
        return 0
    holds_result = [i for i in unseen if any(p.kind == "result" for p in view.messages[i].parts)]
    return holds_result[-1] + 1 if holds_result else first


__all__ = ["ProviderHistory"]
