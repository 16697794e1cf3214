"""The present text of the files being worked on, rebuilt from the recorded reads, edits and writes.

Kept only where it is certain. What cannot be followed (a checkout, a formatter, `sed -i`, a script that writes, a
sub-agent) either drops a file or takes its line numbers away; so does a read that contradicts what was rebuilt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..types import Part
from ..view import View
from .files import FileEvent, read_text
from .frame import is_plain
from .rules import holds_any, rule

BLOCK_LINES = 40
FILE_SHARE = 0.6
"""No file takes more of the budget."""
_MAX_FILE_CHARS = 400_000
"""A larger text is not followed: nobody works on it as a whole."""
_NEAR_LINES = 12
"""An edit touches the lines around it as well."""


@dataclass(slots=True)
class Fragment:
    """Lines that stand together in a file."""

    lines: list[str]
    touched: list[int]
    """Message at which each line was last read or changed."""
    start: int = 0
    """Number of the first line; 0 when it is not known."""

    @property
    def end(self) -> int:
        return self.start + len(self.lines)


@dataclass(slots=True)
class FileModel:
    """What is known of one file."""

    path: str
    edited: bool = False
    last: int = 0
    """Message of its last read or change."""
    _fragments: list[Fragment] = field(default_factory=list)
    _whole: tuple[str, int] | None = None
    """A whole text and its message, not split into lines yet: the next one mostly takes its place before that."""

    @property
    def fragments(self) -> list[Fragment]:
        if self._whole is not None:
            (text, at), self._whole = self._whole, None
            self._fragments = [_fragment(text, 1, at)]
        return self._fragments

    @fragments.setter
    def fragments(self, fragments: list[Fragment]) -> None:
        self._fragments, self._whole = fragments, None

    def read(self, text: str, first: int, at: int) -> None:
        """Lines of the file from this one on, as they were at that message."""
        self.last = at
        new = _fragment(text, first, at)
        lines = new.lines
        if self._contradicts(new):
            self.lose_numbers()
        seen = set(lines)
        rest: list[Fragment] = []
        for old in self.fragments:
            if old.start:
                rest.extend(_outside(old, new))
            elif sum(line in seen for line in old.lines) * 2 < len(old.lines):
                rest.append(old)
        self.fragments = [*rest, new] if lines else rest

    def _contradicts(self, new: Fragment) -> bool:
        same = differ = 0
        for old in self.fragments:
            if old.start:
                first, last = max(old.start, new.start), min(old.end, new.end)
                ours, theirs = (
                    old.lines[first - old.start : last - old.start],
                    new.lines[first - new.start : last - new.start],
                )
                agree = sum(a == b for a, b in zip(ours, theirs, strict=False)) if last > first else 0
                same, differ = same + agree, differ + max(0, last - first) - agree
        return differ > same

    def read_whole(self, text: str, at: int) -> None:
        self.last, self._whole = at, (text, at)

    def write(self, text: str, at: int) -> None:
        self.edited = True
        self.read_whole(text, at)

    def edit(self, event: FileEvent, at: int) -> None:
        self.edited, self.last = True, at
        if event.insert_line >= 0:
            self._insert(event.insert_line, event.new, at)
            return
        found = [f for f in self.fragments if event.old in "\n".join(f.lines)]
        if not found:
            self.lose_numbers()
            new = event.new.split("\n")
            self.fragments.append(Fragment(new, [at] * len(new)))
            return
        for fragment in found if event.everywhere else found[:1]:
            self._replace(fragment, event, at)

    def _replace(self, fragment: Fragment, event: FileEvent, at: int) -> None:
        text = "\n".join(fragment.lines)
        before = text[: text.index(event.old)].count("\n")
        lines = text.replace(event.old, event.new, -1 if event.everywhere else 1).split("\n")
        grown = len(lines) - len(fragment.lines)
        span = event.old.count("\n") + 1 + max(grown, 0)
        touched = (
            fragment.touched[: before + 1] + [at] * max(grown, 0) + fragment.touched[before + 1 + max(-grown, 0) :]
        )
        touched = (touched + [at] * len(lines))[: len(lines)]
        near = range(max(0, before - _NEAR_LINES), min(len(lines), before + span + _NEAR_LINES))
        for i in range(len(lines)) if event.everywhere else near:
            touched[i] = at
        for other in self.fragments:
            if grown and other is not fragment and other.start:
                other.start = (
                    0 if not fragment.start else other.start + grown if other.start > fragment.start else other.start
                )
        fragment.lines, fragment.touched = lines, touched

    def _insert(self, after: int, text: str, at: int) -> None:
        new = text.removesuffix("\n").split("\n")
        holder = next((f for f in self.fragments if f.start and f.start - 1 <= after <= f.end - 1), None)
        if holder is None:
            self.lose_numbers()
            self.fragments.append(Fragment(new, [at] * len(new)))
            return
        cut = after - holder.start + 1
        holder.lines[cut:cut] = new
        holder.touched[cut:cut] = [at] * len(new)
        for other in self.fragments:
            if other is not holder and other.start > holder.start:
                other.start += len(new)

    def lose_numbers(self) -> None:
        for fragment in self.fragments:
            fragment.start = 0


def _fragment(text: str, first: int, at: int) -> Fragment:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return Fragment(lines, [at] * len(lines), first)


def _outside(old: Fragment, new: Fragment) -> Iterator[Fragment]:
    """What is left of a fragment outside the lines of a newer one."""
    if new.end <= old.start or old.end <= new.start:
        yield old
        return
    before, behind = new.start - old.start, new.end - old.start
    if before > 0:
        yield Fragment(old.lines[:before], old.touched[:before], old.start)
    if behind < len(old.lines):
        yield Fragment(old.lines[behind:], old.touched[behind:], new.end)


# ---- what cannot be followed

_GIT = rule(
    r"\bgit\s(?:-[cC]\s?\S{1,200}\s)?\s{0,4}(?:checkout(?!\s+-[bB]\b)|restore(?!\s+--staged)|stash(?!\s+(?:list|show))"
    r"|merge(?!-)|reset\s+--hard|pull|rebase|switch(?!\s+-[cC]\b)|revert|cherry-pick|apply|am|clean)\b"
)
_FORMATTER = rule(
    r"\b(?:prettier\b[^|;&\n]{0,200}(?:--write|-w)\b|gofmt\s[^|;&\n]{0,80}-w|go fmt|gofumpt|goimports|black\s|rustfmt"
    r"|ruff (?:format|check[^|;&\n]{0,80}--fix)|eslint\b[^|;&\n]{0,200}--fix|cargo fmt|cargo fix|isort\s|autopep8|yapf"
    r"|biome\b[^|;&\n]{0,80}(?:--write|--apply)|dotnet format|mix format|clang-format\s[^|;&\n]{0,40}-i|swiftformat"
    r"|ktlint -F|golangci-lint\b[^|;&\n]{0,80}--fix|pre-commit run|lint[:-]fix|run (?:format|fmt|fix)\b)"
)
_FORMATTER_SIGNS = (
    *("prettier", "fmt", "goimports", "black", "ruff", "--fix", "cargo fix", "biome", "isort", "autopep8", "yapf"),
    *("format", "fumpt", "ktlint", "pre-commit", "lint", "fix"),
)
_WRITES = rule(
    r"(?<![0-9&=<-])>{1,2}(?!&|\s{0,4}/dev/)|\btee\b|\bmv\b|\bcp\b|\bpatch\b|writeFile|write_text|\.write\(|open\([^)\n]{0,200}['\"][wa]b?\+?['\"]"
    r"|Set-Content|Out-File|\bsed\s[^|;&\n]{0,40}-i|\bperl\s[^|;&\n]{0,20}-\w{0,4}i|\binstall\b|\btruncate\b|\brm\b"
)
_AGENT_KEYS = frozenset({"prompt", "task", "message", "instructions"})


def upsets(command: str) -> Literal["drop", "numbers", ""]:
    """What a command does to files that it does not name: `drop` them, take their `numbers`, or nothing."""
    command = command[:20_000]
    if "git" in command and _GIT.search(command):
        return "drop"
    return "numbers" if holds_any(command, _FORMATTER_SIGNS) and _FORMATTER.search(command) else ""


def _hands_over(call: Part) -> bool:
    """Whether a call gives work to another agent: it holds a text that says what to do."""
    arguments = call.arguments
    if not arguments or _AGENT_KEYS.isdisjoint(arguments):
        return False
    return any(isinstance(v, str) and len(v) > 40 for k, v in arguments.items() if k in _AGENT_KEYS)


def normal(path: str) -> str:
    """A path as a key: forward slashes, no leading `./`."""
    return path.replace("\\", "/").removeprefix("./")


def file_models(view: View, events: Sequence[FileEvent], start: int, end: int) -> list[FileModel]:
    """What the events leave known, one model a file, in the order the files were last touched."""
    models: dict[str, FileModel] = {}
    bases: dict[str, set[str]] = {}
    for event in _with_agents(view, events, start, end):
        if event is None:
            _each(models.values(), FileModel.lose_numbers)
        elif event.action == "run":
            _after_run(models, bases, event)
        elif event.path and (event.ok or event.action != "read"):
            _apply(view, models, bases, event)
    return sorted((m for m in models.values() if m.fragments), key=lambda m: (m.last, m.path))


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


def _each(models: Iterable[FileModel], do: Callable[[FileModel], None]) -> None:
    for model in models:
        do(model)


def _after_run(models: dict[str, FileModel], bases: dict[str, set[str]], event: FileEvent) -> None:
    effect = upsets(event.command)
    if effect == "drop":
        models.clear()
        bases.clear()
        return
    if effect == "numbers":
        _each(models.values(), FileModel.lose_numbers)
    named = [b for b in bases if b in event.command]
    if named and _WRITES.search(event.command, 0, 20_000):
        for name in named:
            for key in bases.pop(name):
                models.pop(key, None)


def _key_of(bases: dict[str, set[str]], path: str) -> str:
    """The key of a path; a relative one is the same file as the one known path that ends in it."""
    path = normal(path)
    if path.startswith(("/", "~")) or path[1:3] == ":/":
        return path
    same = [k for k in bases.get(path.rpartition("/")[2], ()) if k == path or k.endswith("/" + path)]
    return same[0] if len(same) == 1 else path


def _apply(view: View, models: dict[str, FileModel], bases: dict[str, set[str]], event: FileEvent) -> None:
    if event.action == "search" or (event.hint and event.action == "read"):
        return
    key = _key_of(bases, event.path)
    uncertain = event.hint or (not event.ok and event.result_message < 0)
    if event.action == "delete" or uncertain or len(event.new) > _MAX_FILE_CHARS:
        models.pop(key, None)
        return
    if not event.ok:
        return
    model = models.get(key)
    if model is None:
        model = models[key] = FileModel(event.path)
        bases.setdefault(key.rpartition("/")[2], set()).add(key)
    if event.action == "write":
        model.write(event.new, event.message)
    elif event.action == "edit":
        model.edit(event, event.message)
    else:
        _read(view, model, event)


def _read(view: View, model: FileModel, event: FileEvent) -> None:
    result = view.messages[event.result_message].parts[event.result_place]
    if result.media or len(result.text) > _MAX_FILE_CHARS:
        return
    text, first, whole = shown_lines(result, event)
    if whole:
        model.read_whole(text, event.message)
    else:
        model.read(text, first, event.message)


def shown_lines(result: Part, event: FileEvent) -> tuple[str, int, bool]:
    """The file's text in the result of a read, the number of its first line, and whether that is all of the file."""
    text, number = read_text(result)
    cut = text is not result.text and "[Showing lines" in result.text[-300:]
    first = number or max(event.offset, 1)
    return text, first, first == 1 and not event.limit and not cut and not _is_clipped(result.text)


