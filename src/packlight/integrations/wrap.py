"""`packlight.wrap`: a client of the official SDKs whose every call fits its window.

All calls of these SDKs go through their client's `post`; that is the one place where something of ours stands. So
whatever is built on it (streams, `parse`, `with_options`, tool runners, raw responses) works as it did, with the SDK's
own types, errors and retries.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, TypeVar

from ..compaction import Compaction, Report
from ..compactor import Compactor
from ..errors import InvalidRequest
from ..formats import format_named
from ..laws import is_held_by_provider
from ..layers import ProviderHistory
from ..provider import betas_in, with_beta
from ..transport import sdk_of
from ..types import FormatName
from ..writers import provider_writer
from .cures import Cures
from .events import error_in, has_begun, is_last, is_stream, usage_in

__all__ = ["wrap"]

Client = TypeVar("Client")

_ROUTES: dict[str, FormatName] = {"/v1/messages": "anthropic", "/chat/completions": "chat", "/responses": "responses"}
_UNREAD = (InvalidRequest, TypeError)
"""What is no request is for the provider to tell; what is no JSON yet (an image as a path), for the SDK to read."""
_READ_AHEAD_EVENTS = 5


def wrap(
    client: Client, compactor: Compactor | None = None, *, conversation: str | None = None, **options: Any
) -> Client:
    """The same client, except that every call to a model goes through a compactor.

    `client` is one of the official `anthropic` and `openai` clients, sync or async; the original stays as it was and
    shares its connections. Each call is made to fit, its usage is recorded, and one that the provider refuses for
    its length is sent again, smaller, at most three times; then ContextWindowExceeded is raised. `options` are those
    of `Compactor`, when none is given; with `writer="provider"` this client's provider compacts (`provider_writer`).

    Conversations are told apart by their content. `conversation` names the only one that goes through this client,
    which is what recall asks for. `client.packlight` has the `compactor` and the last `report`.
    """
    if compactor is not None and options:
        raise TypeError(f"give a compactor or its options, not both: {', '.join(options)}")
    _check(client)
    if options.get("writer") == "provider":
        options["writer"] = provider_writer(client)
    return _attached(_twin(client), Packing(compactor or Compactor(**options), conversation))


def _check(client: Any) -> None:
    if not sdk_of(client):
        raise TypeError(
            f"wrap takes a client of the anthropic or openai package, not {type(client).__name__!r}; "
            "for anything else call Compactor.fit before each request"
        )
    if "packlight" in vars(client):
        raise TypeError("this client is wrapped already")


def _twin(client: Any) -> Any:
    """A copy that shares connections; what was made for the original (`client.messages`) is made anew."""
    twin = copy.copy(client)
    for name, value in list(vars(twin).items()):
        if getattr(value, "_client", None) is not client:
            continue
        if isinstance(inspect.getattr_static(type(client), name, None), cached_property):
            del vars(twin)[name]
        else:
            setattr(twin, name, type(value)(twin))
    return twin


def _attached(client: Any, packing: Packing) -> Any:
    post, copied = client.post, client.copy
    if packing.compactor.needs_await and not inspect.iscoroutinefunction(post):
        raise TypeError("the writer can only be awaited, this client can't: wrap an async one, or give a sync writer")

    def copy_too(*args: Any, **kwargs: Any) -> Any:
        return _attached(copied(*args, **kwargs), packing)

    client.post = partial(_apost if inspect.iscoroutinefunction(post) else _post, packing, post)
    client.copy = client.with_options = copy_too
    client.packlight = packing
    return client


class Packing:
    """`client.packlight`: what a wrapped client and its `with_options` copies have in common."""

    def __init__(self, compactor: Compactor, conversation: str | None) -> None:
        self.compactor = compactor
        self.conversation = conversation
        """The name of the only conversation of this client, if it was given one."""
        self.hands_on_betas = any(isinstance(x, ProviderHistory) for x in compactor.policy.when_due)
        """The provider's own compaction needs the betas that a request names."""
        self.report: Report | None = None
        """Of the newest call; None before the first, and when that was no request at all."""


# --- the two drivers -------------------------------------------------------------------------------------------------


def _post(packing: Packing, send: Callable[..., Any], path: str, *, body: Any = None, **rest: Any) -> Any:
    call = _call(packing, path, body, rest.get("options") or {})
    if call is None:
        return send(path, body=body, **rest)
    compactor = packing.compactor
    try:
        call.fitted(compactor.fit(call.request, conversation=packing.conversation, format=call.format))
    except _UNREAD:
        packing.report = None
    while True:
        try:
            reply = send(path, body=call.body, **call.named(rest))
        except Exception as error:
            if not call.cured(error):
                raise
            continue
        if not is_stream(reply) or (reply := _begun(reply, call)) is not None:
            return call.done(reply)


async def _apost(
    packing: Packing, send: Callable[..., Awaitable[Any]], path: str, *, body: Any = None, **rest: Any
) -> Any:
    call = _call(packing, path, body, rest.get("options") or {})
    if call is None:
        return await send(path, body=body, **rest)
    compactor = packing.compactor
    try:
        call.fitted(await compactor.afit(call.request, conversation=packing.conversation, format=call.format))
    except _UNREAD:
        packing.report = None
    while True:
        try:
            reply = await send(path, body=call.body, **call.named(rest))
        except Exception as error:
            if not call.cured(error):
                raise
            continue
        if not is_stream(reply) or (reply := await _abegun(reply, call)) is not None:
            return call.done(reply)


