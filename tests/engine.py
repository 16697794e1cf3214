"""The product as these tests call it: one place to change when a name changes."""

from __future__ import annotations

import functools
import json
from typing import Any

import cases
import checker
import packlight
from strategies import list_key as key_of

Json = Any
POLICIES = ("default", "thrifty", "classic", "nano")
MODELS = {"anthropic": "claude-opus-5-5", "chat": "gpt-5.6", "responses": "gpt-5.6"}


def body(messages: list[Json], format: str, **more: Json) -> Json:
    return {"model": MODELS[format], key_of(format): messages, **more}


def compact(request: Json, format: str, policy: str = "default", window: int | None = None, **options: Any) -> Any:
    """One shot at this window, wanted even when nothing is due."""
    return packlight.compact(
        request,
        policy=policy,
        model=_model(request, format),
        window_tokens=window,
        force=True,
        format=format,
        **options,
    )


def compactor(format: str, **options: Any) -> Any:
    """A compactor whose `fit` knows the format: some requests here are too plain to tell it."""
    made = packlight.Compactor(options.pop("model", MODELS[format]), **options)
    made.fit = functools.partial(made.fit, format=format)
    return made


def fit(request: Json, format: str, **options: Any) -> Any:
    """One fit by a fresh compactor."""
    return compactor(format, **options).fit(request)


def _model(request: Json, format: str) -> str:
    return (request.get("model") if isinstance(request, dict) else None) or MODELS[format]


def size_tokens(request: Json, format: str) -> int:
    """What the product counts for it, edits aside."""
    return fit(request, format, policy="none", model=_model(request, format)).report.tokens_before


def frozen(value: Json) -> str:
    """A text to compare a value by, exact and independent of objects."""
    return json.dumps(checker.plain(value), sort_keys=True)


def lawful(given: Json, c: Any, format: str) -> None:
    """What must hold after every compaction, whatever its policy."""
    assert c.report.error is None, c.report.error
    assert checker.new_violations(given, c.request, format) == []
    if not checker.check(given, format):
        assert checker.check(c.request, format) == []
    assert frozen(c.restore()) == frozen(given)
    if c.changed:
        assert c.report.tokens_after < c.report.tokens_before
    else:
        assert frozen(c.request) == frozen(given)
    if isinstance(given, dict):
        list_key = key_of(format)
        for name in given.keys() - {list_key}:
            assert frozen(c.request[name]) == frozen(given[name]), f"{name} was touched"


def seen(c: Any) -> str:
    """All that the model could read in the result."""
    return cases.visible(checker.plain(c.request))


def texts_of(message: Json) -> str:
    return cases.visible(checker.plain(message))
