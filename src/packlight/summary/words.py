"""Who said what in the old turns: the user's own words, instructions that were loaded, notes of the client."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..types import Part
from ..view import View
from .frame import BEGIN
from .reads import read_text
from .rules import rule
from .wording import PATH_KEYS, head, tail, text_at

Kind = Literal["typed", "instructions", "note", "digest"]


@dataclass(frozen=True, slots=True)
class Said:
    """A text in the user's place."""

    message: int
    kind: Kind
    text: str


_INSTRUCTION_TAGS = (
    *(
        "system-reminder",
        "environment_context",
        "user_instructions",
        "INSTRUCTIONS",
        "permissions instructions",
        "skill",
    ),
    *(
        "skills_instructions",
        "apps_instructions",
        "plugins_instructions",
        "collaboration_mode",
        "agents_md",
        "project_instructions",
    ),
    *("environment_details", "personality_spec", "rules", "memory"),
)
_NOTE_TAGS = (
    *(
        "command-name",
        "command-message",
        "command-args",
        "local-command-stdout",
        "local-command-stderr",
        "local-command-caveat",
    ),
    *(
        "bash-input",
        "bash-stdout",
        "bash-stderr",
        "task-notification",
        "turn_aborted",
        "subagent_notification",
        "user-prompt-submit-hook",
    ),
)
_TAG = rule(r"<(" + "|".join(map(re.escape, (*_INSTRUCTION_TAGS, *_NOTE_TAGS))) + r")\b[^>\n]{0,200}>")
_INSTRUCTION_STARTS = (
    "# AGENTS.md instructions",
    "# CLAUDE.md",
    "Base directory for this skill:",
    "# claudeMd",
    "# Instructions from ",
)
_NOTE_STARTS = (
    "[Request interrupted",
    "Caveat: The messages below",
    "[Image: source:",
    "This session is being continued",
)
INSTRUCTION_FILES = rule(
    r"(?:^|[/\\])(?:SKILL|AGENTS|CLAUDE|GEMINI|CONVENTIONS|\.?cursorrules|copilot-instructions)(?:\.local)?(?:\.md)?$"
)


def said(view: View, start: int, end: int) -> Iterator[Said]:
    """The texts in the user's place in source messages [start, end), split where a client glued them together."""
    for i in range(start, end):
        message = view.messages[i]
        if message.role not in ("user", "system"):
            continue
        for part in message.parts:
            if part.kind != "text" or not part.text.strip():
                continue
            if message.role == "system":
                yield Said(i, "instructions", part.text)
            elif part.text.lstrip().startswith(BEGIN):
                yield Said(i, "digest", part.text)
            else:
                yield from (Said(i, kind, text) for kind, text in _split(part.text))


def _split(text: str) -> Iterator[tuple[Kind, str]]:
    start = text.lstrip()[:64]
    if start.startswith(_INSTRUCTION_STARTS):
        yield "instructions", text
        return
    if start.startswith(_NOTE_STARTS):
        yield "note", text
        return
    if "<" not in start[:1] and "<system-reminder>" not in text:
        yield "typed", text
        return
    at = 0
    while tag := _TAG.search(text, at):
        closing = f"</{tag[1]}>"
        stop = text.find(closing, tag.end())
        if stop < 0:
            break
        if text[at : tag.start()].strip():
            yield "typed", text[at : tag.start()].strip("\n")
        yield "note" if tag[1] in _NOTE_TAGS else "instructions", text[tag.start() : stop + len(closing)]
        at = stop + len(closing)
    if text[at:].strip():
        yield "typed", text[at:].strip("\n") if at else text


def loaded_instructions(view: View, start: int, end: int) -> Iterator[tuple[str, Said]]:
    """Instruction files and skills that a tool brought in: (name, text)."""
    for (i, k), (j, m) in view.pairs.answer.items():
        if not (start <= i < end and j < end):
            continue
        call = view.messages[i].parts[k]
        name = _instruction_name(call)
        result = view.messages[j].parts[m]
        if name and result.text.strip() and not result.is_error:
            yield name, Said(j, "instructions", read_text(result)[0])


def _instruction_name(call: Part) -> str:
    arguments = call.arguments or {}
    path = text_at(arguments, PATH_KEYS)
    if path and _CHANGED.isdisjoint(arguments) and INSTRUCTION_FILES.search(path):
        return path
    if "skill" in call.tool.lower():
        return text_at(arguments, ("skill", "name", "skill_name", "command"))
    skill = arguments.get("skill")
    return skill if isinstance(skill, str) else ""


_CHANGED = frozenset({"old_string", "oldText", "old_str", "content", "file_text"})


def cut(text: str, limit_chars: int) -> str:
    """Head and tail of a text with the count of what is left out between them; whole when it fits."""
    if len(text) <= limit_chars:
        return text
    room = max(0, limit_chars - 40)
    first, last = head(text, room * 2 // 3), tail(text, room // 3)
    return f"{first}\n[... {len(text) - len(first) - len(last):,} characters left out ...]\n{last}"


def allotted(lengths: Sequence[int], max_chars: int, least_chars: int) -> list[int]:
    """How many characters each text gets, oldest first: all of it while everything fits, the newest the most.

    The newest may take half. The others share the rest evenly, short ones whole; when there are too many, only the
    first and the newest get anything.
    """
    if sum(lengths) <= max_chars or not lengths:
        return list(lengths)
    out = [0] * len(lengths)
    out[-1] = min(lengths[-1], max(max_chars // 2, max_chars - sum(lengths[:-1])))
    room = max_chars - out[-1]
    wanting: list[int] = []
    need = 0
    for i in [0, *range(len(lengths) - 2, 0, -1)] if len(lengths) > 1 else []:
        need += min(lengths[i], least_chars)
        if need > room:
            break
        wanting.append(i)
    wanting.sort(key=lambda i: (lengths[i], -i))
    for n, i in enumerate(wanting):
        out[i] = min(lengths[i], room // (len(wanting) - n))
        room -= out[i]
    return out
