"""`packlight.testing`'s server as a strict provider: it refuses what `checker` finds wrong, and thinking behind another
prefix, and plays a model that reads and runs a handful of files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import checker
from packlight.testing import Call, ModelServer, Refusal, Reply

Json = Any
BOUND = "Invalid `signature` in `thinking` block. The block is bound to a different conversation."
"""Anthropic, autumn 2026."""


class Loopback(ModelServer):
    """`fault` gives what to refuse a request (as JSON text) with, or its status; or None."""

    def __init__(self, window_tokens: int, turns: int = 60, **options: Any) -> None:
        super().__init__(self._say, window_tokens=window_tokens, judge=self._judge, **options)
        self.turns = turns
        self.binding = checker.Binding()
        self.fault: Callable[[str], Refusal | int | None] = lambda text: None

    def answer(self, wire: Any, body: Json) -> tuple[int, Json]:
        if (fault := self.fault(json.dumps(body, ensure_ascii=False))) is not None:
            self.requests.append(body)
            return self.refuse(wire, Refusal(fault) if isinstance(fault, int) else fault)
        return super().answer(wire, body)

    def _judge(self, wire: str, body: Json) -> list[str]:
        bound = self.binding.send(body) if wire == "anthropic" else []
        return checker.check(body, wire) + [f"messages.{place.split(':')[0]}: {BOUND}" for place in bound]

    def _say(self, turn: int, body: Json) -> Reply:
        if turn > self.turns:
            return Reply("All done.", thinking=f"step {turn}")
        return Reply(calls=_calls(turn), thinking=f"step {turn}")


def _calls(turn: int) -> tuple[Call, ...]:
    """One or two calls a turn, over a handful of files."""
    first = Call("read", {"path": f"src/module_{turn % 9}.py"})
    second = Call("bash", {"command": f"pytest -q tests/test_{turn % 9}.py"})
    return (first, second) if turn % 3 == 0 else (first,)
