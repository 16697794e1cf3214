"""The proxy: between an agent that was not written for it and the agent's provider.

Begin to read at `engine`, which decides what is sent, without a network. `server` takes requests in, `relay` moves the
bytes, `routes` knows which request is which, `wire` takes bodies apart and puts them together byte for byte, `events`
cuts streams into events, `encodings` unpacks both. `processes` and `launch` run it. `watch` has the figures, `board`
shows them: the live page, `/metrics`.
"""

from .processes import serve
from .server import Proxy
from .settings import Settings

__all__ = ["Proxy", "Settings", "serve"]
