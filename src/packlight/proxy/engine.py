"""What the proxy does to requests, without a network: what to send, what to send next when that is refused.

One engine serves all connections of a process. Its work runs in threads, beside the event loop.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..compaction import Compaction
from ..compactor import Compactor
from ..errors import ContextWindowExceeded, InvalidRequest, StoreError
from ..integrations.cures import Cures
from ..integrations.events import usage_in
from ..integrations.recall_tool import NAME
from ..laws import is_held_by_provider
from ..layers import ReadAgain
from ..models import lookup
from ..overflow import classify
from ..policy import Policy, preset
from ..store import JournalOnly, MemoryStore, Store, open_store
from .encodings import decompressed
from .identity import load_key, owner_of, session_of
from .recall import Recalls, Turn
from .refetch import Refetches
from .routes import Endpoint, side_request
from .settings import Settings
from .wire import Body, Memo

__all__ = ["Engine", "Exchange"]

MAX_COMPACTORS = 256
SHADOW_BYTES = 64 << 20
_MILLION_BETA = "context-1m"
"""In `anthropic-beta`: a window of a million tokens (Anthropic, since 2025-08)."""


class Engine:
    """Everything that the connections share. Safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.memo = Memo()
        self.refetches = Refetches()
        self.store = _store(settings)
        self.trouble: StoreError | None = None
        """Why nothing can be written; then all is kept in memory as far as it must be."""
        try:
            self._key = load_key(settings.folder)
        except StoreError as error:
            self.trouble, self._key = error, load_key(None)
        self._policy = _policy(settings)
        self.recalls = Recalls(self.store) if settings.recall_tool and settings.mode != "shadow" else None
        self._compactors: OrderedDict[tuple[str, int | None, bool], Compactor] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, endpoint: Endpoint, headers: Mapping[str, str], data: bytes) -> Exchange:
        """A request as it came (header names in lower case). Never raises: what can't be handled goes on as it is."""
        exchange = Exchange(self, endpoint, headers, data)
        with exchange.timed():
            try:
                exchange.fit()
            except InvalidRequest as error:
                exchange.left = str(error)
            except Exception as error:  # whatever it is, the client's request is worth more than our part in it
                exchange.failed(error)
        return exchange

    def compactor(self, owner: str, window_tokens: int | None, *, has_recall: bool) -> Compactor:
        key = (owner, window_tokens, has_recall)
        with self._lock:
            known = self._compactors.get(key)
            if known is None:
                known = self._compactors[key] = Compactor(
                    policy=self._policy,
                    store=self.store,
                    owner=owner,
                    window_tokens=window_tokens,
                    keep_tools=self.settings.keep_tools,
                    recall="files" if self.settings.store else "ref" if has_recall else "none",
                )
            self._compactors.move_to_end(key)
            while len(self._compactors) > MAX_COMPACTORS:
                self._compactors.popitem(last=False)
            return known

    def owner(self, headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
        return owner_of(headers, request, self._key)

    def close(self) -> None:
        self.store.close()


def _store(settings: Settings) -> Store:
    if settings.mode == "shadow" or settings.folder is None:
        return JournalOnly(MemoryStore(max_bytes=SHADOW_BYTES))
    store = open_store(settings.folder)
    return store if settings.store else JournalOnly(store)


def _policy(settings: Settings) -> Policy:
    """`default` does nothing ahead of need here: not even a large result is shortened while all fits."""
    policy = preset(settings.policy)
    return replace(policy, on_arrival=(ReadAgain(),)) if settings.policy == "default" else policy


class Refused(Exception):
    """What the provider answered instead of a reply, as an exception that `overflow.classify` reads."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"the provider answered {status}")
        self.status_code = status
        self.body = body


class Exchange:
    """One request on its way, and what became of it."""

    def __init__(self, engine: Engine, endpoint: Endpoint, headers: Mapping[str, str], data: bytes) -> None:
        self.engine = engine
        self.endpoint = endpoint
        self.headers = headers
        self.given = data
        self.data = data
        """What to send now."""
        self.c: Compaction | None = None
        self.body: Body | None = None
        self.owner = ""
        self.session = ""
        self.began_seconds = time.time()
        self.side = ""
        """Why it is no turn of an agent's conversation."""
        self.calls = (0, 0)
        """Of the agent's tools, in the model's newest answer; and how many fetch again what was taken out."""
        self.left = ""
        """Why nothing new was planned; empty where it was looked at in full."""
        self.error: Exception | None = None
        """What of ours failed."""
        self.attempts = 0
        """How often it was sent again."""
        self.seconds = 0.0
        """What we took before it was sent."""
        self.usages: list[dict[str, Any]] = []
        """What the provider counted, reply by reply: there are several where calls of recall were answered."""
        self.turn: Turn | None = None
        """Where the model has the recall tool: what becomes of its calls."""
        self._compactor: Compactor | None = None
        self._cures: Cures | None = None

    @contextmanager
    def timed(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started

    # --- before it is sent --------------------------------------------------------------------------------------------

    def fit(self) -> None:
        """Raises InvalidRequest for what is no request of this endpoint."""
        text = decompressed(self.given, self.headers.get("content-encoding", ""))
        self.body = Body(text, self.endpoint.list_key, self.engine.memo)
        request: Mapping[str, Any] = self.body.request
        self.owner = self.engine.owner(self.headers, request)
        self.session = session_of(self.headers, request)
        has_recall = False
        if (recalls := self.engine.recalls) is not None:
            answers = self.endpoint.does == "answer"
            opened = recalls.opened(self.endpoint.format, self.owner, request, answers=answers)
            request, has_recall, self.turn = opened.request, opened.has_tool, opened.turn
        self._compactor = self.engine.compactor(self.owner, self._window_tokens(request), has_recall=has_recall)
        self._plan(self._compactor, request)
        self._count(without=NAME if has_recall else "")

    def _plan(self, compactor: Compactor, request: Mapping[str, Any]) -> None:
        mode = self.engine.settings.mode
        self._cures = Cures(compactor)
        self.side = side_request(self.endpoint, request) or ""
        self.left = self.side or ("only rescued" if mode == "rescue" else "")
        self._take(compactor.fit(request, format=self.endpoint.format, recorded_only=bool(self.left)))

    def _count(self, *, without: str) -> None:
        """What the agent called; a tool that it does not have is left out."""
        if self.side or self.c is None or self.c.state is None:
            return
        report, view = self.c.report, self.c.state.view
        edits = report.edits if self.engine.settings.mode != "shadow" else ()
        new = bool(report.new_edits)
        self.calls = self.engine.refetches.count(self.thread, view, edits, is_new=new, without=without)

    def go_on(self) -> None:
        """The model's calls of the recall tool were answered: `data` is the next request. Never raises."""
        assert self.turn is not None and self.body is not None and self._compactor is not None
        with self.timed():
            try:
                self._plan(self._compactor, self.turn.request)
            except Exception as error:
                self.failed(error)
                self.c, self.data = None, self.body.encoded(self.turn.request)

    def _window_tokens(self, request: Mapping[str, Any]) -> int | None:
        asked = self.engine.settings.window_tokens
        if asked is None and _MILLION_BETA in self.headers.get("anthropic-beta", ""):
            known = lookup(str(request.get("model")))
            if known is not None and (known.context_window_tokens or 0) < 1_000_000:
                return 1_000_000
        return asked

    def _take(self, c: Compaction) -> None:
        self.c = c
        self.error = c.report.error or self.error
        assert self.body is not None
        if self.engine.settings.mode != "shadow":
            self.data = self.body.encoded(c.request) if c.request is not self.body.request else self.given

    @property
    def is_changed(self) -> bool:
        """What is sent is not what was given."""
        return self.data is not self.given

    @property
    def asks_stream(self) -> bool:
        return self.body is None or bool(self.body.request.get("stream"))

    @property
    def may_be_refused(self) -> bool:
        """It is worth to hold back a stream's announcement until its answer begins: it may be refused for its length,
        or for our new edits."""
        if self.c is None or not self._can_recover:
            return False
        window, tokens = self.c.report.window_tokens, self.c.report.tokens_after
        return bool(self.c.report.new_edits) or tokens > (window / 2 if window else 4_000)

    # --- when it is refused -------------------------------------------------------------------------------------------

    @property
    def _can_recover(self) -> bool:
        return self.endpoint.does != "count" and self.engine.settings.mode != "shadow"

    def refused(self, status: int, body: Any) -> bool:
        """Whether to send it again: then `data` is new. `body` is the refusal's text, JSON or event. Never raises."""
        if self._cures is None or not self._can_recover:
            return False
        with self.timed():
            try:
                c = self._cures.next(self.c, Refused(status, body))
                if c is not None:
                    self._take(c)
                    self.attempts += 1
                return c is not None
            except (ContextWindowExceeded, Refused):
                return False  # nothing can be done about it, and the provider's own refusal says it better
            except Exception as error:
                self.failed(error)
                return False

    def is_too_long(self, status: int, body: Any) -> bool:
        """Whether an error, or an event of a stream, is a refusal for length."""
        return classify(Refused(status, body)) is not None

    def replied(self, status: int, body: Any) -> bool:
        """A whole reply: whether to send the request again, else what it counted is noted. Never raises."""
        if status >= 400 or (self.may_be_refused and classify(status=status, body=body) is not None):
            return self.refused(status, body)
        self.answered(usage_in(body))
        return False

    # --- when it was answered -----------------------------------------------------------------------------------------

    def answered(self, usage: Mapping[str, Any], *, is_taken: bool = True) -> None:
        """What the provider counted for what was sent, and whether it answered it. Never raises."""
        if usage:
            self.usages.append(dict(usage))
        if self.c is None or self._compactor is None or self._cures is None:
            return
        try:
            if is_taken and (undone := self._cures.taken()) is not None:
                self.c = undone
                self.error = self.c.report.error or self.error
            if usage and self._is_counted(self.c):
                self._compactor.record_usage(self.c, dict(usage))
        except Exception as error:
            self.failed(error)

    def _is_counted(self, c: Compaction) -> bool:
        """Whether what the provider counted is what is known here, and not what it adds, or what only would be sent."""
        is_sent = self.engine.settings.mode != "shadow" or not c.changed
        return is_sent and not is_held_by_provider(c.given)

    @property
    def thread(self) -> str:
        """The conversation, for figures: by the client's own name for it, else by how it began."""
        if self.session or self.c is None or self.c.state is None:
            return f"{self.owner[:8]}/{self.session or 'other'}"
        seen = self.c.state.seen
        first = next((i for i, m in enumerate(seen.messages) if m.role == "user"), 0)
        return f"{self.owner[:8]}/{seen.chain[min(first + 1, len(seen))].hex()[:12]}"

    def failed(self, error: Exception) -> None:
        """Something of ours went wrong: the request goes on as it was given, or as far as it had come."""
        self.error = error
        if self.c is None:
            self.data = self.given
        self.left = self.left or f"{type(error).__name__}: {error}"

    # --- what to say of it --------------------------------------------------------------------------------------------

    @property
    def receipt(self) -> str:
        """One line for a header of the reply; empty when nothing was done and nothing went wrong."""
        if self.error is not None and (self.c is None or not self.is_changed):
            return _header(f"unchanged; error={type(self.error).__name__}: {self.error}")
        if self.c is None:
            return _header(f"unchanged; {self.left}")
        if not self.is_changed:
            return ""
        report = self.c.report
        parts = [
            report.outcome,
            f"tokens={report.tokens_before}->{report.tokens_after}",
            f"edits={len(report.edits)}",
            f"new={len(report.new_edits)}",
            *([f"rescued={self.attempts}"] if self.attempts else []),
            *([f"error={type(self.error).__name__}"] if self.error else []),
        ]
        return _header("; ".join(parts))


def _header(text: str) -> str:
    """Safe in a header: one line of ASCII."""
    return " ".join(text.encode("ascii", "replace").decode().split())[:500]
