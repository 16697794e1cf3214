"""Each layer on its own: what it takes out, in which order, and what it leaves alone."""

from __future__ import annotations

import json
import time

import pytest

import cases
from engine import compact, compactor, frozen, lawful, packlight, seen
from layer_help import WIRES, Talk, planned, prose, read, result_texts, short, sound, target, view_of
from packlight.layers import (
    ClassicMicroCompact,
    CompactHistory,
    MediaLimits,
    MicroCompact,
    ReactiveCompact,
    ToolResultBudget,
)

each_wire = pytest.mark.parametrize("wire", WIRES)
everything = MicroCompact(keep_recent_tokens=0, working_set_tokens=0, partly=True)


def image(width=1200, height=900):
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": cases.png(width, height)},
    }


def cleared_by(edits):
    return [(e.call_id, e.reason) for e in edits]


# ---- tool_result_budget


@each_wire
def test_large_fresh_result_becomes_a_preview(wire):
    text = prose("begin") + "\n" + prose("middle", 4000) + "\nERROR: disk is full\n" + prose("end")
    talk = Talk(wire).user("go").call(*read("big.txt"), text)
    after, edits = planned(ToolResultBudget(), talk, 40_000)
    (shown,) = result_texts(talk, after.rendered())
    assert [e.action for e in edits] == ["stored"]
    assert "begin line 0" in shown and "end line 29" in shown and "ERROR: disk is full" in shown
    assert "middle line 2000" not in shown and edits[0].ref in shown and "big.txt" in shown
    assert f"{len(text):,} characters" in shown
    assert after.tokens < 10_000


@each_wire
def test_small_or_seen_results_are_not_previewed(wire):
    talk = Talk(wire).user("go").call(*read("old.txt"), prose("old", 4000)).call(*read("new.txt"), prose("new", 20))
    assert planned(ToolResultBudget(), talk, 40_000)[1] == []


@pytest.mark.parametrize("budget", [1_000, 2_000, 4_000, 6_000, 20_000])
@pytest.mark.parametrize("text", [prose("x", 3000), "错误：磁盘已满。请重试\n" * 4000, "ERROR: bad thing 42\n" * 9000])
def test_preview_keeps_to_its_share_of_any_window(budget, text):
    talk = Talk("chat").user("go").call(*read("big.txt"), text)
    _, edits = planned(ToolResultBudget(), talk, budget)
    assert len(edits) == 1 and edits[0].tokens_after <= budget * 0.4


def test_kept_results_are_not_previewed():
    talk = Talk("chat").user("go").call(*read("big.txt"), prose("x", 3000))
    assert planned(ToolResultBudget(), talk, 4000, keep=lambda r: r.tool == "Read")[1] == []


# ---- micro_compact: what goes first


def reasons_talk(wire="anthropic"):
    talk = Talk(wire).user("go")
    talk.call("Write", {"file_path": "w.py", "content": "x = 1"}, "ok: " + prose("written"))  # c0
    talk.call(*read("old.py"), prose("plain"))  # c1
    talk.call("Bash", {"command": "make status"}, prose("poll one"))  # c2
    talk.call("Bash", {"command": "cat n.txt"}, prose("same"))  # c3
    talk.call(*read("a.py"), prose("first a"))  # c4
    talk.call("Bash", {"command": "make status"}, prose("poll two"))  # c5
    talk.call("Bash", {"command": "cat m.txt"}, prose("same"))  # c6
    talk.call(*read("a.py"), prose("second a"))  # c7
    return talk.says("Done.")


@each_wire
def test_order_of_clearing(wire):
    """Superseded reads, copies, repeated calls, successful writes; then the rest, oldest first."""
    _, edits = planned(everything, reasons_talk(wire), 0)
    order = [call for call, _ in cleared_by(edits)]
    by_place = {e.call_id: e.reason for e in edits}
    assert sorted(order) == [f"c{n}" for n in range(8)]
    ranks = ["superseded", "same output", "same call", "successful write", "old"]
    wanted = {"c4": 0, "c3": 1, "c2": 2, "c0": 3}
    for call, reason in by_place.items():
        assert ranks[wanted.get(call, 4)] in reason
    view = view_of(reasons_talk(wire))
    for n, expected in enumerate(("c4", "c3", "c2", "c0", "c1"), 1):
        first = everything_in_order(view)[n - 1]
        assert first == expected


