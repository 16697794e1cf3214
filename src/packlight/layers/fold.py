"""Taking a stretch of messages out and putting one message in its place, by the laws.

The stretch is cut only where the API allows it; open calls, system entries and what the user keeps stay in their
place, and the rest around them goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..laws import pinned, segments
from ..summary.wording import target_at
from ..types import Edit, Json
from ..view import View, plain_reference
from .keep import kept_messages, typed_messages

Run = tuple[int, int]
_GAP = "\n\n"
"""Between our text and a user's message that it has joined."""


def pieces_of(view: View) -> list[Run]:
    """`segments` of the source, worked out once."""
    known: list[Run] | None = view.memo.get("segments")
    if known is None:
        known = view.memo["segments"] = segments(view)
    return known


def runs_between(view: View, start: int, end: int, keep: Iterable[int] = ()) -> list[Run]:
    """The stretches of [start, end) that may be taken out, whole segments only."""
    held: set[int] | None = view.memo.get("pinned")
    if held is None:
        held = view.memo["pinned"] = pinned(view)
    stay = held | set(keep) | kept_messages(view)
    if view.edits:
        stay = {i for i in stay if not view.is_folded(i) or is_joined(view, i)}
    runs: list[Run] = []
    for a, b in pieces_of(view):
        if a < start or b > end or (stay and not stay.isdisjoint(range(a, b))):
            continue
        if runs and runs[-1][1] == a:
            runs[-1] = (runs[-1][0], b)
        else:
            runs.append((a, b))
    return _whole(view, runs) if view.edits else runs


def _whole(view: View, runs: list[Run]) -> list[Run]:
    """The stretches, each with the whole of what an earlier edit has taken out where it holds a part of that."""
    for edit in view.edits:
        if len(edit.start) == 1 and edit.end[0] - edit.start[0] > 1:
            core = range(edit.start[0] + is_joined(view, edit.start[0]), edit.end[0] - is_joined(view, edit.end[0] - 1))
            runs = [
                (min(a, core.start), max(b, core.stop)) if a < edit.end[0] and edit.start[0] < b and core else (a, b)
                for a, b in runs
            ]
    out: list[Run] = []
    for a, b in sorted(runs):
        if out and a <= out[-1][1]:
            out[-1] = (out[-1][0], max(b, out[-1][1]))
        else:
            out.append((a, b))
    return out


def is_joined(view: View, i: int) -> bool:
    """Whether this is a user's message at the edge of an edit, which our text has joined (see `alternating`)."""
    edit = view.edit_of(i)
    if edit is None or len(edit.start) != 1 or view.format.name != "chat" or view.messages[i].role != "user":
        return False
    own = view.messages[i].data.get("content")
    now = edit.replacement[0].get("content") if len(edit.replacement) == 1 else None
    if not own or not now or i not in (edit.start[0], edit.end[0] - 1) or edit.end[0] - edit.start[0] == 1:
        return False
    first = i == edit.start[0]
    if isinstance(own, str) and isinstance(now, str):
        return now.startswith(f"{own}{_GAP}") if first else now.endswith(f"{_GAP}{own}")
    blocks, standing = _contents([own, []]), _contents([now, []])
    return bool(standing[: len(blocks)] == blocks if first else standing[-len(blocks) :] == blocks)


def fold(
    view: View,
    layer: str,
    start: int,
    end: int,
    text_of: Callable[[list[Run]], str],
    *,
    action: str = "summarised",
    reason: str = "",
    keep: Iterable[int] = (),
    join: bool = True,
    again: bool = False,
) -> list[Edit]:
    """Edits that put one message of ours in place of what may go in [start, end); none when nothing may.

    `text_of` is told the stretches and gives the text. Nothing is planned where all of it stands there already,
    but with `again`. With `join` our text joins the user's message beside it where roles have to alternate.
    """
    runs = runs_between(view, start, end, keep)
    if not runs or (not again and stands(view, runs)):
        return []
    text = text_of(runs)
    if not text.strip():
        return []
    text, ref = with_contents(view, runs, text)
    edits: list[Edit] = []
    for n, (a, b) in enumerate(runs):
        new: list[Json] = [view.format.reference(text)] if n == 0 else []
        edits.append(view.replace(layer, action, ((a,), (b,)), new, reason=reason, ref=ref if n == 0 else ""))
    return alternating(view, edits, layer, join=join)


