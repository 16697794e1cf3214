"""Whether what a model wrote may stand for the history. Each fault is said in words that the model can act upon.

What must survive does not depend on it: the digest beside it holds the user's words, files, plan and open errors. So
this judges the prose alone: that it is a summary, whole, of the right size, and nobody else's orders.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

from ..types import SummaryReply
from .prompts import FORM, SYSTEM, Topic
from .record import Record
from .rules import rule

CUT_SHORT = frozenset({"max_tokens", "length", "max_output_tokens", "incomplete", "model_context_window_exceeded"})
"""How providers say that an answer was cut short."""
_TOOL_STOPS = frozenset({"tool_use", "tool_calls", "function_call"})
_REFUSALS = frozenset({"refusal", "content_filter", "safety"})
_TOOL_TEXT = rule(
    r"<\|?(?:tool_call|function_calls?|tool_use|invoke|antml:invoke|tool_code|python_tag)\b|\[TOOL_CALLS\]"
    r"|\A\s*(?:```\w{0,10}\s)?\s*\{\s*\"(?:name|tool|function|action)\"\s*:"
)
_REFUSING = rule(
    r"\A\W{0,4}(?:(?:I'?m|I am|We are|We're) (?:very |so )?sorry|Sorry|As an AI|Unfortunately, I"
    r"|抱歉|对不起|我无法|申し訳|I (?:can(?:no|')t|can not|am unable|am not able|won't|must decline))",
    re.IGNORECASE,
)
_HEADING = rule(
    r"^[ \t]{0,3}(?:#{1,6}|[-*•]|\d{1,2}[.)])?[ \t]*(?:\*\*)?([^\n*:#]{3,80}?)[ \t]*(?:\*\*)?:?(?:\*\*)?[ \t]*$",
    re.MULTILINE,
)
"""A line that may be a heading, however it is dressed up."""

MIN_CHARS = 40
_SHINGLE_WORDS = 12
_ECHO_RATIO = 0.6
"""So much of an answer may not stand word for word in the record, in runs of twelve words."""
_MAX_COMPRESSION = 12
"""Prose deflates to a third or a quarter of its size; a sentence said over and over, to a twentieth."""
_FOREIGN_WORDS = 6


def trimmed(text: str) -> str:
    """An answer without the reasoning that some servers leave in front of it, and without a fence around all of it."""
    text = text.strip()
    if text.startswith("<think>"):
        text = text.partition("</think>")[2].strip()
    if text.startswith("```") and text.endswith("```") and text.count("```") == 2:
        text = text.partition("\n")[2].removesuffix("```").strip()
    if text.startswith("<summary>"):
        text = text.removeprefix("<summary>").removesuffix("</summary>").strip()
    return text


def faults(text: str, reply: SummaryReply, record: Record, topics: Sequence[Topic], size: tuple[int, int]) -> list[str]:
    """What is wrong with an answer; nothing when it may be used. `size` is what it weighs, and what it may."""
    if reply.called_tool or reply.stop_reason in _TOOL_STOPS or _TOOL_TEXT.search(text):
        return ["it called a tool"]
    if reply.stop_reason in _REFUSALS or (_REFUSING.match(text) and len(_missing(text, topics)) == len(topics)):
        return ["it was a refusal"]
    if reply.stop_reason in CUT_SHORT:
        return ["it was cut short" + ("" if text else " before the summary began")]
    if not text:
        return ["it was empty"]
    return list(_of_the_text(text, record, topics, size))


def _of_the_text(text: str, record: Record, topics: Sequence[Topic], size: tuple[int, int]) -> Iterator[str]:
    tokens, most = size
    if tokens > most:
        yield f"it was too long ({tokens:,} tokens, at most {most:,})"
    if len(text) < MIN_CHARS:
        yield "it was too short to be a summary"
    if record.code in text or _repeats_the_prompt(text):
        yield "it repeated the prompt"
    elif _echo(text, record) > _ECHO_RATIO:
        yield "it repeated the record instead of summarising it"
    if _degenerate(text):
        yield "it said the same over and over"
    if missing := _missing(text, topics):
        yield f"these headings were missing: {', '.join(missing)}"


def sections_of(text: str, topics: Sequence[Topic]) -> dict[str, str]:
    """The body below each topic's heading, however the heading is dressed up."""
    titles = {_plain(t.title): t.title for t in topics}
    found = [(m.start(), m.end(), titles[key]) for m in _HEADING.finditer(text) if (key := _plain(m[1])) in titles]
    stops = [*(start for start, _, _ in found[1:]), len(text)]
    return {title: text[end:stop].strip() for (_, end, title), stop in zip(found, stops, strict=False)}


def _plain(title: str) -> str:
    return " ".join(title.casefold().split())


def _missing(text: str, topics: Sequence[Topic]) -> list[str]:
    there = sections_of(text, topics)
    return [t.title for t in topics if t.title not in there]


def _repeats_the_prompt(text: str) -> bool:
    told = [line for line in f"{SYSTEM}\n{FORM}".split(". ") if len(line) > 40]
    return sum(line in text for line in told) >= 2


def _echo(text: str, record: Record) -> float:
    """The share of an answer that stands in the record word for word."""
    words = _words_of(text).split()
    if len(words) < 4 * _SHINGLE_WORDS:
        return 0.0
    whole = _words_of(record.text)
    starts = range(0, len(words) - _SHINGLE_WORDS + 1, _SHINGLE_WORDS)
    same = sum(f" {' '.join(words[n : n + _SHINGLE_WORDS])} " in whole for n in starts)
    return same / len(starts)


def _degenerate(text: str) -> bool:
    data = text.encode("utf-8", "replace")
    if len(data) > 800 and len(data) > _MAX_COMPRESSION * len(zlib.compress(data)):
        return True
    lines = Counter(line.strip() for line in text.splitlines() if len(line.strip()) > 12)
    most = max(lines.values(), default=0)
    return most > 5 and most * 4 > lines.total()


def without_foreign(text: str, record: Record, users: str, topics: Sequence[Topic]) -> str:
    """The text without lines given out as the user's that hold a run of a tool's words and none of the user's.

    `users` is all that the user said or loaded. What a tool printed never gains the user's authority.
    """
    told = sections_of(text, topics)
    lines = [line for t in topics if t.from_user for line in told.get(t.title, "").splitlines()]
    if all(len(line.split()) < _FOREIGN_WORDS for line in lines):
        return text
    own, tools = _words_of(users), _words_of(record.said_by("result"))
    wrong = {line for line in lines if _holds_run(line, tools) and not _holds_run(line, own)}
    return "\n".join(line for line in text.splitlines() if line.strip() not in {w.strip() for w in wrong})


def _holds_run(line: str, whole: str) -> bool:
    words = _words_of(line).split()
    runs = (words[n : n + _FOREIGN_WORDS] for n in range(len(words) - _FOREIGN_WORDS + 1))
    return any(f" {' '.join(run)} " in whole for run in runs)


_NO_WORD = rule(r"[^\w./@:-]+")


def _words_of(text: str) -> str:
    """The words of a text in a row, without case and punctuation, a space at both ends."""
    return f" {' '.join(_NO_WORD.sub(' ', text.casefold()).split())} "