def everything_in_order(view):
    """The order in which results go, found by asking for a little more each time."""
    order = []
    while True:
        edits = everything(view, target(max(0, view.tokens - 1)))
        if not edits:
            return order
        order += [e.call_id for e in edits]
        view = view.with_edits(edits)


def test_no_more_is_cleared_than_needed():
    view = view_of(reasons_talk())
    assert len(everything(view, target(view.tokens - 1))) == 1


def test_nothing_is_cleared_when_it_would_not_be_enough():
    """Then a summary must follow, which takes the results with it."""
    view = view_of(reasons_talk())
    assert MicroCompact(keep_recent_tokens=0)(view, target(10)) == []


def test_other_part_of_a_file_is_no_repeat():
    """A target cut short, or a path alone, does not make two calls the same."""
    talk = Talk("chat").user("go")
    talk.call(*read("a.py", offset=1, limit=30), prose("top"))
    talk.call(*read("a.py", offset=900, limit=30), prose("bottom"))
    long = "x" * 200
    talk.call("Bash", {"command": f"grep {long} one"}, prose("one")).call(
        "Bash", {"command": f"grep {long} two"}, "two"
    )
    _, edits = planned(everything, talk.says("Done."), 0)
    assert {e.reason for e in edits} == {"old"}


@pytest.mark.parametrize("later", ["File unchanged since last read.", prose("short", 3)])
def test_read_that_shows_less_supersedes_nothing(later):
    talk = Talk("chat").user("go").call(*read("a.py"), prose("a", 60)).call(*read("a.py"), later).says("Done.")
    _, edits = planned(MicroCompact(keep_recent_tokens=0, partly=True), talk, 0)
    assert "superseded" not in {e.reason.split()[0] for e in edits}


def test_later_read_must_reach_as_far():
    """A whole read that its tool cut at 40 lines does not hold lines 900 to 930."""
    talk = Talk("chat").user("go")
    talk.call(*read("a.py", offset=900, limit=30), prose("bottom")).call(*read("a.py"), prose("top", 40)).says("Done.")
    _, edits = planned(everything, talk, 0)
    assert [e.reason for e in edits] == ["old", "old"]


def test_calls_without_arguments_are_no_polls():
    """`next_page {}` gives another page each time."""
    talk = Talk("chat").user("go").call("next_page", {}, prose("one")).call("next_page", {}, prose("two")).says("Done.")
    _, edits = planned(everything, talk, 0)
    assert [e.reason for e in edits] == ["old", "old"]


# ---- micro_compact: what stays


@each_wire
def test_unseen_results_are_never_cleared(wire):
    """Law 6, whatever else is true of them: here each is a copy of the other."""
    talk = Talk(wire).user("go").call(*read("a"), prose("seen")).calls([read(p) for p in "bcde"])
    talk.results([prose("copy")] * 4)
    for layer in (everything, ClassicMicroCompact(keep_results=0)):
        _, edits = planned(layer, talk, 0)
        assert [e.call_id for e in edits] == ["c0"]


@each_wire
def test_newest_results_stay_by_tokens(wire):
    talk = Talk(wire).user("go")
    for n in range(10):
        talk.call(*read(f"{n}.py"), prose(f"text {n}"))
    one = view_of(talk).messages[-1].tokens
    _, edits = planned(MicroCompact(keep_recent_tokens=3 * one + 5, partly=True), talk.says("Done."), 0)
    assert [e.call_id for e in edits] == [f"c{n}" for n in range(7)]


