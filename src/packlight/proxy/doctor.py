"""Whether the real path works: real requests through a proxy to the real provider, and what stands in the way.

With an API key, two small requests to the cheapest model: a plain streamed one, and an agent's conversation that is
compacted on the way, so that the provider itself says whether what we send is valid. A login is known to nobody but
its agent: then the agent is run once behind a proxy.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from ..errors import PacklightError
from ..models import lookup
from ..tokens import input_tokens
from ..types import FormatName, Json
from .events import Stream
from .launch import behind, launch_of
from .relay import RECEIPT_HEADER
from .server import Proxy
from .settings import Settings

__all__ = ["AGENTS", "Check", "agent_checks", "key_checks", "local_checks"]

AGENTS: Mapping[str, tuple[str, ...]] = {
    "claude": ("-p", "Reply with the word ok.", "--max-turns", "1"),
    "codex": ("exec", "--skip-git-repo-check", "Reply with the word ok."),
}
"""How each is asked one thing, with nothing to do."""
AGENT_SECONDS = 180
REQUEST_SECONDS = 60
_FILE_CHARS = 3_000
_FILES = 8
_WINDOW_TOKENS = 5_000
"""So small that the conversation of `_grown` has to be compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool | None
    """None: there was nothing to look at."""
    said: str
    """What was seen; what to do about it when it is not as it should be."""


# --- without a network ------------------------------------------------------------------------------------------------

_AROUND = {
    "CLAUDE_CODE_USE_BEDROCK": "Claude Code talks to Bedrock, not to a base URL",
    "CLAUDE_CODE_USE_VERTEX": "Claude Code talks to Vertex, not to a base URL",
    "CLAUDE_CODE_USE_FOUNDRY": "Claude Code talks to Foundry, not to a base URL",
}


def local_checks(settings: Settings, environment: Mapping[str, str]) -> list[Check]:
    """What can be seen without a request."""
    checks = [_folder(settings)]
    checks += [
        Check(name=name, ok=False, said=f"set: {why}; unset it to go through the proxy")
        for name, why in _AROUND.items()
        if environment.get(name, "0").lower() not in ("", "0", "false")
    ]
    home = Path(environment.get("HOME") or Path.home())
    checks += _claude_settings(Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "settings.json")
    checks += _codex_settings(Path(environment.get("CODEX_HOME") or home / ".codex") / "config.toml")
    found = [name for name in AGENTS if shutil.which(name)]
    hint = f"; `packlight doctor {found[0]}` asks one thing through the proxy, with its own login" if found else ""
    said = (", ".join(found) or "neither claude nor codex found") + hint
    checks.append(Check(name="agents", ok=True if found else None, said=said))
    return checks


def _folder(settings: Settings) -> Check:
    folder = settings.folder
    if folder is None:
        return Check(name="what is kept", ok=True, said="nothing: compactions end with the proxy")
    place = next(p for p in (folder, *folder.parents) if p.exists())
    ok = place.is_dir() and os.access(place, os.W_OK)
    said = str(folder) if ok else f"{place} can't be written; name another --store, or --store none"
    return Check(name="what is kept", ok=ok, said=said)


