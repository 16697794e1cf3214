"""The command line: `packlight replay | compact | check | restore | recall`.

Each command reads a file or standard input, prints for people, or JSON with `--json`, and exits with 0, 1 (findings)
or 2 (usage or bad input: one clear line).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..errors import PacklightError

__all__ = ["main"]

_EPILOG = """\
examples:
  packlight replay examples/                       what compaction does to recorded sessions
  packlight compact request.json --window-tokens 64000 --store .packlight -o small.json
  packlight restore small.json --store .packlight  and back, exactly
  packlight check request.json                     is this request valid for its API?
  packlight recall src/auth.py --store .packlight  what was taken out, by path, reference or words

`-` as FILE is standard input. `packlight COMMAND --help` tells the rest.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    if not getattr(args, "run", None):
        parser.print_help()
        return 2
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except PacklightError as error:
        return _refused(str(error))
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _refused(f"{error.filename or ''}: {error.strerror or error}".removeprefix(": "))
    except KeyboardInterrupt:
        return 130


def _refused(why: str) -> int:
    line = " ".join(why.split())
    sys.stderr.write(f"packlight: {line.encode('utf-8', 'replace').decode()}\n")
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="packlight",
        description="Keeps LLM agents working past their context window; shows what that does to recorded sessions.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version="packlight 0.1.0")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    _replay(commands)
    _compact(commands)
    _check(commands)
    _restore(commands)
    _recall(commands)
    return parser


def _command(commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, help: str, detail: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        name, help=help, description=f"{help[0].upper()}{help[1:]}. {detail}", formatter_class=argparse.RawDescriptionHelpFormatter
    )


def _input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a request body or list of messages as JSON; - is standard input")
    parser.add_argument("--format", choices=("anthropic", "chat", "responses"), help="when it can't be told from the request")


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def _store(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("--store", metavar="DIR", required=required, help="the folder where what is taken out is kept")


def _policy(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    names = "default, thrifty, classic, nano or none"
    parser.add_argument("--policy", default="default", metavar="P", help=names + ("; several with commas" if several else ""))
    parser.add_argument("--window-tokens", type=_count, metavar="N", help="context window, instead of the model's own")


def _count(text: str) -> int:
    try:
        value = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        value = 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def _replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "replay",
        "walk recorded agent sessions through the engine and show what compaction did",
        "Reads session files of Claude Code and Codex and plain message lists; writes nothing.",
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", help="session files, or folders of them; - is standard input")
    parser.add_argument("--format", choices=("anthropic", "chat", "responses"), help="of a plain list, when it can't be told")
    _policy(parser, several=True)
    _json(parser)
    parser.set_defaults(run=_lazily("replay"))


def _compact(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "compact",
        "make one request fit",
        "Writes the request to OUT (or standard output) and the report to standard error.\n"
        "Exits with 1 when the smallest valid form is still over the budget.",
    )
    _input(parser)
    _policy(parser)
    parser.add_argument("--model", metavar="M", help="whose window and rules count, when the request names none")
    _store(parser, required=False)
    parser.add_argument("--force", action="store_true", help="compact although it fits")
    parser.add_argument("--repair", action="store_true", help="mend broken places as well")
    parser.add_argument("-o", "--output", metavar="OUT", help="write the request there")
    _json(parser)
    parser.set_defaults(run=_lazily("compact"))


def _check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "check", "say whether a request is valid for its API", "Exits with 0 when it is, with 1 and a line for each violation when not.")
    _input(parser)
    _json(parser)
    parser.set_defaults(run=_lazily("check"))


def _restore(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "restore",
        "undo the last compaction of a request",
        "What was appended since stays. Gives back exactly the JSON value that went in.",
    )
    _input(parser)
    _store(parser)
    parser.add_argument("--all", action="store_true", help="undo every compaction")
    parser.add_argument("-o", "--output", metavar="OUT", help="write the request there")
    _json(parser)
    parser.set_defaults(run=_lazily("restore"))


def _recall(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "recall", "show what was taken out", "By reference, by path, or by words.")
    parser.add_argument("query", metavar="REF|PATH|WORDS", nargs="+")
    _store(parser)
    parser.add_argument("--conversation", metavar="ID", help="only what was taken out of this one")
    parser.add_argument("--limit", type=_count, default=5, metavar="N", help="at most so many finds (default 5)")
    _json(parser)
    parser.set_defaults(run=_lazily("recall"))


class _lazily:
    """A command that is imported when it is run: `--help` pays for none of them."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, args: argparse.Namespace) -> int:
        from . import commands

        code: int = getattr(commands, self._name)(args)
        return code
