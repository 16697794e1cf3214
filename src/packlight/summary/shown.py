"""Which lines of which files the output of a shell line shows: certain where the line only reads.

A line of plain reads (`cat F`, `sed -n 3,9p F`, `nl -ba F | sed -n 3,9p`, ...) prints their files' lines one after
another; where one ends and the next begins is told by numbers, by what `echo` puts between, or by the counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .rules import holds_any, rule
from .shell import UNKNOWN, Command, joined

_MANY = 10**9
_MOST_PIECES = 100


@dataclass(slots=True)
class Shown:
    """Lines of a file in an output."""

    path: str
    first: int = 1
    """Number of the first line, from 1; 0 when it is not known."""
    most: int = _MANY
    """Lines asked for."""
    numbered: bool = False
    """Whether each line has its number in front."""
    start: int = -1
    """The characters [start, stop) of the output are the lines; -1 when that can't be told."""
    stop: int = -1
    whole: bool = False
    """Whether the file has no other lines."""
    alone: bool = False
    """Whether the output holds nothing else."""


_PASSED = frozenset({"cd", "true", ":", "set", "Set-Location", "export"})
_READERS = frozenset({"cat", "sed", "head", "tail", "nl", "less", "bat", "batcat", "type", "Get-Content", "gc", "more"})
_RANGES = rule(r"(?:\d{1,7}(?:,(?:\d{1,7}|\$))?p;? ?){1,40}\Z")
_RANGE = rule(r"(\d+)(?:,(\d+|\$))?p")
_COUNT = rule(r"-n?(\d{1,7})\Z")
_MISSING = rule(r"^(?:cat|sed|head|tail|nl): .{0,300}: (?:No such file|Is a directory|Permission denied)", re.MULTILINE)
_CUT = rule(
    r"…\d+ tokens truncated…|\n\n?\.\.\. \[\d+ (?:lines|characters) truncated\] \.\.\.|\[Showing lines \d|\n\[truncated"
)
_WARNING = rule(r"Warning: truncated output[^\n]*\n(?:Total output lines:[^\n]*\n)?\n?")


def shown_files(run: Sequence[Command], output: str, *, is_framed: bool) -> list[Shown]:
    """What the commands show of files, as far as their words tell; with its place in the output where it is certain.

    `is_framed`: the output stood in a frame and is as it was printed. Else blank lines at its ends may be missing.
    """
    if not any(c.words and c.words[0] in _READERS for c in run):
        return []
    pieces, plain = _pieces(run)
    reads = [p for p in pieces if isinstance(p, Shown)]
    if plain and 0 < len(pieces) <= _MOST_PIECES and reads and output and not _is_missing(output):
        _place(pieces, output)
        reads[0].alone = len(pieces) == 1
        if (
            not is_framed
            and reads[0].first > 1
            and output.count("\n", reads[0].start, reads[0].stop) + 1 < reads[0].most
        ):
            reads[0].first = reads[0].first if reads[0].numbered else 0
    return reads


def _pieces(run: Sequence[Command]) -> tuple[list[Shown | str], bool]:
    """What is printed, in order: files' lines and known texts; and whether that is all of it."""
    pieces: list[Shown | str] = []
    plain, n = True, 0
    while n < len(run):
        pipe = n + 1
        while pipe < len(run) and run[pipe].joint == "|":
            pipe += 1
        stages, n = run[n:pipe], pipe
        name = stages[0].words[0] if stages[0].words else ""
        if name in _READERS and not stages[0].outputs and not any(w.startswith("-i") for w in stages[0].words[1:3]):
            found, sure = _read(stages)
            pieces.extend(found)
            plain = (
                plain
                and sure
                and not any(c.nested or c.fed or c.outputs for c in stages)
                and stages[0].joint in (";", "&&")
            )
        elif len(stages) == 1 and name in ("echo", "printf") and not stages[0].outputs:
            text = _echoed(stages[0].words)
            plain = plain and bool(text) and not stages[0].nested
            pieces.append(text)
        elif len(stages) > 1 or name not in _PASSED:
            plain = False
    return pieces, plain