def stands(view: View, runs: Iterable[Run]) -> bool:
    """Whether earlier edits have taken out these very stretches."""
    return all(_same_span(view, run) for run in runs)


def _same_span(view: View, run: Run) -> bool:
    edit = view.edit_of(run[0])
    return edit is not None and edit.start <= (run[0],) and edit.end >= (run[1],) and len(edit.start) == 1


def with_contents(view: View, runs: Iterable[Run], text: str) -> tuple[str, str]:
    """The text that stands for these stretches, with the way to what was taken out; and the reference of that."""
    ref, where = view.refer(contents(view, runs))
    return text + (f"\n[contents of what was taken out here: {where}]" if where else ""), ref


def contents(view: View, runs: Iterable[Run]) -> str:
    """A list of what was taken out, one line a call or text, each with its reference; in files also its line there."""
    if view.transcript:
        head = f"Each text in full: {view.transcript}, one message a line."
        return "\n".join(
            [head, *(f"line {i + 1}: {line}" for a, b in runs for i in range(a, b) for line in _lines(view, i))]
        )
    known: dict[int, str] = view.memory.setdefault("contents", {})
    for a, b in runs:
        for i in range(a, b):
            if i not in known:
                known[i] = "\n".join(_lines(view, i))
    return "\n".join(lines for a, b in runs for i in range(a, b) if (lines := known[i]))


def _lines(view: View, i: int) -> Iterator[str]:
    """The references of a message's texts, and whose they are."""
    for k, part in enumerate(view.messages[i].parts):
        if part.text and (about := _about(view, i, k)):
            yield f"{plain_reference(part.text)[0]} {about}"


def _about(view: View, i: int, k: int) -> str:
    """Whose text it is, in a few words. Cheap on purpose: a long history has ten thousand of them."""
    part = view.messages[i].parts[k]
    if part.kind == "result":
        tool = call.tool if (call := view.call_of(i, k)) else "a tool result"
        size = f"{len(part.text):,} characters"
        return f"{tool} {target_at(view, i, k)} -> {'error, ' if part.is_error else ''}{size}"
    shown = " ".join(part.text[:400].split())[:100] if part.kind == "text" else ""
    return f"{view.messages[i].role}: {shown}" if shown else ""


# ---- roles that have to alternate


def alternating(view: View, edits: list[Edit], layer: str, *, join: bool = True) -> list[Edit]:
    """The edits such that a Chat request whose roles alternated still alternates.

    Strict chat templates (Mistral, Gemma and others on vLLM and llama.cpp) refuse two user messages in a row. What
    would stand side by side then becomes one message: the user's words, our text, the user's words. So does, without
    `join`, what an earlier edit has joined: its place is taken whole.
    """
    if view.format.name != "chat" or not edits or not ((join and alternates(view)) or _crossing(view, edits)):
        return edits
    groups: list[list[_Stretch]] = []
    for start, end, data in _standing(view, edits):
        if groups and groups[-1][-1][1] == start:
            groups[-1].append((start, end, data))
        else:
            groups.append([(start, end, data)])
    joined = [e for group in groups if (e := _joined(view, group, edits, layer))]
    covered = {e.start for j in joined for e in edits if j.start <= e.start and e.end <= j.end}
    return sorted([*joined, *(e for e in edits if e.start not in covered)], key=lambda e: e.start)


