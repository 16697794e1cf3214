"""`packlight.recall_tool`: the tool by which a model gets back what was taken out of its conversation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import StoreError
from ..formats import format_named
from ..retrieval import recall
from ..store import Document, Store
from ..types import FormatName, Json

__all__ = ["RecallTool", "recall_tool"]

NAME = "recall"
DESCRIPTION = (
    "Gets back what was taken out of this conversation to save space: earlier tool results, arguments and messages. "
    "Where the conversation says `ref 0123456789ab`, ask for that reference. Or ask by file path, or by words that "
    "stand in the text. The text is as it was then: read a file again to see what it holds now."
)
SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "A reference, a file path (its end is enough), or words."},
        "page": {"type": "integer", "minimum": 1, "description": "Which page of a long answer; the first if left out."},
    },
    "required": ["query"],
    "additionalProperties": False,
}
PAGE_CHARS = 20_000
MAX_FOUND = 10
_HEAD_CHARS = 3_000
"""What the list of finds and the page line take of a page at most."""


def recall_tool(format: FormatName, source: Any = None, conversation: str | None = None) -> RecallTool:
    """The recall tool for one of the three APIs: `.definition` for the request, and a call answers.

    `source` is a store (or its folder), a `Compactor`, or a wrapped client; without one there is only the definition.
    With `conversation` it answers from what was taken out of that one only; without, from all of the owner's (a
    wrapped client's own name counts as given). Raises UnknownFormat.
    """
    packing = getattr(source, "packlight", source)
    compactor = getattr(packing, "compactor", packing)
    if conversation is None:
        conversation = getattr(packing, "conversation", None)
    store = getattr(compactor, "store", compactor)
    tool = RecallTool(format, store, conversation=conversation, owner=getattr(compactor, "owner", ""))
    tool.held = lambda: getattr(compactor, "held", None)
    return tool


class RecallTool:
    """A tool definition and its handler."""

    def __init__(
        self,
        format: FormatName,
        store: str | os.PathLike[str] | Store | None,
        *,
        conversation: str | None = None,
        owner: str = "",
        page_chars: int = PAGE_CHARS,
    ) -> None:
        format_named(format)
        self.name = NAME
        self.definition: dict[str, Json] = _definition(format)
        self.store = store
        self.conversation = conversation
        """The only one that it answers from; may be set anew, for instance to a `Compaction.conversation`."""
        self.owner = owner
        self.page_chars = page_chars
        self.held: Callable[[], Store | None] = lambda: None
        """Where else to look: what a compactor took out while its store could not be written."""

    def __call__(self, arguments: Any) -> str:
        """The answer to a call: what was found, or in one line why nothing was. Never raises.

        `arguments` are those of the call: an object, or its JSON text.
        """
        try:
            query, page = _read(arguments)
            if self.store is None:
                return "Nothing is kept here: the recall tool was made without a store."
            found = self._found(self.store, query)
            if not found and (held := self.held()) is not None:
                found = self._found(held, query)
        except (_BadArguments, StoreError) as error:
            return f"{NAME} failed: {error}"
        if not found:
            return f"Nothing was found for {query[:200]!r}. Try a reference, the end of a path, or fewer words."
        return _sendable(self._page(found, page))

    handle = __call__

    def _found(self, store: str | os.PathLike[str] | Store, query: str) -> list[Document]:
        return recall(store, query, conversation=self.conversation, owner=self.owner, limit=MAX_FOUND)

    def _page(self, found: list[Document], page: int) -> str:
        text = "\n\n".join(f"--- {_title(d)}\n{d.text}" for d in found)
        listed = "" if len(found) == 1 else "\n".join([f"{len(found)} found:", *map(_title, found)])[:_HEAD_CHARS]
        room = max(1, self.page_chars - len(listed) - 200)
        pages = -(-len(text) // room)
        if page > pages:
            return f"There is no page {page}: the answer has {pages}."
        head = f"{listed}\n\n" if listed and page == 1 else ""
        tail = f"\n\n[page {page} of {pages}; {NAME} with page {page + 1} goes on]" if page < pages else ""
        return f"{head}{text[(page - 1) * room : page * room]}{tail}"


class _BadArguments(Exception):
    pass


def _read(arguments: Any) -> tuple[str, int]:
    if isinstance(arguments, (str, bytes)):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise _BadArguments("the arguments are no JSON") from None
    if not isinstance(arguments, Mapping):
        raise _BadArguments("the arguments are no object")
    query, page = arguments.get("query"), arguments.get("page")
    if not isinstance(query, str) or not query.strip():
        raise _BadArguments("`query` must be a text: a reference, a file path or words")
    page = 1 if page is None else page
    if isinstance(page, str) and page.strip().isdecimal() and len(page) < 10:
        page = int(page)
    if isinstance(page, float) and page.is_integer():
        page = int(page)
    if isinstance(page, bool) or not isinstance(page, int) or page < 1:
        raise _BadArguments("`page` must be a number from 1 on")
    return query, page


def _definition(format: FormatName) -> dict[str, Json]:
    if format == "anthropic":
        return {"name": NAME, "description": DESCRIPTION, "input_schema": SCHEMA}
    function = {"name": NAME, "description": DESCRIPTION, "parameters": SCHEMA}
    if format == "chat":
        return {"type": "function", "function": function}
    return {"type": "function", **function, "strict": False}


def _title(document: Document) -> str:
    what = " ".join(filter(None, (document.tool or document.kind, document.path)))
    return f"ref {document.ref}: {what[:200]} ({len(document.text):,} characters)"


def _sendable(text: str) -> str:
    """Without what can't be sent as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")
