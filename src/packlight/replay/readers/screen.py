"""Cursor transcripts: recognised, and refused. They hold the words of both sides and nothing else."""

from __future__ import annotations

from typing import Any, NoReturn

from ...errors import InvalidRequest
from ..session import Notes


def recognise(records: list[dict[str, Any]]) -> bool:
    return bool(records) and all(
        r.keys() <= {"role", "message"} and isinstance(r.get("role"), str) and isinstance(r.get("message"), dict)
        for r in records[:50]
    )


def read(records: list[dict[str, Any]], *, name: str, notes: Notes) -> NoReturn:
    """Raises InvalidRequest: there is nothing to replay."""
    raise InvalidRequest(
        "a Cursor transcript has no tool calls, results or usage: what its model saw can't be rebuilt from it"
    )
