"""Findability: whether what is gone comes back with one recall.

Of the later references and the quotes of edits that do not stand in the request, the share that one recall returns:
by the path of the call that needed it (a path that is itself the missing name is not asked for), or by a reference
that the request shows. Of what a recall returns the first page counts. Which of the references an agent would ask for
is not known: `by_reference` is an upper bound, `by_path` is not. Never credit a find as if nothing had been lost: it
costs a turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...formats.common import decoded
from ...retrieval import recall
from ...store import Document, Store
from ..walk import Call
from .calls import CallNeeds, needs_of
from .identifiers import identifiers, keys_of, stands_in
from .quotes import EditQuotes
from .references import FutureReferences
from .texts import MessageTexts, leaves

PAGE_CHARS = 20_000
"""What a recall shows at once."""
_REF = re.compile(r"\bref ([0-9a-f]{12,64})\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """What became of the misses of one kind."""

    missed: int = 0
    by_path: int = 0
    by_reference: int = 0
    found: int = 0
    """By one or the other."""

    @property
    def ratio(self) -> float | None:
        return self.found / self.missed if self.missed else None

    def __add__(self, other: FoundRow) -> FoundRow:
        return FoundRow(
            missed=self.missed + other.missed,
            by_path=self.by_path + other.by_path,
            by_reference=self.by_reference + other.by_reference,
            found=self.found + other.found,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one recall returns of what was missed. Results of several sessions can be added."""

    names: FoundRow
    quotes: FoundRow

    def __add__(self, other: Found) -> Found:
        return Found(names=self.names + other.names, quotes=self.quotes + other.quotes)


class _Page:
    """What one recall shows."""

    def __init__(self, documents: Sequence[Document]) -> None:
        left, texts = PAGE_CHARS, []
        for document in documents:
            texts.append(_readable(document)[: max(0, left)])
            left -= len(document.text)
        self.text = "\n\n".join(texts)

    def holds(self, lines: Sequence[str]) -> bool:
        return all(line in self.text for line in lines)

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(key for name in identifiers(self.text) for key in keys_of(name))


def _readable(document: Document) -> str:
    """Its text; arguments without the escapes of JSON, which no model stumbles over."""
    arguments = decoded(document.text) if document.kind == "arguments" else None
    return "\n".join(leaves(arguments)) if arguments is not None else document.text


class Findability:
    """The measure. It looks at the misses of the two others: let it see a call after them."""

    def __init__(
        self, texts: MessageTexts, store: Store | None, references: FutureReferences, quotes: EditQuotes
    ) -> None:
        self._texts, self._store = texts, store
        self._references, self._quotes = references, quotes
        self._seen = [0, 0]
        self._pages: dict[str, _Page] = {}
        self._names, self._lines = FoundRow(), FoundRow()

    def see(self, call: Call) -> None:
        names = [r.name for r in self._references.references[self._seen[0] :] if not r.visible]
        quotes = [q for q in self._quotes.quotes[self._seen[1] :] if q.missing and not q.missing_at_source]
        self._seen = [len(self._references.references), len(self._quotes.quotes)]
        if self._store is None or not (names or quotes):
            return
        if call.is_batch:
            self._pages.clear()
        needs = needs_of(self._texts.format, call.reply)
        shown = [self._page(f"ref {ref}") for ref in self._refs(call)]
        for name in names:
            paths = [self._page(path) for path in _paths_for(name, needs)]
            self._names += _row([stands_in(name, p.keys) for p in paths], [stands_in(name, p.keys) for p in shown])
        for quote in quotes:
            paths = [self._page(quote.path)] if quote.path else []
            self._lines += _row([p.holds(quote.missing) for p in paths], [p.holds(quote.missing) for p in shown])

    def _refs(self, call: Call) -> Iterator[str]:
        return iter(
            dict.fromkeys(
                ref
                for message in map(self._texts, call.messages)
                for _, text in message.sayings
                if "ref " in text
                for ref in _REF.findall(text)
            )
        )

    def _page(self, query: str) -> _Page:
        page = self._pages.get(query)
        if page is None:
            assert self._store is not None
            page = self._pages[query] = _Page(recall(self._store, query))
        return page

    @property
    def result(self) -> Found | None:
        """None for an engine that keeps nothing."""
        return Found(names=self._names, quotes=self._lines) if self._store is not None else None


def _paths_for(name: str, needs: Sequence[CallNeeds]) -> list[str]:
    """Paths of the calls that name it, but for its own."""
    paths = dict.fromkeys(path for call in needs if name in call.names for path in call.paths)
    return [path for path in paths if name not in identifiers(path)]


def _row(paths: Sequence[bool], shown: Sequence[bool]) -> FoundRow:
    by_path, by_reference = any(paths), any(shown)
    return FoundRow(missed=1, by_path=by_path, by_reference=by_reference, found=by_path or by_reference)
