"""What a message says, decoded, read once however often it is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

from ...formats import format_named, plain, read_message
from ...summary.words import said
from ...types import Format, FormatName, Json, Part
from ...view import View
from .identifiers import identifiers, keys_of

Who = Literal["system", "user", "assistant", "result"]


class Saying(NamedTuple):
    who: Who
    text: str


class MessageText:
    """The readable text of one message: thinking is left out, since providers drop it, and so is media."""

    def __init__(self, format: Format, message: Any) -> None:
        self._format, self._message = format, message
        self.sayings = tuple(_sayings(format, message))

    @cached_property
    def keys(self) -> frozenset[str]:
        """The names in it, as they are filed (`keys_of`)."""
        return frozenset().union(*self.keys_by_who.values())

    @cached_property
    def user_text(self) -> str:
        """What stands in the user's place or the system's, results aside."""
        return "\n".join(text for who, text in self.sayings if who in ("user", "system"))

    @cached_property
    def typed(self) -> tuple[str, ...]:
        """What a person typed in it: a client's notes, loaded instructions and summaries are not."""
        if not self.user_text:
            return ()
        view = view_of(self._format, [self._message])
        return tuple(s.text for s in said(view, 0, 1) if s.kind == "typed")

    @cached_property
    def keys_by_who(self) -> Mapping[Who, frozenset[str]]:
        names: dict[Who, set[str]] = {}
        for who, text in self.sayings:
            names.setdefault(who, set()).update(key for name in identifiers(text) for key in keys_of(name))
        return {who: frozenset(keys) for who, keys in names.items()}


def argument_texts(part: Part) -> list[str]:
    """The strings and numbers in the arguments of a call, decoded; the raw input where it is no JSON object."""
    return list(leaves(part.arguments)) if part.arguments is not None else [part.arguments_text]


def leaves(value: Json, depth: int = 20) -> Iterator[str]:
    """The strings and numbers inside a JSON value, as texts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)
    elif depth > 0 and isinstance(value, (Mapping, list)):
        for inner in value if isinstance(value, list) else value.values():
            yield from leaves(inner, depth - 1)


class MessageTexts:
    """Reads the messages of one session, each once. Measures that look at the same walk may share one."""

    def __init__(self, format: FormatName) -> None:
        self.format = format_named(format)
        self._known: dict[tuple[int, ...], tuple[Any, MessageText]] = {}

    def __call__(self, message: Any) -> MessageText:
        content = message.get("content") if isinstance(message, dict) else None
        blocks = content if isinstance(content, list) and content else [message]
        key = tuple(map(id, blocks))  # blocks outlive a message that is edited anew for each request
        known = self._known.get(key)
        if known is None:  # what is named by its id is held, so that the id stays its own
            known = self._known[key] = list(blocks), MessageText(self.format, message)
        return known[1]


def _sayings(format: Format, message: Any) -> Iterator[Saying]:
    message = plain(message)
    role = format.role(message)
    speaker: Who = "user" if role == "tool" else role
    for part in format.parts(message):
        if part.kind == "call":
            yield from (Saying("assistant", text) for text in argument_texts(part) if text)
        elif part.text and part.kind in ("text", "result"):
            yield Saying("result" if part.kind == "result" else speaker, part.text)


def view_of(format: Format, messages: Sequence[Any]) -> View:
    """Messages as the readers of calls and words take them. Nothing is counted."""
    return View(format=format, messages=[read_message(format, m, _nothing) for m in messages], count=_nothing)


def _nothing(value: object) -> int:
    return 0


class Changes:
    """The messages of a request after a request: what came and what went."""

    def __init__(self, texts: MessageTexts) -> None:
        self._texts = texts
        self._raw: Sequence[Any] = ()
        self.messages: list[MessageText] = []

    def see(self, messages: Sequence[Any]) -> tuple[list[MessageText], list[MessageText]]:
        """The messages that came and those that went since the request before."""
        same = common_length(self._raw, messages)
        old, new = self.messages[same:], [self._texts(m) for m in messages[same:]]
        self._raw = list(messages)
        self.messages[same:] = new
        surplus = Counter(map(id, new))
        surplus.subtract(map(id, old))
        by_id = {id(m): m for m in (*new, *old)}
        come = [by_id[i] for i, count in surplus.items() for _ in range(count)]
        return come, [by_id[i] for i, count in surplus.items() for _ in range(-count)]


class Standing(Changes):
    """The names that stand in a request, kept from call to call by what is new and what is gone."""

    def __init__(self, texts: MessageTexts) -> None:
        super().__init__(texts)
        self.keys: Counter[str] = Counter()
        """Key of a name -> in how many messages it stands; none at 0."""

    def see(self, messages: Sequence[Any]) -> tuple[list[MessageText], list[MessageText]]:
        come, gone = super().see(messages)
        for message in come:
            self.keys.update(message.keys)
        for message in gone:
            for key in message.keys:
                if self.keys[key] == 1:
                    del self.keys[key]
                else:
                    self.keys[key] -= 1
        return come, gone


def common_length(before: Sequence[Any], now: Sequence[Any]) -> int:
    """How many messages two lists begin with in common, by identity."""
    for i, (a, b) in enumerate(zip(before, now, strict=False)):
        if a is not b:
            return i
    return min(len(before), len(now))
