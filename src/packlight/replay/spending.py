"""Where the money went, for a person in a terminal and for a machine as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .advice import advice_on
from .compare import Prediction, Replayed
from .content import KINDS, Filling
from .money import REASONS, Miss, Money, total
from .text import Paint, cut, duration, fitted, hung, share, table, times, tokens_text, usd_text

_MOST_MISSES_SHOWN = 3
_MOST_FILLINGS_SHOWN = 9
_LEAST_SHOWN_RATIO = 0.005
_HEAD, _ADVICE = "  where the input money went", "  what would have saved most"
_BROKEN, _FILLED = "  broken prefixes cost", "  what filled the windows"


def money_json(money: Money, prediction: Prediction | None) -> dict[str, Any]:
    return {
        "source": "recorded" if money.is_recorded else "simulated",
        "priced": money.is_priced,
        "usd": money.total_usd,
        "tokens": round(money.total_tokens),
        "simulated_usd": money.simulated_usd,
        "billed_usd": money.billed_usd,
        "by_reason": {r: {"usd": money.usd[r], "tokens": round(money.tokens[r])} for r in REASONS},
        "broken_extra_usd": money.extra_usd("broken"),
        "cold_extra_usd": money.extra_usd("cold"),
        "misses": [asdict(m) for m in money.misses],
        "content": [asdict(f) for f in money.content],
        "usd_by_turn": money.usd_by_turn,
        "prediction": asdict(prediction) if prediction else None,
    }


@dataclass(frozen=True, slots=True)
class Spending:
    """The money of one session, or of several together."""

    sessions: Sequence[Replayed]

    def render(self, *, color: bool = False, width: int = 80) -> str:
        money = total([s.money for s in self.sessions])
        misses = [(s, m) for s in self.sessions for m in s.money.misses]
        lines = [*self._head(money), *_reasons(money, width), *_advice(self.sessions, money, width)]
        lines += _misses(misses, money, is_many=len(self.sessions) > 1)
        lines += ["", *_content(money.content, money.total_usd, width)]
        paint = Paint(color)
        brushes = {_HEAD: paint.bold, _ADVICE: paint.bold, _BROKEN: paint.bad, _FILLED: paint.bold}
        painted = (next((b for s, b in brushes.items() if line.startswith(s)), str)(line) for line in lines)
        return "\n".join(painted) + "\n"

    def _head(self, money: Money) -> list[str]:
        many, told = len(self.sessions), sum(s.money.is_recorded for s in self.sessions)
        source = "by the usage recorded" if told == many else "with a simulated cache"
        if 0 < told < many:
            source = f"{told:,} by the usage recorded, the rest with a simulated cache"
        if many > 1:
            source = f"{many:,} sessions, {source}"
        billed = f"; billed {usd_text(money.billed_usd)}" if money.billed_usd is not None else ""
        prices = ", at API prices" if any(s.money.is_priced for s in self.sessions) else ""
        lines = [f"{_HEAD}: {usd_text(money.total_usd)} ({source}{prices}{billed})"]
        unknown = sorted({s.model or "a model not recorded" for s in self.sessions if not s.money.is_priced})
        if unknown:
            lines.append(
                f"  no price is known for {', '.join(unknown[:3])}: as if $1 for a million tokens, read at a tenth"
            )
        return lines


def _reasons(money: Money, width: int) -> list[str]:
    whole = money.total_usd or 1.0
    counts = Counter[str](m.why for m in money.misses)
    rows = [["", "cost", "share", "tokens", "", ""]]
    rows += [
        [
            label,
            usd_text(money.usd[reason]),
            share(money.usd[reason] / whole),
            tokens_text(money.tokens[reason]),
            times(counts[reason]) if counts.get(reason) else "",
            meaning,
        ]
        for reason, (label, meaning) in REASONS.items()
        if money.tokens[reason] >= 0.5
    ]
    if len(rows) == 1:
        return ["    nothing"]
    rows.append(["all", usd_text(money.total_usd), share(1), tokens_text(money.total_tokens), "", ""])
    lines = table([r[:5] for r in rows], left=1, indent="    ").splitlines()
    told = [f"{line:<{max(map(len, lines))}}  {r[5]}".rstrip() for line, r in zip(lines, rows, strict=True)]
    return told if max(map(len, told)) <= width else lines


def _advice(sessions: Sequence[Replayed], money: Money, width: int) -> list[str]:
    if not money.total_usd:
        return []
    lines = ["", f"{_ADVICE}, each alone"]
    found = advice_on(sessions)
    if not found:
        return [*lines, "    nothing stands out"]
    figures = table([[usd_text(a.usd), share(a.ratio)] for a in found], left=0, indent="    ").split("\n")
    for figure, advice in zip(figures, found, strict=True):
        lines += hung(f"{figure}  ", advice.what, width)
        lines += hung(" " * (len(figure) + 2) + "-> ", advice.how, width)
    return lines


def _misses(found: Sequence[tuple[Replayed, Miss]], money: Money, *, is_many: bool) -> list[str]:
    """What was sent before and had to be paid again, the dearest first."""
    broken = [(s, m) for s, m in found if m.why == "broken"]
    lines = []
    if broken:
        lines += ["", f"{_BROKEN} {usd_text(money.extra_usd('broken'))} more than reading them"]
        lines += [f"    {line}" for line in _causes([m for _, m in broken])]
        for session, miss in sorted(broken, key=lambda pair: -pair[1].usd)[:_MOST_MISSES_SHOWN]:
            where = f"{cut(session.name, 24)} turn" if is_many else "turn"
            lines.append(f"    {where} {miss.turn + 1:,}: {_told(miss)}")
    full = [m for _, m in found if m.is_full]
    if len(full) > 2:
        lines += [] if broken else [""]
        cause, count = Counter(m.before for m in full).most_common(1)[0]
        lines.append(f"    {count:,} of {len(full):,} full misses, cold ones included, came right after {cause}")
    return lines


def _causes(broken: Sequence[Miss]) -> list[str]:
    causes = Counter(m.before for m in broken)
    changes = Counter(m.changed for m in broken if m.changed)
    lines = ["right before: " + ", ".join(f"{cause} ({count:,})" for cause, count in causes.most_common())]
    return lines + [f"with {change}: {count:,}" for change, count in changes.most_common()]


def _told(miss: Miss) -> str:
    gap = f", {duration(miss.gap_seconds)} later" if miss.gap_seconds is not None else ""
    told = f"{miss.before}, with {miss.changed}" if miss.changed else miss.before
    read = f"only {tokens_text(miss.read_tokens)} read" if miss.read_tokens else "nothing read"
    return f"{usd_text(miss.usd)}  {tokens_text(miss.sent_tokens)} sent{gap} {read}; after {told}"


def _content(content: Sequence[Filling], usd: float, width: int) -> list[str]:
    whole = usd or 1.0
    shown = [f for f in content if f.usd >= _LEAST_SHOWN_RATIO * whole][:_MOST_FILLINGS_SHOWN]
    rest = [f for f in content if f not in shown]
    rows = [["", "cost", "share", "tokens", "superseded"]]
    rows += [_filling(label_of(f), [f], whole) for f in shown]
    if rest:
        rows.append(_filling(f"{len(rest):,} more", rest, whole))
    lines = [f"{_FILLED}, by its share in the price of each call"]
    if any(row[4] for row in rows[1:]):
        meaning = ["    superseded: carried on although the file was read again or written, or the output came again"]
    else:
        rows, meaning = [row[:4] for row in rows], []
    return [*lines, *fitted(rows, width, left=1, indent="    "), *meaning]


def label_of(filling: Filling) -> str:
    return f"results of {filling.tool}" if filling.tool else KINDS[filling.kind]


def _filling(label: str, fillings: Sequence[Filling], whole: float) -> list[str]:
    usd, turns = sum(f.usd for f in fillings), sum(f.token_turns for f in fillings)
    gone = sum(f.superseded_usd for f in fillings)
    ratio = gone / usd if usd else 0.0
    return [
        label,
        usd_text(usd),
        share(usd / whole),
        tokens_text(turns),
        share(ratio) if ratio >= _LEAST_SHOWN_RATIO else "",
    ]


def predictions(sessions: Sequence[Replayed]) -> list[str]:
    """Our own error, over all sessions."""
    known = [s.prediction for s in sessions if s.prediction]
    if not known:
        return []
    worst = max(known, key=lambda p: abs(p.worst_ratio))
    middle = sorted(p.median_ratio for p in known)[len(known) // 2]
    turn = f" (turn {worst.worst_turn + 1:,}{_begins(sessions[0], worst.worst_turn)})" if len(sessions) == 1 else ""
    return [
        "",
        "  how well packlight told each request's size beforehand, by what the provider then counted",
        f"    {middle:.2%} off at the median call, {abs(worst.worst_ratio):.0%} too"
        f" {'small' if worst.worst_ratio < 0 else 'large'} at the worst{turn}",
    ]


def _begins(session: Replayed, turn: int) -> str:
    return ", the first of a new window" if turn in session.window_starts else ""
