"""Where the tools work: a folder, what may be done there, and what came of it so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .permission import Permission


class ToolError(Exception):
    """A call that can't be carried out; the text tells the model why."""


@dataclass(kw_only=True)
class Workspace:
    folder: Path
    outputs: Path
    """Long outputs are kept here as files."""
    permission: Permission
    known: set[Path] = field(default_factory=set)
    """Files that the agent has read or written: it knows what it overwrites."""
    groups: set[int] = field(default_factory=set)
    """Process groups that a command left running."""

    def path(self, name: str) -> Path:
        """The path that a tool names, relative to the folder."""
        if "\0" in name:
            raise ToolError("a path can't hold a NUL")
        try:
            return self.folder / Path(name).expanduser()
        except RuntimeError as error:  # ~nobody
            raise ToolError(str(error)) from None

    def shown(self, path: Path) -> str:
        """A path as the model knows it."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)
