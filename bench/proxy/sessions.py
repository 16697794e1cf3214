"""Sessions made up from a seed: the same text each time, of the kinds that coding agents read.

Two are compared with other proxies: a loop of 197 requests on one user message, and a dialogue of 72 requests in 23
parts whose user states 15 facts on the way. The others are as long and as large as is asked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

MODEL = "claude-opus-4-6"
SYSTEM = "You are a coding agent in a repository. Use the tools, one step at a time, and say briefly what you do. "
WORDS = [
    *("config", "loader", "token", "decode", "handler", "session", "request", "retry", "queue", "worker", "index"),
    *("cache", "schema", "parser", "writer", "buffer", "stream", "limit", "policy", "batch", "cursor", "socket"),
    *("backend", "record", "field", "column", "filter", "bucket", "region", "replica", "signal"),
]
MARK = {"cache_control": {"type": "ephemeral"}}


def _tool(name: str, about: str, *inputs: str) -> dict[str, Any]:
    fields = {key: {"type": "string", "description": f"The {key} to use"} for key in inputs}
    return {"name": name, "description": about, "input_schema": {"type": "object", "properties": fields}}


TOOLS = [
    _tool("Read", "Reads a file of the repository", "file_path"),
    _tool("Edit", "Replaces a text in a file", "file_path", "old_string", "new_string"),
    _tool("Bash", "Runs a command in a shell", "command"),
    _tool("Grep", "Searches the repository", "pattern", "path"),
]


@dataclass
class Session:
    """A conversation as its client keeps it, and where in it the model is called."""

    max_tokens: int = 1_000
    messages: list[dict[str, Any]] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    """For each request, how many messages it has."""
    facts: list[str] = field(default_factory=list)
    """What the user said that has to be known to the end: a word of each that stands nowhere else."""
    paths: list[str] = field(default_factory=list)
    """Files that the agent read or changed."""
    probes: list[str] = field(default_factory=list)
    """Of each tool result a line that stands nowhere else."""
    _texts: list[bytes] = field(default_factory=list)

    def body(self, count: int, *, stream: bool = False, marks: bool = False) -> bytes:
        """The request with so many of the messages. With `marks` as clients set them: on the system and at the end."""
        while len(self._texts) < count:
            self._texts.append(msgspec.json.encode(self.messages[len(self._texts)]))
        texts = self._texts[:count]
        if marks:
            texts[-1] = msgspec.json.encode(_marked(self.messages[count - 1]))
        system = [{"type": "text", "text": SYSTEM * 12, **(MARK if marks else {})}]
        head = {"model": MODEL, "max_tokens": self.max_tokens, "stream": stream, "system": system, "tools": TOOLS}
        return msgspec.json.encode(head)[:-1] + b',"messages":[' + b",".join(texts) + b"]}"


def _marked(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*blocks[:-1], {**blocks[-1], **MARK}]}


class Maker:
    """Adds to a session turn by turn."""

    def __init__(self, seed: int, result_chars: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.result_chars = result_chars
        self.session = Session()
        self._steps = self._each_step()

    def say(self, text: str) -> None:
        self.session.messages.append({"role": "user", "content": text})

    def call(self) -> None:
        """The model is called here, and nothing of its reply is needed."""
        self.session.calls.append(len(self.session.messages))

    def step(self) -> None:
        """The model calls a tool, and gets the result."""
        number = len(self.session.probes)
        name, given, text = next(self._steps)
        probe = f"probe-{self.seed}-{number}-{self.random.getrandbits(64):016x}"
        lines = text.splitlines()
        lines.insert(len(lines) * 2 // 3, f"    # {probe}")
        self.session.probes.append(probe)
        ident = f"toolu_{self.seed}_{number}"
        said = f"Step {number}: {self._sentence(12)}."
        call = {"type": "tool_use", "id": ident, "name": name, "input": given}
        self.session.messages.append({"role": "assistant", "content": [{"type": "text", "text": said}, call]})
        result = {"type": "tool_result", "tool_use_id": ident, "content": "\n".join(lines)}
        self.session.messages.append({"role": "user", "content": [result]})

    def conclude(self) -> None:
        text = f"Done with this part: {self._sentence(25)}."
        self.session.messages.append({"role": "assistant", "content": [{"type": "text", "text": text}]})

    def _each_step(self) -> Iterator[tuple[str, dict[str, str], str]]:
        kinds: list[Callable[[], tuple[str, dict[str, str], str]]] = [
            *(self._read, self._search, self._tests, self._read, self._edit),
            *(self._log, self._fetch, self._read, self._noise),
        ]
        while True:
            for kind in kinds:
                yield kind()

    def _path(self, start: str = "src", end: str = ".py") -> str:
        path = f"{start}/{self._word()}/{self._word()}_{len(self.session.paths)}{end}"
        self.session.paths.append(path)
        return path

    def _word(self) -> str:
        return self.random.choice(WORDS)

    def _sentence(self, words: int) -> str:
        return " ".join(self._word() for _ in range(words))

    def _lines(self, line: Callable[[int], str]) -> str:
        out, size = [], 0
        while size < self.result_chars:
            out.append(line(len(out)))
            size += len(out[-1]) + 1
        return "\n".join(out)

    def _read(self) -> tuple[str, dict[str, str], str]:
        def line(at: int) -> str:
            if at % 7 == 0:
                return f"{at + 1}\tdef {self._word()}_{self._word()}(self, {self._word()}, {self._word()}=None):"
            number = self.random.randrange(10**6)
            return f"{at + 1}\t    self.{self._word()} = {self._word()}({self._word()}, key={number})"

        return "Read", {"file_path": self._path()}, self._lines(line)

    def _edit(self) -> tuple[str, dict[str, str], str]:
        given = {
            "file_path": self.session.paths[-1],
            "old_string": self._sentence(20),
            "new_string": self._sentence(30),
        }
        return "Edit", given, f"The file has been updated.\n{self._sentence(20)}"

    def _search(self) -> tuple[str, dict[str, str], str]:
        def line(at: int) -> str:
            return f"src/{self._word()}/{self._word()}.py:{self.random.randrange(900)}: {self._sentence(6)}"

        return "Grep", {"pattern": self._word(), "path": self._path()}, self._lines(line)

    def _tests(self) -> tuple[str, dict[str, str], str]:
        def line(at: int) -> str:
            verdict = "FAILED" if self.random.random() < 0.04 else "PASSED"
            return f"tests/test_{self._word()}.py::test_{self._word()}_{self._word()} {verdict} [{at}%]"

        return "Bash", {"command": f"pytest {self._path('tests')} -v"}, self._lines(line)

    def _log(self) -> tuple[str, dict[str, str], str]:
        def line(at: int) -> str:
            stamp = f"2026-11-30T10:{at // 60 % 60:02d}:{at % 60:02d}.{self.random.randrange(1000):03d}Z"
            return (
                f"{stamp} {self.random.choice(('INFO', 'INFO', 'WARN', 'ERROR'))} {self._word()}: {self._sentence(7)}"
            )

        return "Bash", {"command": f"tail -n 50 {self._path('logs', '.log')}"}, self._lines(line)

    def _fetch(self) -> tuple[str, dict[str, str], str]:
        def line(at: int) -> str:
            entry = {"id": self.random.randrange(10**8), "name": self._sentence(2), "state": self._word()}
            return msgspec.json.encode(entry).decode() + ","

        return "Bash", {"command": f"curl -s localhost/{self._word()}"}, self._lines(line)

    def _noise(self) -> tuple[str, dict[str, str], str]:
        def line(at: int) -> str:
            return f"{at * 32:08x}  {self.random.getrandbits(256):064x}"

        return "Bash", {"command": f"xxd {self._word()}.bin"}, self._lines(line)


def grown(seed: int, turns: int, result_chars: int = 2_000, max_tokens: int = 1_000) -> Session:
    """One user message, then a turn a request."""
    maker = Maker(seed, result_chars)
    maker.session.max_tokens = max_tokens
    maker.say(f"Task {seed}: fix the login bug and keep the public interface as it is. {maker._sentence(20)}.")
    maker.call()
    for _ in range(turns - 1):
        maker.step()
        maker.call()
    return maker.session


def loop() -> Session:
    """197 requests of one user's message: about 100,000 tokens at its end."""
    return grown(seed=1, turns=197, result_chars=1_900)