def _echoed(words: Sequence[str]) -> str:
    """What an `echo` or `printf` prints; empty when that is not known."""
    if any(UNKNOWN in w for w in words) or len(words) < 2 or words[1].startswith(("-n", "-e")):
        return ""
    if words[0] == "echo":
        return " ".join(words[1:]) + "\n" if "\\" not in "".join(words) else ""
    text = words[1].replace("\\n", "\n").replace("\\t", "\t").replace("%%", "\1")
    if text.startswith("%s") and len(words) == 3 and text.count("%") == 1:
        return text.replace("%s", words[2])
    return text.replace("\1", "%") if "%" not in text and "\\" not in text and len(words) == 2 else ""


def _read(stages: Sequence[Command]) -> tuple[list[Shown], bool]:
    """The files of one reading command, narrowed by what it is piped through, and whether these are all it prints."""
    command = stages[0]
    name, words = command.words[0], command.words
    flags = [w for w in words[1:] if w.startswith("-") and w != "-"]
    operands = [w for w in words[1:] if not w.startswith("-") and w != ">"]
    spans = [(1, _MANY)]
    sure = True
    if name == "sed":
        script, operands = (operands[0], operands[1:]) if operands else ("", [])
        spans = _spans(script)
        sure = flags == ["-n"] and bool(spans)
    elif name in ("head", "tail"):
        count, operands = _count(words[1:])
        sure = count != 0 and "-c" not in flags
        spans = [(1, count)] if name == "head" else [(0, count)] if count > 0 else [(-count, _MANY)]
    elif name in ("type", "less", "more", "bat", "batcat"):
        sure = not flags and name in ("type", "more")
    else:
        sure = all(flag == ("-n" if name == "cat" else "-ba" if name == "nl" else "-Raw") for flag in flags)
    numbered = (name == "cat" and "-n" in flags) or (name == "nl" and "-ba" in flags)
    if name == "nl" and not numbered:
        sure = False
    paths = [w for w in operands if _is_path(w)]
    sure = sure and len(paths) == 1 == len(operands)
    for stage in stages[1:]:
        spans, sure = _narrowed(stage, spans, sure)
    path = [joined(command.folder, p) for p in paths]
    return [Shown(p, first, most, numbered) for p in path for first, most in spans or [(0, _MANY)]], sure


def _spans(script: str) -> list[tuple[int, int]]:
    """(first line, lines) of what `sed -n` prints: ranges that go up."""
    if not _RANGES.match(script):
        return []
    out: list[tuple[int, int]] = []
    for first, last in _RANGE.findall(script):
        begin = int(first)
        end = _MANY if last == "$" else int(last or first)
        if begin < 1 or end < begin or (out and begin < out[-1][0] + out[-1][1]):
            return []
        out.append((begin, end - begin + 1))
    return out


def _count(words: Sequence[str]) -> tuple[int, list[str]]:
    """How many lines `head` or `tail` shows (0: unclear, negative: from that line on), and its operands."""
    count, rest, n = 10, list[str](), 0
    while n < len(words):
        word = words[n]
        if word == "-n" and n + 1 < len(words):
            n += 1
            value = words[n]
            count = (
                -int(value[1:])
                if value[:1] == "+" and value[1:].isdecimal()
                else int(value)
                if value.isdecimal()
                else 0
            )
        elif found := _COUNT.match(word):
            count = int(found[1])
        elif word.startswith("-"):
            count = 0
        else:
            rest.append(word)
        n += 1
    return (count if abs(count) < _MANY else 0), rest


def _narrowed(stage: Command, spans: list[tuple[int, int]], sure: bool) -> tuple[list[tuple[int, int]], bool]:
    """What is left of one span behind a pipe into `sed -n`, `head` or `tail`."""
    words = stage.words
    if len(spans) != 1 or not words or stage.outputs:
        return spans, False
    first, most = spans[0]
    if words[0] == "sed" and words[1:2] == ["-n"] and len(words) == 3:
        inner = _spans(words[2])
        if first < 1 or any(a > most for a, _ in inner):
            return spans, False
        return [(first + a - 1, min(n, most - a + 1)) for a, n in inner], sure and bool(inner)
    if words[0] in ("head", "tail"):
        count, rest = _count(words[1:])
        if rest or count == 0:
            return spans, False
        if words[0] == "head" and count > 0:
            return [(first, min(most, count))], sure
        if count < 0 and first >= 1:
            return [(first - count - 1, most + count + 1 if most < _MANY else _MANY)], sure and most + count + 1 > 0
        return [(0, min(count, most))], sure and count > 0
    return spans, False


