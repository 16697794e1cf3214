"""`packlight proxy` as processes: killed, restarted, several on one port, told to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from proxy_help import (
    LAST,
    PATHS,
    STREAM,
    WAIT_SECONDS,
    Link,
    Message,
    Upstream,
    agent_request,
    answer_of,
    chunk,
    encoded,
    event,
    items_of,
    post,
    reply,
    run,
)
from talk import begins_with

SOURCE = Path(__file__).resolve().parent.parent / "src"
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="one process each there")


class Served:
    """A proxy in processes of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.port = 0
        self.log: list[str] = []

    async def ready(self) -> None:
        assert self.process.stderr is not None
        while not any("packlight proxy on" in text for text in self.log):
            data = await asyncio.wait_for(self.process.stderr.readline(), WAIT_SECONDS)
            assert data, self.log
            self.log.append(data.decode())
        self.port = int(re.findall(r"on http://[^/]*:(\d+)", "".join(self.log))[-1])

    async def connect(self) -> Link:
        return Link(*await asyncio.open_connection("127.0.0.1", self.port))

    async def post(self, turns: int) -> Message:
        link = await self.connect()
        await link.send(post(PATHS["chat"], encoded(agent_request("chat", turns))))
        try:
            return await link.message(is_reply=True)
        finally:
            link.close()

    def children(self) -> list[int]:
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return list(map(int, text.split()))

    async def ended(self) -> int:
        return await asyncio.wait_for(self.process.wait(), WAIT_SECONDS)


@contextlib.asynccontextmanager
async def served(upstream: Upstream, state: Path, *options: str) -> AsyncIterator[Served]:
    command = [sys.executable, "-m", "packlight", "proxy", "--port", "0", "--upstream", upstream.url]
    told: dict[str, Any] = {"env": {**os.environ, "XDG_STATE_HOME": str(state), "PYTHONPATH": str(SOURCE)}}
    process = await asyncio.create_subprocess_exec(
        *command, "--window-tokens", "16000", *options, stderr=asyncio.subprocess.PIPE, **told
    )
    made = Served(process)
    try:
        await made.ready()
        yield made
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


def test_killed_between_two_requests_it_sends_the_same_prefix_afterwards(tmp_path):
    async def work():
        async with Upstream(reply(answer_of("chat", 9_000))) as upstream:
            async with served(upstream, tmp_path) as first:
                got = await first.post(20)
                assert got.get("x-packlight").startswith("compacted")
                before = items_of(upstream.requests[-1], "chat")
                first.process.kill()
                assert await first.ended() == -signal.SIGKILL
            async with served(upstream, tmp_path) as second:
                got = await second.post(21)
                assert got.get("x-packlight").startswith("reapplied")
                assert begins_with(items_of(upstream.requests[-1], "chat"), before)

    run(work())


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="workers are found by /proc")
def test_workers_share_what_was_done_and_a_killed_one_is_replaced(tmp_path):
    async def work():
        async with (
            Upstream(reply(answer_of("chat", 9_000))) as upstream,
            served(upstream, tmp_path, "--workers", "2") as on,
        ):
            first = on.children()
            assert len(first) == 2
            got = [await on.post(20) for _ in range(12)]
            assert {m.status for m in got} == {200}
            assert len({r.body for r in upstream.requests}) == 1
            os.kill(first[0], signal.SIGKILL)
            while len(on.children()) < 2 or first[0] in on.children():
                await asyncio.sleep(0.05)
            assert (await on.post(21)).status == 200
            on.process.send_signal(signal.SIGTERM)
            assert await on.ended() == 0

    run(work())


def test_workers_end_when_what_began_them_is_killed(tmp_path):
    async def work():
        async with (
            Upstream(reply(answer_of("chat", 9))) as upstream,
            served(upstream, tmp_path, "--workers", "2") as on,
        ):
            assert (await on.post(1)).status == 200
            on.process.kill()
            assert await on.ended() == -signal.SIGKILL
            assert on.process.stderr is not None
            await asyncio.wait_for(on.process.stderr.read(), WAIT_SECONDS)  # the workers had it open, too
            with pytest.raises(ConnectionRefusedError):
                await on.connect()

    run(work())


@pytest.mark.parametrize("options", [(), ("--workers", "2")])
def test_told_to_end_it_lets_a_stream_end(tmp_path, options):
    async def work():
        told, ended = asyncio.Event(), event({"choices": [{"delta": {"content": "the end"}}]})

        async def answer(got: Message, link: Link) -> None:
            await link.send(STREAM + chunk(event({"choices": [{"delta": {"content": "a"}}]})))
            await told.wait()
            await asyncio.sleep(0.3)
            await link.send(chunk(ended) + LAST)

        async with Upstream(answer) as upstream, served(upstream, tmp_path, *options) as on:
            link = await on.connect()
            await link.send(post(PATHS["chat"], encoded(agent_request("chat", 2, stream=True))))
            await link.head()
            on.process.send_signal(signal.SIGTERM)
            told.set()
            text = b""
            while data := await link.some():
                text += data
            link.close()
            assert text.endswith(chunk(ended) + LAST)
            assert await on.ended() == 0
            with pytest.raises(ConnectionError):
                await on.connect()

    run(work())


@pytest.mark.parametrize("options", [(), ("--workers", "2")])
def test_port_that_is_taken_is_one_line(tmp_path, options):
    async def work():
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            command = [sys.executable, "-m", "packlight", "proxy", *options, "--port", port]
            told: dict[str, Any] = {"env": {**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(SOURCE)}}
            process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, **told)
            _, said = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
            assert process.returncode not in (0, None)
            assert b"Traceback" not in said
            assert b"in use" in said

    run(work())
