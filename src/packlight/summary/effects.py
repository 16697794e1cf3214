"""What the commands of a shell line do to files: which they write, move, remove, and which they may have changed.

Only what a simple command itself does counts: a path that stands in a message or a test run is not touched by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .effect import Effect, copied, moved, operands, removed
from .git import git, github
from .in_place import edited, formatted
from .rules import holds_any, rule
from .shell import UNKNOWN, Command, commands, joined

_TOUCHING = rule(
    r"[<>]|\b(?:cat|sed|head|tail|nl|rm|unlink|mv|cp|tee|git|gh|perl|python\d?|node|bun|deno|ruby|patch|truncate|install"
    r"|ln|sort|curl|wget|dd|bat|batcat|less|type|Get-Content|find|xargs|unzip|tar|rsync|black|isort|autopep8|yapf|ruff"
    r"|fmt|format|fix|fixer|prettier|gofmt|gofumpt|goimports|rustfmt|biome|swiftformat|ktlint|pre-commit|clang-format"
    r"|npm|pnpm|yarn|cargo|go|uv|poetry|sh|bash|zsh|rg|grep)\b|-(?:Item|Content|File)\b|--(?:fix|write)\b"
)


def touches_files(command: str) -> bool:
    """Whether it is worth reading: most commands neither show nor change a file."""
    return _TOUCHING.search(command, 0, 20_000) is not None


def effects(run: Sequence[Command], output: str, line: str) -> list[Effect]:
    """What the commands do, in order. `output` is what they printed, `line` the text they were read from."""
    found: list[Effect] = []
    written: dict[str, str] = {}
    first = next((n for n, c in enumerate(run) if not c.words or c.words[0] not in ("cd", "set")), 0)
    for n, command in enumerate(run):
        for effect in _of_command(command, run[n - 1] if n and command.joint == "|" else None, output):
            effect.is_first = n == first
            if len(found) >= _MOST_EFFECTS:
                return [Effect("named", text=line)]
            if effect.kind == "write":
                written[effect.path] = effect.text
            if effect.kind == "script" and effect.path in written:  # a program written by the same line
                found.extend(e for e in [script_effect(written[effect.path], effect.text)] if e)
            elif UNKNOWN in effect.path and effect.kind != "named":
                found.extend(_unknown(effect, command, line))
            else:
                found.append(effect)
    return _settled(found)


_MOST_EFFECTS = 300
"""A line that does more is not followed one by one."""


def _unknown(effect: Effect, command: Command, line: str) -> Iterator[Effect]:
    """A path that only the shell knew: the end of it may be plain, else it is one that the line names."""
    end = effect.path.rpartition(UNKNOWN)[2].lstrip("/")
    if "." in end:
        yield Effect("format" if effect.kind == "format" else "change", end)
    elif command.words and "xargs" in command.words[0]:
        yield Effect("all", command.folder)
    else:
        yield Effect("named", text=line)


def _settled(found: list[Effect]) -> list[Effect]:
    """A text written before everything changed is not certain."""
    last = next((i for i in range(len(found) - 1, -1, -1) if found[i].kind in _UPSETS), -1)
    return [
        Effect("change", e.path) if i < last and e.kind in _TEXTS and _upset_by(e, found[i + 1 :]) else e
        for i, e in enumerate(found)
    ]


_TEXTS = frozenset({"write", "append", "replace", "copy"})


def _upset_by(effect: Effect, later: Sequence[Effect]) -> bool:
    base = effect.path.rpartition("/")[2]
    return any(e.kind in _UPSETS and (e.kind != "named" or base in e.text) for e in later)


_UPSETS = frozenset({"all", "format", "named", "stash", "unstash"})


def _of_command(command: Command, feeder: Command | None, output: str) -> Iterator[Effect]:
    words: Sequence[str] = command.words
    name = _name(words)
    if command.outputs:
        yield from _printed(command, name)
    while name and name not in _IDLE:  # a program, and the ones that it runs
        if does := _DOES.get(name):
            yield from does(command, words)
        if name == "git":
            yield from git(command, words, output)
        if name in _INTERPRETERS:
            yield from _interpreted(command, words, feeder)
        yield from formatted(command, name, words)
        words = _run_by(name, words)
        name = _name(words)


_IDLE = frozenset(
    (
        *(
            "cd",
            "echo",
            "printf",
            "cat",
            "nl",
            "head",
            "tail",
            "grep",
            "rg",
            "ls",
            "wc",
            "jq",
            "awk",
            "cut",
            "tr",
            "uniq",
        ),
        *("diff", "true", "test", "[", "if", "fi", "for", "done", "while", "sleep", "pwd"),
    )
)
"""Commands that change no file but through a redirect."""


def _name(words: Sequence[str]) -> str:
    return words[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe") if words else ""


_RUNNERS = frozenset({"npx", "bunx", "uvx", "pnpm", "yarn", "bun", "uv", "poetry", "bundle"})


def _run_by(name: str, words: Sequence[str]) -> Sequence[str]:
    """The words of the program that another one runs."""
    if name == "xargs":
        start = 1
        while start < len(words) and words[start].startswith("-"):
            start += 2 if words[start] in ("-n", "-I", "-P", "-L", "-d") else 1
        return [*words[start:], UNKNOWN]
    if name in ("python", "python3") and words[1:2] == ["-m"]:
        return words[2:]
    if name in _RUNNERS:
        inner = words[2:] if words[1:2] and words[1] in ("exec", "run", "dlx", "x") else words[1:]
        return inner[next((i for i, w in enumerate(inner) if not w.startswith("-")), len(inner)) :]
    return ()


# ---- plain commands


def _printed(command: Command, name: str) -> Iterator[Effect]:
    """What redirects write."""
    words = command.words
    for target, appends in command.outputs:
        if not target or target.startswith("/dev/"):
            continue
        path, text = joined(command.folder, target), None
        if command.joint != "|" and len(command.outputs) == 1:
            if name == "cat" and len(words) == 1 and command.body is not None:
                text = command.body
            elif name == "cat" and len(words) == 2 and not appends and not command.fed and words[1] != "-":
                yield Effect("copy", path, old=joined(command.folder, words[1]))
                continue
            elif name == "echo" and len(words) == 2 and UNKNOWN not in words[1] and words[1][:1] != "-":
                text = None if "\\" in words[1] else words[1] + "\n"
        if text is None:
            yield Effect("change", path)
        else:
            yield Effect("append" if appends else "write", path, text)


def _changed(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    for path in operands(words, "-s"):
        yield Effect("change", joined(command.folder, path))


def _teed(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    for path in operands(words):
        if command.body is None or command.joint == "|":
            yield Effect("change", joined(command.folder, path))
        else:
            yield Effect("append" if "-a" in words else "write", joined(command.folder, path), command.body)


def _put_out(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    """Programs with an option for the file they write."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word in ("-o", "-O", "--output") and after:
            yield Effect("change", joined(command.folder, after))
        elif word.startswith(("of=", "--output=")):
            yield Effect("change", joined(command.folder, word.partition("=")[2]))


