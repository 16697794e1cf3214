"""Readers that other packages add, as entry points of the group `packlight.readers`: a name, and a module (or any
object) in the shape of `readers.Reader`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

GROUP = "packlight.readers"


@cache
def readers() -> tuple[dict[str, Any], list[str]]:
    """By name; and what is to be said of those that can't be used."""
    found, problems = {}, []
    for entry in entry_points(group=GROUP):
        try:
            reader = entry.load()
            found[entry.name] = reader if reader.recognise and reader.read else None
        except Exception as error:  # anything can happen in somebody else's module
            problems.append(f"reader {entry.name!r} of another package can't be used: {error}")
    return found, problems
