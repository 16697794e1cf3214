"""The command line: `packlight replay | compact | check | restore | recall | purge | run | proxy | doctor | agent`.

Each command reads a file or standard input, prints for people, or JSON with `--json`, and exits with 0, 1 (findings)
or 2 (usage or bad input: one clear line).
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import textwrap
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from .. import __version__
from ..errors import PacklightError

__all__ = ["main"]

_EPILOG = """\
examples:
  packlight replay                                 where the money of your own sessions went
  packlight compact request.json --window-tokens 64000 --store .packlight -o small.json
  packlight restore small.json --store .packlight  and back, exactly
  packlight check request.json                     is this request valid for its API?
  packlight recall src/auth.py --store .packlight  what was taken out, by path, reference or words
  packlight run claude                             Claude Code keeps working past its window
  packlight proxy                                  any agent keeps working past its window
  packlight agent "fix the failing test"           a small agent that never runs out of window

`-` as FILE is standard input. `packlight COMMAND --help` tells the rest.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. `--help` and `--version` end in SystemExit(0), as argparse has it."""
    parser, commands = _parser()
    words = sys.argv[1:] if argv is None else argv
    try:
        _check_command(words, commands)
        args, unknown = parser.parse_known_args(words)
        if unknown:
            raise _UsageError(_unknown_options(unknown, commands.get(args.command, parser)))
        if not args.command:
            parser.print_help(sys.stderr)
            return 2
        command = importlib.import_module(f".{args.command}", __package__)  # only now: `--help` pays for none of them
        code: int = command.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output has seen enough
        _drop_output()
        return 0
    except PacklightError as error:
        return _refused(str(error))
    except OSError as error:
        _drop_output()
        return _refused(f"{error.filename or ''}: {error.strerror or error}".removeprefix(": "))
    except RecursionError:
        return _refused("the input is nested too deep")
    except MemoryError:
        return _refused("out of memory")
    except KeyboardInterrupt:
        return 130


def _refused(why: str) -> int:
    """Say it in one line, whatever it is made of."""
    from .streams import one_line

    line = one_line(why)
    encoding = sys.stderr.encoding or "utf-8"
    with suppress(OSError, ValueError):
        sys.stderr.write(f"packlight: {line}\n".encode(encoding, "backslashreplace").decode(encoding))
    return 2


def _drop_output() -> None:
    """What could not be written is not tried again when the interpreter ends."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Help(argparse.RawDescriptionHelpFormatter):
    """Fills sentences to the terminal's width; examples stay a line each."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = re.sub(r"(?<![.:])\n(?=\S)", " ", text).splitlines()
        return "\n".join(textwrap.fill(line, width, subsequent_indent=" " * 6 * line.startswith(" ")) for line in lines)


class _Parser(argparse.ArgumentParser):
    """Says a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message} (see {self.prog} --help)")


class _UsageError(PacklightError):
    """The command line can't be understood."""


def _check_command(words: Sequence[str], commands: Collection[str]) -> None:
    """A command that is none, with the one that was meant."""
    word = next((w for w in words if not w.startswith("-") or w == "-"), None)
    if word is None or word in commands:
        return
    if os.path.exists(word):
        raise _UsageError(f"{word} is no command; to see where its money went: packlight replay {word}")
    raise _UsageError(f"no command {word!r}{_meant(word, commands)} (see packlight --help)")