def _is_clipped(text: str) -> bool:
    end = text[-400:]
    return "truncated" in end or "more lines" in end or "Use offset" in end


# ---- what to show of it


@dataclass(frozen=True, slots=True)
class Block:
    """Lines [first, last) of a fragment."""

    score: float
    file: int
    fragment: int
    first: int
    last: int
    chars: int


_OPEN_ITEM = rule(r"\s{0,20}[-*] \[ \]")
_HEADING = rule(r"#{1,6} \S")


def ranked_blocks(models: Sequence[FileModel], shown: Collection[str], turns: Sequence[int]) -> list[Block]:
    """Blocks of lines, the most likely to be needed first. Lines that stand in `shown` are left out."""
    return sorted(_blocks(models, shown, turns), key=lambda b: (-b.score, b.file, b.fragment, b.first))


def copies_text(models: Sequence[FileModel], blocks: Sequence[Block], max_chars: int) -> str:
    """As many of the blocks as fit, file by file, with `@line` at every jump; no line that looks like our own."""
    chosen: dict[int, list[Block]] = {}
    room, used = max_chars, dict[int, int]()
    for block in blocks:
        cost = block.chars + 12 + (0 if block.file in used else len(models[block.file].path) + 8)
        if cost > room or used.get(block.file, 0) + cost > max_chars * FILE_SHARE:
            continue
        room, used[block.file] = room - cost, used.get(block.file, 0) + cost
        chosen.setdefault(block.file, []).append(block)
    return "\n".join(_printed(models[f], chosen[f]) for f in sorted(chosen))


