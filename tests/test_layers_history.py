"""`compact_history` and `snip_compact` on their own: what is folded, what stays in its place, whose turn it is."""

from __future__ import annotations

import itertools

import pytest

import cases
from engine import POLICIES, body, compactor, frozen, lawful, packlight, seen
from layer_help import WIRES, Talk, planned, prose, read, result_texts, roles, short, sound, target, view_of
from packlight.layers import CompactHistory, ReactiveCompact, SnipCompact
from packlight.types import Summary
from talk import talk as conversation
from talk import turns

each_wire = pytest.mark.parametrize("wire", WIRES)


# ---- compact_history


@each_wire
def test_summary_stands_between_task_and_newest_turns(wire):
    talk = Talk(wire).user("The task.")
    for n in range(30):
        talk.call(*read(f"{n}.py"), prose(f"text {n}"))
    after, edits = planned(CompactHistory(writer=short, keep_recent_tokens=1000), talk, 3000)
    rendered = after.rendered()
    text = cases.visible(rendered)
    assert text.index("The task.") < text.index("SUMMARY of") < text.index("text 29 line 0")
    assert "text 20 line" not in text and [e.action for e in edits] == ["summarised"]
    assert roles(talk, rendered)[0] == "user" and result_texts(talk, rendered)[-1] == prose("text 29")
    assert edits[0].ref in text


@pytest.mark.parametrize("policy", [*POLICIES, "recover"])
@pytest.mark.parametrize("kind", ["additional_tools", "configuration_update"])
def test_tools_and_settings_that_come_on_the_way_stay(kind, policy):
    """Without them the model could no longer call those tools."""
    item = {"type": kind, "role": "developer", "tools": [{"type": "custom", "name": "exec"}]}
    items = [*conversation("responses", 5), item, *turns("responses", 60, start=100)]
    request = body(items, "responses")
    if policy == "recover":
        made = compactor("responses", window_tokens=16_000)
        c = made.recover(made.fit(request, recorded_only=True))
    else:
        c = compactor("responses", window_tokens=16_000, policy=policy).fit(request)
    assert c.report.new_edits and c.request["input"].count(item) == 1
    lawful(request, c, "responses")


@each_wire
def test_live_request_and_open_calls_and_system_stay_in_place(wire):
    talk = Talk(wire).user("The task.")
    for n in range(8):
        talk.call(*read(f"{n}.py"), prose(f"text {n}"))
    talk.system("Mind the budget.") if wire != "anthropic" else None
    talk.says("Which one?").user("The second, please.")
    for n in range(8, 20):
        talk.call(*read(f"{n}.py"), prose(f"text {n}"))
    talk.calls([("Ask", {"who": "boss"})])
    after, edits = planned(CompactHistory(writer=short, keep_recent_tokens=0), talk, 300)
    rendered = after.rendered()
    text = cases.visible(rendered)
    assert edits and "The second, please." in text and "The task." in text
    assert wire == "anthropic" or "Mind the budget." in text
    assert "boss" in frozen(rendered[-1]) and len(rendered) < 14


def test_note_of_the_client_is_not_the_live_request():
    """What stands last in the user's place may be a reminder: the request before it is the live one."""
    talk = Talk("anthropic").user("The task.")
    for n in range(6):
        talk.call(*read(f"{n}.py"), prose(f"text {n}"))
    talk.says("Which?").user("The LIVE request.")
    for n in range(6, 12):
        talk.call(*read(f"{n}.py"), prose(f"text {n}"))
    talk.says("Hm.").user("<system-reminder>\nThe time is 10:00.\n</system-reminder>")
    for n in range(12, 16):
        talk.call(*read(f"{n}.py"), prose(f"text {n}"))
    after, _ = planned(CompactHistory(writer=short, keep_recent_tokens=0), talk, 300)
    assert {"role": "user", "content": "The LIVE request."} in after.rendered()


def test_typed_task_behind_instructions_stays():
    """Clients put instructions in the user's place first; the task is what the user typed."""
    talk = Talk("responses").user("<environment_context>\ncwd: /x\n</environment_context>").user("The real task.")
    for n in range(12):
        talk.call(*read(f"{n}.py"), prose(f"text {n}"))
    talk.says("Done.").user("More.").call(*read("z"), "z")
    after, edits = planned(CompactHistory(writer=short, keep_recent_tokens=0), talk, 300)
    assert edits and {"role": "user", "content": "The real task."} in after.rendered()


def strict(messages):
    said = [m["role"] for m in messages if m["role"] in ("user", "assistant")]
    tools = [m["role"] for m in messages if m["role"] != "system"]
    return all(a == "tool" or a != b for a, b in itertools.pairwise(tools)) and said[0] == "user"


