"""Many pieces of work on all cores: results in the order of the work, a bar on the terminal, and a clean Ctrl-C."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from ..errors import InvalidRequest
from .streams import no_progress, progress

T = TypeVar("T")
_BAR_COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Failed:
    """A piece of work that came to nothing, and why, in one line."""

    why: str


def in_order(work: Sequence[Callable[[], T]], jobs: int) -> Iterator[T | Failed]:
    """What each piece of work gives. Bad input is a `Failed`; with one job, or one piece, all is done in this process.

    Work and results go to other processes and back: both have to be picklable.
    """
    if min(jobs, len(work)) < 2:
        for n, piece in enumerate(work):
            _show(n, len(work))
            yield _done(piece)
        _clear(len(work))
        return
    context = multiprocessing.get_context("spawn")  # a fork copies locks that threads of the caller may hold
    executor = ProcessPoolExecutor(min(jobs, len(work)), mp_context=context, initializer=_begin_beside)
    try:
        with _interrupts_left():  # until they have started; from then on they do so themselves
            futures = [executor.submit(_done, piece) for piece in work]
        yield from _collected(futures)
        executor.shutdown()
    except BaseException:  # Ctrl-C above all: nobody waits for work that nobody wants
        for process in multiprocessing.active_children():
            process.terminate()
        executor.shutdown(cancel_futures=True)
        raise
    finally:
        _clear(len(work))


def _collected(futures: Sequence[Future[T | Failed]]) -> Iterator[T | Failed]:
    place = 0
    _show(0, len(futures))
    for done, _ in enumerate(as_completed(futures), 1):
        _show(done, len(futures))
        while place < len(futures) and futures[place].done():
            yield _result(futures[place])
            place += 1


def _result(future: Future[T | Failed]) -> T | Failed:
    try:
        return future.result()
    except BrokenProcessPool:
        return Failed("the process that read it died: out of memory?")


def _done(piece: Callable[[], T]) -> T | Failed:
    try:
        return piece()
    except InvalidRequest as error:
        return Failed(str(error))
    except OSError as error:
        return Failed(error.strerror or str(error))
    except RecursionError:
        return Failed("nested too deep")
    except MemoryError:
        return Failed("out of memory")


@contextmanager
def _interrupts_left() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal: the first one ends the others, which inherit that they ignore it."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread, where no signal arrives
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin_beside() -> None:
    """One of many processes: the first one hears Ctrl-C, and has the line of the terminal for its bar."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    no_progress()


def _show(done: int, of: int) -> None:
    filled = _BAR_COLUMNS * done // of if of else 0
    progress(f"{'#' * filled}{'.' * (_BAR_COLUMNS - filled)} {done:,} of {of:,} files", of > 1)


def _clear(of: int) -> None:
    progress("", of > 1)
