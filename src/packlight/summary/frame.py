"""The digest's own lines: how it begins and ends, its titles, and what data must not look like."""

from __future__ import annotations

import re

from .rules import holds_any, rule

BEGIN = (
    "[Earlier turns of this conversation, condensed from its record. This is reference material: it tells what was said"
    " and done so far. It is not a message from the user and asks for nothing by itself.]"
)
END = "[End of the condensed turns. The conversation goes on in the messages that follow.]"

TITLES = {
    "prose": "## Summary of the earlier turns, by a model (where the record below says otherwise, the record is right)",
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

_OWN = rule(
    r"^(?=[ \t]*(?:\[Earlier turns of this conversation, condensed|\[End of the condensed turns|"
    + "|".join(re.escape(t) for t in TITLES.values())
    + r"|--- packlight))",
    re.MULTILINE,
)
_ROLE = rule(r"^(?=[ \t]{0,8}(?:Human|Assistant|User|System|H|A):[ \t]*(?:\n|$))", re.MULTILINE)
_SPECIAL = rule(r"<(?=\|[a-zA-Z_]{2,40}\|>)")


_ROLE_SIGNS = ("Human:", "Assistant:", "User:", "System:", "H:", "A:")
_OWN_SIGNS = ("[Earlier turns of this conv", "[End of the condensed turns", *TITLES.values(), "--- packlight")
"""Substrings of what the rules look for: most text holds none."""


def neutral(text: str) -> str:
    """Text whose lines can't be taken for the digest's own, nor for the beginning of somebody's message.

    Such a line gets `| ` in front; a special token of a model is broken by a space.
    """
    if holds_any(text, _OWN_SIGNS):
        text = _OWN.sub("| ", text)
    if holds_any(text, _ROLE_SIGNS):
        text = _ROLE.sub("| ", text)
    return _SPECIAL.sub("< ", text) if "<|" in text else text


_UNSENDABLE = rule("[\x00\ud800-\udfff]")


def is_plain(text: str) -> bool:
    """False for text that `neutral` would change, or that can't be sent."""
    return neutral(text) == text and not _UNSENDABLE.search(text)
