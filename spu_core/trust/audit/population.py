"""The rows of an audit: with scores and soft labels; some are confirmed, the others can be drawn."""

from __future__ import annotations

from dataclasses import dataclass
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
    """All rows of an audit. Every estimate is for exactly these rows, not for future rows.

    Known positives are never drawn, but count in every estimate. `belief` is the probability of being positive that the
    plan assumes: the mean of the row's soft label and the mean soft label of rows with similar scores.
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
        """Check the arrays and compute the beliefs. With a `prior`, beliefs are shifted so that their mean equals it.

        >>> rows = Population.of([0.9, 0.4, 0.1], [1, 0.5, 0], threshold=0.5, is_known=[True, False, False])
        >>> rows.size, rows.is_flagged.tolist(), int(rows.is_open.sum())
        (3, [True, False, False], 2)
        """
        soft_label = check_soft_label(soft_label)
        score = check_score(score, soft_label.size)
        count = soft_label.size
        known = np.zeros(count, bool) if is_known is None else check_flags(is_known, count, "is_known")
        if known.all():
            raise AssumptionError("Every row is a confirmed positive, so an audit is not needed.")
        row = np.arange(count) if row is None else np.asarray(row)
        belief = _belief(score, soft_label, known, prior)
        return cls(score, soft_label, known, check_number(threshold, "threshold"), row, belief)

    @classmethod
    def of_run(cls, run: Run, threshold: float | None = None, *, prior: float | None = None) -> Population:
        """The evaluated rows of a run with its out-of-fold scores; confirmed positives are known.

        Default threshold: the one that uses the review budget of the run.
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
        """Rows whose class is unknown."""
        return ~self.is_known

    @cached_property
    def is_flagged(self) -> np.ndarray:
        return self.score > self.threshold

    @cached_property
    def rank(self) -> np.ndarray:
        """Number of rows that each row outranks; ties count half. Σ rank·y gives the true AUC."""
        _, code, count = np.unique(self.score, return_inverse=True, return_counts=True)
        return (np.cumsum(count) - 0.5 * count)[code]

    def sample(self, most: int, seed: int = 0) -> Population:
        """A random sample of at most `most` rows, which is enough for a plan."""
        if self.size <= most:
            return self
        return self.only(np.sort(np.random.default_rng(seed).choice(self.size, most, replace=False)))

    def only(self, rows: np.ndarray) -> Population:
        """A part of the rows, by position or flag."""
        score, soft_label, known = self.score[rows], self.soft_label[rows], self.is_known[rows]
        return Population(score, soft_label, known, self.threshold, self.row[rows], self.belief[rows])


def _belief(score: np.ndarray, soft_label: np.ndarray, known: np.ndarray, prior: float | None) -> np.ndarray:
    edges = np.unique(np.quantile(score, np.linspace(0.0, 1.0, BANDS + 1)[1:-1]))
    band = np.searchsorted(edges, score, side="left")
    # Known rows have S = 1 because they were checked, so they must not influence the beliefs of the others.
    count = np.bincount(band, weights=~known, minlength=edges.size + 1)
    total = np.bincount(band, weights=soft_label * ~known, minlength=edges.size + 1)
    alike = np.divide(total, count, out=np.zeros_like(total), where=count > 0)[band]
    belief = (0.5 * soft_label + 0.5 * alike).clip(LEAST_BELIEF, 1.0 - LEAST_BELIEF)
    if prior is not None:
        belief = _moved_to(belief, known, check_share(prior, "prior"))
    return np.where(known, 1.0, belief)


def _moved_to(belief: np.ndarray, known: np.ndarray, prior: float) -> np.ndarray:
    """Beliefs shifted by one number on the log-odds scale, so that their mean is the prior."""
    wanted = prior * belief.size - known.sum()
    rest = logit(belief[~known])
    if not 0.0 < wanted < rest.size:
        raise AssumptionError(
            f"prior {prior:g} means {prior * belief.size:,.0f} positives, but {int(known.sum()):,} of "
            f"{belief.size:,} rows are known positives; choose another prior."
        )
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if expit(rest + middle).sum() < wanted else (low, middle)
    return expit(logit(belief) + low).clip(1e-6, 1.0 - 1e-6)


def _finite(threshold: float, score: np.ndarray) -> float:
    """A finite threshold that flags the same rows: the highest score, or a number just below the lowest."""
    return float(np.clip(threshold, np.nextafter(score.min(), -np.inf), score.max()))
