"""Controls, and the published rules of other agents, each in a few lines: `bench.compaction.policies:CodexRule`.

Every size is in the provider's tokens, system and tools included, as the original rule has it. A rule that was
published for a window of 200,000 tokens is scaled with the window. Sources: the systems' code and manuals, 2026-10.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from packlight import jsonio
from packlight.formats import format_named
from packlight.replay.weights import counting
from packlight.types import Format, Part

from .scripted import summary

Messages = list[dict[str, Any]]

UNSEEN_HEAD_TOKENS = 20_000
_OUTPUT_TOKENS = 20_000
_CLEARED = "[Old tool result content cleared]"
_NAME = re.compile(r"[\w./-]*[/_.][\w./-]*\w|\b[a-z]+[A-Z]\w+|\b[A-Z][a-z]+[A-Z]\w+|\b[0-9a-f]{7,40}\b|\b\d{3,}\b")


class Policy:
    """Knows the sizes, results and turns of a history that grows; a subclass says what is sent."""

    side_input_tokens = 0.0
    """What a summariser was sent, by a model call beside the agent's."""
    side_output_tokens = 0.0

    def __init__(
        self,
        model: str | None = None,
        window_tokens: int | None = None,
        count: Callable[[Any], float] | None = None,
        head_tokens: float = UNSEEN_HEAD_TOKENS,
    ) -> None:
        self.window_tokens = window_tokens or 200_000
        self.budget_tokens = self.window_tokens - min(_OUTPUT_TOKENS, self.window_tokens // 4)
        self.head_tokens = head_tokens
        self.fmt: Format
        self._count = count or counting(model)
        self._known: dict[int, tuple[Any, float]] = {}

    def __call__(self, messages: Messages, *, format: str) -> Messages:
        self.fmt = format_named(format)
        self._known = {id(m): known for m in messages if (known := self._known.get(id(m))) and known[0] is m}
        return self.sent(messages)

    def sent(self, messages: Messages) -> Messages:
        raise NotImplementedError

    def tokens(self, messages: Iterable[Any]) -> float:
        return sum(map(self._one, messages))

    def request_tokens(self, messages: Iterable[Any]) -> float:
        return self.head_tokens + self.tokens(messages)

    def _one(self, message: Any) -> float:
        known = self._known.get(id(message))
        if known is None or known[0] is not message:
            known = self._known[id(message)] = message, self._count(message)
        return known[1]

    def turns(self, messages: Sequence[Any]) -> list[int]:
        """Where a response of the model begins: the places where the messages may be cut."""
        roles = [self.fmt.role(m) for m in messages]
        return [i for i, role in enumerate(roles) if role == "assistant" and (i == 0 or roles[i - 1] != "assistant")]

    def typed(self, messages: Sequence[Any]) -> Messages:
        """What the user wrote, or a client wrote for them; not the results that stand in the same message."""
        return [self._without_results(m) for m in messages if self.fmt.role(m) == "user"]

    def _without_results(self, message: dict[str, Any]) -> dict[str, Any]:
        places = {part.block for _, part in self.results([message])}
        blocks = self.fmt.blocks(message) or ()
        return (
            self.fmt.with_blocks(message, [b for i, b in enumerate(blocks) if i not in places]) if places else message
        )

    def results(self, messages: Sequence[Any]) -> list[tuple[int, Part]]:
        return [
            (i, part)
            for i, m in enumerate(messages)
            if self.fmt.role(m) != "assistant"
            for part in self.fmt.parts(m)
            if part.kind == "result" and not part.server
        ]

    def cleared(self, messages: Sequence[Any], results: Iterable[tuple[int, Part]], text: str = _CLEARED) -> Messages:
        """The messages with the content of these results replaced."""
        changed = list(messages)
        for i, part in results:
            new = self.fmt.replace_result(changed[i], part, text)
            if new is not None and part.block >= 0:
                blocks = list(self.fmt.blocks(changed[i]) or ())
                changed[i] = self.fmt.with_blocks(changed[i], [*blocks[: part.block], new, *blocks[part.block + 1 :]])
            elif new is not None:
                changed[i] = new
        return changed


# Controls: what the measures say of policies that nobody should use.


class Identity(Policy):
    """Sends what it was given."""

    def sent(self, messages: Messages) -> Messages:
        return messages


class Empty(Policy):
    """Only what the user typed last and the last turn."""

    def sent(self, messages: Messages) -> Messages:
        last = max(self.turns(messages), default=0)
        return [*self.typed(messages[:last])[-1:], *messages[last:]]


class ClearEveryTurn(Policy):
    """All results but the last three cleared, before each call anew: no regard for the cache."""

    keep = 3

    def sent(self, messages: Messages) -> Messages:
        return self.cleared(messages, self.results(messages)[: -self.keep])


class Folding(Policy):
    """Replaces the beginning of the history once it is over a trigger, and then lets it grow again."""

    trigger_ratio = 1.0
    """Of the budget, which is the window without room for the answer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stands: Messages = []
        """For the first `_folded` messages."""
        self._folded = 0

    @property
    def trigger_tokens(self) -> float:
        return self.trigger_ratio * self.budget_tokens

    def sent(self, messages: Messages) -> Messages:
        if len(messages) < self._folded:  # another window
            self._stands, self._folded = [], 0
        view = [*self._stands, *messages[self._folded :]]
        if self.request_tokens(view) > self.trigger_tokens:
            stands, cut = self.fold(view)
            stood = len(self._stands)
            if cut > stood:
                self._stands, self._folded = stands, self._folded + cut - stood
                view = [*stands, *view[cut:]]
        return view

    def fold(self, view: Messages) -> tuple[Messages, int]:
        """What stands for the first so many messages of what is sent now."""
        raise NotImplementedError

    def cut_keeping(self, view: Messages, tokens: float) -> int:
        """The first turn from which on no more than so many tokens follow; the last one if it must be."""
        turns, behind = self.turns(view), 0.0
        sizes = [self._one(m) for m in view]
        cut = len(view)
        for start in reversed(turns):
            behind += sum(sizes[start:cut])
            if behind > tokens and cut < len(view):
                break
            cut = start
        return cut

    def text(self, text: str) -> dict[str, Any]:
        return self.fmt.reference(text)


class Tail(Folding):
    """The first message and the newest turns, in four tenths of the budget."""

    share = 1.0

    def fold(self, view: Messages) -> tuple[Messages, int]:
        room = max(2_000.0, 0.4 * self.budget_tokens - self.head_tokens)
        cut = self.cut_keeping(view, self.share * room)
        return [*view[:1], *self.extra(view[1:cut], (1 - self.share) * room)], cut

    def extra(self, lost: Messages, tokens: float) -> Messages:
        return []


class Bag(Tail):
    """The tail, and three tenths of its room for names that were seen, in no order that means anything."""

    share = 0.7

    def extra(self, lost: Messages, tokens: float) -> Messages:
        names = dict.fromkeys(_NAME.findall("\n".join(jsonio.dump(m).decode() for m in reversed(lost))))
        text, room = "Names seen before:", tokens * 2.5  # characters a token, of names
        for name in names:
            if len(text) + len(name) >= room:
                break
            text += " " + name
        return [self.text(text)]


class IndexOnly(Bag):
    """Only names, and the last turn."""

    share = 0.0


# What providers and agents publish.


class ClearToolUses(Folding):
    """Anthropic's clear_tool_uses (platform.claude.com, context editing): over the trigger all results but the last
    `keep` are cleared, if that frees at least so much; what was cleared stays cleared."""

    trigger_tokens = 100_000.0
    keep = 3
    at_least_tokens = 0.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._gone = 0
        """So many results from the front are cleared."""

    def sent(self, messages: Messages) -> Messages:
        scale = self.window_tokens / 200_000
        results = self.results(messages)
        if len(results) < self._gone:
            self._gone = 0
        view = self.cleared(messages, results[: self._gone])
        could = self.cleared(messages, results[: max(self._gone, len(results) - self.keep)])
        size = self.request_tokens(view)
        freed = size - self.request_tokens(could)
        if size > self.trigger_tokens * scale and freed > 0 and freed >= self.at_least_tokens * scale:
            self._gone = max(self._gone, len(results) - self.keep)
            view = could
        return view


class ClearToolUsesAtLeast(ClearToolUses):
    at_least_tokens = 25_000.0


class ClearToolUsesEarly(ClearToolUses):
    trigger_tokens = 50_000.0
    keep = 10


class ClearToolUsesEarlyAtLeast(ClearToolUsesEarly):
    at_least_tokens = 12_000.0


class ClearToolUsesAnew(ClearToolUsesAtLeast):
    """The same as if the provider remembered nothing: decided anew for each request."""

    def sent(self, messages: Messages) -> Messages:
        self._gone = 0
        return super().sent(messages)


class MaskLastTen(ClearEveryTurn):
    """Observation masking with a rolling window of ten results (JetBrains' Complexity Trap, arXiv 2508.21433)."""

    keep = 10


class Summarising(Folding):
    """A model call writes what stands for the old turns; it is billed, and answered by a script."""

    shown_result_chars = 2_000
    prompt_tokens = 500

    def summary(self, lost: Messages) -> dict[str, Any]:
        shown = "\n\n".join(filter(None, map(self._shown, lost)))
        text = summary(shown)
        self.side_input_tokens += self.prompt_tokens + self._count(self.text(shown))
        self.side_output_tokens += self._count(self.text(text))
        return self.text(text)

    def _shown(self, message: dict[str, Any]) -> str:
        parts = []
        for part in self.fmt.parts(message):
            said = part.text[: self.shown_result_chars] if part.kind == "result" else part.text
            called = jsonio.dump(dict(part.arguments or {})).decode() if part.kind == "call" else ""
            parts.append(f"[{self.fmt.role(message)} {part.kind} {part.tool}] {said}{called}")
        return "\n".join(parts)


class PiRule(Summarising):
    """pi 1.6, compaction.ts: over the window less 16,384 tokens; about 20,000 recent ones stay; the summary carries
    the files read and changed on."""

    @property
    def trigger_tokens(self) -> float:
        return self.window_tokens - 16_384

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read: dict[str, None] = {}
        self._changed: dict[str, None] = {}

    def fold(self, view: Messages) -> tuple[Messages, int]:
        cut = self.cut_keeping(view, 20_000)
        self._note_files(view[:cut])
        written = self.summary(view[:cut])
        read = "\n".join(p for p in self._read if p not in self._changed)
        files = f"<read-files>\n{read}\n</read-files>\n<modified-files>\n" + "\n".join(self._changed)
        return [written, self.text(files + "\n</modified-files>")], cut

    def _note_files(self, lost: Messages) -> None:
        for part in (p for m in lost for p in self.fmt.parts(m) if p.kind == "call" and p.arguments):
            path = next((part.arguments[k] for k in ("path", "file_path") if part.arguments.get(k)), None)
            if isinstance(path, str):
                (self._read if part.tool.lower() == "read" else self._changed)[path] = None


class OpenCodeRule(Summarising):
    """opencode 1.18, session/compaction: over the window less the output's room; a quarter of that, between 2,000 and
    15,000 tokens, stays; the summary before is part of what is summarised. Pruning is off there by default."""

    def fold(self, view: Messages) -> tuple[Messages, int]:
        cut = self.cut_keeping(view, min(15_000.0, max(2_000.0, 0.25 * self.budget_tokens)))
        return [self.summary(view[:cut])], cut


class CodexRule(Summarising):
    """Codex CLI, core/src/compact.rs: over nine tenths of the window; the user's messages stay, the newest first, up to
    20,000 tokens, and a summary behind them; all else goes."""

    @property
    def trigger_tokens(self) -> float:
        return 0.9 * self.window_tokens

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._written: list[dict[str, Any]] = []

    def fold(self, view: Messages) -> tuple[Messages, int]:
        kept: Messages = []
        room = 20_000.0
        typed = [m for m in self.typed(view) if m not in self._written]
        for message in reversed(typed):
            room -= self._one(message)
            if room < 0:
                break
            kept.insert(0, message)
        written = self.summary(view)
        self._written.append(written)
        return [*kept, written], len(view)