@each_wire
def test_open_errors_stay_and_mended_ones_go(wire):
    failure = "Traceback (most recent call last):\n" + prose("frame", 12) + "\nExit code 1"
    if wire == "anthropic":
        failure = f"Exit code 1\n{failure}"
    bad = f"Exit code 1\n{failure}"
    talk = Talk(wire).user("go")
    talk.call("Bash", {"command": "make mended"}, bad).call("Bash", {"command": "make open"}, bad + " again")
    talk.call("Bash", {"command": "make mended"}, prose("fine"))
    _, edits = planned(everything, talk.says("Done."), 0)
    assert [e.call_id for e in edits if e.call_id != "c2"] == ["c0"]


def test_working_set_stays():
    """The newest whole text of a file that was edited; not that of one that was only looked at."""
    talk = Talk("anthropic").user("go").call(*read("edited.py"), prose("edited"))
    talk.call("Edit", {"file_path": "edited.py", "old_string": "a", "new_string": "b"}, "ok")
    talk.call(*read("looked.py"), prose("looked")).says("Done.")
    _, edits = planned(MicroCompact(keep_recent_tokens=0, working_set_tokens=5000, partly=True), talk, 0)
    assert [e.call_id for e in edits] == ["c2"]


@each_wire
def test_user_keeps_tools_and_results(wire):
    talk = Talk(wire).user("go").call(*read("a"), prose("a")).call("Lookup", {"q": "x"}, prose("b"))
    talk.call(*read("c"), "IMPORTANT " + prose("c")).says("Done.")
    _, edits = planned(everything, talk, 0, keep=lambda r: r.tool == "Lookup" or "IMPORTANT" in r.part.text)
    assert [e.call_id for e in edits] == ["c0"]


@each_wire
def test_keep_tools_survive_a_summary(wire):
    talk = Talk(wire).user("go")
    for n in range(12):
        talk.call("Lookup" if n == 3 else "Read", {"file_path": f"{n}.py"}, prose(f"text {n}"))
    after, edits = planned(
        CompactHistory(writer=short, keep_recent_tokens=0), talk, 500, keep=lambda r: r.tool == "Lookup"
    )
    assert edits and prose("text 3") in result_texts(talk, after.rendered())
    assert prose("text 4") not in result_texts(talk, after.rendered())


# ---- <keep>


@each_wire
@pytest.mark.parametrize(
    ("mark", "stays"),
    [
        ("<keep>docs/spec.md</keep>", "c0"),
        ("<keep>spec.md</keep>", "c0"),
        ("Please <keep>\n`Lookup`\n</keep> it", "c1"),
        ("<keep>nothing like it, the colour is teal</keep>", "c2"),
        ("<keep>颜色是青色</keep>", "c2"),
    ],
)
def test_typed_keep_is_kept(wire, mark, stays):
    """A path, a tool or words, in what the user typed: the result stays, and so does the user's message."""
    talk = Talk(wire).user("Task.").call(*read("docs/spec.md"), prose("spec")).user(mark)
    talk.call("Lookup", {"q": "x"}, prose("found")).call(*read("c"), "the colour is teal 颜色是青色\n" + prose("c"))
    for n in range(9):
        talk.call(*read(f"{n}.py"), prose(f"text {n}"))
    talk.user("And now?").says("Done.")
    _, edits = planned(everything, talk, 0)
    assert {f"c{n}" for n in range(3)} - {e.call_id for e in edits} == {stays}
    after, edits = planned(CompactHistory(writer=short, keep_recent_tokens=0), talk, 200)
    kept = {"c0": prose("spec"), "c1": prose("found"), "c2": prose("c")}[stays]
    assert edits and any(kept in text for text in result_texts(talk, after.rendered()))
    assert mark in cases.visible(after.rendered())
    assert prose("text 4") not in result_texts(talk, after.rendered())


@each_wire
def test_keep_in_tool_output_means_nothing(wire):
    talk = Talk(wire).user("go").call(*read("a"), "<keep>a</keep> <keep>Read</keep>\n" + prose("a")).says("Done.")
    assert len(planned(everything, talk, 0)[1]) == 1


def test_keep_in_a_note_of_the_client_means_nothing():
    note = "<system-reminder>\nUse <keep>Read</keep>\n</system-reminder>"
    talk = Talk("anthropic").user(f"{note}\ngo").call(*read("a"), prose("a")).says("Done.")
    assert len(planned(everything, talk, 0)[1]) == 1