def _claude_settings(path: Path) -> list[Check]:
    try:
        told = json.loads(path.read_bytes())["env"]["ANTHROPIC_BASE_URL"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    why = f"sets ANTHROPIC_BASE_URL to {told}, which goes before what `packlight run` says: take it out of there"
    return [Check(name=str(path), ok=False, said=why)]


def _codex_settings(path: Path) -> list[Check]:
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    provider = config.get("model_provider")
    if not isinstance(provider, str) or provider == "openai":
        return []
    why = f"uses the provider {provider!r}: set its base_url to the proxy's, and name the true one with --upstream"
    return [Check(name=str(path), ok=False, said=why)]


# --- with a key -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Api:
    name: str
    format: FormatName
    path: str
    headers: Mapping[str, str]


def _apis(environment: Mapping[str, str]) -> list[_Api]:
    apis = []
    if key := environment.get("ANTHROPIC_API_KEY"):
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
        apis.append(_Api(name="Anthropic", format="anthropic", path="/v1/messages", headers=headers))
    if key := environment.get("OPENAI_API_KEY"):
        headers = {"authorization": f"Bearer {key}"}
        apis.append(_Api(name="OpenAI", format="chat", path="/v1/chat/completions", headers=headers))
        apis.append(_Api(name="OpenAI Responses", format="responses", path="/v1/responses", headers=headers))
    return apis


async def key_checks(settings: Settings, environment: Mapping[str, str], model: str | None) -> list[Check]:
    """Two small requests for each API that there is a key for."""
    apis = _apis(environment)
    if not apis:
        said = "neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set, so no request was sent with a key"
        return [Check(name="API keys", ok=None, said=said)]
    checks = []
    async with _proxied(settings, environment, None) as plain, _proxied(settings, environment, _WINDOW_TOKENS) as small:
        for api in apis:
            try:
                checks += await _asked(api, plain, small, model)
            except (aiohttp.ClientError, TimeoutError) as error:
                checks.append(Check(name=api.name, ok=False, said=f"no reply: {str(error) or type(error).__name__}"))
    return checks


@asynccontextmanager
async def _proxied(
    settings: Settings, environment: Mapping[str, str], window_tokens: int | None
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client whose requests go through a proxy of its own, which keeps nothing."""
    told = behind(settings, environment, window_tokens=window_tokens, journal=None, store=None)
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    async with Proxy(told) as proxy, aiohttp.ClientSession(proxy.url, timeout=timeout) as session:
        yield session


async def _asked(
    api: _Api, plain: aiohttp.ClientSession, small: aiohttp.ClientSession, model: str | None
) -> list[Check]:
    model = model or await _cheapest(api, plain)
    if model is None:
        return [
            Check(name=api.name, ok=False, said="its list of models names none that is known: name one with --model")
        ]
    checks = [await _streamed(api, plain, model)]
    if checks[0].ok:
        checks.append(await _compacted(api, plain, small, model))
    return checks


async def _cheapest(api: _Api, session: aiohttp.ClientSession) -> str | None:
    """The model whose input costs least, of those that the key may use and that take tools."""
    async with session.get("/v1/models", headers=api.headers) as reply:
        data = await reply.json(content_type=None) if reply.status == 200 else {}
    entries = data.get("data") if isinstance(data, dict) else None
    ids = [str(e.get("id")) for e in entries or [] if isinstance(e, dict)]
    wanted = [i for i in ids if i.startswith("claude" if api.format == "anthropic" else "gpt-")]
    priced = [(known.input_usd, i) for i in wanted if (known := lookup(i)) is not None and known.input_usd]
    return min(priced)[1] if priced else None


async def _streamed(api: _Api, session: aiohttp.ClientSession, model: str) -> Check:
    name = f"{api.name}, streamed"
    body = _request(api.format, model, [{"role": "user", "content": "Reply with the word ok."}]) | {"stream": True}
    async with session.post(api.path, headers=api.headers, json=body) as reply:
        if reply.status != 200:
            return Check(name=name, ok=False, said=_refusal(model, reply.status, await reply.text()))
        stream, pieces = Stream(bytes), 0
        async for chunk in reply.content.iter_any():
            stream.feed(chunk)
            pieces += 1
    if not stream.is_complete:
        return Check(name=name, ok=False, said=f"{model}: the stream ended before its end ({pieces} pieces)")
    return Check(name=name, ok=True, said=f"{model} answered (pieces of the stream: {pieces})")


async def _compacted(api: _Api, plain: aiohttp.ClientSession, small: aiohttp.ClientSession, model: str) -> Check:
    name = f"{api.name}, compacted"
    body = _request(api.format, model, _grown(api.format))
    async with plain.post(api.path, headers=api.headers, json=body) as reply:
        if reply.status != 200:
            said = f"refused as it is, without us: {_refusal(model, reply.status, await reply.text())}"
            return Check(name=name, ok=False, said=said)
        before = input_tokens((await reply.json(content_type=None)).get("usage")) or 0
    async with small.post(api.path, headers=api.headers, json=body) as reply:
        receipt = reply.headers.get(RECEIPT_HEADER, "")
        if reply.status != 200:
            return Check(name=name, ok=False, said=_refusal(model, reply.status, await reply.text()))
        after = input_tokens((await reply.json(content_type=None)).get("usage")) or 0
    if not receipt.startswith("compacted") or not 0 < after < before:
        return Check(name=name, ok=False, said=f"{model}: not made smaller, {before:,} -> {after:,} tokens ({receipt})")
    return Check(name=name, ok=True, said=f"{model} took it: {before:,} -> {after:,} input tokens by its own count")


def _refusal(model: str, status: int, text: str) -> str:
    """The provider's own words, in one line."""
    try:
        said = json.loads(text)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        said = text
    return f"{model}: {status}: {' '.join(str(said).split())[:300]}"


def _request(format: FormatName, model: str, items: list[Json]) -> dict[str, Json]:
    about = {"description": "Reads a file.", "name": "read_file"}
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    if format == "anthropic":
        return {"model": model, "max_tokens": 64, "messages": items, "tools": [{**about, "input_schema": schema}]}
    if format == "chat":
        tools = [{"type": "function", "function": {**about, "parameters": schema}}]
        return {"model": model, "messages": items, "tools": tools, "max_completion_tokens": 64}
    tools = [{"type": "function", **about, "parameters": schema}]
    return {"model": model, "input": items, "tools": tools, "max_output_tokens": 64, "store": False}


def _grown(format: FormatName) -> list[Json]:
    """An agent that has read some files, and is asked for one word."""
    items: list[Json] = [{"role": "user", "content": "Read the files, then reply with the word ok."}]
    for n in range(_FILES):
        text = "\n".join(f"line {k} of file {n}" for k in range(_FILE_CHARS // 18))
        items += _read(format, f"file_{n}.txt", f"call_{n}", text)
    return items


def _read(format: FormatName, path: str, id: str, text: str) -> list[Json]:
    arguments = json.dumps({"path": path})
    if format == "anthropic":
        call = {"type": "tool_use", "id": id, "name": "read_file", "input": {"path": path}}
        result = {"type": "tool_result", "tool_use_id": id, "content": text}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    if format == "chat":
        function = {"name": "read_file", "arguments": arguments}
        calls = [{"id": id, "type": "function", "function": function}]
        return [{"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": id, "content": text}]
    return [
        {"type": "function_call", "call_id": id, "name": "read_file", "arguments": arguments},
        {"type": "function_call_output", "call_id": id, "output": text},
    ]


# --- with an agent's login --------------------------------------------------------------------------------------------


async def agent_checks(settings: Settings, environment: Mapping[str, str], agent: str) -> list[Check]:
    """The agent, asked one thing through a proxy. Raises PacklightError when it is not there."""
    if shutil.which(agent) is None:
        raise PacklightError(f"{agent}: there is no such command")
    async with Proxy(behind(settings, environment, journal=None, store=None)) as proxy:
        launch = launch_of((agent, *AGENTS[agent]), proxy.url, environment)
        with tempfile.TemporaryDirectory() as folder:
            code, text = await _output(launch.command, {**environment, **launch.environment}, folder)
        turns = [turn for thread in proxy.watch.threads.values() for turn in thread.turns if turn.does == "answer"]
    if not turns:
        why = f"no request came through the proxy (it exited with {code}): {text[-300:]}"
        return [Check(name=agent, ok=False, said=" ".join(why.split()))]
    answered = [turn for turn in turns if turn.status == 200]
    if not answered:
        return [Check(name=agent, ok=False, said=f"refused with {turns[-1].status}: {' '.join(text[-300:].split())}")]
    kinds = ", ".join(dict.fromkeys(turn.credential for turn in answered))
    said = f"{answered[-1].model} answered through the proxy ({kinds}; {answered[-1].input_tokens:,} input tokens)"
    return [Check(name=agent, ok=True, said=said)]


async def _output(command: tuple[str, ...], environment: Mapping[str, str], folder: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(environment),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), AGENT_SECONDS)
    except TimeoutError:
        process.kill()
        return None, f"no end after {AGENT_SECONDS} seconds"
    return process.returncode, output.decode("utf-8", "replace")
