"""What people and collectors look at: the live page, its figures, `/metrics`.

Figures are for everybody who may use the proxy. Text (what stands in place of what) is only for whoever has the key
that was printed at the start. Nothing of it is ever written down: of several worker processes each answers for itself,
on a socket in a private folder, and whoever is asked asks the others.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import aiohttp
from aiohttp import web

from .figures import batch_of, figures, merged, merged_turns, turns
from .guard import TOKEN_HEADER
from .metrics import CONTENT_TYPE, prometheus
from .settings import Settings
from .watch import Watch

__all__ = ["Access", "Board"]

MAX_THREADS_SHOWN = 100
PEER_SECONDS = 2.0
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_PAGE = "data/proxy.html"
Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Access:
    """What the processes of one start share."""

    key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """Opens text."""
    folder: Path | None = None
    """Private, and gone when the proxy ends: where several processes find each other."""

    @property
    def socket(self) -> Path | None:
        """Of this process."""
        return self.folder / f"{os.getpid()}.sock" if self.folder else None


class Board:
    """Answers what is asked of the proxy itself."""

    def __init__(self, watch: Watch, settings: Settings, access: Access) -> None:
        self._watch = watch
        self._settings = settings
        self._access = access
        self._pages: Mapping[str, Callable[[Query], Any]] = {
            "/metrics": self._metrics,
            "/packlight/figures.json": self._figures,
            "/packlight/turns.json": self._turns,
            "/packlight/batch.json": self._batch,
        }

    async def __call__(self, request: web.Request, path: str) -> web.Response | None:
        """The reply to a request for one of its pages; None for all others: they go upstream."""
        bare, _, query = path.partition("?")
        if request.method != "GET":
            return None
        if bare == "/" and "text/html" in request.headers.get("Accept", ""):
            text = resources.files("packlight").joinpath(_PAGE).read_bytes()
            return web.Response(body=text, content_type="text/html", charset="utf-8", headers=_HEADERS)
        show = self._pages.get(bare)
        if show is None:
            return None
        answer: web.Response = await show({name: values[-1] for name, values in parse_qs(query).items()})
        answer.headers.update(_HEADERS)
        return answer

    async def _metrics(self, query: Query) -> web.Response:
        text = prometheus(merged([figures(self._watch), *await self._others("figures.json", {})]))
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    async def _figures(self, query: Query) -> web.Response:
        own = figures(self._watch)
        if query.get("own"):
            return web.json_response(own)
        whole = merged([own, *await self._others("figures.json", {})])
        settings = self._settings
        about = {name: getattr(settings, name) for name in ("mode", "policy", "workers", "recall_tool")}
        shown, count = whole["threads"][:MAX_THREADS_SHOWN], len(whole["threads"])
        return web.json_response({**about, **whole, "threads": shown, "conversations": count})

    async def _turns(self, query: Query) -> web.Response:
        own = turns(self._watch, query.get("thread", ""))
        if query.get("own"):
            return web.json_response(own)
        others = await self._others("turns.json", {"thread": query.get("thread", "")})
        return web.json_response(merged_turns([own, *others]))

    async def _batch(self, query: Query) -> web.Response:
        if not hmac.compare_digest(query.get("key", "").encode(), self._access.key.encode()):
            return _error(403, "text needs the key: open the page by the URL that was printed at the start")
        id = query.get("id", "")
        found = batch_of(self._watch, id)
        if found is None and not query.get("own"):
            answers = await self._others("batch.json", {"id": id, "key": self._access.key})
            found = next(iter(answers), None)
        if found is None:
            return _error(404, "the text of this batch is no longer held: only that of the newest is")
        return web.json_response(found)

    async def _others(self, name: str, query: Query) -> list[Any]:
        """What the other worker processes answer; those that do not are left out."""
        if self._access.folder is None:
            return []
        sockets = [s for s in sorted(self._access.folder.glob("*.sock")) if s != self._access.socket]
        answers = await asyncio.gather(*(self._ask(s, name, query) for s in sockets))
        return [answer for answer in answers if answer is not None]

    async def _ask(self, socket: Path, name: str, query: Query) -> Any:
        headers = {TOKEN_HEADER: self._settings.token} if self._settings.token else {}
        url = f"http://localhost/packlight/{name}?{urlencode({**query, 'own': '1'})}"
        timeout = aiohttp.ClientTimeout(total=PEER_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket)), timeout=timeout) as session,
                session.get(url, headers=headers) as reply,
            ):
                return await reply.json() if reply.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError):  # it has ended, or is busy
            return None


def _error(status: int, why: str) -> web.Response:
    return web.json_response({"error": why}, status=status)
