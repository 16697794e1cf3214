"""What the user typed, and what the user asked to keep: `<keep>...</keep>` in a typed message.

The text inside names tools, paths or words, one a line or separated by commas. Results that match stay, and the
message that says so stays verbatim in its place. Only what the user typed counts: the same mark in a tool's output,
in a client's note or in a digest means nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..formats import encode_as_is
from ..summary.words import said
from ..types import Part
from ..view import Place, ResultAt, View

_MARK = re.compile(r"<keep>(.*?)</keep>", re.DOTALL)
MAX_TERMS = 64
MIN_TERM_CHARS = 2


def typed_messages(view: View) -> dict[int, str]:
    """The messages in which a person speaks, with what was typed there: client notes and digests are not."""
    known: dict[int, str] | None = view.memo.get("typed")
    if known is None:
        known = view.memo["typed"] = {
            i: text for i, m in enumerate(view.messages) if m.role == "user" and (text := _typed(view, i)) is not None
        }
    return known


def _typed(view: View, i: int) -> str | None:
    texts = [s.text for s in said(view, i, i + 1) if s.kind == "typed"]
    shown = any(p.kind == "media" for p in view.messages[i].parts)
    return "\n".join(texts) if texts or shown else None


def live_request(view: View) -> int | None:
    """The message that holds the user's last request: the last one typed, else the last in the user's place."""
    typed = typed_messages(view)
    if typed:
        return next(reversed(typed))
    spoken = (i for i in range(len(view.messages) - 1, -1, -1) if view.messages[i].role == "user")
    return next((i for i in spoken if any(p.kind in ("text", "media") for p in view.messages[i].parts)), None)


def keep_terms(view: View) -> dict[int, tuple[str, ...]]:
    """The messages that hold a `<keep>`, and what each names."""
    known: dict[int, tuple[str, ...]] | None = view.memo.get("keep_terms")
    if known is None:
        known = view.memo["keep_terms"] = {
            i: terms for i, text in typed_messages(view).items() if "<keep>" in text and (terms := _terms(text))
        }
    return known


def _terms(text: str) -> tuple[str, ...]:
    pieces = (p.strip(" \t\r`'\"") for body in _MARK.findall(text) for p in re.split(r"[\n,]", body))
    return tuple(dict.fromkeys(p for p in pieces if len(p) >= MIN_TERM_CHARS))[:MAX_TERMS]


def kept_places(view: View) -> frozenset[Place]:
    """Results that a `<keep>` names: by their tool, by what their call says, or by their text."""
    known: frozenset[Place] | None = view.memo.get("kept_places")
    if known is None:
        terms = tuple(dict.fromkeys(t for ts in keep_terms(view).values() for t in ts))
        patterns = [(t, re.compile(rf"(?<![A-Za-z0-9_]){re.escape(t)}(?![A-Za-z0-9_])")) for t in terms]
        known = view.memo["kept_places"] = frozenset(
            (i, k)
            for i, message in enumerate(view.messages if patterns else ())
            for k, part in enumerate(message.parts)
            if part.kind == "result" and not part.server and _named(view.call_of(i, k), part, patterns)
        )
    return known


def _named(call: Part | None, result: Part, patterns: list[tuple[str, re.Pattern[str]]]) -> bool:
    asked = call_text(call) if call is not None else ""
    return any(
        (call is not None and call.tool.casefold() == term.casefold())
        or (term in asked and pattern.search(asked) is not None)
        or (term in result.text and pattern.search(result.text) is not None)
        for term, pattern in patterns
    )


def call_text(call: Part) -> str:
    """The arguments of a call as one text: equal for equal calls."""
    if call.arguments_text or not call.arguments:
        return call.arguments_text
    return encode_as_is(call.arguments).decode()


def is_kept(view: View, result: ResultAt) -> bool:
    """Whether the user wants this result left alone: by `keep_tools`, a `keep` predicate, or `<keep>`."""
    return view.is_kept(result) or (result.message, result.place) in kept_places(view)


def nothing_kept(view: View) -> View:
    """The view as if the user kept no results, for when the request could not be sent otherwise."""
    return replace(view, keep=None, memo={**view.memo, "kept_places": frozenset()})


def kept_messages(view: View) -> set[int]:
    """Messages that may not be folded away because the user keeps them, or a result in them."""
    kept = set(keep_terms(view))
    places = set(kept_places(view))
    if view.keep is not None:
        places |= {(r.message, r.place) for r in view.results() if view.is_kept(r)}
    for place in places:
        call = view.pairs.question.get(place)
        kept |= {place[0]} | ({call[0]} if call else set())
    return kept
