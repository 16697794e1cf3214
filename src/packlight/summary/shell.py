"""A shell command line, split into its simple commands: words, redirects, heredocs, and the directory each runs in.

Only as far as plain text tells. What a variable, a glob or a substitution stands for is not known and is marked so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .rules import rule

UNKNOWN = "\0"
"""Stands in a word for what only the shell knows."""
_MOST_CHARS = 20_000
"""A longer command, heredocs apart, is not read at all."""
_MOST_DEPTH = 12
_MOST_HEREDOCS = 100
_MOST_VALUE_CHARS = 1_000
"""A variable that grows longer is not followed: each could double the one before."""


@dataclass(slots=True)
class Command:
    """One simple command."""

    words: list[str] = field(default_factory=list)
    joint: str = ";"
    """What joins it to the one before: `;` (or a new line, or nothing), `&&`, `||`, `|`, `&`."""
    folder: str = ""
    """Where it runs, as far as the `cd` before it tell; relative to where the whole line runs."""
    outputs: list[tuple[str, bool]] = field(default_factory=list)
    """Files that its output goes to, and whether it is put behind what they hold."""
    body: str | None = None
    """The text of its heredoc, when that stands there as it is fed."""
    fed: bool = False
    """Whether it has an input of its own: a heredoc or a file."""
    nested: bool = False
    """Inside a substitution, whose output goes elsewhere."""


def commands(text: str, folder: str = "") -> list[Command] | None:
    """The simple commands of a line or a script, in order; None when it can't be read: too long, open quotes."""
    reader = _Reader(text, folder)
    try:
        reader.read("")
    except _UnreadableError:
        return None
    return reader.found


def joined(folder: str, path: str) -> str:
    """A path as seen from outside the directory. Without `..`, as far as there is something to go up from."""
    path = path.replace("\\", "/")
    if folder and not is_absolute(path):
        path = f"{folder.rstrip('/')}/{path}" if folder != "/" else f"/{path}"
    if "./" not in path and "//" not in path and not path.endswith(("/.", "/..")):
        return path
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] not in ("..", ""):
            parts.pop()
        elif part not in (".", "") or not parts:
            parts.append(part)
    return "/".join(parts)


def is_absolute(path: str) -> bool:
    return path.startswith(("/", "~")) or path[1:3] in (":/", ":\\")


class _UnreadableError(Exception):
    pass


