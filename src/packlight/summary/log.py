"""The log: one line for each thing that was said or done, the newest ones while they fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from ..types import Part
from ..view import View
from .files import FileEvent
from .state import without_cd
from .wording import TARGET_CHARS, command_of, is_failure, one_line, outcome_of, output_of, target_of
from .words import Said

SAID_CHARS = 90
COMMAND_CHARS = 80
_MARK_CHARS = 18
"""Of a line of references beside them."""
_REPORT_KEYS = ("prompt", "task", "url", "query", "question")


def log_lines(
    lines: Iterable[str], max_chars: int, marks: Sequence[str], earlier: Callable[[list[str]], str]
) -> list[str]:
    """The newest of the lines, oldest first; when they do not all fit, `earlier` says so.

    `marks` are the references that stand in lines of their own among them, newest first (`marks_of`). They have first
    claim on the room, up to half of it: those of lines left out come with what `earlier` says.
    """
    kept: list[str] = []
    half, room = max_chars // 2, max_chars - 60
    marks = [
        mark for mark, total in zip(marks, accumulate(len(m) + _MARK_CHARS for m in marks), strict=True) if total < half
    ]
    room -= sum(len(mark) + _MARK_CHARS for mark in marks)
    shown = 0
    for line in lines:
        if shown < len(marks) and line == _mark(marks[shown]):
            shown += 1
        elif (room := room - len(line) - 1) < 0:
            kept.append(earlier(marks[shown:][::-1]))
            break
        kept.append(line)
    return kept[::-1]


def marks_of(refs: Iterable[tuple[int, str]]) -> dict[int, str]:
    """By the source message behind whose line they stand: the references of all up to there, the oldest first."""
    found: dict[int, list[str]] = {}
    for message, ref in refs:
        found.setdefault(message, []).append(f"ref {ref}")
    return {message: ", ".join(names) for message, names in found.items()}


def newest_first(
    view: View,
    events: Sequence[FileEvent],
    said: Sequence[Said],
    start: int,
    end: int,
    report_chars: int,
    marks: Mapping[int, str],
) -> Iterator[str]:
    """A line for each thing that was said or done in source messages [start, end), newest first."""
    by_message: dict[int, list[Said]] = {}
    for text in said:
        by_message.setdefault(text.message, []).append(text)
    return _joined(_backward(view, events, by_message, start, end, report_chars, marks))


def earlier_actions(view: View, start: int, end: int, marks: Sequence[str]) -> str:
    """The line that stands for the lines left out."""
    calls = sum(p.kind == "call" for m in view.messages[start:end] for p in m.parts)
    whole = f", whole they are {', '.join(marks)}" if marks else ""
    return f"(the newest of {calls:,} actions; earlier ones are not listed{whole})"


def _mark(refs: str) -> str:
    return f"(whole: {refs})"


def _backward(
    view: View,
    events: Sequence[FileEvent],
    by_message: Mapping[int, list[Said]],
    start: int,
    end: int,
    report_chars: int,
    marks: Mapping[int, str],
) -> Iterator[tuple[str, str]]:
    """(head, rest) of each line, newest first; edits in a row with the same head are one line."""
    done = len(events)
    for i in range(end - 1, start - 1, -1):
        if i in marks:
            yield _mark(marks[i]), ""
        for text in reversed(by_message.get(i, ())):
            if text.kind in ("typed", "note"):
                yield f"{'user' if text.kind == 'typed' else 'note'}: {one_line(text.text, SAID_CHARS)}", ""
        message = view.messages[i]
        if message.role != "assistant":
            continue
        spoken = any(p.kind == "text" and p.text.strip() for p in message.parts)
        for k in range(len(message.parts) - 1, -1, -1):
            part = message.parts[k]
            if part.kind == "call":
                last = _behind(events, (i, k), done)
                done = _behind(events, (i, k - 1), last)
                yield from _call_line(view, part, (i, k), events[done:last], report_chars)
            elif part.text.strip() and (part.kind == "text" or (part.kind == "thinking" and not spoken)):
                yield f"said: {one_line(part.text, SAID_CHARS)}", ""


def _behind(events: Sequence[FileEvent], place: tuple[int, int], end: int) -> int:
    """How many of the first `end` events, which are in order, belong to calls up to this place."""
    while end and (events[end - 1].message, events[end - 1].place) > place:
        end -= 1
    return end


def _call_line(
    view: View, part: Part, place: tuple[int, int], events: Sequence[FileEvent], report_chars: int
) -> Iterator[tuple[str, str]]:
    at = view.pairs.answer.get(place)
    result = view.messages[at[0]].parts[at[1]] if at else None
    if result is None:
        failed, outcome = False, "done by the provider" if part.server else "no answer"
    else:
        failed = not events[0].ok if events else is_failure(result)
        outcome = outcome_of(result, failed)
    edits = [e for e in events if e.action in ("edit", "write", "delete") and not e.hint]
    command = command_of(part)
    if edits and (not command or "*** Begin Patch" in command):
        for event in reversed(edits):
            yield _edit_line(event, outcome if failed or result is None else "")
    elif command:
        yield f"$ {one_line(without_cd(command), COMMAND_CHARS)} -> {one_line(outcome, 100 if failed else 60)}", ""
    elif events and events[0].action == "read" and not failed:
        event = events[0]
        where = f":{event.offset or 1}{f'+{event.limit}' if event.limit else ''}" if event.offset or event.limit else ""
        yield f"read {_short(event.path)}{where} -> {outcome}", ""
    else:
        head = one_line(f"{part.tool} {target_of(part)}", TARGET_CHARS + 40)
        yield f"{head} -> {_report(part, result, outcome, report_chars)}", ""


def _edit_line(event: FileEvent, failure: str) -> tuple[str, str]:
    path = _short(event.path)
    if failure:
        return f"{event.action} {path} -> {failure}", ""
    if event.action == "edit":
        return f"edit {path}", f"-{_lines(event.old)}+{_lines(event.new)}"
    return f"{event.action} {path}" + (f" {_lines(event.new)} lines" if event.action == "write" else ""), ""


def _short(path: str) -> str:
    """The last three names of a path: the whole of it stands among the files."""
    return one_line("/".join(path.replace("\\", "/").split("/")[-3:]), 160, keep_end=True)


def _lines(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def _report(part: Part, result: Part | None, outcome: str, report_chars: int) -> str:
    """A report of a sub-agent or a page is quoted: nothing else holds what it found."""
    arguments = part.arguments or {}
    if result is None or not any(isinstance(arguments.get(k), str) for k in _REPORT_KEYS) or len(result.text) < 120:
        return outcome
    return one_line(output_of(result), report_chars) if report_chars > 120 else outcome


def _joined(lines: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Edits in a row to one file on one line. The lines come newest first."""
    head, rest = "", list[str]()
    for line, more in lines:
        if more and line == head and len(rest) < 12:
            rest.append(more)
            continue
        if head:
            yield " ".join([head, ", ".join(rest[::-1])]).rstrip()
        head, rest = line, [more] if more else []
    if head:
        yield " ".join([head, ", ".join(rest[::-1])]).rstrip()
