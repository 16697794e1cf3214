"""What comes back in a stream: its events as they arrive, and what they tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import msgspec

from ..integrations.events import error_in, has_begun, usage_in
from ..types import Json

__all__ = ["Events", "Stream", "json_of"]

MAX_EVENT_BYTES = 16 << 20
READ_AHEAD_BYTES = 1 << 20
"""So much of a stream is held back at most while its answer has not begun."""
_TELLING_BYTES = 9
"""As long is what `_tells` looks for at most."""
_DONE = b"[DONE]"
_END = re.compile(rb"\r?\n\r?\n")
_ENDS = (b"\n\n", b"\n\r\n")
_END_BYTES = 4


def _tells(text: bytes, start: int = 0) -> bool:
    """Whether this may hold an event that tells something once the answer has begun: nearly all of it tells nothing."""
    return (
        text.find(b'"usage"', start) >= 0
        or text.find(b"_stop", start) >= 0
        or text.find(b"response.", start) >= 0
        or text.find(_DONE, start) >= 0
    )


class Events:
    """Cuts the text of a stream into events, each with the bytes that it came in."""

    def __init__(self) -> None:
        self._rest = b""
        self._seen_bytes = 0
        """So much of the rest has no end in it."""
        self._dull_bytes = 0
        """So much of it tells nothing."""

    def feed(self, text: bytes, *, only_telling: bool = False) -> list[bytes]:
        """Whole events with their ends; what has grown too large for one comes as it is.

        With `only_telling` they are dropped where none of them tells anything.
        """
        self._rest += text
        if only_telling and not _tells(self._rest, self._dull_bytes):
            ends = [at + len(end) for end in _ENDS if (at := self._rest.rfind(end, self._seen_bytes)) >= 0]
            self._keep(max(ends, default=0))
            self._dull_bytes = max(0, len(self._rest) - _TELLING_BYTES)
            return [] if len(self._rest) <= MAX_EVENT_BYTES else [self.left()]
        starts = [0, *(end.end() for end in _END.finditer(self._rest, self._seen_bytes))]
        events = [self._rest[start:end] for start, end in pairwise(starts)]
        self._keep(starts[-1])
        return events if len(self._rest) <= MAX_EVENT_BYTES else [*events, self.left()]

    def _keep(self, start: int) -> None:
        self._rest = self._rest[start:]
        self._seen_bytes, self._dull_bytes = max(0, len(self._rest) - _END_BYTES + 1), 0

    def left(self) -> bytes:
        """What was no whole event."""
        rest = self._rest
        self._keep(len(rest))
        return rest


def _data(event: bytes) -> bytes:
    return b"\n".join(line[5:].strip() for line in event.splitlines() if line.startswith(b"data:"))


def json_of(event: bytes) -> Json:
    """The data of an event; None where it is no JSON."""
    try:
        return msgspec.json.decode(_data(event))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


class Stream:
    """What a stream tells: when the answer has begun, an error before that, what was counted.

    It is fed bytes as they come, or event by event. What can't be read has begun, and is not looked at any further.
    """

    def __init__(self, decode: Callable[[bytes], bytes] | None = None) -> None:
        self._decode = decode
        self._is_blind = False
        self._events = Events()
        self.begun = False
        """A part of the answer has come, or something that can't be read."""
        self.error: Any = None
        """The event that refuses the request, if one came before the answer."""
        self.usage: dict[str, Any] = {}
        self.is_complete = False

    @property
    def is_answer(self) -> bool:
        """It has begun, and not with an error."""
        return self.begun and self.error is None

    def feed(self, data: bytes) -> None:
        """The next bytes, as they came. Never raises."""
        try:
            text = self._decode(data) if self._decode is not None and not self._is_blind else None
            events = self._events.feed(text, only_telling=self.begun) if text is not None else None
        except Exception:  # whatever an upstream sends, the client gets it
            events = None
        if events is None:
            self._blind()
        for event in events or ():
            self.note(event)

    def note(self, event: bytes) -> None:
        """The next event. Only those are parsed that can tell something here. Never raises."""
        if self._is_blind or (self.begun and not _tells(event)):
            return
        try:
            self._read(_data(event))
        except Exception:  # as above
            self._blind()

    def _blind(self) -> None:
        self._is_blind = self.begun = True
        self._events.left()

    def _read(self, data: bytes) -> None:
        if data == _DONE:
            self.is_complete = True
        elif data and (not self.begun or b'"usage"' in data or b"_stop" in data or b"response." in data[:200]):
            try:
                self._told(msgspec.json.decode(data))
            except (msgspec.MsgspecError, UnicodeError):
                self.begun = True

    def _told(self, event: Json) -> None:
        if not isinstance(event, Mapping):
            return
        if not self.begun and error_in(event) is not None:
            self.error = event
        self.begun = self.begun or has_begun(event)
        self.usage |= usage_in(event)
        kind = event.get("type")
        self.is_complete = self.is_complete or kind in ("message_stop", "response.completed", "response.incomplete")
