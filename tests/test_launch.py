"""`packlight run` and `packlight doctor`: a command behind a proxy, and whether the real path works."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from packlight.proxy.launch import launch_of, told
from packlight.testing import Call, ModelServer, Refusal, Reply

URL = "http://127.0.0.1:9"
PRINTS = "import os, sys; print(os.environ['OPENAI_BASE_URL'], *sys.argv[1:])"
GROWS = """
import anthropic
client = anthropic.Anthropic(api_key="key-of-the-user", max_retries=0)
tools = [{"name": "bash", "input_schema": {"type": "object"}}]
messages = [{"role": "user", "content": "count; remember RULE-7"}]
while True:
    reply = client.messages.create(model="scripted", max_tokens=500, messages=messages, tools=tools)
    messages.append({"role": "assistant", "content": reply.content})
    calls = [b for b in reply.content if b.type == "tool_use"]
    if not calls:
        break
    results = [{"type": "tool_result", "tool_use_id": b.id, "content": "some words " * 600} for b in calls]
    messages.append({"role": "user", "content": results})
print(reply.content[0].text)
"""


def packlight(*arguments: str, state: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ANTHROPIC", "OPENAI", "CLAUDE", "CODEX"))}
    return subprocess.run(
        [sys.executable, "-m", "packlight", *arguments],
        env={**clean, "HOME": str(state), "XDG_STATE_HOME": str(state), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


# --- what is set ----------------------------------------------------------------------------------------------------


def test_claude_is_told_by_its_environment():
    launch = launch_of(["/usr/bin/claude", "-p", "hi"], URL, {})
    assert launch.command == ("/usr/bin/claude", "-p", "hi")
    assert launch.environment == {"ANTHROPIC_BASE_URL": URL}


def test_codex_is_told_on_its_command_line_before_its_own_arguments():
    command = launch_of(["codex", "exec", "do it"], URL, {}).command
    assert command == ("codex", "-c", f'openai_base_url="{URL}/v1"', "exec", "do it")


def test_what_is_told_can_be_typed():
    line = told(launch_of(["my agent", "x y"], URL, {}))
    assert line.endswith("'my agent' 'x y'")
    assert f"OPENAI_BASE_URL={URL}/v1" in line


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ({"HTTPS_PROXY": "http://proxy.example"}, "127.0.0.1"),
        ({"all_proxy": "socks5://proxy.example", "NO_PROXY": "a.example"}, "a.example,127.0.0.1"),
        ({"http_proxy": "http://proxy.example", "no_proxy": "b.example, 127.0.0.1"}, None),
        ({"http_proxy": "http://proxy.example", "no_proxy": "*"}, None),
        ({"http_proxy": "", "no_proxy": "b.example"}, None),
    ],
)
def test_a_proxy_of_the_network_is_not_asked_for_this_machine(given, added):
    told = {
        name: value for name, value in launch_of(["any"], URL, given).environment.items() if "proxy" in name.lower()
    }
    assert told == ({} if added is None else {"no_proxy": added, "NO_PROXY": added})


# --- run ------------------------------------------------------------------------------------------------------------


def test_run_keeps_an_agent_working_past_its_window_and_says_what_was_done(tmp_path):
    def script(number, body):
        return Reply(calls=(Call("bash", {"command": f"seq {number}"}),)) if number < 25 else Reply("all done")

    with ModelServer(script, window_tokens=12_000) as server:
        ran = packlight("run", "--", sys.executable, "-c", GROWS, state=tmp_path, ANTHROPIC_BASE_URL=server.url)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "all done\n"
    first, page, *last = ran.stderr.splitlines()
    assert page.startswith("packlight: live page http://127.0.0.1:")
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:" in first
    assert "compactions, 1 rescued from a refusal" in last[0]
    assert "the conversation grew to" in last[1]
    assert len(server.refusals) == 1
    assert all("RULE-7" in json.dumps(body) for body in server.requests)
    kept = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"key-of-the-user" not in kept


def test_run_of_a_conversation_that_has_its_edits_already_says_so(tmp_path):
    """As when an agent resumes: nothing new is due, and yet not everything is sent."""
    ends = []
    for _ in range(2):
        script = [Reply(calls=(Call("bash", {"command": f"seq {n}"}),)) for n in range(9)]
        with ModelServer(script) as server:
            line = ("run", "--window-tokens", "9k", "--", sys.executable, "-c", GROWS)
            ends.append(packlight(*line, state=tmp_path, ANTHROPIC_BASE_URL=server.url).stderr.splitlines()[2:])
    assert "compactions" in ends[0][0]
    assert "sent with earlier edits, no new ones" in ends[1][0]
    assert "were sent in all, instead of" in ends[1][1]


def test_run_is_passed_through_where_the_network_has_a_proxy(tmp_path):
    nowhere = {"HTTP_PROXY": URL, "http_proxy": URL, "NO_PROXY": "", "no_proxy": ""}
    asks = "import os, urllib.request as u; print(u.urlopen(os.environ['ANTHROPIC_BASE_URL'] + '/healthz').status)"
    ran = packlight("run", "--", sys.executable, "-c", asks, state=tmp_path, **nowhere)
    assert ran.stdout == "200\n", ran.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_run_exits_as_the_command_does(tmp_path, code):
    ran = packlight("run", "--", sys.executable, "-c", f"raise SystemExit({code})", state=tmp_path)
    assert ran.returncode == code
    assert "0 requests; nothing was changed" in ran.stderr


def test_run_passes_arguments_on_as_they_are(tmp_path):
    ran = packlight("run", sys.executable, "-c", PRINTS, "--json", "-x", "a b", state=tmp_path)
    assert ran.stdout.split(" ", 1)[1] == "--json -x a b\n"


@pytest.mark.parametrize(("arguments", "says"), [((), "run what?"), (("no-such-command",), "there is no such command")])
def test_run_says_what_it_can_not_run(tmp_path, arguments, says):
    ran = packlight("run", *arguments, state=tmp_path)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


def test_run_sends_a_signal_on_and_ends_with_the_command(tmp_path):
    line = "import time; print('up', flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-m", "packlight", "run", "--", sys.executable, "-c", line],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert process.wait(30) == 128 + signal.SIGTERM
    assert time.monotonic() - began < 30
    process.stdout.close()


# --- doctor ---------------------------------------------------------------------------------------------------------


def doctor(server: ModelServer, *arguments: str, state: Path, **environment: str) -> tuple[int, dict[str, dict]]:
    told = {"ANTHROPIC_BASE_URL": server.url, "OPENAI_BASE_URL": server.openai_url}
    keys = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}
    ran = packlight("doctor", "--json", *arguments, state=state, **told, **keys, **environment)
    assert ran.stderr == ""
    return ran.returncode, {check["name"]: check for check in json.loads(ran.stdout)}


def test_doctor_sends_real_requests_and_has_one_compacted(tmp_path):
    with ModelServer(lambda number, body: Reply("ok")) as server:
        code, checks = doctor(server, "--model", "scripted", state=tmp_path)
    assert code == 0
    for api in ("Anthropic", "OpenAI", "OpenAI Responses"):
        assert checks[f"{api}, streamed"]["ok"]
        assert "took it: " in checks[f"{api}, compacted"]["said"]
    assert len(server.requests) == 9
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_doctor_says_in_the_providers_words_why_a_key_does_not_work(tmp_path):
    with ModelServer(lambda number, body: Refusal(status=401, message="invalid x-api-key", code="auth")) as server:
        code, checks = doctor(server, "--model", "scripted", state=tmp_path)
    assert code == 1
    assert checks["Anthropic, streamed"]["said"] == "scripted: 401: invalid x-api-key"
    assert "Anthropic, compacted" not in checks


def test_doctor_asks_for_a_model_when_the_list_has_none_that_it_knows(tmp_path):
    with ModelServer([]) as server:
        code, checks = doctor(server, state=tmp_path)
    assert code == 1
    assert "name one with --model" in checks["OpenAI"]["said"]


def test_doctor_sees_what_leads_around_the_proxy(tmp_path):
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text('{"env": {"ANTHROPIC_BASE_URL": "https://other.example"}}')
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text('model_provider = "mine"\n')
    ran = packlight("doctor", state=tmp_path, CLAUDE_CODE_USE_BEDROCK="1")
    assert ran.returncode == 1
    bad = [line for line in ran.stdout.splitlines() if line.startswith("BAD")]
    assert len(bad) == 3
    assert "\x1b" not in ran.stdout
    assert "neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set" in ran.stdout


def test_doctor_calls_nothing_well_that_it_did_not_look_at(tmp_path):
    ran = packlight("doctor", state=tmp_path, PATH="/nonexistent")
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0 and lines[0].startswith("ok   what is kept")
    assert [line.split(":")[0] for line in lines if not line.startswith("ok")] == ["-    agents", "-    API keys"]


def test_doctor_runs_an_agent_with_its_own_login(tmp_path):
    agent = tmp_path / "claude"
    login = "import urllib.request, os, json, sys\n" + (
        "assert sys.argv[1] == '-p'\n"
        "body = json.dumps({'model': 'scripted', 'max_tokens': 9, 'messages': [{'role': 'user', 'content': 'x'}]})\n"
        "headers = {'Authorization': 'Bearer sk-ant-oat01-secret', 'Content-Type': 'application/json'}\n"
        "url = os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages'\n"
        "print(urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers)).read())\n"
    )
    agent.write_text(f"#!{sys.executable}\n{login}")
    agent.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with ModelServer([Reply("ok")]) as server:
        code, checks = doctor(server, "claude", state=tmp_path, PATH=path)
    assert code == 0
    assert checks["claude"]["said"].startswith("scripted answered through the proxy (login; ")


def test_doctor_says_that_an_agent_went_around(tmp_path):
    agent = tmp_path / "codex"
    agent.write_text("#!/bin/sh\necho no network here\nexit 4\n")
    agent.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with ModelServer([]) as server:
        code, checks = doctor(server, "codex", state=tmp_path, PATH=path)
    assert code == 1
    assert checks["codex"]["said"] == "no request came through the proxy (it exited with 4): no network here"


# --- purge ----------------------------------------------------------------------------------------------------------


def test_purge_removes_what_the_proxy_remembers(tmp_path):
    def script(number, body):
        return Reply(calls=(Call("bash", {"command": f"seq {number}"}),)) if number < 9 else Reply("all done")

    with ModelServer(script) as server:
        line = ("run", "--window-tokens", "9k", "--", sys.executable, "-c", GROWS)
        assert packlight(*line, state=tmp_path, ANTHROPIC_BASE_URL=server.url).returncode == 0
    assert packlight("purge", state=tmp_path).returncode == 2
    assert "0 compactions" in packlight("purge", "--keep-days", "1", state=tmp_path).stdout
    gone = json.loads(packlight("purge", "--all", "--json", state=tmp_path).stdout)
    assert gone["batches"] >= 1
    assert gone["documents"] == gone["blobs"] == 0
    assert packlight("purge", "--all", "--store", str(tmp_path / "none"), state=tmp_path).returncode == 2