def _unknown_options(unknown: Sequence[str], parser: argparse.ArgumentParser) -> str:
    word = unknown[0]
    if not word.startswith("-"):
        return f"{word!r} is one argument too many (see {parser.prog} --help)"
    known = [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    return f"no option {word!r}{_meant(word.partition('=')[0], known)} (see {parser.prog} --help)"


def _meant(word: str, known: Collection[str]) -> str:
    import difflib

    bare = {name.lstrip("-"): name for name in known}
    found = difflib.get_close_matches(word.lstrip("-"), bare, n=1)
    return f"; did you mean {bare[found[0]]}?" if found else ""


def _parser() -> tuple[argparse.ArgumentParser, Mapping[str, _Parser]]:
    parser = _Parser(
        prog="packlight",
        description="Keeps LLM agents working past their context window; shows what that does to recorded sessions.",
        epilog=_EPILOG,
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"packlight {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _replay(commands)
    _compact(commands)
    _check(commands)
    _restore(commands)
    _recall(commands)
    _purge(commands)
    _run(commands)
    _proxy(commands)
    _doctor(commands)
    _agent(commands)
    return parser, commands.choices


def _command(
    commands: argparse._SubParsersAction[_Parser], name: str, help: str, detail: str, *examples: str
) -> _Parser:
    return commands.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.\n{detail}",
        epilog="\n  ".join(("examples:", *examples)),
        formatter_class=_Help,
    )


def _input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a request body or list of messages as JSON; - is standard input")
    parser.add_argument(
        "--format", choices=("anthropic", "chat", "responses"), help="when it can't be told from the request"
    )


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="OUT", help="write the request there")


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def _store(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("--store", metavar="DIR", required=required, help="the folder where what is taken out is kept")


def _owner(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--owner", metavar="O", help="whose, where a proxy's store has several (default: who has it)")


def _policy(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    names = "default, thrifty, classic, nano or none"
    more = "; or your own as module:function; several with commas" if several else ""
    first = "none,default,thrifty" if several else "default"
    parser.add_argument("--policy", default=first, metavar="P", help=f"{names}{more} (default {first})")
    parser.add_argument("--window-tokens", type=_count, metavar="N", help="context window, instead of the model's own")


_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}


def _count(text: str) -> int:
    """A number above 0, also as 64k, 64_000 or 64,000."""
    found = re.fullmatch(r"(\d[\d_,]*)([km]?)", text.strip().lower(), re.ASCII)
    digits = re.sub("[_,]", "", found[1]) if found else "0"
    value = int(digits) * _UNITS[found[2]] if found and len(digits) < 16 else 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def _replay(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands,
        "replay",
        "say where the input money of recorded agent sessions went, and what compaction would have changed",
        "Reads sessions of Claude Code, Codex, pi, Copilot, opencode, Gemini CLI and a dozen more, and plain lists of\n"
        "messages; without PATH the newest of Claude Code, Codex and pi of this user.\n"
        "Writes only what --html or --trace names. Policies: default, thrifty, classic, nano, none, or your own.\n"
        "Exits with 1 when a request came out invalid or could not be restored, or a policy failed.",
        "packlight replay",
        "packlight replay --since 7 --html replay.html",
        "packlight replay ~/.claude/projects --policy none,thrifty --window-tokens 200k",
        "packlight replay session.jsonl --policy my_policy:drop_old",
        "packlight replay session.jsonl --json",
    )
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", help="session files, or folders of them; - is standard input"
    )
    parser.add_argument("--since", type=_days, metavar="DAYS", help="only files that changed in the last so many days")
    parser.add_argument("--all", action="store_true", help="without PATH: all sessions, not only the newest")
    parser.add_argument(
        "--format", choices=("anthropic", "chat", "responses"), help="of a plain list, when it can't be told"
    )
    _policy(parser, several=True)
    parser.add_argument("--model", metavar="M", help="windows and prices of this model, the money simulated for it")
    parser.add_argument("--jobs", type=_count, metavar="N", help="so many processes at most (default: one a core)")
    parser.add_argument("--html", metavar="FILE", help="write a page with figures and charts there")
    parser.add_argument("--with-text", action="store_true", help="the page may hold text of the conversations")
    parser.add_argument("--details", action="store_true", help="of several sessions each in full")
    parser.add_argument(
        "--trace", metavar="FILE", help="replay nothing; write the sessions without their text there, to be shared"
    )
    _json(parser)


def _days(text: str) -> float:
    """A number of days above 0."""
    try:
        days = float(text)
    except ValueError:
        days = 0.0
    if not 0 < days < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days above 0")
    return days


def _compact(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands,
        "compact",
        "make one request fit",
        "Writes the request to OUT (or standard output) and the report to standard error.\n"
        "Exits with 1 when the smallest valid form is still over the budget, or a layer failed (see the report).\n"
        "Conversation text is written to disk only with --store or -o.",
        "packlight compact request.json --window-tokens 64k --store .packlight -o small.json",
        "cat request.json | packlight compact - --model claude-opus-4-6 > small.json",
    )
    _input(parser)
    _policy(parser)
    parser.add_argument("--model", metavar="M", help="whose window and rules count, when the request names none")
    _store(parser, required=False)
    parser.add_argument("--force", action="store_true", help="compact although it fits")
    parser.add_argument("--repair", action="store_true", help="mend broken places as well")
    _output(parser)
    _json(parser)


def _check(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands,
        "check",
        "say whether a request is valid for its API",
        "Exits with 0 when it is, with 1 and a line for each violation when not. Writes nothing.",
        "packlight check request.json",
        "packlight check - --format chat --json < request.json",
    )
    _input(parser)
    _json(parser)


def _restore(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands,
        "restore",
        "undo the last compaction of a request",
        "What was appended since stays. Writes exactly the JSON value that went in, to OUT or standard output.",
        "packlight restore small.json --store .packlight -o request.json",
        "packlight restore small.json --store .packlight --all",
    )
    _input(parser)
    _store(parser)
    _owner(parser)
    parser.add_argument("--all", action="store_true", help="undo every compaction")
    _output(parser)
    _json(parser)


def _recall(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands,
        "recall",
        "show what was taken out",
        "By reference, by path (its end is enough), or by words. Exits with 1 when nothing is found.",
        "packlight recall 8f3a91c0d2e4 --store .packlight",
        "packlight recall src/auth.py --store .packlight",
        "packlight recall connection refused --store .packlight --json",
    )
    parser.add_argument("query", metavar="REF|PATH|WORDS", nargs="+")
    _store(parser)
    _owner(parser)
    parser.add_argument("--conversation", metavar="ID", help="only what was taken out of this one")
    parser.add_argument("--limit", type=_count, default=5, metavar="N", help="at most so many finds (default 5)")
    _json(parser)


def _purge(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands,
        "purge",
        "remove what is kept, for good",
        "Of a store, or without --store of what the proxy remembers in the user's state folder.",
        "packlight purge --keep-days 30",
        "packlight purge --store .packlight --max-bytes 500m",
        "packlight purge --all",
    )
    _store(parser, required=False)
    parser.add_argument("--keep-days", type=_days, metavar="DAYS", help="conversations not used for so long")
    parser.add_argument("--max-bytes", type=_count, metavar="N", help="those not used for longest, until the rest fits")
    parser.add_argument("--conversation", metavar="ID", help="this one")
    parser.add_argument("--all", action="store_true", help="everything, learned windows too")
    _json(parser)


def _run(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands,
        "run",
        "run an agent behind a proxy of its own, so that it keeps working past its window",
        "Knows Claude Code and Codex; any other command is told by the usual variables (ANTHROPIC_BASE_URL,\n"
        "OPENAI_BASE_URL). Says what it sets, is silent until the command ends, then says what was done.\n"
        "Exits as the command does. Needs packlight[proxy].",
        "packlight run claude",
        'packlight run codex exec "fix the failing test"',
        "packlight run --window-tokens 64k -- python my_agent.py",
    )
    _proxied(parser)
    parser.add_argument("command_line", metavar="CMD", nargs=argparse.REMAINDER, help="the command and its arguments")
    parser.set_defaults(host="127.0.0.1", port=0, workers=1, json=False)


def _proxy(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands,
        "proxy",
        "stand between any agent and its provider, so that it keeps working past its window",
        "Passes everything on as it is, and changes a conversation only when it would not fit. Point the agent at it:\n"
        "ANTHROPIC_BASE_URL=http://127.0.0.1:8787 or OPENAI_BASE_URL=http://127.0.0.1:8787/v1. Its own files stay as\n"
        "they are, and it can be left any time. Keys are passed on, never kept. Needs packlight[proxy].",
        "packlight proxy",
        "packlight proxy --upstream http://127.0.0.1:8000 --window-tokens 32k     a server of your own",
        "packlight proxy --mode shadow                    change nothing, show what would have been",
    )
    parser.add_argument("--port", type=_port, default=8787, metavar="N", help="default 8787; 0 takes a free one")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="H", help="other than loopback: a token is asked of each request"
    )
    parser.add_argument("--workers", type=_count, default=1, metavar="N", help="so many processes (default 1)")
    _proxied(parser)
    parser.add_argument("--json", action="store_true", help="log every request as a line of JSON")


