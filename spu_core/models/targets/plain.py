"""Targets that can be read off the rows: analyst's S, labels, S cut into two classes, truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spu_core.errors import TrainingError
from spu_core.models.composite import RuleScore, WithRuleScore, need_rule_score
from spu_core.models.evidence import Evidence
from spu_core.models.state import Model
from spu_core.models.trainer import Trainer

Options = Mapping[str, Any]


def soft_label(rows: Evidence, options: Options) -> np.ndarray:
    """The paper's method: E[S | X] by soft cross-entropy."""
    if np.ptp(rows.soft_label) == 0:
        raise TrainingError(
            f"The soft label is {rows.soft_label[0]:g} in every row, so there is only one class; "
            "add labelled positives or a rule that fires on some rows."
        )
    return rows.soft_label


def labeled(rows: Evidence, options: Options) -> np.ndarray:
    """1 for confirmed positives, 0 for the rest."""
    rows.need_labels("labeled_vs_rest")
    return rows.is_labeled.astype(np.float64)


def any_belief(rows: Evidence, options: Options) -> np.ndarray:
    """1 wherever the soft label is above 0."""
    return _two_classes(rows.soft_label > 0, "above 0")


def above_threshold(rows: Evidence, options: Options) -> np.ndarray:
    """1 wherever the soft label reaches the threshold."""
    return _two_classes(rows.soft_label >= options["threshold"], f"at least {options['threshold']:g}")


def truth(rows: Evidence, options: Options) -> np.ndarray:
    """The real class."""
    if rows.truth is None:
        raise TrainingError("The oracle learns from the truth: give a column the role TRUTH, or leave this method out.")
    if rows.truth.all() or not rows.truth.any():
        raise TrainingError("The truth is the same in every row, so the oracle has nothing to tell apart.")
    return rows.truth.astype(np.float64)


def with_rule_score_column(rows: Evidence, trainer: Trainer) -> Model:
    """Labelled against the rest, with the rule score (never S) as one more feature."""
    rows.need_labels("soft_as_feature")
    values = need_rule_score(rows.rule_score, len(rows))
    model = trainer.fit(
        rows.features.with_column("rule_score", values), rows.is_labeled.astype(np.float64), rows.weight
    )
    return WithRuleScore(model, rows.features.active)


def rule_score_itself(rows: Evidence, trainer: Trainer) -> Model:
    """Nothing is trained."""
    need_rule_score(rows.rule_score, len(rows))
    return RuleScore()


def _two_classes(positive: np.ndarray, law: str) -> np.ndarray:
    if positive.all() or not positive.any():
        share = "every row" if positive.all() else "no row"
        raise TrainingError(
            f"The soft label is {law} in {share}, so there are not two classes; choose a soft-label method."
        )
    return positive.astype(np.float64)
