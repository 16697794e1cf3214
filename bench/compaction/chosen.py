"""Which sessions of a folder are walked: a rule that looks at no figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from packlight.formats import format_named

from .sessions import Log, logs

DESIGNED_ON = ("pi-before-compaction", "pi-large-session")
"""Two aims were set for these, and the digest was designed on them: they are walked and are part of no mean."""
_EXCHANGED = frozenset({"atif", "langchain", "messages"})
"""Readers of formats that sessions of any agent are converted to."""
_LONG_CHARS = 200
"""Shorter texts are said in many sessions."""
_OWN_RATIO = 0.5


def chosen(folder: Path, least_tokens: int) -> list[Log]:
    """Of each repository and agent the longest session of at least so many tokens, and those of `DESIGNED_ON`.

    A repository is a folder directly in the given one; a file that lies there stands for itself. Copies are left out.
    """
    longest: dict[tuple[str, ...], Log] = {}
    kept = []
    for log in originals(logs(folder, 0)):
        file = Path(log.session.path or "")
        if log.tokens < least_tokens:
            continue
        if file.stem in DESIGNED_ON:
            kept.append(log)
            continue
        group = *file.relative_to(folder).parts[:1], log.session.reader
        if group not in longest or log.tokens > longest[group].tokens:
            longest[group] = log
    return sorted([*longest.values(), *kept], key=lambda log: log.session.path or "")


def originals(found: Iterable[Log]) -> list[Log]:
    """Without the sessions that say little of their own.

    At least half of what stands in a session's long texts must stand in none of those before, nor earlier in itself:
    that leaves out a record of the same session in another format, and one that was filled up to be long. Records in
    an agent's own format come first, then those that come first by name.
    """
    seen: set[str] = set()
    kept = []
    for log in sorted(found, key=lambda log: (log.session.reader in _EXCHANGED, log.session.path or "")):
        texts = _long_texts(log)
        own = sum(len(text) for text in set(texts) - seen)
        if own >= _OWN_RATIO * sum(map(len, texts)):
            kept.append(log)
        seen.update(texts)
    return kept


def _long_texts(log: Log) -> list[str]:
    fmt = format_named(log.session.format)
    parts = (part for s in log.session.segments for message in s.messages for part in fmt.parts(message))
    return [part.text for part in parts if part.kind in ("text", "result") and len(part.text) >= _LONG_CHARS]