def _doctor(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands,
        "doctor",
        "send real requests down the real path, and say what works and what does not",
        "With ANTHROPIC_API_KEY or OPENAI_API_KEY: three small requests for each API to its cheapest model, one of\n"
        "them compacted on the way (some 10,000 input tokens in all). With the name of an agent: it is asked one\n"
        "thing through a proxy, with whatever login it has. Writes nothing. Exits with 1 when something does not work.",
        "packlight doctor",
        "packlight doctor claude",
        "packlight doctor --upstream http://127.0.0.1:8000 --model my-model",
    )
    parser.add_argument("agent", nargs="?", choices=("claude", "codex"), metavar="AGENT", help="claude or codex")
    parser.add_argument("--model", metavar="M", help="ask this one, not the cheapest")
    _proxied(parser)
    _json(parser)
    parser.set_defaults(host="127.0.0.1", port=0, workers=1)


def _proxied(parser: _Parser) -> None:
    """What a proxy is told, whether it stands alone or runs for one command."""
    parser.add_argument("--upstream", metavar="URL", help="one provider for all paths (default: told by path)")
    parser.add_argument(
        "--mode",
        choices=("fit", "rescue", "shadow"),
        default="fit",
        help="fit: change what would not fit or was refused for its length; rescue: only what was refused; shadow: "
        "nothing, but say what would have been (default fit)",
    )
    parser.add_argument(
        "--policy",
        choices=("default", "thrifty"),
        default="default",
        help="thrifty: change also what fits, where carrying it costs more than taking it out (default default)",
    )
    parser.add_argument("--window-tokens", type=_count, metavar="N", help="context window, instead of the model's own")
    parser.add_argument(
        "--keep-tool", action="append", default=[], metavar="NAME", help="never take out results of this tool"
    )
    parser.add_argument(
        "--store",
        metavar="DIR",
        help="keep what is taken out there too, as files that the agent can read; none: write nothing at all "
        "(default: only the edits, in the user's state folder)",
    )
    parser.add_argument(
        "--recall-tool",
        action="store_true",
        help="give the model a tool to get back what was taken out, from a conversation's first request on",
    )


