"""Secrets masked in what packlight itself writes: by the shape of the value, or by the name it is assigned to.

Only our own text is masked (a digest, a placeholder). What the caller's history holds is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .rules import holds_any, rule

MASK = "[masked]"

_ENV = rule(r"((?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PWD|CREDENTIALS?)=)([\"']?)([^\s\"']{4,})")
"""`NAME_TOKEN=value`, as a shell, `env` or a .env file writes it."""
_ENV_SIGNS = dict.fromkeys(
    ("TOKEN=", "KEY=", "SECRET=", "PASSWORD=", "PASSWD=", "PWD=", "CREDENTIAL=", "CREDENTIALS="), 0
)
"""What every match holds, and how many characters behind its beginning."""
_CAPITALS = ("TOKEN", "KEY", "SECRET", "PASSW", "PWD", "CREDENTIAL")
_QUOTED = rule(
    r"((?:[Tt]oken|TOKEN|(?<=[\w-])(?:key|Key|KEY)|[Ss]ecret|SECRET|[Pp]assword|PASSWORD|[Pp]asswd|PASSWD|[Cc]redentials?)"
    r"[\"']?\s{0,4}[:=]\s{0,4})([\"'])([^\s\"'(){}]{8,})(?=[\"'])"
)
"""`"apiKey": "value"`, `password = 'value'`: only a literal that looks made up, since code speaks of keys all day."""
_QUOTED_SIGNS = dict.fromkeys(("oken", "ey", "ecret", "assw", "redential"), 1)
_QUOTED_CAPITALS = dict.fromkeys(("TOKEN", "KEY", "SECRET", "PASSW"), 0)
_SHAPES = rule(
    r"""(?<![A-Za-z0-9])(?:
      gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | glpat-[\w-]{16,}
    | sk-(?:[a-z]+-)*[A-Za-z0-9_-]{16,} | (?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}
    | (?:AKIA|ASIA)[A-Z0-9]{12,} | AIza[\w-]{30,} | ya29\.[\w-]{20,}
    | xox[abeprs]-[A-Za-z0-9-]{8,} | npm_[A-Za-z0-9]{30,} | hf_[A-Za-z0-9]{30,} | pypi-[\w-]{40,}
    | eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{4,}
    )""",
    re.VERBOSE,
)
_SHAPE_SIGNS = {
    **dict.fromkeys(("gh", "glpat-", "sk-", "AIza", "ya29.", "xox", "npm_", "hf_", "pypi-", "eyJ"), 0),
    "k_": 1,
    "IA": 2,
}
_URL_LOGIN = rule(r"(?<=://)([^\s/:@]{1,64}):[^\s/:@]{3,128}@")
_BEARER = rule(r"\b([Bb]earer|[Bb]asic)\s+[\w.~+/-]{16,}=*")
_KEY_BEGIN = "-----BEGIN "
_KEY_BLOCK = rule(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_NOT_SECRET = rule(r"(?:\$|<|\{|process\.|os\.|env\.|None$|null$|true$|false$|undefined$|str$|string$|\[masked)", re.I)


def mask(text: str) -> str:
    """The text with secret values replaced by `[masked]`; names of keys stay. The same object when there are none."""
    if _KEY_BEGIN in text:
        text = _without_key_blocks(text)
    quoted = ('"' in text or "'" in text) and ("=" in text or ":" in text)
    capitals = (quoted or "=" in text) and holds_any(text, _CAPITALS)
    if capitals and "=" in text:
        text = _replaced(_ENV, _ENV_SIGNS, _masked, text)
    if quoted:
        signs = {**_QUOTED_SIGNS, **_QUOTED_CAPITALS} if capitals else _QUOTED_SIGNS
        text = _replaced(_QUOTED, signs, _masked_literal, text)
    text = _replaced(_SHAPES, _SHAPE_SIGNS, lambda _: MASK, text)
    if "://" in text:
        text = _URL_LOGIN.sub(rf"\1:{MASK}@", text)
    if "earer" in text or "asic" in text:
        text = _BEARER.sub(rf"\1 {MASK}", text)
    return text


def _replaced(
    pattern: re.Pattern[str], signs: Mapping[str, int], new: Callable[[re.Match[str]], str], text: str
) -> str:
    """`pattern.sub(new, text)`, tried only where a sign stands: looking for one takes a tenth of the time."""
    if not holds_any(text, signs):
        return text
    starts: list[int] = []
    for sign, place in signs.items():
        at = text.find(sign)
        while at >= 0:
            starts.append(at - place)
            at = text.find(sign, at + 1)
    out: list[str] = []
    done = 0
    for start in sorted(starts):
        if start >= done and (match := pattern.match(text, start)):
            out += [text[done:start], new(match)]
            done = match.end()
    return "".join([*out, text[done:]]) if out else text


def _masked(match: re.Match[str]) -> str:
    name, quote, value = match.groups()
    if _NOT_SECRET.match(value) or value.isdigit():  # `${VAR}` and counts name no secret
        return match[0]
    return f"{name}{quote}{MASK}"


def _masked_literal(match: re.Match[str]) -> str:
    return match[0] if match[3].replace("-", "").replace("_", "").isalpha() else _masked(match)


def _without_key_blocks(text: str) -> str:
    """Private key blocks without their body; one that is not closed loses the rest of its text."""
    out: list[str] = []
    at = 0
    while begin := _KEY_BLOCK.search(text, at):
        out += [text[at : begin.end()], MASK]
        end = text.find("-----END ", begin.end())
        at = len(text) if end < 0 else end
    return "".join([*out, text[at:]])
