"""Pydantic AI's harness: the tiers that its README recommends (clear tool results, then summarise), run by
`compact_now` whenever the history is over its target. Sizes are the provider's, by the tokenizer that may be passed."""

import asyncio

from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_harness.compaction import ClearToolResults, SummarizingCompaction, TieredCompaction, compact_now
from translate import Sent, Translation
from worker import serve


def as_message(units, names):
    """The units of one wire message, which stay known by its metadata."""
    metadata = {"units": [u.id for u in units]}
    first = units[0]
    if first.role == "assistant":
        names.update((id, name) for id, name, _ in first.calls)
        calls = [ToolCallPart(name, arguments, tool_call_id=id) for id, name, arguments in first.calls]
        return ModelResponse([*([TextPart(first.text)] if first.text else []), *calls], metadata=metadata)
    parts = [
        ToolReturnPart(names.get(u.call_id, "tool"), u.text, tool_call_id=u.call_id)
        if u.role == "tool"
        else UserPromptPart(u.text)
        for u in units
    ]
    return ModelRequest(parts, metadata=metadata)


def make(setting, side):
    def count(text):
        return round(len(text) * setting["tokens_per_char"])

    def answer(messages, info):
        return ModelResponse([TextPart(side.ask("\n\n".join(str(p.content) for m in messages for p in m.parts)))])

    model = FunctionModel(answer)
    target = max(2_000, round(setting["budget_tokens"] - setting["head_tokens"]))
    tiers = [
        ClearToolResults(max_tokens=1, keep_pairs=3, tokenizer=count),
        SummarizingCompaction(model=model, max_messages=1, keep_messages=20, tokenizer=count),
    ]
    strategy = TieredCompaction(tiers=tiers, target_tokens=target, tokenizer=count)
    translation, state, units, names, seen = Translation(setting["format"]), [], {}, {}, 0

    def policy(messages, head, now):
        nonlocal state, seen
        found = translation.units(messages)
        if len(found) < len(units):
            state, seen = [], 0
            units.clear()
        groups = {}
        for unit in found[len(units) :]:
            units[unit.id] = unit
            groups.setdefault(unit.place[0], []).append(unit)
        state = [*state, *(as_message(group, names) for group in groups.values())]
        if sum(count(str(p.content if hasattr(p, "content") else p.args)) for m in state for p in m.parts) > target:
            state = asyncio.run(compact_now(strategy, state, model=model, tokenizer=count))
        return translation.back(s for m in state for s in sent(m))

    def sent(message):
        own = [units[id] for id in (message.metadata or {}).get("units", ())]
        if not own:
            yield Sent(None, "\n\n".join(str(p.content) for p in message.parts))
        elif own[0].role == "assistant":
            yield Sent(own[0])
        else:
            results = {p.tool_call_id: p.content for p in message.parts if isinstance(p, ToolReturnPart)}
            for unit in own:
                text = results.get(unit.call_id, unit.text)
                yield Sent(unit, None if text == unit.text else str(text))

    return policy


serve(make)
