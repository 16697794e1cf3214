"""`media_limits`: the images and documents that a request may not hold for another reason than tokens.

Anthropic takes at most 100 images, none over 8,000 pixels a side, and none over 2,000 when there are more than 20
(platform.claude.com, vision). Old images go first, and of those too large only they.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Edit, Target
from ..view import View
from .shorten import media

NAME = "media_limits"
MANY_IMAGES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaLimits:
    def __call__(self, view: View, target: Target) -> list[Edit]:
        places = standing_media(view)
        count = sum(n for _, n, _ in places)
        gone: set[tuple[int, int]] = set()
        if target.max_image_pixels and count > MANY_IMAGES:
            gone = {at for at, _, side in places if side > target.max_image_pixels}
            count -= sum(n for at, n, _ in places if at in gone)
        for at, n, _ in places:
            if target.max_images is None or count <= target.max_images:
                break
            if at not in gone:
                gone.add(at)
                count -= n
        return list(media(view, layer=NAME, places=gone)) if gone else []


def standing_media(view: View) -> list[tuple[tuple[int, int], int, int]]:
    """Media that the request holds now: place, how many, longest side in pixels; oldest first."""
    return [
        ((i, k), len(part.media), max(max(m.width or 0, m.height or 0) for m in part.media))
        for i, message in enumerate(view.messages)
        if message.images and view.edit_of(i) is None
        for k, part in enumerate(message.parts)
        if part.media and view.edit_of(i, part.block) is None
    ]