def _patched(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    paths = operands(words, "-i -d -D -F -o -r")
    if paths:
        yield Effect("change", joined(command.folder, paths[0]))
    elif "--dry-run" not in words:
        yield Effect("all", command.folder)


def _unpacked(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    if words[0] != "tar" or any("x" in w for w in words[1:2]):
        yield Effect("all", command.folder)


def _found(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    """`find` that runs or deletes something."""
    if "-delete" in words or ("-exec" in words and any(w in ("rm", "sed", "perl", "mv") for w in words)):
        pattern = next((after for w, after in zip(words, words[1:], strict=False) if w == "-name"), "")
        yield Effect("change", pattern) if pattern else Effect("all", command.folder)


def _powershell(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    named = [
        after for w, after in zip(words, words[1:], strict=False) if w.lower() in ("-path", "-literalpath", "-filepath")
    ]
    paths = named or operands(words, "-Value -Encoding -ErrorAction -Destination")[:1]
    for path in paths:
        yield Effect("delete" if words[0] == "Remove-Item" else "change", joined(command.folder, path))


_Does = Callable[[Command, Sequence[str]], Iterator[Effect]]


# ---- scripts


_INTERPRETERS = frozenset({"python", "python3", "node", "bun", "deno", "ruby", "perl", "tsx", "php", "bash", "sh"})
_SCRIPT_WRITES = rule(
    r"write_text|write_bytes|writeFile|writelines|appendFile|createWriteStream|copyFile|WriteAll|(?:Bun|File|Deno)\.write"
    r"|(?<!stdout)(?<!stderr)\.write\(|open\([^)\n]{0,200}['\"][wax]b?\+?['\"]|os\.(?:rename|replace|remove|unlink)|shutil\."
    r"|\.unlink|unlinkSync|renameSync|rmSync|Set-Content|Out-File|inplace=True"
)
_SCRIPT_SEEKS = rule(r"glob|os\.walk|iterdir|readdir|listdir")


def script_effect(text: str, arguments: str = "", folder: str = "") -> Effect | None:
    """What a program does whose text is known: nothing, or it writes files that it names, is told or looks for."""
    if not _SCRIPT_WRITES.search(text, 0, 100_000):
        return None
    seeks = _SCRIPT_SEEKS.search(text, 0, 100_000)
    return Effect("all", folder) if seeks else Effect("named", text=f"{arguments} {text}")


def _interpreted(command: Command, words: Sequence[str], feeder: Command | None) -> Iterator[Effect]:
    rest = words[1:]
    text = " ".join(rest) if any(w in ("-c", "-e", "--eval", "-p", "-pe", "-ne", "eval") for w in rest) else ""
    if command.fed or feeder is not None:
        text = " ".join([*rest, command.body or (feeder.body if feeder else "") or ""])
    if text and (effect := script_effect(text, folder=command.folder)):
        yield effect
    elif not text and rest and "." in rest[0][1:] and not rest[0].startswith("-"):
        yield Effect("script", joined(command.folder, rest[0]), " ".join(rest[1:]))


# ---- package managers, which write their own lists

_MANIFESTS = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), "package.json"),
    "cargo": "Cargo.toml",
    "uv": "pyproject.toml",
    "poetry": "pyproject.toml",
    "go": "go.mod",
}
_LISTING = frozenset(
    {"add", "remove", "uninstall", "rm", "i", "install", "version", "pkg", "get", "mod", "upgrade", "up"}
)


def _listed(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    verb = words[1] if len(words) > 1 else ""
    if verb in _LISTING and (len(words) > 2 or verb == "version"):
        yield Effect("change", joined(command.folder, _MANIFESTS[words[0]]))


_DOES: dict[str, _Does] = {
    **dict.fromkeys(("rm", "unlink", "del", "rmdir"), removed),
    **dict.fromkeys(("mv", "move", "ren"), moved),
    **dict.fromkeys(("cp", "install", "ln", "copy"), copied),
    **dict.fromkeys(("sed", "perl", "gsed"), edited),
    **dict.fromkeys(("sort", "curl", "wget", "dd"), _put_out),
    **dict.fromkeys(("unzip", "rsync", "tar"), _unpacked),
    **dict.fromkeys(
        ("Set-Content", "Add-Content", "Out-File", "Remove-Item", "Clear-Content", "New-Item"), _powershell
    ),
    **dict.fromkeys(_MANIFESTS, _listed),
    "truncate": _changed,
    "tee": _teed,
    "patch": _patched,
    "find": _found,
    "gh": github,
}


def line_effects(line: str, folder: str, output: str) -> tuple[list[Command], list[Effect]]:
    """The commands of a line and what they do; when it can't be read, it may have changed whatever it names."""
    run = commands(line, folder)
    if run is not None:
        return run, effects(run, output, line)
    return [], [Effect("named", text=line)] if holds_any(line, (">", "rite", "-Content", "sed ", "rm ")) else []