def _port(text: str) -> int:
    """A port number."""
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)


def _agent(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = _command(
        commands,
        "agent",
        "work on a task in this folder with a model and tools, and never run out of window",
        "Reads the rules in AGENTS.md. Runs commands, reads and edits files; asks before what can do harm.\n"
        "Text goes to standard output, all else to standard error. Without a task it is a conversation: /help there.\n"
        "Needs an extra, packlight[anthropic] or packlight[openai], and its key: ANTHROPIC_API_KEY or OPENAI_API_KEY.\n"
        "Exits with 1 when it stopped before the end (--max-turns, the model's server), 130 when it was interrupted.",
        'packlight agent "find out why tests/test_auth.py fails, and fix it"',
        'packlight agent --yes --max-turns 500 "bring every module to 90 % test coverage" > report.txt',
        'packlight agent --base-url http://127.0.0.1:8080/v1 "what does this project do?"',
        "packlight agent --continue                       the newest session of this folder, also after a crash",
        "packlight replay ~/.local/state/packlight        what compaction did to its sessions",
    )
    parser.add_argument("task", metavar="TASK", nargs="?", help="what is to be done; - reads it from standard input")
    parser.add_argument("--model", metavar="M", help="default: that of the key that is set, or the server's first")
    parser.add_argument("--api", choices=("messages", "chat", "responses"), help="when the model's name does not tell")
    parser.add_argument("--base-url", metavar="URL", help="of any compatible server")
    parser.add_argument(
        "--continue", dest="resume", metavar="FILE", nargs="?", const="", help="go on with a session (*.jsonl)"
    )
    parser.add_argument("-i", "--interactive", action="store_true", help="go on as a conversation after the task")
    parser.add_argument("--yes", action="store_true", help="allow what it would ask for; a few commands are never run")
    parser.add_argument("--max-turns", type=_count, default=200, metavar="N", help="model calls a task (default 200)")
    parser.add_argument("--max-tokens", type=_count, metavar="N", help="room for one answer (default 8,000)")
    _policy(parser)
    parser.set_defaults(policy=None)  # a session that goes on keeps its own
    parser.add_argument(
        "--writer",
        metavar="W",
        help="a model that writes prose into summaries: self, anthropic:MODEL or openai:MODEL; or provider, whose own"
        " compaction is asked for (default: none is asked)",
    )
    parser.add_argument("--store", metavar="DIR", help="where what is taken out is kept (default: beside the session)")
    _json(parser)
