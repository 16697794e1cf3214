"""Where each name of a session came from, and when the agent's own window last mentioned it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ..walk import Call
from .identifiers import identifiers, keys_of, spellings
from .texts import MessageText, MessageTexts, common_length

Origin = Literal["prompt", "agent", "result", "user"]


class History:
    """Where each name of a session came from, and when the agent's own window last mentioned it."""

    def __init__(self, texts: MessageTexts) -> None:
        self._texts = texts
        self._raw: Sequence[Any] = ()
        self.messages: list[MessageText] = []
        """Of the window."""
        self._entered: dict[int, int] = {}
        self._origin: dict[str, tuple[int, Origin]] = {}
        self._last: dict[str, int] = {}
        self.given: list[str] = []
        """Names that came from results and later messages of the user, as they came."""

    def see(self, call: Call) -> None:
        same = common_length(self._raw, call.source)
        if same < len(self.messages):
            del self.messages[same:]
            self._last.clear()
            for message in self.messages:
                self._mention(message, call.turn)
        if not self._origin and isinstance(call.given, Mapping):
            head = {k: v for k, v in call.given.items() if v is not call.source}
            self._came(_keys_in(head), "prompt")
        self._raw = list(call.source)
        opening = not any(s.who == "assistant" for m in self.messages for s in m.sayings)
        for raw in call.source[same:]:
            message = self._texts(raw)
            self.messages.append(message)
            self._mention(message, call.turn)
            opening = opening and "assistant" not in message.keys_by_who
            self._learn(message, opening)

    def _mention(self, message: MessageText, turn: int) -> None:
        entered = self._entered.setdefault(id(message), turn)
        for key in message.keys:
            if self._last.get(key, -1) < entered:
                self._last[key] = entered

    def _learn(self, message: MessageText, opening: bool) -> None:
        for who, keys in message.keys_by_who.items():
            if who == "assistant":
                self._came(keys, "agent")
            elif who == "system" or (who == "user" and opening):
                self._came(keys, "prompt")
            else:
                self._came(keys, who)

    def _came(self, keys: Iterable[str], origin: Origin) -> None:
        new = [key for key in keys if key not in self._origin]
        place = len(self._origin), origin
        self._origin.update(dict.fromkeys(new, place))
        if origin in ("result", "user"):
            self.given += sorted(key for key in new if not key.startswith("/"))

    def is_given(self, name: str) -> bool:
        """Whether it first came from a result or a later message of the user."""
        first = min((o for key in spellings(name) if (o := self._origin.get(key))), default=None)
        return first is not None and first[1] in ("result", "user")

    def last_mention(self, name: str) -> int | None:
        """The call whose request first held its last mention; None when the window does not hold it."""
        return max((t for key in spellings(name) if (t := self._last.get(key)) is not None), default=None)


def _keys_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        for name in identifiers(value):
            yield from keys_of(name)
    elif isinstance(value, (Mapping, list, tuple)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _keys_in(inner)
