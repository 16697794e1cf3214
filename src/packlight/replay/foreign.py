"""Anybody's policy as an engine: a callable that takes the history before each call and gives back what to send."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import jsonio
from ..errors import InvalidRequest
from ..formats import split
from ..tokens.usage import input_tokens
from ..types import Edit, Json
from .prefix import begins_with
from .weights import counting

Policy = Callable[..., Any]
"""Called as `policy(messages, ...)` with those of the keywords `KEYWORDS` that it names. It gives back the messages to
send; its arguments are its own copies, which it may change as it likes."""

KEYWORDS = ("head", "format", "model", "window_tokens", "now_seconds")
"""`head`: what the body holds beside its messages, as far as it was recorded. `format`: anthropic, chat
or responses. `model` and `window_tokens`: None when not known. `now_seconds`: when the call was made, as recorded."""

_OF_A_SESSION = ("model", "window_tokens")
"""What a class may ask for when it is made."""


def is_foreign(policy: str) -> bool:
    """True for `module:name`, which is nobody's preset."""
    return ":" in policy


def load_policy(spec: str) -> Policy:
    """The callable that `module:name` names; the current folder is searched first.

    Raises InvalidRequest with one line when there is no such module or name, or it can't be called as a policy.
    """
    module_name, _, name = spec.partition(":")
    if not module_name or not name:
        raise InvalidRequest(f"policy {spec!r}: write module:function")
    if module_name.endswith(".py"):
        raise InvalidRequest(f"policy {spec!r}: a module, not a file: write {Path(module_name).stem}:{name}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # whatever its top level raises
        raise InvalidRequest(f"policy {spec!r}: can't import {module_name}: {_told(error)}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidRequest(f"policy {spec!r}: {module_name} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise InvalidRequest(f"policy {spec!r} is a {type(found).__name__}, which can't be called")
    keywords, asked = (_OF_A_SESSION, "when it is made") if inspect.isclass(found) else (KEYWORDS, "beside messages")
    _refuse_unknown(spec, found, keywords, asked, positional=0 if inspect.isclass(found) else 1)
    return found


def _refuse_unknown(spec: str, call: Policy, keywords: Sequence[str], asked: str, *, positional: int) -> None:
    given = dict.fromkeys(_named(call, keywords))
    try:
        inspect.signature(call).bind(*[None] * positional, **given)
    except TypeError as error:
        raise InvalidRequest(f"policy {spec!r}: {error}; {asked} it is given {', '.join(keywords)}") from error
    except ValueError:  # builtins without a signature
        return


def _named(call: Policy, keywords: Sequence[str]) -> list[str]:
    """Those of the keywords that a signature asks for."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except ValueError:
        return []
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return list(keywords)
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return [k for k in keywords if k in named]


@dataclass(frozen=True, slots=True)
class ForeignReport:
    tokens_before: int
    tokens_after: int
    new_edits: tuple[Edit, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignCompaction:
    given: Any
    request: Any
    changed: bool
    fits: bool
    report: ForeignReport
    estimated: int = 0
    """Tokens of the messages sent, by our counter."""

    def restore(self) -> Any:
        """What was given: the caller has it, since the policy only ever saw a copy."""
        return self.given


@dataclass(slots=True)
class ForeignEngine:
    """Walks anybody's policy. One for each session.

    A policy that fails, or gives back something that is no list of messages, leaves the request as it was, and the
    report says so. Where the sent request no longer begins with the one before, although the recorded one does, that
    is a batch of one edit.
    """

    policy: Policy
    name: str
    model: str | None = None
    window_tokens: int | None = None
    store: None = None
    """It keeps nothing."""
    copies: bool = True
    """False: the policy is known not to change what it is given, and is given the session's own objects."""
    _call: Policy | None = field(default=None, init=False)
    _counted: dict[int, tuple[Any, int]] = field(default_factory=dict, init=False)
    _seen: dict[bytes, Any] = field(default_factory=dict, init=False)
    _first: dict[int, Any] = field(default_factory=dict, init=False)
    """By id: the objects in `_seen`, which live as long as this does."""
    _given: Sequence[Any] = field(default=(), init=False)
    _sent: Sequence[Any] = field(default=(), init=False)
    _offset: int = field(default=0, init=False)
    """What the provider counted beyond our estimate, at the last usage: system, tools, and our error."""

    def fit(self, request: Any, /, *, now_seconds: float | None = None, format: str | None = None) -> ForeignCompaction:
        fmt, given, head = split(request, format)
        for message in given:
            self._one(message)
        values = {"head": head, "format": fmt.name, "model": head.get("model") or self.model}
        sent, error = self._asked(given, {**values, "window_tokens": self.window_tokens, "now_seconds": now_seconds})
        estimated = sum(map(self._tokens, sent))
        after = self._offset + estimated
        before = self._offset + sum(map(self._tokens, given))
        edits = self._batch(given, sent, before, after)
        self._given, self._sent = given, sent
        changed = len(sent) != len(given) or any(a is not b for a, b in zip(sent, given, strict=True))
        return ForeignCompaction(
            given=request,
            request=_with_messages(request, sent) if changed else request,
            changed=changed,
            fits=self.window_tokens is None or after <= self.window_tokens,
            report=ForeignReport(before, after, edits, error),
            estimated=estimated,
        )

    def record_usage(self, compaction: ForeignCompaction, usage: Any, /) -> None:
        if counted := input_tokens(usage):
            self._offset = max(0, counted - compaction.estimated)

    def _asked(self, given: Sequence[Any], values: Mapping[str, Any]) -> tuple[list[Any], str | None]:
        """What the policy gives back, each message as the object that was first seen with these bytes."""
        try:
            with contextlib.redirect_stdout(sys.stderr):  # standard output is the report's
                if self._call is None:
                    self._call = self._made()
                named = {k: values[k] for k in _named(self._call, KEYWORDS)}
                messages = list(given)
                if self.copies:
                    messages, named = deepcopy((messages, named))
                answer = self._call(messages, **named)
            return self._messages(answer), None
        except Exception as error:  # somebody else's code
            return list(given), f"{self.name}: {_told(error)}{_place(error)}"

    def _made(self) -> Policy:
        if not inspect.isclass(self.policy):
            return self.policy
        values = {"model": self.model, "window_tokens": self.window_tokens}
        made = self.policy(**{k: values[k] for k in _named(self.policy, _OF_A_SESSION)})
        if not callable(made):
            raise TypeError(f"an instance of {self.policy.__name__} can't be called")
        return made

    def _messages(self, answer: Any) -> list[Any]:
        if isinstance(answer, (str, bytes, Mapping)) or not hasattr(answer, "__iter__"):
            raise TypeError(f"it gave back {type(answer).__name__}, not a list of messages")
        messages = list(answer)
        if not messages:
            raise ValueError("it gave back no message")
        for message in messages:
            if not isinstance(message, dict):
                raise TypeError(f"it gave back a list of {type(message).__name__}, not of JSON objects")
        return [self._one(m) for m in messages]

    def _one(self, message: Json) -> Any:
        if id(message) in self._first:
            return message
        first = self._seen.setdefault(jsonio.dump(message), message)
        self._first[id(first)] = first
        return first

    def _tokens(self, message: Any) -> int:
        known = self._counted.get(id(message))
        if known is None:
            known = self._counted[id(message)] = message, counting(self.model)(message)
        return known[1]

    def _batch(self, given: Sequence[Any], sent: Sequence[Any], before: int, after: int) -> tuple[Edit, ...]:
        if not begins_with(given, self._given) or begins_with(sent, self._sent):
            return ()
        kept = next((i for i, (a, b) in enumerate(zip(given, sent, strict=False)) if a is not b), 0)
        replaced = tuple(sent[kept : kept + 1])
        edit = Edit(self.name, "removed", (kept,), (len(given),), replaced, tokens_before=before, tokens_after=after)
        return (edit,)


def _with_messages(request: Any, messages: list[Any]) -> Any:
    if not isinstance(request, Mapping):
        return messages
    key = "input" if "input" in request and "messages" not in request else "messages"
    return {**request, key: messages}


def _place(error: Exception) -> str:
    """Where it was raised, when that was in the policy and not here."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return "" if frame.filename == __file__ else f" ({os.path.basename(frame.filename)}, line {frame.lineno})"


def _told(error: Exception) -> str:
    """An exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
