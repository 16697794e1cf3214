"""The recall tool of the proxy: added to a conversation from its first request, its calls answered here.

The client never sees it. Begin to read at `turn`; `kept` has what makes a hidden exchange stand in every later request,
`wire` and its three neighbours read replies and make one of several.
"""

from .turn import Recalls, Turn

__all__ = ["Recalls", "Turn"]
