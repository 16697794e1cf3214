"""The rows of the benchmark: what each makes for a session, and the code that decides its figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import packlight
from packlight.layers import ReadAgain
from packlight.policy import PRESETS, Policy
from packlight.replay.walk import Engine

from . import packages, policies

HERE = Path(__file__).parent
SOURCE = Path(packlight.__file__).parent
WRITE_RATIO = 1.25
"""Price of a cache write against plain input."""

Kind = Literal["ours", "layer", "control", "rule", "package"]


@dataclass(frozen=True)
class Setting:
    """What a policy may know of the session that it is made for."""

    format: str
    model: str
    models: frozenset[str]
    window_tokens: int
    head_tokens: int
    tokens_per_char: float
    count: Callable[[Any], float]
    """Tokens of one message, as the provider would count."""
    cache_read_ratio: float | None
    """Price of a cached read against plain input; None without a cache."""


@dataclass(frozen=True)
class Row:
    name: str
    kind: Kind
    make: Callable[[Setting], Any]
    """An engine of ours; for other kinds a policy, which is walked by a `ForeignEngine`."""
    code: tuple[Path, ...]
    version: str = ""
    """Of a package."""
    formats: frozenset[str] = frozenset({"anthropic", "chat", "responses"})
    knows_prices: bool = False
    """It decides by the price of a cached read: it is walked once for each."""
    knows_window: bool = True
    """False: it does the same in every window."""

    @property
    def is_ours(self) -> bool:
        return self.kind in ("ours", "layer")


def engine(policy: Policy, setting: Setting) -> Engine:
    prices = {
        "input_usd": 1.0,
        "cache_read_usd": setting.cache_read_ratio,
        "cache_write_usd": WRITE_RATIO if setting.cache_read_ratio is not None else 1.0,
        "price_steps": (),
    }
    return packlight.Compactor(
        setting.model,
        policy=policy,
        window_tokens=setting.window_tokens,
        overhead_tokens=setting.head_tokens,
        model_overrides=dict.fromkeys(setting.models, prices),
    )


def ours() -> list[Row]:
    code = (SOURCE,)
    rows = [
        Row(
            name,
            "ours",
            lambda s, p=policy: engine(p, s),
            code,
            knows_prices=name == "thrifty",
            knows_window=name != "none",
        )
        for name, policy in PRESETS.items()
    ]
    return rows + [Row(p.name, "layer", lambda s, p=p: engine(p, s), code) for p in of_default()]


def of_default() -> list[Policy]:
    """Each layer of the default policy alone, and the policy without it."""
    default = PRESETS["default"]
    stages = ("on_arrival", "when_due", "on_overflow")
    bare = replace(default, **dict.fromkeys(stages, ()))
    found = []
    for stage in stages:
        layers: Sequence[Any] = getattr(default, stage)
        for layer in layers:
            if isinstance(layer, ReadAgain):  # it answers what a recorded agent never did
                continue
            name = type(layer).__name__
            others = tuple(x for x in layers if x is not layer)
            found.append(replace(bare, name=f"only {name}", **{stage: (layer,)}))
            found.append(replace(default, name=f"default without {name}", **{stage: others}))
    return found


_BY_CLASS: dict[str, tuple[Kind, type[policies.Policy], bool]] = {
    "identity": ("control", policies.Identity, False),
    "empty": ("control", policies.Empty, False),
    "tail": ("control", policies.Tail, True),
    "tail and bag of names": ("control", policies.Bag, True),
    "names only": ("control", policies.IndexOnly, True),
    "clear all but 3, every turn": ("control", policies.ClearEveryTurn, False),
    "clear_tool_uses 100k keep 3": ("rule", policies.ClearToolUses, True),
    "clear_tool_uses 100k keep 3, at least 25k": ("rule", policies.ClearToolUsesAtLeast, True),
    "clear_tool_uses 50k keep 10": ("rule", policies.ClearToolUsesEarly, True),
    "clear_tool_uses 50k keep 10, at least 12k": ("rule", policies.ClearToolUsesEarlyAtLeast, True),
    "clear_tool_uses 100k keep 3, at least 25k, anew each turn": ("rule", policies.ClearToolUsesAnew, True),
    "mask all but the last 10": ("rule", policies.MaskLastTen, False),
    "pi's rule": ("rule", policies.PiRule, True),
    "opencode's rule": ("rule", policies.OpenCodeRule, True),
    "Codex's rule": ("rule", policies.CodexRule, True),
}


def rules() -> list[Row]:
    def make(kind: type[policies.Policy]) -> Callable[[Setting], Any]:
        return lambda s: kind(s.model, s.window_tokens, s.count, s.head_tokens)

    code = (HERE / "policies.py", HERE / "scripted.py")
    return [
        Row(name, kind, make(cls), code, knows_window=knows_window)
        for name, (kind, cls, knows_window) in _BY_CLASS.items()
    ]


def installed(environments: Path) -> tuple[list[Row], dict[str, str]]:
    """The packages that can be run from there; and those that can't, with the reason."""
    rows: list[Row] = []
    missing: dict[str, str] = {}
    for package in packages.PACKAGES:
        try:
            version = package.version(environments)
        except packages.NotInstalled as error:
            missing |= dict.fromkeys(package.rows, str(error))
            continue
        rows += [_row(package, environments, name, options, version) for name, options in package.rows.items()]
    return rows, missing


def elsewhere(name: str, version: str) -> list[Row]:
    """The row of a package that is not installed here, to show figures from where it was."""
    return [
        _row(package, Path(), name, options, version)
        for package in packages.PACKAGES
        for row, options in package.rows.items()
        if row == name
    ]


def _row(package: packages.Package, environments: Path, name: str, options: dict[str, Any], version: str) -> Row:
    def make(setting: Setting) -> Any:
        told = {
            "format": setting.format,
            "model": setting.model,
            "window_tokens": setting.window_tokens,
            "budget_tokens": setting.window_tokens - min(20_000, setting.window_tokens // 4),
            "head_tokens": setting.head_tokens,
            "tokens_per_char": setting.tokens_per_char,
            **options,
        }
        return packages.Worker(package, environments, told)

    return Row(
        name,
        "package",
        make,
        (*package.code, HERE / "scripted.py"),
        version=version,
        formats=package.formats,
        knows_window=package.knows_window,
    )
