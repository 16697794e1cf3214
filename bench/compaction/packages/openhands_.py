"""OpenHands' LLMSummarizingCondenser with its defaults and a limit in tokens, asked before each call as its agent does;
what it forgets stays forgotten."""

import json
from types import SimpleNamespace

from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.view import View
from openhands.sdk.event import ActionEvent, Condensation, MessageEvent, ObservationEvent
from openhands.sdk.llm import LLM, Message, MessageToolCall, TextContent
from openhands.sdk.tool.schema import Observation
from pydantic import PrivateAttr
from translate import Sent, Translation
from worker import serve


class Result(Observation):
    pass


class Scripted(LLM):
    """Counts as the provider does, and answers a summariser."""

    _side: object = PrivateAttr()
    _tokens_per_char: float = PrivateAttr()

    def get_token_count(self, messages, *args, **kwargs):
        return round(sum(map(self._chars, messages)) * self._tokens_per_char)

    def generate(self, messages, **kwargs):
        text = self._side.ask("\n\n".join(c.text for m in messages for c in m.content))
        return SimpleNamespace(message=Message(role="assistant", content=[TextContent(text=text)]), id="scripted")

    @staticmethod
    def _chars(message):
        said = sum(len(c.text) for c in message.content if isinstance(c, TextContent))
        return 40 + said + sum(len(c.name) + len(c.arguments) for c in message.tool_calls or ())


def events_of(unit, actions):
    text = [TextContent(text=unit.text)]
    if unit.role == "tool":
        event = ObservationEvent(
            observation=Result(content=text),
            action_id=actions.get(unit.call_id, "unknown"),
            tool_name="tool",
            tool_call_id=unit.call_id,
        )
        return [event]
    if not unit.calls:
        source = "agent" if unit.role == "assistant" else "user"
        return [MessageEvent(source=source, llm_message=Message(role=unit.role, content=text))]
    events = []
    for n, (id, name, arguments) in enumerate(unit.calls):
        call = MessageToolCall(id=id, name=name, arguments=json.dumps(arguments), origin="completion")
        thought = text if n == 0 and unit.text else []
        event = ActionEvent(
            thought=thought, tool_name=name, tool_call_id=id, tool_call=call, llm_response_id=f"response-{unit.id}"
        )
        actions[id] = event.id
        events.append(event)
    return events


def make(setting, side):
    llm = Scripted(model="gpt-4o", api_key="none", usage_id="scripted")
    llm._side, llm._tokens_per_char = side, setting["tokens_per_char"]
    room = max(2_000, round(setting["budget_tokens"] - setting["head_tokens"]))
    condenser = LLMSummarizingCondenser(llm=llm, max_tokens=room)
    translation, view, unit_of, actions, seen = Translation(setting["format"]), View(), {}, {}, 0

    def policy(messages, head, now):
        nonlocal view, seen
        found = translation.units(messages)
        if len(found) < seen:
            view, seen = View(), 0
        for unit in found[seen:]:
            for event in events_of(unit, actions):
                unit_of[event.id] = unit
                view.append_event(event)
        seen = len(found)
        answer = condenser.condense(view, llm)
        while isinstance(answer, Condensation):
            view.append_event(answer)
            answer = condenser.condense(view, llm)
        return translation.back(sent(view.events))

    def sent(events):
        before = None
        for event in events:
            unit = unit_of.get(event.id)
            if unit is None:
                message = event.to_llm_message()
                yield Sent(None, "\n".join(c.text for c in message.content))
            elif unit is not before:  # parallel calls are several events
                yield Sent(unit)
            before = unit

    return policy


serve(make)
