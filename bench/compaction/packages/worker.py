"""Runs inside a package's environment: reads requests, answers with messages. Standard library only.

A line in is `{"keep": n, "add": [...]}`: the first n messages of the request before, and these behind them. A line
out holds for each message to be sent its place in the request, or the message itself where it is a new one.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # `scripted`, without what stands beside it
from scripted import summary

CHARS_PER_TOKEN = 4


class Side:
    """Model calls beside the agent's, answered by the script; their sizes are told."""

    def __init__(self, tokens_per_char: float) -> None:
        self._tokens_per_char = tokens_per_char
        self.input_tokens = self.output_tokens = 0.0

    def ask(self, prompt: str) -> str:
        text = summary(prompt)
        self.input_tokens += len(prompt) * self._tokens_per_char
        self.output_tokens += len(text) * self._tokens_per_char
        return text


Policy = Callable[[list[dict[str, Any]], dict[str, Any], float | None], list[dict[str, Any]]]
"""Messages (the same objects from call to call, not to be changed), head of the body and time of the call; gives back
what to send."""


def serve(make: Callable[[dict[str, Any], Side], Policy]) -> None:
    """Make the policy from the first line and answer all others, until the input ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a package prints goes elsewhere
    setting = json.loads(sys.stdin.readline())
    side = Side(setting["tokens_per_char"])
    policy = make(setting, side)
    base_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _say(out, {"cpu_seconds": 0.0, "peak_mb": 0.0, "side_input_tokens": 0.0, "side_output_tokens": 0.0})
    messages: list[dict[str, Any]] = []
    for line in sys.stdin:
        asked = json.loads(line)
        messages = [*messages[: asked["keep"]], *asked["add"]]
        answer = _answer(policy, messages, asked)
        peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        answer |= {"peak_mb": (peak_kb - base_kb) / 1024, "side_input_tokens": side.input_tokens}
        answer |= {"side_output_tokens": side.output_tokens}
        side.input_tokens = side.output_tokens = 0.0
        _say(out, answer)


def _answer(policy: Policy, messages: list[Any], asked: dict[str, Any]) -> dict[str, Any]:
    start = time.process_time()
    try:
        sent = policy(messages, asked["head"] or {}, asked["now"])
    except Exception as error:  # told, and the request stays as it was
        return {"error": f"{type(error).__name__}: {error}"[:300], "cpu_seconds": time.process_time() - start}
    seconds = time.process_time() - start
    places = {id(m): i for i, m in enumerate(messages)}
    return {"messages": [places.get(id(m), m) for m in sent], "cpu_seconds": seconds}


def _say(out: Any, value: dict[str, Any]) -> None:
    out.write(json.dumps(value) + "\n")
    out.flush()
