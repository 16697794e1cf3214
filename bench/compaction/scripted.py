"""The model that answers a summariser's calls here: fixed, free of chance, and the same for everybody.

It stands for a model that notes down what was named most, and what the user asked. It knows nothing of plans and
reasons, and a real summary may be better or worse. Standard library only: it runs in others' environments.
"""

from __future__ import annotations

import re
from collections import Counter

_NAME = re.compile(r"[\w./-]*[/_.][\w./-]*\w|\b[a-z]+[A-Z]\w+|\b[A-Z][a-z]+[A-Z]\w+")
_MOST_NAMES = 40
_SHOWN_CHARS = 400


def summary(prompt: str) -> str:
    """A text of 500 to 1,500 tokens: the beginning and the end of what was shown, and the names that came most."""
    counts = Counter(name for name in _NAME.findall(prompt) if 4 <= len(name) <= 120)
    often = sorted(counts, key=lambda name: (-counts[name], name))[:_MOST_NAMES]
    names = sorted(often, key=prompt.find)
    lines = ["## Goal", prompt[:_SHOWN_CHARS], "## Files and names", *(f"- {name}" for name in names)]
    return "\n".join([*lines, "## Where things stand", prompt[-_SHOWN_CHARS:]])
