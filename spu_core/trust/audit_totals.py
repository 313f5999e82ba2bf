"""Totals of the true class from audited rows: Horvitz–Thompson by stratum, or assisted by what the plan expected.

Σzy = Σ z m over all rows + Σ z (y − m) / chance over the audited ones: m is the expectation of the plan, fitted to the
verdicts by one line (a + b·belief). Where it is right, little is left to chance; where not, the second part
mends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from spu_core.checks import check_choice
from spu_core.errors import AssumptionError
from spu_core.trust.audit_population import Population

Method = Literal["assisted", "horvitz_thompson"]
METHODS = ("assisted", "horvitz_thompson")


@dataclass(frozen=True, eq=False)
class Audited:
    """Rows with their verdicts: `place` in the population, `verdict` in [0, 1], the stratum of every row."""

    population: Population
    stratum: np.ndarray
    place: np.ndarray
    verdict: np.ndarray

    def __post_init__(self) -> None:
        missing = np.flatnonzero((self.sizes > 0) & (self.checked < np.minimum(2, self.sizes)))
        if missing.size:
            names = ", ".join(f"{h + 1} ({self.checked[h]} of {self.sizes[h]:,} rows)" for h in missing)
            raise AssumptionError(
                f"Too few verdicts in stratum {names}: each needs at least two before anything can be estimated. "
                "Check more rows of the list."
            )

    @property
    def strata(self) -> int:
        return int(self.stratum.max()) + 1

    @property
    def row_stratum(self) -> np.ndarray:
        """The stratum of each audited row."""
        return self.stratum[self.place]

    @property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.stratum[self.stratum >= 0], minlength=self.strata)

    @property
    def checked(self) -> np.ndarray:
        """Audited rows per stratum."""
        return np.bincount(self.row_stratum, minlength=self.strata)

    @property
    def found(self) -> np.ndarray:
        """Positives found per stratum; a split verdict counts in part."""
        return np.bincount(self.row_stratum, weights=self.verdict, minlength=self.strata)

    @property
    def weight(self) -> np.ndarray:
        """How many rows each audited row stands for: one over its chance to be drawn."""
        return (self.sizes / np.maximum(self.checked, 1))[self.row_stratum]


@dataclass(frozen=True, eq=False)
class StratumTotals:
    """Estimated T = Σzy and P = Σy of each stratum with their covariances, and what is known without any check."""

    total: np.ndarray
    positives: np.ndarray
    covariance: np.ndarray
    known_total: float
    known_positives: float

    def sums(self, strata: Any = slice(None)) -> tuple[float, float, np.ndarray]:
        """T and P over some strata (without the known rows) and their 2 × 2 covariance."""
        return (
            float(self.total[strata].sum()),
            float(self.positives[strata].sum()),
            self.covariance[strata].sum(axis=0),
        )

    @property
    def whole(self) -> tuple[float, float]:
        """T and P of all rows."""
        return float(self.total.sum()) + self.known_total, float(self.positives.sum()) + self.known_positives


def expectation(audited: Audited, method: Method = "assisted") -> np.ndarray:
    """m of each row: 0 for Horvitz–Thompson, else the line a + b·belief fitted to the verdicts by their weights."""
    population = audited.population
    if check_choice(method, METHODS, "method") == "horvitz_thompson":
        return np.zeros(population.size)
    belief, weight, verdict = population.belief[audited.place], audited.weight, audited.verdict
    middle = np.average(belief, weights=weight)
    mean = float(np.average(verdict, weights=weight))
    spread = float((weight * (belief - middle) ** 2).sum())
    slope = float((weight * (belief - middle) * (verdict - mean)).sum()) / spread if spread > 0.0 else 0.0
    return np.clip(mean + slope * (population.belief - middle), 0.0, 1.0)


def stratum_totals(audited: Audited, column: np.ndarray, expected: np.ndarray) -> StratumTotals:
    """T and P of every stratum for the z in `column`."""
    population, strata = audited.population, audited.strata
    rest = audited.verdict - expected[audited.place]
    parts = np.stack([column[audited.place] * rest, rest])
    mean = _by_stratum(audited, parts) / np.maximum(audited.checked, 1)
    open_rows = audited.stratum >= 0
    assumed = np.stack(
        [
            np.bincount(audited.stratum[open_rows], weights=values[open_rows], minlength=strata)
            for values in (column * expected, expected)
        ]
    )
    total, positives = assumed + audited.sizes * mean
    known = population.is_known
    return StratumTotals(
        total,
        positives,
        _covariance(audited, parts - mean[:, audited.row_stratum]),
        float(column[known].sum()),
        float(known.sum()),
    )


def _covariance(audited: Audited, centred: np.ndarray) -> np.ndarray:
    """N_h² (1 − n_h/N_h) s_h² / n_h for each stratum, as strata × 2 × 2."""
    sizes, checked = audited.sizes, audited.checked
    factor = sizes**2 * (1.0 - checked / np.maximum(sizes, 1)) / np.maximum(checked * (checked - 1), 1)
    pairs = np.stack([centred[0] * centred[0], centred[0] * centred[1], centred[1] * centred[1]])
    first, both, second = factor * _by_stratum(audited, pairs)
    return np.stack([np.stack([first, both], -1), np.stack([both, second], -1)], -2)


def _by_stratum(audited: Audited, values: np.ndarray) -> np.ndarray:
    return np.stack([np.bincount(audited.row_stratum, weights=v, minlength=audited.strata) for v in values])
