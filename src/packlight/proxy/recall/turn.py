"""Which conversations have the recall tool, and what becomes of the model's replies until the client has its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...compaction import Compaction
from ...errors import StoreError
from ...formats import format_named
from ...integrations.recall_tool import NAME, recall_tool
from ...laws import is_held_by_provider
from ...planning import Work
from ...store import Store
from ...types import FormatName, Json
from ..toolbox import first_box, names_of, tools_of
from . import anthropic, chat, responses
from .answers import answer
from .kept import Hidden, Kept, Place, squeezed
from .wire import Asked, Said, Wire

__all__ = ["Recalls", "Turn"]

MAX_RECALLS = 8
"""In a row; further calls are told that it is enough, and after so many more of them the answer ends."""
MAX_REFUSED = 2
MAX_BOXES = 256
ENOUGH = f"{NAME} was asked {MAX_RECALLS} times in a row, which is enough: go on with what you have."
TOO_LARGE = f"{NAME} failed: what was found is too large to be sent here. Ask for less: a reference, or other words."
NOTHING = f"{NAME} failed: what was taken out can't be read now. Go on without it."
WIRES: Mapping[FormatName, Wire] = {"anthropic": anthropic, "chat": chat, "responses": responses}


@dataclass(frozen=True, slots=True)
class Opened:
    """A request as it goes on."""

    request: Mapping[str, Any]
    """With what was said unseen, and with the tool where its conversation has it; else the same object as given."""
    has_tool: bool = False
    turn: Turn | None = None
    """Where the model may call it."""


class Recalls:
    """Shared by all connections of a process."""

    def __init__(self, store: Store) -> None:
        self.kept = Kept(store)
        self._boxes: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}

    def opened(self, format: FormatName, owner: str, request: Mapping[str, Any], *, answers: bool) -> Opened:
        """`answers`: the request calls the model, and counts no tokens."""
        fmt = format_named(format)
        items = request.get(fmt.list_key)
        items = [{"role": "user", "content": items}] if isinstance(items, str) else items
        if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
            return Opened(request)
        if is_held_by_provider(request):
            return Opened(request)
        try:
            return self._opened(self.kept.place(owner, fmt, items), request, answers)
        except StoreError:  # then nothing can be put back, nor asked
            return Opened(request)

    def _opened(self, place: Place, request: Mapping[str, Any], answers: bool) -> Opened:
        tools, key = tools_of(request, place.items), place.format.list_key
        if not tools and not any(p.kind == "call" for item in place.items for p in place.format.parts(item)):
            return Opened(request)  # a call without any tool is refused
        whole = self.kept.whole(place)
        if not self._has_tool(place, request, tools, answers):
            return Opened(request if whole is place.items else {**request, key: whole})
        opened = self._with_tool({**request, key: whole}, place)
        return Opened(opened, has_tool=True, turn=Turn(self.kept, place, opened) if answers else None)

    def _has_tool(self, place: Place, request: Mapping[str, Any], tools: list[Json], answers: bool) -> bool:
        if not _may_have(place.format.name, request, tools):
            return False
        if place.began:
            self.kept.touch(place)
            return True
        if not answers or place.first < len(place.items):
            return False  # under way when it was first seen
        self.kept.begin(place)
        return True

    def _with_tool(self, request: dict[str, Any], place: Place) -> dict[str, Any]:
        """The tool beside the others: those of the request, else those in its list."""
        definition, items = recall_tool(place.format.name).definition, request[place.format.list_key]
        box = None if request.get("tools") else first_box(items)
        if box is None:
            return {**request, "tools": [*(request.get("tools") or ()), definition]}
        return {**request, place.format.list_key: [*items[:box], self._box(items[box], definition), *items[box + 1 :]]}

    def _box(self, item: dict[str, Any], definition: Json) -> dict[str, Any]:
        """The same object for the same one as last time: it is large, and stands at the beginning."""
        known = self._boxes.get(id(item))
        if known is None or known[0] is not item:
            known = (item, {**item, "tools": [*item["tools"], definition]})
            kept = self._boxes if len(self._boxes) < MAX_BOXES else {}
            self._boxes = {**kept, id(item): known}
        return known[1]


def _may_have(format: FormatName, request: Mapping[str, Any], tools: list[Json]) -> bool:
    names = list(names_of(tools))
    if not names or NAME in names or request.get("n") not in (None, 1):
        return False
    return format != "responses" or request.get("store") is False  # else the provider holds a call that nobody answers


class Turn:
    """From a request of the client to the reply that it gets, over as many requests as it takes."""

    def __init__(self, kept: Kept, place: Place, opened: Mapping[str, Any]) -> None:
        self.wire = WIRES[place.format.name]
        self.opened = opened
        self.error: StoreError | None = None
        """Why what was said is held in memory only."""
        self.recalls = 0
        """Calls that were answered, or told that it is enough."""
        self._kept = kept
        self._place = place
        self._unseen: list[Json] = []
        self._texts: list[str] = []
        self._newest: tuple[Asked, ...] = ()
        self._is_smaller = False

    @property
    def request(self) -> Mapping[str, Any]:
        """What to send: the client's request and what was said since."""
        key = self._place.format.list_key
        return {**self.opened, key: [*self.opened[key], *self._unseen]}

    def goes_on(self, said: Said, c: Compaction | None) -> bool:
        """Whether the model asked for nothing but recall, which is answered then: `request` is the next one."""
        if not said.asked or said.ids or self.recalls >= MAX_RECALLS + MAX_REFUSED:
            return False
        self._unseen += [*said.items, *self.wire.results(said.asked, self._answers(said, c))]
        self._texts.append(said.text)
        self._newest, self._is_smaller = said.asked, False
        return True

    def _answers(self, said: Said, c: Compaction | None) -> list[str]:
        texts = []
        for asked in said.asked:
            self.recalls += 1
            texts.append(ENOUGH if self.recalls > MAX_RECALLS else _answer(asked, c))
        return texts

    def smaller(self) -> bool:
        """The newest answers made as small as can be; False where that was done already, or there are none."""
        if not self._newest or self._is_smaller:
            return False
        results = self.wire.results(self._newest, [TOO_LARGE] * len(self._newest))
        self._unseen[-len(results) :] = results
        self._is_smaller = True
        return True

    def ended(self, said: Said, c: Compaction | None) -> None:
        """The client gets its reply: what it does not see is recorded. Never raises."""
        before: list[Json] = []
        blocks: list[Json] = []
        items = said.shown
        if said.asked and said.ids:
            items = said.items
            before, blocks = self.wire.beside(said.asked, self._answers(said, c))
        if not items or not (self._unseen or before or blocks):
            return
        text = squeezed("".join([*self._texts, said.text]))
        instead = (*self._unseen, *items, *before)
        self.error = self._kept.record(
            self._place, Hidden(ids=said.ids, text=text, instead=instead, blocks=tuple(blocks))
        )


def _answer(asked: Asked, c: Compaction | None) -> str:
    work = c.state if c is not None else None
    try:
        return answer(work, asked.arguments) if isinstance(work, Work) else NOTHING
    except Exception:  # the model can do without, and the client's reply is worth more
        return NOTHING
