"""What goes in and out: bytes from a file or standard input, results whole or not at all, text on any terminal."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TextIO

from .. import jsonio
from ..atomic import replace_file
from ..errors import InvalidRequest
from ..types import Json


def read(file: str) -> bytes:
    """The bytes of a file, or of standard input when it is `-`."""
    if file != "-":
        return Path(file).read_bytes()
    if sys.stdin is None:
        raise InvalidRequest("standard input is closed")
    return sys.stdin.buffer.read()


def load(file: str) -> Json:
    """The JSON value of a file. Raises InvalidRequest with a line that names the file."""
    name = "standard input" if file == "-" else file
    try:
        return jsonio.load(read(file))
    except InvalidRequest as error:
        hint = "; `packlight replay` reads session files" if file.endswith(".jsonl") else ""
        raise InvalidRequest(f"{name}: {error}{hint}") from error


def needs_folder(path: str) -> None:
    """Raises InvalidRequest where there is no store."""
    if not Path(path).is_dir():
        raise InvalidRequest(f"{path}: there is no store")


class _Progress:
    """The line of the terminal that is written over."""

    wanted = True
    shown = False


_progress = _Progress()


def say(text: str) -> None:
    """Text for a person, to standard error; a line of progress makes room for it."""
    if _progress.shown:
        progress("", True)
    _put(sys.stderr, text)


def counted(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def one_line(text: str) -> str:
    """A text in one line that a terminal can show, whatever it is made of."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split()))


_STYLE = re.compile(r"(\x1b\[[\d;]{1,4}m)")
"""A colour: the one code of a terminal that a report has."""


def printable(text: str) -> str:
    """A text of many lines that can't rewrite a terminal, whatever it is made of. Colours stay."""
    parts = _STYLE.split(text)
    for n in range(0, len(parts), 2):
        parts[n] = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in parts[n])
    return "".join(parts)


def show(text: str) -> None:
    """Text to standard output, harmless to a terminal; what its encoding can't say is escaped."""
    _put(sys.stdout, printable(text) if sys.stdout is not None and sys.stdout.isatty() else text)


_PLAIN = str.maketrans("▁▂▃▄▅▆▇█░┤│▲…", "__--=###.||^~")
"""Charts for a terminal that knows no such characters."""


def _put(stream: TextIO | None, text: str) -> None:
    if stream is None:
        return
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeError:
        text = text.translate(_PLAIN)
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def show_json(value: Json, *, indent: int | None = 2) -> None:
    """A JSON value to standard output, as UTF-8 whatever the terminal is."""
    _write_stdout(jsonio.dump(value, indent=indent))


def check_output(output: str | None) -> None:
    """Refuse a place that can't be written before any work is done."""
    if output is None or output == "-":
        return
    target = Path(output)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), output)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))


def write(output: str | None, data: bytes) -> None:
    """To standard output, or to a file that is there whole or not at all."""
    if output is None or output == "-":
        _write_stdout(data)
        return
    if Path(output).exists() and not Path(output).is_file():  # a device, a pipe
        Path(output).write_bytes(data + b"\n")
        return
    try:
        replace_file(Path(output), data + b"\n")
    except OSError as error:
        error.filename, error.filename2 = output, None
        raise


def _write_stdout(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def no_progress() -> None:
    """From now on this process leaves the terminal's line to another one."""
    _progress.wanted = False


def progress(text: str, wanted: bool) -> None:
    """One line that is written over, on a terminal that can do so."""
    if (
        wanted
        and _progress.wanted
        and sys.stderr is not None
        and sys.stderr.isatty()
        and os.environ.get("TERM") != "dumb"
    ):
        columns = shutil.get_terminal_size().columns  # a longer one would fold, and its beginning stay
        sys.stderr.write(f"\r\x1b[K{one_line(text)[: columns - 1]}")
        sys.stderr.flush()
        _progress.shown = bool(text)
