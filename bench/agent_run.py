"""A long run of `packlight agent` through a small window, with faults thrown in: does it end, and is all there?

    python bench/agent_run.py                   # 2,000 tool calls an API, 32k window; writes bench/results/agent_run.md
    python bench/agent_run.py --calls 200 --api chat --seed 7

The agent is a real process on the real SDKs. The model is a script of `packlight.testing`, whose window is enforced and
whose requests are judged by tests/checker.py, which knows nothing of the engine. Tool outputs are 1 to 400 kB. Faults:
the window shrinks unannounced (the next request is refused for its length), `kill -9` at a random moment and resume
with a new demand of the user, and a disk on which no file can grow.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import checker  # noqa: E402
import packlight  # noqa: E402
from packlight.agent.session import Session  # noqa: E402
from packlight.testing import FAULTS, Call, ModelServer, Refusal, Reply, ScriptedSummariser  # noqa: E402
from packlight.types import SummaryRequest  # noqa: E402

Json = Any
RESULTS = ROOT / "bench" / "results" / "agent_run.md"
APIS = {"messages": "anthropic", "chat": "chat", "responses": "responses"}
TASK = "Audit every module. Never touch migrations/. The code word is ORCHID-7731."
DEMANDS = [f"Also: keep {word}, whatever happens." for word in ("PEONY-1188", "TULIP-2299", "ASTER-3410", "IRIS-4521")]
SMALLEST, LARGEST = 1_000, 400_000
ROOM_TOKENS = 2_000
_EMIT = """#!/bin/sh
# emit NUMBER CHARS: lines of code-like text, different for each number
exec awk -v n="$1" -v size="$2" 'BEGIN { srand(n); while (written < size) { line++;
  text = sprintf("src/pkg_%d/module_%d.py:%d: value_%d_%d = compute(%d, \\"%x\\")", n % 9, n, line, n, line,
    int(rand() * 100000), int(rand() * 16777216)); print text; written += length(text) + 1 } }'
"""


@dataclass
class Plan:
    """What happens when, by the number of the model's answer."""

    calls: int
    kills: set[int]
    windows: dict[int, int]
    full_disk: range


