"""A digest that stands in the history as a plain message, because whoever kept it knows nothing of the journal.

Only a text in the user's place that begins with the digest's own first line counts; data inside a digest can't
look like one of its titles (`frame.neutral`), so its sections are told apart for certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .frame import BEGIN, END, TITLES


@dataclass(frozen=True, slots=True)
class Earlier:
    """What earlier digests tell that is found nowhere else any more."""

    words: list[str] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    plan: list[str] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """Path -> what was done to it, last touched first."""


def read_earlier(digests: Sequence[str]) -> Earlier:
    """The facts of all digests in a history, oldest first."""
    found = Earlier()
    for text in digests:
        told = sections(text)
        found.words.extend(_joined(told.get("words", "")))
        found.instructions.extend(p for p in [told.get("instructions", "")] if p)
        if plan := told.get("plan"):
            found.plan[:] = plan.split("\n")
        found.decisions.extend(told.get("decisions", "").splitlines())
        newer = dict(_file(line) for line in told.get("files", "").splitlines() if line and not line.startswith("["))
        kept = {**newer, **{k: v for k, v in found.files.items() if k not in newer}}
        found.files.clear()
        found.files.update(kept)
    return found


def _joined(words: str) -> list[str]:
    """The user's words of a digest as one text: where one message ended is not told for certain."""
    return [words] if words else []


def _file(line: str) -> tuple[str, str]:
    path, colon, what = line.rpartition(": ")
    return (path, what) if colon else (line, "touched")


def sections(text: str) -> dict[str, str]:
    """The bodies of a digest's sections, by their names in `frame.TITLES`."""
    text = text.lstrip().removeprefix(BEGIN)
    end = text.rfind(END)
    text = text[:end] if end >= 0 else text
    places = sorted((at, name) for name, title in TITLES.items() if (at := _line(text, title)) >= 0)
    out: dict[str, str] = {}
    for (at, name), (stop, _) in zip(places, [*places[1:], (len(text), "")], strict=False):
        out[name] = text[at + len(TITLES[name]) : stop].strip("\n")
    return out


def _line(text: str, line: str) -> int:
    """Where a line stands, or -1."""
    at = text.find("\n" + line + "\n")
    return at + 1 if at >= 0 else -1
