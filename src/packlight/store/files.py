"""A folder that only its owner can read, and files in it that are whole or not there.

File names are hashes or fixed words: nothing that a caller, a tool or a model says ever becomes part of a path.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from ..errors import StoreError

DATABASE = "store.db"
RESULTS = "results"
TRANSCRIPTS = "transcripts"
KEY_FILE = "proxy.key"
_OURS = {
    ".gitignore",
    DATABASE,
    f"{DATABASE}-wal",
    f"{DATABASE}-shm",
    f"{DATABASE}-journal",
    RESULTS,
    TRANSCRIPTS,
    KEY_FILE,
}
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600


def check_folder(folder: Path) -> bool:
    """Whether the store's folder is there. Raises `StoreError` when something else stands in its place."""
    found = _lstat(folder)
    if found is None:
        return False
    if stat.S_ISLNK(found.st_mode):
        raise StoreError(f"{folder}: a store folder may not be a symbolic link")
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(f"{folder}: is a file, not a folder")
    for name in _OURS:
        inside = _lstat(folder / name)
        if inside is not None and stat.S_ISLNK(inside.st_mode):
            raise StoreError(f"{folder / name}: may not be a symbolic link")
    return True


def prepare_folder(folder: Path) -> None:
    """Make the folder, or make sure that it is ours, and that git and other users keep out of it."""
    if not check_folder(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=_FOLDER_MODE)
            _sync_folder(folder.parent)
        check_folder(folder)
    elif not (folder / DATABASE).exists() and any(not _is_ours(name) for name in os.listdir(folder)):
        # Our .gitignore hides everything beside it: never put it into somebody's project.
        raise StoreError(f"{folder}: holds other files and no store; name an empty or a new folder")
    _make_private(folder, _FOLDER_MODE)
    _create(folder / ".gitignore", b"*\n")
    _create(folder / DATABASE, b"")
    _make_private(folder / DATABASE, _FILE_MODE)


def write_whole(folder: Path, subfolder: str, name: str, write: Callable[[int], None]) -> Path:
    """Write folder/subfolder/name through a temporary file: readers see the old file or the new one, never a part."""
    place = folder / subfolder
    with contextlib.suppress(FileExistsError):
        place.mkdir(mode=_FOLDER_MODE)
    if not stat.S_ISDIR(place.lstat().st_mode):
        raise StoreError(f"{place}: is not a folder")
    _make_private(place, _FOLDER_MODE)
    target, temporary = place / name, place / f".{name}.{secrets.token_hex(8)}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, _FILE_MODE)
    try:
        try:
            _make_private(temporary, _FILE_MODE)
            write(descriptor)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(place)
    return target


def write_bytes(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_lines(descriptor: int, lines: Iterable[str]) -> None:
    for line in lines:
        write_bytes(descriptor, readable(line) + b"\n")


def readable(text: str) -> bytes:
    """UTF-8 that every tool can read; a lone surrogate shows as its escape (the store itself keeps it exactly)."""
    return text.encode("utf-8", "backslashreplace")


def holds(path: Path, data: bytes) -> bool:
    try:
        found = path.lstat()
        return stat.S_ISREG(found.st_mode) and found.st_size == len(data) and path.read_bytes() == data
    except FileNotFoundError:
        return False


def remove_files(folder: Path, subfolder: str, *, unless: Callable[[str, float], bool]) -> int:
    """Delete the files of a subfolder, except those kept (asked by hash and time of change); how many went."""
    removed = 0
    with contextlib.suppress(FileNotFoundError):
        for entry in list(os.scandir(folder / subfolder)):
            hash = entry.name.partition(".")[0]  # empty for a temporary file
            with contextlib.suppress(FileNotFoundError):
                if not unless(hash, entry.stat(follow_symlinks=False).st_mtime):
                    os.unlink(entry.path)
                    removed += 1
    return removed


def sizes_bytes(folder: Path) -> dict[str, int]:
    """The size of each file of a folder, by the part of its name before the dot."""
    sizes: dict[str, int] = {}
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            with contextlib.suppress(FileNotFoundError):
                if entry.is_file(follow_symlinks=False):
                    name = entry.name.partition(".")[0]
                    sizes[name] = sizes.get(name, 0) + entry.stat(follow_symlinks=False).st_size
    return sizes


def size_bytes(folder: Path) -> int:
    """Size of all files of a store."""
    return sum(sum(sizes_bytes(place).values()) for place in (folder, folder / RESULTS, folder / TRANSCRIPTS))


def _is_ours(name: str) -> bool:
    return name in _OURS or name == ".DS_Store"


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _create(path: Path, content: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, _FILE_MODE)
    except FileExistsError:
        return
    try:
        write_bytes(descriptor, content)
    finally:
        os.close(descriptor)
    _make_private(path, _FILE_MODE)


def _make_private(path: Path, mode: int) -> None:
    """Give exactly this mode: the umask may have taken too much, somebody else may have given too much."""
    if os.name != "posix" or stat.S_IMODE(path.lstat().st_mode) == mode:
        return
    try:
        os.chmod(path, mode)
    except PermissionError:
        raise StoreError(f"{path}: belongs to somebody else, so it can't be made private") from None


def _sync_folder(folder: Path) -> None:
    """A new name is on disk only once its folder is."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
