"""The official SDK behind a model: found by the model's name, with a clear word when something is missing."""

from __future__ import annotations

import importlib
import os
from typing import Any

from ..errors import AgentError
from .apis import Api, Chat, Messages, Responses

DEFAULT_MODELS = {"ANTHROPIC_API_KEY": "claude-opus-5-5", "OPENAI_API_KEY": "gpt-5.6"}
"""What is asked where only a key says whose models are meant."""
_RETRIES = 4


def default_model() -> str:
    """The model of whichever key is set. Raises AgentError when none is."""
    for key, model in DEFAULT_MODELS.items():
        if os.environ.get(key):
            return model
    raise AgentError(f"no model: give --model M, or set {' or '.join(DEFAULT_MODELS)}")


def api_name_of(model: str, base_url: str | None) -> str:
    """Which API a model is asked through: Claude's own, Responses at OpenAI, Chat Completions at any other server."""
    if "claude" in model.lower():
        return "messages"
    return "chat" if base_url else "responses"


def api_named(name: str, base_url: str | None) -> Api:
    if name == "messages":
        return Messages()
    return Chat(is_openai=base_url is None) if name == "chat" else Responses()


def connect(api: Api, base_url: str | None) -> Any:
    """A client of the SDK for this API. Raises AgentError when the package or the key is missing."""
    package, key = ("anthropic", "ANTHROPIC_API_KEY") if api.name == "anthropic" else ("openai", "OPENAI_API_KEY")
    try:
        sdk = importlib.import_module(package)
    except ImportError:
        raise AgentError(f"the {package} package is missing: pip install 'packlight[{package}]'") from None
    options: dict[str, Any] = {"max_retries": _RETRIES}
    if base_url:
        options["base_url"] = base_url
        if not os.environ.get(key):
            options["api_key"] = "none"  # a server of one's own wants none
    try:
        client = sdk.Anthropic(**options) if package == "anthropic" else sdk.OpenAI(**options)
    except Exception as error:
        raise AgentError(f"{key} is not set" if not os.environ.get(key) else str(error)) from error
    if not any(getattr(client, name, None) for name in ("api_key", "auth_token", "credentials")):
        raise AgentError(f"{key} is not set")
    return client


def first_model(base_url: str) -> str:
    """The first model that a compatible server lists. Raises AgentError when it lists none."""
    client = connect(Chat(), base_url)
    try:
        with client:
            return str(next(iter(client.models.list())).id)
    except Exception as error:
        raise AgentError(f"no model: {base_url} lists none ({said_by(error)}); give --model M") from error


def said_by(error: Exception) -> str:
    """What an SDK's error says, on one line."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message") if isinstance(inner, dict) else None
    cause = error.__cause__
    text = str(message or error) + (f" ({cause})" if cause and not message else "")
    return " ".join(text.split())[:500]


def is_dropped(error: Exception) -> bool:
    """Whether the connection broke: worth another try. SDKs let their HTTP library's errors through in a stream."""
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & {"APIConnectionError", "TransportError"})


def is_from_sdk(error: Exception) -> bool:
    """Whether it is an error of an SDK or of its HTTP library, and no mistake of ours."""
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & {"AnthropicError", "OpenAIError", "TransportError"})