_ENDS = frozenset(" \t\r\n;&|<>()")
_PLAIN = rule(r"[A-Za-z]:\\[^\s'\"$`;&|<>()]*|[^\s'\"\\$`;&|<>()]+")
_DOUBLE = rule(r'[^"\\$`]+')
_SPACE = rule(r"(?:[ \t\r]|\\\n)*")
_SIMPLE = rule(r"(?:[ \t\r]|\\\n)*([^\s'\"\\$`;&|<>()#\d][^\s'\"\\$`;&|<>()]*)(?=[\s;&|<>()]|\Z)")
"""Most words: nothing but themselves, and no number, which may belong to a redirect."""
_OPERATOR = rule(r"&&|\|\||\|&|;;|[;&|\n()]")
_REDIRECT = rule(r"(\d?)(<<<|<<-?|<>|<&|<|&>>|&>|>>|>&|>\||>)")
_NAME = rule(r"[A-Za-z_]\w*|[\d?!#@*$-]")
_ASSIGNED = rule(r"([A-Za-z_]\w*)=(.*)\Z", re.S)
_QUOTED_ESCAPES = rule(r"'((?:[^'\\]|\\.)*)'", re.S)
_WRAPPERS = frozenset({"sudo", "env", "command", "time", "nohup", "exec", "builtin", "stdbuf", "nice", "then", "do"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
KEYWORDS = frozenset(
    [
        "if",
        "elif",
        "else",
        "fi",
        "while",
        "until",
        "done",
        "case",
        "esac",
        "for",
        "select",
        "function",
        "{",
        "}",
        "!",
        "[[",
        "(",
        ")",
    ]
)


class _Reader:
    def __init__(self, text: str, folder: str, depth: int = 0) -> None:
        self.text, self.folder, self.depth = text, folder, depth
        self.at = self.skipped = 0
        self.found: list[Command] = []
        self.values: dict[str, str] = {}
        self.open: list[tuple[Command, str, bool, bool]] = []
        """Heredocs whose text begins on the next line: whose, ended by what, indented, to be taken as it is."""

    def read(self, closing: str) -> None:
        """Everything up to the closing sign, which is read over."""
        text, command = self.text, Command(folder=self.folder)
        while True:
            if simple := _SIMPLE.match(text, self.at):
                command.words.append(simple[1])
                self.at = simple.end()
                continue
            self.at = _SPACE.match(text, self.at).end()  # type: ignore[union-attr]
            if self.at - self.skipped > _MOST_CHARS:
                raise _UnreadableError
            char = text[self.at : self.at + 1]
            if not char:
                self.end(command)
                if closing:
                    raise _UnreadableError
                return
            if (char in "<>&" or char.isdecimal()) and (redirect := _REDIRECT.match(text, self.at)):
                self.redirect(command, redirect[2])
            elif char in _ENDS:
                operator = _OPERATOR.match(text, self.at)
                sign = operator[0] if operator else char
                self.at += len(sign)
                self.end(command)
                if sign == closing:
                    return
                command = Command(joint="|" if sign == "|&" else sign if sign in ("&&", "||", "|", "&") else ";")
                if sign == "\n":
                    self.heredocs()
                elif sign == "(":
                    self.inside(")")
                command.folder = self.folder
            elif char == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            else:
                command.words.append(self.word())

    def inside(self, closing: str) -> None:
        """A subshell or a substitution."""
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise _UnreadableError
        folder = self.folder
        first = len(self.found)
        self.read(closing)
        for command in self.found[first:]:
            command.nested = True
        self.folder = folder
        self.depth -= 1

    def word(self) -> str:
        text, out = self.text, list[str]()
        while self.at < len(text):
            char = text[self.at]
            if char in _ENDS:
                break
            if char == "'":
                out.append(self.until("'", self.at + 1))
            elif char == '"':
                out.append(self.double())
            elif char == "$":
                out.append(self.dollar())
            elif char == "`":
                self.until("`", self.at + 1)
                out.append(UNKNOWN)
            elif plain := _PLAIN.match(text, self.at):
                out.append(plain[0])
                self.at = plain.end()
            else:  # a backslash
                out.append(text[self.at + 1 : self.at + 2].replace("\n", ""))
                self.at += 2
        return "".join(out)

    def until(self, sign: str, start: int) -> str:
        """What stands up to the sign, which is read over."""
        end = self.text.find(sign, start)
        if end < 0:
            raise _UnreadableError
        self.at = end + len(sign)
        return self.text[start:end]

    def double(self) -> str:
        text, out = self.text, list[str]()
        self.at += 1
        while True:
            if run := _DOUBLE.match(text, self.at):
                out.append(run[0])
                self.at = run.end()
            char = text[self.at : self.at + 1]
            if char == '"':
                self.at += 1
                return "".join(out)
            if char == "\\":
                escaped = text[self.at + 1 : self.at + 2]
                out.append(escaped if escaped in '"\\$`' else "" if escaped == "\n" else char + escaped)
                self.at += 2
            elif char == "$":
                out.append(self.dollar())
            elif char == "`":
                self.until("`", self.at + 1)
                out.append(UNKNOWN)
            else:
                raise _UnreadableError

    def dollar(self) -> str:
        text, start = self.text, self.at + 1
        after = text[start : start + 1]
        if after == "(":
            if text.startswith("((", start):
                self.until("))", start)
            else:
                self.at = start + 1
                self.inside(")")
            return UNKNOWN
        if after == "{":
            return self.values.get(self.until("}", start + 1), UNKNOWN)
        if after == "'" and (quoted := _QUOTED_ESCAPES.match(text, start)):
            self.at = quoted.end()
            return quoted[1].replace("\\n", "\n").replace("\\t", "\t") if quoted[1].count("\\") < 9 else UNKNOWN
        if name := _NAME.match(text, start):
            self.at = name.end()
            return self.values.get(name[0], UNKNOWN)
        self.at = start
        return "$"

    def redirect(self, command: Command, sign: str) -> None:
        self.at += len(sign) + (self.text[self.at].isdigit())
        text = self.text
        if sign in ("<", ">") and text.startswith("(", self.at):  # a process substitution
            self.at += 1
            self.inside(")")
            command.words.append(UNKNOWN)
            return
        self.at = _SPACE.match(text, self.at).end()  # type: ignore[union-attr]
        start = self.at
        target = self.word()
        if sign in (">&", "<&") and (target.isdigit() or target == "-"):
            return
        if sign in ("<<", "<<-"):
            if len(self.open) >= _MOST_HEREDOCS or not target:
                raise _UnreadableError
            as_is = text[start : start + 1] in ("'", '"', "\\")
            self.open.append((command, target, sign == "<<-", as_is))
        elif ">" in sign:
            command.outputs.append((target, ">>" in sign))
            return
        command.fed = True

    def heredocs(self) -> None:
        """Reads over the texts that begin here."""
        for command, ending, indented, as_is in self.open:
            start = self.at
            while True:
                end = self.text.find("\n", self.at)
                line = self.text[self.at : end if end >= 0 else len(self.text)]
                if (line.lstrip("\t") if indented else line).rstrip("\r") == ending:
                    body = self.text[start : self.at]
                    self.at = len(self.text) if end < 0 else end + 1
                    break
                if end < 0:  # never ended: all the rest
                    body, self.at = self.text[start:], len(self.text)
                    break
                self.at = end + 1
            self.skipped += self.at - start
            if indented:
                body = "\n".join(line.lstrip("\t") for line in body.split("\n"))
            command.body = body if as_is or not any(sign in body for sign in "$`\\") else None
        self.open.clear()

    def end(self, command: Command) -> None:
        """Takes a command as read: what it sets and where it goes holds for those behind it."""
        words = command.words
        while words:
            if words[0] in _WRAPPERS:
                del words[0]
            elif assigned := _ASSIGNED.match(words[0]):
                if len(words) == 1:
                    self.values[assigned[1]] = assigned[2] if len(assigned[2]) <= _MOST_VALUE_CHARS else UNKNOWN
                del words[0]
            elif words[0] == "timeout" and len(words) > 2:
                del words[:2]
            elif words[0] in KEYWORDS and len(words) > 1 and words[0] not in ("for", "case", "select", "function"):
                self.found.append(Command([words[0]], command.joint, command.folder))
                del words[0]
            else:
                break
        if not words and not command.outputs:
            return
        if words and words[0].rpartition("/")[2] in _SHELLS and len(words) > 2 and _runs_text(words[1]):
            self.script(command, words[2])
            return
        self.found.append(command)
        if words and words[0] in ("cd", "Set-Location", "pushd") and command.joint != "|":
            to = next((w for w in words[1:] if not w.startswith("-")), "")
            self.folder = joined(self.folder, to) if to and UNKNOWN not in to and "*" not in to else ""
        elif words and words[0] in ("for", "read") and len(words) > 1:
            for name in words[1:2] if words[0] == "for" else words[1:]:
                self.values.pop(name, None)

    def script(self, command: Command, text: str) -> None:
        inner = _Reader(text, command.folder, self.depth + 1)
        if inner.depth > _MOST_DEPTH or UNKNOWN in text:
            raise _UnreadableError
        inner.read("")
        if inner.found:
            inner.found[0].joint = command.joint
            inner.found[-1].outputs.extend(command.outputs)
        self.found.extend(inner.found)


def _runs_text(flag: str) -> bool:
    return flag.startswith("-") and flag.endswith("c") and len(flag) < 6
