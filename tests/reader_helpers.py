"""What the tests of the readers share."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from packlight.laws import validate
from packlight.replay.readers import read_sessions
from packlight.replay.session import Session

SESSIONS = Path(__file__).parent / "data" / "sessions"


def lines(*records: Any) -> bytes:
    return b"\n".join(json.dumps(r).encode() for r in records)


def one(source: bytes, **kwargs: Any) -> Session:
    (session,) = read_sessions(source, **kwargs)
    return session


def requests(session: Session) -> list[list[dict[str, Any]]]:
    bodies = [session.request(s, t) for s in session.segments for t in s.turns]
    return [body[session.list_key] if isinstance(body, dict) else body for body in bodies]


def assert_sound(session: Session, *, but: tuple[str, ...] = ()) -> None:
    """Every request is valid, rules that are named aside, and begins with the one before it in its window."""
    for segment in session.segments:
        ends = [t.end for t in segment.turns]
        assert ends == sorted(ends)
        assert all(0 < end <= len(segment.messages) for end in ends)
        for turn in segment.turns[:: max(1, len(ends) // 12)] + segment.turns[-1:]:
            found = validate(session.request(segment, turn), session.format)
            assert [v for v in found if v.rule not in but] == []


def mutated(value: Any, pick: random.Random, rate: float = 0.03) -> Any:
    """A value in which keys are missing, values are of another type, lists are shuffled, cut or doubled."""
    if pick.random() < rate:
        return pick.choice([None, True, -1, 2.5, "", "\ud800", [], {}, [value], {"id": value}, str(value)[:20]])
    if isinstance(value, dict):
        return {k: mutated(v, pick, rate) for k, v in value.items() if pick.random() > rate / 2}
    if isinstance(value, list):
        items = [mutated(v, pick, rate) for v in value if pick.random() > rate / 2]
        if pick.random() < rate:
            items += pick.sample(items, len(items) // 2)
        if pick.random() < rate:
            pick.shuffle(items)
        return items
    return value


# Records of Codex


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": {"type": kind, **fields}}


def said(role: str, value: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": value}])


def tool(call_id: str) -> dict[str, Any]:
    return item("function_call", call_id=call_id, name="exec", arguments="{}")


def output(call_id: str) -> dict[str, Any]:
    return item("function_call_output", call_id=call_id, output="ok")


def usage(total: int) -> dict[str, Any]:
    info = {"total_token_usage": {"input_tokens": total * 10}, "last_token_usage": {"input_tokens": total}}
    return {"type": "event_msg", "payload": {"type": "token_count", "info": info}}


META = {"type": "session_meta", "payload": {"id": "s", "base_instructions": {"text": "Be good."}}}
CONTEXT = {"type": "turn_context", "payload": {"model": "gpt-5.5"}}
THINKS = item("reasoning", summary=[], encrypted_content="REDACTED", metadata={"turn_id": 1})


# Blocks of Anthropic


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def call(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls"}}
