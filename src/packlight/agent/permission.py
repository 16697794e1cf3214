"""What the agent may do unasked, what it asks for, and what it never does.

A seat belt, no sandbox: a command is read as text, and whoever allows one trusts what it runs. What can be seen to
only look inside the working folder goes through; all else asks.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

Ask = Callable[[str, str], str]
"""Is given what is to be done and what "always" would mean; answers `yes`, `no` or `always`."""


class Refused(Exception):
    """The user, or the list below, does not allow it; the text is for the model."""


_DEVICE = r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper)"
_SYSTEM = r"(?:/|~|\$\{?HOME\}?|/(?:bin|boot|dev|etc|home|lib|lib64|opt|proc|root|sbin|sys|usr|var)(?:/\*)?)[\"']?/?\*?"
_DENIED: tuple[tuple[str, str], ...] = (
    ("removes a system or home folder",
     rf"\brm\b(?=[^;&|\n]*\s-(?:-recursive\b|\w*[rR]))[^;&|\n]*\s[\"']?{_SYSTEM}[\"']?(?=[\s;&|)]|$)"),
    ("removes without the guard of the root folder", r"--no-preserve-root"),
    ("formats or overwrites a disk",
     rf"\bmkfs(?:\.\w+)?\b|\bwipefs\b|\bdd\b[^|;&]*\bof=[\"']?{_DEVICE}|>\s*[\"']?{_DEVICE}"),
    ("changes rights of the whole system",
     rf"\bch(?:mod|own|grp)\b(?=[^;&|\n]*\s-\w*R)[^;&|\n]*\s[\"']?{_SYSTEM}[\"']?(?=[\s;&|)]|$)"),
    ("is a fork bomb", r":\s*\(\s*\)\s*\{.*\|.*&\s*\}\s*;"),
    ("switches the machine off", r"(?:^|[;&|]\s*|\bsudo\s+)(?:shutdown|reboot|halt|poweroff|init\s+[06])\b"),
    ("ends every process", r"\bkill\s+(?:-\w+\s+)+-1\b"),
)  # fmt: skip
"""Never run, `--yes` or not."""
_DENY = [(why, re.compile(pattern, re.DOTALL)) for why, pattern in _DENIED]

_LOOKS = frozenset(
    {"ls", "cat", "head", "tail", "wc", "grep", "egrep", "fgrep", "rg", "find", "pwd", "echo", "true", "false", "stat"}
    | {"file", "du", "df", "which", "type", "nl", "cut", "tr", "diff", "cmp", "basename", "dirname", "realpath"}
    | {"uniq", "sort", "git", "sed", "seq"}
)
"""Commands that only look, but for the options below."""
_ACTS = {
    "find": re.compile(r"-(?:exec|execdir|ok|okdir|delete|fls|fprint\w*)"),
    "rg": re.compile(r"--(?:pre|hostname-bin).*"),
    "sort": re.compile(r"-[a-zA-Z]*[oT].*|--(?:output|compress|temporary|files0).*"),
    "file": re.compile(r"-[a-zA-Z]*C.*|--compile"),
    "diff": re.compile(r"--output.*"),
}
_GIT_LOOKS = frozenset({"status", "log", "diff", "show", "blame", "ls-files", "rev-parse", "shortlog"})
_GIT_ACTS = re.compile(r"--(?:output|ext-diff|textconv|exec|open-files).*|-O.*")
_SED_PRINTS = re.compile(r"\d+(?:,\d+)?p")
_SHELL_MAGIC = re.compile(r"[`$<>(){}&\n\0\\\[]|(?:^|[\s=:|;])[*?~]")
"""Where this stands outside quotes, a command is not read any further."""
_MAX_READ_CHARS = 4_000
_QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*\"""")
_QUOTED_SEPARATOR = re.compile(r"""(['"])[|;]+\1""")


