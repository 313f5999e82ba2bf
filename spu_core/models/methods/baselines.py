"""Baselines whose target can be read off the rows: labels, S cut into two classes, the rules alone, the truth."""

from __future__ import annotations

import numpy as np

from spu_core.errors import TrainingError
from spu_core.models.fit_inputs import TrainingRows
from spu_core.models.method import TREES_FIRST, LearnerFitter, Method, Need, Options
from spu_core.models.model import Model, RuleScoreModel, WithRuleScoreModel, need_rule_score
from spu_core.models.settings import Setting


def labeled(rows: TrainingRows, options: Options) -> np.ndarray:
    """1 for confirmed positives, 0 for the rest."""
    rows.need_labels("labeled_vs_rest")
    return rows.is_labeled.astype(np.float64)


def any_belief(rows: TrainingRows, options: Options) -> np.ndarray:
    """1 wherever the soft label is above 0."""
    return _two_classes(rows.soft_label > 0, "above 0")


def above_threshold(rows: TrainingRows, options: Options) -> np.ndarray:
    """1 wherever the soft label reaches the threshold."""
    return _two_classes(rows.soft_label >= options["threshold"], f"at least {options['threshold']:g}")


def truth(rows: TrainingRows, options: Options) -> np.ndarray:
    """The real class."""
    if rows.truth is None:
        raise TrainingError("The oracle learns from the truth: give a column the role TRUTH, or leave this method out.")
    if rows.truth.all() or not rows.truth.any():
        raise TrainingError("The truth is the same in every row, so the oracle has nothing to learn.")
    return rows.truth.astype(np.float64)


def with_rule_score_column(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """Labelled against the rest, with the rule score (never S) as one more feature."""
    rows.need_labels("soft_as_feature")
    values = need_rule_score(rows.rule_score, len(rows))
    model = fitter.fit(rows.features.with_column("rule_score", values), rows.is_labeled.astype(np.float64), rows.weight)
    return WithRuleScoreModel(model, rows.features.active)


def rule_score_itself(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """The rule score as the score; nothing is trained."""
    need_rule_score(rows.rule_score, len(rows))
    return RuleScoreModel()


def _two_classes(positive: np.ndarray, law: str) -> np.ndarray:
    if positive.all() or not positive.any():
        share = "every row" if positive.all() else "no row"
        raise TrainingError(
            f"The soft label is {law} in {share}, so there are not two classes; choose a soft-label method."
        )
    return positive.astype(np.float64)


BASELINES = (
    Method(
        key="labeled_vs_rest",
        title="Labelled against the rest",
        group="baseline",
        words="Takes every unlabelled row for a negative (the paper's baseline BL0).",
        needs=(Need.LABELS,),
        keeps_rule_columns=True,
        learners=(*TREES_FIRST, "cnn"),
        target=labeled,
    ),
    Method(
        key="soft_as_positive",
        title="Soft label as positive",
        group="baseline",
        words="Takes every row with a soft label above 0 for a positive (the paper's baseline BL1).",
        needs=(Need.SOFT_LABELS,),
        keeps_rule_columns=True,
        learners=(*TREES_FIRST, "cnn"),
        target=any_belief,
    ),
    Method(
        key="soft_as_feature",
        title="Rule score as a feature",
        group="baseline",
        words="Labelled against the rest, with the rule score as one more column (never S: it would leak the label).",
        needs=(Need.LABELS, Need.RULE_SCORE),
        keeps_rule_columns=True,
        learners=TREES_FIRST,
        source=with_rule_score_column,
        scores_with_rules=True,
    ),
    Method(
        key="soft_threshold",
        title="Threshold on the soft label",
        group="baseline",
        words="Takes rows whose soft label reaches a threshold for positives, the others for negatives.",
        needs=(Need.SOFT_LABELS,),
        keeps_rule_columns=False,
        learners=(*TREES_FIRST, "cnn"),
        target=above_threshold,
        own_settings=(
            Setting(
                name="threshold",
                default=0.5,
                low=0.0,
                high=1.0,
                tunable=True,
                help="From this soft label on, a row is positive.",
            ),
        ),
    ),
)

REFERENCES = (
    Method(
        key="rule_score",
        title="The rules alone",
        group="baseline",
        words="No model: the combined rule score itself, before labels override it.",
        needs=(Need.RULE_SCORE,),
        keeps_rule_columns=True,
        source=rule_score_itself,
        scores_with_rules=True,
    ),
    Method(
        key="oracle",
        title="Oracle",
        group="baseline",
        words="Learns from the truth where it is known: what could be reached, never a model to use.",
        needs=(Need.TRUTH,),
        keeps_rule_columns=True,
        learners=(*TREES_FIRST, "cnn"),
        target=truth,
    ),
)
