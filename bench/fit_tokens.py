"""Fits the weights of the default token counter, and writes src/packlight/tokens/weights.py. For maintainers.

    python bench/fit_tokens.py samples.jsonl

Needs numpy and scipy. Each line of the samples: {"kind", "group", "text", "claude_old", "claude", "gpt", "other"}, with
true counts (`ctok` versions 3.0 and 4.8 less the frame of a message; o200k_base; for `other` the largest of several
vocabularies). Half of the groups (files) are fitted, chosen by the hash of their names; errors are printed for
the other half. The loss is the relative error of a text, to the second and fourth power, more for counting too low
than too high; every kind of text weighs about the same.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from packlight.tokens import byteclass, weights  # noqa: E402

FAMILIES = ("claude_old", "claude", "gpt", "other")
PATTERNS = [pattern for group in weights.PATTERNS.values() for pattern in group]
INDIC = range(2, 16)
PAIRS, SKIPS, SCRIPTS = slice(0, 256), slice(256, 512), slice(512, 768)
CORRECTIONS = slice(768, 768 + len(INDIC))
EXCEPTIONS = slice(CORRECTIONS.stop, CORRECTIONS.stop + len(PATTERNS))
SIZE = EXCEPTIONS.stop
BOTH_OUTSIDE_ASCII = 2 | 2 << 4


def features(text: str) -> tuple[np.ndarray, dict[int, int], int]:
    """Counts that the weights are multiplied with, and the runs: characters by byte, and how many runs."""
    data = text.encode("utf-8", "surrogatepass")
    kept, runs, starts = without_runs(data)
    found = np.zeros(SIZE)
    found[PAIRS] = pairs(kept.translate(byteclass._ASCII), 1)
    found[SKIPS] = pairs(kept.translate(byteclass._ASCII), 2)
    found[SCRIPTS] = pairs(kept.translate(byteclass._SCRIPTS), 1)
    found[[BOTH_OUTSIDE_ASCII, 256 + BOTH_OUTSIDE_ASCII, 512]] = 0
    rare = kept.translate(None, bytes(range(0x80)))
    indic = pairs(rare.translate(byteclass._INDIC), 1)
    found[CORRECTIONS] = [indic[1 | code << 4] for code in INDIC]
    found[EXCEPTIONS] = [rare.count(pattern) for pattern in PATTERNS]
    return found, runs, starts


def pairs(classes: bytes, step: int) -> np.ndarray:
    codes = np.frombuffer(classes, np.uint8).astype(int)
    following = np.concatenate([codes[step:], np.zeros(step, int)])[: len(codes)]
    return np.bincount(codes | following << 4, minlength=256)


def without_runs(data: bytes) -> tuple[bytes, dict[int, int], int]:
    number = int.from_bytes(data, "little")
    same = (number ^ number >> 8).to_bytes(len(data), "little")
    kept, runs, last, starts = [], Counter(), 0, 0
    for run in byteclass._RUN.finditer(same):
        kept.append(data[last : run.start() + 1])
        last, starts = run.end() + 1, starts + 1
        runs[data[run.start()] & 0x7F] += last - run.start()
    return b"".join([*kept, data[last:]]), runs, starts


def fit(found: np.ndarray, counts: np.ndarray, importance: np.ndarray, shrink: float = 3e-4) -> np.ndarray:
    """Ridge with bounds; the weights of the rows are set anew seven times for the fourth power and the asymmetry."""
    prior, low, high = np.zeros(SIZE), np.zeros(SIZE), np.full(SIZE, 3.9)
    prior[PAIRS], prior[SKIPS], prior[SCRIPTS] = 0.2, 0.05, 0.1
    high[PAIRS], high[SKIPS] = 2.2, 1.7  # their sum must fit into one byte
    low[CORRECTIONS], high[CORRECTIONS], low[EXCEPTIONS] = -1.9, 1.9, -1.9
    rows, importance = found / counts[:, None], importance / importance.sum()
    result, row_weights = prior.copy(), importance
    for turn in range(7):
        if turn:
            error = rows @ result - 1
            side = np.where(error < 0, 1.7, 1.0)
            row_weights = np.minimum(importance * side**2 * (1 + 12 * (error * side) ** 2), importance * 60)
        matrix, vector = (rows * row_weights[:, None]).T @ rows, rows.T @ row_weights + shrink * prior
        matrix[np.diag_indices(SIZE)] += shrink
        scale = 1 / np.sqrt(np.diag(matrix))
        matrix, vector = matrix * scale[:, None] * scale, vector * scale

        def loss(x: np.ndarray, a: np.ndarray = matrix, b: np.ndarray = vector) -> tuple[float, np.ndarray]:
            gradient = a @ x
            return 0.5 * x @ gradient - b @ x, gradient - b

        bounds = list(zip(low / scale, high / scale, strict=True))
        start, options = result / scale, {"maxiter": 1200, "maxfun": 1500}
        result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x * scale
    return result


def table(values: np.ndarray) -> str:
    packed = bytes(int(min(255, max(0, round(float(x) * weights.UNITS)))) for x in values)
    return base64.b85encode(packed).decode()


def literal(family: str, result: np.ndarray, old: weights.Weights) -> str:
    result[[BOTH_OUTSIDE_ASCII, 256 + BOTH_OUTSIDE_ASCII, 512]] = 0
    indic = np.zeros(256)
    for code, value in zip(INDIC, result[CORRECTIONS], strict=True):
        indic[1 | code << 4] = value + weights.INDIC_BIAS / weights.UNITS
    values = (round(float(value) * weights.UNITS) for value in result[EXCEPTIONS])
    patterns = tuple(tuple(next(values) for _ in group) for group in weights.PATTERNS.values())
    tables = {"pairs": result[PAIRS], "skips": result[SKIPS], "scripts": result[SCRIPTS], "indic": indic}
    lines = [f"        {name}=_table({table(values)!r}),\n" for name, values in tables.items()]
    runs = base64.b85encode(old.runs).decode()
    lines += [f"        patterns={patterns!r},\n", f"        runs=_table({runs!r}),\n"]
    return f'    "{family}": Weights(\n{"".join(lines)}        run_start={old.run_start},\n    ),\n'


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    samples = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    read = [features(sample["text"]) for sample in samples]
    found = np.array([r[0] for r in read])
    often = Counter(sample["kind"] for sample in samples)
    importance = np.array([min(1.0, (20 / often[s["kind"]]) ** 0.6) * s.get("importance", 1) for s in samples])
    fitted = np.array([int(hashlib.md5(s["group"].encode()).hexdigest(), 16) % 2 == 0 for s in samples])
    target = ROOT / "src" / "packlight" / "tokens" / "weights.py"
    text = target.read_text(encoding="utf-8")
    text = text[: text.index("WEIGHTS: dict")] + "WEIGHTS: dict[str, Weights] = {\n"
    for family in FAMILIES:
        old = weights.WEIGHTS[family]
        long = [
            (r[2] * old.run_start + sum(n * old.runs[c] for c, n in r[1].items())) / weights.RUN_UNITS for r in read
        ]
        counts = np.array([max(1, sample[family]) for sample in samples])
        rest = np.maximum(1, counts - np.array(long))
        result = fit(found[fitted], rest[fitted], importance[fitted])
        error = (found @ result + long) / counts - 1
        print(f"{family}: mean error on the other half {np.abs(error[~fitted]).mean():.1%}")
        text += literal(family, result, old)
    target.write_text(text + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
