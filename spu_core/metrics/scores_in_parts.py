"""AUC_SPU of scores that arrive in parts: exact, with all rows in memory, or from histograms that can be merged.

Bins are spaced evenly on the logit scale, since many scores are near 0 or 1. Rows of one bin are treated as tied. The
bound is the largest change that the unknown order inside the bins could make.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import expit

from spu_core.checks import check_sample_weight, check_score, check_share, check_soft_label
from spu_core.errors import ScoreError, SoftLabelError
from spu_core.metrics.auc import auc_spu_score
from spu_core.metrics.influence import small_sample_factor
from spu_core.metrics.intervals import Interval, auc_spu_interval, few_units_warning


@dataclass(eq=False)
class ExternalScores:
    """Rows of (soft label, score, weight), 24 bytes each. Call `add` for each part, then `auc` or `interval`.

    `ScoreHistogram` takes no memory for a row; it gives the same figures with a bound on their error.

    >>> with ExternalScores() as rows:
    ...     rows.add([1.0, 0.5], [0.9, 0.4])
    ...     rows.add([0.0], [0.1])
    ...     rows.auc()
    0.9444...
    """

    _parts: list[np.ndarray] = field(default_factory=list, repr=False)

    def __enter__(self) -> ExternalScores:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.clear()

    @property
    def rows(self) -> int:
        return sum(part.shape[1] for part in self._parts)

    def add(self, soft_label: Any, score: Any, *, sample_weight: Any = None) -> None:
        """Add these rows."""
        soft_label = check_soft_label(soft_label)
        score = check_score(score, soft_label.size)
        weight = np.ones(score.size) if sample_weight is None else check_sample_weight(sample_weight, score.size)
        self._parts.append(np.stack([soft_label, score, weight]))

    def auc(self) -> float:
        """The exact AUC_SPU of all rows."""
        soft_label, score, weight = self._all()
        return auc_spu_score(soft_label, score, sample_weight=weight)

    def interval(self, level: float = 0.95) -> Interval:
        """AUC_SPU with a confidence interval; the same as that of `auc_spu_interval`."""
        soft_label, score, weight = self._all()
        return auc_spu_interval(soft_label, score, sample_weight=weight, level=level)

    def _all(self) -> np.ndarray:
        if not self._parts:
            raise SoftLabelError("There are no rows yet; add some before you ask for AUC_SPU.")
        return np.concatenate(self._parts, axis=1)


LOGIT_REACH = 20.0


@dataclass(frozen=True, slots=True)
class BoundedAuc:
    """AUC_SPU of binned scores; the exact value lies within `error_bound` of it."""

    value: float
    error_bound: float

    @property
    def low(self) -> float:
        return max(0.0, self.value - self.error_bound)

    @property
    def high(self) -> float:
        return min(1.0, self.value + self.error_bound)


@dataclass(frozen=True, slots=True)
class ScoreHistogram:
    """Counts of rows and soft labels per bin of the score, for streams and clusters.

    Make an empty one with `logit()`, `covering(sample)` or `with_edges(edges)`; `add` rows to it; merge two with `+`.

    Parameters
    ----------
    edges : ndarray
        Increasing edges of the bins.
    rows : ndarray
        Number of rows in each bin.
    positive, negative : ndarray
        Σ w s and Σ w (1−s) of each bin.
    positive_squared, mixed, negative_squared : ndarray
        Σ (w s)², Σ w² s (1−s) and Σ (w (1−s))² of each bin, for intervals.
    lowest, highest : ndarray
        Smallest and largest score in each bin.

    Examples
    --------
    >>> first = ScoreHistogram.logit().add([1.0, 0.5], [0.9, 0.4])
    >>> both = first + ScoreHistogram.logit().add([0.0], [0.1])
    >>> both.auc()
    BoundedAuc(value=0.9444..., error_bound=0.0)
    """

    edges: np.ndarray
    rows: np.ndarray
    positive: np.ndarray  # Σ w s
    negative: np.ndarray  # Σ w (1−s)
    positive_squared: np.ndarray  # Σ (w s)²
    mixed: np.ndarray  # Σ w² s (1−s)
    negative_squared: np.ndarray  # Σ (w (1−s))²
    lowest: np.ndarray
    highest: np.ndarray

    @classmethod
    def logit(cls, bins: int = 8192) -> ScoreHistogram:
        """An empty histogram for scores in [0, 1]."""
        if bins < 2:
            raise ScoreError(f"bins must be at least 2, got {bins}.")
        return cls.with_edges(expit(np.linspace(-LOGIT_REACH, LOGIT_REACH, bins - 1)))

    @classmethod
    def covering(cls, sample: Any, bins: int = 8192) -> ScoreHistogram:
        """An empty histogram for any scores; its edges are quantiles of a sample of scores."""
        return cls.with_edges(np.unique(np.quantile(check_score(sample, None, "sample"), np.linspace(0, 1, bins - 1))))

    @classmethod
    def with_edges(cls, edges: Any) -> ScoreHistogram:
        """An empty histogram with bins below, between and above the given increasing edges."""
        edges = check_score(edges, None, "edges")
        if (np.diff(edges) <= 0.0).any():
            raise ScoreError("edges must increase strictly.")
        empty = np.zeros(edges.size + 1)
        nothing_low, nothing_high = np.full(empty.size, np.inf), np.full(empty.size, -np.inf)
        return cls(edges, empty, empty, empty, empty, empty, empty, nothing_low, nothing_high)

    def add(self, soft_label: Any, score: Any, *, sample_weight: Any = None) -> ScoreHistogram:
        """A histogram that also counts these rows."""
        soft_label = check_soft_label(soft_label)
        score = check_score(score, soft_label.size)
        weight = np.ones(1) if sample_weight is None else check_sample_weight(sample_weight, soft_label.size)
        positive, negative = weight * soft_label, weight * (1.0 - soft_label)
        place = np.searchsorted(self.edges, score, side="right")
        lowest, highest = self.lowest.copy(), self.highest.copy()
        np.minimum.at(lowest, place, score)
        np.maximum.at(highest, place, score)

        def summed(values: np.ndarray | None) -> np.ndarray:
            return np.bincount(place, weights=values, minlength=self.rows.size)

        return replace(
            self,
            rows=self.rows + summed(None),
            positive=self.positive + summed(positive),
            negative=self.negative + summed(negative),
            positive_squared=self.positive_squared + summed(positive * positive),
            mixed=self.mixed + summed(positive * negative),
            negative_squared=self.negative_squared + summed(negative * negative),
            lowest=lowest,
            highest=highest,
        )

    def __add__(self, other: ScoreHistogram) -> ScoreHistogram:
        if not np.array_equal(self.edges, other.edges):
            raise ScoreError("Histograms with different edges cannot be merged; create both with the same edges.")
        return ScoreHistogram(
            self.edges,
            self.rows + other.rows,
            self.positive + other.positive,
            self.negative + other.negative,
            self.positive_squared + other.positive_squared,
            self.mixed + other.mixed,
            self.negative_squared + other.negative_squared,
            np.minimum(self.lowest, other.lowest),
            np.maximum(self.highest, other.highest),
        )

    def auc(self) -> BoundedAuc:
        """AUC_SPU with rows of one bin treated as tied, and the largest error that this can cause."""
        self._check_countable()
        beaten, _ = self._beaten_and_beating()
        value = float(self.positive @ beaten / self.positive.sum())
        several_scores = self.highest > self.lowest
        # Pairs of different rows inside one bin: each counts ½ here and could count 0 or 1.
        pairs = (self.positive * self.negative - self.mixed)[several_scores].clip(0.0)
        return BoundedAuc(value, float(0.5 * pairs.sum() / (self.positive.sum() * self.negative.sum())))

    def interval(self, level: float = 0.95) -> Interval:
        """Confidence interval of AUC_SPU, widened on both sides by the error bound."""
        level = check_share(level, "level", ScoreError)
        bounded = self.auc()
        beaten, beating = self._beaten_and_beating()
        positives, negatives = self.positive.sum(), self.negative.sum()
        numbers = positives**2 / self.positive_squared.sum(), negatives**2 / self.negative_squared.sum()
        of_positive = small_sample_factor(numbers[0]) * (beaten - bounded.value) / positives
        of_negative = small_sample_factor(numbers[1]) * (beating - bounded.value) / negatives
        squares = (
            self.positive_squared * of_positive**2
            + 2.0 * self.mixed * of_positive * of_negative
            + self.negative_squared * of_negative**2
        )
        # `auc_spu_interval` computes degrees of freedom from fourth powers, which the histogram does not store.
        found = Interval.symmetric(
            bounded.value,
            float(np.sqrt(squares.sum())),
            level,
            degrees=min(numbers) - 1.0,
            warning=few_units_warning(*numbers),
        )
        widened = max(0.0, found.low - bounded.error_bound), min(1.0, found.high + bounded.error_bound)
        return replace(found, low=widened[0], high=widened[1])

    def _beaten_and_beating(self) -> tuple[np.ndarray, np.ndarray]:
        beaten = (np.cumsum(self.negative) - 0.5 * self.negative) / self.negative.sum()
        beating = 1.0 - (np.cumsum(self.positive) - 0.5 * self.positive) / self.positive.sum()
        return beaten, beating

    def _check_countable(self) -> None:
        if not (self.positive.any() and self.negative.any()):
            raise SoftLabelError(
                "The soft labels of all rows so far are 0, or all are 1; AUC_SPU needs positives and negatives."
            )
