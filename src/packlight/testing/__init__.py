"""Fakes that ship with packlight: a scripted model server that the official SDKs talk to, a scripted summariser.

    from packlight.testing import Call, ModelServer, Reply

    script = [Reply(calls=(Call("bash", {"command": "ls"}),)), Reply("Two files.")]
    with ModelServer(script, window_tokens=32_000) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="any")  # OpenAI: base_url=server.openai_url

What the server counts and refuses is its own reading of the three APIs: it knows nothing of the engine.
"""

from .replies import Call, Refusal, Reply
from .server import ModelServer
from .summariser import FAULTS, ScriptedSummariser

__all__ = ["FAULTS", "Call", "ModelServer", "Refusal", "Reply", "ScriptedSummariser"]
