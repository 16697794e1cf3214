"""What was done to which file, read from the recorded calls and their results.

A tool is known by the shape of its arguments, never by a list of names: a path with an old and a new text is an
edit, whoever's tool it is. Shell commands are read as far as they are plain (`shell`, `effects`, `shown`): what is not
certain of them is a hint that a file was touched, no more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Literal

from ..types import Json, Part
from ..view import View
from .effect import PATHLESS, Effect
from .effects import line_effects, script_effect, touches_files
from .rules import holds_any, rule
from .shell import joined
from .shown import Shown, shown_files
from .wording import PATH_KEYS, command_of, is_failure, output_of, text_at

Action = Literal["read", "write", "edit", "delete", "search", "run"]


@dataclass(slots=True, kw_only=True)
class FileEvent:
    """One thing that a call did: to a file, or (a search, a run) somewhere.

    Never changed; not frozen, since frozen ones take three times as long to make, and every call makes one.
    """

    message: int
    place: int
    """Index in the message's parts."""
    result_message: int = -1
    """-1 when there is no answer."""
    result_place: int = -1
    path: str
    """As the call spelled it; empty for a run."""
    action: Action
    ok: bool
    """Answered, and not with a failure."""
    offset: int = 0
    """First line of a read, from 1; 0 when the call asked for the whole file."""
    limit: int = 0
    """Lines asked for; 0 when the call set no limit."""
    old: str = ""
    """The text that an edit replaces; empty for one that only inserts."""
    new: str = ""
    """The text of a write, or what an edit puts in."""
    everywhere: bool = False
    """An edit of every place, not only the first."""
    insert_line: int = -1
    """An insertion behind this line (from 1; 0 is the beginning); -1 for anything else."""
    hint: bool = False
    """Read off a shell command: the file was touched, but its text is not certain."""
    command: str = ""
    """The command of a run."""
    effects: Sequence[Effect] = ()
    """Read off a shell command: what it does to this file, or, of a run, to files that it does not name."""
    shown: Shown | None = None
    """Read off a shell command: which lines its output shows, and where."""


def file_events(view: View, start: int = 0, end: int | None = None) -> list[FileEvent]:
    """What the calls in source messages [start, end) did, in the order of the calls. Worked out once for a source."""
    known: list[FileEvent] | None = view.memo.get("file_events")
    if known is None:
        known = view.memo["file_events"] = _all_events(view)
    if start == 0 and end is None:
        return known
    first = bisect_left(known, start, key=_message_of)
    return known[first:] if end is None else known[first : bisect_left(known, end, key=_message_of)]


_message_of = attrgetter("message")


def _all_events(view: View) -> list[FileEvent]:
    """Those up to the first call without an answer are remembered, for lists that hold all their answers."""
    messages, answer = view.messages, view.pairs.answer
    settled, known = view.memory.get("file_events", (0, ()))
    if settled > len(messages) or any(e.result_message >= len(messages) for e in known):
        settled, known = 0, ()
    events: list[FileEvent] = list(known)
    first_open, done = len(messages), 0
    for i in range(settled, len(messages)):
        for k, part in enumerate(messages[i].parts):
            if part.kind != "call" or part.server:
                continue
            j, m = answer.get((i, k), (-1, -1))
            result = messages[j].parts[m] if j >= 0 else None
            if result is None and i < first_open:
                first_open, done = i, sum(e.message < i for e in events)
            ok = result is not None and not is_failure(result)
            events.extend(_Call(part, i, k, j, m, ok, result).events())
    view.memory["file_events"] = (first_open, events[:done] if first_open < len(messages) else list(events))
    return events


OLD_KEYS = ("old_string", "old_str", "oldText", "old_text", "oldString", "old_content", "search", "old", "find")
NEW_KEYS = ("new_string", "new_str", "newText", "new_text", "newString", "new_content", "replace", "new", "replacement")
CONTENT_KEYS = ("content", "contents", "file_text", "fileText", "text", "new_source", "CodeContent")
_OFFSET_KEYS = ("offset", "start_line", "startLine", "line_offset", "line_start", "StartLine", "start")
_LIMIT_KEYS = ("limit", "n_lines", "num_lines", "max_lines", "line_count")
_END_KEYS = ("end_line", "endLine", "line_end", "EndLine", "end")
_PLACE_KEYS = frozenset([*_OFFSET_KEYS, *_LIMIT_KEYS, *_END_KEYS, "view_range", "range", "pages"])
_ALL_KEYS = ("replace_all", "replaceAll", "all")
_SEARCH_KEYS = ("pattern", "regex", "query", "glob", "search_term")
_FOLDER_KEYS = ("workdir", "cwd", "working_directory", "workingDirectory")
_BATCH_KEYS = ("edits", "changes", "replacements")
_MORE_KEYS = ("command", "insert_line", "cell_id", "patch", "diff")
_TELLING = frozenset([*OLD_KEYS, *NEW_KEYS, *CONTENT_KEYS, *_SEARCH_KEYS, *_BATCH_KEYS, *_MORE_KEYS])
"""Without one of these only the tool's name says what a call does to its path."""
KNOWN_KEYS = frozenset([*_TELLING, *_PLACE_KEYS, *_ALL_KEYS, *_FOLDER_KEYS, "insert_text", "input", "files", "paths"])
"""Names of arguments that are read here, but for those of paths and commands."""


