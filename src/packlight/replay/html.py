"""A replay as one page that needs nothing else: no network, no fonts, and no text of a conversation unasked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from typing import Any

from .. import jsonio
from .advice import advice_on
from .beside import HEAD, beside_rows, reads_line
from .columns import MEANING, Column, by_policy, cells_of, cost, shown_columns
from .compare import BASE, Replayed, Row
from .loss.recorded import ComparedCompaction
from .money import REASONS, total
from .report import actions_text
from .spending import label_of, money_json

_TEMPLATE = "data/replay.html"


def page(sessions: Sequence[Replayed], *, version: str) -> bytes:
    """The page. What text it holds is what the sessions were replayed with (`Replayed.texts`)."""
    template = resources.files("packlight").joinpath(_TEMPLATE).read_bytes()
    body = jsonio.dump(page_data(sessions, version=version)).replace(
        b"<", rb"\u003c"
    )  # no text can end the script it stands in
    return template.replace(b"{{data}}", body)


def page_data(sessions: Sequence[Replayed], *, version: str) -> dict[str, Any]:
    """What the page draws, under the names of the JSON report where that has them."""
    rows = [row for session in sessions for row in session.rows]
    policies = by_policy(rows)
    columns = shown_columns(rows)
    whole = total([s.money for s in sessions])
    money = _money(money_json(whole, None), [label_of(f) for f in whole.content])
    money["misses"] = [{**m, "session": s.name} for s in sessions for m in _misses(s)]
    del money["usd_by_turn"]
    return {
        "version": version,
        "has_text": any(s.texts for s in sessions),
        "reasons": REASONS,
        "columns": [c.label or c.name for c in columns],
        "meaning": MEANING,
        "policies": list(policies),
        "cheapest": _cheapest(policies),
        "sessions": [_session(s, columns) for s in sessions],
        "beside_head": HEAD,
        "total": {
            "money": money,
            "advice": _advice(sessions),
            "beside": _beside([c for s in sessions for c in s.compactions]),
            "rows": [{"policy": p, "cells": cells_of(group, columns)} for p, group in policies.items()],
        },
    }


def _beside(found: Sequence[ComparedCompaction]) -> dict[str, Any]:
    return {"rows": beside_rows(found), "count": len(found), "reads": reads_line(found)}


def _advice(sessions: Sequence[Replayed]) -> list[dict[str, Any]]:
    return [asdict(a) for a in advice_on(sessions)]


def _cheapest(policies: Mapping[str, Sequence[Row]]) -> str | None:
    """What is shown beside no compaction at first."""
    return min([p for p in policies if p != BASE] or policies, key=lambda p: cost(policies[p]), default=None)


def _session(session: Replayed, columns: Sequence[Column]) -> dict[str, Any]:
    money = _money(money_json(session.money, session.prediction), [label_of(f) for f in session.money.content])
    money["misses"] = _misses(session)
    money["usd_by_turn"] = _short(money["usd_by_turn"])
    return {
        "name": session.name,
        "title": session.texts.get(-1),
        "reader": session.reader,
        "format": session.format,
        "model": session.model,
        "turns": session.turns,
        "windows": session.window_starts,
        "money": money,
        "advice": _advice([session]),
        "prediction": money.pop("prediction"),
        "without_tokens": [round(t) for t in session.without_tokens],
        "without_usd": _short([c.usd for c in session.rows[0].without]) if session.rows else [],
        "beside": _beside(session.compactions),
        "rows": [_row(session, r, columns) for r in session.rows],
        "notes": session.notes,
    }


def _row(session: Replayed, row: Row, columns: Sequence[Column]) -> dict[str, Any]:
    return {
        "policy": row.result.policy,
        "cells": cells_of([row], columns),
        "tokens": [round(c.tokens) for c in row.charges],
        "usd": _short([c.usd for c in row.charges]),
        "marks": [
            {
                "turn": b.turn,
                "label": f"{actions_text(b.actions)} ({', '.join(b.layers)})",
                "tokens_before": b.tokens_before,
                "tokens_after": b.tokens_after,
                "text": session.texts.get(b.turn),
            }
            for b in row.result.batches
        ],
        "lost": [
            {"turn": turn, "label": what} for found in row.found.values() for turn, what in getattr(found, "lost", ())
        ],
    }


def _money(money: dict[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    content = [{"label": label, **filling} for label, filling in zip(labels, money["content"], strict=True)]
    return {**money, "content": content}


def _misses(session: Replayed) -> list[dict[str, Any]]:
    misses: list[dict[str, Any]] = money_json(session.money, None)["misses"]
    return [{**m, "text": session.texts.get(m["turn"])} for m in misses]


def _short(values: Sequence[float]) -> list[float]:
    """To a hundredth of a cent's hundredth: a page of many sessions stays small."""
    return [round(v, 6) for v in values]
