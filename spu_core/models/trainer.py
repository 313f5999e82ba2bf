"""The learner of a method, ready to be fitted as often as the method wants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.models.evidence import Evidence, inner_folds
from spu_core.models.features import Features
from spu_core.models.learners import LEARNERS, SoftLearner
from spu_core.models.watch import Watch


@dataclass(frozen=True, eq=False)
class Trainer:
    """Makes fresh learners with the candidate's settings; `options` are the settings of the method itself."""

    learner: str
    settings: Mapping[str, Any]
    options: Mapping[str, Any]
    watch: Watch

    @property
    def seed(self) -> int:
        return int(self.options["seed"])

    def fit(
        self,
        features: Features,
        target: np.ndarray,
        weight: np.ndarray | None = None,
        *,
        stage: int = 1,
        of: int = 1,
    ) -> SoftLearner:
        """A new learner fitted as step `stage` of `of`; the seed moves with the stage, so that bags differ."""
        settings = dict(self.settings)
        if "seed" in settings:
            settings["seed"] = self.seed + stage - 1
        return LEARNERS[self.learner](**settings).fit_rows(features, target, weight, self.watch.at(stage, of))

    def out_of_fold(self, rows: Evidence, target: np.ndarray, *, folds: int, of: int) -> np.ndarray:
        """Scores of each row by a learner that has not seen it; stages 1 … folds of `of`."""
        score = np.empty(len(rows))
        for stage, inside, outside in splits(rows, folds, self.seed):
            weight = None if rows.weight is None else rows.weight[inside]
            model = self.fit(rows.features.take(inside), target[inside], weight, stage=stage, of=of)
            score[outside] = model.score_rows(rows.features.take(outside))
        return score


def splits(rows: Evidence, folds: int, seed: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(number from 1, rows to learn from, rows to score) of each inner fold."""
    fold = inner_folds(rows.is_labeled, rows.groups, folds, seed)
    for number in range(int(fold.max()) + 1):
        yield number + 1, fold != number, fold == number
