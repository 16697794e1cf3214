"""Fakes that ship with packlight, for tests of agents: a scripted model server that the official SDKs talk to.

    from packlight.testing import Call, ModelServer, Reply

    script = [Reply(calls=(Call("bash", {"command": "ls"}),)), Reply("Two files.")]
    with ModelServer(script, window_tokens=32_000) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="any")  # OpenAI: base_url=server.openai_url

Nothing here knows the engine: what the server counts and refuses is its own reading of the three APIs.
"""

from .replies import Call, Refusal, Reply
from .server import ModelServer

__all__ = ["Call", "ModelServer", "Refusal", "Reply"]
