"""One agent at its task, straight to the provider or through the proxy, and what became of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from .clients import Client
from .provider import CODE_WORD, Provider

Json = Any
TIMEOUT_SECONDS = 240
PROMPT = (
    "Read the files reports/report-1.txt to reports/report-{last}.txt, one command for each, in this order. Each has a "
    "figure in it. When all are read, say the sum of the figures. Never write to migrations/. The code word is "
    f"{CODE_WORD}."
)
MORE = "Go on: read the reports up to reports/report-{last}.txt too, and say the sum of the figures of all of them."


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one run."""

    client: str
    way: str
    ended_well: bool
    """The client itself printed the sum that only whoever read all reports knows."""
    exit_code: int | None
    """None: it was stopped because it did not end."""
    steps: str
    windows: float
    """All outputs read, by the window."""
    requests: int
    refused_for_length: int
    refused_otherwise: dict[str, int] = field(default_factory=dict)
    side_requests: int
    """Titles, and the client's own summaries."""
    repeated: int
    """Commands that the model had to call again, their results gone before it could read them."""
    forgotten: int
    """Turns of the agent without the user's own words."""
    said: str
    proxy_said: str
    seconds: float

    def as_json(self) -> Json:
        return asdict(self)


class Bench:
    """One client in a home of its own. `provider` may be changed between its runs."""

    def __init__(self, client: Client, binary: Path, folder: Path, source: Path) -> None:
        self.client, self.binary, self.source = client, binary, source
        self.home = folder / "home"
        self.work = folder / "work"
        for path in (self.home, self.work, folder / "tmp", folder / "state"):
            path.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def provider(self, windows: float) -> Provider:
        client = self.client
        step_tokens = client.output_chars / 3.3
        steps = int(client.window_tokens * windows / step_tokens) + 1
        return Provider(
            self.work / "reports",
            steps,
            client.output_chars,
            last_command=client.last_command,
            window_tokens=client.window_tokens,
            binds_thinking=client.binds_thinking,
        )

    def direct(self, provider: Provider, template: tuple[str, ...], *, way: str) -> Outcome:
        self.client.configure(self.home, provider.url)
        line = self._line(provider, template)
        if self.client.is_told_by == "codex":
            line[1:1] = ["-c", f'openai_base_url="{provider.url}/v1"']
        return self._ran(line, self.client.direct(provider.url), provider, way)

    def behind(self, provider: Provider, template: tuple[str, ...], *, way: str) -> Outcome:
        """Through `packlight run`, or for a client that is told by its own file through `packlight proxy`."""
        line = self._line(provider, template)
        if self.client.is_told_by != "config":
            self.client.configure(self.home, provider.url)
            line = [*self._packlight("run"), "--", *line]
            return self._ran(line, self.client.direct(provider.url), provider, way)
        with self.proxy(provider.url) as (url, log):
            self.client.configure(self.home, url)
            outcome = self._ran(line, {}, provider, way)
        changes = sum(line.startswith("compacted: ") for line in log.read_text().splitlines())
        return replace(outcome, proxy_said=f"{changes} compactions")

    @contextmanager
    def proxy(self, upstream: str) -> Iterator[tuple[str, Path]]:
        log = self.folder / "proxy.log"
        with log.open("w") as err:
            line = self._packlight("proxy", "--port", "0", "--upstream", upstream)
            process = subprocess.Popen(line, env=self._environment({}), stderr=err)
        try:
            yield _address(log), log
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)

    def _packlight(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "packlight", *arguments]

    def _line(self, provider: Provider, template: tuple[str, ...]) -> list[str]:
        words = MORE if template == self.client.resume else PROMPT
        return self.client.line(self.binary, template, words.format(last=len(provider.figures)), self.home)

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        """Nothing of the user's own but the path: no keys, no settings, no proxies."""
        own = {name: value.replace("{home}", str(self.home)) for name, value in self.client.environment}
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "PYTHONPATH": str(self.source),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            **own,
            **more,
        }

    def _ran(self, line: list[str], more: dict[str, str], provider: Provider, way: str) -> Outcome:
        began = time.monotonic()
        out, err = self.folder / "out.txt", self.folder / "err.txt"
        with out.open("w") as stdout, err.open("w") as stderr:
            process = subprocess.Popen(
                line,
                cwd=self.work,
                env=self._environment(more),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            try:
                code: int | None = process.wait(TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = None
        printed, errors = (_plain(path.read_text("utf-8", "replace")) for path in (out, err))
        ours = [line for line in errors.splitlines() if line.startswith("packlight: ")]
        told = [line.removeprefix("packlight: ") for line in ours[1:] if "live page" not in line]
        return Outcome(
            client=self.client.name,
            way=way,
            ended_well=provider.total in printed,
            exit_code=code,
            steps=f"{len(provider.seen)}/{len(provider.figures)}",
            windows=round(provider.output_tokens / self.client.window_tokens, 1),
            requests=provider.answered,
            refused_for_length=provider.refused["length"],
            refused_otherwise={kind: n for kind, n in provider.refused.items() if kind != "length"},
            side_requests=provider.side_requests,
            repeated=provider.repeated,
            forgotten=provider.forgotten,
            said=self._said(printed, "\n".join(line for line in errors.splitlines() if line not in ours)),
            proxy_said="; ".join(told),
            seconds=round(time.monotonic() - began, 1),
        )

    def _said(self, printed: str, errors: str) -> str:
        """What a user would read at the end, without this machine's paths."""
        found = re.findall(r'"result":"((?:[^"\\\\]|\\\\.)*)"', printed)
        complaints = [line for line in errors.splitlines() if re.search(r"error|exceeded|ran out", line, re.IGNORECASE)]
        text = found[-1] if found else _last(printed) or _last("\n".join(complaints)) or _last(errors)
        return text.replace(str(self.folder), "")[:300]


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _address(log: Path) -> str:
    for _ in range(200):
        if found := re.search(r"packlight proxy on (http://\S+)", log.read_text()):
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"the proxy did not start: {log.read_text()}")