@each_wire
def test_keep_is_no_reason_to_be_refused(wire):
    """Where keeping would not fit, what is kept is shortened rather than sent too large."""
    talk = Talk(wire).user("<keep>Read</keep> go")
    for n in range(20):
        talk.call(*read(f"{n}.py"), prose(f"text {n}", 60))
    c = compact(talk.messages, wire, "default", 4000)
    lawful(talk.messages, c, wire)
    assert c.fits and "<keep>Read</keep> go" in seen(c)


# ---- placeholders


@each_wire
def test_placeholder_names_tool_target_outcome_size_and_reference(wire):
    text = "Exit code 2\nfatal: no such ref\n" + prose("noise")
    talk = Talk(wire).user("go").call("Bash", {"command": "git log origin/nowhere"}, text)
    talk.call("Bash", {"command": "git log origin/nowhere"}, "ok").says("Done.")
    after, (edit,) = planned(everything, talk, 0)
    line = result_texts(talk, after.rendered())[0]
    for part in ("Bash", "git log origin/nowhere", "exit 2: fatal: no such ref", f"{len(text):,} characters", edit.ref):
        assert part in line
    assert "\n" not in line and not any(
        word in line.lower() for word in ("re-run", "rerun", "run again", "run it again")
    )
    assert (edit.tool, edit.path, edit.layer) == ("Bash", "git log origin/nowhere", "micro_compact")


@each_wire
@pytest.mark.parametrize("text", ["", "ok", "x" * 60, "[cleared to save room: all; ref 000000000000]"])
def test_placeholder_is_never_larger(wire, text):
    talk = Talk(wire).user("go").call(*read("a"), text).says("Done.")
    for layer in (everything, ClassicMicroCompact(keep_results=0, min_chars=0), ReactiveCompact()):
        planned(layer, talk, 0)


@each_wire
def test_odd_results_are_cleared_or_left(wire):
    """Results as a list, as nothing, and with an image in them."""
    talk = Talk(wire).user("go")
    listed = "input_text" if wire == "responses" else "text"
    talk.call("A", {"n": 1}, [{"type": listed, "text": prose("one")}, {"type": listed, "text": prose("two")}])
    talk.call("B", {"n": 2}, [] if wire == "responses" else None)
    if wire == "anthropic":
        talk.call("C", {"n": 3}, [image(), {"type": "text", "text": "a picture"}])
    after, edits = planned(everything, talk.says("Done."), 0)
    assert [e.call_id for e in edits] == (["c0", "c2"] if wire == "anthropic" else ["c0"])
    assert cases.png(1200, 900) not in frozen(after.rendered())


def test_image_in_a_result_can_be_had_back(tmp_path):
    talk = Talk("anthropic").user("go").call("Shot", {"n": 1}, [image(900, 800)])
    for n in range(30):
        talk.call(*read(f"{n}.py"), prose(f"text {n}"))
    c = compact(talk.messages, "anthropic", "default", 3000, store=tmp_path)
    lawful(talk.messages, c, "anthropic")
    assert cases.png(900, 800) not in frozen(c.request)
    assert frozen(packlight.restore(c.request, tmp_path)) == frozen(talk.messages)


def test_results_of_the_providers_tools_are_untouched():
    search = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s1",
            "content": [
                {"type": "web_search_result", "url": "u", "title": prose("t"), "encrypted_content": "e" * 9000}
            ],
        },
        {"type": "text", "text": "Found."},
    ]
    talk = Talk("anthropic").user("go")
    talk.messages.append({"role": "assistant", "content": search})
    talk.user("more").says("Done.")
    view = view_of(talk)
    for layer in (everything, ClassicMicroCompact(keep_results=0), ReactiveCompact()):
        edits = layer(view, target(view.tokens - 10, unseen_may_shrink=True, attempt=1))
        assert not [e for e in edits if len(e.start) == 2 and e.start[1] == 1]


# ---- media