# --- their common plan -----------------------------------------------------------------------------------------------


def _call(packing: Packing, path: str, body: Any, options: Mapping[str, Any]) -> Call | None:
    """The call, when it is one to a model and has a list of messages."""
    format = _ROUTES.get(path.partition("?")[0])
    if format is None or not isinstance(body, Mapping):
        return None
    key = format_named(format).list_key
    given = {k: v for k, v in body.items() if type(v).__name__ not in ("NotGiven", "Omit")}
    if given.get(key) is None:
        return None
    if not isinstance(given[key], (str, list, tuple)):
        given[key] = list(given[key])  # the SDKs take any iterable
    if packing.hands_on_betas and (named := betas_in(options.get("headers") or {})):
        given["betas"] = named
    return Call(packing, format, body, given)


class Call:
    """One call on its way: what to send next, and what came back."""

    def __init__(self, packing: Packing, format: FormatName, body: Mapping[str, Any], given: dict[str, Any]) -> None:
        self.packing = packing
        self.format = format
        self.request = given
        """The caller's body, without what the caller left out."""
        self.c: Compaction | None = None
        """None when it is sent as it was given."""
        self._cures = Cures(packing.compactor)
        self._failed = False
        self._body = body
        self._usage: dict[str, Any] = {}

    @property
    def body(self) -> dict[str, Any]:
        sent = {**self._body, **(self.request if self.c is None else self.c.request)}
        if "betas" not in self._body:  # ours, for the provider's compaction: they stand in the header
            sent.pop("betas", None)
        return sent

    def named(self, rest: dict[str, Any]) -> dict[str, Any]:
        """The SDK's further arguments, with the beta named that the provider's own summary in this request needs."""
        if self.c is None or not self.c.headers:
            return rest
        options = rest.get("options") or {}
        return {**rest, "options": {**options, "headers": with_beta(options.get("headers") or {})}}

    def fitted(self, c: Compaction) -> None:
        self.c, self.packing.report = c, c.report

    def cured(self, error: Exception) -> bool:
        """Whether to send it once more, as `body` is now. Raises what tells more than the error does."""
        c = self._cures.next(self.c, error)
        if c is not None:
            self.fitted(c)
        elif (first := self._cures.first(error)) is not error:
            raise first
        return c is not None

    def done(self, reply: Any) -> Any:
        if not self._failed and (c := self._cures.taken()) is not None:
            self.fitted(c)
        if not is_stream(reply):
            self.note(reply)
            self.record()
        return reply

    def note(self, reply: Any) -> None:
        """Gather the usage that a reply or an event states: streams state it in parts, some again and again."""
        self._usage |= usage_in(reply)
        if is_last(reply):
            self.record()

    def record(self) -> None:
        """Record what was gathered, once for a call."""
        if self._usage and self.c is not None and not is_held_by_provider(self.request):
            self.packing.compactor.record_usage(self.c, self._usage)
        self._usage = {}

    def refused(self, ahead: list[Any], error: Exception | None) -> bool:
        """Whether a stream, of which so much was read before its answer, ended in a refusal that has a cure."""
        error = error or (error_in(ahead[-1]) if ahead else None)
        self._failed = error is not None
        return error is not None and self.cured(error)


# --- streams ---------------------------------------------------------------------------------------------------------


def _waits(ahead: list[Any]) -> bool:
    """Whether to read on before the caller gets the stream: a refusal may stand at its beginning."""
    return not has_begun(ahead[-1]) and len(ahead) < _READ_AHEAD_EVENTS


def _begun(stream: Any, call: Call) -> Any:
    """The SDK's own stream, its first events read ahead; None where `call` is to be sent again.

    Raises ContextWindowExceeded; other errors come when they are read.
    """
    events, ahead, failure = iter(stream._iterator), [], None
    try:
        for event in events:
            ahead.append(event)
            if not _waits(ahead):
                break
    except Exception as error:
        failure = error
    again = True
    try:
        again = call.refused(ahead, failure)
    finally:
        if again:
            stream.close()
    if again:
        return None
    stream._iterator = _noted(ahead, events, failure, call)
    return stream


def _noted(ahead: list[Any], events: Iterator[Any], failure: Exception | None, call: Call) -> Iterator[Any]:
    try:
        for event in ahead:
            call.note(event)
            yield event
        if failure is not None:
            raise failure
        for event in events:
            call.note(event)
            yield event
    finally:
        call.record()


async def _abegun(stream: Any, call: Call) -> Any:
    events, ahead, failure = aiter(stream._iterator), [], None
    try:
        async for event in events:
            ahead.append(event)
            if not _waits(ahead):
                break
    except Exception as error:
        failure = error
    again = True
    try:
        again = call.refused(ahead, failure)
    finally:
        if again:
            await stream.close()
    if again:
        return None
    stream._iterator = _anoted(ahead, events, failure, call)
    return stream


async def _anoted(
    ahead: list[Any], events: AsyncIterator[Any], failure: Exception | None, call: Call
) -> AsyncIterator[Any]:
    try:
        for event in ahead:
            call.note(event)
            yield event
        if failure is not None:
            raise failure
        async for event in events:
            call.note(event)
            yield event
    finally:
        call.record()