def _is_path(word: str) -> bool:
    return (
        bool(word) and UNKNOWN not in word and "*" not in word and "?" not in word and word != "-" and len(word) < 1_000
    )


# ---- where


def _place(pieces: Sequence[Shown | str], output: str) -> None:
    """Tells the reads their places in the output, as far as that is certain."""
    end = len(output)
    warning = _WARNING.match(output)
    begin = warning.end() if warning else 0
    cut = _CUT.search(output, begin) if "truncated" in output or "[Showing" in output else None
    if cut:
        end = max(output.rfind("\n", begin, cut.start()), begin)
    texts = [p for p in pieces if isinstance(p, str)]
    places = _texts(texts, output, begin, end) if not cut or not texts else None
    if places is None or (cut and any(isinstance(p, str) for p in pieces)):
        return
    group: list[Shown] = []
    at = begin
    for piece in [*pieces, None]:
        if isinstance(piece, Shown):
            group.append(piece)
            continue
        stop, after = places.pop(0) if piece is not None else (end, end)
        _share(group, output, at, stop, cut=cut is not None)
        group, at = [], after


def _is_missing(output: str) -> bool:
    return holds_any(output, ("No such file", "Is a directory", "denied")) and bool(_MISSING.search(output))


def _texts(texts: Sequence[str], output: str, begin: int, end: int) -> list[tuple[int, int]] | None:
    """Where known texts stand; None unless each stands there just as often as it was printed."""
    places: list[tuple[int, int]] = []
    lines = _apart(output[begin:end]) if texts else ""
    for text in set(texts):
        bare = text.strip("\n")
        if len(bare) < 2 or lines.count(_apart(bare)) != texts.count(text):
            return None
    at = begin
    for text in texts:
        bare = text.strip("\n")
        found = output.find(bare, at, end)
        while found > begin and output[found - 1] != "\n":
            found = output.find(bare, found + 1, end)
        if found < 0:
            return None
        blank, behind = len(text) - len(text.lstrip("\n")), len(text) - len(text.rstrip("\n"))
        places.append((max(at, found - blank), min(found + len(bare) + behind, end)))
        at = places[-1][1]
    return places


def _apart(text: str) -> str:
    """The text with both ends of each line marked, so that lines in a row can be counted."""
    return "\n" + text.replace("\n", "\n\n") + "\n"


def _share(reads: Sequence[Shown], output: str, start: int, stop: int, *, cut: bool) -> None:
    """Shares out the lines [start, stop) among reads that stand one behind the other."""
    if not reads or start >= stop:
        return
    lines = output[start:stop].removesuffix("\n").split("\n")
    if all(read.numbered for read in reads):
        sizes = list(_numbered(reads, lines))
    elif len(reads) == 1:
        sizes = [len(lines)] if len(lines) <= reads[0].most else []
    else:
        sizes = [] if cut else _counted(reads, len(lines))
    if len(reads) == 1 and not cut and reads[0].first == 1 and sizes and sizes[0] < reads[0].most:
        reads[0].whole = True
    at, line = start, 0
    for read, size in zip(reads, sizes, strict=False):
        length = sum(map(len, lines[line : line + size])) + size
        read.start, read.stop = at, min(at + length, stop)
        at, line = at + length, line + size


def _numbered(reads: Sequence[Shown], lines: Sequence[str]) -> Iterator[int]:
    at = 0
    for read in reads:
        size = 0
        while at < len(lines) and size < read.most and lines[at].lstrip(" ").startswith(f"{read.first + size}\t"):
            at, size = at + 1, size + 1
        yield size


def _counted(reads: Sequence[Shown], lines: int) -> list[int]:
    """How many lines are surely the first read's, the second's, ...: as far as the counts tell."""
    sizes: list[int] = []
    for n, read in enumerate(reads):
        behind = reads[n + 1 :]
        other = lines - sum(r.most for r in behind)
        goes_on = lines > read.most and all(r.path == read.path and r.first >= read.first + read.most for r in behind)
        if goes_on or other >= read.most or not behind:
            sizes.append(min(read.most, lines))
            lines -= sizes[-1]
        elif other > 0:
            return [*sizes, other]
        if not lines or len(sizes) == n:
            break
    return sizes
