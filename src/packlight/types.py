"""The words of packlight as types: what every other module is written in.

Wire data stays plain: a message is the JSON object that its API defines (or an SDK object of the official
clients), and is never changed in place. `Part` and `Message` are read-only readings of it, the same for all
three formats, so that a layer never needs to know which API it works for.

Nothing here knows an API, a model or a file.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from .view import View

Json = Any
"""A JSON value as `json.loads` gives it."""

FormatName = Literal["anthropic", "chat", "responses"]
Role = Literal["system", "user", "assistant", "tool"]
"""Who speaks. `system` covers `developer`; `tool` is a message that holds results only."""

PartKind = Literal["text", "thinking", "call", "result", "media", "opaque"]

Position = tuple[int, ...]
"""`(i,)` is the border before message i; `(i, b)` the border before block b inside message i."""


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a document or a sound inside a message or a tool result."""

    kind: Literal["image", "document", "audio", "file"]
    media_type: str
    data_chars: int
    """Length of the base64 text; 0 when it is named by URL or file id."""
    width: int | None = None
    height: int | None = None
    pages: int | None = None


@dataclass(slots=True)
class Part:
    """One thing that a message says: the neutral reading of a block, an item or a field.

    Never changed once made; not declared frozen because making a frozen one takes four times as long.
    """

    kind: PartKind
    block: int
    """Index of the block in the message's block list; -1 when the message itself is the part (a Chat tool
    message, a Responses item, a plain string content, a Chat `tool_calls` entry)."""
    text: str = ""
    """What a model reads: text, readable thinking, the text of a result (blocks joined by a newline)."""
    call_id: str = ""
    tool: str = ""
    """Name of the tool, for a call (results learn it from their call: see `View.call_of`)."""
    arguments: Mapping[str, Json] | None = None
    """Decoded arguments of a call; None when they are not a JSON object."""
    arguments_text: str = ""
    """Arguments as they stand on the wire (a JSON text, or the raw input of a custom tool)."""
    is_error: bool = False
    server: bool = False
    """Done by the provider inside the assistant's message: no result of the client belongs to it."""
    signed: bool = False
    """Thinking that the provider checks (a signature, redacted data, encrypted content)."""
    media: tuple[Media, ...] = ()
    type: str = ""
    """The wire type of the block or item, for rules that need it."""
    index: int = 0
    """Which one of several, where `block` is -1: the entry of a Chat message's `tool_calls`."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class Message:
    """One entry of the list that goes to the API, read once and kept. Compared by identity, never changed."""

    data: dict[str, Json]
    """The plain JSON object."""
    role: Role
    parts: tuple[Part, ...]
    tokens: int
    """Counted, not calibrated (see `tokens`)."""
    size_bytes: int
    """Length of its compact JSON."""
    hash: bytes
    """Of its canonical form: cache marks ignored, a string equals one text block."""
    images: int = 0
    """How many images and documents it holds, results included."""
    lone_surrogates: bool = False
    """Some text in it is half a surrogate pair, which no API takes."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a request: the span [start, end) is replaced by literal JSON.

    Spans are positions in the conversation as the caller gave it (the source), never in an edited one.
    A message span `(i,)..(j,)` is replaced by whole messages, a block span `(i, a)..(i, b)` by blocks.
    An empty span inserts. A later edit whose span contains an earlier one's takes its place.
    """

    layer: str
    action: Literal["stored", "cleared", "summarised", "shortened", "removed", "restored", "inserted", "repaired"]
    start: Position
    end: Position
    replacement: tuple[Json, ...]
    reason: str = ""
    ref: str = ""
    """What recall answers to; empty when nothing was taken out."""
    call_id: str = ""
    tool: str = ""
    path: str = ""
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a request breaks a rule of its API."""

    position: Position
    rule: str
    """Short stable name, e.g. `orphan_result`."""
    message: str
    """One sentence for a person."""

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.position)) or '-'}: {self.rule}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a run of layers is to reach."""

    budget_tokens: int
    """The request must not be larger than this (the view's own scale, calibrated)."""
    target_tokens: int
    """Where a batch should end, well below the budget, so that the next one is far away."""
    unseen_may_shrink: bool = False
    """True when the request could not be sent otherwise: results that the model has not seen may be shortened."""
    attempt: int = 0
    """0 for a planned batch; 1, 2, 3 for the tries after an overflow, each to be strictly smaller."""
    max_bytes: int | None = None
    max_images: int | None = None
    max_image_pixels: int | None = None
    """Longest side that an image may have when there are many."""
    focus: str = ""
    """What the caller wants a summary to be most exact about."""


Layer = Callable[["View", Target], list[Edit]]
"""Plans edits on a view; changes nothing. May be any callable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryJob:
    """What a writer is asked to summarise."""

    view: View
    start: int
    end: int
    """Source messages [start, end) are to be replaced."""
    max_tokens: int
    """The summary must not be larger."""
    visible_from: int
    """Source messages from here on stay verbatim behind the summary."""
    kept: frozenset[int] = frozenset()
    """Messages of the range that stay verbatim in their place: open calls, the live request."""
    previous: Summary | None = None
    """What a model wrote into the summary that stands in the conversation now, and how far that reaches."""
    focus: str = ""


class Transport(Protocol):
    """Brings a summary request to a model and the answer back: the only part of a writer that does I/O.

    Neither method raises for what the model or the way to it did: that stands in `SummaryReply.error`.
    """

    @property
    def model(self) -> str:
        """Its id; empty when not known."""
        ...

    @property
    def is_async(self) -> bool:
        """It can only be awaited."""
        ...

    def ask(self, request: SummaryRequest) -> SummaryReply: ...
    async def aask(self, request: SummaryRequest) -> SummaryReply: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """A model call that a writer wants made: plain text in, plain text out; or a provider's own compaction."""

    system: str
    prompt: str
    max_tokens: int
    """Room for the answer, a model's reasoning included."""
    transport: Transport | None = field(default=None, repr=False, compare=False)
    """Who is to be asked. Without one nobody is, and the reply is an error."""
    body: Mapping[str, Json] | None = None
    """The request by which the provider compacts these turns itself, in the conversation's own format; `system` and
    `prompt` are empty then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryReply:
    """What the model said, or why there is nothing."""

    text: str
    stop_reason: str = ""
    """As the provider names it."""
    called_tool: bool = False
    error: Exception | None = None
    model: str = ""
    input_tokens: int | None = None
    """As the provider counted, cached ones included; None where nobody counted."""
    output_tokens: int | None = None
    seconds: float = 0.0
    """From question to answer, retries of the client included."""
    items: tuple[Json, ...] = ()
    """Of a provider's own compaction: what stands for the old turns, value for value as it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCall:
    """One call of a summarising model: what it cost."""

    model: str
    input_tokens: int | None
    output_tokens: int | None
    seconds: float
    error: Exception | None = None
    """What the call failed with. An answer that was not usable is no error of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What stands for the old turns."""

    text: str
    end: int = 0
    """It covers the source up to here."""
    error: Exception | None = None
    """Why a part that a model was to write is missing; the rest stands."""


Writer = Callable[[SummaryJob], Generator[SummaryRequest, SummaryReply, Summary]]
"""Writes a summary. Yields the model calls it needs (none for the digest) and is sent the replies."""


class Format(Protocol):
    """What a wire format must tell the engine. One small module each in `formats`."""

    name: FormatName
    list_key: str
    """`messages` or `input`."""

    def role(self, data: Mapping[str, Json]) -> Role: ...
    def parts(self, data: Mapping[str, Json]) -> tuple[Part, ...]: ...
    def canonical(self, data: dict[str, Json]) -> Json:
        """The form that identity is taken of: no cache marks, a string as one text block."""
        ...

    def blocks(self, data: Mapping[str, Json]) -> list[Json] | None:
        """The block list of a message, or None when it is edited as a whole."""
        ...

    def with_blocks(self, data: Mapping[str, Json], blocks: Sequence[Json]) -> dict[str, Json]: ...
    def reference(self, text: str) -> dict[str, Json]:
        """A message that carries our text as reference material, in the user's place."""
        ...

    def replace_result(self, data: Mapping[str, Json], part: Part, text: str) -> Json | None:
        """The block (or the whole message when `part.block` is -1) with the result's content replaced by text.

        None when the API takes no text there (a computer's screenshot).
        """
        ...

    def replace_text(self, data: Mapping[str, Json], part: Part, text: str) -> Json:
        """The block or message with a text or media part replaced by text."""
        ...

    def replace_arguments(
        self, data: Mapping[str, Json], arguments: Mapping[int, Mapping[str, Json]]
    ) -> dict[str, Json]:
        """The message with the arguments of the calls at these places of `parts` replaced."""
        ...
