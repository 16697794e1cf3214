"""The results as a page: every figure beside its baseline of the same run, the aims beside what they are for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Figures = dict[str, Any]


def page(results: Figures) -> str:
    sections = (("latency", _latency), ("growth", _growth), ("crash", _crash), ("peers", _peers))
    lines = ["# The proxy: how fast and how much", ""]
    for name, section in sections:
        if name in results:
            about = results[name]
            lines += [*section(about["figures"]), f"`{about['command']}`: {about['machine']}.", ""]
    return "\n".join(lines)


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    cells = list(head)
    yield f"| {' | '.join(cells)} |"
    yield f"|---|{'---:|' * (len(cells) - 1)}"
    for row in rows:
        yield f"| {' | '.join(_text(value) for value in row)} |"
    yield ""


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}" if value < 10 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _latency(figures: Figures) -> Iterator[str]:
    yield "## Latency"
    yield ""
    yield (
        "Streamed requests of growing conversations, each sent through a bare pass-through (aiohttp server and client) "
        "and through packlight in turn. Milliseconds; `+` is what packlight adds. Aim: at most +10 at the median on "
        "1 MB."
    )
    yield ""
    names = ("first byte, median", "first byte, p99", "end, median", "end, p99", "CPU a request")
    keys = ("first_median_ms", "first_p99_ms", "whole_median_ms", "whole_p99_ms", "cpu_ms")
    rows = []
    for name, pair in figures["idle"].items():
        bare, ours = pair["passthrough"], pair["packlight"]
        plus = [f"{_text(bare[k])} + {_text(max(0.0, ours[k] - bare[k]))}" for k in keys]
        rows.append([name, ours["requests"], ours["failed"], *plus])
    yield from table(["nothing due", "requests", "failed", *names], rows)
    yield (
        "A batch on 1.2 MB (a request that no longer fits a window of 300,000 tokens), alone and beside a hundred "
        "small requests a second of other conversations. Aims: at most +150 for the batch, +20 at p99 for the others."
    )
    yield ""
    bare, ours = figures["batches"]["passthrough"], figures["batches"]["packlight"]
    rows = []
    for name in bare:
        known = [k for k in keys if k in bare[name]]
        plus = [f"{_text(bare[name][k])} + {_text(max(0.0, ours[name][k] - bare[name][k]))}" for k in known]
        plus += [""] * (len(keys) - len(known))
        rows.append(
            [{"alone": "the batch, alone"}.get(name, name), ours[name]["requests"], ours[name]["failed"], *plus]
        )
    yield from table(["a batch due", "requests", "failed", *names], rows)


def _growth(figures: Figures) -> Iterator[str]:
    yield "## 200 slow streams at once"
    yield ""
    rows = [
        [name, f["streams"], f["failed"], f["chunks"], f["cpu_us_per_chunk"], f["slowest_seconds"], f["rss_mb"]]
        for name, f in figures["streams"].items()
    ]
    head = ["", "streams", "failed", "chunks", "CPU, µs a chunk", "slowest, s", "memory, MB"]
    yield from table(head, rows)
    yield "## A conversation that grows"
    yield ""
    yield "A turn a request, a window of 200,000 tokens; the median of ten requests up to the nth."
    yield ""
    rows = []
    for name, marks in figures["conversation"].items():
        for number, f in marks.items():
            cells = [f[k] for k in ("body_mb", "sent_mb", "batches", "whole_ms", "cpu_ms", "cpu_ms_per_mb", "rss_mb")]
            rows.append([f"{name}, request {int(number):,}", *cells])
    head = ["", "body, MB", "sent on, MB", "batches", "whole, ms", "CPU, ms", "CPU, ms a MB", "memory, MB"]
    yield from table(head, rows)
    yield "## Memory"
    yield ""
    yield (
        "Many conversations of 40 requests, one after another, each past its window; and one that gains a turn at "
        "every tenth request. What packlight holds of bodies is bounded (128 MB)."
    )
    yield ""
    rows = [[name, f["failed"], f["shrunk"], *(f["rss_mb"].values())] for name, f in figures["memory"].items()]
    marks = next(iter(figures["memory"].values()))["rss_mb"]
    yield from table(["", "failed", "compacted", *(f"MB after {int(m):,}" for m in marks)], rows)


def _crash(figures: Figures) -> Iterator[str]:
    yield "## kill -9 in mid-conversation"
    yield ""
    yield (
        "The loop of 197 requests, once through a proxy that lives, once through proxies that are killed while an "
        "answer streams and started again over the same folder. A prefix is kept where the next request begins with "
        "all bytes of the one before."
    )
    yield ""
    rows = [
        [
            name,
            f["requests"],
            f["kills"],
            f["kept"],
            f["batches"],
            f["breaks_lived"],
            f["breaks_killed"],
            f.get("identical", ""),
        ]
        for name, f in figures.items()
    ]
    head = [
        "",
        "requests",
        "kills",
        "prefix kept",
        "a batch was due",
        "breaks, lived",
        "breaks, killed",
        "bytes as if it had lived",
    ]
    yield from table(head, rows)


def _peers(figures: Figures) -> Iterator[str]:
    yield "## Beside other proxies"
    yield ""
    yield (
        "The same requests through each proxy. Bill: cached prefix 0.1, everything else 1.25, by chars/4, as a share "
        "of the bill without a proxy. A break is a request that does not begin with all of the one before. Visible: "
        "in the last request; recallable: visible, or fetched by what it names. The upstream refuses nothing: "
        "what it would have refused is counted as over the window."
    )
    yield ""
    for name, session in figures.items():
        about = "a loop on one user's message" if "loop" in name else "a dialogue of 23 parts with 15 facts"
        window = f"{session['window_tokens']:,} tokens ({session['share']})"
        yield f"### {session['requests']} requests of {about}, window {window}"
        yield ""
        rows = [
            [
                peer,
                f"{f['bill']:.2f}",
                f["breaks"],
                f["over_window"],
                f["invalid"] + f["failed"],
                *(["/".join(map(str, f["facts"]))] if "loop" not in name else []),
                *("/".join(map(str, f[key])) for key in ("paths", "visible", "recallable")),
                f["median_ms"],
                f["rss_mb"],
            ]
            for peer, f in session["proxies"].items()
        ]
        facts = [] if "loop" in name else ["facts visible"]
        head = ["", "bill", "breaks", "over the window", "invalid or failed", *facts, "paths visible"]
        yield from table([*head, "results visible", "results recallable", "median, ms", "memory, MB"], rows)
    notes = {peer: f["note"] for session in figures.values() for peer, f in session["proxies"].items() if f["note"]}
    yield "Started with (W is the window): " + "; ".join(f"{peer}: `{note}`" for peer, note in notes.items()) + "."
    yield ""
