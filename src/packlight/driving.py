"""Driving a fit: its questions to a model are asked, or answered with an error where nobody may be asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator

from .compaction import Compaction
from .errors import SummaryError
from .transport import timed
from .types import SummaryReply, SummaryRequest

Planning = Generator[SummaryRequest, SummaryReply, Compaction]
"""A fit on its way: yields what a writer asks, is sent the reply, ends with the result."""


def drive(steps: Planning, reply: Callable[[SummaryRequest], SummaryReply] | None = None) -> Compaction:
    """Run to the end; what a writer asks a model is answered with an error where no model may be asked."""
    nobody = SummaryReply(text="", error=SummaryError("no model is asked here"))
    try:
        question = next(steps)
        while True:
            question = steps.send(reply(question) if reply else nobody)
    except StopIteration as done:
        result: Compaction = done.value
        return result


def ask(question: SummaryRequest) -> SummaryReply:
    """The reply of whoever is asked; what a transport raises against its contract stands in it."""
    assert question.transport is not None
    started = time.monotonic()
    try:
        return question.transport.ask(question)
    except Exception as error:
        return _raised(question, error, started)


async def aask(question: SummaryRequest) -> SummaryReply:
    """`ask` for coroutines."""
    assert question.transport is not None
    started = time.monotonic()
    try:
        return await question.transport.aask(question)
    except Exception as error:
        return _raised(question, error, started)


def _raised(question: SummaryRequest, error: Exception, started: float) -> SummaryReply:
    """What becomes of an exception of a transport that somebody else made."""
    model = question.transport.model if question.transport else ""
    return timed(SummaryReply(text="", error=error), model, started)