class Permission:
    """Asks before what can do harm. `ask` is None where nobody can be asked: then it is refused."""

    def __init__(
        self, folder: Path, *, allow_all: bool = False, ask: Ask | None = None, readable: Sequence[Path] = ()
    ) -> None:
        self._folder, self._allow_all, self._ask = folder.resolve(), allow_all, ask
        self._readable = [path.resolve() for path in readable]
        self._always: set[str] = set()

    def to_run(self, command: str) -> None:
        """Raises Refused."""
        for why, pattern in _DENY:
            if pattern.search(command):
                raise Refused(f"this command is never run: it {why}")
        if not self.only_looks(command):
            first = command.split()[0] if _is_plain(command) else ""
            self._allowed(f"run: {command}", f"run {first}" if first else "")

    def to_read(self, path: Path) -> None:
        """Raises Refused."""
        if not self.is_inside(path) and not any(path.resolve().is_relative_to(r) for r in self._readable):
            self._allowed(f"read outside the working folder: {path}", f"read {path.parent}")

    def to_write(self, path: Path, *, is_known: bool) -> None:
        """Raises Refused. `is_known`: the agent has read it or written it before, or it is new."""
        if not self.is_inside(path):
            self._allowed(f"write outside the working folder: {path}", f"write {path.parent}")
        elif ".git" in path.resolve().relative_to(self._folder).parts:
            self._allowed(f"write into git's own folder: {path}", "")
        elif not is_known:
            self._allowed(f"overwrite a file that was not read: {path}", "overwrite")

    def is_inside(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self._folder)

    def only_looks(self, command: str) -> bool:
        """Whether a command can be seen to only look, inside the working folder."""
        if len(command) > _MAX_READ_CHARS or not _is_plain(command, pipes=True):
            return False
        try:
            words = list(shlex.shlex(command, posix=True, punctuation_chars="|;"))
        except ValueError:
            return False
        return all(map(self._looks, _split(words)))

    def _looks(self, words: list[str]) -> bool:
        if not words or words[0] not in _LOOKS:
            return False
        name, *arguments = words
        acts = _ACTS.get(name)
        if acts and any(acts.fullmatch(word) for word in arguments):
            return False
        if name == "git" and not _git_looks(arguments):
            return False
        if name == "sed" and not _sed_prints(arguments):
            return False
        if name == "uniq" and sum(not word.startswith("-") for word in arguments) > 1:
            return False
        return all(map(self._stays, arguments))

    def _stays(self, word: str) -> bool:
        """Whether a word, read as a path, leads nowhere outside."""
        if word.startswith("-"):
            word = word.partition("=")[2] or ("/" if "/" in word else "")
        return self.is_inside(self._folder / word) if word else True

    def _allowed(self, what: str, always: str) -> None:
        if self._allow_all or (always and always in self._always):
            return
        if self._ask is None:
            raise Refused(f"not allowed, and there is nobody to ask ({what[:200]}); --yes would allow it")
        answer = self._ask(what, always)
        if answer == "always" and always:
            self._always.add(always)
        elif answer not in ("yes", "always"):
            raise Refused(f"the user does not allow it{f': {answer}' if answer != 'no' else ''}")


def _is_plain(command: str, *, pipes: bool = False) -> bool:
    """Whether no shell magic stands in it outside quotes; without `pipes`, one command alone."""
    bare = _QUOTED.sub("''", command)
    if not command.split() or _SHELL_MAGIC.search(bare) or _QUOTED_SEPARATOR.search(command):
        return False
    return pipes or not re.search(r"[|;]", bare)


def _split(words: list[str]) -> list[list[str]]:
    """The single commands of a line."""
    commands: list[list[str]] = [[]]
    for word in words:
        if set(word) <= {"|", ";"} and word:
            commands.append([])
        else:
            commands[-1].append(word)
    return commands if commands[-1] else commands[:-1]


def _git_looks(arguments: list[str]) -> bool:
    return bool(arguments) and arguments[0] in _GIT_LOOKS and not any(map(_GIT_ACTS.fullmatch, arguments))


def _sed_prints(arguments: list[str]) -> bool:
    if len(arguments) < 2 or arguments[0] != "-n" or not _SED_PRINTS.fullmatch(arguments[1]):
        return False
    return not any(word.startswith("-") for word in arguments[2:])
