"""How large things are, in tokens: text, messages, pictures, and what a provider reports."""

from .byteclass import ByteClassCounter
from .counter import Counter, counter_for
from .exact import MissingExtra, O200kCounter, exact_counter
from .images import IMAGE_RULES, ImageRule, image_tokens, media_tokens
from .usage import cache_read_tokens, cache_write_tokens, input_tokens, output_tokens
from .value import count_value, sealed_tokens

__all__ = [
    "IMAGE_RULES",
    "ByteClassCounter",
    "Counter",
    "ImageRule",
    "MissingExtra",
    "O200kCounter",
    "cache_read_tokens",
    "cache_write_tokens",
    "count_value",
    "counter_for",
    "exact_counter",
    "image_tokens",
    "input_tokens",
    "media_tokens",
    "output_tokens",
    "sealed_tokens",
]
