"""A replay measures and checks an engine from outside: an honest one passes, each kind of cheat is found."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from packlight.compactor import Compactor
from packlight.replay.columns import Column, cells_of, measures_of, policies_table
from packlight.replay.compare import Replayed, compared
from packlight.replay.html import page_data
from packlight.replay.prefix import begins_with
from packlight.replay.readers import read_sessions
from packlight.replay.report import as_json, render, render_all, render_session
from packlight.replay.run import SessionResult, replay
from packlight.replay.session import Segment, Session, Turn
from packlight.replay.text import cut, share, usd_text, use_color
from packlight.replay.walk import Call
from packlight.types import Edit

EXAMPLES = Path(__file__).parent.parent / "examples"
BUDGET = 900
RESULT = "x" * 400


@dataclass
class FakeReport:
    tokens_before: int
    tokens_after: int
    new_edits: tuple[Edit, ...] = ()
    error: object = None


@dataclass
class FakeCompaction:
    given: Any
    request: Any
    report: FakeReport
    fits: bool = True

    @property
    def changed(self) -> bool:
        return self.request is not self.given

    def restore(self) -> Any:
        return self.given


@dataclass
class ClearingEngine:
    """A small honest engine: over budget it clears every result but the last, and remembers which."""

    cleared: dict[str, dict[str, Any]] = field(default_factory=dict)
    usages: list[object] = field(default_factory=list)
    clock: list[float | None] = field(default_factory=list)

    store: None = None
    """It keeps nothing: what it gives back it holds itself."""

    def fit(self, request: Any, /, *, now_seconds: float | None = None, format: str | None = None) -> FakeCompaction:
        self.clock.append(now_seconds)
        messages = request["messages"] if isinstance(request, dict) else request
        before, sent, new = size(messages), self.edited(messages), ()
        if size(sent) > BUDGET:
            new = self.plan(messages)
            sent = self.edited(messages)
        changed = any(a is not b for a, b in zip(sent, messages, strict=True))
        report = FakeReport(before, size(sent), new)
        shaped = {**request, "messages": sent} if isinstance(request, dict) else sent
        return FakeCompaction(request, shaped if changed else request, report)

    def plan(self, messages: list[dict[str, Any]]) -> tuple[Edit, ...]:
        results = [(i, m) for i, m in enumerate(messages) if is_result(m)]
        fresh = [(i, m) for i, m in results[:-1] if id_of(m) not in self.cleared]
        for _, message in fresh:
            block = {**message["content"][0], "content": "[cleared]"}
            self.cleared[id_of(message)] = {**message, "content": [block]}
        return tuple(Edit("micro_compact", "cleared", (i,), (i + 1,), (), ref=id_of(m)) for i, m in fresh)

    def edited(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [self.cleared.get(id_of(m), m) if is_result(m) else m for m in messages]

    def record_usage(self, compaction: Any, usage: Any, /) -> None:
        self.usages.append(usage)


def size(messages: list[dict[str, Any]]) -> int:
    return len(json.dumps(messages)) // 4


def is_result(message: dict[str, Any]) -> bool:
    return message["role"] == "user" and isinstance(message["content"], list)


def id_of(message: dict[str, Any]) -> str:
    return str(message["content"][0]["tool_use_id"])


def recorded(rounds: int = 20, windows: int = 1) -> Session:
    def window(offset: int) -> Segment:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
        turns = []
        for i in range(offset, offset + rounds):
            turns.append(Turn(len(messages), {"input_tokens": len(messages)}, 60.0 * i))
            call = {"type": "tool_use", "id": f"call_{i}", "name": "Read", "input": {"path": f"{i}.py"}}
            messages.append({"role": "assistant", "content": [call]})
            result = {"type": "tool_result", "tool_use_id": f"call_{i}", "content": f"{i} {RESULT}"}
            messages.append({"role": "user", "content": [result]})
        return Segment(messages, turns)

    segments = [window(rounds * k) for k in range(windows)]
    return Session("made", "messages", "anthropic", segments, model="claude-opus-4-5")


def run(engine: Any, session: Session | None = None) -> SessionResult:
    return replay(session or recorded(), policy="default", window_tokens=1000, compactor_factory=lambda *_: engine)


def whole(engine: type[ClearingEngine] = ClearingEngine, session: Session | None = None, **options: Any) -> Replayed:
    """The same under two policies; the base is an engine that never clears."""

    def made(model: str | None, policy: str, window_tokens: int | None) -> Any:
        return Idle() if policy == "none" else engine()

    return compared(
        session or recorded(), ["none", "default"], made, window_tokens=1000, **{"measures": measures_of(), **options}
    )


class Idle(ClearingEngine):
    def plan(self, messages: list[dict[str, Any]]) -> tuple[Edit, ...]:
        return ()


def test_honest_engine_passes() -> None:
    result = run(ClearingEngine())
    assert result.turns == 20
    assert result.batches
    assert result.restored
    assert result.invalid == []
    assert result.breaks_elsewhere == []
    assert len(result.breaks_at_batch) == len(result.batches)
    assert max(result.after_tokens) < max(result.before_tokens) / 2
    assert result.mean_context_tokens == round(sum(result.after_tokens) / 20)
    assert result.batches[0].layers == {"micro_compact": result.batches[0].taken_out}


def test_engine_gets_time_and_usage() -> None:
    """The clock is the session's; usage is given only for what was sent as recorded."""
    engine = ClearingEngine()
    session = recorded()
    session.segments[0].turns[3].seconds = None
    result = run(engine, session)
    first_changed = result.batches[0].turn
    assert engine.clock[:5] == [0.0, 60.0, 120.0, 120.0, 240.0]
    assert engine.usages == [t.usage for t in session.segments[0].turns[:first_changed]]
    assert result.recorded_tokens == [t.end for t in session.segments[0].turns]


