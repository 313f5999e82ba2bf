"""One seed of a UCI trial: who trains, who gets a label, what the rules believe, and how a method then does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.experiments.uci_trials import Trial
from spu_core.labels import SoftLabels, assign_soft_labels
from spu_core.metrics import auc_spu_score
from spu_core.models import METHODS, SoftLabelClassifier
from spu_core.tables import Table

CHANCE = "labeling_chance"
LARGEST_CHANCE = 0.5


@dataclass(frozen=True, eq=False)
class Draw:
    """A trial after the dice: `chance` is u, drawn for test rows as well; labels of test rows are never used."""

    trial: Trial
    train: np.ndarray
    chance: np.ndarray
    soft_labels: SoftLabels
    grouped: bool = False

    @property
    def groups(self) -> np.ndarray | None:
        """Groups of the training rows, for inner folds, where the split keeps groups together."""
        groups = self.trial.groups
        return groups[self.train] if self.grouped and groups is not None else None

    @property
    def test(self) -> np.ndarray:
        return ~self.train


@dataclass(frozen=True, eq=False)
class Scored:
    """A fitted method with the view of the table it was given."""

    draw: Draw
    model: SoftLabelClassifier
    frame: pd.DataFrame

    def score(self, frame: pd.DataFrame | None = None) -> np.ndarray:
        """Scores of the test rows; `frame` replaces what the model sees of them."""
        test = self.draw.test
        seen = self.frame[test] if frame is None else frame
        return self.model.predict_proba(seen, rule_score=self.draw.soft_labels.rule_score[test])[:, 1]

    def auc(self, frame: pd.DataFrame | None = None) -> float:
        """True AUC on the test rows: AUC_SPU with the truth as soft label."""
        truth = self.draw.trial.truth[self.draw.test].astype(np.float64)
        return auc_spu_score(truth, self.score(frame))


def draw_trial(trial: Trial, seed: int, *, grouped: bool = False) -> Draw:
    """Split at random (whole groups where `grouped`), draw u ~ U[0, ½] for every row, and label by it."""
    rng = np.random.default_rng([1, seed])
    train = _split(trial, rng, grouped)
    chance = rng.uniform(0.0, LARGEST_CHANCE, train.size)
    is_labeled = trial.truth & (rng.random(train.size) < chance)
    return replace(draw_with_labels(trial, train, is_labeled, chance), grouped=grouped)


def draw_with_labels(trial: Trial, train: np.ndarray, is_labeled: np.ndarray, chance: np.ndarray) -> Draw:
    """The same with labels that are given; ramps of rules learn their quantiles from the training rows."""
    seen = trial.frame[list(rule_columns(trial))]
    table = Table.from_frame(seen[train].assign(labeled=is_labeled[train].astype(int)), roles={"labeled": "label"})
    fitted = trial.rules.fit(table)
    soft_labels = assign_soft_labels(fitted.apply(seen), is_labeled, trial.rules.combine)
    return Draw(trial, train, chance, soft_labels)


def rule_columns(trial: Trial) -> tuple[str, ...]:
    """The columns that the rules read."""
    return tuple(dict.fromkeys(column for rule in trial.rules for column in rule.columns))


def fit_method(
    draw: Draw, method: str, settings: Mapping[str, Any] | None = None, *, chance_in_x: bool = False
) -> Scored:
    """Train one method of the registry on the training rows; rule columns are kept or dropped as the method does."""
    given, train = dict(settings or {}), draw.train
    frame = draw.trial.frame.assign(**{CHANCE: draw.chance}) if chance_in_x else draw.trial.frame
    labels = draw.soft_labels
    model = SoftLabelClassifier(method, **given).fit(
        frame[train],
        labels.value[train],
        is_labeled=labels.is_labeled[train],
        rule_score=labels.rule_score[train],
        truth=draw.trial.truth[train],
        groups=draw.groups,
        rule_columns=rule_columns(draw.trial),
    )
    return Scored(draw, model, frame)


def known_settings(method: str, learner: str | None, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the wanted settings that the method has with this learner, and the learner itself."""
    names = {setting.name for setting in METHODS[method].settings(learner)}
    chosen = {"learner": learner} if learner is not None and "learner" in names else {}
    return {**chosen, **{name: value for name, value in wanted.items() if name in names}}


def _split(trial: Trial, rng: np.random.Generator, grouped: bool) -> np.ndarray:
    if not grouped or trial.groups is None:
        train = np.zeros(len(trial.frame), dtype=bool)
        train[rng.permutation(train.size)[: round(trial.train_share * train.size)]] = True
        return train
    codes, names = pd.factorize(trial.groups)
    picked = rng.permutation(len(names))[: round(trial.train_share * len(names))]
    return np.isin(codes, picked)
