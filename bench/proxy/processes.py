"""Servers as processes of their own: started on a free port, waited for, looked at, ended."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
START_SECONDS = 60.0


@dataclass
class Server:
    """A running server. `folder` is where its state is."""

    name: str
    url: str
    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def rss_mb(self) -> float:
        return sum(_rss_kb(pid) for pid in self._pids()) / 1024

    @property
    def cpu_seconds(self) -> float:
        """Of all its processes and threads so far."""
        return sum(_cpu_seconds(pid) for pid in self._pids())

    def kill(self) -> None:
        """At once, as a crash does."""
        for pid in self._pids():
            os.kill(pid, 9)
        self.process.wait()

    def _pids(self) -> list[int]:
        parents = {int(p.name): _parent(p) for p in Path("/proc").iterdir() if p.name.isdigit()}
        found = [self.process.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found


def _parent(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _rss_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


def _cpu_seconds(pid: int) -> float:
    """To the nanosecond: what `stat` counts in ticks of 10 ms."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue
    return total / 1e9


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How a proxy is started. In `command` and `environment`, {port}, {upstream} and {folder} are filled in."""

    name: str
    command: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    ready: str = "/healthz"
    """Answers anything but 5xx when it is up."""


def module(name: str, *options: str) -> Kind:
    return Kind(name=name, command=(sys.executable, "-m", f"bench.proxy.{name}", "--port", "{port}", *options))


def upstream_kind(**options: object) -> Kind:
    given = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    return module("upstream", *given)


PASSTHROUGH = module("passthrough", "--upstream", "{upstream}")


def packlight(*options: str, name: str = "packlight") -> Kind:
    command = (sys.executable, "-m", "packlight", "proxy", "--port", "{port}", "--upstream", "{upstream}", *options)
    return Kind(name=name, command=command, environment={"XDG_STATE_HOME": "{folder}"})


@contextmanager
def running(kind: Kind, upstream: str = "", *, folder: Path | None = None, port: int | None = None) -> Iterator[Server]:
    """Started and ready. Its output is in `folder`/log, which is removed at the end when it was not given."""
    home = folder or Path(tempfile.mkdtemp(prefix="proxy-bench-"))
    words = {"port": str(port or free_port()), "upstream": upstream, "folder": str(home)}
    command = [part.format(**words) for part in kind.command]
    more = {name: value.format(**words) for name, value in kind.environment.items()}
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "HOME": str(home), **more}
    with open(home / "log", "ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=home)
    server = Server(kind.name, f"http://127.0.0.1:{words['port']}", process, home)
    try:
        _wait(server, kind.ready)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
        if folder is None:
            shutil.rmtree(home, ignore_errors=True)


@asynccontextmanager
async def running_beside(kind: Kind, upstream: str, *, folder: Path | None = None) -> AsyncIterator[Server]:
    """`running` while this process's own event loop goes on, which may be the upstream."""
    manager = running(kind, upstream, folder=folder)
    server = await asyncio.to_thread(manager.__enter__)
    try:
        yield server
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


def _wait(server: Server, ready: str) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and server.process.poll() is None:
        try:
            urllib.request.urlopen(server.url + ready, timeout=2).read()
            return
        except urllib.error.HTTPError as error:
            if error.code < 500:
                return
        except OSError:
            pass
        time.sleep(0.05)
    log = (server.folder / "log").read_text(errors="replace")[-2_000:]
    raise RuntimeError(f"{server.name} did not start:\n{log}")
