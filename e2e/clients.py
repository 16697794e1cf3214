"""The agents of the end-to-end tests, as people run them: what to install, their settings, their command lines."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

Json = Any
KEY = "sk-dummy"
KEYED = ("MY_API_KEY", KEY)
"""The variable that the clients' own files name."""
WINDOW_IN_CONFIG = 1_000_000
"""What the clients that ask for a window are told: with packlight it is not theirs to care for."""


@dataclass(frozen=True, kw_only=True)
class Client:
    """One agent. `%` in a command line stands for the prompt, `{home}` for the client's own folder."""

    name: str
    package: str
    version: str
    installer: Literal["npm", "pip"] = "npm"
    binary: str
    api: str
    window_tokens: int
    output_chars: int
    start: tuple[str, ...]
    resume: tuple[str, ...] = ()
    """Empty: it cannot."""
    leave: tuple[str, ...] = ()
    """Run through the proxy before it is stopped, has the client compact its own history. Empty: none that is known."""
    is_told_by: Literal["claude", "codex", "environment", "config"]
    """How it learns where its provider is: what `packlight run` does for it, or its own file."""
    environment: tuple[tuple[str, str], ...] = ()
    last_command: str = ""
    binds_thinking: bool = True
    """Its model's thinking is valid only behind what it was made behind (Anthropic's API)."""

    def line(self, binary: Path, template: tuple[str, ...], prompt: str, home: Path) -> list[str]:
        return [str(binary), *(prompt if a == "%" else a.replace("{home}", str(home)) for a in template)]

    def configure(self, home: Path, url: str) -> None:
        """Writes the client's own settings into a home of its own."""
        if self.name.startswith("pi"):
            _write(home / ".pi" / "agent" / "models.json", pi_models(url))
        elif self.name == "opencode":
            _write(home / ".config" / "opencode" / "opencode.json", opencode_settings(url))
        elif self.name == "codex":
            (home / ".codex").mkdir(parents=True, exist_ok=True)
            (home / ".codex" / "config.toml").write_text(_CODEX)

    def direct(self, url: str) -> dict[str, str]:
        """The environment that leads straight to a provider."""
        return {
            "claude": {"ANTHROPIC_BASE_URL": url},
            "codex": {"OPENAI_BASE_URL": f"{url}/v1"},
            "environment": {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_BASE": f"{url}/v1"},
            "config": {},
        }[self.is_told_by]


CLAUDE_CODE = Client(
    name="claude-code",
    package="@anthropic-ai/claude-code-linux-x64",
    version="2.1.332",
    binary="node_modules/@anthropic-ai/claude-code-linux-x64/claude",
    api="anthropic",
    window_tokens=80_000,
    output_chars=24_000,
    start=("-p", "%", "--output-format", "json", "--allowedTools", "Bash"),
    resume=("-p", "%", "--continue", "--output-format", "json", "--allowedTools", "Bash"),
    leave=("-p", "/compact", "--continue", "--output-format", "json"),
    is_told_by="claude",
    environment=(
        ("ANTHROPIC_API_KEY", KEY),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("IS_SANDBOX", "1"),
    ),
)
CODEX = Client(
    name="codex",
    package="@openai/codex",
    version="0.171.0",
    binary="node_modules/.bin/codex",
    api="responses",
    window_tokens=80_000,
    output_chars=24_000,
    start=("exec", "--skip-git-repo-check", "%"),
    resume=("exec", "--skip-git-repo-check", "resume", "--last", "%"),
    leave=(
        *("-c", "model_auto_compact_token_limit=20000"),
        *("exec", "--skip-git-repo-check", "resume", "--last", "Say that you are ready."),
    ),
    is_told_by="codex",
    environment=(("CODEX_API_KEY", KEY), ("CODEX_HOME", "{home}/.codex")),
)
PI = Client(
    name="pi",
    package="@mariozechner/pi-coding-agent",
    version="0.73.1",
    binary="node_modules/.bin/pi",
    api="anthropic",
    window_tokens=48_000,
    output_chars=16_000,
    start=("--provider", "mine", "--model", "mine-1", "-p", "%"),
    resume=("--provider", "mine", "--model", "mine-1", "--continue", "-p", "%"),
    is_told_by="config",
    environment=(KEYED, ("PI_OFFLINE", "1"), ("PI_TELEMETRY", "0"), ("PI_SKIP_VERSION_CHECK", "1")),
)
PI_UNBOUND = replace(PI, name="pi, older model", binds_thinking=False)
OPENCODE = Client(
    name="opencode",
    package="opencode-ai",
    version="1.18.33",
    binary="node_modules/opencode-linux-x64/bin/opencode",
    api="chat",
    window_tokens=48_000,
    output_chars=16_000,
    start=("run", "%"),
    resume=("run", "--continue", "%"),
    is_told_by="config",
    environment=(
        KEYED,
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
    ),
)
MINI = Client(
    name="mini-swe-agent",
    package="mini-swe-agent",
    version="2.4.6",
    installer="pip",
    binary="bin/mini",
    api="chat",
    window_tokens=32_000,
    output_chars=8_000,
    start=("-t", "%", "-m", "openai/gpt-mine", "-y", "--exit-immediately", "-o", "{home}/trajectory.json"),
    is_told_by="environment",
    environment=(
        ("MSWEA_CONFIGURED", "true"),
        ("MSWEA_SILENT_STARTUP", "1"),
        ("MSWEA_COST_TRACKING", "ignore_errors"),
        ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
        ("OPENAI_API_KEY", KEY),
    ),
    last_command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo '{}'",
)
CLIENTS = {client.name: client for client in (CLAUDE_CODE, CODEX, PI, PI_UNBOUND, OPENCODE, MINI)}


def _write(path: Path, value: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1))


def pi_models(url: str) -> Json:
    model = {
        "id": "mine-1",
        "name": "mine-1",
        "reasoning": False,
        "input": ["text"],
        "contextWindow": WINDOW_IN_CONFIG,
        "maxTokens": 16_384,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    return {"providers": {"mine": {"baseUrl": url, "api": "anthropic-messages", "apiKey": KEYED[0], "models": [model]}}}


def opencode_settings(url: str) -> Json:
    model = {"name": "mine-1", "limit": {"context": WINDOW_IN_CONFIG, "output": 16_384}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "mine",
        "options": {"baseURL": f"{url}/v1", "apiKey": f"{{env:{KEYED[0]}}}"},
        "models": {"mine-1": model},
    }
    return {"$schema": "https://opencode.ai/config.json", "model": "mine/mine-1", "provider": {"mine": provider}}


_CODEX = """\
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
"""
