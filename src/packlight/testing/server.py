"""A model server on 127.0.0.1 for the real SDKs: three APIs, streamed or not, a context window, a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Self

from .binding import signature, unbound, unmarked
from .compaction import COMPACT_PATH, anthropic_answer, openai_answer, retold, wrong
from .handler import Server, handler
from .replies import PATHS, Counted, Json, Refusal, Reply, Wire, body_of, compaction_item, is_compaction, refusal_body
from .streams import sse

Script = Callable[[int, Json], "Reply | Refusal"]
"""What the model says: its number (from 1) and the request that was taken."""
Judge = Callable[[Wire, Json], list[str]]
"""What a provider would find wrong with a request; the first is the refusal's text."""
_HEAD_KEYS = ("system", "instructions", "tools")
_ROOM_KEYS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class ModelServer:
    """Use as a context manager; `url` is what Anthropic's SDK takes as its base, `openai_url` OpenAI's.

    `script` is a function, or a list of replies (what comes after its end is a plain "Done."). A request that with
    the room for its answer is above `window_tokens` is refused in the provider's own words; None is no limit.
    `judge` says what else is refused. Tokens are characters of the request's JSON divided by `chars_per_token`; an
    equal beginning of the request before counts as cached.

    The window and the script may be changed while it runs. `requests` holds every body, `tokens` what those that
    were answered counted, `refusals` the texts of the others. `paths` and `headers` are of every POST.

    A Responses request that ends with a `compaction_trigger` is answered with one `compaction` item, without the
    script; a request for a compaction (Anthropic's `compaction`, `/responses/compact`) with what `summarise` says, its
    body in `compactions`. Preflights, chunked, gzip and deflate bodies are taken; a WebSocket is refused with 426.
    """

    def __init__(
        self,
        script: Script | Sequence[Reply | Refusal],
        *,
        window_tokens: int | None = None,
        chars_per_token: float = 3.3,
        judge: Judge | None = None,
        refuse_in_stream: bool = False,
        splits_room: bool = False,
        binds_thinking: bool = False,
        counts_room: bool = True,
        summarise: Script = retold,
    ) -> None:
        self.script: Script = script if callable(script) else _listed(script)
        self.window_tokens, self.chars_per_token, self.judge = window_tokens, chars_per_token, judge
        self.refuse_in_stream = refuse_in_stream
        """Refusals of streamed requests come as events of a stream that begins with status 200."""
        self.splits_room = splits_room
        """Tells an input that fits from a `max_tokens` that does not."""
        self.binds_thinking = binds_thinking
        """Anthropic's later models: thinking is signed for what it was made behind, and refused elsewhere."""
        self.counts_room = counts_room
        """`max_tokens` must fit beside the input; with Anthropic's later models it need not."""
        self.summarise = summarise
        self.requests: list[Json] = []
        self.compactions: list[Json] = []
        self.tokens: list[int] = []
        self.cached_tokens: list[int] = []
        self.refusals: list[str] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._answered = 0
        self._before: list[str] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._server = Server(("127.0.0.1", 0), handler(self.respond))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.openai_url = f"{self.url}/v1"
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def respond(self, path: str, headers: dict[str, str], body: Json) -> tuple[int, str, str]:
        """Status, content type and text of the answer."""
        self.paths.append(path)
        self.headers.append(headers)
        if path.endswith(COMPACT_PATH) or (isinstance(body, dict) and body.get("compaction") is not None):
            with self._lock:
                status, answer = self.compacted(body, headers)
            return status, "application/json", json.dumps(answer)
        wire = next((wire for end, wire in PATHS.items() if path.endswith(end)), None)
        if wire is None:
            return 200, "application/json", json.dumps({"input_tokens": self.count(body)})
        with self._lock:
            status, answer = self._refused(wire, body, headers) or self.answer(wire, body)
        if not body.get("stream") or (status != 200 and not self.refuse_in_stream):
            return status, "application/json", json.dumps(answer)
        return 200, "text/event-stream", sse(wire, status, answer, body)

    def count(self, body: Json) -> int:
        """Tokens of a request: what a model reads of it."""
        text = {key: body.get(key) for key in (*_HEAD_KEYS, "messages", "input")}
        return int(len(json.dumps(text, ensure_ascii=False)) / self.chars_per_token)

    def compacted(self, body: Json, headers: dict[str, str]) -> tuple[int, Json]:
        """Status and body of the answer to a request for a compaction."""
        self.compactions.append(body)
        wire: Wire = "anthropic" if "messages" in body else "responses"
        if refused := self._refused(wire, body, headers):
            return refused
        if found := self._wrong(wire, body):
            return self.refuse(wire, Refusal(message=found[0], code="invalid_request"))
        used = self.count(body)
        if (refusal := self._overflow(wire, body, used)) is not None:
            return self.refuse(wire, refusal)
        said = self.summarise(len(self.compactions), body)
        if isinstance(said, Refusal):
            return self.refuse(wire, said)
        counted = Counted(input_tokens=used, cached_tokens=0, output_tokens=said.output_tokens)
        answer = anthropic_answer if wire == "anthropic" else openai_answer
        return 200, answer(said, len(self.compactions), counted, body)

    def _refused(self, wire: Wire, body: Json, headers: dict[str, str]) -> tuple[int, Json] | None:
        """The refusal of what does not go with a compaction of its own."""
        why = wrong(body, headers) if wire == "anthropic" else ""
        return self.refuse(wire, Refusal(message=why, code="invalid_request")) if why else None

    def answer(self, wire: Wire, body: Json) -> tuple[int, Json]:
        """Status and body of the answer to one request."""
        self.requests.append(body)
        if found := self._wrong(wire, body):
            return self.refuse(wire, Refusal(message=found[0], code="invalid_request"))
        used = self.count(body)
        if (refusal := self._overflow(wire, body, used)) is not None:
            return self.refuse(wire, refusal)
        said = Reply() if is_compaction(wire, body) else self.script(self._answered + 1, body)
        if isinstance(said, Refusal):
            return self.refuse(wire, said)
        self._answered += 1
        self.tokens.append(used)
        self.cached_tokens.append(min(used, self._cached(body)))
        counted = Counted(input_tokens=used, cached_tokens=self.cached_tokens[-1], output_tokens=said.output_tokens)
        answer = body_of(wire, said, self._answered, counted, str(body.get("model")))
        if is_compaction(wire, body):
            answer["output"] = [compaction_item(self._answered)]
        for block in answer["content"] if self.binds_thinking and wire == "anthropic" else ():
            if block["type"] == "thinking":
                block["signature"] = signature(body)
        return 200, answer

    def _wrong(self, wire: Wire, body: Json) -> list[str]:
        found = self.judge(wire, body) if self.judge is not None else []
        return found + (unbound(body) if self.binds_thinking and wire == "anthropic" else [])

    def refuse(self, wire: Wire, refusal: Refusal) -> tuple[int, Json]:
        self.refusals.append(refusal.message)
        return refusal.status, refusal_body(wire, refusal)

    def _overflow(self, wire: Wire, body: Json, used: int) -> Refusal | None:
        """In the providers' own words."""
        asked = next((body[k] for k in _ROOM_KEYS if body.get(k)), 0)
        window, room = self.window_tokens, asked if self.counts_room else 0
        if window is None or used + room <= window:
            return None
        if self.splits_room and used <= window:
            anthropic = (
                f"input length and `max_tokens` exceed context limit: {used} + {room} > {window}, "
                "decrease input length or `max_tokens` and try again"
            )
            openai = (
                f"This model's maximum context length is {window} tokens. However, you requested {used + room} tokens "
                f"({used} in the messages, {room} in the completion). Please reduce the length of the messages or "
                "completion."
            )
        else:
            anthropic = f"prompt is too long: {used} tokens > {window} maximum"
            openai = (
                f"This model's maximum context length is {window} tokens. However, your messages resulted in {used} "
                "tokens. Please reduce the length of the messages."
            )
        code = "" if wire == "anthropic" else "context_length_exceeded"
        return Refusal(message=anthropic if wire == "anthropic" else openai, code=code)

    def _cached(self, body: Json) -> int:
        """Tokens of the beginning that this request shares with the one before, cache marks aside."""
        items = body.get("messages") or body.get("input") or []
        items = items if isinstance(items, list) else [items]
        texts = [json.dumps(unmarked(value)) for value in ({k: body.get(k) for k in _HEAD_KEYS}, *items)]
        before, self._before = self._before, texts
        shared = next(
            (n for n, (a, b) in enumerate(zip(texts, before, strict=False)) if a != b), min(len(texts), len(before))
        )
        return int(sum(map(len, texts[:shared])) / self.chars_per_token)


def _listed(replies: Sequence[Reply | Refusal]) -> Script:
    """A list played once, each entry for one request; a refusal counts as one."""
    left = list(replies)
    return lambda number, body: left.pop(0) if left else Reply("Done.")
