"""Who may come in: this machine only, unless the proxy was told otherwise; then whoever has the token.

A page in a browser must not reach a proxy on loopback (it could spend the user's credentials by DNS rebinding), so a
foreign Host or Origin is refused.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from .settings import Settings

__all__ = ["TOKEN_HEADER", "admitted"]

TOKEN_HEADER = "x-packlight-token"
_TOKEN_PATH = "/token/"
_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})


def admitted(settings: Settings, path: str, headers: Mapping[str, str]) -> tuple[str, str]:
    """The path without its token, and why the request is refused; "" when it is not."""
    given = headers.get(TOKEN_HEADER, "")
    if path.startswith(_TOKEN_PATH):
        given, _, rest = path.removeprefix(_TOKEN_PATH).partition("/")
        path = "/" + rest
    if settings.token is not None and not hmac.compare_digest(given.encode(), settings.token.encode()):
        return path, f"a token is needed: the header {TOKEN_HEADER}, or {_TOKEN_PATH}TOKEN before the path"
    hosts = _LOCAL | {settings.host}
    if settings.is_local and _host(headers.get("host", "")) not in hosts:
        return path, "this proxy serves its own machine only: the Host is another one"
    origin = headers.get("origin", "")
    own = _host(headers.get("host", ""))
    if origin and urlsplit(origin).hostname not in (hosts if settings.is_local else {own}):
        return path, "requests from a page of another origin are refused"
    return path, ""


def _host(value: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{value}").hostname or ""
    except ValueError:
        return ""
