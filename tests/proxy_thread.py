"""A proxy in a thread of its own, for clients that block."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Self

from packlight.proxy import Proxy, Settings


class ThreadedProxy:
    """Use as a context manager; `url` is where it is."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(port=0, quiet=True, **settings)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        self._stop, self._loop = asyncio.Event(), asyncio.get_running_loop()
        async with Proxy(self.settings) as self.proxy:
            self.url = self.proxy.url
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
