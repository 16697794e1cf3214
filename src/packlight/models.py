"""What is known of models: windows, prices, cache rules and limits, by the id that a request names.

The data is a file of this package (see `data/README.md` for its sources) and is read on the first lookup.
A model that is not in it is unknown: `lookup` gives None, and its limit is learned from its first overflow.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

Family = Literal["claude_old", "claude", "gpt", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceStep:
    """Prices from a size of the prompt on, in USD for a million tokens."""

    above_tokens: int
    input_usd: float | None = None
    cache_read_usd: float | None = None
    cache_write_usd: float | None = None
    output_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model, as its API serves it without beta flags. None means unknown."""

    id: str
    provider: str = ""
    context_window_tokens: int | None = None
    """What the input may fill. Where a provider limits the input below the window (OpenAI), that limit."""
    max_output_tokens: int | None = None
    input_usd: float | None = None
    """All prices in USD for a million tokens."""
    cache_read_usd: float | None = None
    cache_write_usd: float | None = None
    output_usd: float | None = None
    price_steps: tuple[PriceStep, ...] = ()
    """Higher prices for the whole request when its prompt is longer."""
    cache_min_tokens: int | None = None
    """Shorter prefixes are not cached."""
    cache_seconds: float | None = None
    """How long a cached prefix lives after its last use, by default."""
    binds_thinking: bool = False
    """Signed thinking is valid only behind the exact messages it was made for."""
    family: Family = "other"
    image_rule: str = "other"
    max_request_bytes: int | None = None
    max_images: int | None = None
    max_image_pixels_many: int | None = None
    """Longest side that an image may have when there are more than 20."""


_MILLION = re.compile(r"\[1m\]$", re.IGNORECASE)
_VERSION = re.compile(r"(?:-v\d+(?::\d+)*|:\d+|:(?:free|nitro|floor|beta|extended|online|thinking|exacto))$")
_DATE = re.compile(r"[-@]?(?:20\d{6}|20\d\d-\d\d-\d\d)$|@[\w.-]*$")
_BEDROCK = re.compile(r"^(?:arn:aws[\w-]*:bedrock:.*/)?(?:[a-z]{2}(?:-gov)?|apac|global|au|jp)?\.?anthropic\.")


def lookup(model: str, overrides: Mapping[str, Any] | None = None) -> Model | None:
    """What is known of a model id, with any provider prefix, date or suffix; None when it is not known.

    `overrides` maps ids to fields of `Model`, as does the JSON file named by the environment variable
    PACKLIGHT_MODELS; they come first, and may name models that the data does not have.
    """
    names = _names(model)
    given = {**_user_file(os.environ.get("PACKLIGHT_MODELS", "")), **(overrides or {})}
    known = next((_build(name) for name in names if name in _data()), None)
    own = next((given[name] for name in names if name in given), None)
    if own is None:
        return _widened(known, model) if known else None
    base = known or Model(id=names[0], family=family_of(model), image_rule=image_rule(model))
    return _overridden(base, own)


@lru_cache(maxsize=64)
def _names(model: str) -> tuple[str, ...]:
    """The ways to read an id, the most exact first."""
    name = model.strip()
    names = [name, name.lower()]
    name = _MILLION.sub("", name.lower())
    names.append(name)
    for bare in (_BEDROCK.sub("", name), name.rpartition("/")[2], _BEDROCK.sub("", name.rpartition("/")[2])):
        names += [bare, _VERSION.sub("", bare)]
        undated = _DATE.sub("", _VERSION.sub("", bare))
        names += [undated, undated.removesuffix("-latest")]
        if "claude" in undated:
            names += [undated.replace(".", "-"), undated.replace(".", "-").removesuffix("-latest")]
            names += [_reordered(undated.replace(".", "-"))]
    return tuple(dict.fromkeys(n for n in names if n))


def _reordered(name: str) -> str:
    """`claude-4-5-sonnet`, as some gateways have it, for `claude-sonnet-4-5`."""
    return re.sub(r"^claude-([4-9](?:-\d)?)-(opus|sonnet|haiku|fable|mythos)", r"claude-\2-\1", name)


def _widened(known: Model, model: str) -> Model:
    """`[1m]` is how Claude Code and others ask for the window of a million tokens."""
    if _MILLION.search(model) is None or (known.context_window_tokens or 0) >= 1_000_000:
        return known
    return replace(known, context_window_tokens=1_000_000)


def _overridden(base: Model, own: Any) -> Model:
    if isinstance(own, Model):
        return own
    if not isinstance(own, Mapping):
        raise ValueError(f"an override must be an object of fields, not {type(own).__name__}")
    unknown = sorted(own.keys() - {f.name for f in fields(Model)})
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r} in an override of {base.id!r}")
    steps = own.get("price_steps")
    changes = dict(own)
    if steps is not None:
        changes["price_steps"] = tuple(s if isinstance(s, PriceStep) else PriceStep(**s) for s in steps)
    return replace(base, **changes)


@lru_cache(maxsize=8)
def _user_file(path: str) -> Mapping[str, Any]:
    if not path:
        return {}
    value = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{path}: must be an object that maps model ids to fields")
    return value


@lru_cache(maxsize=1)
def _data() -> Mapping[str, list[Any]]:
    text = resources.files(__package__).joinpath("data/models.json").read_text(encoding="utf-8")
    return json.loads(text)["models"]


