"""The agent: a loop around a model and its tools.

    ask the model -> it calls tools -> carry them out -> ask again -> ... -> it answers without a call

What makes it fit its window, whatever the tools print, is `wrap(client)`: each request is compacted when it must be,
its usage is recorded, and one that is refused for its length is sent again, smaller. The list in `session` only grows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..budget import ROOM_KEYS
from ..compaction import Report
from ..compactor import Compactor
from ..errors import AgentError, ContextWindowExceeded
from ..integrations.recall_tool import recall_tool
from ..integrations.wrap import wrap
from ..tokens import input_tokens
from ..types import Json
from .apis import Answer, Api, Call, Result, user
from .clients import is_dropped, is_from_sdk, said_by
from .screen import Screen
from .session import Session
from .tools import TOOLS, told, use
from .workspace import ToolError, Workspace

MAX_TURNS = 200
INTERRUPTED = "Error: interrupted before it ended; it may have been done in part."
GO_ON = "<system-reminder>Your answer was cut off for its length. Go on where it ended.</system-reminder>"
_MAX_CUT = 3
_TRIES = 4


class OutOfTurns(AgentError):
    """The model called tools as often as it may."""


@dataclass
class Totals:
    """What a run came to; sub-agents count with their agent."""

    calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    compactions: int = 0
    rescues: int = 0
    """Requests that were refused for their length and sent again."""


class Agent:
    """One conversation with one model. `tools` names those of `TOOLS` that it has."""

    def __init__(
        self,
        *,
        client: Any,
        api: Api,
        compactor: Compactor,
        session: Session,
        workspace: Workspace,
        screen: Screen,
        max_turns: int = MAX_TURNS,
        tools: frozenset[str] = frozenset(TOOLS),
        totals: Totals | None = None,
    ) -> None:
        self.api, self.compactor, self.session = api, compactor, session
        self.workspace, self.screen, self.max_turns, self.tools = workspace, screen, max_turns, tools
        self.totals = totals or Totals()
        self._bare_client = client
        self._client = wrap(client, compactor, conversation=session.id)
        self._recall = recall_tool(api.name, compactor, session.id)
        self._compact_next: str | None = None
        self._noted: Report | None = None

    # --- the loop -------------------------------------------------------------------------------------------------

    def run(self, text: str | None = None) -> str:
        """The model's answer to what the user says; None goes on where the conversation stands.

        Raises OutOfTurns, ContextWindowExceeded, and AgentError when the model's server can't be had.
        """
        if text is not None:
            self.session.add([user(text)])
        cut = 0
        for _ in range(self.max_turns):
            answer = self._ask()
            if answer.calls:
                self._answer(answer.calls)
            elif not answer.is_cut:
                return answer.text
            elif cut == _MAX_CUT:
                raise AgentError(f"the model's answers are cut off at --max-tokens {self._room} again and again")
            elif answer.text:
                self.session.add([user(GO_ON)])
            else:  # servers that cut a prompt to their window have no room left for an answer
                self.compact()
            cut = 0 if answer.calls else cut + 1
        raise OutOfTurns(f"stopped after {self.max_turns} model calls (--max-turns)")

    def request(self) -> dict[str, Json]:
        """What goes to the model, before it is made to fit."""
        messages = self.api.sent(self.session.messages)
        return {"model": self.session.about["model"], **self.session.head, self.api.list_key: messages}

    @property
    def _room(self) -> int:
        return next((self.session.head[key] for key in ROOM_KEYS if key in self.session.head), 0)

    def _ask(self) -> Answer:
        if self._compact_next is not None:
            self.compact(self._compact_next)
        for left in reversed(range(_TRIES)):
            try:
                answer = self.api.ask(self._client, self.request(), self._show)
                break
            except Exception as error:
                if not is_from_sdk(error):
                    raise
                if not left or not is_dropped(error):
                    raise AgentError(f"the model's server: {said_by(error)}") from error
                self.screen.note(f"the connection broke ({said_by(error)}): once more")
                time.sleep(_TRIES - left)
        self._note(answer)
        if answer.text or answer.calls:  # thinking alone may not stand in a history
            self.session.add(answer.messages)
        return answer

    def _answer(self, calls: list[Call]) -> None:
        """Carry out calls, and answer each of them, whatever comes between."""
        results: list[Result] = []
        try:
            for call in calls:
                results += [self._carried_out(call)]
        finally:
            results += [Result(call, INTERRUPTED, True) for call in calls[len(results) :]]
            self.session.add(self.api.results(results))

    def _carried_out(self, call: Call) -> Result:
        self.totals.tool_calls += 1
        self.screen.tool(call.name, told(call.arguments))
        text, is_error = use(self, call.name, call.arguments, self.tools)
        self.screen.result(text, is_error)
        return Result(call, text, is_error)

    # --- what tools want of it ------------------------------------------------------------------------------------

    def recall(self, arguments: Mapping[str, Any]) -> str:
        return self._recall(arguments)

    def compact_next(self, focus: str) -> None:
        """Before the next request: now a call is open."""
        self._compact_next = focus

    def compact(self, focus: str = "") -> None:
        """Make a batch now, due or not."""
        self._compact_next = None
        name, format = self.session.id, self.api.name
        c = self.compactor.fit(self.request(), conversation=name, format=format, force=True, focus=focus)
        self.totals.compactions += bool(c.report.new_edits)
        self.screen.packed(c.report)

    def delegate(self, task: str) -> str:
        """The answer of a second agent with the same tools and an empty conversation."""
        about = {**self.session.about, "head": self._head_without("task")}
        about = {k: v for k, v in about.items() if k not in _OWN}
        try:
            session = Session.new(self.session.folder / "tasks", about)
        except (AgentError, OSError) as error:
            raise ToolError(f"a second agent can't begin: {error}") from None
        opening = [m for m in self.session.messages[:1] if m.get("role") == "system"]
        helper = Agent(
            client=self._bare_client,
            api=self.api,
            compactor=self.compactor,
            session=session,
            workspace=self.workspace,
            screen=self.screen.nested(),
            max_turns=self.max_turns,
            tools=self.tools - {"task"},
            totals=self.totals,
        )
        try:
            session.add(opening)
            return helper.run(task) or "(it answered nothing)"
        except (AgentError, ContextWindowExceeded) as error:
            raise ToolError(f"the second agent ended without an answer: {error}") from None
        finally:
            helper.screen.end_text()
            session.close()

    def _head_without(self, tool: str) -> dict[str, Json]:
        tools = [t for t in self.session.head["tools"] if t.get("function", t)["name"] != tool]
        return {**self.session.head, "tools": tools}

    # --- what is shown --------------------------------------------------------------------------------------------

    def _show(self, text: str) -> None:
        self._note_packing()
        self.screen.text(text)

    def _note_packing(self) -> None:
        """What was done to the request that is being answered; told once."""
        report = self._client.packlight.report
        if report is None or report is self._noted:
            return
        self._noted = report
        if report.new_edits:
            self.totals.compactions += 1
            self.totals.rescues += "refused" in report.reason
            self.screen.packed(report)
        elif report.error is not None:
            self.screen.note(f"not packed: {report.reason}")

    def _note(self, answer: Answer) -> None:
        """After a model call: count, show and keep what it took."""
        self._note_packing()
        self.screen.end_text()
        report = self._client.packlight.report
        tokens = input_tokens(answer.usage) or (report.tokens_after if report else 0)
        self.totals.calls += 1
        self.totals.input_tokens += tokens
        self.screen.call(self.totals.calls, tokens, report.window_tokens if report else None)
        self.session.used(answer.usage, is_packed=bool(report and report.edits))
        if self.session.trouble is not None:
            self.screen.note(f"the session can't be written ({self.session.trouble.strerror}): it goes on in memory")


_OWN = ("type", "version", "id")
"""What each session says of itself."""


def take_up(agent: Agent) -> bool:
    """After a crash: answer what was left open. Whether the model is to speak next."""
    if calls := agent.session.open_calls():
        agent.session.add(agent.api.results([Result(call, INTERRUPTED, True) for call in calls]))
    last = agent.session.messages[-1] if agent.session.messages else {"role": "system"}
    return last.get("role") in ("user", "tool") or last.get("type") == "function_call_output"
