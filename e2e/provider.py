"""The provider of the end-to-end tests: strict, with a small window, and a model that reads reports by the client's own
shell tool until it can say the sum of the figures in them."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import checker
from packlight.testing import Call, ModelServer, Refusal, Reply

Json = Any
SHELLS = {"Bash": "command", "bash": "command", "exec_command": "cmd", "shell": "command", "exec": ""}
"""Clients' tools that run a command, and the argument that takes it; Codex's `exec` takes a script that runs it."""
_SCRIPT = "const r = await tools.exec_command({cmd: %s}); text(typeof r === 'string' ? r : r.output);"
CODE_WORD = "ORCHID-7731"
TRIES = 4
_WORDS = (
    "parser", "reads", "the", "config", "before", "cache", "is", "warm", "and", "returns", "early", "when", "missing",
    "tests", "cover", "every", "branch", "of", "loader", "except", "timeout", "handler", "retries", "without", "delay",
)  # fmt: skip
_SUMMARY = re.compile(r"TEXT ONLY|CONTEXT CHECKPOINT|detailed summary|structured context checkpoint", re.IGNORECASE)
_KINDS = {
    "prompt is too long": "length",
    "maximum context length": "length",
    "bound to a different conversation": "thinking behind another prefix",
}
"""Refusals by what they are for."""


class Provider(ModelServer):
    """`window_tokens` is enforced in the provider's words; what `checker` finds wrong is refused, and bound thinking
    behind another prefix. `reports` is the folder that the model's commands read in, relative to the client's own."""

    def __init__(self, folder: Path, steps: int, output_chars: int, *, last_command: str = "", **options: Any) -> None:
        super().__init__(self._say, judge=self._judge, counts_room=False, **options)
        self.folder, self.output_chars, self.last_command = folder, output_chars, last_command
        self.figures: list[int] = []
        self.seen: list[int] = []
        self._random = random.Random(7)
        self.more(steps)

    def more(self, steps: int) -> None:
        """Further reports to read, each as long as `output_chars` with its figure near the end; counts begin anew."""
        self.folder.mkdir(exist_ok=True)
        for _ in range(steps):
            self.figures.append(self._random.randrange(1_000, 10_000))
            number = len(self.figures)
            lines, size = [], 0
            while size < self.output_chars:
                lines.append(self._line(number, len(lines)))
                size += len(lines[-1]) + 1
            lines.insert(-3, f"FIGURE {number} = {self.figures[-1]}")
            (self.folder / f"report-{number}.txt").write_text("\n".join(lines) + "\n")
        self.tries = self.repeated = self.side_requests = self.answered = 0
        self.forgotten = 0
        """Turns of the agent without the user's own words."""
        self.refused: Counter[str] = Counter()

    def _line(self, report: int, line: int) -> str:
        """Like a tool's output: words, names and numbers, none like another."""
        words = " ".join(self._random.choices(_WORDS, k=6))
        return f"{report}.{line} src/{self._random.choice(_WORDS)}.py:{self._random.randrange(900)}: {words}"

    @property
    def total(self) -> str:
        return f"The sum of the {len(self.figures)} figures is {sum(self.figures)}."

    @property
    def output_tokens(self) -> int:
        """Of all reports read so far."""
        return int(len(self.seen) * self.output_chars / self.chars_per_token)

    def refuse(self, wire: Any, refusal: Refusal) -> tuple[int, Json]:
        kind = next((kind for words, kind in _KINDS.items() if words in refusal.message), refusal.message[:160])
        self.refused[kind] += 1
        return super().refuse(wire, refusal)

    def _judge(self, wire: str, body: Json) -> list[str]:
        return checker.check(body, wire, soft=False)

    def answer(self, wire: Any, body: Json) -> tuple[int, Json]:
        status, answer = super().answer(wire, body)
        self.answered += status == 200
        return status, answer

    def _say(self, number: int, body: Json) -> Reply | Refusal:
        items = body.get("messages") or body.get("input") or []
        shell = next((t for t in _tools(body) if _tool_name(t) in SHELLS), None)
        if shell is None or _SUMMARY.search(json.dumps(items[-1:])):
            self.side_requests += 1
            return Reply(f"<summary>The reports are read one after another; {CODE_WORD}.</summary>")
        self.forgotten += CODE_WORD not in json.dumps([body.get("system"), items])
        self._look(json.dumps(items[-4:]))
        left = len(self.figures) - len(self.seen)
        if left and self.tries < TRIES:
            self.tries += 1
            self.repeated += self.tries > 1
            command = f"cat {self.folder.name}/report-{len(self.seen) + 1}.txt"
            return Reply(calls=(_call(shell, command),), thinking=f"Report {len(self.seen) + 1} is next.")
        text = "I can't read the next report." if left else self.total
        if self.last_command and self.last_command.format(text) not in json.dumps(items[-1:]):
            return Reply(calls=(_call(shell, self.last_command.format(text)),), thinking="All is read.")
        return Reply(text, thinking="All is read.")

    def _look(self, text: str) -> None:
        """What the last result tells: only what a command really printed counts."""
        following = len(self.seen) + 1
        found = re.search(rf"FIGURE {following} = (\d+)", text)
        if following <= len(self.figures) and found and int(found[1]) == self.figures[following - 1]:
            self.seen.append(int(found[1]))
            self.tries = 0


def _call(tool: Json, command: str) -> Call:
    name = _tool_name(tool)
    if tool.get("type") == "custom":
        return Call(name, _SCRIPT % json.dumps(command), is_custom=True)
    described = {"description": "Reads a report"} if '"description": {"' in json.dumps(tool) else {}
    return Call(name, {SHELLS[name]: command, **described})


def _tools(body: Json) -> Iterator[Json]:
    """Those of the request, of its `additional_tools` items (Codex), and those in namespaces."""
    items = body.get("input") if isinstance(body.get("input"), list) else []
    given = [*(body.get("tools") or ()), *(t for i in items if i.get("type") == "additional_tools" for t in i["tools"])]
    for tool in given:
        yield from tool["tools"] if tool.get("type") == "namespace" else [tool]


def _tool_name(tool: Json) -> str:
    return str(tool.get("name") or (tool.get("function") or {}).get("name"))
