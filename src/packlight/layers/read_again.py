"""A file that is read again after its text was taken out: the text, where the agent only says that nothing changed.

Some agents remember what they have read, and answer a second read of an unchanged file by pointing at the first. They
do not know that it was taken out since.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..summary.wording import target_at
from ..types import Edit, Target
from ..view import Place, ResultAt, View

NAME = "read_again"
_POINTERS = (
    # Claude Code 2.1, as its own code knows them
    "File unchanged since last read.",
    "Wasted call \u2014 file unchanged since your last Read.",
    "<system-reminder>This file is already in your context",
)


class ReadAgain:
    """Puts the earlier text in place of an unseen result that only points to it, unless it still stands there.

    The one layer that makes a request larger; a text that would not fit stays where it is.
    """

    def __call__(self, view: View, target: Target) -> list[Edit]:
        edits: list[Edit] = []
        for result in view.results(view.first_unseen):
            if result.edit is None and is_pointer(result.part.text) and (edit := _restored(view, result)):
                room = target.budget_tokens - view.with_edits([*edits, edit]).tokens
                edits += [edit] if room >= 0 else []
        return edits


def is_pointer(text: str) -> bool:
    return text.lstrip().startswith(_POINTERS)


def _restored(view: View, result: ResultAt) -> Edit | None:
    earlier = next(_earlier(view, result), None)
    if earlier is None or _stands(view, earlier):
        return None
    text = view.messages[earlier[0]].parts[earlier[1]].text
    new = view.format.replace_result(view.messages[result.message].data, result.part, text)
    if new is None:
        return None
    call = result.call
    return view.replace(
        NAME,
        "restored",
        result.span,
        [new],
        reason="it was taken out of the conversation, and the agent only says that it has not changed",
        call_id=call.call_id if call else "",
        tool=result.tool,
        path=target_at(view, result.message, result.place),
    )


def _earlier(view: View, result: ResultAt) -> Iterator[Place]:
    """The results of the same call before it, newest first; then those of other parts of the same target."""
    same: list[Place] = []
    near: list[Place] = []
    target = target_at(view, result.message, result.place)
    for i in range(result.message - 1, -1, -1):
        for k, part in enumerate(view.messages[i].parts):
            if part.kind != "result" or part.is_error or not part.text or is_pointer(part.text):
                continue
            call = view.call_of(i, k)
            if call is None or call.tool != result.tool or target_at(view, i, k) != target:
                continue
            (same if call.arguments == result.arguments else near).append((i, k))
    yield from same
    yield from near


def _stands(view: View, place: Place) -> bool:
    i, k = place
    return not view.is_folded(i) and view.edit_of(i, view.messages[i].parts[k].block) is None
