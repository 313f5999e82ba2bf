"""Exact AUC_SPU, with its confidence interval, of more scores than fit into memory: an external sort.

Scores are written to a file as they arrive. To rank them, they are split into buckets of neighbouring scores that fit
into memory. Equal scores are in the same bucket, so no tie is split.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spu_core.checks import check_sample_weight, check_score, check_share, check_soft_label
from spu_core.errors import ScoreError, SoftLabelError
from spu_core.metrics.influence import Spread, small_sample_factor, spread_of_sums
from spu_core.metrics.intervals import Interval, few_units_warning

BUCKET_ROWS = 1 << 21
_BLOCK = 1 << 17
_SAMPLE = 1 << 16


@dataclass(eq=False)
class ExternalScores:
    """Rows of (soft label, score, weight) on disk. Call `add` for each part, then `auc` or `interval`.

    >>> with ExternalScores() as rows:
    ...     rows.add([1.0, 0.5], [0.9, 0.4])
    ...     rows.add([0.0], [0.1])
    ...     rows.auc()
    0.9444...
    """

    bucket_rows: int = BUCKET_ROWS
    rows: int = 0
    positive: float = 0.0
    negative: float = 0.0
    positive_squared: float = 0.0
    negative_squared: float = 0.0
    _folder: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="spu-scores-", ignore_cleanup_errors=True),
        repr=False,
    )

    def __enter__(self) -> ExternalScores:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def add(self, soft_label: Any, score: Any, *, sample_weight: Any = None) -> None:
        """Add these rows."""
        soft_label = check_soft_label(soft_label)
        score = check_score(score, soft_label.size)
        weight = np.ones(score.size) if sample_weight is None else check_sample_weight(sample_weight, score.size)
        with self._all.open("ab") as stream:
            stream.write(np.column_stack([score + 0.0, soft_label, weight]).tobytes())
        self.rows += score.size
        positive, negative = weight * soft_label, weight * (1.0 - soft_label)
        self.positive += float(positive.sum())
        self.negative += float(negative.sum())
        self.positive_squared += float((positive * positive).sum())
        self.negative_squared += float((negative * negative).sum())

    def auc(self) -> float:
        """The exact AUC_SPU of all rows."""
        return self._moments().area

    def interval(self, level: float = 0.95) -> Interval:
        """AUC_SPU with a confidence interval; the same as that of `auc_spu_interval`."""
        level = check_share(level, "level", ScoreError)
        found, numbers = self._moments(), self._effective_numbers()
        spread = found.spread(min(numbers))
        return Interval.on_logit(
            found.area,
            spread.standard_error,
            level,
            degrees=spread.degrees,
            rows=min(numbers),
            warning=few_units_warning(*numbers),
        )

    def _effective_numbers(self) -> tuple[float, float]:
        return self.positive**2 / self.positive_squared, self.negative**2 / self.negative_squared

    @property
    def _all(self) -> Path:
        return Path(self._folder.name) / "rows"

    def _moments(self) -> _Moments:
        if not (self.positive > 0.0 and self.negative > 0.0):
            raise SoftLabelError(
                "The soft labels of all rows so far are 0, or all are 1; AUC_SPU needs positives and negatives."
            )
        positives, negatives = self._effective_numbers()
        moments = _Moments(self.positive, self.negative, small_sample_factor(positives), small_sample_factor(negatives))
        for bucket in self._buckets():
            moments.add(bucket[np.argsort(bucket[:, 0], kind="stable")])
        return moments

    def _buckets(self) -> Iterator[np.ndarray]:
        """Rows in parts of increasing scores, each small enough to be sorted in memory."""
        if self.rows <= self.bucket_rows:
            yield np.fromfile(self._all).reshape(-1, 3)
            return
        edges = self._edges()
        paths = [Path(self._folder.name) / f"bucket-{number}" for number in range(edges.size + 1)]
        for block in self._blocks():
            place = np.searchsorted(edges, block[:, 0], side="right")
            for number in np.unique(place):
                with paths[number].open("ab") as stream:
                    stream.write(block[place == number].tobytes())
        for path in paths:
            if path.exists():
                bucket = np.fromfile(path).reshape(-1, 3)
                path.unlink()
                yield bucket

    def _blocks(self) -> Iterator[np.ndarray]:
        with self._all.open("rb") as stream:
            while (block := np.fromfile(stream, count=3 * _BLOCK)).size:
                yield block.reshape(-1, 3)

    def _edges(self) -> np.ndarray:
        """Scores that split the rows into buckets of about equal size, from a sample. A large tie is never split."""
        step = max(1, self.rows // _SAMPLE)
        sample = np.sort(np.concatenate([block[::step, 0] for block in self._blocks()]))
        count = 2 * self.rows // self.bucket_rows + 1
        return np.unique(sample[np.linspace(0, sample.size - 1, count + 1).astype(np.int64)[1:-1]])


@dataclass(eq=False)
class _Moments:
    """Sums over sorted rows, from which AUC_SPU and its standard error follow.

    The influence of a row on AUC_SPU is α − A'β, where A' = A − ½ is known only at the end. So sums of products of α
    and β are kept.
    """

    positive: float
    negative: float
    positive_factor: float
    negative_factor: float
    below_positive: float = 0.0
    below_negative: float = 0.0
    area: float = 0.0
    second: np.ndarray = field(default_factory=lambda: np.zeros(3))  # Σ α^(2−k) β^k
    fourth: np.ndarray = field(default_factory=lambda: np.zeros(5))  # Σ α^(4−k) β^k

    def spread(self, number: float) -> Spread:
        """Standard error and degrees of freedom of the area, by the binomial theorem."""
        shift = 0.5 - self.area
        second = self.second @ (np.array([1.0, 2.0, 1.0]) * shift ** np.arange(3))
        fourth = self.fourth @ (np.array([1.0, 4.0, 6.0, 4.0, 1.0]) * shift ** np.arange(5))
        return spread_of_sums(float(second.clip(0.0)), float(fourth), number)

    def add(self, rows: np.ndarray) -> None:
        """Add the next rows, in order of score. Their scores must not occur in later calls."""
        score, soft_label, weight = rows.T
        p, n = weight * soft_label / self.positive, weight * (1.0 - soft_label) / self.negative
        new_score = np.append(True, np.diff(score) > 0.0)
        start, number = np.flatnonzero(new_score), np.cumsum(new_score) - 1
        positive, negative = np.add.reduceat(p, start), np.add.reduceat(n, start)
        beaten = self.below_negative + np.cumsum(negative) - 0.5 * negative
        beating = 1.0 - (self.below_positive + np.cumsum(positive) - 0.5 * positive)
        self.area += float((positive * beaten).sum())
        self.below_positive += float(positive.sum())
        self.below_negative += float(negative.sum())
        p *= self.positive_factor
        n *= self.negative_factor
        alpha, beta = p * (beaten - 0.5)[number] + n * (beating - 0.5)[number], p + n
        squares = alpha * alpha, alpha * beta, beta * beta
        self.second += [product.sum() for product in squares]
        self.fourth += [(squares[i] * squares[j]).sum() for i, j in ((0, 0), (0, 1), (1, 1), (1, 2), (2, 2))]
