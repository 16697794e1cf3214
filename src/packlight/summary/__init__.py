"""Writers of summaries. `digest` needs no model."""

from .digest import Digest, digest

__all__ = ["Digest", "digest"]
