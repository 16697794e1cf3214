"""Which walks there are to make, and the files their figures are kept in."""

from __future__ import annotations

import ast
import functools
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .rows import SOURCE, Row
from .sessions import Log
from .turns import packed, unpacked

HERE = Path(__file__).parent
READ_RATIOS: tuple[float | None, ...] = (0.1, 0.05, 0.025, None)
"""Price of a cached read against plain input: Anthropic's and OpenAI's usual ones; None for a model without a cache."""
ANY_WINDOW = 128_000
"""Under which a row is kept that does the same in every window."""
SHIFTS = (1.0, 0.8, 0.9, 1.12, 1.25)
"""The window is scaled by these, and the price that a policy is told: when a batch falls due is luck, and this
averages over it."""
SPREAD_WINDOWS = (128_000, 200_000)
"""Around these."""
_ABOVE = frozenset({"agent", "cli", "integrations", "proxy", "replay", "testing"})
"""Parts of packlight that use a compactor: no compaction hangs on them."""
_MEASURES = ("walk", "cost", "weights", "foreign", "prefix", "run", "session")
_OF_COPIES = "rebuilt"
"""The measure of copies in a digest, which only ours has."""


@dataclass(frozen=True)
class Cell:
    """One walk: a session, a row, a window. Rows that know prices or no window have more of them, or fewer."""

    row: str
    window_tokens: int
    shift: float
    read_ratio: float | None

    @property
    def walked_window(self) -> int:
        return round(self.window_tokens * self.shift)

    @property
    def told_read_ratio(self) -> float | None:
        """A policy that goes by prices more than by the window is moved by those."""
        return None if self.read_ratio is None else self.read_ratio * self.shift

    def __str__(self) -> str:
        return f"{self.row}|{self.window_tokens}|{self.shift:g}|{self.read_ratio}"


def with_room(windows: Sequence[int], head_tokens: float) -> list[int]:
    """Of these windows, those that a session's system prompt and tools leave a quarter of at least."""
    return [window for window in windows if head_tokens <= 0.75 * window]


def cells(row: Row, windows: Sequence[int], shifts: Sequence[float]) -> Iterator[Cell]:
    for window in windows if row.knows_window else (ANY_WINDOW,):
        for shift in shifts if row.knows_window and window in SPREAD_WINDOWS else shifts[:1]:
            for ratio in READ_RATIOS if row.knows_prices and shift == 1.0 else READ_RATIOS[:1]:
                yield Cell(row.name, window, shift, ratio)


def key_of(row: Row, log: Log) -> str:
    """Changes when the figures of a row on a session may: with the session, the measures, or the row's own code.

    Comments and layout of the code do not count.
    """
    replay = SOURCE / "replay"
    files = [HERE / "cell.py", *(replay / f"{name}.py" for name in _MEASURES)]
    files += [p for p in (replay / "loss").glob("*.py") if row.is_ours or p.stem != _OF_COPIES]
    for path in row.code:
        files += _below(path) if path.is_dir() else [path]
    state = hashlib.sha256(f"{log.digest} {row.name} {row.version}".encode())
    for file in sorted(set(files)):
        state.update(_syntax(file).encode())
    return state.hexdigest()[:16]


def _below(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*.py") if p.relative_to(folder).parts[0] not in _ABOVE]


@functools.cache
def _syntax(file: Path) -> str:
    return ast.dump(ast.parse(file.read_bytes()))


class Results:
    """The figures of one session, in a file, and those of every request in one beside it.

    What is there already need not be walked again.
    """

    def __init__(self, folder: Path, log_name: str) -> None:
        file_name = log_name.replace("/", "--") + ".json.gz"
        self._file, self._file_by_turn = folder / file_name, folder / "turns" / file_name
        known, by_turn = _read(self._file), _read(self._file_by_turn)
        self.about: dict[str, Any] = known.get("about", {})
        self.cells: dict[str, dict[str, Any]] = known.get("cells", {})
        for name in self.cells.keys() & by_turn.keys():
            self.cells[name]["by_turn"] = unpacked(by_turn[name])

    @property
    def uncompacted(self) -> dict[str, Any] | None:
        """The walk that everything is compared with: no compaction, with caching."""
        return next((cell for name, cell in self.cells.items() if name.startswith("identity|")), None)

    def has(self, cell: Cell, key: str) -> bool:
        known = self.cells.get(str(cell), {})
        return known.get("key") == key and "by_turn" in known

    def put(self, cell: Cell, key: str, figures: dict[str, Any]) -> None:
        self.cells[str(cell)] = {"key": key, **figures}

    def write(self) -> None:
        cells = {name: {k: v for k, v in cell.items() if k != "by_turn"} for name, cell in self.cells.items()}
        by_turn = {name: packed(cell["by_turn"]) for name, cell in self.cells.items() if "by_turn" in cell}
        _write(self._file_by_turn, json.dumps(by_turn, sort_keys=True, separators=(",", ":")))
        _write(self._file, json.dumps({"about": self.about, "cells": cells}, sort_keys=True, indent=0))


def _read(file: Path) -> dict[str, Any]:
    return json.loads(gzip.decompress(file.read_bytes())) if file.exists() else {}


def _write(file: Path, body: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".new")
    temporary.write_bytes(gzip.compress(body.encode(), mtime=0))
    temporary.replace(file)


def versions(found: Mapping[str, Results]) -> dict[str, str]:
    """Of each row that has figures: the package's version, empty for what is no package."""
    return {n.rsplit("|", 3)[0]: c.get("version", "") for r in found.values() for n, c in r.cells.items()}


def read_results(folder: Path) -> dict[str, Results]:
    """Every session that has figures, by name."""
    names = sorted(f.name.removesuffix(".json.gz") for f in folder.glob("*.json.gz"))
    found = {name: Results(folder, name) for name in names}
    return {r.about.get("name", name): r for name, r in found.items()}
