"""What an image, a document or a sound weighs, by each provider's rule and from its size alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ..types import Media

_UNKNOWN_WIDTH, _UNKNOWN_HEIGHT = 1568, 1024
"""Stands for a picture named by URL or id, or one whose header can't be read: larger than a usual screenshot
after scaling, so that the count errs upward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRule:
    """How one family of models counts pictures and pages."""

    kind: Literal["claude", "tiles", "patches", "gemini"]
    longest_px: int = 1568
    limit_tokens: int = 1568
    """Largest count of one picture before the multiplier."""
    base_tokens: int = 0
    tile_tokens: int = 0
    multiplier: float = 1.0
    page_tokens: int = 2_250
    """One page of a PDF. Anthropic gives 1,500 to 3,000 by its text, plus the page as a picture
    (platform.claude.com, PDF support)."""
    audio_second_tokens: int = 10
    """gpt-4o-audio counts an input second as 10 tokens; Gemini as 32 (ai.google.dev, tokens)."""


IMAGE_RULES: dict[str, ImageRule] = {
    # platform.claude.com, vision: ceil(w/28) * ceil(h/28) after scaling; 1000 x 1000 measured as 1,296.
    "claude_old": ImageRule(kind="claude"),
    "claude": ImageRule(kind="claude", longest_px=2576, limit_tokens=4784),
    # platform.openai.com, images and vision: 512 px tiles after fitting 2048 and a short side of 768.
    "gpt_4o": ImageRule(kind="tiles", base_tokens=85, tile_tokens=170),
    "gpt_4o_mini": ImageRule(kind="tiles", base_tokens=2833, tile_tokens=5667),
    "gpt_5": ImageRule(kind="tiles", base_tokens=70, tile_tokens=140),
    "gpt_o": ImageRule(kind="tiles", base_tokens=75, tile_tokens=150),
    # Patches of 32 px times a factor, with a budget of patches.
    "gpt_mini": ImageRule(kind="patches", longest_px=2048, limit_tokens=1536, multiplier=1.62),
    "gpt_5_2": ImageRule(kind="patches", longest_px=2048, limit_tokens=2500, multiplier=1.2),
    "gpt_5_5": ImageRule(kind="patches", longest_px=6000, limit_tokens=10_000, multiplier=1.2),
    "gemini": ImageRule(kind="gemini", page_tokens=560, audio_second_tokens=32),
    "other": ImageRule(kind="claude", page_tokens=2_250),
}


def media_tokens(media: Media, rule: ImageRule, *, detail: str = "") -> int:
    """Tokens of one image, document or sound."""
    if media.kind == "image":
        return image_tokens(media.width or _UNKNOWN_WIDTH, media.height or _UNKNOWN_HEIGHT, rule, detail=detail)
    if media.kind == "audio":
        # 16 kbit/s is about the lowest rate in use for speech: the bound on the seconds of a sound.
        return max(1, math.ceil(media.data_chars * 3 / 4 / 2_000) * rule.audio_second_tokens)
    if media.pages:
        return media.pages * rule.page_tokens
    if media.media_type.startswith("text/"):
        return math.ceil(media.data_chars * 3 / 4 / 2.5)
    return _document_bound(media, rule)


def _document_bound(media: Media, rule: ImageRule) -> int:
    """A document whose pages can't be told: one page for each 8 kB (packed text pages measure 3 to 30 kB), at
    least one, and never more than the 600 pages that any provider takes."""
    if not media.data_chars:
        return 5 * rule.page_tokens
    return min(600, math.ceil(media.data_chars * 3 / 4 / 8_192)) * rule.page_tokens


def image_tokens(width: int, height: int, rule: ImageRule, *, detail: str = "") -> int:
    """Tokens of a picture of that many pixels."""
    if rule.kind == "claude":
        return _claude(width, height, rule)
    if rule.kind == "gemini":
        small = width <= 384 and height <= 384
        return 258 if small else 258 * math.ceil(width / 768) * math.ceil(height / 768)
    if rule.kind == "patches":
        return _patches(width, height, rule)
    if detail == "low":
        return rule.base_tokens
    return _tiles(width, height, rule)


def _claude(width: int, height: int, rule: ImageRule) -> int:
    scale = min(1.0, rule.longest_px / max(width, height))
    tokens = math.ceil(width * scale / 28) * math.ceil(height * scale / 28)
    return max(1, min(tokens, rule.limit_tokens))


def _patches(width: int, height: int, rule: ImageRule) -> int:
    scale = min(1.0, rule.longest_px / max(width, height))
    patches = math.ceil(width * scale / 32) * math.ceil(height * scale / 32)
    return math.ceil(max(1, min(patches, rule.limit_tokens)) * rule.multiplier)


def _tiles(width: int, height: int, rule: ImageRule) -> int:
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / max(1.0, min(width, height) * scale))
    tiles = max(1, math.ceil(width * scale / 512)) * max(1, math.ceil(height * scale / 512))
    return rule.base_tokens + rule.tile_tokens * tiles
