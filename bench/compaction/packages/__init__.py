"""Other people's packages as policies: each lives in an environment of its own and is asked over standard input.

`environments` is a folder of virtual environments, each named as its package: `python -m venv ENVIRONMENTS/cutctx` and
`ENVIRONMENTS/cutctx/bin/pip install cutctx`. A driver beside this file calls the package as its documentation says.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_ALL = frozenset({"anthropic", "chat", "responses"})


class NotInstalled(Exception):
    """One line says what is missing."""


@dataclass(frozen=True)
class Package:
    name: str
    """On PyPI, and of its environment."""
    driver: str
    rows: dict[str, dict[str, Any]]
    """Names of the rows, each with the options that its driver is given."""
    formats: frozenset[str] = _ALL
    knows_window: bool = True

    @property
    def code(self) -> tuple[Path, ...]:
        return HERE / self.driver, *(HERE / name for name in ("worker.py", "translate.py", "chain.py"))

    def python(self, environments: Path) -> Path:
        return environments / self.name / "bin" / "python"

    def version(self, environments: Path) -> str:
        """Raises NotInstalled."""
        python = self.python(environments)
        if not python.exists():
            raise NotInstalled(f"{self.name} is not installed here")
        code = f"from importlib.metadata import version; print(version({self.name!r}))"
        ran = subprocess.run([python, "-c", code], capture_output=True, text=True)
        if ran.returncode:
            raise NotInstalled(f"{self.name}: {ran.stderr.strip().splitlines()[-1]}")
        return ran.stdout.strip()


PACKAGES = (
    Package(
        "distil-llm",
        "distil_llm.py",
        {"distil-llm adapter": {"use": "adapter"}, "distil-llm library": {"use": "library"}},
        frozenset({"anthropic"}),
        knows_window=False,
    ),
    Package("headroom-ai", "headroom_ai.py", {"headroom-ai": {}}, frozenset({"anthropic", "chat"}), knows_window=False),
    Package("cliffcompaction", "cliffcompaction_.py", {"cliffcompaction": {}}),
    Package("cutctx", "cutctx_.py", {"cutctx default chain": {}}, frozenset({"anthropic", "chat"})),
    Package(
        "langchain",
        "langchain_.py",
        {
            "LangChain ContextEditing": {"use": "editing"},
            "LangChain ContextEditing, at least 25k": {"use": "editing", "at_least": 25_000},
            "LangChain Summarization": {"use": "summarization"},
        },
        frozenset({"anthropic", "chat"}),
    ),
    Package("deepagents", "deepagents_.py", {"deepagents Summarization": {}}, frozenset({"anthropic", "chat"})),
    Package("pydantic-ai-harness", "pydantic_ai_.py", {"Pydantic AI harness, two tiers": {}}, frozenset({"anthropic"})),
    Package("openhands-sdk", "openhands_.py", {"OpenHands condenser": {}}, frozenset({"anthropic"})),
    Package("hermes-agent", "hermes_agent.py", {"Hermes ContextCompressor": {}}, frozenset({"anthropic", "chat"})),
)


@dataclass
class Worker:
    """One package at work on one session: a policy for a `ForeignEngine` that makes no copies. `close` it."""

    package: Package
    environments: Path
    setting: dict[str, Any]
    side_input_tokens: float = 0.0
    side_output_tokens: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0
    _process: Any = None
    _known: list[Any] = field(default_factory=list)

    def __call__(self, messages: list[Any], *, head: Any, now_seconds: float | None) -> list[Any]:
        same = 0
        while same < min(len(messages), len(self._known)) and messages[same] is self._known[same]:
            same += 1
        if same < len(self._known):  # another window of the session: what the package remembers is of the one before
            self.close()
            same = 0
        if self._process is None:
            self._process = self._started()
        self._known = messages
        answer = self._ask({"keep": same, "add": messages[same:], "head": head, "now": now_seconds})
        self.cpu_seconds += answer["cpu_seconds"]
        self.peak_mb = max(self.peak_mb, answer["peak_mb"])
        self.side_input_tokens += answer["side_input_tokens"]
        self.side_output_tokens += answer["side_output_tokens"]
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return [messages[m] if isinstance(m, int) else m for m in answer["messages"]]

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()  # closes its input, which ends it
            self._process = None

    def _started(self) -> Any:
        quiet = {
            "HEADROOM_OFFLINE": "1",
            "HEADROOM_TELEMETRY": "0",
            "HF_HUB_OFFLINE": "1",
            "LANGSMITH_TRACING": "false",
            "OTEL_SDK_DISABLED": "true",
            "PYTHONHASHSEED": "0",
        }
        process = subprocess.Popen(
            [self.package.python(self.environments), HERE / self.package.driver],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("BENCH_STDERR") else subprocess.DEVNULL,
            env={**os.environ, **quiet},
        )
        self._process = process
        self._ask(self.setting)
        return process

    def _ask(self, value: dict[str, Any]) -> dict[str, Any]:
        self._process.stdin.write(json.dumps(value).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.package.name} ended with exit code {self._process.wait()}")
        return json.loads(line)