def plan_of(calls: int, window_tokens: int) -> Plan:
    answers = calls * 2 // 3
    return Plan(
        calls=calls,
        kills={answers * n // 5 for n in (1, 2, 3, 4)},
        windows={answers * 3 // 10: window_tokens * 13 // 16, answers * 7 // 10: window_tokens * 11 // 16},
        full_disk=range(answers * 9 // 20, answers * 10 // 20),
    )


@dataclass
class Seen:
    """What the model's side saw."""

    invalid: list[str] = field(default_factory=list)
    forgotten: list[tuple[int, str]] = field(default_factory=list)
    """Requests that lacked something the user had said."""
    refs: set[str] = field(default_factory=set)
    breaks: int = 0
    """Requests that do not begin with the one before."""
    after_kill: list[tuple[bool, bool]] = field(default_factory=list)
    """Whether the first request after a kill begins with the last one before it, byte for byte; and whether a batch
    was made between them."""
    kills: int = 0
    summaries: int = 0
    disk_full_answers: int = 0


class Lives(ModelServer):
    """Tells which life of the agent a request comes from: those of a killed one may still be on their way."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._now = threading.local()

    @property
    def life(self) -> int:
        return self._now.life

    def respond(self, path: str, headers: dict[str, str], body: Json) -> tuple[int, str, str]:
        found = re.search(r"/life(\d+)/", path)
        self._now.life = int(found[1]) if found else 0
        return super().respond(path, headers, body)


class Run:
    """One run; `finish()` gives its figures."""

    def __init__(
        self, folder: Path, api: str, plan: Plan, window_tokens: int, seed: int, policy: str, has_writer: bool
    ) -> None:
        self.folder, self.api, self.plan, self.policy, self.has_writer = folder, api, plan, policy, has_writer
        self.window_tokens = window_tokens
        self.random = random.Random(seed)
        self.seen = Seen()
        self.said = [TASK]
        self.emitted = 0
        self.process: subprocess.Popen[str] | None = None
        self.killer: threading.Timer | None = None
        self.calls_since_full = 1
        self.log = ""
        self.server = Lives(self.answer, window_tokens=window_tokens, judge=self.judge)
        self._last: list[str] = []
        self._last_batches = 0
        self._was_killed = False
        self.work = folder / "work"
        self.work.mkdir()
        (self.work / "emit").write_text(_EMIT)
        (self.work / "emit").chmod(0o755)
        (self.work / "AGENTS.md").write_text("Answer in English. Never push to the branch release-RULE-55.\n")
        (self.work / "notes.py").write_text("".join(f"NOTE_{n} = 0\n" for n in range(40)))

    # --- the model ------------------------------------------------------------------------------------------------

    def judge(self, wire: str, body: Json) -> list[str]:
        """What the provider would find wrong; and what this run wants to know of each request."""
        found = checker.check(body, wire)
        self.seen.invalid += found
        if "tools" not in body:  # a summary is asked for
            return found
        text = json.dumps(body, ensure_ascii=False)
        if not is_helper(text):
            self._watch(text, body)
        return found

    def _watch(self, text: str, body: Json) -> None:
        number = len(self.server.tokens) + 1
        wanted = [
            *self.said[: self.server.life + 1],
            "release-RULE-55",
            *(["audit every module"] if number > 3 else []),
        ]
        self.seen.forgotten += [(number, s) for s in wanted if s not in text]
        now = [json.dumps(_unmarked(m)) for m in body.get("messages") or body["input"]]
        self.seen.refs |= set(re.findall(r"\bref ([0-9a-f]{12,})", " ".join(now)))
        if self._last and now[: len(self._last)] != self._last:
            self.seen.breaks += 1
        if self._was_killed and self.server.life == self.seen.kills:
            is_same = now[: len(self._last)] == self._last
            self.seen.after_kill.append((is_same, self._batches() > self._last_batches))
            self._was_killed = False
        self._last, self._last_batches = now, self._batches()

    def _summarise(self, body: Json) -> Reply | Refusal:
        """A model that writes summaries, and fails at it in every way it knows, at every other call."""
        self.seen.summaries += 1
        word = "good" if self.seen.summaries % 2 else FAULTS[self.seen.summaries // 2 % len(FAULTS)]
        prompt = json.loads(json.dumps((body.get("messages") or body["input"])[-1]["content"]))
        prompt = prompt if isinstance(prompt, str) else prompt[-1]["text"]
        try:
            said = ScriptedSummariser(word).ask(SummaryRequest(system="", prompt=prompt, max_tokens=4_000))
        except ConnectionError:
            return Refusal(500, "the connection was closed")
        if said.error is not None:
            return Refusal(429, str(said.error))
        return Reply(said.text or " ", is_cut=said.stop_reason in ("max_tokens", "length"))

    def answer(self, number: int, body: Json) -> Reply | Refusal:
        if "tools" not in body:
            return self._summarise(body)
        text = json.dumps(body, ensure_ascii=False)
        if is_helper(text):
            return self._help(text)
        if self.server.life < self.seen.kills:
            return Reply("Nobody hears this.")
        self._fault(number)
        if self.emitted >= self.plan.calls:
            if self.killer is not None:
                self.killer.join()
            return Reply("The audit has ended.")
        calls = tuple(self._calls(number))
        self.emitted += len(calls)
        return Reply(text=f"Step {number}." if number % 4 == 0 else "", calls=calls, thinking=f"thought {number}")

    def _calls(self, number: int) -> Iterator[Call]:
        n = self.emitted + 1
        if number == 2:
            items = [("audit every module", "in_progress"), ("write the report", "pending")]
            yield Call("todo_write", {"todos": [{"content": c, "status": s} for c, s in items]})
        elif number % 40 == 7:
            yield Call("recall", {"query": f"emit {max(1, n // 2)} "})
        elif number % 90 == 31:
            yield Call("compact", {"focus": "the audit"})
        elif number % 120 == 51:
            yield Call("task", {"prompt": f"HELPER-TASK {n}: emit a little and say how much."})
        elif number % 15 == 3:
            yield Call("read_file", {"path": "notes.py"})
            line = f"NOTE_{n % 40} = "
            yield Call("bash", {"command": f"sed -i 's/^{line}.*/{line}{n}/' notes.py && tail -n 40 notes.py"})
        elif number % 25 == 9:
            yield Call("write_file", {"path": f"report/part_{n}.md", "content": f"# Part {n}\n" + "finding\n" * 20})
        else:
            for k in range(self.random.choice((1, 1, 2, 3))):
                size = round(SMALLEST * (LARGEST / SMALLEST) ** self.random.random())
                yield Call("bash", {"command": f"./emit {n + k} {size}"})

    def _help(self, text: str) -> Reply:
        if '"./emit 1 ' in text.replace("\\", ""):
            return Reply("It printed enough.")
        return Reply(calls=(Call("bash", {"command": "./emit 1 30000"}),))

    # --- the faults -----------------------------------------------------------------------------------------------

    def _fault(self, number: int) -> None:
        """One at a time: who is killed while the disk takes nothing, or before a call after it, loses what was said."""
        for at in [at for at in self.plan.windows if at <= number]:
            self.server.window_tokens = self.plan.windows.pop(at)
        disk, is_dying = self.plan.full_disk, self.killer is not None and self.killer.is_alive()
        is_full = not is_dying and number >= disk.start and self.seen.disk_full_answers < len(disk)
        self.seen.disk_full_answers += is_full
        self.calls_since_full = 0 if is_full else self.calls_since_full + 1
        assert self.process is not None
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (4_096 if is_full else hard, hard))
        due = [at for at in sorted(self.plan.kills) if at <= number]
        if due and not is_dying and self.calls_since_full > 1:
            self.plan.kills.discard(due[0])
            self.killer = threading.Timer(self.random.random() * 0.3, self._kill, [self.process])
            self.killer.start()

    def _kill(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)

    # --- the agent ------------------------------------------------------------------------------------------------

    def go(self) -> int:
        """The agent from its task to its end, through every kill; its exit code."""
        with self.server:
            more = [TASK]
            while True:
                code = self._once(more)
                if code != -signal.SIGKILL:
                    return code
                self.seen.kills += 1
                self._was_killed = True
                demand = DEMANDS[(self.seen.kills - 1) % len(DEMANDS)]
                self.said.append(demand)
                more = ["--continue", demand]

    def _once(self, more: list[str]) -> int:
        url = f"{self.server.url}/life{self.seen.kills}{'' if self.api == 'messages' else '/v1'}"
        options = ["--yes", "--base-url", url, "--api", self.api, "--model", "scripted", "--max-turns", "100000"]
        options += ["--window-tokens", str(self.window_tokens), "--max-tokens", str(ROOM_TOKENS)]
        options += ["--policy", self.policy, *(["--writer", "self"] if self.has_writer else [])]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }
        command = [sys.executable, "-m", "packlight", "agent", *options, *more]
        io: Json = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen(command, cwd=self.work, env=environment, **io) as process:
            self.process = process
            assert process.stdout is not None
            self.log += process.stdout.read()
        return process.returncode

    def _batches(self) -> int:
        """How many are recorded: one more after a kill was made by the resumed agent, or by the killed one, which never
        sent it."""
        count = 0
        for path in (self.folder / "state").rglob("store/store.db"):
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
                count += db.execute("SELECT count(*) FROM batches").fetchone()[0]
        return count

    # --- what came of it ------------------------------------------------------------------------------------------

    def finish(self) -> dict[str, Json]:
        started = time.time()
        code = self.go()
        seconds = time.time() - started
        path = max((self.folder / "state").rglob("sessions/*/*.jsonl"), key=lambda p: p.stat().st_size)
        session = Session.load(path)
        session.close()
        store = path.with_suffix("") / "store"
        last = next(r for r in reversed(self.server.requests) if "tools" in r and not is_helper(json.dumps(r)))
        stored = sum(f.stat().st_size for f in store.iterdir())
        return {
            "ended": code == 0 and "The audit has ended." in self.log,
            "tool_calls": self.emitted,
            "model_calls": len(self.server.tokens),
            "history_bytes": path.stat().st_size,
            "store_bytes": stored,
            "mean_tokens": sum(self.server.tokens) // max(1, len(self.server.tokens)),
            "peak_tokens": max(self.server.tokens),
            "cached": sum(self.server.cached_tokens) / max(1, sum(self.server.tokens)),
            "batches": len(re.findall(r"^packed to ", self.log, re.MULTILINE)),
            "breaks": self.seen.breaks,
            "refused_for_length": sum("too long" in r or "maximum context" in r for r in self.server.refusals),
            "other_refusals": [r for r in self.server.refusals if not any(words in r for words in _EXPECTED)],
            "invalid": self.seen.invalid,
            "kills": self.seen.kills,
            "summaries": self.seen.summaries,
            "after_kill": self.seen.after_kill,
            "disk_full_answers": self.seen.disk_full_answers,
            "forgotten": self.seen.forgotten,
            "restored": _equal(packlight.restore(last, store, all=True, format=APIS[self.api]), session.messages),
            "lost_refs": [ref for ref in sorted(self.seen.refs) if not packlight.recall(store, ref)],
            "refs": len(self.seen.refs),
            "seconds": seconds,
        }


_EXPECTED = ("too long", "maximum context", "rate limit", "no answer within", "connection was closed")
"""What was refused for its length, and what the summariser fails with."""


def is_helper(text: str) -> bool:
    """Whether a request is that of a sub-agent: it begins with the task, which its agent's own holds as a call."""
    return bool(re.search(r'"role": "user", "content": (?:\[\{"type": "text", "text": )?"HELPER-TASK', text))


def _equal(restored: Json, messages: list[Json]) -> bool:
    """The history that a request stands for, against the one on disk, cache marks aside."""
    items = restored.get("messages") or restored["input"]
    return [_plain(m) for m in items] == [_plain(m) for m in messages[: len(items)]] and len(messages) >= len(items)


def _plain(message: Json) -> Json:
    message = _unmarked(message)
    content = message.get("content")
    return {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message


def _unmarked(value: Json) -> Json:
    if isinstance(value, dict):
        return {k: _unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [_unmarked(v) for v in value] if isinstance(value, list) else value


def measured(
    api: str, calls: int, window_tokens: int, seed: int = 1, policy: str = "default", has_writer: bool = False
) -> dict[str, Json]:
    """The figures of one run, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="agent-run-") as folder:
        return Run(Path(folder), api, plan_of(calls, window_tokens), window_tokens, seed, policy, has_writer).finish()


ROWS = {
    "the task was ended": lambda f: "yes" if f["ended"] else "NO",
    "tool calls": lambda f: f"{f['tool_calls']:,}",
    "model calls answered": lambda f: f"{f['model_calls']:,}",
    "history on disk, MB": lambda f: f"{f['history_bytes'] / 1e6:.1f}",
    "store on disk, MB": lambda f: f"{f['store_bytes'] / 1e6:.1f}",
    "mean / largest request, tokens": lambda f: f"{f['mean_tokens']:,} / {f['peak_tokens']:,}",
    "share of input read from the prompt cache": lambda f: f"{f['cached']:.0%}",
    "batches, those on arrival too / prefix breaks": lambda f: f"{f['batches']:,} / {f['breaks']:,}",
    "refused for length, and rescued": lambda f: f"{f['refused_for_length']:,}",
    "refused for anything else": lambda f: f"{len(f['other_refusals']):,}",
    "invalid requests (independent checker)": lambda f: f"{len(f['invalid']):,}",
    "summaries asked of a model, every other one faulty": lambda f: f"{f['summaries']:,}",
    "kill -9 and resumed": lambda f: f"{f['kills']}",
    "first request after it: same bytes / a batch between / neither": lambda f: (
        f"{sum(same for same, _ in f['after_kill'])} / {sum(due and not same for same, due in f['after_kill'])}"
        f" / {sum(not due and not same for same, due in f['after_kill'])}"
    ),
    "answers while the disk took nothing": lambda f: f"{f['disk_full_answers']:,}",
    "requests without a demand of the user, a rule or the todo": lambda f: f"{len(f['forgotten']):,}",
    "history restored from the last request": lambda f: "equal" if f["restored"] else "NO",
    "references shown / not answered by recall": lambda f: f"{f['refs']:,} / {len(f['lost_refs']):,}",
    "seconds": lambda f: f"{f['seconds']:,.0f}",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--window-tokens", type=int, default=32_000)
    parser.add_argument("--api", choices=APIS, action="append")
    parser.add_argument("--policy", default="default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writer", action="store_true", help="summaries by a model that fails at every other one")
    parser.add_argument("--dry", action="store_true", help="print only")
    args = parser.parse_args()
    runs = [(api, args.writer) for api in args.api or APIS]
    figures: dict[str, dict[str, Json]] = {}
    for api, has_writer in [*runs, *([] if args.api or args.writer else [("chat", True)])]:
        f = measured(api, args.calls, args.window_tokens, args.seed, args.policy, has_writer)
        figures[f"{api}, summaries by a model" if has_writer else api] = f
        print(api, f["forgotten"][:5], f["invalid"][:3], f["other_refusals"][:3], f["lost_refs"][:3], file=sys.stderr)
        text = "\n".join([*header(args), *table(figures)]) + "\n"
        if not args.dry:
            RESULTS.write_text(text, encoding="utf-8")
    print(text, end="")


def header(args: argparse.Namespace) -> list[str]:
    command = " ".join(["python", f"bench/{Path(__file__).name}", *sys.argv[1:]])
    return [
        "# A long run of the agent",
        "",
        f"`{command}`",
        "",
        f"{args.calls:,} tool calls with outputs of {SMALLEST:,} to {LARGEST:,} characters through a window of "
        f"{args.window_tokens:,} tokens, which shrinks twice unannounced; seed {args.seed}, policy {args.policy}; "
        f"Python {platform.python_version()}, a machine with other work to do. The server's count and the checker are "
        "not the engine's.",
        "",
    ]


def table(figures: dict[str, dict[str, Json]]) -> list[str]:
    rows = [f"| {row} | {' | '.join(show(f) for f in figures.values())} |" for row, show in ROWS.items()]
    return [f"| | {' | '.join(figures)} |", f"|---|{'---:|' * len(figures)}", *rows]


if __name__ == "__main__":
    main()
