"""The text of a file in the result of a read, without what the tool puts around it."""

from __future__ import annotations

import re

from ..types import Part
from .rules import rule
from .wording import clean

_NUMBERED = rule(r" {0,8}(\d{1,7})(?:→|\t| ?\| ?|: |\. )")
_LISTED = rule(r"^ {0,8}(\d{1,7})(?:→|\t| ?\| ?|: |\. )(.*)$", re.MULTILINE)
_NOTES = rule(
    r"\n{1,3}(?:\[(?:Showing lines|\d[\d,]* more lines)[^\n]*\]|\.\.\. \(\d[\d,]* more lines not shown[^\n]*\)"
    r"|<system-reminder>.*?</system-reminder>)\s*\Z",
    re.S,
)
_NOTE_SIGNS = ("\n[Showing lines", "\n<system-reminder>", " more lines in file", " more lines not shown")
_FRAME = rule(
    r"\A\n?(?:Here's the (?:result of running|content)[^\n]*\n|<file>\n|\[File: [^\n]*\]\n"
    r"|<system>[^\n]{0,300}</system>\n"
    r"|<path>[^\n]*</path>\n<type>file</type>\n<content>\n|<persisted-output>\n[^\n]*\n\nPreview[^\n]*\n"
    r"|IMPORTANT: The file content has been truncated\.\nStatus: Showing lines (\d{1,9})-[^\n]*\nAction:[^\n]*\n\n*"
    r"(?:--- FILE CONTENT[^\n]*\n)?)"
)
"""SWE-agent and OpenHands, opencode, Kimi, Claude Code's preview of a large result, Gemini CLI."""
_FRAME_ENDS = (
    *("(End of file", "(File has more lines", "(Output capped"),
    *("</file>", "</content>", "...\n</persisted-output>"),
)


def read_text(result: Part) -> tuple[str, int]:
    """The file's own text in the result of a read, and the number of its first line (0 when it tells none).

    Line numbers in front, notes behind and frames around are taken off.
    """
    text = _without_notes(result.text)
    start = 0
    if frame := _FRAME.match(text):
        start = int(frame[1] or 0)
        text = _without_end(text, frame.end())
    first = _NUMBERED.match(text)
    if not first:
        return text, start
    text = text.removesuffix("\n")
    listed = _LISTED.findall(text)
    begin = int(first[1])
    if len(listed) != text.count("\n") + 1 or any(int(n) != begin + i for i, (n, _) in enumerate(listed)):
        return text, start  # no listing after all: a table, a log
    if first[0].endswith(". ") and begin == 1 and len(listed) < 9:
        return text, start  # a list of steps
    return "\n".join(line for _, line in listed), begin


def _without_end(text: str, begin: int) -> str:
    """The text from here on, without what a frame puts behind it."""
    end = min(
        (at for sign in _FRAME_ENDS if (at := text.rfind("\n" + sign, max(begin, len(text) - 400))) >= 0), default=-1
    )
    if end < 0:
        return text[begin:]
    is_cut = text.startswith("...", end + 1)
    text = text[begin:end].rstrip("\n")
    return text.rpartition("\n")[0] if is_cut else text  # cut anywhere in its last line


def _without_notes(text: str) -> str:
    if "\r" in text or "\x00" in text:
        text = clean(text)
    if text.rstrip()[-1:] not in ("]", ">", ")"):  # as every note ends
        return text
    for _ in range(4):
        cut = max(map(text.rfind, _NOTE_SIGNS))
        if cut < 0 or len(text) - cut > 20_000:
            return text
        start = max(0, cut - 40)
        shorter = text[:start] + _NOTES.sub("", text[start:])
        if shorter == text:
            return text
        text = shorter
    return text