@pytest.mark.parametrize(("count", "side", "limit", "gone"), [(8, 500, 5, 3), (21, 2400, 100, 21), (20, 2400, 100, 0)])
def test_media_limits(count, side, limit, gone):
    talk = Talk("anthropic")
    for n in range(count):
        talk.user([{"type": "text", "text": f"picture {n}"}, image(side, 20)]).says("Seen.")
    view = view_of(talk)
    edits = MediaLimits()(view, target(10**9, max_images=limit, max_image_pixels=2000))
    sound(talk, view.with_edits(edits).rendered())
    assert [e.start[0] for e in edits] == [2 * n for n in range(gone)]
    for edit in edits:
        assert edit.ref in frozen(edit.replacement) and f"{side}x20" in frozen(edit.replacement)


def test_media_within_the_limits_is_left_alone():
    talk = Talk("anthropic").user([image()]).says("Seen.")
    assert MediaLimits()(view_of(talk), target(0, max_images=5, max_image_pixels=100)) == []


# ---- reactive_compact


@each_wire
def test_each_attempt_is_strictly_smaller(wire):
    talk = Talk(wire).user("The task. " + prose("task", 40))
    for n in range(30):
        talk.call("Write", {"file_path": f"{n}.py", "content": prose(f"new {n}")}, prose(f"text {n}"))
    agent = compactor(wire, window_tokens=1_000_000)
    c = agent.fit({"model": "gpt-5.6" if wire != "anthropic" else "claude-opus-4-6", _key(wire): talk.messages})
    sizes = [c.report.tokens_after]
    for _ in range(3):
        c = agent.recover(c, None)
        sound(talk, c.messages)
        sizes.append(c.report.tokens_after)
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 4


def _key(wire):
    return "input" if wire == "responses" else "messages"


def hard(talk, tokens, **about):
    """A view after the layer of last resort."""
    view = view_of(talk)
    edits = ReactiveCompact()(view, target(tokens, unseen_may_shrink=True, attempt=1, **about))
    after = view.with_edits(edits)
    sound(talk, after.rendered())
    return after, edits


@each_wire
def test_huge_unseen_last_result_shrinks(wire):
    text = prose("x", 30_000)
    assert len(text) > 1_400_000
    after, _ = hard(Talk(wire).user("go").call(*read("big"), text), 5000)
    assert after.tokens <= 5000 and "x line 0" in cases.visible(after.rendered())


@each_wire
def test_unseen_result_does_not_shrink_without_need(wire):
    talk = Talk(wire).user("go").call(*read("old"), prose("old", 400)).call(*read("new"), prose("new", 100))
    after, _ = hard(talk, 3000)
    assert prose("new", 100) in result_texts(talk, after.rendered()) and after.tokens <= 3000


@each_wire
def test_huge_arguments_shrink_and_keep_their_shape(wire):
    talk = Talk(wire).user("go").call("Write", {"file_path": "a.py", "content": prose("w", 3000), "mode": 7}, "ok")
    after, edits = hard(talk, 2000)
    call = next(p for m in after.rendered() for p in after.format.parts(m) if p.kind == "call")
    assert after.tokens <= 2000 and call.arguments["file_path"] == "a.py" and call.arguments["mode"] == 7
    assert edits[0].ref and "ref " in call.arguments["content"]


@each_wire
def test_what_was_cut_is_cut_further_where_that_was_not_enough(wire):
    many = {f"part {n}": prose(f"w{n}", 30)[:1_500] for n in range(60)}
    talk = Talk(wire).user("go").call("Write", many, "ok").says("\n".join(many.values())).user("go on")
    after, _ = hard(talk.call("Write", many, "ok"), 12_000)
    assert after.tokens <= 12_000


