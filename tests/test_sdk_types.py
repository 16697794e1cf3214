"""A judge that is not ours: the official SDKs' own parameter types, asked by pydantic."""

from __future__ import annotations

import functools

import pytest

import cases
import strategies
from engine import POLICIES, compact, size_tokens

pydantic = pytest.importorskip("pydantic")


@functools.cache
def adapters(format):
    """Types that a list entry may have; it passes when one of them takes it."""
    if format == "anthropic":
        pytest.importorskip("anthropic")
        from anthropic.types import MessageParam
        from anthropic.types.beta import BetaMessageParam

        found = [MessageParam, BetaMessageParam]
    else:
        pytest.importorskip("openai")
        from openai.types.chat import ChatCompletionMessageParam
        from openai.types.responses import ResponseInputItemParam

        found = [ChatCompletionMessageParam if format == "chat" else ResponseInputItemParam]
    return [pydantic.TypeAdapter(kind) for kind in found]


def refused(entries, format):
    """The entries that no type takes."""
    return [entry for entry in entries if not any(_takes(adapter, entry) for adapter in adapters(format))]


def _takes(adapter, entry):
    try:
        made = adapter.validate_python(entry)
        for value in _iterators(made):  # Iterable fields are only checked when they are read
            list(value)
    except pydantic.ValidationError:
        return False
    return True


def _iterators(value):
    if type(value).__name__ == "ValidatorIterator":
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _iterators(item)


FEATURES = {
    "anthropic": {
        "parallel",
        "split_results",
        "list_results",
        "image_results",
        "error_results",
        "beside_results",
        "user_turns",
        "signed",
        "readable",
        "redacted",
        "cache_marks",
        "server_tools",
        "big_results",
        "wide",
    },
    "chat": {
        "parallel",
        "split_results",
        "list_results",
        "error_results",
        "beside_results",
        "user_turns",
        "images",
        "custom_calls",
        "names",
        "big_results",
        "wide",
    },
    "responses": {
        "parallel",
        "split_results",
        "list_results",
        "image_results",
        "error_results",
        "beside_results",
        "user_turns",
        "signed",
        "readable",
        "custom_calls",
        "shell_calls",
        "mcp",
        "big_results",
        "wide",
    },
}


def _histories():
    for format, features in FEATURES.items():
        for seed in range(6):
            yield pytest.param(
                format,
                strategies.build(format, seed=seed, turns=25, features=frozenset(features)).request,
                id=f"{format}-{seed}",
            )
    for path in cases.history_files():
        yield pytest.param(*cases.load_history(path), id=f"{path.parent.name}-{path.stem}")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("format", "request_"), list(_histories()))
def test_sdk_types_take_the_result(format, request_, policy):
    key = "input" if format == "responses" else "messages"
    before = len(refused(request_[key], format))
    c = compact(request_, format, policy, size_tokens(request_, format) // 2)
    after = refused(c.messages, format)
    assert len(after) <= before, after[:2]


def test_the_judge_can_refuse():
    assert refused([{"role": "user", "content": [{"type": "tool_result", "content": 3}]}], "anthropic")
    assert refused([{"role": "tool", "content": None}], "chat")
    assert refused([{"type": "function_call", "name": "x"}], "responses")
