"""Programs that change files in place: `sed -i` and `perl -i`, and formatters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .effect import Effect
from .rules import rule
from .shell import Command, joined

_IN_PLACE = rule(r"-[a-zA-Z]{0,4}i|--in-place")


def edited(command: Command, words: Sequence[str]) -> Iterator[Effect]:
    """`sed -i`, `perl -i`: certain when each script puts one plain text in place of another."""
    if not any(_IN_PLACE.match(w) for w in words[1:]):
        return
    scripts: list[str] = []
    files: list[str] = []
    words = [w for w in words if w]  # the empty suffix of a Mac's `sed -i ''`
    for before, word in zip(words, words[1:], strict=False):
        if before in ("-e", "--expression") or (words[0] == "perl" and before[:1] == "-" and before.endswith("e")):
            scripts.append(word)
        elif not word.startswith("-"):
            files.append(word)
    if not scripts and files:
        scripts.append(files.pop(0))
    wide = words[0] == "perl" or any(w in ("-E", "-r") or w.startswith(("-E", "-r", "-iE")) for w in words[1:])
    found: list[_Replacement] | None = []
    for script in scripts:
        plain = _replacements(script, wide)
        found = None if plain is None or found is None else found + plain
    for path in files:
        target = joined(command.folder, path)
        if not found:
            yield Effect("change", target)
        for old, new, everywhere, line in found or ():
            yield Effect("replace", target, new, old, everywhere, line)


_Replacement = tuple[str, str, bool, int]
_SUBSTITUTION = rule(
    r"\s*(\d{0,7})s([/|#,@!:])((?:(?!\2)[^\\\n]|\\.)*)\2((?:(?!\2)[^\\\n]|\\.)*)\2(g?)[ \t]*(?:[;\n]|\Z)"
)


def _replacements(script: str, wide: bool) -> list[_Replacement] | None:
    """(old as a rule, new, everywhere, line) of a script that puts plain texts in place of others."""
    found: list[_Replacement] = []
    at = 0
    while at < len(script) and len(script) <= 2_000:
        match = _SUBSTITUTION.match(script, at)
        if not match:
            return None
        old = _plain(match[3], match[2], "*[]" + ("+?(){}|@" if wide else ""), is_rule=True)
        new = _plain(match[4], match[2], "&" + ("$@" if wide else ""), is_rule=False)
        if not old or new is None:
            return None
        found.append((old, new, bool(match[5]), int(match[1] or 0)))
        at = match.end()
    return found if at >= len(script) else None


def _plain(text: str, sign: str, special: str, *, is_rule: bool) -> str | None:
    """A pattern without repetition and choice as a rule, or the text that a replacement stands for; None for others."""
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\":
            escaped = text[at : at + 1]
            at += 1
            char = {"t": "\t", "n": "\n"}.get(escaped, escaped)
            if escaped not in special + sign + '\\"' + ("tn" if not is_rule else "t.^$") or not escaped:
                return None
        elif char in special or char == sign:
            return None
        elif is_rule and (char == "." or (char == "^" and at == 1) or (char == "$" and at == len(text))):
            out.append(char)
            continue
        elif is_rule and char in "^$":
            return None
        out.append(re.escape(char) if is_rule else char)
    return "".join(out)


# ---- formatters

_FORMATTERS = {
    **dict.fromkeys(("prettier", "gofmt", "gofumpt", "goimports"), frozenset({"-w", "--write"})),
    **dict.fromkeys(("black", "isort", "rustfmt", "swiftformat"), frozenset[str]()),
    **dict.fromkeys(("autopep8", "yapf", "clang-format"), frozenset({"-i", "--in-place"})),
    "ktlint": frozenset({"-F"}),
    "rubocop": frozenset({"-a", "-A"}),
}
_FORMAT_VERBS = frozenset({"format", "fmt", "fix"})
_SCRIPT_RUNNERS = frozenset(
    {"npm", "pnpm", "yarn", "bun", "make", "just", "task", "npx", "bunx", "uv", "uvx", "poetry"}
)
_FORMAT_SCRIPT = rule(r"(?:^|[:_-])(?:fmt|format|fix)(?!.*check)")
_WRITE_FLAGS = frozenset({"--fix", "--write", "--apply", "--apply-unsafe"})
_CHECK_FLAGS = frozenset({"--check", "--diff", "-l", "--dry-run", "--verify-no-changes"})


def formatted(command: Command, name: str, words: Sequence[str]) -> Iterator[Effect]:
    needs = _FORMATTERS.get(name)
    skip = 2 if len(words) > 1 and words[1] in _FORMAT_VERBS else 99 if name == "pre-commit" else 0
    if needs is not None and not (needs and needs.isdisjoint(words)):
        skip = 1
    elif name in _SCRIPT_RUNNERS:
        skip = 99 if any(map(_FORMAT_SCRIPT.search, words[1:3])) else skip
    elif not _WRITE_FLAGS.isdisjoint(words):
        skip = 2 if len(words) > 1 and words[1] in ("check", "lint", "format", "run") else 1
    if not skip or not (needs or _CHECK_FLAGS.isdisjoint(words)):
        return
    paths = [w for w in words[skip:] if not w.startswith("-") and ("." in w or "/" in w)]
    if not paths or any(p in (".", "./", "./...") or "*" in p for p in paths):
        yield Effect("format")
    for path in paths:
        yield Effect("format", joined(command.folder, path.removesuffix("/...")))
