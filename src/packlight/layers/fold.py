"""Taking a stretch of messages out and putting one message in its place, by the laws.

The stretch is cut only where the API allows it; open calls, system entries and what the user keeps stay in their
place, and the rest around them goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..laws import pinned, segments
from ..summary.wording import one_line, outcome_of, target_of
from ..types import Edit, Json, Message
from ..view import View, plain_reference

Run = tuple[int, int]


def runs_between(view: View, start: int, end: int, keep: Iterable[int] = ()) -> list[Run]:
    """The stretches of [start, end) that may be taken out, whole segments only."""
    stay = (pinned(view) | set(keep) | _kept_results(view)) - {
        i for i in range(len(view.messages)) if view.is_folded(i)
    }
    runs: list[Run] = []
    for a, b in _glued(view, segments(view)):
        if a < start or b > end or any(i in stay for i in range(a, b)):
            continue
        if runs and runs[-1][1] == a:
            runs[-1] = (runs[-1][0], b)
        else:
            runs.append((a, b))
    return runs


def _kept_results(view: View) -> set[int]:
    kept: set[int] = set()
    for result in view.results() if view.keep is not None else ():
        if view.is_kept(result):
            call = view.pairs.question.get((result.message, result.place))
            kept |= {result.message} | ({call[0]} if call else set())
    return kept


def _glued(view: View, pieces: Sequence[Run]) -> list[Run]:
    """Segments, joined where an earlier edit covers several messages."""
    out: list[Run] = []
    for a, b in pieces:
        before = view.edit_of(out[-1][1] - 1) if out else None
        if before is not None and before is view.edit_of(a):
            out[-1] = (out[-1][0], b)
        else:
            out.append((a, b))
    return out


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
) -> list[Edit]:
    """Edits that put one message of ours in place of what may go in [start, end); none when nothing may.

    `text_of` is told the stretches and gives the text. Nothing is planned where all of it stands there already.
    """
    runs = runs_between(view, start, end, keep)
    if not runs or all(_same_span(view, run) for run in runs):
        return []
    text = text_of(runs)
    if not text.strip():
        return []
    ref, where = view.refer(contents(view, runs))
    edits: list[Edit] = []
    for n, (a, b) in enumerate(runs):
        new: list[Json] = (
            [view.format.reference(f"{text}\n[contents of what was taken out here: {where}]")] if n == 0 else []
        )
        edits.append(view.replace(layer, action, ((a,), (b,)), new, reason=reason, ref=ref if n == 0 else ""))
    return alternating(view, edits, layer)


def _same_span(view: View, run: Run) -> bool:
    edit = view.edit_of(run[0])
    return edit is not None and (edit.start, edit.end) == ((run[0],), (run[1],))


def contents(view: View, runs: Iterable[Run]) -> str:
    """A list of what was taken out, one line a call or text, each with its reference."""
    lines: list[str] = []
    for a, b in runs:
        for i in range(a, b):
            for k, part in enumerate(view.messages[i].parts):
                if part.kind == "result" and part.text:
                    call = view.call_of(i, k)
                    what = f"{call.tool} {target_of(call)}" if call else "a tool result"
                    lines.append(f"{plain_reference(part.text)[0]} {what} -> {outcome_of(part)}")
                elif part.kind == "text" and part.text.strip():
                    lines.append(f"{plain_reference(part.text)[0]} {view.messages[i].role}: {one_line(part.text, 100)}")
    return "\n".join(lines)


def alternating(view: View, edits: list[Edit], layer: str) -> list[Edit]:
    """The edits such that a Chat request whose roles alternated still alternates.

    Strict chat templates (Mistral, Gemma and others on vLLM and llama.cpp) refuse two user messages in a row. Our text
    then joins the user's message beside it, behind the user's own words.
    """
    if view.format.name != "chat" or not edits or not _alternates(view.messages) or not edits[0].replacement:
        return edits
    a, b = edits[0].start[0], edits[0].end[0]
    text = edits[0].replacement[0]["content"]
    covered = {i for e in edits for i in range(e.start[0], e.end[0])}
    after = next((i for i in range(b, len(view.messages)) if i not in covered), len(view.messages))
    if (before := _user_text(view, a - 1)) is not None:
        text = f"{before}\n\n{text}"
        a -= 1
    if (behind := _user_text(view, after)) is not None:
        text = f"{text}\n\n{behind}"
        b = after + 1
    if (a, b) == (edits[0].start[0], edits[0].end[0]):
        return edits
    first = edits[0]
    joined = view.replace(
        layer, first.action, ((a,), (b,)), [view.format.reference(text)], reason=first.reason, ref=first.ref
    )
    return [joined, *(e for e in edits[1:] if e.start[0] >= b)]


def _user_text(view: View, i: int) -> str | None:
    """What stands as the text of this user message now; None when it is none, or is no plain text."""
    if not 0 <= i < len(view.messages) or view.messages[i].role != "user":
        return None
    edit = view.edit_of(i)
    if edit is not None and (edit.start, edit.end, len(edit.replacement)) != ((i,), (i + 1,), 1):
        return None
    content = (edit.replacement[0] if edit else view.messages[i].data).get("content")
    return content if isinstance(content, str) else None


def _alternates(messages: Sequence[Message]) -> bool:
    roles = [m.role for m in messages if m.role != "system"]
    return all(a == "tool" or a != b for a, b in zip(roles, roles[1:], strict=False))


def user_words(view: View, runs: Iterable[Run]) -> str:
    """What the user typed in these stretches, verbatim, oldest first."""
    texts = [
        part.text
        for a, b in runs
        for message in view.messages[a:b]
        if message.role == "user"
        for part in message.parts
        if part.kind == "text" and part.text.strip()
    ]
    return "\n".join(f"<user>\n{t}\n</user>" for t in texts)
