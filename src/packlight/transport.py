"""Who is asked for a summary: a model named by a string, a client of an official SDK, or a function.

The SDKs are extras of the package and are imported when a call is made. They answer in their own objects; what is read
of them stands in the two `_read` functions at the end.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any, Literal

from .errors import SummaryError
from .tokens import input_tokens, output_tokens
from .types import SummaryReply, SummaryRequest, Transport

TIMEOUT_SECONDS = 180.0
"""For one call. A long summary by a slow model takes a minute or two."""
_RETRIES = 1
"""Of the SDK, where the client is ours: what fails twice ends in the digest, while the caller's loop waits."""
Api = Literal["anthropic", "openai"]
_SDKS: Mapping[str, tuple[str, str]] = {
    "anthropic": ("Anthropic", "AsyncAnthropic"),
    "openai": ("OpenAI", "AsyncOpenAI"),
}


def transport_of(
    source: Any,
    *,
    model: str = "",
    base_url: str | None = None,
    api_key: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Transport:
    """The way to whoever is to write summaries.

    `source` is `"anthropic:MODEL"` or `"openai:MODEL"` (`base_url` for any server that speaks like OpenAI's), a client
    of either SDK together with `model`, a function, or a `Transport` already.
    Raises ValueError and TypeError for anything else.
    """
    if isinstance(source, str):
        api, _, name = source.partition(":")
        if api not in _SDKS or not name.strip():
            raise ValueError(f"a writer is named 'anthropic:MODEL' or 'openai:MODEL', not {source!r}")
        options = {k: v for k, v in (("base_url", base_url), ("api_key", api_key)) if v is not None}
        return _Sdk(api=api, model=name.strip(), options=options, timeout_seconds=timeout_seconds)  # type: ignore[arg-type]
    if base_url is not None or api_key is not None:
        raise TypeError("base_url and api_key go with 'anthropic:MODEL' or 'openai:MODEL'")
    if api := sdk_of(source):
        if not model:
            raise TypeError(f"which model is to write? A {type(source).__name__} client needs `model`")
        return _Sdk(api=api, model=model, client=source, timeout_seconds=timeout_seconds)  # type: ignore[arg-type]
    if all(hasattr(source, name) for name in ("ask", "aask", "model", "is_async")):
        return source
    if callable(source):
        return _Function(source, model=model, timeout_seconds=timeout_seconds)
    raise TypeError(f"a writer is a string, a client or a function, not {type(source).__name__!r}")


def sdk_of(client: Any) -> str:
    """The package of an official SDK, `anthropic` or `openai`, that this is a client of; empty for anything else."""
    homes = (cls.__module__.partition(".")[0] for cls in type(client).__mro__)
    return next((home for home in homes if home in _SDKS), "") if callable(getattr(client, "post", None)) else ""


@dataclass(frozen=True, kw_only=True)
class _Sdk:
    """A model behind an official SDK: with the caller's client, or with one made for each call."""

    api: Api
    model: str
    client: Any = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_seconds: float = TIMEOUT_SECONDS

    @property
    def is_async(self) -> bool:
        return self.client is not None and inspect.iscoroutinefunction(self.client.post)

    def ask(self, request: SummaryRequest) -> SummaryReply:
        if self.is_async:
            return only_async(self.client)
        started = time.monotonic()
        try:
            with self._opened(0) as client:
                reply = _READ[self.api](self._create(client)(**self._body(client, request)))
        except Exception as error:
            reply = SummaryReply(text="", error=error)
        return timed(reply, self.model, started)

    async def aask(self, request: SummaryRequest) -> SummaryReply:
        if self.client is not None and not self.is_async:
            return await in_thread(partial(self.ask, request))
        started = time.monotonic()
        try:
            async with self._opened(1) as client:
                reply = _READ[self.api](await self._create(client)(**self._body(client, request)))
        except Exception as error:
            reply = SummaryReply(text="", error=error)
        return timed(reply, self.model, started)

    def _opened(self, which: int) -> Any:
        """A client that is closed afterwards where it is ours: one that lives on would be bound to an event loop."""
        if self.client is not None:
            return nullcontext(self.client)
        try:
            sdk = import_module(self.api)
        except ImportError as error:
            raise SummaryError(f"pip install 'packlight[{self.api}]' to ask {self.api}:{self.model}") from error
        return getattr(sdk, _SDKS[self.api][which])(max_retries=_RETRIES, **self.options)

    def _create(self, client: Any) -> Callable[..., Any]:
        return client.messages.create if self.api == "anthropic" else client.chat.completions.create

    def _body(self, client: Any, request: SummaryRequest) -> dict[str, Any]:
        user = {"role": "user", "content": request.prompt}
        common = {"model": self.model, "timeout": self.timeout_seconds}
        if self.api == "anthropic":
            return {**common, "max_tokens": request.max_tokens, "system": request.system, "messages": [user]}
        # OpenAI's reasoning models refuse `max_tokens`; most servers that speak like it know nothing else.
        own = any(name in str(client.base_url) for name in ("api.openai.com", ".azure.com"))
        room = "max_completion_tokens" if own else "max_tokens"
        return {**common, room: request.max_tokens, "messages": [{"role": "system", "content": request.system}, user]}


class _Function:
    """A function of the caller: given the prompt as one text, or the whole request where its annotation says so."""

    def __init__(self, function: Callable[..., Any], *, model: str, timeout_seconds: float) -> None:
        self.model = model
        self._function = function
        self._whole = _asks_for(function, "SummaryRequest")
        self._timeout_seconds = timeout_seconds

    @property
    def is_async(self) -> bool:
        call = getattr(self._function, "__call__", None)  # noqa: B004
        return inspect.iscoroutinefunction(self._function) or inspect.iscoroutinefunction(call)

    def _call(self, request: SummaryRequest) -> Any:
        return self._function(request if self._whole else f"{request.system}\n\n{request.prompt}")

    def ask(self, request: SummaryRequest) -> SummaryReply:
        started = time.monotonic()
        try:
            said = None if self.is_async else self._call(request)
            if self.is_async or inspect.isawaitable(said):
                if inspect.iscoroutine(said):
                    said.close()
                return only_async(self._function)
            reply = _reply(said)
        except Exception as error:
            reply = SummaryReply(text="", error=error)
        return timed(reply, self.model, started)

    async def aask(self, request: SummaryRequest) -> SummaryReply:
        started = time.monotonic()
        try:
            said = self._call(request) if self.is_async else await in_thread(partial(self._call, request))
            if inspect.isawaitable(said):
                said = await import_module("asyncio").wait_for(said, self._timeout_seconds)
            reply = _reply(said)
        except Exception as error:
            reply = SummaryReply(text="", error=error)
        return timed(reply, self.model, started)


def takes_job(writer: Any) -> bool:
    """Whether this is a `Writer` already: a generator function, or one whose parameter is a `SummaryJob`."""
    call = getattr(writer, "__call__", None)  # noqa: B004
    return inspect.isgeneratorfunction(writer) or inspect.isgeneratorfunction(call) or _asks_for(writer, "SummaryJob")


def _asks_for(function: Any, name: str) -> bool:
    """Whether the first parameter of a function is annotated with this type of ours."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):
        return False
    annotation = first.annotation if first is not None else None
    said = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return said.rpartition(".")[2] == name


async def in_thread(call: Callable[[], Any]) -> Any:
    """Off the event loop: other conversations go on meanwhile."""
    return await import_module("asyncio").to_thread(call)


def only_async(source: Any) -> SummaryReply:
    """The reply of what can only be awaited, where nobody awaits."""
    return SummaryReply(text="", error=SummaryError(f"{type(source).__name__} is asynchronous: use afit, not fit"))


def _reply(said: Any) -> SummaryReply:
    if isinstance(said, SummaryReply):
        return said
    if said is None or isinstance(said, str):
        return SummaryReply(text=said or "")
    raise SummaryError(f"a summarising function gives a text or a SummaryReply, not {type(said).__name__!r}")


def timed(reply: SummaryReply, model: str, started: float) -> SummaryReply:
    """The reply with its model, where it names none, and how long it took."""
    return replace(reply, model=reply.model or model, seconds=reply.seconds or max(time.monotonic() - started, 1e-6))


# --- the SDKs' answers -----------------------------------------------------------------------------------------------


def _read_anthropic(message: Any) -> SummaryReply:
    blocks = message.content or ()
    reply = SummaryReply(
        text="\n".join(b.text for b in blocks if b.type == "text"),
        stop_reason=message.stop_reason or "",
        called_tool=any(b.type.endswith("tool_use") for b in blocks),
        model=message.model or "",
    )
    return _counted(reply, message.usage)


def _read_openai(completion: Any) -> SummaryReply:
    reply = SummaryReply(text="", model=completion.model or "")
    for choice in (completion.choices or ())[:1]:
        said = choice.message
        refused = getattr(said, "refusal", None)
        stop = "refusal" if refused else choice.finish_reason or ""
        reply = replace(reply, text=said.content or "", stop_reason=stop, called_tool=bool(said.tool_calls))
    return _counted(reply, completion.usage)


_READ: Mapping[str, Callable[[Any], SummaryReply]] = {"anthropic": _read_anthropic, "openai": _read_openai}


def _counted(reply: SummaryReply, usage: Any) -> SummaryReply:
    return replace(reply, input_tokens=input_tokens(usage), output_tokens=output_tokens(usage))