def _crossing(view: View, edits: Sequence[Edit]) -> bool:
    """Whether one of these edits takes only a part of what an earlier one stands for."""
    for new in edits:
        for end in (new.start[0], new.end[0] - 1):
            old = view.edit_of(end)
            if old is not None and len(old.start) == 1 and not (new.start <= old.start and old.end <= new.end):
                return True
    return False


_Stretch = tuple[int, int, "Json | None"]
"""Source messages [start, end) and the user's message that stands for them; None where nothing does."""


def _standing(view: View, edits: Sequence[Edit]) -> Iterator[_Stretch]:
    """What stands in the user's place once the edits are made; an earlier edit that one of them cuts is undone."""
    planned = {e.start[0]: e for e in edits}
    taken = {i for e in edits for i in range(e.start[0], e.end[0])}
    i = 0
    while i < len(view.messages):
        edit = planned.get(i) or view.edit_of(i)
        if edit is not None and i not in planned and len(edit.start) == 1:
            edit = edit if taken.isdisjoint(range(edit.start[0], edit.end[0])) else None
        if edit is None:
            if view.messages[i].role == "user":
                yield i, i + 1, view.messages[i].data
            i += 1
            continue
        start, end = (edit.start[0], edit.end[0]) if len(edit.start) == 1 else (i, i + 1)
        if len(edit.start) == 1 and not edit.replacement:
            yield start, end, None
        elif len(edit.replacement) == 1 and len(edit.start) == 1 and view.format.role(edit.replacement[0]) == "user":
            yield start, end, edit.replacement[0]
        i = max(end, i + 1)


def _joined(view: View, group: list[_Stretch], edits: Sequence[Edit], layer: str) -> Edit | None:
    """One edit for all of a group, when more than one message stands in it and one of them is new."""
    places = [n for n, (_, _, data) in enumerate(group) if data is not None]
    if not places:
        return None
    low, high = places[0], places[-1] + 1
    while low > 0 and _reaches(view, group[low][0], group[low][0] - 1):
        low -= 1
    while high < len(group) and _reaches(view, group[high - 1][1] - 1, group[high - 1][1]):
        high += 1
    group = group[low:high]
    if len(group) < 2:
        return None
    start, end = group[0][0], group[-1][1]
    inside = [e for e in edits if start <= e.start[0] and e.end[0] <= end]
    if not inside:
        return None
    standing = [data for _, _, data in group if data is not None]
    data = {**standing[0], "content": _contents([d.get("content") for d in standing])}
    first = next((e for e in inside if e.ref), inside[0])
    return view.replace(layer, first.action, ((start,), (end,)), [data], reason=first.reason, ref=first.ref)


def _reaches(view: View, i: int, other: int) -> bool:
    """Whether an earlier edit stands for both of these messages: then they can only be edited together."""
    edit = view.edit_of(i)
    return edit is not None and len(edit.start) == 1 and edit.start[0] <= other < edit.end[0]


def _contents(values: list[Any]) -> Json:
    if all(isinstance(v, str) for v in values):
        return _GAP.join(values)
    blocks: list[Json] = []
    for value in values:
        blocks.extend(value if isinstance(value, list) else [{"type": "text", "text": value}] if value else [])
    return blocks


def alternates(view: View) -> bool:
    """Whether no two messages of one side stand in a row in the source."""
    known: bool | None = view.memo.get("alternates")
    if known is None:
        roles = [m.role for m in view.messages if m.role != "system"]
        known = all(a == "tool" or a != b for a, b in zip(roles, roles[1:], strict=False))
        view.memo["alternates"] = known
    return known


def user_words(view: View, runs: Iterable[Run]) -> str:
    """What the user typed in these stretches, verbatim, oldest first."""
    typed = typed_messages(view)
    texts = [typed[i] for a, b in runs for i in range(a, b) if typed.get(i, "").strip()]
    return "\n".join(f"<user>\n{t}\n</user>" for t in texts)
