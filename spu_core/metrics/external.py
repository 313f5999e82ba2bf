"""AUC_SPU, with its confidence interval, of scores that arrive in parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spu_core.checks import check_sample_weight, check_score, check_soft_label
from spu_core.errors import SoftLabelError
from spu_core.metrics.auc import auc_spu_score
from spu_core.metrics.intervals import Interval, auc_spu_interval


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
