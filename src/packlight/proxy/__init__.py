"""The proxy: between an agent that was not written for it and the agent's provider.

Begin to read at `engine`, which decides what is sent, without a network. `relay` moves the bytes, `server` runs it,
`routes` knows which request is which, `wire` takes bodies apart and puts them together byte for byte, `events` cuts
streams into events, `encodings` unpacks both.
`watch` has the figures, `board` shows them: the live page, `/metrics`.
"""

from .server import Proxy, serve
from .settings import Settings

__all__ = ["Proxy", "Settings", "serve"]
