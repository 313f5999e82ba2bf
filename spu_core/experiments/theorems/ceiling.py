"""Theorem 1: no score has a larger AUC_SPU than S itself, and that is the printed integral."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from spu_core.experiments.images_beliefs import PaperSoftLabels
from spu_core.experiments.result import Claim, ResultTable
from spu_core.experiments.theorems.part import Part, rounded
from spu_core.metrics import auc_spu_ceiling, auc_spu_score

NOISE = np.concatenate([[0.0], np.geomspace(0.01, 3.0, 24)])
ROUNDING = 1e-9
"""Larger differences than this are not rounding."""


def _images(rng: np.random.Generator, rows: int) -> np.ndarray:
    return PaperSoftLabels(0.1).draw(rng.random(rows) < 0.1, rng)


def _rules(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Two rules that fire on a fifth and a tenth of the rows, and few labels."""
    believed = np.where(rng.random(rows) < 0.2, 0.3, np.where(rng.random(rows) < 0.1, 0.6, 0.0))
    return np.where(rng.random(rows) < 0.02, 1.0, believed)


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "0 and 1 only": lambda rng, rows: (rng.random(rows) < 0.2).astype(np.float64),
    "images of Table 2, π = .1": _images,
    "two rules and few labels": _rules,
    "uniform": lambda rng, rows: rng.random(rows),
    "Beta(½, 3)": lambda rng, rows: rng.beta(0.5, 3.0, rows),
}


def run(rows: int, repeats: int, seed: int = 0) -> Part:
    """Compare the integral, AUC_SPU of g = S and the best of many other scores, for five kinds of soft labels."""
    found, curves = [], {}
    for place, (name, draw) in enumerate(DISTRIBUTIONS.items()):
        rng = np.random.default_rng([seed, place])
        soft_label = draw(rng, rows)
        ceiling, printed = auc_spu_ceiling(soft_label), printed_ceiling(soft_label)
        of_itself = auc_spu_score(soft_label, soft_label)
        tried = np.array([auc_spu_score(soft_label, score) for score in other_scores(soft_label, repeats, rng)])
        equal = (float(soft_label.mean()), printed, of_itself, abs(printed - of_itself))
        found.append((name, *equal, tried.size, float(tried.max()), float(tried.max() - ceiling)))
        curves[name] = {"ceiling": ceiling, "auc_spu": rounded(_by_noise(soft_label, rng))}
    columns = ("soft labels", "E[S]", "printed integral", "AUC_SPU of S", "difference", "scores tried")
    table = ResultTable(
        "theorem1",
        "Theorem 1: the ceiling",
        (*columns, "best of them", "above the ceiling"),
        tuple(found),
        "Scores tried: S with noise, with swapped neighbours, in steps, turned around, and pure noise.",
    )
    return Part((table,), {"noise": rounded(NOISE), "curves": curves})


def claim(tables: Mapping[str, ResultTable]) -> Claim:
    table = tables["theorem1"]
    gap = max(abs(float(value or 0.0)) for value in table.column("difference"))
    above = max(float(value or 0.0) for value in table.column("above the ceiling"))
    scores = sum(int(value or 0) for value in table.column("scores tried"))
    return Claim(
        "Theorem 1: AUC_SPU cannot exceed the ceiling given by the distribution of S.",
        "holds" if gap < ROUNDING and above < ROUNDING else "does not hold",
        f"The printed integral equals AUC_SPU of the score g = S to {gap:.0e}, and none of {scores:,} other scores "
        f"exceeds it (largest excess {above:.0e}). The ceiling is 1 only for soft labels of 0 and 1.",
    )


def printed_ceiling(soft_label: np.ndarray) -> float:
    """½ + ∫F(1−F) / (2 ∫F ∫(1−F)) from the steps of the empirical distribution function.

    >>> printed_ceiling(np.array([1.0, 0.5, 0.0]))
    0.9444...
    """
    value, count = np.unique(soft_label, return_counts=True)
    # F is constant between neighbouring values, 0 before the first and 1 after the last.
    step = np.concatenate([[0.0], np.cumsum(count) / soft_label.size])
    width = np.diff(np.concatenate([[0.0], value, [1.0]]))
    below, above = (step * width).sum(), ((1 - step) * width).sum()
    return float(0.5 + (step * (1 - step) * width).sum() / (2 * below * above))


def other_scores(soft_label: np.ndarray, repeats: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Scores that know S in part, wholly or not at all."""
    rows = soft_label.size
    yield -soft_label
    yield np.sqrt(soft_label)
    for steps in (2, 3, 5, 10):
        yield np.floor(soft_label * steps)
    for _ in range(repeats):
        yield rng.random(rows)
        yield soft_label + rng.normal(size=rows) * rng.choice(NOISE)
        # A few swapped pairs stay near the ceiling, where an error of the theorem would show first.
        swapped, pair = soft_label.copy(), rng.integers(rows, size=(2, 3))
        swapped[pair[0]], swapped[pair[1]] = soft_label[pair[1]], soft_label[pair[0]]
        yield swapped


def _by_noise(soft_label: np.ndarray, rng: np.random.Generator) -> list[float]:
    noise = rng.normal(size=soft_label.size)
    return [auc_spu_score(soft_label, soft_label + level * noise) for level in NOISE]
