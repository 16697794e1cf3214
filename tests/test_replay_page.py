"""The page of a replay: whole in one file, quiet on the network, and without a word of the conversation unasked."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from packlight.replay.compare import Replayed, compared
from packlight.replay.html import page, page_data
from packlight.replay.report import as_json, render_all
from packlight.replay.session import Session
from test_money import STEADY, session_of, usage
from test_replay import ClearingEngine, Idle

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \u2028 \udc80"
SECRET = "the launch code is 7461"
VOID = {"meta", "link", "br", "img", "input"}


class Reading(HTMLParser):
    """Well-formed, and what it holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)


def told(**options: Any) -> Session:
    session = session_of(*STEADY, (usage(0, 6_700), 60.0, "user"), **options)
    session.segments[0].messages[0]["content"] = f"{SECRET}. {HOSTILE}"
    session.segments[0].messages[-2]["content"] = f"again: {SECRET}"
    return session


def replayed(session: Session | None = None, **options: Any) -> Replayed:
    def made(model: str | None, policy: str, window_tokens: int | None) -> Any:
        return Idle() if policy == "none" else ClearingEngine()

    return compared(session or told(), ["none", "default"], made, window_tokens=1_000, **options)


def read(sessions: list[Replayed]) -> tuple[str, Reading, dict[str, Any]]:
    text = page(sessions, version="1.2.3").decode()
    reading = Reading(text)
    return text, reading, json.loads(reading.scripts[0])


def test_page_is_whole_and_alone() -> None:
    text, reading, _ = read([replayed()])
    tags = [tag for tag, _ in reading.tags]
    assert tags.count("script") == 2 and "link" not in tags and "img" not in tags
    assert not [a for _, a in reading.tags if {"src", "srcset", "onerror", "onload"} & a.keys()]
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) == {"http://www.w3.org/2000/svg"}, "a name, no address"
    assert not re.search(r"@import|url\(|innerHTML|insertAdjacentHTML|document\.write|fetch\(|eval\(", text)
    policy = next(a["content"] for t, a in reading.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy and policy.startswith("default-src 'none'")


def test_page_is_for_everybody() -> None:
    text, reading, _ = read([replayed()])
    assert ("html", {"lang": "en"}) in reading.tags
    assert any(a.get("name") == "viewport" for _, a in reading.tags)
    for words in ("prefers-color-scheme: dark", ":focus-visible", "aria-label", "max-width: 560px", "<noscript>"):
        assert words in text


def test_figures_are_those_of_the_json() -> None:
    found = replayed()
    body = as_json(found, found.rows[1])
    (session,) = read([found])[2]["sessions"]
    for name in ("usd", "by_reason", "broken_extra_usd", "simulated_usd", "billed_usd", "source"):
        assert session["money"][name] == body["money"][name]
    assert session["prediction"] == body["money"]["prediction"]
    row = session["rows"][1]
    assert sum(row["usd"]) == pytest.approx(body["cost"]["usd"], abs=1e-5)
    assert sum(session["without_usd"]) == pytest.approx(body["cost"]["without_usd"], abs=1e-5)
    assert len(row["tokens"]) == len(session["without_tokens"]) == session["turns"] == body["turns"]
    assert [m["turn"] for m in row["marks"]] == [b["turn"] for b in body["batch_list"]]
    assert [f["usd"] for f in session["money"]["content"]] == [f["usd"] for f in body["money"]["content"]]


def test_total_is_of_all_sessions() -> None:
    data = read([replayed(), replayed()])[2]
    one = data["sessions"][0]
    assert data["total"]["money"]["usd"] == pytest.approx(2 * one["money"]["usd"])
    assert len(data["total"]["money"]["misses"]) == 2
    assert [r["policy"] for r in data["total"]["rows"]] == data["policies"] == ["none", "default"]
    assert all(len(r["cells"]) == len(data["columns"]) for r in data["total"]["rows"])


def test_advice_and_policies_are_those_of_the_report() -> None:
    found = replayed()
    data = read([found, found])[2]
    text = " ".join(render_all([found, found], width=200).split())
    for told in (*data["total"]["advice"], *read([found])[2]["sessions"][0]["advice"]):
        assert told["usd"] > 0 and told["how"] in text
    assert [a["what"].split(":")[0] for a in data["total"]["advice"]] == ["broken prefixes"]
    for label, *cells in zip(data["columns"], *(r["cells"] for r in data["total"]["rows"]), strict=True):
        assert f"{label} {' '.join(cells)}" in text


def test_no_text_unasked() -> None:
    text, _, data = read([replayed()])
    assert "launch" not in text and "please do" not in text and "word word" not in text and "0.py" not in text
    assert data["has_text"] is False


def test_text_where_asked_for() -> None:
    _, _, data = read([replayed(with_text=True)])
    assert data["has_text"] is True
    (session,) = data["sessions"]
    assert session["title"].startswith(SECRET)
    assert session["money"]["misses"][0]["text"] == f"again: {SECRET}"


@pytest.mark.parametrize("with_text", [False, True])
def test_hostile_names_and_text_stay_data(with_text: bool) -> None:
    session = told()
    for message in session.segments[0].messages:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_use":
                block["name"] = HOSTILE
    session = replace(session, name=HOSTILE, notes=[HOSTILE])
    _, reading, data = read([replayed(session, with_text=with_text)])
    assert [tag for tag, _ in reading.tags].count("script") == 2
    assert data["sessions"][0]["name"] == HOSTILE and data["sessions"][0]["notes"] == [HOSTILE]
    assert any(HOSTILE in f["label"] for f in data["sessions"][0]["money"]["content"])


def test_session_without_calls_has_a_page() -> None:
    data = page_data([replayed(Session("empty", "messages", "chat", []))], version="1.2.3")
    assert data["sessions"][0]["turns"] == 0 and data["total"]["money"]["usd"] == 0
