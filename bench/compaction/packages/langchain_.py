"""LangChain's middleware: ContextEditingMiddleware, and SummarizationMiddleware with its defaults.

Both count characters / 4; their triggers are set so that they act at the published size (100,000 of 200,000 tokens),
and where the window is really full.
"""

from chain import Driven, Scripted, own_scale
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, SummarizationMiddleware
from langchain.agents.middleware.types import ModelRequest
from worker import serve


def editing(setting, side):
    scale = setting["window_tokens"] / 200_000
    at_least = own_scale(setting.get("at_least", 0) * scale + setting["head_tokens"], setting)
    edit = ClearToolUsesEdit(
        trigger=own_scale(100_000 * scale, setting), clear_at_least=at_least if setting.get("at_least") else 0
    )
    middleware, driven = ContextEditingMiddleware(edits=[edit]), Driven(setting)

    def policy(messages, head, now):
        driven.take(messages)
        request = ModelRequest(model=Scripted(ask=side.ask), messages=driven.state)
        return driven.wire(middleware.wrap_model_call(request, lambda r: r.messages))

    return policy


def summarization(setting, side):
    trigger = ("tokens", own_scale(setting["budget_tokens"], setting))
    middleware, driven = SummarizationMiddleware(Scripted(ask=side.ask), trigger=trigger), Driven(setting)

    def policy(messages, head, now):
        driven.take(messages)
        update = middleware.before_model({"messages": driven.state}, None)
        if update:
            driven.state = update["messages"][1:]  # the first one removes all others
        return driven.wire(driven.state)

    return policy


serve(lambda setting, side: globals()[setting["use"]](setting, side))
