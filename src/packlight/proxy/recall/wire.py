"""What a reply of the model says, and how several replies become one for the client: what the three APIs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from ...formats import encode_as_is
from ...integrations.recall_tool import NAME
from ...types import Json

__all__ = ["NAME", "Asked", "Said", "Stitch", "Wire", "event_bytes", "joined_usage"]

_OUTPUT_KEYS = ("output_tokens", "completion_tokens", "output_tokens_details", "completion_tokens_details")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call of the recall tool."""

    id: str
    arguments: Any
    """An object, or its JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One whole reply of the model, read."""

    items: tuple[Json, ...]
    """As entries of the next request's list, all calls included."""
    shown: tuple[Json, ...]
    """The same without calls of the recall tool."""
    asked: tuple[Asked, ...]
    """Empty too where the reply was cut short: such a call is not to be answered."""
    ids: tuple[str, ...]
    """Of the calls that the client has to answer."""
    text: str
    """What the client sees of it as text."""

    @property
    def hides(self) -> bool:
        """It has what the client must not see."""
        return self.items != self.shown


class Stitch(Protocol):
    """One stream for the client out of the streams of several replies. Calls of the recall tool are left out.

    Where nothing is to be changed the bytes of an event stay as they came.
    """

    is_over: bool
    """The reply has come to its end."""

    def begin(self) -> None:
        """A reply begins: the first, the next, or the same once more."""
        ...

    def event(self, raw: bytes, data: Json) -> bytes:
        """What to pass on of an event. The end of a reply is held back where it may have to be another one."""
        ...

    def reply(self) -> Json:
        """The reply as it would have come without streaming."""
        ...

    def go_on(self) -> None:
        """What the reply asked for was answered: its end is forgotten, another one follows."""
        ...

    def end(self) -> bytes:
        """What was held back."""
        ...

    def failure(self, status: int, body: Json) -> bytes:
        """A refusal as an event, where the answer has begun already."""
        ...


class Wire(Protocol):
    """One of the three APIs."""

    def read(self, reply: Mapping[str, Any]) -> Said: ...

    def results(self, asked: Sequence[Asked], texts: Sequence[str]) -> list[Json]:
        """Entries of the list that answer these calls."""
        ...

    def beside(self, asked: Sequence[Asked], texts: Sequence[str]) -> tuple[list[Json], list[Json]]:
        """Where the client answers other calls: entries before its own, and blocks in front of those in its own."""
        ...

    def joined(self, replies: Sequence[Json]) -> Json:
        """One reply for the client out of several."""
        ...

    def stitch(self) -> Stitch: ...


def joined_usage(usages: Sequence[Any]) -> Any:
    """What the client is told: the input of its own request, the output of all replies."""
    known = [u for u in usages if isinstance(u, Mapping)]
    if not known:
        return usages[-1] if usages else None
    out = {**known[-1], **known[0]}
    for key in _OUTPUT_KEYS:
        values = [u[key] for u in known if key in u]
        if values:
            out[key] = _summed(values)
    if "total_tokens" in out:
        sides = [_number(out, *keys) for keys in (("prompt_tokens", "input_tokens"), _OUTPUT_KEYS[:2])]
        out["total_tokens"] = sum(sides)
    return out


def _summed(values: Sequence[Any]) -> Any:
    if all(isinstance(v, Mapping) for v in values):
        keys = dict.fromkeys(key for v in values for key in v)
        return {key: _summed([v[key] for v in values if key in v]) for key in keys}
    numbers = [v for v in values if isinstance(v, (int, float))]
    return sum(numbers) if numbers else values[-1]


def _number(usage: Mapping[str, Any], *keys: str) -> int:
    return next((v for key in keys if isinstance(v := usage.get(key), int)), 0)


def event_bytes(data: Mapping[str, Any], *, named: bool = True) -> bytes:
    """A server-sent event."""
    name = f"event: {data.get('type')}\n".encode() if named else b""
    return name + b"data: " + encode_as_is(data) + b"\n\n"


def object_of(text: str) -> Mapping[str, Any]:
    """Arguments as an object, for a list that takes nothing else; empty where they are none."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def error_of(status: int, body: Json) -> dict[str, Any]:
    """The `error` of a refusal; one of our own words where it can't be read."""
    error = body.get("error") if isinstance(body, Mapping) else None
    if isinstance(error, Mapping):
        return dict(error)
    return {"type": "api_error", "message": f"the provider answered {status}"}
