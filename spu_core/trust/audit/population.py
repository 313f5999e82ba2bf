"""The rows that an audit is about: scored, with soft labels, some confirmed; the rest can be drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, logit

from spu_core.checks import check_flags, check_number, check_score, check_share, check_soft_label
from spu_core.errors import AssumptionError
from spu_core.metrics import roc_spu
from spu_core.training import Run

BANDS = 20
LEAST_BELIEF = 0.002


@dataclass(frozen=True, eq=False)
class Population:
    """All rows of an audit. Every estimate is about exactly these rows, not about those that come next year.

    Known positives are never drawn: their class is known, and they count in every estimate. `belief` is what the plan
    expects of a row before anybody looks: half its own soft label, half the mean soft label of rows scored alike.
    """

    score: np.ndarray
    soft_label: np.ndarray
    is_known: np.ndarray
    threshold: float
    row: np.ndarray
    belief: np.ndarray

    @classmethod
    def of(
        cls, score: Any, soft_label: Any, *, threshold: float, is_known: Any = None, row: Any = None, prior: Any = None
    ) -> Population:
        """Check the arrays and add what the plan expects; with a `prior`, beliefs are moved until their mean is it.

        >>> rows = Population.of([0.9, 0.4, 0.1], [1, 0.5, 0], threshold=0.5, is_known=[True, False, False])
        >>> rows.size, rows.is_flagged.tolist(), int(rows.is_open.sum())
        (3, [True, False, False], 2)
        """
        soft_label = check_soft_label(soft_label)
        score = check_score(score, soft_label.size)
        count = soft_label.size
        known = np.zeros(count, bool) if is_known is None else check_flags(is_known, count, "is_known")
        if known.all():
            raise AssumptionError("Every row is a confirmed positive already, so there is nothing to audit.")
        row = np.arange(count) if row is None else np.asarray(row)
        belief = _belief(score, soft_label, known, prior)
        return cls(score, soft_label, known, check_number(threshold, "threshold"), row, belief)

    @classmethod
    def of_run(cls, run: Run, threshold: float | None = None, *, prior: float | None = None) -> Population:
        """The judged rows of a run with its out-of-fold scores; confirmed positives are known.

        Without a threshold, the one that spends the review budget of the run is taken.
        """
        evaluation, score = run.evaluation, run.need_score()[run.evaluation.judged]
        soft_label = evaluation.judged_soft_label
        if threshold is None:
            threshold = _finite(roc_spu(soft_label, score).at_budget(evaluation.budget).threshold, score)
        return cls.of(
            score,
            soft_label,
            threshold=threshold,
            is_known=evaluation.judged_is_labeled,
            row=np.flatnonzero(evaluation.judged),
            prior=prior,
        )

    @property
    def size(self) -> int:
        return int(self.score.size)

    @cached_property
    def is_open(self) -> np.ndarray:
        """Rows whose class nobody knows yet."""
        return ~self.is_known

    @cached_property
    def is_flagged(self) -> np.ndarray:
        return self.score > self.threshold

    @cached_property
    def rank(self) -> np.ndarray:
        """How many rows each row outranks, ties half: with it the true AUC is linear in the true classes."""
        _, code, count = np.unique(self.score, return_inverse=True, return_counts=True)
        return (np.cumsum(count) - 0.5 * count)[code]

    def with_belief(self, belief: Any) -> Population:
        """The same rows with other expectations, such as those of an earlier audit."""
        given = check_soft_label(belief, "belief")
        check_score(given, self.size, "belief")
        return replace(self, belief=np.where(self.is_known, 1.0, given.clip(LEAST_BELIEF, 1.0 - LEAST_BELIEF)))

    def sample(self, most: int, seed: int = 0) -> Population:
        """At most `most` of the rows at random: enough to plan by, where there are millions."""
        if self.size <= most:
            return self
        rows = np.sort(np.random.default_rng(seed).choice(self.size, most, replace=False))
        parts = (self.score, self.soft_label, self.is_known)
        score, soft_label, known = (part[rows] for part in parts)
        return Population(score, soft_label, known, self.threshold, self.row[rows], self.belief[rows])


def _belief(score: np.ndarray, soft_label: np.ndarray, known: np.ndarray, prior: float | None) -> np.ndarray:
    edges = np.unique(np.quantile(score, np.linspace(0.0, 1.0, BANDS + 1)[1:-1]))
    band = np.searchsorted(edges, score, side="left")
    # Known rows have S = 1 because somebody looked; what is expected of the others must not learn from that.
    count = np.bincount(band, weights=~known, minlength=edges.size + 1)
    total = np.bincount(band, weights=soft_label * ~known, minlength=edges.size + 1)
    alike = np.divide(total, count, out=np.zeros_like(total), where=count > 0)[band]
    belief = (0.5 * soft_label + 0.5 * alike).clip(LEAST_BELIEF, 1.0 - LEAST_BELIEF)
    if prior is not None:
        belief = _moved_to(belief, known, check_share(prior, "prior"))
    return np.where(known, 1.0, belief)


def _moved_to(belief: np.ndarray, known: np.ndarray, prior: float) -> np.ndarray:
    """Beliefs shifted on the log-odds scale, all by the same number, until their mean is the prior."""
    wanted = prior * belief.size - known.sum()
    rest = logit(belief[~known])
    if not 0.0 < wanted < rest.size:
        raise AssumptionError(
            f"prior {prior:g} asks for {prior * belief.size:,.0f} positives, but {int(known.sum()):,} of "
            f"{belief.size:,} rows are known to be positive already."
        )
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if expit(rest + middle).sum() < wanted else (low, middle)
    return expit(logit(belief) + low).clip(1e-6, 1.0 - 1e-6)


def _finite(threshold: float, score: np.ndarray) -> float:
    """A threshold that can be written down: it flags nothing at the highest score, everything below the lowest."""
    return float(np.clip(threshold, np.nextafter(score.min(), -np.inf), score.max()))
