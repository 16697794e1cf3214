"""deepagents: `create_summarization_middleware` with the defaults that it takes from a model's profile.

It counts characters / 4, so the profile's window is the real one in that scale. What it offloads goes to a folder.
"""

import tempfile

from chain import Driven, Scripted, own_scale
from deepagents.backends import FilesystemBackend
from deepagents.middleware.summarization import create_summarization_middleware
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from worker import serve


def make(setting, side):
    window = own_scale(setting["window_tokens"], setting)
    model = Scripted(ask=side.ask, profile={"max_input_tokens": window})
    backend = FilesystemBackend(root_dir=tempfile.mkdtemp(), virtual_mode=True)
    middleware, driven, state = create_summarization_middleware(model, backend), Driven(setting), {}

    def policy(messages, head, now):
        driven.take(messages)
        asked = []

        def handler(request):
            asked.append(request.messages)
            return ModelResponse(result=[AIMessage("")])

        request = ModelRequest(model=model, messages=driven.state, state={**state, "messages": driven.state})
        response = middleware.wrap_model_call(request, handler)
        if isinstance(response, ExtendedModelResponse):
            update = dict(response.command.update)
            driven.replace(update.pop("messages", ()))
            state.update(update)
        return driven.wire(asked[-1])

    return policy


serve(make)
