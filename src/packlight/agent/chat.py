"""Interactive use: lines from a person, and commands that begin with a slash."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import AgentError, ContextWindowExceeded
from .context import context_of
from .loop import Agent

HELP = """\
/compact [FOCUS]   make room now; FOCUS says what matters most for what comes
/context           what fills the window
/help              this
/quit              end (so does Ctrl-D); `packlight agent --continue` goes on later
Ctrl-C             interrupts the turn; the conversation stays valid
Anything else is said to the model."""


def converse(agent: Agent, read_line: Callable[[], str]) -> None:
    """Until the person quits. `read_line` raises EOFError at the end of input."""
    while True:
        try:
            line = read_line().strip()
        except EOFError:
            return
        except KeyboardInterrupt:
            agent.screen.note("(/quit or Ctrl-D ends)")
            continue
        if line in ("/quit", "/exit"):
            return
        if line:
            said(agent, line)


def said(agent: Agent, line: str) -> bool:
    """One line of the person; whether it came to its end."""
    try:
        if line.startswith("/"):
            _command(agent, line)
        else:
            agent.run(line)
    except KeyboardInterrupt:
        agent.screen.note("interrupted")
        return False
    except (AgentError, ContextWindowExceeded) as error:
        agent.screen.note(f"packlight: {error}")
        return False
    return True


def _command(agent: Agent, line: str) -> None:
    name, _, rest = line.partition(" ")
    if name == "/compact":
        agent.compact(rest.strip())
    elif name == "/context":
        agent.screen.lines(context_of(agent).table(is_rich=agent.screen.is_rich))
    elif name == "/help":
        agent.screen.lines(HELP)
    else:
        agent.screen.note(f"there is no {name}: /help lists the commands")