@dataclass(slots=True)
class _Call:
    part: Part
    message: int
    place: int
    result_message: int
    result_place: int
    ok: bool
    result: Part | None

    def event(self, action: Action, path: str, **about: Json) -> FileEvent:
        return FileEvent(
            message=self.message,
            place=self.place,
            result_message=self.result_message,
            result_place=self.result_place,
            path=path,
            action=action,
            ok=self.ok,
            **about,
        )

    def events(self) -> Iterable[FileEvent]:
        arguments = self.part.arguments
        if arguments is None:
            return self.patched(self.part.arguments_text)
        path = text_at(arguments, PATH_KEYS)
        if path and "\n" not in path and len(path) <= 1_000:
            return self.on_file(path, arguments)
        if command := command_of(self.part):
            return self.on_shell(command, text_at(arguments, _FOLDER_KEYS))
        files = arguments.get("files") or arguments.get("paths")
        if isinstance(files, list):
            return self.on_list(files)
        if patch := text_at(arguments, ("input", "patch", "diff")):
            return self.patched(patch)
        return [self.event("search", "")] if text_at(arguments, _SEARCH_KEYS) else []

    def on_file(self, path: str, arguments: Mapping[str, Json]) -> Iterable[FileEvent]:
        if _TELLING.isdisjoint(arguments):
            return self.by_name(path, arguments)
        verb = arguments.get("command")
        verb = verb if isinstance(verb, str) else ""
        batch = next((arguments[k] for k in _BATCH_KEYS if isinstance(arguments.get(k), list)), None)
        insert_line = arguments.get("insert_line")
        if verb == "view":
            return [self.read(path, arguments)]
        if verb == "undo_edit":
            return [self.event("edit", path, hint=True)]
        if isinstance(insert_line, int):
            new = text_at(arguments, (*NEW_KEYS, "insert_text", *CONTENT_KEYS))
            return [self.event("edit", path, new=new, insert_line=insert_line)]
        if batch is not None:
            return [self.edit(path, change) for change in batch if isinstance(change, Mapping)]
        if verb and verb not in ("create", "str_replace", "write", "insert") and " " in verb:
            return self.on_shell(verb, text_at(arguments, (*_FOLDER_KEYS, "dir_path", "directory")))
        if _has(arguments, OLD_KEYS) and (verb == "str_replace" or _has(arguments, NEW_KEYS)):
            return [self.edit(path, arguments)]
        if "new_source" in arguments or "cell_id" in arguments:  # a notebook's cell: its file is JSON around it
            return [self.event("edit", path, hint=True)]
        if _has(arguments, CONTENT_KEYS) and not _has(arguments, _SEARCH_KEYS):
            return [self.event("write", path, new=text_at(arguments, CONTENT_KEYS))]
        if _has(arguments, _SEARCH_KEYS):
            return [self.event("search", path)]
        if patch := text_at(arguments, ("patch", "diff")):
            return self.patched(patch)
        return self.by_name(path, arguments)

    def by_name(self, path: str, arguments: Mapping[str, Json]) -> list[FileEvent]:
        verb = _verb_of(self.part.tool)
        if verb == "read":
            return [self.read(path, arguments)]
        return [self.event(verb, path, hint=verb == "edit")] if verb else []

    def read(self, path: str, arguments: Mapping[str, Json]) -> FileEvent:
        if _PLACE_KEYS.isdisjoint(arguments):
            return self.event("read", path)
        view_range = arguments.get("view_range") or arguments.get("range")
        if isinstance(view_range, list) and len(view_range) == 2 and all(isinstance(v, int) for v in view_range):
            first, last = view_range
        else:
            first, last = _number(arguments, _OFFSET_KEYS), _number(arguments, _END_KEYS)
        limit = last - first + 1 if last >= first > 0 else _number(arguments, _LIMIT_KEYS)
        return self.event("read", path, offset=max(first, 0), limit=max(limit, 0), hint=bool(arguments.get("pages")))

    def edit(self, path: str, change: Mapping[str, Json]) -> FileEvent:
        old, new = text_at(change, OLD_KEYS), text_at(change, NEW_KEYS)
        everywhere = any(change.get(k) is True for k in _ALL_KEYS)
        own = text_at(change, PATH_KEYS)
        if not old and not _has(change, OLD_KEYS):
            return self.event("edit", own or path, hint=True)
        return self.event("edit" if old else "write", own or path, old=old, new=new, everywhere=everywhere)

    def on_list(self, files: Sequence[Json]) -> Iterator[FileEvent]:
        """One call that reads several files: one result for all, so no certain text."""
        for entry in files:
            path = entry if isinstance(entry, str) else text_at(entry, PATH_KEYS) if isinstance(entry, Mapping) else ""
            if path:
                yield self.event("read", path, hint=True)

    def on_shell(self, command: str, folder: str = "") -> Iterator[FileEvent]:
        if "*** Begin Patch" in command:
            yield from self.patched(command, folder)
        elif (self.part.arguments or {}).get("code") == command:  # of a language, not of a shell
            effect = script_effect(command)
            yield self.event("run", "", command=command, effects=[effect] if effect else ())
        elif not touches_files(command):
            yield self.event("run", "", command=command)
        else:
            output = output_of(self.result) if self.result else ""
            run, effects = line_effects(command, folder, output)
            everywhere = [e for e in effects if not e.path or e.kind in PATHLESS]
            yield self.event("run", "", command=command, effects=everywhere)
            if self.result is not None and not (effects and everywhere):
                is_framed = output is not self.result.text
                for shown in shown_files(run, output if self.ok else "", is_framed=is_framed):
                    yield self.shown(shown)
            for effect in effects:
                if effect.path and effect.kind not in PATHLESS:
                    yield self.touched(effect)

    def shown(self, shown: Shown) -> FileEvent:
        limit = shown.most if shown.most < 1e9 else 0
        offset = shown.first if shown.first > 1 else 0
        return self.event("read", shown.path, offset=offset, limit=limit, hint=shown.start < 0, shown=shown)

    def touched(self, effect: Effect) -> FileEvent:
        action: Action = (
            "delete" if effect.kind == "delete" else "write" if effect.kind in ("write", "copy") else "edit"
        )
        is_hint = effect.kind not in ("write", "append", "replace", "delete")
        return self.event(
            action,
            effect.path,
            new=effect.text,
            everywhere=effect.everywhere,
            hint=is_hint,
            effects=(effect,),
        )

    def patched(self, text: str, folder: str = "") -> Iterator[FileEvent]:
        for change in patch_changes(text):
            yield self.event(change.action, joined(folder, change.path), old=change.old, new=change.new)


