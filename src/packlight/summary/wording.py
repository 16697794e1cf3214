"""Words for what stands in place of a tool call or its result: target, outcome, error lines, previews.

All of it is our own text about somebody else's data: one line where it says so, without escape codes, always
encodable. The data itself is never changed here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ..types import Json, Part
from ..view import View
from .rules import rule
from .secrets import mask

TARGET_CHARS = 120
LINE_CHARS = 300
"""An error line is cut here."""

_ESCAPES = rule(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]?"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|\x1b[()*+][0-9A-Za-z]|\x1b[@-Z\\^_=>78cDEHMNOZ]?"
)
_CONTROLS = rule("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LINE_BREAKS = rule("[\u2028\u2029\x85]")


def clean(text: str) -> str:
    """The text as a person would see it: no escape codes, no overwritten progress lines, no control characters.

    Lone surrogates become U+FFFD. For our own text only; the original stays where it is.
    """
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:  # what stands before the last carriage return of a line was overwritten
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    if _CONTROLS.search(text):
        text = _CONTROLS.sub("", text)
    return encodable(text)


def encodable(text: str) -> str:
    """The text with every half of a surrogate pair replaced, so that it can be sent as UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def one_line(text: str, limit_chars: int, *, keep_end: bool = False) -> str:
    """Clean, secrets masked, on one line and at most that long; a cut is shown by an ellipsis."""
    text = clean(text[: 8 * limit_chars + 2_000] if not keep_end else text[-8 * limit_chars - 2_000 :])
    text = mask(" ".join((text if text.isascii() else _LINE_BREAKS.sub(" ", text)).split()))
    if len(text) <= limit_chars:
        return text
    if keep_end:
        return "…" + text[border(text, len(text) - limit_chars + 1, forward=True) :]
    return text[: border(text, limit_chars - 1)] + "…"


# ---- cutting


def border(text: str, at: int, *, forward: bool = False) -> int:
    """The nearest place at or before `at` (at or behind it, with `forward`) that does not cut a visible character."""
    step = 1 if forward else -1
    for _ in range(64):  # a longer cluster is no writing: cut it
        if not 0 < at < len(text) or not _joined(text, at):
            break
        at += step
    return at


def _joined(text: str, at: int) -> bool:
    """True when the character at this place belongs to the one before it."""
    char, before = text[at], text[at - 1]
    if char < "\u0300":
        return char == "\n" and before == "\r"
    if before == "\u200d" or char in "\u200d\ufe0e\ufe0f" or "\U0001f3fb" <= char <= "\U0001f3ff":
        return True
    if "\U000e0020" <= char <= "\U000e007f" or "\udc00" <= char <= "\udfff":
        return True
    if _flag(char) and _flag(before):
        run = 0
        while run < 64 and at - 1 - run >= 0 and _flag(text[at - 1 - run]):
            run += 1
        return run % 2 == 1
    if "\u1160" <= char <= "\u11ff":  # the inner letters of a Korean syllable
        return True
    return unicodedata.category(char)[0] == "M"


