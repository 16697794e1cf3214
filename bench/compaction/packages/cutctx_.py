"""cutctx: plan, fulfil, apply, with its default chain (mask, summarise, drop).

It leaves to its caller when to compact and what to keep: here the compacted view is carried on, and compacted again to
half of the room when it has outgrown that.
"""

from contextlib import suppress

from cutctx import CompactionBudget, CompactionExecutor, Role, Transcript, TranscriptTurn, default_chain
from cutctx.errors import BudgetUnsatisfiable
from translate import Sent, Translation
from worker import serve


def make(setting, side):
    room = max(2_000, round(setting["budget_tokens"] - setting["head_tokens"]))
    translation, chain, executor = Translation(setting["format"]), default_chain(prompt_id="p"), CompactionExecutor()
    view, seen, units, exchange = [], 0, {}, {}

    def turn(unit):
        for call_id, *_ in unit.calls:
            exchange[call_id] = unit.calls[0][0]  # parallel calls are one exchange
        belongs = unit.calls[0][0] if unit.calls else exchange.get(unit.call_id)
        tokens = max(1, round(unit.chars * setting["tokens_per_char"]))
        return TranscriptTurn(unit.id, Role(unit.role), unit.text, tokens, tool_call_id=belongs)

    def compacted(transcript):
        budget = CompactionBudget(room // 2)
        plan = chain.decide(transcript, budget)
        by_id = {t.turn_id: t for t in transcript.turns}
        texts = {
            s.group_id: side.ask("\n\n".join(by_id[i].content for i in s.turn_ids)) for s in plan.summarization_requests
        }
        return list(executor.apply(transcript, plan, summaries=texts).transcript.turns)

    def policy(messages, head, now):
        nonlocal view, seen
        found = translation.units(messages)
        if len(found) < seen:
            view, seen = [], 0
        units.update((u.id, u) for u in found[seen:])
        view += map(turn, found[seen:])
        seen = len(found)
        if sum(t.token_estimate for t in view) > room:
            with suppress(BudgetUnsatisfiable):  # then it is sent as it is
                view = compacted(Transcript(tuple(view)))
        return translation.back(sent(t) for t in view)

    def sent(t):
        unit = units.get(t.turn_id)
        return Sent(unit, None if unit and t.content == unit.text else t.content)

    return policy


serve(make)
