"""What fills the window: the request that would go out now, by what it holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..formats import format_named, plain, read_message
from ..summary.frame import BEGIN
from ..tokens import count_value, counter_for
from ..types import Json, Part
from ..view import View
from .loop import Agent
from .screen import bar

_CELLS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Tokens by kind: estimates, scaled to what the provider counted where that is known."""

    tokens: Counter[str]
    window_tokens: int | None

    def table(self, *, is_rich: bool) -> str:
        most = max(self.tokens.values(), default=1)
        rows = [
            f"  {kind:<24.24} {n:>9,}  {bar(n, most, _CELLS) if is_rich else ''}".rstrip()
            for kind, n in self.tokens.most_common()
            if n
        ]
        of = f" of {self.window_tokens:,}" if self.window_tokens else ""
        return "\n".join([f"{self.tokens.total():,}{of} tokens", *rows])


def context_of(agent: Agent) -> Context:
    """Of the next request: what is due is compacted for it."""
    c = agent.compactor.fit(agent.request(), conversation=agent.session.id, format=agent.api.name)
    counter = counter_for(str(agent.session.about["model"]))

    def count(value: Json) -> int:
        return count_value(value, counter)

    fmt = format_named(agent.api.name)
    view = View(format=fmt, messages=[read_message(fmt, plain(m), count) for m in c.messages], count=count)
    found: Counter[str] = Counter()
    found["system"] = sum(count(c.request[key]) for key in ("system", "instructions") if key in c.request)
    found["tool definitions"] = count(c.request["tools"])
    for i, message in enumerate(view.messages):
        texts = [count(part.text or part.arguments_text or dict(part.arguments or {})) for part in message.parts]
        for k, part in enumerate(message.parts):
            found[_kind(view, i, k, part)] += texts[k] + (message.tokens - sum(texts)) // len(message.parts)
    scale = c.report.tokens_after / max(1, found.total())
    return Context(
        tokens=Counter({kind: round(n * scale) for kind, n in found.items()}), window_tokens=c.report.window_tokens
    )


def _kind(view: View, i: int, k: int, part: Part) -> str:
    role = view.messages[i].role
    if part.kind == "result":
        call = view.call_of(i, k)
        return f"results of {call.tool}" if call else "results"
    if part.kind == "text" and BEGIN in part.text:
        return "digest of old turns"
    if role == "assistant":
        return {"call": "calls", "thinking": "thinking"}.get(part.kind, "assistant")
    return "system" if role == "system" else "user"
