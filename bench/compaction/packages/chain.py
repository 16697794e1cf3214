"""An agent's state in LangChain's message types: for the drivers of langchain and deepagents."""

from langchain_core.language_models.chat_models import SimpleChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from translate import Sent, Translation
from worker import CHARS_PER_TOKEN


class Scripted(SimpleChatModel):
    """Answers a summariser."""

    ask: object

    @property
    def _llm_type(self):
        return "scripted"

    def _call(self, messages, stop=None, run_manager=None, **kwargs):
        return self.ask("\n\n".join(str(m.content) for m in messages))


def as_message(unit):
    if unit.role == "assistant":
        calls = [{"id": id, "name": name, "args": arguments} for id, name, arguments in unit.calls]
        return AIMessage(unit.text, tool_calls=calls, id=unit.id)
    if unit.role == "tool":
        return ToolMessage(unit.text, tool_call_id=unit.call_id, id=unit.id)
    return (SystemMessage if unit.role == "system" else HumanMessage)(unit.text, id=unit.id)


class Driven:
    """Holds the agent's state: its messages, with the unit behind each."""

    def __init__(self, setting):
        self._translation = Translation(setting["format"])
        self.state, self._seen, self._units = [], 0, {}

    def take(self, messages):
        found = self._translation.units(messages)
        if len(found) < self._seen:
            self.state, self._seen = [], 0
        self._units.update((u.id, u) for u in found[self._seen :])
        self.state = [*self.state, *map(as_message, found[self._seen :])]
        self._seen = len(found)

    def replace(self, messages):
        """Messages of the state with these ids are now these."""
        by_id = {m.id: m for m in messages}
        self.state = [by_id.get(m.id, m) for m in self.state]

    def wire(self, messages):
        return self._translation.back(map(self._sent, messages))

    def _sent(self, message):
        unit = self._units.get(message.id)
        if unit is None:
            return Sent(None, message.text)
        calls = [(c["id"], c["args"]) for c in getattr(message, "tool_calls", ())]
        changed = {id: args for (id, args), (_, _, own) in zip(calls, unit.calls, strict=True) if args != own}
        return Sent(unit, None if message.content == unit.text else message.text, changed)


def own_scale(tokens, setting):
    return max(1_000, round((tokens - setting["head_tokens"]) / setting["tokens_per_char"] / CHARS_PER_TOKEN))
