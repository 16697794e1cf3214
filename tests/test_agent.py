"""`packlight agent` on the real SDKs, against a scripted server that refuses what the providers refuse."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

import json
import os
import pty
import resource
import select
import signal
import sys
import time

import pytest

from agent_help import (  # noqa: F401
    APIS,
    FORMAT_OF,
    arguments,
    bash,
    every_api,
    is_alive,
    list_of,
    results_in,
    run,
    server_of,
    sessions,
    start,
    until,
    work,
)
from engine import packlight
from packlight.replay.readers import read_sessions
from packlight.testing import Call, Refusal, Reply
from store_help import SOURCE
from talk import unmarked

FIX = Call("edit_file", {"path": "calc.py", "old_string": "a - b", "new_string": "a + b"})
TODOS = {"todos": [{"content": "mend add", "status": "in_progress"}, {"content": "tell the user", "status": "pending"}]}


@every_api
def test_task_is_done(run, work, api):
    script = [
        Reply("Let me look.", (Call("read_file", {"path": "calc.py"}), Call("grep", {"pattern": "add"}))),
        Reply(thinking="a minus", calls=(FIX, bash("python3 -c 'import calc; print(calc.add(2, 3))'"))),
        Reply("Mended.\n\nIt adds now."),
    ]
    with server_of(script) as server:
        code, out, notes = run(*arguments(server, api, "--yes", "mend add"))
    assert (code, server.refusals) == (0, [])
    assert out == "Let me look.\nMended.\n\nIt adds now.\n"
    assert "a + b" in (work / "calc.py").read_text()
    assert results_in(server.requests[-1])[-1] == "5\n"
    assert "call 3: " in notes and "3 model calls, 4 tool calls" in notes
    assert "\x1b" not in notes and "█" not in notes, "no ornament where there is no terminal"


@every_api
def test_rules_are_in_every_request(run, work, api):
    with server_of([Reply(calls=(bash("ls"),)), Reply("Done.")]) as server:
        run(*arguments(server, api, "look"))
    assert all("release-RULE-55" in json.dumps(body) for body in server.requests)
    assert len({json.dumps(body["tools"]) for body in server.requests}) == 1


def test_prompt_cache_is_marked(run, work):
    with server_of([Reply(calls=(bash("ls"),)), Reply("Done.")]) as server:
        run(*arguments(server, "messages", "look"))
    body = server.requests[-1]
    assert json.dumps(body).count("cache_control") == 2
    assert body["system"][-1]["cache_control"] and body["messages"][-1]["content"][-1]["cache_control"]
    assert server.cached_tokens[1] > 0.8 * server.tokens[0]


@every_api
def test_rules_todo_and_words_survive_compaction(run, work, api):
    """Twelve batches of 30 kB through a window of 16,000 tokens."""
    work.joinpath("big.txt").write_text("\n".join(f"line {n}: value_{n * 7919 % 9973}" for n in range(1_000)))
    calls = [Reply(calls=(Call("todo_write", TODOS),))]
    calls += [Reply(calls=(bash(f"sed 's/^/{n} /' big.txt"),)) for n in range(12)]
    with server_of([*calls, Reply("Done.")], window_tokens=16_000) as server:
        options = ("--yes", "--window-tokens", "16k", "--max-tokens", "1000")
        code, _, notes = run(*arguments(server, api, *options, "Never touch migrations/."))
    assert (code, server.refusals) == (0, [])
    last = json.dumps(server.requests[-1])
    assert all(text in last for text in ("Never touch migrations/.", "release-RULE-55", "mend add", "tell the user"))
    assert "packed to" in notes and max(server.tokens) <= 15_000
    (session,) = read_sessions(sessions(work)[0])
    assert (session.reader, session.format, session.turns) == ("agent", FORMAT_OF[api], len(server.tokens))
    usages = [turn.usage for turn in session.segments[0].turns]
    assert usages[0] and usages[-1] is None, "what was counted for an edited request says nothing about the whole"
    assert run("replay", sessions(work)[0], "--policy", "none,default", "--window-tokens", "16k")[0] == 0


@every_api
def test_overflow_is_rescued(run, work, api):
    """A window that nobody told of."""
    script = [Reply(calls=(bash("seq 1 9000"),)), Reply(calls=(bash("seq 1 8000"),)), Reply("Done.")]
    with server_of(script, window_tokens=16_000) as server:
        code, out, notes = run(*arguments(server, api, "--yes", "--max-tokens", "1000", "count"))
    assert code == 0 and out.endswith("Done.\n")
    assert 1 <= len(server.refusals) <= 3 and "refused it for its length" in notes


def test_sub_agent_has_its_own_context(run, work):
    def script(number, body):
        if "COUNT" in json.dumps(list_of(body)[-3:]) and "MAIN" not in json.dumps(body):
            return Reply("Seven.") if results_in(body) else Reply("Hm.", (Call("glob", {"pattern": "*"}),))
        return (
            Reply("Seven it is.") if results_in(body) else Reply(calls=(Call("task", {"prompt": "COUNT the files"}),))
        )

    with server_of(script) as server:
        code, out, notes = run(*arguments(server, "chat", "MAIN: how many?"))
    assert (code, out, server.refusals) == (0, "Seven it is.\n", [])
    assert results_in(server.requests[-1]) == ["Seven."]
    assert "task" not in [t["function"]["name"] for t in server.requests[1]["tools"]]
    assert "  | Hm." in notes
    assert len(list((work.parent / "state").rglob("tasks/*.jsonl"))) == 1


def test_recall_brings_back_what_was_taken_out(run, work):
    work.joinpath("big.txt").write_text("\n".join(f"line {n}: value_{n * 7919 % 9973}" for n in range(4_000)))
    script = [
        Reply(calls=(bash("cat big.txt"),)),
        Reply(calls=(Call("recall", {"query": "line 2000"}),)),
        Reply("Done."),
    ]
    with server_of(script, window_tokens=32_000) as server:
        options = ("--yes", "--window-tokens", "32k", "--max-tokens", "1000")
        assert run(*arguments(server, "chat", *options, "read"))[0] == 0
    assert server.refusals == [] and "line 0: value_0\nline 1" in results_in(server.requests[-1])[1]


@every_api
def test_model_may_compact(run, work, api):
    calls = tuple(bash(f"seq {n}000 {n}999") for n in range(1, 5))
    script = [
        *(Reply(calls=(c,)) for c in calls),
        Reply(calls=(Call("compact", {"focus": "numbers"}),)),
        Reply("Done."),
    ]
    with server_of(script) as server:
        code, _, notes = run(*arguments(server, api, "--yes", "count"))
    assert (code, server.refusals) == (0, []) and "asked for" in notes
    assert server.tokens[-1] < 0.7 * server.tokens[-2]


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_broken_calls_are_told(run, work, api):
    calls = (Call("read_file", '{"path": '), Call("rm", {}), Call("read_file", {"file": "x"}), Call("bash", "[]"))
    with server_of([Reply(calls=calls), Reply("Done.")]) as server:
        server.judge = None  # broken arguments are the model's own
        assert run(*arguments(server, api, "go"))[0] == 0
    told = results_in(server.requests[-1])
    assert [text[:40] for text in told] == [
        "Error: the arguments are no JSON",
        "Error: there is no tool 'rm': bash, comp",
        "Error: unknown argument 'file': read_fil",
        "Error: the arguments are no object",
    ]


@every_api
def test_answer_that_was_cut_goes_on(run, work, api):
    with server_of([Reply("One, two", is_cut=True), Reply("three.")]) as server:
        code, out, _ = run(*arguments(server, api, "count"))
    assert (code, server.refusals, len(server.requests)) == (0, [], 2)
    assert out == "One, two\nthree.\n"


@every_api
def test_server_that_answers_nothing_is_given_up(run, work, api):
    with server_of([Reply(is_cut=True)] * 9) as server:
        code, _, notes = run(*arguments(server, api, "count"))
    assert code == 1 and len(server.requests) == 4 and server.refusals == []
    assert "--max-tokens 8000" in notes


@every_api
@pytest.mark.parametrize("status", [401, 404, 422])
def test_refusal_is_one_line(run, work, api, status):
    with server_of([Refusal(status, "no such thing here")]) as server:
        code, out, notes = run(*arguments(server, api, "go"))
    assert (code, out) == (1, "") and "packlight: the model's server: no such thing here\n" in notes
    assert "Traceback" not in notes


def test_unreachable_server_is_one_line(run, work):
    with server_of([]) as server:
        argv = arguments(server, "chat", "go")
    os.environ.pop("OPENAI_API_KEY", None)
    code, _, notes = run(*argv)
    assert code == 1 and "packlight: the model's server: Connection error." in notes


def test_turns_are_limited(run, work):
    with server_of(lambda number, body: Reply(calls=(bash("ls"),))) as server:
        code, _, notes = run(*arguments(server, "chat", "--max-turns", "3", "loop"))
    assert code == 1 and len(server.requests) == 3 and "stopped after 3 model calls" in notes


def test_missing_key_is_one_line(run, work, monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for model, key in (("claude-opus-5-5", "ANTHROPIC_API_KEY"), ("gpt-5.6", "OPENAI_API_KEY")):
        assert run("agent", "--model", model, "go") == (2, "", f"packlight: {key} is not set\n")
    assert run("agent", "go")[2].startswith("packlight: no model: give --model M, or set")
    assert sessions(work) == []


def test_missing_extra_is_one_line(run, work, monkeypatch):
    monkeypatch.setitem(sys.modules, "anthropic", None)
    told = run("agent", "--model", "claude-opus-5-5", "go")
    assert told == (2, "", "packlight: the anthropic package is missing: pip install 'packlight[anthropic]'\n")


def test_servers_first_model_is_taken(run, work):
    with server_of([Reply("Hello.")]) as server:
        assert run("agent", "--base-url", server.openai_url, "hi")[:2] == (0, "Hello.\n")
    assert server.requests[0]["model"] == "scripted" and server.requests[0]["max_tokens"] == 8_000


def test_json_summary(run, work):
    with server_of([Reply("Look.", (bash("ls"),)), Reply("Done.")]) as server:
        code, out, _ = run(*arguments(server, "chat", "--json", "go"))
    told = json.loads(out)
    assert code == 0 and told["answer"] == "Done." and told["finished"]
    assert (told["model_calls"], told["tool_calls"], told["rescues"]) == (2, 1, 0)
    assert read_sessions(told["session"])[0].turns == 2


# --- crashes and interrupts ------------------------------------------------------------------------------------------


@every_api
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["INT", "TERM", "KILL"])
def test_session_goes_on_after_the_agent_was_stopped(work, start, api, number):
    """In the middle of a command: its group is ended (not after a kill), the call answered, the same bytes are sent."""
    waits = bash("echo $$ > pid; exec sleep 600")
    script = [
        Reply(calls=(bash("seq 1 3000"),)),
        Reply(calls=(bash("echo one"), waits, bash("echo never"))),
        Reply("Done."),
    ]
    with server_of(script, window_tokens=16_000) as server:
        options = ("--yes", "--window-tokens", "16k", "--max-tokens", "1000")
        agent = start(server, api, *options, "wait")
        child = int(until(lambda: (work / "pid").exists() and (work / "pid").read_text()))
        agent.send_signal(number)
        _, notes = agent.communicate(timeout=60)
        assert agent.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number], notes
        if number == signal.SIGKILL:
            os.kill(child, signal.SIGKILL)
        until(lambda: not is_alive(child))
        again = start(server, api, *options, "--continue", "and now?")
        out, notes = again.communicate(timeout=60)
    assert (again.returncode, out, server.refusals) == (0, "Done.\n", []), notes
    before, after = unmarked(list_of(server.requests[1])), unmarked(list_of(server.requests[2]))
    assert after[: len(before)] == before
    told = results_in(server.requests[2])
    assert "Error: interrupted before it ended" in told[-1] and "and now?" in json.dumps(server.requests[2])
    assert ("one\n" in told) == (number != signal.SIGKILL)
    assert len(sessions(work)) == 1


def test_session_that_a_crash_cut_goes_on(run, work):
    with server_of([Reply(calls=(bash("ls"),)), Reply("Done."), Reply("Again.")]) as server:
        run(*arguments(server, "chat", "go"))
        (path,) = sessions(work)
        path.write_bytes(path.read_bytes()[:-40])  # the model's last words
        code, out, _ = run(*arguments(server, "chat", "--continue"))
        assert (code, out, server.refusals) == (0, "Again.\n", [])
    assert list_of(server.requests[1]) == list_of(server.requests[2])
    (session,) = read_sessions(path)
    assert session.turns == 3 and "broken record" in session.notes[0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of another process: Linux only")
@every_api
def test_kill_while_the_disk_takes_nothing_loses_the_end_only(work, start, api):
    """The agent goes on in memory; what was not written is lost with it, and what is left is valid."""
    agents = []

    def script(number, body):
        if number == 2:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.prlimit(agents[0].pid, resource.RLIMIT_FSIZE, (100, hard))
        calls = {1: bash("echo one"), 2: bash("echo two"), 3: bash("echo $$ > pid; exec sleep 600")}
        return Reply(calls=(calls[number],)) if number in calls else Reply("Done.")

    with server_of(script) as server:
        agents.append(start(server, api, "--yes", "wait"))
        child = int(until(lambda: (work / "pid").exists() and (work / "pid").read_text()))
        agents[0].kill()
        os.kill(child, signal.SIGKILL)
        assert "the session can't be written" in agents[0].communicate(timeout=60)[1]
        out, notes = start(server, api, "--yes", "--continue", "and now?").communicate(timeout=60)
    assert (out, server.refusals) == ("Done.\n", []), notes
    assert results_in(server.requests[2]) == ["one\n", "two\n"]
    assert results_in(server.requests[3]) == ["one\n"] and "and now?" in json.dumps(server.requests[3])


def test_session_that_ended_wants_a_new_task(run, work):
    with server_of([Reply("Done.")]) as server:
        run(*arguments(server, "chat", "go"))
        code, _, notes = run(*arguments(server, "chat", "--continue"))
        assert code == 2 and "give it a new task" in notes
        (path,) = sessions(work)
        assert run(*arguments(server, "chat", "--continue", path, "more"))[:2] == (0, "Done.\n")
    assert [m["content"] for m in list_of(server.requests[-1])[1:]] == ["go", "Done.", "more"]


def test_session_belongs_to_its_folder_and_to_one_agent(run, work, start, monkeypatch):
    with server_of([Reply(calls=(bash("sleep 600"),))]) as server:
        agent = start(server, "chat", "--yes", "wait")
        until(lambda: sessions(work) and len(server.requests) == 1)
        assert "another agent is at work" in run(*arguments(server, "chat", "--continue", "go"))[2]
        agent.terminate()
        agent.communicate(timeout=60)
        (path,) = sessions(work)
        (work / "inner").mkdir()
        monkeypatch.chdir(work / "inner")
        assert run(*arguments(server, "chat", "--continue", "go"))[2].endswith("there is no session to continue\n")
        assert f"belongs to {work}" in run(*arguments(server, "chat", "--continue", path, "go"))[2]
        (work / "inner" / "other.jsonl").write_text('{"role": "user", "content": "hi"}\n')
        assert "is no session" in run(*arguments(server, "chat", "--continue", "other.jsonl", "go"))[2]


def test_changed_rules_are_told(run, work):
    """What was sent before stays as it was."""
    with server_of([Reply("Done."), Reply("Yes.")]) as server:
        run(*arguments(server, "messages", "go"))
        (work / "AGENTS.md").write_text("Now RULE-77 holds.\n")
        run(*arguments(server, "messages", "--continue", "on"))
    first, second = server.requests
    assert first["system"] == second["system"] and "RULE-77" in json.dumps(second["messages"])
    assert server.refusals == []


def test_what_was_taken_out_is_found_by_the_command_line(run, work):
    work.joinpath("big.txt").write_text("needle_77 " * 9_000)
    with server_of([Reply(calls=(bash("cat big.txt"),)), Reply("Done.")], window_tokens=16_000) as server:
        run(*arguments(server, "chat", "--window-tokens", "16k", "--max-tokens", "1000", "--store", "kept", "go"))
    assert server.refusals == []
    assert packlight.recall(work / "kept", "needle_77")[0].text.count("needle_77") == 9_000
    assert run("recall", "needle_77", "--store", "kept")[0] == 0


# --- a conversation --------------------------------------------------------------------------------------------------


@every_api
def test_conversation_with_commands(run, work, api):
    lines = b"/help\nhello\n\n/context\n/compact the numbers\nmore\n/nonsense\n/quit\nnever said\n"
    script = [Reply(calls=(bash("seq 1 2000"),)), Reply("Hello."), Reply("More.")]
    with server_of(script) as server:
        code, out, notes = run(*arguments(server, api, "--yes", "-i"), stdin=lines)
    assert (code, out, server.refusals) == (0, "Hello.\nMore.\n", [])
    assert "interrupts the turn" in notes and "there is no /nonsense" in notes and "asked for" in notes
    for kind in ("system", "tool definitions", "results of bash", "user", "assistant", "calls"):
        assert f"\n  {kind} " in notes
    assert "never said" not in json.dumps(server.requests)
    assert FORMAT_OF[api] == read_sessions(sessions(work)[0])[0].format


def test_ornament_and_questions_on_a_terminal(work):
    """Bars and colours there, unless NO_COLOR; and the person is asked."""
    script = [Reply(calls=(bash("rm calc.py\x1b[2K"),)), Reply("So not.")]
    with server_of(script) as server:
        argv = arguments(server, "chat", "--window-tokens", "32k", "-i", "go")
        seen, code = typed(argv, "leave it\n", "/quit\n")
    assert code == 0 and "run: rm calc.py\\x1b[2K" in seen, "nothing is hidden from who is asked"
    assert "█" in seen and "\x1b[2mcall 1: " in seen and "So not." in seen
    assert results_in(server.requests[-1]) == ["Error: the user does not allow it: leave it"]
    assert (work / "calc.py").exists()


def typed(argv, *answers):
    """What a person sees who types these when asked, and the exit code."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(PYTHONPATH=str(SOURCE), TERM="xterm", NO_COLOR="")
        os.execv(sys.executable, [sys.executable, "-m", "packlight", *map(str, argv)])
    seen, waiting = "", list(answers)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            seen += os.read(terminal, 4_096).decode("utf-8", "replace")
        except OSError:  # the terminal is closed at its end
            break
        if waiting and seen.endswith(("why not: ", "\n> ")):
            os.write(terminal, waiting.pop(0).encode())
    os.close(terminal)
    return seen, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_context_adds_up(run, work):
    lines = b"/context\n"
    with server_of([Reply(calls=(bash("seq 1 2000"),)), Reply("Hello.")]) as server:
        _, _, notes = run(*arguments(server, "chat", "--yes", "-i", "hello"), stdin=lines)
    rows = [
        line.split()
        for line in notes.splitlines()
        if line.startswith("  ") and line.split()[-1].replace(",", "").isdigit()
    ]
    counted = sum(int(row[-1].replace(",", "")) for row in rows)
    assert counted == pytest.approx(server.tokens[-1], rel=0.2)
