"""The Hermes agent's ContextCompressor, driven as its loop does: asked before each call with the size of the request,
and the compressed history is carried on. Messages are those of Chat Completions."""

import json
import os
import tempfile
from types import SimpleNamespace

from translate import Sent, Translation
from worker import serve

os.environ["HERMES_HOME"] = tempfile.mkdtemp()

import agent.context_compressor as hermes

UNIT = "_unit"
SYSTEM = {"role": "system", "content": "You are a coding agent."}
"""Its histories begin with one."""


def as_message(unit):
    message = {"role": unit.role, "content": unit.text, UNIT: unit.id}
    if unit.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for id, name, arguments in unit.calls
        ]
    return {**message, "tool_call_id": unit.call_id} if unit.role == "tool" else message


def make(setting, side):
    def call_llm(*, messages, **_):
        text = side.ask("\n\n".join(m["content"] for m in messages))
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=text))])

    hermes.call_llm = call_llm
    compressor = hermes.ContextCompressor(
        setting["model"], config_context_length=setting["window_tokens"], quiet_mode=True
    )
    translation, state, units = Translation(setting["format"]), [SYSTEM], {}

    def tokens():
        return round(setting["head_tokens"] + len(json.dumps(state)) * setting["tokens_per_char"])

    def policy(messages, head, now):
        nonlocal state
        found = translation.units(messages)
        if len(found) < len(units):
            state = [SYSTEM]
            units.clear()
        new = found[len(units) :]
        units.update((u.id, u) for u in new)
        state = [*state, *map(as_message, new)]
        if compressor.should_compress(tokens()):
            state = compressor.compress(state, current_tokens=tokens())
        compressor.update_from_response({"prompt_tokens": tokens()})
        return translation.back(sent(m) for m in state if m["role"] != "system")

    def sent(message):
        unit = units.get(message.get(UNIT))
        if unit is None:
            return Sent(None, message["content"], role=message["role"])
        calls = [(c["id"], c["function"]["arguments"]) for c in message.get("tool_calls") or ()]
        own = {id: json.dumps(arguments) for id, _, arguments in unit.calls}
        changed = {id: json.loads(text) for id, text in calls if text != own.get(id)}
        return Sent(unit, None if message["content"] == unit.text else message["content"], changed)

    return policy


serve(make)
