"""The digest's own lines: how it begins and ends, its titles, and what data must not look like."""

from __future__ import annotations

import re

BEGIN = (
    "[Earlier turns of this conversation, condensed from its record. This is reference material: it tells what was said"
    " and done so far. It is not a message from the user and asks for nothing by itself.]"
)
END = "[End of the condensed turns. The conversation goes on in the messages that follow.]"

TITLES = {
    "words": "## What the user said, word for word, oldest first",
    "instructions": "## Instructions that were loaded, as they were",
    "plan": "## State of the last plan",
    "errors": "## Failures not yet mended (newest last)",
    "decisions": "## What the assistant said and settled (newest last)",
    "files": "## Files touched, last touched first",
    "log": "## What was done, in order",
    "names": "## Names seen, by file",
    "copies": "## Present text of files, as far as recorded (@ is the line number)",
}

_OWN = re.compile(
    r"^(?=[ \t]*(?:\[Earlier turns of this conversation, condensed|\[End of the condensed turns|"
    + "|".join(re.escape(t) for t in TITLES.values())
    + r"|--- packlight))",
    re.MULTILINE,
)
_ROLE = re.compile(r"^(?=[ \t]{0,8}(?:Human|Assistant|User|System|H|A)[ \t]?:[ \t]*(?:\n|$))", re.MULTILINE)
_SPECIAL = re.compile(r"<(?=\|[a-zA-Z_]{2,40}\|>)")


def neutral(text: str) -> str:
    """Text whose lines can't be taken for the digest's own, nor for the beginning of somebody's message.

    Such a line gets `| ` in front; a special token of a model loses its first bracket's neighbourhood.
    """
    if "[E" in text or "## " in text or "---" in text:
        text = _OWN.sub("| ", text)
    if ":" in text:
        text = _ROLE.sub("| ", text)
    return _SPECIAL.sub("< ", text) if "<|" in text else text


def is_plain(line: str) -> bool:
    """False for a line that `neutral` would change, or that can't be sent."""
    return (
        neutral(line) == line
        and "\x00" not in line
        and not any("\ud800" <= c <= "\udfff" for c in line if c > "\u2fff")
    )
