"""What is done about a refusal, for `wrap` and the proxy alike."""

from __future__ import annotations

import pytest

from engine import body, compactor
from loopback import BOUND
from packlight.integrations.cures import Cures, cure_of
from talk import WINDOW, request, talk, thinking


class Refused(Exception):
    def __init__(self, status, message, **about):
        super().__init__(message)
        self.status_code, self.body = status, {"error": {"message": message, **about}}


TOO_LONG = Refused(400, "prompt is too long: 30000 tokens > 20000 maximum")
FAULT = Refused(400, "messages.1: this is not what we expect")
THINKING = Refused(400, BOUND)
MUTE = Refused(400, "")
BUSY = Refused(529, "Overloaded", type="overloaded_error")


@pytest.fixture(scope="module")
def edited():
    return compactor("chat", window_tokens=WINDOW).fit(request("chat"))


@pytest.fixture(scope="module")
def plain():
    return compactor("chat", window_tokens=10**6).fit(request("chat"))


@pytest.fixture(scope="module")
def full():
    """Nothing was done to it, and it is over its window."""
    return compactor("chat", window_tokens=WINDOW).fit(request("chat"), recorded_only=True)


@pytest.mark.parametrize(
    ("given", "error", "tried", "cure"),
    [
        ("plain", TOO_LONG, (), "recover"),
        ("edited", TOO_LONG, (), "recover"),
        ("edited", TOO_LONG, ("recover", "recover"), "recover"),
        ("edited", TOO_LONG, ("shrink",), "recover"),
        ("edited", TOO_LONG, ("undo",), None),
        ("edited", FAULT, (), "undo"),
        ("edited", FAULT, ("recover",), "undo"),
        ("edited", FAULT, ("undo",), None),
        ("edited", FAULT, ("shrink",), None),
        ("plain", FAULT, (), None),
        ("plain", THINKING, (), "unbind"),
        ("edited", THINKING, (), "unbind"),
        ("edited", THINKING, ("undo",), None),
        ("full", MUTE, (), "shrink"),
        ("full", MUTE, ("shrink",), None),
        ("full", FAULT, (), None),
        ("plain", MUTE, (), None),
        ("edited", MUTE, (), "undo"),
        ("full", BUSY, (), None),
        ("edited", BUSY, (), None),
    ],
)
def test_cure_of_a_refusal(given, error, tried, cure, request):
    assert cure_of(request.getfixturevalue(given), error, tried) == cure


def test_without_a_request_of_ours_there_is_no_cure():
    assert cure_of(None, TOO_LONG, ()) is None


def test_edits_are_gone_for_good_once_the_request_was_taken_without_them():
    made = compactor("chat", window_tokens=WINDOW)
    c, cures = made.fit(request("chat")), Cures(made)
    assert cures.taken() is None
    without = cures.next(c, FAULT)
    assert not without.changed and made.fit(request("chat")).report.edits, "not yet"
    assert cures.next(without, TOO_LONG) is None
    assert cures.first(TOO_LONG) is FAULT and cures.first(BUSY) is BUSY
    assert "left alone" in cures.taken().report.reason
    assert "left alone" in made.fit(request("chat")).report.reason


def test_error_is_the_providers_own_where_nothing_can_go():
    made = compactor("anthropic", window_tokens=2_000)
    given = {**body(talk("anthropic", 0), "anthropic"), "system": "Careful. " * 2_000}
    assert Cures(made).next(made.fit(given), MUTE) is None
    with pytest.raises(Refused):
        Cures(made).next(made.fit(body(talk("anthropic", 3), "anthropic")), THINKING)


def test_thinking_is_taken_out():
    made = compactor("anthropic", window_tokens=10**6)
    c = made.fit(body([*talk("anthropic", 2), *thinking(3)], "anthropic"))
    assert "signature" in str(c.request) and "signature" not in str(Cures(made).next(c, THINKING).request)