@lru_cache(maxsize=256)
def _build(name: str) -> Model:
    """A row of the data: provider, window, output, input price, cache read, cache write, output price, steps."""
    provider, window, output, *prices, steps = _data()[name]
    fresh, read, write, written = prices
    rules = _RULES.get(provider, {})
    return Model(
        id=name,
        provider=provider,
        context_window_tokens=window,
        max_output_tokens=output,
        input_usd=fresh,
        cache_read_usd=read,
        cache_write_usd=write,
        output_usd=written,
        price_steps=tuple(PriceStep(**dict(zip(_STEP, step, strict=True))) for step in steps),
        cache_min_tokens=_cache_min(name, provider),
        binds_thinking=binds_thinking(name, {}),
        family=family_of(name),
        image_rule=image_rule(name),
        **rules,
    )


_STEP = tuple(f.name for f in fields(PriceStep))

_RULES: dict[str, dict[str, Any]] = {
    # platform.claude.com: 32 MB a request; 100 images, none over 2000 px a side when more than 20; cache of 5 minutes.
    "anthropic": {
        "max_request_bytes": 32_000_000,
        "max_images": 100,
        "max_image_pixels_many": 2000,
        "cache_seconds": 300.0,
    },
    # developers.openai.com: 500 images and 50 MB a request; the cache in memory lives 5 to 10 minutes.
    "openai": {"max_request_bytes": 50_000_000, "max_images": 500, "cache_seconds": 300.0},
    "google": {"cache_seconds": 300.0},
}

_CACHE_MIN: tuple[tuple[str, int], ...] = (
    # platform.claude.com, prompt caching, "minimum cacheable prompt length" (autumn 2026)
    (r"claude-(?:opus|fable|mythos|sonnet|haiku)-5-[1-9]|claude-(?:opus|fable|mythos)-(?:5|preview)", 512),
    (r"claude-opus-4-7", 2048),
    (r"claude-(?:opus-4-[56]|haiku-4-5)", 4096),
    (r"claude-(?:3-haiku|3-5-haiku)", 2048),
    (r"claude", 1024),
    # ai.google.dev, context caching (2026-10)
    (r"gemini-2", 2048),
    (r"gemini", 4096),
)


def _cache_min(name: str, provider: str) -> int | None:
    for pattern, tokens in _CACHE_MIN:
        if re.search(pattern, name):
            return tokens
    return 1024 if provider == "openai" else None


# --- Claude: which models bind thinking ------------------------------------------------------------------------------

_OLD_CLAUDE = re.compile(
    r"claude-(?:v?[123](?![0-9])|4(?![0-9])(?:-[0-6])?-(?:opus|sonnet|haiku)"
    r"|(?:opus|sonnet|haiku|instant)-(?:[0123](?![0-9])|4(?:[-.][0-6])?(?:[-@.]\d{6,})?(?![-.]?\d)))"
)
"""Claude 3 to Opus 4.6, Sonnet 4.6 and Haiku 4.5: the old vocabulary."""

_UNBOUND_CLAUDE = re.compile(
    _OLD_CLAUDE.pattern + r"|claude-(?:opus|sonnet|haiku)-4[-.]\d(?!\d)"
    r"|claude-(?:opus|sonnet|fable|mythos)-5(?![-.]?\d(?!\d{5}))|claude-mythos-preview"
)
"""Known to be older than preserved thinking: Claude 3, all of 4, and Opus, Sonnet, Fable and Mythos 5."""

_OTHER_MAKERS = re.compile(
    r"gpt|codex|\bo[134]\b|gemini|gemma|glm|kimi|moonshot|minimax|deepseek|qwen|mistral|mixtral|llama|grok|nova|command|phi"
)
"""Of whom some speak Anthropic's format, but bind nothing."""
_CLAUDE_ALIAS = re.compile(r"^(?:opus|sonnet|haiku|fable|mythos|opusplan)\b")


def binds_thinking(model: str | None, request: Mapping[str, Any]) -> bool:
    """Whether the thinking in this request is bound to everything before it (platform.claude.com, autumn 2026).

    Fable and Mythos 5.1 and 5.2, Opus, Sonnet and Haiku 5.5 bind it; so, we assume, does every Claude model that
    is not known to be older, and a name that tells nothing (a gateway's alias). Without a model id the request
    decides: manual thinking exists only on older models.
    """
    if not model:
        thinking = request.get("thinking")
        return not (isinstance(thinking, Mapping) and thinking.get("type") == "enabled")
    name = _MILLION.sub("", model.strip().lower())
    if _CLAUDE_ALIAS.match(name):
        return True
    if "claude" in name:
        return _UNBOUND_CLAUDE.search(name) is None
    return _OTHER_MAKERS.search(name) is None and not any(known in _data() for known in _names(model))


# --- tokenizer and image rule by name --------------------------------------------------------------------------------

_GPT = re.compile(r"(?:^|[/.:-])(?:gpt-(?:4o|4\.[15]|[5-9])|gpt-oss|chatgpt|codex|o[1345](?:-|$)|computer-use)")
"""The models of o200k_base. Older ones (GPT-4, GPT-3.5) have a smaller vocabulary and count as `other`."""

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
    if "claude" in name or _CLAUDE_ALIAS.match(name):
        return "claude_old" if _OLD_CLAUDE.search(name) else "claude"
    return "gpt" if _GPT.search(name) else "other"


def image_rule(model: str | None) -> str:
    """The name of a model's image rule in `tokens.IMAGE_RULES`."""
    name = (model or "").lower()
    family = family_of(name)
    if family.startswith("claude"):
        return family
    return next((rule for pattern, rule in _IMAGE_RULES if re.search(pattern, name)), "other")
