"""Which tokenizer and which image rule a model id means. Names only: windows and prices are in `models`."""

from __future__ import annotations

import re
from typing import Literal

Family = Literal["claude_old", "claude", "gpt", "other"]

_OLD_CLAUDE = re.compile(
    r"claude-(?:v?[123](?![0-9])"
    r"|(?:opus|sonnet|haiku|instant)-(?:[0123](?![0-9])|4(?:[-.][0-6])?(?:[-@.]\d{6,})?(?![-.]?\d)))"
)
"""Claude 3 to Opus 4.6, Sonnet 4.6 and Haiku 4.5. Opus 4.7 and all later models use the new vocabulary."""

_GPT = re.compile(r"(?:^|[/.:-])(?:gpt-|chatgpt|codex|o[1345](?:-|$)|davinci|computer-use)")

_IMAGE_RULES: tuple[tuple[str, str], ...] = (
    (r"gpt-4o-mini", "gpt_4o_mini"),
    (r"gpt-(?:4\.1-(?:mini|nano)|5(?:\.\d)?-(?:mini|nano))|o4-mini", "gpt_mini"),
    (r"gpt-(?:5\.[5-9]|[6-9])", "gpt_5_5"),
    (r"gpt-5\.[2-4]", "gpt_5_2"),
    (r"gpt-5", "gpt_5"),
    (r"gpt-4", "gpt_4o"),
    (r"(?:^|[/.])o[134](?:-|$)", "gpt_o"),
    (r"gemini|gemma", "gemini"),
)


def family_of(model: str | None) -> Family:
    """The tokenizer family of a model id, with any provider prefix, date or suffix. Unknown ids are `other`."""
    name = (model or "").lower()
    if "claude" in name:
        return "claude_old" if _OLD_CLAUDE.search(name) else "claude"
    return "gpt" if _GPT.search(name) else "other"


def image_rule_of(model: str | None) -> str:
    """The name of a model's image rule in `IMAGE_RULES`."""
    name = (model or "").lower()
    if "claude" in name:
        return family_of(name)
    return next((rule for pattern, rule in _IMAGE_RULES if re.search(pattern, name)), "other")
