"""What is known of one file's present text: runs of lines, most of them with their numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

_NEAR_LINES = 12
"""An edit touches the lines around it as well."""
_TELLING_CHARS = 8
"""A shorter line may stand anywhere in a file."""


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

    def part(self, first: int, last: int) -> Fragment:
        return Fragment(self.lines[first:last], self.touched[first:last], self.start and self.start + first)


@dataclass(slots=True)
class FileModel:
    """What is known of one file."""

    path: str
    edited: bool = False
    last: int = 0
    """Message of its last read or change."""
    is_whole: bool = False
    """Whether the file has no lines behind the last one known."""
    _fragments: list[Fragment] = field(default_factory=list)
    _whole: tuple[str, int] | None = None
    """A whole text and its message, not split into lines yet: the next one mostly takes its place before that."""

    @property
    def fragments(self) -> list[Fragment]:
        if self._whole is not None:
            (text, at), self._whole = self._whole, None
            self._fragments = [f for f in [_fragment(text, 1, at)] if f.lines]
        return self._fragments

    @fragments.setter
    def fragments(self, fragments: Iterable[Fragment]) -> None:
        self._fragments, self._whole = [f for f in fragments if f.lines], None

    def text(self) -> str:
        if self._whole is not None:
            return self._whole[0]
        return "\n".join(line for fragment in self._fragments for line in fragment.lines)

    def copy(self, path: str, at: int) -> FileModel:
        """The model of a file with the same text."""
        copies = [Fragment(list(f.lines), [at] * len(f.lines), f.start) for f in self.fragments]
        return FileModel(path, self.edited, at, self.is_whole, copies)

    def snapshot(self) -> FileModel:
        """The same, for whoever reads it while this one goes on."""
        copies = [Fragment(list(f.lines), list(f.touched), f.start) for f in self._fragments]
        return replace(self, _fragments=copies)

    # ---- reads

    def read_whole(self, text: str, at: int) -> None:
        self.last, self._whole, self.is_whole = at, (text, at), True

    def read(self, text: str, first: int, at: int) -> None:
        """Lines of the file from this one on (0: it is not known where), as they were at that message."""
        self.last = at
        new = _fragment(text, first, at)
        if not new.lines:
            return
        if first and self.contradicts(new):
            self.lose_numbers()
        rest: list[Fragment] = []
        seen = set(new.lines)
        for old in self.fragments:
            if old.start and first:
                rest.extend(_outside(old, new))
            elif not seen.issuperset(old.lines):
                rest.extend(_cut_out(old, new))
        self.fragments = [*rest, new]

    def contradicts(self, new: Fragment) -> bool:
        """Whether most of the lines known at the same numbers are others."""
        same = differ = 0
        for old in self.fragments:
            first, last = max(old.start, new.start), min(old.end, new.end)
            if old.start and last > first:
                ours = old.lines[first - old.start : last - old.start]
                theirs = new.lines[first - new.start : last - new.start]
                agree = sum(a == b for a, b in zip(ours, theirs, strict=True))
                same, differ = same + agree, differ + last - first - agree
        return differ > same

    def lose_numbers(self) -> None:
        for fragment in self.fragments:
            fragment.start = 0

    # ---- changes

    def write(self, text: str, at: int) -> None:
        self.edited = True
        self.read_whole(text, at)

    def append(self, text: str, at: int) -> None:
        """Lines put behind the last one."""
        self.edited, self.last = True, at
        new = _fragment(text, 0, at)
        if self.is_whole and len(self.fragments) == 1:
            self.fragments[0].lines.extend(new.lines)
            self.fragments[0].touched.extend(new.touched)
        else:
            self.fragments = [*self.fragments, new]

    def replace_in_lines(self, old: re.Pattern[str], new: str, at: int, *, everywhere: bool, line: int) -> bool:
        """What `sed` does: in each line, or the line of this number, the first place or every one.

        False when what is known does not go with it.
        """
        self.edited, self.last = True, at
        count = 0 if everywhere else 1
        for fragment in self.fragments:
            first, last = (line - fragment.start, line - fragment.start + 1) if line else (0, len(fragment.lines))
            if line and (not fragment.start or not 0 <= first < len(fragment.lines)):
                if not fragment.start and any(map(old.search, fragment.lines)):
                    return False
                continue
            if line and not old.search(fragment.lines[first]):
                return False
            for i in range(first, last):
                changed = old.sub(lambda _: new, fragment.lines[i], count)
                if changed != fragment.lines[i]:
                    fragment.lines[i], fragment.touched[i] = changed, at
        if "\n" in new:
            for fragment in self.fragments:
                again = _fragment("\n".join(fragment.lines), 0, at)
                fragment.lines, fragment.touched, fragment.start = again.lines, again.touched, 0
            self.fragments = self.fragments  # one of a single empty line has none now
        return True

    def edit(self, old: str, new: str, at: int, *, everywhere: bool = False) -> None:
        """One text in place of another. Where the old one is not known, the new one is, but not its place."""
        self.edited, self.last = True, at
        found = [f for f in self.fragments if old in "\n".join(f.lines)]
        for fragment in found:
            self._replace(fragment, old, new, at, everywhere)
        if not found:
            if old.count("\n") != new.count("\n"):
                self.lose_numbers()
            self._forget(set(old.split("\n")) - set(new.split("\n")))
            self.fragments = [*self.fragments, _fragment(new, 0, at)]
            self.is_whole = False

    def _replace(self, fragment: Fragment, old: str, new: str, at: int, everywhere: bool) -> None:
        text = "\n".join(fragment.lines)
        before = text[: text.index(old)].count("\n")
        lines = text.replace(old, new, -1 if everywhere else 1).split("\n")
        grown = len(lines) - len(fragment.lines)
        touched = fragment.touched
        touched = touched[: before + 1] + [at] * max(grown, 0) + touched[before + 1 + max(-grown, 0) :]
        touched = (touched + [at] * len(lines))[: len(lines)]
        span = old.count("\n") + 1 + max(grown, 0)
        near = range(max(0, before - _NEAR_LINES), min(len(lines), before + span + _NEAR_LINES))
        for i in range(len(lines)) if everywhere else near:
            touched[i] = at
        self._move_behind(fragment, grown)
        fragment.lines, fragment.touched = lines, touched

    def _move_behind(self, changed: Fragment, grown: int) -> None:
        """Numbers of the other fragments, after this one has grown."""
        for other in self.fragments if grown else ():
            if other is not changed and other.start:
                if not changed.start:
                    other.start = 0
                elif other.start > changed.start:
                    other.start += grown

    def insert(self, after: int, text: str, at: int) -> None:
        """Lines put behind the line of this number."""
        self.edited, self.last = True, at
        new = text.removesuffix("\n").split("\n")
        holder = next((f for f in self.fragments if f.start and f.start - 1 <= after <= f.end - 1), None)
        if holder is None:
            self.lose_numbers()
            self.fragments = [*self.fragments, Fragment(new, [at] * len(new))]
            return
        cut = after - holder.start + 1
        self._move_behind(holder, len(new))
        holder.lines[cut:cut] = new
        holder.touched[cut:cut] = [at] * len(new)

    def _forget(self, gone: set[str]) -> None:
        """Takes out lines that are in the file no more."""
        gone = {line for line in gone if len(line) >= _TELLING_CHARS}
        kept: list[Fragment] = []
        for fragment in self.fragments:
            first = 0
            for i, line in enumerate(fragment.lines):
                if line in gone:
                    kept.append(fragment.part(first, i))
                    first = i + 1
            kept.append(fragment.part(first, len(fragment.lines)))
        self.fragments = kept


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
    yield old.part(0, max(0, new.start - old.start))
    yield old.part(new.end - old.start, len(old.lines)) if new.end > old.start else old.part(0, 0)


def _cut_out(old: Fragment, new: Fragment) -> Iterator[Fragment]:
    """What is left of a fragment without the stretch that a newer one shows, where numbers don't tell."""
    places = _unique(new.lines)
    both = [(i, places[line]) for line, i in _unique(old.lines).items() if line in places]
    if not both:
        yield old
        return
    (first, at), (last, to) = min(both), max(both)
    yield old.part(0, max(0, first - at))
    yield old.part(min(len(old.lines), last + len(new.lines) - to), len(old.lines))


def _unique(lines: Sequence[str]) -> dict[str, int]:
    """Where each line stands that is told from all others."""
    counts = Counter(lines)
    return {line: i for i, line in enumerate(lines) if counts[line] == 1 and len(line) >= _TELLING_CHARS}
