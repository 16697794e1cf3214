"""Model ids as clients and gateways write them, what is known of each, and which models bind thinking."""

from __future__ import annotations

import json

import pytest

from packlight import models
from packlight.models import PriceStep, binds_thinking, family_of, image_rule, lookup

USED_BY_CLIENTS = [
    "claude-opus-4-5-20251101",
    "claude-opus-4-6",
    "claude-sonnet-4-6",
    "claude-opus-5",
    "claude-fable-5",
    "claude-sonnet-5",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-fable-5-2",
    "claude-haiku-4-5-20251001",
    "gpt-5-codex",
    "gpt-5.2-codex",
    "gpt-5.5",
    "gpt-5.6",
    "gpt-6.1-sol",
    "o3",
    "gemini-4-argon",
    "deepseek-chat",
    "kimi-k2.6",
    "glm-4.7",
    "grok-4.7",
]


@pytest.mark.parametrize("model", USED_BY_CLIENTS)
def test_known_with_window_and_price(model):
    found = lookup(model)
    assert found.context_window_tokens >= 64_000
    assert found.input_usd is not None and found.output_usd is not None


@pytest.mark.parametrize(
    "model, same_as",
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("anthropic/claude-opus-4-5", "claude-opus-4-5"),
        ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
        ("global.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("anthropic.claude-opus-5-5", "claude-opus-5-5"),
        ("bedrock/us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("vertex_ai/claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("claude-opus-5-5@default", "claude-opus-5-5"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        ("CLAUDE-OPUS-5", "claude-opus-5"),
        ("openai/gpt-5.5", "gpt-5.5"),
        ("gpt-5.5-2026-04-23", "gpt-5.5"),
        ("openrouter/openai/gpt-5.2-codex:nitro", "gpt-5.2-codex"),
        ("azure/gpt-5", "gpt-5"),
    ],
)
def test_ways_to_write_an_id(model, same_as):
    found, plain = lookup(model), lookup(same_as)
    assert found.context_window_tokens == plain.context_window_tokens
    assert found.input_usd == plain.input_usd
    assert found.provider == plain.provider


@pytest.mark.parametrize("model", ["my-finetune-7b", "claude-nope-9", "", "gpt", "llama3", "default"])
def test_unknown_is_none(model):
    assert lookup(model) is None


def test_window_without_beta_flags():
    assert lookup("claude-opus-4-6").context_window_tokens == 200_000
    assert lookup("claude-opus-4-6[1m]").context_window_tokens == 1_000_000
    assert lookup("claude-sonnet-4-5-20250929[1M]").context_window_tokens == 1_000_000
    assert lookup("claude-opus-5-5").context_window_tokens == 1_000_000
    assert lookup("gpt-5.2-codex").context_window_tokens == 272_000


def test_cache_rules_and_limits():
    opus = lookup("claude-opus-5-5")
    assert (opus.input_usd, opus.cache_read_usd, opus.cache_write_usd) == (4.0, 0.2, 5.0)
    assert (opus.cache_min_tokens, opus.cache_seconds) == (512, 300.0)
    assert (opus.max_request_bytes, opus.max_images, opus.max_image_pixels_many) == (32_000_000, 100, 2000)
    mins = {m: lookup(m).cache_min_tokens for m in ("claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8", "gpt-5.5")}
    assert mins == {"claude-opus-4-6": 4096, "claude-opus-4-7": 2048, "claude-opus-4-8": 1024, "gpt-5.5": 1024}


def test_prices_rise_with_length():
    assert lookup("claude-haiku-5-5").price_steps == (
        PriceStep(above_tokens=100_000, input_usd=0.5, cache_read_usd=0.05, cache_write_usd=0.625, output_usd=2.5),
    )
    assert lookup("gpt-5.5").price_steps[0].above_tokens == 272_000


def test_user_overrides(tmp_path, monkeypatch):
    own = {"my-finetune-7b": {"context_window_tokens": 32_768}, "claude-opus-5": {"context_window_tokens": 250_000}}
    assert lookup("my-finetune-7b", own).context_window_tokens == 32_768
    changed = lookup("anthropic/claude-opus-5", own)
    assert (changed.context_window_tokens, changed.input_usd) == (250_000, 5.0)
    file = tmp_path / "models.json"
    file.write_text(json.dumps(own), encoding="utf-8")
    monkeypatch.setenv("PACKLIGHT_MODELS", str(file))
    assert lookup("my-finetune-7b").context_window_tokens == 32_768
    with pytest.raises(ValueError, match="windowtokens"):
        lookup("x", {"x": {"windowtokens": 1}})


BINDING = [
    "team-default",
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-mythos-5-1",
    "claude-mythos-5-2",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-haiku-5-5-20260922",
    "anthropic/claude-opus-5.5",
    "us.anthropic.claude-opus-5-5-v1:0",
    "claude-opus-5-5[1m]",
    "claude-opus-6",
    "claude-zephyr-1",
    "claude-opus-latest",
    "claude-haiku-5",
    "opus",
]
FREE = [
    "claude-opus-5",
    "claude-opus-5-20260601",
    "claude-sonnet-5",
    "claude-fable-5",
    "claude-mythos-5",
    "claude-opus-4-8",
    "claude-opus-4-7",
    "claude-opus-4-6[1m]",
    "claude-opus-4-5-20251101",
    "claude-opus-4-20250514",
    "claude-sonnet-4@20250514",
    "claude-sonnet-4-6",
    "claude-haiku-4-5",
    "claude-3-5-sonnet-20241022",
    "claude-3-haiku",
    "us.anthropic.claude-opus-4-1-20250805-v1:0",
    "claude-2.1",
    "gpt-5.5",
    "o3",
    "gemini-4-argon",
    "llama3",
]


@pytest.mark.parametrize("model", BINDING)
def test_binds(model):
    assert binds_thinking(model, {})


@pytest.mark.parametrize("model", FREE)
def test_does_not_bind(model):
    assert not binds_thinking(model, {})


def test_without_model_the_request_decides():
    assert binds_thinking(None, {})
    assert binds_thinking("", {"thinking": {"type": "adaptive"}})
    assert not binds_thinking(None, {"thinking": {"type": "enabled", "budget_tokens": 1024}})


@pytest.mark.parametrize(
    "model, family",
    [
        ("claude-opus-4-5-20251101", "claude_old"),
        ("claude-opus-4-20250514", "claude_old"),
        ("claude-3-5-sonnet-latest", "claude_old"),
        ("claude-opus-4-6[1m]", "claude_old"),
        ("claude-haiku-4-5@20251001", "claude_old"),
        ("anthropic/claude-sonnet-4.6", "claude_old"),
        ("us.anthropic.claude-opus-4-7-v1:0", "claude"),
        ("claude-opus-4-8", "claude"),
        ("claude-sonnet-5", "claude"),
        ("claude-fable-5", "claude"),
        ("claude-next", "claude"),
        ("gpt-5.2-codex", "gpt"),
        ("openai/gpt-4o", "gpt"),
        ("o3", "gpt"),
        ("gpt-4-turbo", "other"),
        ("gemini-4-argon", "other"),
        (None, "other"),
    ],
)
def test_families(model, family):
    assert family_of(model) == family


def test_image_rules_exist():
    from packlight.tokens import IMAGE_RULES

    for model in [*USED_BY_CLIENTS, "gpt-4o-mini", "gpt-5-mini", "o4-mini", "unknown"]:
        assert image_rule(model) in IMAGE_RULES


def test_data_is_small_and_whole():
    from importlib import resources

    data = resources.files("packlight").joinpath("data/models.json")
    assert len(data.read_bytes()) < 120_000
    for name in json.loads(data.read_text(encoding="utf-8"))["models"]:
        assert lookup(name).id
    assert models._data() is models._data()