FACTS = (
    "Never change the file deploy/{}.yaml, whatever happens.",
    "The staging database is called {}.",
    "From now on use the branch {} for everything.",
    "Our oldest client still runs on release {}; it must keep working.",
    "The ticket for this is {}; name it in each commit.",
)


def dialogue() -> Session:
    """72 requests in 23 parts begun by the user, 15 of which state a fact: about 100,000 tokens at its end."""
    maker = Maker(seed=2, result_chars=7_600)
    facts = iter(range(15))
    for part in range(23):
        fact = next(facts, None) if 3 <= part < 18 else None
        stated = ""
        if fact is not None:
            word = f"kx{maker.random.getrandbits(40):010x}"
            maker.session.facts.append(word)
            stated = FACTS[fact % len(FACTS)].format(word)
        maker.say(f"Part {part}: look after the {maker._word()} of the {maker._word()}. {stated}".strip())
        maker.call()
        for _ in range(3 if part in (5, 11, 17) else 2):
            maker.step()
            maker.call()
        maker.conclude()
    return maker.session


def with_bytes(seed: int, size_bytes: int, result_chars: int = 2_000, more_turns: int = 0) -> tuple[Session, int]:
    """A session that grows past that size, and which of its requests is the first of at least that size."""
    turns = size_bytes // (result_chars + 200) + 40 + more_turns
    session = grown(seed, turns, result_chars)
    at = next(i for i, count in enumerate(session.calls) if len(session.body(count)) >= size_bytes)
    return session, at