def test_new_window_is_no_break() -> None:
    result = run(ClearingEngine(), recorded(rounds=4, windows=3))
    assert result.segment_starts == [4, 8]
    assert result.prefix_breaks == len(result.breaks_at_batch)


class LosesACall(ClearingEngine):
    def edited(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [m for i, m in enumerate(messages) if i != 1]


class Restless(ClearingEngine):
    """Another placeholder each time."""

    def edited(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        sent = super().edited(messages)
        return [
            {**m, "content": [{**m["content"][0], "content": f"[{len(sent)}]"}]} if m not in messages else m
            for m in sent
        ]


class OtherOrder(ClearingEngine):
    """The same values, other bytes: a cache would miss."""

    def edited(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        sent = super().edited(messages)
        turned = dict(reversed(sent[0].items())) if len(sent) % 4 == 1 else sent[0]
        return [turned, *sent[1:]]


class Forgetful(ClearingEngine):
    def fit(self, request: Any, /, *, now_seconds: float | None = None, format: str | None = None) -> FakeCompaction:
        compaction = super().fit(request, now_seconds=now_seconds)
        if compaction.changed:
            compaction.given = {"messages": [{"role": "user", "content": "?"}]}
        return compaction


class Marking(ClearingEngine):
    """Cache marks that move are no prefix break."""

    def edited(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        *before, last = super().edited(messages)
        if not is_result(last):
            return [*before, last]
        return [*before, {**last, "content": [{**last["content"][0], "cache_control": {"type": "ephemeral"}}]}]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.jsonl")), ids=lambda p: p.stem)
def test_examples_show_compaction(path: Path) -> None:
    """The real engine on real sessions: smaller, valid, restorable, and no cache lost between two batches."""
    (session,) = read_sessions(path)
    result = replay(
        session,
        policy="default",
        window_tokens=100_000,
        compactor_factory=lambda model, policy, window: Compactor(model, policy=policy, window_tokens=window),
    )
    assert result.batches
    assert result.tokens_after < result.tokens_before
    assert (result.invalid, result.breaks_elsewhere, result.errors) == ([], [], [])
    assert result.restored


def test_cheats_are_found() -> None:
    lost = run(LosesACall())
    assert lost.invalid_requests == lost.turns - 1
    assert not run(Forgetful()).restored
    assert run(Restless()).breaks_elsewhere
    assert run(OtherOrder()).breaks_elsewhere
    marked = run(Marking())
    assert marked.breaks_elsewhere == []
    assert marked.invalid == []


def test_recorded_violation_is_not_ours() -> None:
    session = recorded()
    session.segments[0].messages.insert(
        3, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "nobody", "content": "?"}]}
    )
    for turn in session.segments[0].turns[2:]:
        turn.end += 1
    result = run(ClearingEngine(), session)
    assert result.batches
    assert result.invalid == []


def test_begins_with() -> None:
    a, b = {"role": "user", "content": "a"}, {"role": "user", "content": "b"}
    assert begins_with([a, b], [a])
    assert begins_with([dict(a), b], [a, b])
    assert not begins_with([a], [a, b])
    assert not begins_with([b, a], [a])


def test_json_has_the_promised_names() -> None:
    found = whole()
    none, body = (json.loads(json.dumps(as_json(found, row))) for row in found.rows)
    promised = {
        "session", "reader", "format", "turns", "tokens_before", "tokens_after", "mean_context_tokens", "batches",
        "prefix_breaks", "invalid_requests", "restored", "cost", "money",
    }  # fmt: skip
    assert promised <= body.keys()
    assert body["batches"] == len(body["batch_list"])
    assert body["tokens_before"] == sum(body["tokens_by_turn"]["before"])
    assert body["cost"]["without_usd"] == none["cost"]["usd"] == pytest.approx(sum(none["cost"]["usd_by_turn"]))
    assert body["cost"]["ratio"] == pytest.approx(body["cost"]["usd"] / none["cost"]["usd"])
    assert body["money"] == none["money"]
    assert body["loss"].keys() == {"frr", "eqr"}


def test_report_for_a_person() -> None:
    text = render_session(whole(session=recorded(windows=2)))
    assert "\x1b" not in text
    for words in (
        "40 turns",
        "began a new window once",
        "where the input money went",
        "what filled the windows",
        "results of Read",
        "none",
        "all of it can be had back",
        "results cleared",
        "(micro_compact)",
        "▲ batch",
        "mean request, tokens",
    ):
        assert words in text
    assert text.index("where the input money went") < text.index("policies")
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text, "nothing is cut in a terminal of 80 columns"
    assert "\x1b[" in render_session(whole(), color=True)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_report_keeps_to_the_width_and_cuts_no_figure(width: int) -> None:
    long = whole(session=replace(recorded(windows=2), name="a-session-with-quite-a-long-name-" * 2))
    for text in (render_all([long, long], width=width, details=True), render_session(long, width=width)):
        assert max(map(len, text.splitlines())) <= width
        assert "$" in text.split("where the input money went: ")[1][:1]
        assert not [line for line in text.splitlines() if "…" in line and not re.match(r" +a-s\S*…\S*-  ", line)]


def test_policies_that_do_not_fit_beside_each_other_stand_below() -> None:
    rows = whole().rows
    many = [replace(r, result=replace(r.result, policy=f"module_{n}:policy")) for n in range(4) for r in rows[1:]]
    table = policies_table([*rows, *many], width=80)
    assert max(map(len, table.splitlines())) <= 80
    assert table.count("input cost") == 3
    assert len(re.findall(r"module_\d:policy", table)) == 4


def test_policy_is_told_in_the_figures_of_the_table() -> None:
    """Without compaction a session has one size, whatever a policy's engine thought of it."""
    found = whole()
    text = render_session(found, width=100)
    (mean,) = [line.split()[-2:] for line in text.splitlines() if "mean request, tokens" in line]
    (told,) = [line.split()[2:4] for line in text.splitlines() if line.startswith("  mean request  ")]
    assert mean == told
    (largest,) = [line.split()[2:4] for line in text.splitlines() if line.startswith("  largest request")]
    assert largest[0] == f"{round(max(found.without_tokens)):,}"


def test_it_is_told_where_the_cache_is_simulated() -> None:
    plain = whole()
    told = replace(plain, money=replace(plain.money, is_recorded=True))
    assert "(with a simulated cache, at API prices)" in render_all([plain])
    assert "(by the usage recorded, at API prices)" in render_all([told])
    assert "(2 sessions, 1 by the usage recorded, the rest with a simulated cache, at API prices)" in render_all(
        [plain, told], width=200
    )


def test_policy_that_does_nothing_is_one_line() -> None:
    text = render_session(whole(Idle))
    assert "policy default, window 1,000 tokens: nothing done" in text
    assert "tokens by turn" not in text


def test_table_tells_what_went_wrong() -> None:
    assert "NOT all of it can be had back" in render(whole(Forgetful).rows[1])
    assert "turn 2: " in render(whole(LosesACall).rows[1])
    assert "elsewhere" in render(whole(Restless).rows[1])


def test_nothing_to_show() -> None:
    empty = Session("empty", "messages", "chat", [], notes=["1 x broken record (line 3)"])
    found = whole(session=empty)
    text = render_session(found)
    assert "no model call" in text
    assert "broken record" in text
    assert as_json(found, found.rows[1])["mean_context_tokens"] == 0
    assert "where the input money went: $0.00" in render_all([found, found])


def test_sessions_without_a_call_are_only_counted() -> None:
    empty = whole(session=Session("empty", "claude-code", "anthropic", []))
    text = render_all([whole(), empty, whole(), empty])
    assert "2 sessions" in text and "empty" not in text and "not recorded" not in text
    assert text.endswith("  without a model call: 2 of 4 sessions\n")
    assert "where the input money went" in render_all([whole(), empty])


def test_total_of_several_sessions() -> None:
    text = render_all([whole(), whole(Forgetful)])
    assert [line.split()[-2:] for line in text.splitlines() if "all of it can be had back" in line] == [["yes", "NO"]]
    assert next(line.split() for line in text.splitlines() if "none" in line) == ["none", "default"]
    assert text.count("  made ") == 2, "one line each"
    assert "tokens by turn" not in text
    assert render_all([whole(), whole()], details=True).count("tokens by turn") == 2


@dataclass
class Gone:
    """What a measure may end in."""

    messages: int = 0
    lost: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class Missing:
    """A measure: results that were recorded and not sent."""

    gone: Gone = field(default_factory=Gone)

    def see(self, call: Call) -> None:
        if missing := sum(m not in call.messages for m in call.source):
            self.gone.messages += missing
            self.gone.lost.append((call.turn, f"{missing} results"))

    @property
    def result(self) -> Gone:
        return self.gone


def test_column_brings_its_measure() -> None:
    column = Column(
        "gone", lambda rows: sum(r.found["gone"].messages for r in rows), measures={"gone": lambda _: Missing()}
    )
    found = whole(measures=measures_of([column]))
    head, gone = policies_table(found.rows, columns=[column]).splitlines()
    assert head.split() == ["none", "default"] and gone.split()[:2] == ["gone", "0"]
    assert int(gone.split()[2]) > 20
    _, row = page_data([found], version="")["sessions"][0]["rows"]
    assert row["lost"][0] == {"turn": found.rows[1].result.batches[0].turn, "label": "5 results"}


def test_what_is_lost_is_told_with_its_call() -> None:
    """A name that only a result told, used when that result is gone: by a figure and a turn, never by the name."""
    session = recorded()
    messages = session.segments[0].messages
    messages[2]["content"][0]["content"] += " secret_handle_9 "
    messages[-2]["content"][0]["input"] = {"path": "secret_handle_9"}
    none, default = whole(session=session).rows
    assert none.found["lost"].reference_ratio == 1.0 and none.found["lost"].lost == []
    assert default.found["lost"].reference_ratio < 1.0
    assert default.found["lost"].lost == [(19, "1 name out of sight")]
    assert (default.found["lost"] + none.found["lost"]).references.rows[10].references == 2
    assert cells_of([default])[3].endswith("%")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_price_is_never_shown_as_nothing() -> None:
    assert [usd_text(u) for u in (0.0, 0.00001, 0.0051, 12.5)] == ["$0.00", "<$0.0001", "$0.0051", "$12.50"]


def test_what_is_cut_keeps_both_ends() -> None:
    assert cut("opencode-opus46.concat#ses_3b12bf", 20) == "opencode-o…es_3b12bf"
    assert [cut("0123456789", n) for n in (10, 9, 2, 1)] == ["0123456789", "0123…6789", "0…", "…"]


def test_shares_have_two_digits() -> None:
    assert [share(r) for r in (0.0, 0.0001, 0.0512, 0.0994, 0.0996, 0.5, 1.03)] == [
        "0%", "<0.1%", "5.1%", "9.9%", "10%", "50%", "103%",
    ]  # fmt: skip


def test_colours_only_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert use_color(Terminal())
    assert not use_color(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not use_color(Terminal())