def _blocks(models: Sequence[FileModel], shown: Collection[str], turns: Sequence[int]) -> Iterator[Block]:
    for f, model in enumerate(models):
        size = sum(len(line) + 1 for fragment in model.fragments for line in fragment.lines)
        base = 0.65 * turns[model.last] - 12 * math.log(max(size / 3, 600) / 600) + (20 if model.edited else 0)
        for g, fragment in enumerate(model.fragments):
            for first, last, kind in _runs(model, fragment, shown):
                chars = sum(map(len, fragment.lines[first:last])) + last - first
                yield Block(base + 0.35 * turns[fragment.touched[first]] + kind, f, g, first, last, chars)


def _runs(model: FileModel, fragment: Fragment, shown: Collection[str]) -> Iterator[tuple[int, int, int]]:
    """Runs of at most 40 lines of equal age and kind that are not shown elsewhere: (first, last, bonus)."""
    marks = [
        None if len(line) > 8 and line in shown else (t, _bonus(line) if model.edited else 0)
        for line, t in zip(fragment.lines, fragment.touched, strict=True)
    ]
    first = 0
    for i in range(1, len(marks) + 1):
        if i == len(marks) or marks[i] != marks[first] or i - first >= BLOCK_LINES:
            mark = marks[first]
            if mark is not None:
                yield first, i, mark[1]
            first = i


def _bonus(line: str) -> int:
    if "[ ]" in line and _OPEN_ITEM.match(line):
        return 100
    return 40 if line[:1] == "#" and _HEADING.match(line) else 0


def _printed(model: FileModel, blocks: list[Block]) -> str:
    out = [f"--- {model.path}"]
    blocks.sort(key=lambda b: (model.fragments[b.fragment].start or 10**9, b.fragment, b.first))
    at: tuple[int, int] | None = None
    for block in blocks:
        fragment = model.fragments[block.fragment]
        if at != (block.fragment, block.first):
            out.append(f"@{fragment.start + block.first}" if fragment.start else "@?")
        lines = fragment.lines[block.first : block.last]
        if not is_plain("\n".join(lines)):
            lines = [line if is_plain(line) else "[1 line left out]" for line in lines]
        out.extend(lines)
        at = (block.fragment, block.last)
    return "\n".join(out)
