"""Where the agents of this user keep their sessions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from .readers import find_files

_SECONDS_A_DAY = 86_400.0


def session_folders(environ: Mapping[str, str], home: Path) -> list[Path]:
    """The folders that are there, of Claude Code, Codex and pi."""
    claude = [Path(environ["CLAUDE_CONFIG_DIR"])] if environ.get("CLAUDE_CONFIG_DIR") else []
    claude = claude or [home / ".claude", home / ".config" / "claude"]
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    pi = Path(environ.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent")
    folders = [*(folder / "projects" for folder in claude), codex / "sessions", pi / "sessions"]
    return [folder for folder in folders if folder.is_dir()]


def newest_first(paths: Iterable[Path], *, since_days: float | None = None, now: float | None = None) -> list[Path]:
    """Files by their last change; none older than so many days."""
    oldest = (time.time() if now is None else now) - since_days * _SECONDS_A_DAY if since_days is not None else None
    known: list[tuple[float, Path]] = []
    for path in paths:
        try:
            changed = path.stat().st_mtime
        except OSError:  # gone since, or not ours to read
            continue
        if oldest is None or changed >= oldest:
            known.append((changed, path))
    return [path for _, path in sorted(known, key=lambda pair: (-pair[0], str(pair[1])))]


def is_sub_agents(file: Path) -> bool:
    """What a sub-agent of Claude Code did, in a file of its own beside the session's."""
    return file.name.startswith("agent-")


def own_sessions(environ: Mapping[str, str], home: Path, *, since_days: float | None = None) -> list[Path]:
    """The session files of this user, newest first."""
    files = (file for folder in session_folders(environ, home) for file in find_files(folder))
    return newest_first((f for f in files if f.suffix == ".jsonl"), since_days=since_days)
