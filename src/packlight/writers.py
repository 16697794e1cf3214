"""What may be given as `writer=`, and what becomes of it."""

from __future__ import annotations

from typing import Any

from .layers import ProviderHistory
from .policy import Policy
from .provider import provider_of
from .summary import ModelWriter
from .transport import TIMEOUT_SECONDS, takes_job, transport_of
from .types import Writer

__all__ = ["model_writer", "needs_await", "provider_writer", "writer_of"]


def model_writer(
    source: Any,
    *,
    model: str = "",
    base_url: str | None = None,
    api_key: str | None = None,
    window_tokens: int | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    instructions: str = "",
) -> Writer:
    """A writer that asks a model for the prose of a summary; the digest's facts stand beside it.

    `source` is one of these:

    - `"anthropic:MODEL"` or `"openai:MODEL"`, through the official SDK (extras `anthropic` and `openai`), which finds
      its key as always or is given `api_key`. With `base_url`, `openai:` is any server that speaks Chat Completions.
    - a client of either SDK, sync or async, together with `model`. It is used as it is and never closed.
    - a function, sync or async, from the prompt to the text. One whose parameter is annotated `SummaryRequest` is given
      that, and may give a `SummaryReply`.

    `window_tokens` is that model's window, where packlight does not know the model; a longer history is summarised in
    parts. `timeout_seconds` holds for each call (a sync function has to end by itself). `instructions` are added to
    the prompt. Raises TypeError and ValueError for what is none of these.
    """
    transport = transport_of(source, model=model, base_url=base_url, api_key=api_key, timeout_seconds=timeout_seconds)
    return ModelWriter(transport=transport, window_tokens=window_tokens, instructions=instructions)


def provider_writer(
    client: Any, *, timeout_seconds: float = TIMEOUT_SECONDS, instructions: str = ""
) -> ProviderHistory:
    """The provider compacts its own conversations when old turns have to go; the digest's facts stand beside it.

    `client` is of the official `anthropic` or `openai` package, sync or async, for conversations in the format of
    Messages or Responses; it asks the model that each request names. Behind Anthropic's summary the signed thinking of
    kept turns stays valid. Where the provider gives none, the digest stands alone and the report says why.
    `instructions` take the place of Anthropic's own prompt; OpenAI takes none.

    Requests that carry Anthropic's summary need the header in `Compaction.headers`; a wrapped client sends it.
    Raises TypeError for any other client.
    """
    transport = provider_of(client, timeout_seconds=timeout_seconds)
    return ProviderHistory(transport=transport, instructions=instructions)


def writer_of(writer: Any) -> Writer | ProviderHistory | None:
    """The writer that a `writer=` argument means: itself when it is a `Writer`, else one that asks a model."""
    if writer is None or isinstance(writer, (ModelWriter, ProviderHistory)) or takes_job(writer):
        return writer
    return model_writer(writer)


def needs_await(policy: Policy) -> bool:
    """Whether a writer of this policy can only be awaited."""
    layers = (*policy.on_arrival, *policy.each_call, *policy.when_due, *policy.on_overflow)
    writers = (layer if isinstance(layer, ProviderHistory) else getattr(layer, "writer", None) for layer in layers)
    return any(w.transport.is_async for w in writers if isinstance(w, (ModelWriter, ProviderHistory)))
