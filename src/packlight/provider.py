"""Compaction that a provider does itself, asked for through its official SDK.

Anthropic, compaction on demand (platform.claude.com, autumn 2026; SDK 2.14 `BetaCompactionConfigParam`): a request with
`compaction` is answered by one signed block, which stands first in later messages for all that was sent, and needs the
same beta header there. OpenAI (SDK 3.57 `ResponseCompactParams`): `/responses/compact` gives the user's messages and
one encrypted item. What comes back is kept value for value: a field more is refused.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .errors import SummaryError
from .tokens import input_tokens, output_tokens
from .transport import in_thread, only_async, sdk_of, timed
from .types import FormatName, Json, SummaryReply, SummaryRequest

BETA = "compact-2026-09-04"
"""What Anthropic wants named in the header of every request that asks for a compaction or carries one."""
BETA_HEADER = "anthropic-beta"
_PATHS: Mapping[str, tuple[FormatName, str]] = {
    "anthropic": ("anthropic", "/v1/messages"),
    "openai": ("responses", "/responses/compact"),
}
_OF_THE_SDK = ("betas", "extra_headers", "extra_query", "extra_body", "timeout")
"""What the SDKs' methods take beside the body: a request that is kept as their arguments may hold it."""


@dataclass(frozen=True, kw_only=True)
class ProviderCompaction:
    """A `Transport` for `SummaryRequest.body`: a client of an official SDK, sync or async, never closed by us."""

    client: Any = field(repr=False)
    timeout_seconds: float
    model: str = ""

    @property
    def format(self) -> FormatName:
        """Of the conversations that its provider compacts."""
        return _PATHS[sdk_of(self.client)][0]

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.client.post)

    def ask(self, request: SummaryRequest) -> SummaryReply:
        if self.is_async:
            return only_async(self.client)
        started = time.monotonic()
        try:
            reply = self._read(self.client.post(**self._call(request)))
        except Exception as error:
            reply = SummaryReply(text="", error=error)
        return timed(reply, _model(request), started)

    async def aask(self, request: SummaryRequest) -> SummaryReply:
        if not self.is_async:
            return await in_thread(partial(self.ask, request))
        started = time.monotonic()
        try:
            reply = self._read(await self.client.post(**self._call(request)))
        except Exception as error:
            reply = SummaryReply(text="", error=error)
        return timed(reply, _model(request), started)

    def _call(self, request: SummaryRequest) -> dict[str, Any]:
        given = request.body or {}
        options: dict[str, Any] = {"timeout": self.timeout_seconds}
        headers = given.get("extra_headers") or {}
        if self.format == "anthropic":
            betas = given.get("betas") or ()
            options["headers"] = with_beta(headers, betas if isinstance(betas, (list, tuple)) else ())
        elif headers:
            options["headers"] = headers
        body = {k: v for k, v in given.items() if k not in _OF_THE_SDK}
        return {"path": _PATHS[sdk_of(self.client)][1], "cast_to": object, "body": body, "options": options}

    def _read(self, said: Any) -> SummaryReply:
        if not isinstance(said, Mapping):
            raise SummaryError(f"no compaction came, but {type(said).__name__!r}")
        return _read_anthropic(said) if self.format == "anthropic" else _read_openai(said)


def _model(request: SummaryRequest) -> str:
    return str((request.body or {}).get("model") or "")


def provider_of(source: Any, *, timeout_seconds: float) -> ProviderCompaction:
    """The way to the provider of a client of the `anthropic` or `openai` package. Raises TypeError for any other."""
    if not sdk_of(source):
        raise TypeError(f"a provider compacts through a client of its SDK, not {type(source).__name__!r}")
    return ProviderCompaction(client=source, timeout_seconds=timeout_seconds)


def headers_for(messages: Sequence[Any]) -> dict[str, str]:
    """The header that a request with these messages needs for the sake of a compaction in it; empty for most."""
    first = messages[0] if messages else None
    content = first.get("content") if isinstance(first, Mapping) else None
    block = content[0] if isinstance(content, list) and content else None
    is_signed = isinstance(block, Mapping) and block.get("type") == "compaction" and block.get("signature")
    return {BETA_HEADER: BETA} if is_signed else {}


def with_beta(headers: Mapping[str, Any], betas: Iterable[str] = ()) -> dict[str, Any]:
    """The headers with the beta of compaction named beside those they name already."""
    known = next((k for k in headers if k.lower() == BETA_HEADER), BETA_HEADER)
    return {**headers, known: ",".join(dict.fromkeys([*betas_in(headers), *betas, BETA]))}


def betas_in(headers: Mapping[str, Any]) -> list[str]:
    """The betas that these headers name."""
    said = next((str(v) for k, v in headers.items() if k.lower() == BETA_HEADER and isinstance(v, str)), "")
    return [b for b in map(str.strip, said.split(",")) if b]


def _read_anthropic(message: Mapping[str, Json]) -> SummaryReply:
    blocks = [b for b in message.get("content") or () if b.get("type") == "compaction" and b.get("content")]
    usage = message.get("usage") or {}
    steps = [s for s in usage.get("iterations") or () if s.get("type") == "compaction"] or [usage]
    return SummaryReply(
        text=str(blocks[0]["content"]) if blocks else "",
        stop_reason=str(message.get("stop_reason") or ""),
        called_tool=message.get("stop_reason") == "tool_use",
        model=str(message.get("model") or ""),
        input_tokens=sum(input_tokens(s) or 0 for s in steps),
        output_tokens=sum(output_tokens(s) or 0 for s in steps),
        items=({"role": "assistant", "content": blocks[:1]},) if blocks else (),
    )


def _read_openai(response: Mapping[str, Json]) -> SummaryReply:
    items = tuple(response.get("output") or ())
    is_whole = any(isinstance(i, Mapping) and i.get("type") == "compaction" for i in items)
    usage = response.get("usage")
    return SummaryReply(
        text="",
        stop_reason="compaction" if is_whole else "incomplete",
        input_tokens=input_tokens(usage),
        output_tokens=output_tokens(usage),
        items=items if is_whole else (),
    )