def _flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def head(text: str, limit_chars: int) -> str:
    """The beginning of a text, whole lines where that costs at most half of it."""
    if len(text) <= limit_chars:
        return text
    if limit_chars <= 0:
        return ""
    at = text.rfind("\n", 0, limit_chars + 1)
    return text[: at if at >= limit_chars // 2 else border(text, limit_chars)]


def tail(text: str, limit_chars: int) -> str:
    """The end of a text, whole lines where that costs at most half of it."""
    if len(text) <= limit_chars:
        return text
    if limit_chars <= 0:
        return ""
    start = len(text) - limit_chars
    at = text.find("\n", start - 1, start + limit_chars // 2)
    return text[at + 1 if at >= 0 else border(text, start, forward=True) :]


def preview(text: str, *, head_chars: int, tail_chars: int, error_lines: int = 0) -> str:
    """Beginning, error lines and end of a text, with what is left out said in one line; whole when it fits."""
    text = clean(text)
    if len(text) <= head_chars + tail_chars:
        return text
    first, last = head(text, head_chars), tail(text, tail_chars)
    middle = text[len(first) : len(text) - len(last)]
    lines = middle.count("\n")
    size = f"{lines:,} lines, {len(middle):,} characters" if lines > 1 else f"{len(middle):,} characters"
    found = _error_lines(middle, error_lines) if error_lines > 0 else []
    gap = f"[... {size} left out" + (", among them:" if found else " ...]")
    ends = ["...]"] if found else []
    return "\n".join(p for p in (first.rstrip("\n"), gap, *found, *ends, last) if p)


# ---- errors

_ERROR = rule(
    r"Traceback \(most recent"
    r"|\b[A-Z]\w{0,60}(?:Error|Exception)\b|\b[Ee]rror(?:\[\w{1,20}\]|\sTS\d+)?:|\bERROR\b|npm ERR"
    r"|\b[Ff]atal\b|\bFATAL\b|\b[Pp]anic(?:ked)?\b|\bFAIL(?:ED|URE)?\b|\bnot ok\b|[✗✘❌✖]"
    r"|\b[1-9]\d{0,6} (?:failed|failures?|errors?)\b|(?<!\b0 )\b[Ff]ailed\b|\b[Ff]ailure\b"
    r"|command not found|[Nn]o such file|[Pp]ermission denied|[Cc]annot find|[Uu]ndefined reference|[Uu]nable to"
    r"|[Ss]egmentation fault|[Aa]ssertion|[Tt]imed out|\bKilled\b|\b(?:exit|status|returned)(?: code| status)? [1-9]"
)
_SIGNS = (
    *("rror", "RROR", " ERR", "xception", "raceback", "ailed", "ailure", "FAIL", "anic", "atal", "FATAL", "not ok"),
    *("not found", "o such file", "denied", "annot find", "ndefined ref", "nable to", "egmentation", "ssertion"),
    *("imed out", "Killed", "exit ", "status ", "returned ", "✗", "✘", "❌", "✖"),
)
"""Substrings, one of which every error line holds: searched in C, so that a megabyte costs a millisecond."""
_HITS_PER_SIGN = 100


def error_lines(text: str, limit: int) -> list[str]:
    """At most `limit` lines that tell of an error, each with the line behind it while there is room.

    When there are more, the first and the last ones. In their order, cleaned, cut at 300 characters.
    """
    return _error_lines(clean(text), limit)


def _error_lines(text: str, limit: int) -> list[str]:
    starts = _error_starts(text)
    if limit <= 0 or not starts:
        return []
    chosen = (
        starts if len(starts) <= limit else starts[: (limit + 1) // 2] + (starts[-(limit // 2) :] if limit > 1 else [])
    )
    room = limit - len(chosen)
    wanted = set(chosen)
    for start in chosen:
        behind = text.find("\n", start) + 1
        if room > 0 and behind and behind not in wanted and _line_at(text, behind).strip():
            wanted.add(behind)
            room -= 1
    return [_shown(_line_at(text, start)) for start in sorted(wanted)]


def _line_at(text: str, start: int) -> str:
    end = text.find("\n", start, start + 4 * LINE_CHARS)
    return text[start : end if end >= 0 else start + 4 * LINE_CHARS]


def _shown(line: str) -> str:
    line = line.rstrip()
    return line if len(line) <= LINE_CHARS else line[: border(line, LINE_CHARS - 1)] + "…"


def _error_starts(text: str) -> list[int]:
    """Where the error lines begin. In a huge line, at the sign itself."""
    found: dict[int, None] = {}
    for sign in _SIGNS:
        for at in _places(text, sign):
            start = text.rfind("\n", 0, at) + 1
            if at - start > LINE_CHARS:
                start = border(text, at - LINE_CHARS // 2)
            if start not in found and _ERROR.search(_line_at(text, start)):
                found[start] = None
    out: list[int] = []
    for start in sorted(found):
        if not out or start - out[-1] > LINE_CHARS or "\n" in text[out[-1] : start]:
            out.append(start)
    return out


def _places(text: str, sign: str) -> Iterator[int]:
    """The first and the last places of a substring."""
    at = -1
    for _ in range(_HITS_PER_SIGN):
        at = text.find(sign, at + 1)
        if at < 0:
            return
        yield at
    newest, last = at, len(text)
    for _ in range(_HITS_PER_SIGN):
        last = text.rfind(sign, newest + 1, last)
        if last < 0:
            return
        yield last


# ---- calls and results

PATH_KEYS = (
    *("file_path", "filePath", "path", "notebook_path", "target_file", "absolute_path", "relative_path"),
    *("filename", "file_name", "file", "AbsolutePath", "TargetFile", "dir_path", "directory"),
)
COMMAND_KEYS = ("command", "cmd", "script", "commands", "code")
QUERY_KEYS = ("pattern", "query", "regex", "search", "glob", "q", "url", "uri", "prompt", "question", "name", "skill")


def text_at(arguments: Mapping[str, Json], keys: Iterable[str]) -> str:
    """The first non-empty string among these keys."""
    for key in keys:
        if key in arguments:
            value = arguments[key]
            if value and isinstance(value, str):
                return value
    return ""


def command_of(call: Part) -> str:
    """The shell command or code that a call runs; empty when it runs none."""
    return _command(call.arguments) if call.arguments else ""


def _command(arguments: Mapping[str, Json]) -> str:
    for key in COMMAND_KEYS:
        if key not in arguments:
            continue
        value = arguments[key]
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
            return value[-1] if len(value) > 2 and value[1] in _SHELL_FLAGS else " ".join(value)
    action = arguments.get("action")
    return _command(action) if isinstance(action, dict) else ""


_SHELL_FLAGS = ("-lc", "-c", "-ic", "-Command", "/c")
_PATCHED = rule(r"^\*\*\* (?:Update|Add|Delete) File: (.{1,500})$", re.MULTILINE)


def target_of(call: Part) -> str:
    """What a call is about, on one line of at most 120 characters: its path, command, query, or arguments."""
    arguments = call.arguments or {}
    raw = call.arguments_text if not arguments else ""
    patch = raw or text_at(arguments, ("input", "patch"))
    patched = _PATCHED.findall(patch[:100_000]) if "*** " in patch else []
    if patched:
        return one_line(", ".join(dict.fromkeys(patched)), TARGET_CHARS)
    path, query = text_at(arguments, PATH_KEYS), text_at(arguments, QUERY_KEYS)
    if path:
        shown = one_line(path, TARGET_CHARS, keep_end=True)
        searched = query if query and any(k in arguments for k in ("pattern", "query", "regex")) else ""
        return (
            one_line(f"{one_line(searched, 60)} in {one_line(shown, 56, keep_end=True)}", TARGET_CHARS)
            if searched
            else shown
        )
    found = command_of(call) or query or text_at(arguments, ("description", "title", "subject", "text")) or raw
    return one_line(found or _pairs(arguments), TARGET_CHARS)


def target_at(view: View, message: int, place: int) -> str:
    """What the call behind this result is about; worked out once for all layers."""
    known: dict[tuple[int, int], str] = view.memo.setdefault("targets", {})
    target = known.get((message, place))
    if target is None:
        call = view.call_of(message, place)
        target = known[(message, place)] = target_of(call) if call else ""
    return target


def _pairs(arguments: Mapping[str, Json]) -> str:
    """Small arguments as `key=value`, for tools of any make."""
    plain = ((k, v) for k, v in list(arguments.items())[:12] if isinstance(v, (str, int, float, bool)) and v != "")
    return " ".join(f"{k}={str(v)[:80]}" for k, v in plain)


_EXIT = rule(
    r"(?:^Process exited with code|^Exit code:?|\[Command finished with exit code|^Command exited with code"
    r"|<returncode>|<exited with exit code|\bexit_code[\"']?:)\s*(-?\d{1,10})",
    re.MULTILINE,
)
_RUNNING = rule(r"^Process running with session ID (\d+)", re.MULTILINE)
_HEADER = rule(
    r"\A(?:(?:Chunk ID|Wall time|Process |Exit code|Original token count|Total output lines)[^\n]*\n)*Output:\n?"
)
_HEADER_STARTS = ("Chunk ID", "Wall time", "Process ", "Exit code", "Original token", "Total output", "Output:")
_TOOL_ERROR = rule(
    r"\A\s*(?:<tool_use_error>|\[?error\b|ERROR:|Error:|Exception:|apply_patch verification failed|Failed to )", re.I
)
_DONE = rule(
    r"\A[^\n]{0,80}\b(?:success(?:fully)?|(?:has|have) been (?:updated|modified|created|edited|written)"
    r"|created|updated|applied|written|replaced|ok|done)\b",
    re.I,
)
_SHORT_CHARS = 600


def output_of(result: Part) -> str:
    """The output inside a result, without the header or the JSON envelope of the tool that ran it."""
    text = result.text
    if text.startswith('{"output"'):
        try:
            inner = msgspec.json.decode(text)["output"]
        except (msgspec.DecodeError, UnicodeEncodeError, KeyError):
            return text
        return inner if isinstance(inner, str) else text
    header = _HEADER.match(text, 0, 2_000) if text.startswith(_HEADER_STARTS) else None
    return text[header.end() :] if header else text


def exit_code(result: Part) -> int | None:
    """The exit code that a result tells of, where tools write it: in the first or last lines."""
    text = result.text
    if len(text) <= 800:
        return _exit_in(text)
    code = _exit_in(text[:400])
    return _exit_in(text[-400:]) if code is None else code


def _exit_in(text: str) -> int | None:
    if "xit code" in text or "with code" in text or "returncode" in text or "exit_code" in text:
        found = _EXIT.search(text)
        return int(found[1]) if found else None
    return None


def is_failure(result: Part) -> bool:
    """True when the result says that its call failed. Text that merely speaks of errors does not count."""
    if result.is_error:
        return True
    code = exit_code(result)
    if code is not None:
        return code != 0
    return len(result.text) <= _SHORT_CHARS and _TOOL_ERROR.match(result.text) is not None


def outcome_of(result: Part, failed: bool | None = None) -> str:
    """How a call ended, on one line: `ok`, `error: ...`, `exit 1: ...`, `37 lines`, or a short result itself.

    `failed` is what `is_failure` says, for whoever has asked it.
    """
    text = output_of(result)
    if is_failure(result) if failed is None else failed:
        return _failure(result, text)
    start = result.text[:400]
    if "Process running" in start and (running := _RUNNING.search(start)):
        return f"still running (session {running[1]})"
    stripped = text.strip()
    if not stripped:
        return _media(result) or "ok"
    lines = stripped.count("\n") + 1
    if lines <= 3 and len(stripped) <= _SHORT_CHARS and _DONE.match(stripped):
        return "ok"
    if lines == 1 and len(stripped) <= 80:
        return one_line(stripped, 80)
    return f"{lines} lines" if lines > 1 else f"1 line, {len(stripped):,} characters"


def _failure(result: Part, text: str) -> str:
    code = exit_code(result)
    found = error_lines(text[:20_000] if len(text) <= 40_000 else text[:20_000] + "\n" + text[-20_000:], 1)
    first = found[0] if found else next((line for line in text[:4_000].splitlines() if line.strip()), "")
    first = _TAGS.sub("", first)
    label = f"exit {code}" if code else "error"
    line = one_line(first, 100)
    line = _LABEL.sub("", line) or line
    return f"{label}: {line}" if line and not _EXIT_ONLY.fullmatch(line) else label


_LABEL = rule(r"\A(?:error|exit code \d+):?\s*", re.I)
_EXIT_ONLY = rule(r"exit code:? \d+", re.I)
_TAGS = rule(r"</?tool_use_error>")


def _media(result: Part) -> str:
    return ", ".join(dict.fromkeys(m.kind for m in result.media))
