"""What git does to the files of a working tree; most of its commands do nothing to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .effect import Effect, moved, operands, removed
from .rules import rule
from .shell import Command, joined

_UP_TO_DATE = rule(r"[Aa]lready up[ -]to[ -]date|[Cc]urrent branch \S{1,200} is up to date")
_SAME_BRANCH = rule(r"^Already on '", re.MULTILINE)
_ALL_VERBS = frozenset({"merge", "pull", "rebase", "cherry-pick", "revert", "am", "clean", "bisect", "read-tree"})
_FILE_NAME = rule(r"\.[A-Za-z]\w{0,7}\Z")


def git(command: Command, words: Sequence[str], output: str) -> Iterator[Effect]:
    rest = list(words[1:])
    folder = command.folder
    while rest and rest[0].startswith("-"):
        if rest[0] in ("-C", "-c") and len(rest) > 1:
            folder = joined(folder, rest[1]) if rest[0] == "-C" else folder
            del rest[0]
        del rest[0]
    if not rest:
        return
    verb, rest = rest[0], rest[1:]
    at = Command(rest, folder=folder)
    if verb == "rm" and "--cached" not in rest:
        yield from removed(at, ["rm", *rest])
    elif verb == "mv":
        yield from moved(at, ["mv", *rest])
    elif verb == "stash":
        yield from _stashed(folder, rest, output)
    elif (files := _git_files(verb, rest)) is None or "." in files:
        yield from _all_changed(verb, rest, folder, output)
    else:
        for path in files:
            yield Effect("change", joined(folder, path))


_STAT = rule(r" *(?:\d+ ?[+-]*|Bin [^\n]{0,80})\Z")
_STAT_SUM = rule(r"^ (\d{1,6}) files? changed", re.MULTILINE)


def _listed(output: str) -> list[str]:
    """The files in what git prints of the changes that a merge or a pull brought; empty when not all are told."""
    sums = _STAT_SUM.findall(output)
    parts = [line.partition(" | ") for line in output.split("\n") if line[:1] == " " and " | " in line]
    files = [name.strip() for name, _, rest in parts if _STAT.match(rest)]
    is_whole = len(sums) == 1 and int(sums[0]) == len(files) and "CONFLICT" not in output
    return files if is_whole and not any("=>" in file for file in files) else []


def _all_changed(verb: str, rest: Sequence[str], folder: str, output: str) -> Iterator[Effect]:
    """A git command that sets the whole tree: unless its output tells that it did not, or which files it changed."""
    output = output[:200_000]
    if verb in ("checkout", "switch"):
        if not _SAME_BRANCH.search(output) or "Switched to" in output:
            yield Effect("all", folder)
    elif verb == "rebase" and "--autosquash" in rest and "Successfully rebased" in output and "CONFLICT" not in output:
        return  # the same changes in other commits
    elif not _UP_TO_DATE.search(output):
        files = _listed(output) if verb in ("merge", "pull") else []
        if not files:
            yield Effect("all", folder)
        for file in files:
            yield Effect("change", file.removeprefix("...").lstrip("/"))


def _stashed(folder: str, rest: Sequence[str], output: str) -> Iterator[Effect]:
    verb = next((w for w in rest if not w.startswith("-")), "push")
    if verb in ("pop", "apply"):
        yield Effect("all" if "CONFLICT" in output else "unstash", folder)
    elif verb in ("push", "save") and "No local changes" not in output:
        files = rest[rest.index("--") + 1 :] if "--" in rest else operands(["", *rest], "-m --message")[1:]
        yield Effect("stash", folder, "\n".join(joined(folder, file) for file in files if verb == "push"))
    elif verb == "branch":
        yield Effect("all", folder)


def _git_files(verb: str, rest: Sequence[str]) -> Sequence[str] | None:
    """The files of the working tree that a git command sets anew; None for all of them."""
    flags = {w for w in rest if w.startswith("-")}
    behind = rest[rest.index("--") + 1 :] if "--" in rest else None
    plain = [w for w in rest if not w.startswith("-")]
    if verb in _ALL_VERBS:
        return None
    if verb == "reset":
        return None if flags & {"--hard", "--merge", "--keep"} else ()
    if verb == "apply":
        return () if flags & {"--cached", "--stat", "--check", "--numstat", "--summary"} else None
    if verb == "restore":
        if flags & {"--staged", "-S"} and not flags & {"--worktree", "-W"}:
            return ()
        return behind if behind is not None else operands(["", *rest], "-s --source") or None
    if verb == "switch":
        return () if flags & {"-c", "-C", "--create"} and len(plain) < 2 else None
    return _checked_out(flags, plain, behind) if verb == "checkout" else ()


def _checked_out(flags: set[str], plain: Sequence[str], behind: Sequence[str] | None) -> Sequence[str] | None:
    if behind:
        return behind
    if flags & {"-b", "-B", "--orphan"}:
        return () if len(plain) < 2 and "-B" not in flags else None
    if flags & {"--ours", "--theirs", "-p"}:
        return plain or None
    if len(plain) > 1:
        return plain[1:] if not _FILE_NAME.search(plain[0]) else plain
    return plain if plain and _FILE_NAME.search(plain[0]) else None


def github(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    if words[1:3] == ["pr", "checkout"] or (words[1:3] == ["pr", "merge"] and {"-d", "--delete-branch"} & set(words)):
        yield Effect("all", command.folder)
