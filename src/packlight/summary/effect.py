"""What is said of a shell command that changes files, and the commands that move and remove them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from .shell import Command, joined

Kind = Literal[
    "write", "append", "replace", "copy", "delete", "change", "format", "script", "named", "all", "stash", "unstash"
]


PATHLESS = frozenset({"all", "script", "named", "stash", "unstash"})
"""What is done to files that the command does not name."""


@dataclass(slots=True)
class Effect:
    """One thing that a command does to files."""

    kind: Kind
    """`change`: the text of `path` is no longer known. `format`: the lines stay, mostly; their numbers do not.
    `script`: a program that stands in `path` is run. `named`: the text of the files that `text` names is no longer
    known; `all`: that of every file in the tree around `path`. `stash`: such files are put aside, those that `text`
    lists or all; `unstash`: they come back."""
    path: str = ""
    """From where the whole line runs; for a format, empty when every file is meant."""
    text: str = ""
    old: str = ""
    """What a replacement replaces, in each line; for a copy, the path that it is taken from."""
    everywhere: bool = False
    """Whether every place in a line is replaced, not only the first."""
    line: int = 0
    """The only line that is changed; 0 when any may be."""
    is_first: bool = False
    """Whether nothing that may fail came before it in the line."""


def operands(words: Sequence[str], valued: str = "") -> list[str]:
    """The words behind the name that are no options; `valued` options have a word of their own behind them."""
    out: list[str] = []
    skip = plain = False
    for word in words[1:]:
        if skip:
            skip = False
        elif plain or not word.startswith("-") or word == "-":
            out.append(word)
        elif word == "--":
            plain = True
        elif valued and word in valued.split():
            skip = True
    return out


def removed(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    for path in operands(words):
        yield Effect("delete", joined(command.folder, path))


def moved(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    for effect in copied(command, words):
        yield effect
        yield Effect("delete", effect.old)


def copied(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    paths = operands(words, "-m -o -g -S")
    if len(paths) < 2:
        return
    to = paths[-1]
    for path in paths[:-1]:
        base = path.rstrip("/").rpartition("/")[2]
        into = len(paths) > 2 or to.endswith("/") or to in (".", "..") or ("." in base and "." not in to[-20:])
        target = f"{to.rstrip('/')}/{base}" if into else to
        kind: Kind = "change" if "*" in path or "-r" in words or "-R" in words else "copy"
        yield Effect(kind, joined(command.folder, target), old=joined(command.folder, path))