def _has(arguments: Mapping[str, Json], keys: tuple[str, ...]) -> bool:
    return any(key in keys and isinstance(value, str) for key, value in arguments.items())


def _number(arguments: Mapping[str, Json], keys: tuple[str, ...]) -> int:
    for key in keys:
        if key not in arguments:
            continue
        value = arguments[key]
        if isinstance(value, str) and value.isdecimal() and len(value) < 10:
            return int(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e9:
            return int(value)
    return 0


_DELETES = ("delete", "remove", "unlink")
_CHANGES = (
    "edit",
    "write",
    "create",
    "update",
    "insert",
    "append",
    "patch",
    "move",
    "rename",
    "save",
    "upload",
    "design",
)
_LISTS = ("list", "ls", "dir", "tree", "glob", "find", "screenshot", "shot", "mkdir")


@lru_cache(maxsize=512)
def _verb_of(tool: str) -> Literal["delete", "edit", "read"] | None:
    """What a tool does to a path, as far as its name says: it reads unless that says otherwise."""
    name = tool.lower()
    if holds_any(name, _DELETES):
        return "delete"
    if holds_any(name, _CHANGES):
        return "edit"
    return None if holds_any(name, _LISTS) else "read"


# ---- patches


@dataclass(frozen=True, slots=True)
class Change:
    """One hunk of an apply_patch text, or a whole file of it."""

    action: Literal["write", "edit", "delete"]
    path: str
    old: str = ""
    new: str = ""


_FILE_LINE = rule(r"\*\*\* (Add|Update|Delete) File: (.+)")


def patch_changes(text: str) -> Iterator[Change]:
    """The changes of a `*** Begin Patch` text; nothing for any other text."""
    if "*** " not in text:
        return
    action, path, lines = "", "", list[str]()
    for line in text.split("\n"):
        found = _FILE_LINE.match(line)
        if found or line.startswith(("*** End Patch", "@@", "*** Move to: ")):
            yield from _hunk(action, path, lines)
            lines = []
            if found:
                action, path = found[1], found[2].strip()
            elif line.startswith("*** Move to: "):
                yield Change("delete", path)
                path = line.removeprefix("*** Move to: ").strip()
            elif line.startswith("*** End Patch"):
                action = ""
        elif not line.startswith("*** "):
            lines.append(line)
    yield from _hunk(action, path, lines)


def _hunk(action: str, path: str, lines: Sequence[str]) -> Iterator[Change]:
    if action == "Delete":
        if path and not lines:
            yield Change("delete", path)
    elif action == "Add" and lines:
        yield Change("write", path, new="".join(line[1:] + "\n" for line in lines if line.startswith("+")))
    elif action == "Update" and lines:
        old = "\n".join(line[1:] for line in lines if not line.startswith("+"))
        new = "\n".join(line[1:] for line in lines if not line.startswith("-"))
        yield Change("edit", path, old, new)