@pytest.mark.parametrize("keeps", [0, 1, 2])
@pytest.mark.parametrize("policy", ["default", "thrifty", "classic"])
def test_strict_chat_templates_still_see_roles_alternate(policy, keeps):
    talk = Talk("chat").system("Be brief.").user("Question 0?")
    for n in range(40):
        talk.says(f"Answer {n}. {prose('w', 8)}").user(
            f"{'<keep>zebra</keep> ' * (n in (7, 19)[:keeps])}Question {n + 1}?"
        )
    agent = compactor("chat", window_tokens=4000, policy=policy)
    for n in range(6):
        c = agent.fit(talk.messages)
        lawful(talk.messages, c, "chat")
        assert c.changed and strict(c.messages), [m["role"] for m in c.messages]
        assert seen(c).count("condensed from its record") <= 1
        talk.says(f"Later answer {n}. {prose('v', 60)}").user(f"Later question {n}?")


def test_joined_message_keeps_images():
    talk = Talk("chat").user(
        [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "http://x"}}]
    )
    for n in range(12):
        talk.says(prose(f"answer {n}")).user(f"Question {n}?")
    after, edits = planned(CompactHistory(writer=short, keep_recent_tokens=0), talk, 300)
    first = after.rendered()[0]
    assert edits and strict(after.rendered())
    assert [b["type"] for b in first["content"]][:2] == ["text", "image_url"] and "SUMMARY" in frozen(first)


def test_summary_is_made_anew_from_the_source():
    """A second batch takes the place of the first one's summary; it is told of all that was folded."""
    talk = Talk("chat").user("The task.")
    jobs = []

    def writer(job):
        jobs.append((job.start, job.end))
        return (yield from short(job))

    layer = CompactHistory(writer=writer, keep_recent_tokens=300)
    for n in range(10):
        talk.call(*read(f"{n}.py"), prose(f"text {n}"))
    view = view_of(talk)
    edits = view.with_edits(layer(view, target(2000))).edits
    for n in range(10, 20):
        talk.call(*read(f"{n}.py"), prose(f"text {n}"))
    view = view_of(talk, edits=edits)
    after = view.with_edits(layer(view, target(2000)))
    sound(talk, after.rendered())
    assert jobs[0][0] == jobs[1][0] and jobs[1][1] > jobs[0][1]
    assert cases.visible(after.rendered()).count("SUMMARY") == 1 and strict(after.rendered())


@pytest.mark.parametrize("text", ["", "  \n"])
def test_empty_summary_is_no_summary(text):
    def nothing(job):
        yield from ()
        return Summary(text=text)

    talk = Talk("chat").user("go").call(*read("a"), prose("a", 200)).call(*read("b"), "b").says("Done.").user("more")
    with pytest.raises(packlight.SummaryError, match="empty"):
        planned(CompactHistory(writer=nothing, keep_recent_tokens=0), talk, 100)


def test_a_digest_of_which_not_even_the_frame_fits_is_no_error():
    """A count that is many times our estimate: what is seen of the request is a small part of it."""
    talk = Talk("chat").user("go").call(*read("a"), prose("a", 9)).call(*read("b"), "b").says("Done.").user("more")
    _, edits = planned(CompactHistory(keep_recent_tokens=0), talk, 100, ratio=40.0)
    assert edits == []


# ---- snip_compact


@each_wire
def test_snip_is_idempotent(wire):
    talk = Talk(wire).user("The task.")
    for n in range(40):
        talk.call(*read(f"{n}.py"), prose(f"text {n}", 3))
    view = view_of(talk)
    after = view.with_edits(SnipCompact()(view, target(0)))
    sound(talk, after.rendered())
    assert SnipCompact()(after, target(0)) == []


# ---- what was joined before


def chat_of_two(rounds=30):
    talk = Talk("chat").system("Be brief.").user("Question 0?")
    for n in range(rounds):
        talk.says(prose(f"answer {n}", 6)).user(f"Question {n + 1}?")
    return talk


@pytest.mark.parametrize("first", ["text", "list"])
def test_joined_paste_can_still_be_cut(first):
    """A huge message that our text stands beside, or in one with, is shortened when nothing else helps."""
    paste = "FIRST\n" + prose("paste", 2_000)
    talk = chat_of_two(12)
    talk.messages[1]["content"] = paste if first == "text" else [{"type": "text", "text": paste}]
    view = view_of(talk)
    view = view.with_edits(CompactHistory(writer=short, keep_recent_tokens=0)(view, target(100)))
    edits = ReactiveCompact()(view, target(1_500, attempt=1))
    after = view.with_edits(edits)
    sound(talk, after.rendered())
    assert after.tokens <= 1_500 and "FIRST" in cases.visible(after.rendered()) and strict(after.rendered())


def test_layers_that_cut_differently_do_not_cross():
    """Snip keeps 3 messages where an earlier summary begins at 2: the earlier one's place is taken whole."""
    talk = chat_of_two()
    view = view_of(talk)
    view = view.with_edits(CompactHistory(writer=short, keep_recent_tokens=200)(view, target(100)))
    for first in range(1, 12):
        for last in (2, 5, 20, 40):
            edits = SnipCompact(max_messages=10, keep_first=first, keep_last=last)(view, target(0))
            rendered = view.with_edits(edits).rendered()
            sound(talk, rendered)
            assert strict(rendered) and "Question 30?" in cases.visible(rendered)
