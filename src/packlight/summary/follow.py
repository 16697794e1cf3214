"""The present text of the files being worked on, rebuilt from the recorded reads, edits and writes.

Kept only where it is certain. What cannot be followed (a checkout, a formatter, a script that writes, a sub-agent)
either drops a file or takes its line numbers away; so does a read that contradicts what was rebuilt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from operator import is_

from ..types import Message, Part
from ..view import View
from .effect import PATHLESS, Effect
from .effects import line_effects, script_effect
from .files import FileEvent
from .fragments import FileModel, Fragment
from .progress import Progress, put_down, resumed
from .reads import read_text
from .rules import holds_any, rule
from .shell import is_absolute
from .wording import output_of

_MAX_FILE_CHARS = 400_000
"""A larger text is not followed: nobody works on it as a whole."""
_AGENT_KEYS = frozenset({"prompt", "task", "message", "instructions"})


def normal(path: str) -> str:
    """A path as a key: forward slashes, no leading `./`."""
    return path.replace("\\", "/").removeprefix("./")


def file_models(view: View, events: Sequence[FileEvent], start: int, end: int) -> list[FileModel]:
    """What the events leave known, one model a file, in the order the files were last touched."""

    def fits(files: _Files) -> bool:
        return files.leads_to(start, end, ()) and files.knows(events)

    files, others = resumed(view, "file_models", fits, lambda: _Files(start, start))
    files.messages = view.messages
    new = events[len(files.events) :]
    files.events.extend(new)
    for event in _with_agents(view, new, files.end, end):
        if event is None:
            for model in files.models.values():
                model.lose_numbers()
        elif event.action == "run":
            for effect in event.effects:
                files.upset(effect)
        elif event.path and event.action != "search":
            files.take(event)
    files.reached(end, ())
    found = [m.snapshot() for m in files.models.values()]
    put_down(view, "file_models", files, others)
    return sorted((m for m in found if m.fragments), key=lambda m: (m.last, m.path))


def _with_agents(
    view: View, events: Sequence[FileEvent], start: int, end: int
) -> Sequence[FileEvent] | Iterator[FileEvent | None]:
    """The events, and None where a call handed work to another agent, which may have changed any file."""
    agents = [
        (i, k)
        for i in range(start, end)
        for k, part in enumerate(view.messages[i].parts)
        if part.kind == "call" and not part.server and _hands_over(part)
    ]
    if not agents:
        return events
    named = {(e.message, e.place) for e in events}
    strangers = [(i, None) for i, k in agents if (i, k) not in named]
    return (event for _, event in sorted([*((e.message, e) for e in events), *strangers], key=lambda pair: pair[0]))


def _hands_over(call: Part) -> bool:
    """Whether a call gives work to another agent: it holds a text that says what to do."""
    arguments = call.arguments
    if not arguments or _AGENT_KEYS.isdisjoint(arguments):
        return False
    return any(isinstance(v, str) and len(v) > 40 for k, v in arguments.items() if k in _AGENT_KEYS)


@dataclass(slots=True)
class _Files(Progress):
    messages: Sequence[Message] = ()
    events: list[FileEvent] = field(default_factory=list)
    """Those that were followed."""
    models: dict[str, FileModel] = field(default_factory=dict)
    bases: dict[str, set[str]] = field(default_factory=dict)
    """Keys by the last name of the path."""
    stashes: list[dict[str, FileModel]] = field(default_factory=list)

    def knows(self, events: Sequence[FileEvent]) -> bool:
        """Whether the first of these events are those that were followed."""
        return len(self.events) <= len(events) and all(map(is_, self.events, events))

    # ---- which file

    def ending(self, key: str) -> list[str]:
        """Keys of the known files that a path may mean: itself, those that end in it, and those that it ends in."""
        same = [k for k in self.bases.get(key.rpartition("/")[2], ()) if k in self.models]
        if is_absolute(key):
            return sorted(k for k in same if k == key or (not is_absolute(k) and key.endswith("/" + k)))
        return sorted(k for k in same if k == key or k.endswith("/" + key))

    def one(self, event: FileEvent, fits: Callable[[FileModel], bool]) -> str:
        """The key of the file that a path means.

        When it is not known itself: the one known file that the path is the end of, or that is the end of the path,
        and that fits. A tool's relative path starts where the agent does; one of a shell command may start anywhere.
        """
        key = _key(event.path)
        told = is_absolute(key) or (event.shown is None and not event.effects)
        if told and key in self.models:
            return key
        found = self.ending(key)
        if told and not is_absolute(key):
            found = [k for k in found if is_absolute(k)]
            if len(found) == 1:
                return found[0]
        fitting = [k for k in found if fits(self.models[k])]
        if len(fitting) != 1:
            return key
        if is_absolute(key):  # now its directory is known
            self.models[key] = self.models.pop(fitting[0])
            self.bases[key.rpartition("/")[2]].add(key)
            return key
        return fitting[0]

    def model(self, key: str, path: str) -> FileModel:
        model = self.models.get(key)
        if model is None:
            model = self.models[key] = FileModel(path)
            self.bases.setdefault(key.rpartition("/")[2], set()).add(key)
        return model

    def alone(self, key: str, path: str) -> FileModel:
        """The model of a file that is changed: whatever else its path may mean is known no more."""
        self.drop([k for k in self.ending(_key(path)) if k != key])
        return self.model(key, path)

    def under(self, path: str) -> list[str]:
        """Keys of the files that a path, a directory or a pattern covers."""
        key = _key(path).rstrip("/")
        if "*" in key or "?" in key:
            pattern = key if is_absolute(key) else "*/" + key
            return [k for k in self.models if fnmatchcase(k if is_absolute(key) else "/" + k, pattern)]
        found = self.ending(key)
        if not found and key:
            inside = key + "/" if is_absolute(key) else f"/{key}/"
            found = [k for k in self.models if inside in (k if is_absolute(key) else "/" + k)]
        return found

    def drop(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.models.pop(key, None)

    # ---- what happened

    def upset(self, effect: Effect) -> None:
        """What a command does to files that it does not name."""
        if effect.kind == "script":
            for key in self.ending(_key(effect.path))[:1]:
                self.script(key, self.models[key].text(), effect.text)
        elif effect.kind == "format":
            for model in self.models.values():
                model.lose_numbers()
        elif effect.kind == "named":
            self.drop([k for base in self.bases if base in effect.text for k in self.bases[base]])
        elif effect.kind == "stash":
            keys = (
                [k for path in effect.text.split("\n") for k in self.under(path)] if effect.text else self.tree(effect)
            )
            self.stashes.append({k: self.models[k] for k in keys})
            self.drop(keys)
        elif effect.kind == "unstash" and self.stashes:
            self.models.update(self.stashes.pop())
        else:
            self.stashes.clear()
            self.drop(self.tree(effect))

    def script(self, path: str, text: str, arguments: str) -> None:
        """What a program does that is run from a file whose text is known."""
        if not path.endswith((".sh", ".bash", ".zsh")):
            found = script_effect(text, arguments)
            if found:
                self.upset(found)
            return
        for effect in line_effects(text, "", "")[1]:
            if effect.kind == "script":  # one that may run this one again
                continue
            if effect.kind in PATHLESS or not effect.path:
                self.upset(effect)
            else:
                self.drop(self.under(effect.path))

    def tree(self, effect: Effect) -> list[str]:
        folder = _key(effect.path)
        return [k for k in self.models if _same_tree(folder, k)]

    def take(self, event: FileEvent) -> None:
        if event.action == "read":
            if event.ok and not event.hint:
                self.read(event)
            return
        kind = event.effects[0].kind if event.effects else ""
        if event.effects and (event.hint or not (event.ok or self.was_done(event))):
            self.doubt(event, kind)
        elif event.action == "delete" or event.hint or event.result_message < 0 or len(event.new) > _MAX_FILE_CHARS:
            self.drop(self.under(event.path))
        elif event.ok or event.effects:
            self.change(event, kind)
        elif event.old:
            self.refused(event)

    def was_done(self, event: FileEvent) -> bool:
        """Whether the first command of a failed line did its work."""
        if not event.effects[0].is_first or event.result_message < 0:
            return False
        return not _NOT_DONE.search(self.messages[event.result_message].parts[event.result_place].text, 0, 2_000)

    def doubt(self, event: FileEvent, kind: str) -> None:
        """A touch whose outcome is not known."""
        source = self.ending(_key(event.effects[0].old)) if kind == "copy" and event.ok else []
        if kind == "format":
            for key in self.under(event.path):
                self.models[key].lose_numbers()
            return
        copied = self.models[source[0]].copy(event.path, event.message) if len(source) == 1 else None
        self.drop(self.under(event.path))
        if copied is not None:
            self.model(_key(event.path), event.path)
            self.models[_key(event.path)] = copied

    def change(self, event: FileEvent, kind: str) -> None:
        key = self.one(event, lambda m: event.action == "write" or bool(event.effects) or event.old in m.text())
        model = self.alone(key, event.path)
        at = event.message
        if event.action == "write":
            model.write(event.new, at)
        elif kind == "append":
            model.append(event.new, at)
        elif kind == "replace":
            effect = event.effects[0]
            if not model.replace_in_lines(
                re.compile(effect.old), event.new, at, everywhere=event.everywhere, line=effect.line
            ):
                self.drop([key])
        elif event.insert_line >= 0:
            model.insert(event.insert_line, event.new, at)
        else:
            model.edit(event.old, event.new, at, everywhere=event.everywhere)
            self.snippet(model, event)

    def snippet(self, model: FileModel, event: FileEvent) -> None:
        """The numbered lines that some tools show of the file after an edit."""
        result = self.messages[event.result_message].parts[event.result_place]
        head = result.text[:400]
        if "modified on disk" in head:
            model.lose_numbers()
        if "cat -n" in head:
            text, number = read_text(Part("result", 0, result.text.partition("\n")[2]))
            if number:
                model.read(text, number, event.message)

    def refused(self, event: FileEvent) -> None:
        """A failed edit: when the text is said to be missing that is known here, what is known is wrong."""
        result = self.messages[event.result_message].parts[event.result_place]
        key = self.one(event, lambda m: event.old in m.text())
        model = self.models.get(key)
        if model is None:
            return
        if "odified since" in result.text[:600]:
            model.lose_numbers()
        elif _ABSENT.search(result.text[:600]) and event.old in model.text():
            is_told = event.old[:200] in result.text or event.path in result.text[:300].partition("expected lines")[0]
            self.drop([key] if is_told else [])

    def read(self, event: FileEvent) -> None:
        result = self.messages[event.result_message].parts[event.result_place]
        if result.media or len(result.text) > _MAX_FILE_CHARS or _is_report(result, event):
            return
        text, first, is_whole = shown_lines(result, event)
        model = self.model(self.one(event, lambda m: _agrees(m, text, first)), event.path)
        if is_whole:
            model.read_whole(text, event.message)
        elif first or (event.shown is not None and not event.shown.numbered):
            model.read(text, first, event.message)


def shown_lines(result: Part, event: FileEvent) -> tuple[str, int, bool]:
    """The file's text in the result of a read, the number of its first line, and whether that is all of the file.

    The number is 0 when it is not known.
    """
    shown = event.shown
    if shown is not None:
        text, first = output_of(result)[shown.start : shown.stop], shown.first
        if shown.numbered:
            text, first = read_text(Part("result", 0, text))
        return text, first, shown.whole and first == 1
    text, number = read_text(result)
    cut = text is not result.text and "[Showing lines" in result.text[-300:]
    first = number or max(event.offset, 1)
    return text, first, first == 1 and not event.limit and not cut and not _is_clipped(result.text)


def _is_report(result: Part, event: FileEvent) -> bool:
    """Whether a result tells of the file without showing it."""
    if event.shown is not None:
        return False
    named = is_absolute(event.path) and event.path in result.text[:1_000].partition("\n")[0]
    return (named and read_text(result)[1] == 0) or _STANDS_FOR.match(result.text, 0, 400) is not None


_NOT_DONE = rule(
    r"^(?:[\w/.-]{0,40}: )?(?:line \d+: )?(?:cat|sed|perl|tee|rm|mv|cp|cd|bash|zsh|syntax error)\b.{0,200}:"
    r"|rejected|denied|interrupted",
    re.MULTILINE,
)
_ABSENT = rule(r"not found|[Cc]ould not find|Failed to find|did not appear|No match|not exist in the file")
_STANDS_FOR = rule(
    r"\A\s*(?:File unchanged|<[a-z-]+>[^\n]{0,80}unchanged|\[[^\n\]]{0,200}\b(?:cleared|omitted|elided|pruned)\b)"
)


def _agrees(model: FileModel, text: str, first: int) -> bool:
    """Whether lines may well be of this file: some are known of it, at the same numbers or elsewhere."""
    new = Fragment(text.removesuffix("\n").split("\n"), [], first)
    known = {line for f in model.fragments for line in f.lines if len(line) > 12}
    return sum(line in known for line in new.lines) * 4 > len(new.lines) and not (new.start and model.contradicts(new))


def _is_clipped(text: str) -> bool:
    end = text[-400:]
    return holds_any(end, ("truncated", "more lines", "Use offset", "</persisted-output>")) or "truncated." in text[:60]


_DRIVE = rule(r"/(?:mnt/)?([a-zA-Z])(?:/|\Z)")


def _key(path: str) -> str:
    """A path as it names a file: with the drive of a Windows path as `c:`, however it is spelled."""
    path = normal(path)
    if path[1:3] == ":/":
        return path[0].lower() + path[1:]
    drive = _DRIVE.match(path) if path.startswith("/") else None
    return f"{drive[1].lower()}:/{path[drive.end() :]}" if drive else path


def _same_tree(folder: str, key: str) -> bool:
    """Whether a command that changes the tree around a directory may reach a file."""
    if not is_absolute(folder) or not is_absolute(key):
        return True
    if "/.git/" in key:
        return False
    depth = 4 if folder.startswith(("/home/", "/Users/")) else 2  # a home is no repository, nor is what holds them all
    return folder.split("/")[:depth] == key.split("/")[:depth] and _worktree(folder) == _worktree(key)


def _worktree(path: str) -> str:
    """The root of a linked working tree, as far as its path says that it is one."""
    parts = path.split("/")
    for i, part in enumerate(parts[:-1]):
        if "worktree" in part:
            return "/".join(parts[: i + 2])
    return ""
