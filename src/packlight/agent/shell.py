"""Commands: run with a time limit in a process group of their own, their output gathered and capped."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from .workspace import ToolError, Workspace

Handler = Callable[[int, FrameType | None], object]

DEFAULT_SECONDS = 120
MAX_SECONDS = 3_600
MAX_OUTPUT_BYTES = 64_000_000
"""A command that prints more is killed."""
MAX_RESULT_CHARS = 500_000
"""What a result holds of an output; the rest stays in a file."""
_END_CHARS = 50_000
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended."""

    text: str
    code: int
    killed: str = ""
    """Why it was killed, if it was."""


def run(workspace: Workspace, command: Sequence[str], seconds: float) -> Ran:
    """Run a command to its end, to its time limit or to its output limit; then its process group is killed.

    A process that it left in the background goes on (see `kill_left`). An interrupt kills the group too.
    """
    process: subprocess.Popen[bytes] | None = None
    try:
        with _held_signals():  # while the process begins nobody knows it yet
            process = _begun(workspace, command)
            workspace.groups.add(process.pid)
        data, killed = _gathered(process, time.monotonic() + seconds)
    except BaseException:
        if process is not None:
            _kill(process.pid)
        raise
    finally:
        if process is not None:
            _ended(process)
    killed = f"{killed} after {seconds:g} seconds" if killed == "timed out" else killed
    return Ran(text=data.decode("utf-8", "replace"), code=process.returncode, killed=killed)


def _ended(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        _kill(process.pid)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _begun(workspace: Workspace, command: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            cwd=workspace.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # too long a command, a NUL in it
        raise ToolError(f"can't be run: {error}") from None


@contextmanager
def _held_signals() -> Iterator[None]:
    """Ctrl-C and a request to end wait until this is left."""
    came: list[Callable[[], object]] = []
    held: dict[int, Handler] = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)
        if callable(handler) and threading.current_thread() is threading.main_thread():
            held[number] = handler
            signal.signal(number, lambda number, frame: came.append(partial(held[number], number, frame)))
    try:
        yield
    finally:
        for known, handler in held.items():
            signal.signal(known, handler)
    for call in came:
        call()


def _gathered(process: subprocess.Popen[bytes], deadline_seconds: float) -> tuple[bytes, str]:
    """What it printed, and why it is to be killed."""
    pipe, data = process.stdout, bytearray()
    assert pipe is not None
    while True:
        if select.select([pipe], [], [], _POLL_SECONDS)[0]:
            piece = os.read(pipe.fileno(), 1 << 16)
            if not piece:
                return bytes(data), _waited(process, deadline_seconds)
            data += piece
        elif process.poll() is not None:  # what it left in the background holds the pipe open
            return bytes(data), ""
        if len(data) > MAX_OUTPUT_BYTES:
            return bytes(data), f"printed more than {MAX_OUTPUT_BYTES:,} bytes"
        if time.monotonic() > deadline_seconds:
            return bytes(data), "timed out"


def _waited(process: subprocess.Popen[bytes], deadline_seconds: float) -> str:
    """It has closed its output, but may go on."""
    try:
        process.wait(max(0.0, deadline_seconds - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "timed out"
    return ""


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def kill_left(workspace: Workspace) -> None:
    """End what commands left in the background."""
    while workspace.groups:
        _kill(workspace.groups.pop())


def told(workspace: Workspace, ran: Ran) -> str:
    """The result of a command as the model gets it."""
    text = capped(workspace, ran.text)
    if ran.killed:
        return f"Error: {ran.killed}, and was killed. Its output until then:\n{text}"
    if ran.code:
        return f"Exit code: {ran.code}\n{text}"
    return text or "(no output)"


def capped(workspace: Workspace, text: str) -> str:
    """An output that is too long for a result: beginning and end, and the file that holds all of it."""
    if len(text) <= MAX_RESULT_CHARS:
        return text
    where = "could not be kept"
    with suppress(OSError):
        where = f"is kept in {_kept(workspace.outputs, text)}: read_file shows any part of it"
    left = len(text) - 2 * _END_CHARS
    return (
        f"{text[:_END_CHARS]}\n[... {left:,} characters left out; the whole output {where} ...]\n{text[-_END_CHARS:]}"
    )


def _kept(folder: Path, text: str) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{len(os.listdir(folder)) + 1}.txt"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(text.encode("utf-8", "replace"))
    return path
