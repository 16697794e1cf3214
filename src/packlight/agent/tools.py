"""What the model may call: definitions as data, one small function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .. import jsonio
from ..errors import InvalidRequest
from ..types import Json
from . import files, shell
from .permission import Refused
from .workspace import ToolError, Workspace

Arguments = Mapping[str, Any]


class Desk(Protocol):
    """What a tool finds of the agent that calls it."""

    workspace: Workspace

    def recall(self, arguments: Arguments) -> str: ...
    def delegate(self, task: str) -> str: ...
    def compact_next(self, focus: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Tool:
    name: str
    description: str
    properties: Mapping[str, Json]
    required: tuple[str, ...]
    run: Callable[[Desk, Arguments], str]

    @property
    def schema(self) -> Json:
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }


def _bash(desk: Desk, a: Arguments) -> str:
    desk.workspace.permission.to_run(a["command"])
    seconds = min(a.get("timeout_seconds") or shell.DEFAULT_SECONDS, shell.MAX_SECONDS)
    ran = shell.run(desk.workspace, ["bash", "-c", a["command"]], seconds)
    return shell.told(desk.workspace, ran)


def _read_file(desk: Desk, a: Arguments) -> str:
    return files.read_file(desk.workspace, a["path"], a.get("offset") or 1, a.get("limit") or files.DEFAULT_LINES)


def _write_file(desk: Desk, a: Arguments) -> str:
    return files.write_file(desk.workspace, a["path"], a["content"])


def _edit_file(desk: Desk, a: Arguments) -> str:
    return files.edit_file(desk.workspace, a["path"], a["old_string"], a["new_string"], a.get("replace_all") or False)


def _glob(desk: Desk, a: Arguments) -> str:
    return files.glob(desk.workspace, a["pattern"], a.get("path") or ".")


def _grep(desk: Desk, a: Arguments) -> str:
    """By grep itself: a pattern that never ends is killed like any command."""
    path = desk.workspace.path(a.get("path") or ".")
    desk.workspace.permission.to_read(path)
    options = ["-rnIE", "--exclude-dir=.git", *(["-i"] if a.get("ignore_case") else [])]
    options += [f"--include={a['glob']}"] if a.get("glob") else []
    ran = shell.run(desk.workspace, ["grep", *options, "-e", a["pattern"], "--", desk.workspace.shown(path)], 30)
    return "Nothing found." if ran.code == 1 and not ran.text else shell.told(desk.workspace, ran)


def _todo_write(desk: Desk, a: Arguments) -> str:
    for item in a["todos"]:
        if (
            not isinstance(item, dict)
            or not isinstance(item.get("content"), str)
            or item.get("status") not in _STATUSES
        ):
            raise ToolError(f"each of `todos` needs a text `content` and a `status` of {', '.join(_STATUSES)}")
    open_items = sum(item["status"] != "completed" for item in a["todos"])
    return f"Updated: {open_items} of {len(a['todos'])} open."


def _task(desk: Desk, a: Arguments) -> str:
    return desk.delegate(a["prompt"])


def _recall(desk: Desk, a: Arguments) -> str:
    return desk.recall(a)


def _compact(desk: Desk, a: Arguments) -> str:
    desk.compact_next(a.get("focus") or "")
    return "Done before your next turn: what is old becomes a summary and references."


_STATUSES = ("pending", "in_progress", "completed")
_TEXT = {"type": "string"}
_NUMBER = {"type": "integer", "minimum": 1}
_FLAG = {"type": "boolean"}
_TODO = {
    "type": "object",
    "properties": {"content": _TEXT, "status": {"type": "string", "enum": list(_STATUSES)}},
    "required": ["content", "status"],
}

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            name="bash",
            description="Run a command in the working folder, with a time limit (120 seconds if none is given). "
            "There is no input. Large outputs are cut to a preview; `recall` brings the rest.",
            properties={"command": _TEXT, "timeout_seconds": _NUMBER},
            required=("command",),
            run=_bash,
        ),
        Tool(
            name="read_file",
            description="Read lines of a text file, numbered. Long files by ranges: from line `offset`, `limit` lines.",
            properties={"path": _TEXT, "offset": _NUMBER, "limit": _NUMBER},
            required=("path",),
            run=_read_file,
        ),
        Tool(
            name="write_file",
            description="Write the whole text of a file. Change an existing one with edit_file instead.",
            properties={"path": _TEXT, "content": _TEXT},
            required=("path", "content"),
            run=_write_file,
        ),
        Tool(
            name="edit_file",
            description="Replace `old_string`, copied exactly and without line numbers, by `new_string`. It must stand "
            "in the file once, unless `replace_all` is set.",
            properties={"path": _TEXT, "old_string": _TEXT, "new_string": _TEXT, "replace_all": _FLAG},
            required=("path", "old_string", "new_string"),
            run=_edit_file,
        ),
        Tool(
            name="glob",
            description="Find files by name, newest first: `*.py`, `src/**/test_*.py`.",
            properties={"pattern": _TEXT, "path": _TEXT},
            required=("pattern",),
            run=_glob,
        ),
        Tool(
            name="grep",
            description="Search files for an extended regular expression; `glob` limits their names.",
            properties={"pattern": _TEXT, "path": _TEXT, "glob": _TEXT, "ignore_case": _FLAG},
            required=("pattern",),
            run=_grep,
        ),
        Tool(
            name="todo_write",
            description="Keep the list of what is to be done, whole each time. It survives every compaction.",
            properties={"todos": {"type": "array", "items": _TODO}},
            required=("todos",),
            run=_todo_write,
        ),
        Tool(
            name="task",
            description="Give a piece of work to a second agent with the same tools and an empty conversation. Only "
            "its answer comes back: say in `prompt` all that it must know, and what to answer.",
            properties={"prompt": _TEXT},
            required=("prompt",),
            run=_task,
        ),
        Tool(
            name="recall",
            description="Get back what was taken out of this conversation to save space. Where it says "
            "`ref 0123456789ab`, ask for that reference; or by file path, or by words that stand in the text.",
            properties={"query": _TEXT, "page": _NUMBER},
            required=("query",),
            run=_recall,
        ),
        Tool(
            name="compact",
            description="Make room now: old turns become a summary. It happens by itself when the window is full; call "
            "it when a piece of work has ended. `focus` says what matters most for what comes.",
            properties={"focus": _TEXT},
            required=(),
            run=_compact,
        ),
    )
}


def use(desk: Desk, name: str, arguments: Json, allowed: frozenset[str]) -> tuple[str, bool]:
    """Carry out a call: the text of its result, and whether it failed. Raises nothing but what stops the agent."""
    try:
        if name not in allowed:
            raise ToolError(f"there is no tool {name!r}: {', '.join(sorted(allowed))}")
        return TOOLS[name].run(desk, checked(TOOLS[name], arguments)), False
    except (ToolError, Refused) as error:
        return f"Error: {error}", True
    except OSError as error:
        return f"Error: {error.strerror or error}: {error.filename or ''}".rstrip(": "), True


def told(arguments: Json) -> str:
    """The arguments of a call for a person: their values, or what there is."""
    value = arguments
    if isinstance(arguments, str):
        try:
            value = jsonio.load(arguments.encode("utf-8", "surrogatepass"))
        except (InvalidRequest, UnicodeError):
            return arguments
    return " ".join(map(str, value.values())) if isinstance(value, dict) else str(value)


_KINDS: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list}


def checked(tool: Tool, arguments: Json) -> Arguments:
    """The arguments as an object of the right types, what is null left out. Raises ToolError."""
    if isinstance(arguments, str):
        try:
            arguments = jsonio.load(arguments.encode("utf-8", "surrogatepass") or b"{}")
        except (InvalidRequest, UnicodeError):
            raise ToolError("the arguments are no JSON") from None
    if not isinstance(arguments, dict):
        raise ToolError("the arguments are no object")
    if unknown := arguments.keys() - tool.properties.keys():
        raise ToolError(f"unknown argument {min(unknown)!r}: {tool.name} takes {', '.join(tool.properties)}")
    given = {key: _typed(tool, key, value) for key, value in arguments.items() if value is not None}
    if missing := [key for key in tool.required if key not in given]:
        raise ToolError(f"`{missing[0]}` is missing")
    return given


def _typed(tool: Tool, key: str, value: Any) -> Any:
    kind: str = tool.properties[key]["type"]
    if kind == "integer" and isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
        value = int(value)
    if not isinstance(value, _KINDS[kind]) or (kind == "integer" and isinstance(value, bool)):
        raise ToolError(f"`{key}` must be a {kind}")
    return value
