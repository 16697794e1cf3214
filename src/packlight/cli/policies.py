"""The policy that a user names."""

from __future__ import annotations

from ..errors import InvalidRequest
from ..policy import PRESETS


def known_policy(name: str) -> None:
    """Raises InvalidRequest for a name that is no preset's."""
    if name not in PRESETS:
        raise InvalidRequest(f"unknown policy {name!r}: one of {', '.join(PRESETS)}")
