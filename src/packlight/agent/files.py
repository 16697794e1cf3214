"""The tools that read and write files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ..atomic import replace_file
from .workspace import ToolError, Workspace

DEFAULT_LINES = 2_000
MAX_READ_CHARS = 200_000
"""What one read shows at most: the rest by further reads."""
MAX_FILE_BYTES = 200_000_000
MAX_FOUND = 500
_NOT_SEARCHED = frozenset({".git", "__pycache__", "node_modules", ".venv", ".mypy_cache", ".pytest_cache"})


def read_file(workspace: Workspace, name: str, offset: int = 1, limit: int = DEFAULT_LINES) -> str:
    """Lines of a text file, numbered, and how to go on."""
    path = workspace.path(name)
    workspace.permission.to_read(path)
    text = _text(path, name, "replace")
    workspace.known.add(path.resolve())
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return "(the file is empty)"
    first = max(1, offset)
    if first > len(lines):
        raise ToolError(f"{name} has {len(lines):,} lines: there is no line {first:,}")
    shown, next_line = _within(lines, first, max(1, limit))
    left = len(lines) - next_line + 1
    return f"{shown}\n\n[{left:,} more lines; offset {next_line} goes on]" if left else shown


def _within(lines: list[str], first: int, limit: int) -> tuple[str, int]:
    """The numbered lines that one result takes, and the number of the next one."""
    shown: list[str] = []
    room = MAX_READ_CHARS
    for number in range(first, min(first + limit, len(lines) + 1)):
        line = lines[number - 1]
        if len(line) > room and not shown:
            line = f"{line[:room]} [... {len(line) - room:,} more characters on this line: use bash to see them]"
        elif len(line) > room:
            return "\n".join(shown), number
        room -= len(line) + 8
        shown.append(f"{number}\t{line}")
    return "\n".join(shown), first + len(shown)


def write_file(workspace: Workspace, name: str, content: str) -> str:
    """The whole text of a file, new or in place of the old one."""
    path = workspace.path(name)
    is_new = not path.exists()
    workspace.permission.to_write(path, is_known=is_new or path.resolve() in workspace.known)
    if path.is_dir():
        raise ToolError(f"{name} is a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    _put(workspace, path, content)
    return f"{'Created' if is_new else 'Updated'} {workspace.shown(path)}: {len(content):,} characters, written."


def edit_file(workspace: Workspace, name: str, old: str, new: str, everywhere: bool = False) -> str:
    """Replace a text that stands in the file exactly once, or all of them."""
    path = workspace.path(name)
    workspace.permission.to_write(path, is_known=True)
    text = _text(path, name, "strict")
    if "\r\n" in text and old not in text:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    count = text.count(old) if old else 0
    if not old:
        raise ToolError("`old_string` is empty: write_file writes whole files")
    if not count:
        raise ToolError(f"`old_string` does not stand in {name}: read the file and copy the text exactly")
    if count > 1 and not everywhere:
        raise ToolError(f"`old_string` stands {count} times in {name}: give more of it, or set replace_all")
    _put(workspace, path, text.replace(old, new))
    return f"Updated {workspace.shown(path)}: {count} replaced." if everywhere else f"Updated {workspace.shown(path)}."


def glob(workspace: Workspace, pattern: str, name: str = ".") -> str:
    """Files by name, newest first."""
    root = workspace.path(name)
    workspace.permission.to_read(root)
    if not root.is_dir():
        raise ToolError(f"{name} is no folder")
    wanted = _name_rule(pattern)
    found = [p for p in _files(root) if wanted.fullmatch(str(p.relative_to(root)) if "/" in pattern else p.name)]
    found.sort(key=_changed_seconds, reverse=True)
    lines = [workspace.shown(path) for path in found[:MAX_FOUND]]
    if len(found) > MAX_FOUND:
        lines.append(f"[{len(found) - MAX_FOUND:,} more; a narrower pattern shows them]")
    return "\n".join(lines) or "No files found."


_SIGNS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _name_rule(pattern: str) -> re.Pattern[str]:
    """`**/` stands for any folders, none too; a pattern without a folder is a name anywhere."""
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.removeprefix("./"))
    return re.compile("".join(_SIGNS.get(piece) or re.escape(piece) for piece in pieces), re.DOTALL)


def _files(root: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in _NOT_SEARCHED)
        yield from (Path(folder, name) for name in files)


def _changed_seconds(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _text(path: Path, name: str, errors: str) -> str:
    if path.is_dir():
        raise ToolError(f"{name} is a folder: glob or bash lists it")
    if not path.exists():
        raise ToolError(f"{name} is not there")
    if not path.is_file():
        raise ToolError(f"{name} is no plain file")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ToolError(f"{name} is larger than {MAX_FILE_BYTES:,} bytes: use bash to see parts of it")
    data = path.read_bytes()
    if b"\0" in data[:8_000]:
        raise ToolError(f"{name} is a binary file of {len(data):,} bytes")
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError:
        raise ToolError(f"{name} is not UTF-8 text: it can't be edited here") from None


def _put(workspace: Workspace, path: Path, text: str) -> None:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolError("the text holds half a surrogate pair, which no file takes") from None
    replace_file(path, data)
    workspace.known.add(path.resolve())
