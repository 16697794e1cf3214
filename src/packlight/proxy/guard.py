"""Who may come in: this machine only, unless the proxy was told otherwise; then whoever has the token.

A page in a browser must not reach a proxy on loopback (it could spend the user's credentials by DNS rebinding), so a
foreign Host or Origin is refused.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from .settings import LOCAL, Settings

__all__ = ["TOKEN_HEADER", "admitted"]

TOKEN_HEADER = "x-packlight-token"
_TOKEN_PATH = "/token/"


def admitted(settings: Settings, path: str, headers: Mapping[str, str]) -> tuple[str, str]:
    """The path without its token, and why the request is refused; "" when it is not."""
    path, host = _target(path, headers.get("host", ""))
    if not path:
        return path, "what is asked for is no path and no URL"
    given = headers.get(TOKEN_HEADER, "")
    if settings.token is not None and path.startswith(_TOKEN_PATH):
        given, _, rest = path.removeprefix(_TOKEN_PATH).partition("/")
        path = "/" + rest
    if settings.token is not None and not hmac.compare_digest(_bytes(given), _bytes(settings.token)):
        return path, f"a token is needed: the header {TOKEN_HEADER}, or {_TOKEN_PATH}TOKEN before the path"
    hosts = LOCAL | {settings.host}
    if settings.is_local and _host(host) not in hosts:
        return path, "this proxy serves its own machine only: the Host is another one"
    origin = headers.get("origin", "")
    if origin and _host(origin.partition("://")[2]) not in (hosts if settings.is_local else {_host(host)} - {""}):
        return path, "requests from a page of another origin are refused"
    return path, ""


def _target(target: str, host: str) -> tuple[str, str]:
    """Path and host of a request's target, which may be a whole URL (RFC 9112, section 3.2.2); "" for another one."""
    if target.startswith("/"):
        return target, host
    scheme, _, rest = target.partition("://")
    if scheme.lower() not in ("http", "https"):
        return "", host
    authority = re.split(r"[/?]", rest, maxsplit=1)[0]
    path = rest.removeprefix(authority)
    return path if path.startswith("/") else f"/{path}", authority


def _bytes(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")


def _host(value: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{value}").hostname or ""
    except ValueError:
        return ""
