"""Who sends a request, and to which conversation of theirs it belongs.

Tenants are kept apart by a keyed hash of their credential: the credential itself is never kept. A login whose token is
renewed every few hours is known by its account instead, where the request names it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ..errors import StoreError
from ..store.files import KEY_FILE, prepare_folder

__all__ = ["credential_kind", "load_key", "owner_of", "session_of"]

_CREDENTIALS = ("x-api-key", "authorization", "api-key", "x-goog-api-key")
_RENEWED = ("bearer sk-ant-oat", "bearer eyj")
"""Tokens of logins: Claude's, and JSON Web Tokens."""
_SESSIONS = ("x-claude-code-session-id", "session-id", "session_id", "x-session-id", "x-session-affinity")
_THREADS = ("x-claude-code-agent-id", "thread-id")
_KEY_BYTES = 32


def load_key(folder: Path | None) -> bytes:
    """The secret that credentials are hashed with: of the state folder, or of this process where there is none.

    Raises StoreError when the folder can't be used.
    """
    if folder is None:
        return secrets.token_bytes(_KEY_BYTES)
    path = folder / KEY_FILE
    try:
        prepare_folder(folder)
        with suppress(FileExistsError):
            _create(path, secrets.token_bytes(_KEY_BYTES))
        key = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from None
    if len(key) < _KEY_BYTES:
        raise StoreError(f"{path} is damaged: remove it to have a new one made")
    return key


def _create(path: Path, data: bytes) -> None:
    """Whole or not at all, and never over what another process has just made."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.link(temporary, path)
    finally:
        temporary.unlink()


def owner_of(headers: Mapping[str, str], request: Mapping[str, Any], key: bytes) -> str:
    """Whose request it is, as a hash that tells nothing; the same for one credential, or one account of a login."""
    credential = next((headers[name] for name in _CREDENTIALS if headers.get(name)), "")
    if credential.lower().startswith(_RENEWED):
        credential = _account(headers, request, credential) or credential
    return hmac.new(key, credential.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:16]


def credential_kind(headers: Mapping[str, str]) -> str:
    """`API key`, `login` or `none`."""
    credential = next((headers[name] for name in _CREDENTIALS if headers.get(name)), "")
    return "none" if not credential else "login" if credential.lower().startswith(_RENEWED) else "API key"


def _account(headers: Mapping[str, str], request: Mapping[str, Any], credential: str) -> str:
    if account := headers.get("chatgpt-account-id"):
        return f"chatgpt {account}"
    if account := _user_id(request).get("account_uuid"):
        return f"claude {account}"
    return _subject(credential.partition(" ")[2])


def _user_id(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Claude Code's `metadata.user_id`: JSON of device, account and session (2.1.332)."""
    metadata = request.get("metadata")
    text = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    try:
        found = msgspec.json.decode(text) if isinstance(text, str) and text.startswith("{") else {}
    except (msgspec.MsgspecError, UnicodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _subject(token: str) -> str:
    """Whom a JSON Web Token is for. Nobody's word is taken for it here: it only tells accounts apart."""
    try:
        part = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return f"jwt {claims['iss']} {claims['sub']}"
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error, msgspec.MsgspecError):
        return ""


def session_of(headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
    """The name that the client gives its conversation; empty when it gives none. Sub-agents have their own."""
    cache_key = request.get("prompt_cache_key")
    named = next((headers[name] for name in _SESSIONS if headers.get(name)), "")
    session = named or (cache_key if isinstance(cache_key, str) else "") or str(_user_id(request).get("session_id", ""))
    threads = [headers[name] for name in _THREADS if headers.get(name)]
    return "/".join(filter(None, [session, *(t for t in threads if t != session)]))[:200]