@each_wire
def test_short_last_request_is_cut_after_all_else(wire):
    """It stays while a smaller digest would do, whatever stands beside it that nothing can make smaller."""
    words = prose("never", 6)
    talk = Talk(wire).user("The task.")
    for n in range(30):
        talk.call(*read(f"{n}.py"), prose(f"old {n}", 30))
    talk.user(words).calls([("Plan", {f"step {n}": f"do {n}, then {n + 1}, and see" for n in range(60)})]).results(
        ["ok"]
    )
    for tokens in range(2_300, 5_000, 50):
        c = compactor(wire, max_input_tokens=tokens).fit({_key(wire): talk.messages})
        assert c.fits and words in "".join(t for m in c.messages if m.get("role") == "user" for t in cases.strings(m))


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_custom_tool_input_shrinks(wire):
    talk = Talk(wire).user("go").calls([("apply_patch", prose("patch", 3000))])
    kind = "custom_tool_call_output" if wire == "responses" else None
    talk.results(["ok"])
    if kind:
        talk.messages[-1]["type"] = kind
    after, _ = hard(talk, 2000)
    assert after.tokens <= 2000 and "patch line 0" in cases.visible(after.rendered())


def test_actions_of_a_fixed_form_are_left_alone():
    """A shell call of the Responses API has no arguments to shorten: its action has a form."""
    shell = {"type": "shell_call", "call_id": "c0", "action": {"commands": [prose("cmd", 400)]}, "status": "completed"}
    talk = Talk("responses").user("go")
    talk.messages += [shell, {"type": "shell_call_output", "call_id": "c0", "output": [{"stdout": "x", "stderr": ""}]}]
    view = view_of(talk.calls([("Ask", {"n": 1})]))
    edits = ReactiveCompact()(view, target(100, attempt=3, unseen_may_shrink=True))
    assert not any("arguments" in r for e in edits for r in e.replacement if isinstance(r, dict) and "action" in r)


@each_wire
def test_huge_first_message_shrinks_last(wire):
    """What the user typed stays while anything else can go, then keeps its beginning and end."""
    paste = prose("paste", 8_000)
    assert len(paste) > 390_000
    talk = Talk(wire).user(f"FIRST\n{paste}\nLAST").call(*read("a"), prose("a", 100)).call(*read("b"), "b")
    after, _ = hard(talk, 4000)
    text = cases.visible(after.rendered())
    assert after.tokens <= 4000 and "FIRST" in text and "LAST" in text and "a line 50" not in text


def test_images_of_the_user_go_when_they_must():
    talk = Talk("anthropic").user([image(), {"type": "text", "text": "Look."}])
    talk.says("Nice.").user([image(), {"type": "text", "text": "And this."}])
    after, edits = hard(talk, 300)
    assert after.tokens <= 300 and "Look." in cases.visible(after.rendered())
    assert all(e.ref for e in edits)


@each_wire
@pytest.mark.parametrize("window", [1_000, 2_000, 4_000, 6_000])
@pytest.mark.parametrize("policy", ["default", "thrifty", "classic", "nano"])
def test_small_windows_work(wire, window, policy):
    talk = Talk(wire).user("Fix it. The code word is ORCHID-7731.")
    for n in range(25):
        talk.call(*read(f"src/{n}.py"), prose(f"text {n}", 12))
    c = compact(talk.messages, wire, policy, window)
    lawful(talk.messages, c, wire)
    assert c.fits and c.report.tokens_after <= window and "ORCHID-7731" in seen(c)


# ---- how fast


def test_long_histories_cost_little():
    """10,000 messages: no step of a layer may take the whole list for each of its entries."""
    talk = Talk("anthropic").user("go")
    for n in range(5_000):
        talk.call(*read(f"src/{n % 50}.py"), f"text {n} " * 60)
    view = view_of(talk)
    started = time.process_time()
    MicroCompact()(view, target(70_000))
    assert CompactHistory(writer=short)(view, target(70_000))
    folding = time.process_time() - started
    started = time.process_time()
    everything(view, target(view.tokens // 3))
    clearing = time.process_time() - started
    assert folding < 1.0 and clearing < 2.0, (folding, clearing)  # ten times what a quiet machine takes


def test_plans_are_the_same_each_time():
    talk = reasons_talk("chat")
    plans = [[json.dumps(e.replacement) for e in everything(view_of(talk), target(0))] for _ in range(2)]
    assert plans[0] == plans[1]
