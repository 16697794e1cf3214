"""Driving what yields its questions to a model: they are asked, or answered with an error where nobody may be asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import TypeVar

from .errors import SummaryError
from .transport import timed
from .types import SummaryReply, SummaryRequest

Result = TypeVar("Result")


def nobody(question: SummaryRequest) -> SummaryReply:
    """The reply where no model may be asked."""
    return SummaryReply(text="", error=SummaryError("no model is asked here: that is for fit and afit of a Compactor"))


def drive(
    steps: Generator[SummaryRequest, SummaryReply, Result], reply: Callable[[SummaryRequest], SummaryReply] = nobody
) -> Result:
    """Run to the end; `reply` answers what is asked on the way."""
    try:
        question = next(steps)
        while True:
            question = steps.send(reply(question))
    except StopIteration as done:
        result: Result = done.value
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
