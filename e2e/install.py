"""Brings the agents into a folder of our own, in exact versions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .clients import Client


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "packlight-e2e"


def installed(client: Client, cache: Path) -> Path:
    """The client's binary; it is fetched if it is not there. Raises CalledProcessError when that fails."""
    folder = cache / f"{client.package.rpartition('/')[2]}-{client.version}"
    binary = folder / client.binary
    if binary.exists():
        return binary
    folder.mkdir(parents=True, exist_ok=True)
    print(f"installing {client.package} {client.version}", file=sys.stderr)
    if client.installer == "pip":
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--quiet"]
        subprocess.run([*pip, f"{client.package}=={client.version}"], check=True)
    else:
        npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefix"]
        subprocess.run([*npm, str(folder), f"{client.package}@{client.version}"], check=True, stdout=sys.stderr)
    return binary
