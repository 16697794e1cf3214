"""Writers of summaries. `digest` needs no model, `ModelWriter` asks one."""

from .beside import carried, standing_prose
from .digest import Digest, digest
from .model import ModelWriter

__all__ = ["Digest", "ModelWriter", "carried", "digest", "standing_prose"]
