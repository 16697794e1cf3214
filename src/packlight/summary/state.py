"""What is still open: the last plan, failures that were not mended, what the assistant said it decided."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..types import Json
from ..view import View
from .files import FileEvent
from .rules import holds_any, rule
from .wording import error_lines, one_line, output_of, text_at

_LIST_KEYS = ("todos", "plan", "todo_list", "tasks", "items", "steps", "task_list")
_LISTS = frozenset(_LIST_KEYS)
_ITEM_KEYS = ("content", "step", "title", "task", "text", "description", "subject", "name")
_TASK_KEYS = frozenset({"taskId", "task_id", "subject"})
_DONE = frozenset({"completed", "complete", "cancelled", "canceled", "done", "deleted", "skipped", "closed"})
_NUMBER = rule(r"#(\d{1,6})\b")

Item = tuple[str, str]
"""(status, text)"""


def last_plan(view: View, start: int, end: int) -> list[str]:
    """The items of the last plan with their statuses, one line each; nothing when none of them is open."""
    items = _listed(view, start, end) or _tracked(view, start, end)
    if not any(status.lower() not in _DONE for status, _ in items):
        return []
    return [f"[{status or 'open'}] {text}" for status, text in items]


def _listed(view: View, start: int, end: int) -> list[Item]:
    """From a tool that is given the whole list each time."""
    for i in range(end - 1, start - 1, -1):
        for part in reversed(view.messages[i].parts):
            if part.kind == "call" and part.arguments and not _LISTS.isdisjoint(part.arguments):
                for key in _LIST_KEYS:
                    items = _items(part.arguments.get(key))
                    if items:
                        return items
    return []


def _items(value: Json) -> list[Item]:
    if isinstance(value, str) and "[ ]" in value:
        lines = [line.strip() for line in value.splitlines() if "[" in line]
        return [
            ("pending" if "[ ]" in line else "completed" if "[x]" in line.lower() else "in_progress", line)
            for line in lines
        ]
    if not isinstance(value, list) or not value or not all(isinstance(v, Mapping) for v in value):
        return []
    found = [(v.get("status"), text_at(v, _ITEM_KEYS)) for v in value]
    return [(s, t) for s, t in found if isinstance(s, str) and t] if all(isinstance(s, str) for s, _ in found) else []


def _tracked(view: View, start: int, end: int) -> list[Item]:
    """From tools that add and update one task at a time (Claude Code's TaskCreate and TaskUpdate)."""
    tasks: dict[str, list[str]] = {}
    for i in range(start, end):
        for k, part in enumerate(view.messages[i].parts):
            arguments = part.arguments if part.kind == "call" else None
            if not arguments or _TASK_KEYS.isdisjoint(arguments):
                continue
            number = arguments.get("taskId", arguments.get("task_id"))
            if isinstance(arguments.get("subject"), str) and number is None:
                tasks[_new_number(view, (i, k), len(tasks) + 1)] = ["pending", arguments["subject"]]
            elif str(number) in tasks:
                task = tasks[str(number)]
                status, subject = arguments.get("status"), arguments.get("subject")
                task[0] = status if isinstance(status, str) else task[0]
                task[1] = subject if isinstance(subject, str) and subject else task[1]
    return [(status, f"#{number} {text}") for number, (status, text) in tasks.items() if status != "deleted"]


def _new_number(view: View, place: tuple[int, int], otherwise: int) -> str:
    at = view.pairs.answer.get(place)
    found = _NUMBER.search(view.messages[at[0]].parts[at[1]].text[:200]) if at else None
    return found[1] if found else str(otherwise)


# ---- failures

_QUIET = rule(r"\A(?:grep|rg|egrep|ag|diff|cmp|test|\[|which|command -v|git diff|pgrep|find|ls)\b")
_CD = rule(r"\A\s*(?:cd|Set-Location)\s+(?:'[^']*'|\"[^\"]*\"|\S+)\s*(?:&&|;|\n)\s*")


def without_cd(command: str) -> str:
    """The command without the change of directory in front."""
    return (
        _CD.sub("", command)
        if command.lstrip()[:4].lower() in ("cd /", "cd ~", 'cd "', "set-") or "cd " in command[:12]
        else command
    )


def command_key(command: str) -> str:
    """What makes two runs the same try: the first command without `cd`, pipes and numbers."""
    command = without_cd(command[:600])
    first = _FIRST.split(command, maxsplit=1)[0]
    return " ".join(first.split()[:4])


_FIRST = rule(r"[|;&\n]|\d?>")


def open_errors(view: View, events: Sequence[FileEvent], limit: int, lines_each: int) -> list[str]:
    """The last failures that no later success of the same kind has answered: a line each, error lines behind."""
    settled: set[str] = set()
    found: list[str] = []
    for event in reversed(events):
        if event.result_message < 0 or len(found) >= limit:
            continue
        key = command_key(event.command) if event.action == "run" else f"{event.action} {event.path}"
        if event.ok or key in settled or event.hint:
            settled.add(key)
            continue
        settled.add(key)
        if told := _told(view, event, lines_each):
            found.append(told)
    return found[::-1]


def _told(view: View, event: FileEvent, lines_each: int) -> str:
    text = output_of(view.messages[event.result_message].parts[event.result_place])
    command = without_cd(event.command)
    if event.action == "run" and _QUIET.match(command) and len(text) < 80:
        return ""
    if len(text) > 60_000:
        text = text[:20_000] + "\n" + text[-40_000:]
    lines = error_lines(text, lines_each) or [line for line in text.splitlines() if line.strip()][-2:]
    title = f"$ {one_line(command, 160)}" if event.action == "run" else f"{event.action} {event.path}"
    return "\n".join([title, *(f"    {one_line(line, 240)}" for line in lines)])


# ---- what the assistant said

_DECIDES = rule(
    r"\b(?:decided|decision|instead of|will use|won't|will not|must not|should not|chose|going with|the plan is"
    r"|root cause|turns out|the (?:problem|issue|bug|fix) is|because|agreed|conclusion|important)\b"
    r"|决定|改用|因为|结论|根因|原因是|計画|理由",
    re.I,
)
_SIGNS = (
    *(
        "ecided",
        "ecision",
        "instead of",
        "will use",
        "won't",
        "will not",
        "must not",
        "should not",
        "chose",
        "oing with",
    ),
    *("plan is", "oot cause", "urns out", "roblem is", "ssue is", "bug is", "fix is", "ecause", "greed", "onclusion"),
    *("mportant", "决定", "改用", "因为", "结论", "根因", "原因是", "計画", "理由"),
)
"""A substring search costs far less than the rule, which most texts would fail."""
_SENTENCE = rule(r"[^\n.!?。！？]{12,400}(?:[.!?。！？](?=\s|$)|\n|$|(?<=[。！？]))")
_PASSING = rule(
    r"(?:Now,? |OK,? |Good[.,!] |Perfect[.,!] |Great[.,!] |Next,? |First,? )?(?:let me|let's|I'll|I will|now)\b", re.I
)
_MAX_STATEMENTS = 600


def decisions(view: View, start: int, end: int, max_chars: int) -> list[str]:
    """What the assistant said when it ended a turn, and sentences in which it settled something; oldest first.

    Readable thinking counts where a message says nothing else: new models say there what they do. What merely
    announces the next step stands in the log.
    """
    out: list[str] = []
    room, answers_room = max_chars, max_chars * 2 // 3
    seen: set[str] = set()
    known: dict[str, str] = view.memory.setdefault("settled", {})
    for n, (text, is_answer) in enumerate(_statements(view, start, end)):
        if room < 60:
            break
        whole = n < 2 or (is_answer and answers_room > 0)
        told = one_line(text, min(700, room)) if whole else _settled(known, text, min(300, room))
        if told and told not in seen:
            seen.add(told)
            out.append(told)
            room -= len(told) + 3
            answers_room -= len(told) if whole else 0
    return out[::-1]


def _statements(view: View, start: int, end: int) -> Iterator[tuple[str, bool]]:
    """What the assistant said, newest first, and whether that ended a turn."""
    told = 0
    for i in range(end - 1, start - 1, -1):
        message = view.messages[i]
        if message.role != "assistant" or told > _MAX_STATEMENTS:
            continue
        texts = [p.text for p in message.parts if p.kind == "text" and p.text.strip()]
        texts = texts or [p.text for p in message.parts if p.kind == "thinking" and p.text.strip()]
        told += len(texts)
        ends = i + 1 >= len(view.messages) or view.messages[i + 1].role == "user"
        is_answer = ends and not any(p.kind == "call" for p in message.parts)
        yield from ((text, is_answer) for text in reversed(texts))


def _settled(known: dict[str, str], text: str, limit_chars: int) -> str:
    """The sentence in which a text settles something; looked for once, most have none."""
    if text not in known:
        known[text] = _sentence(text[:3_000])
    return one_line(known[text], limit_chars)


def _sentence(text: str) -> str:
    if not holds_any(text, _SIGNS):
        return ""
    found = (s[0] for s in _SENTENCE.finditer(text) if _DECIDES.search(s[0]))
    return next((s for s in found if not _PASSING.match(s.strip())), "")
