"""Methods that learn from labels, not from rules: baselines and the literature on positive and unlabelled rows.

- Baselines: labelled rows against the rest, S cut into two classes, the rules alone, the truth.
- Elkan and Noto: labels are a random share c of the positives, so P(positive | x) = P(labelled | x) / c.
- Bagging (Mordelet and Vert): labelled rows against many random parts of the unlabelled rows, averaged.
- nnPU (Kiryo and others; Su and others for rare positives): a network under a risk that needs the class prior, gives
  both classes the same weight, and cannot fall below zero.
- SAR-EM (Bekker, Robberechts and Davis): labels depend on known columns; class and labelling propensity are learnt in
  turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.special import expit

from spu_core.errors import TrainingError, nearest_hint
from spu_core.models.learners.classic import fit_logistic
from spu_core.models.method import FOLDS, TREES_FIRST, LearnerFitter, Method, Need, Options
from spu_core.models.model import (
    AverageModel,
    Model,
    RuleScoreModel,
    ScaledModel,
    TrainingRows,
    WithRuleScoreModel,
    need_rule_score,
)
from spu_core.models.settings import Setting
from spu_core.theory import estimate_prior

BAGS = Setting(name="bags", default=20, low=1, high=500, help="Bags to average.")
BAG_RATIO = Setting(
    name="bag_ratio",
    default=1.0,
    low=0.1,
    high=100.0,
    log=True,
    tunable=True,
    help="Unlabelled rows per labelled one in a bag; a bag has at least 20.",
)
SMALL_BAGS = (("rounds", 60), ("num_leaves", 8))
# Boosted trees keep at least 3 rows in a leaf: a bag of 2 labelled and 2 other rows could not be split at all.
FEWEST_IN_BAG = 20


def scaled_by_label_frequency(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """min(1, g/c): g from all rows, c the mean of g over labelled rows that were held out."""
    folds = fitter.options["folds"]
    target = rows.is_labeled.astype(np.float64)
    held_out = fitter.out_of_fold(rows, target, folds=folds, of=folds + 1)
    model = fitter.fit(rows.features, target, rows.weight, stage=folds + 1, of=folds + 1)
    return ScaledModel(model, label_frequency(rows, held_out))


def weighted_by_hidden_positives(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """Soft cross-entropy on S := 1 for labelled rows, the chance of a hidden positive for the others."""
    folds = fitter.options["folds"]
    held_out = fitter.out_of_fold(rows, rows.is_labeled.astype(np.float64), folds=folds, of=folds + 1)
    target = hidden_positive(rows.is_labeled, held_out, label_frequency(rows, held_out))
    return fitter.fit(rows.features, target, rows.weight, stage=folds + 1, of=folds + 1)


def label_frequency(rows: TrainingRows, held_out: np.ndarray) -> float:
    """c = P(labelled | positive): the mean held-out score of the labelled rows."""
    if int(rows.is_labeled.sum()) < 2:
        raise TrainingError(
            "Elkan–Noto's c is measured on held-out labelled rows, so at least 2 labelled rows are needed, got 1."
        )
    weight = None if rows.weight is None else rows.weight[rows.is_labeled]
    return float(np.clip(np.average(held_out[rows.is_labeled], weights=weight), 1e-6, 1.0))


def hidden_positive(is_labeled: np.ndarray, g: np.ndarray, c: float) -> np.ndarray:
    """1 for labelled rows, else w = (1−c)/c · g/(1−g), kept in [0, 1].

    >>> hidden_positive(np.array([True, False, False]), np.array([0.9, 0.2, 0.9]), 0.5).tolist()
    [1.0, 0.25, 1.0]
    """
    odds = g / np.maximum(1.0 - g, 1e-12)
    return np.where(is_labeled, 1.0, np.minimum(1.0, (1.0 - c) / c * odds))


def bagging_pu(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """The labelled rows against a bootstrap of the unlabelled ones, many times."""
    return average_of_bags(rows, rows.is_labeled.astype(np.float64), fitter)


def average_of_bags(rows: TrainingRows, target: np.ndarray, fitter: LearnerFitter) -> Model:
    """Learn the target in each bag, and average the models."""
    bags, parts = fitter.options["bags"], []
    for stage, times in enumerate(bag_counts(rows, fitter), start=1):
        inside = times > 0
        weight = times[inside] * (1.0 if rows.weight is None else rows.weight[inside])
        parts.append(fitter.fit(rows.features.take(inside), target[inside], weight, stage=stage, of=bags))
    return AverageModel(tuple(parts))


def bag_counts(rows: TrainingRows, fitter: LearnerFitter) -> Iterator[np.ndarray]:
    """How often each row is in each bag: labelled rows once, unlabelled ones as a bootstrap draws them.

    A bag has `bag_ratio` unlabelled rows per labelled one, but at least 20 (or all that there are).
    """
    labeled, unlabeled = np.flatnonzero(rows.is_labeled), np.flatnonzero(~rows.is_labeled)
    wanted = round(fitter.options["bag_ratio"] * labeled.size)
    size = int(np.clip(max(wanted, FEWEST_IN_BAG), 1, unlabeled.size))
    rng = np.random.default_rng(fitter.seed)
    for _ in range(fitter.options["bags"]):
        times = rows.is_labeled.astype(np.float64)
        # A row drawn twice counts twice by weight; rows are never copied.
        times += np.bincount(rng.choice(unlabeled, size), minlength=len(rows))
        yield times


def nnpu(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """The label under the non-negative risk; a prior that is not given is estimated from held-out scores (BBE)."""
    prior, share = fitter.options["prior"], rows.labeled_share
    if prior is None:
        prior = estimated_prior(rows, fitter)
    if prior <= share:
        raise TrainingError(
            f"The prior {prior:g} is the share of positives among all rows, but {share:g} of the rows are labelled "
            "already; give a prior above that share."
        )
    with_prior = replace(fitter, settings={**fitter.settings, "prior": float(prior)})
    return with_prior.fit(rows.features, rows.is_labeled.astype(np.float64), rows.weight, stage=1, of=1)


def estimated_prior(rows: TrainingRows, fitter: LearnerFitter) -> float:
    """BBE on out-of-fold scores of labelled against the rest, by logistic regression."""
    linear = replace(fitter, learner="logistic", settings={"ridge": 1.0, "max_iterations": 200})
    score = linear.out_of_fold(rows, rows.is_labeled.astype(np.float64), folds=4, of=5)
    return float(np.clip(estimate_prior(rows.is_labeled, score, replicates=2).prior, 1e-6, 1 - 1e-6))


def sar_em(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """In turns: the belief that an unlabelled row is positive, a class model of that belief, and the propensity."""
    columns = _propensity_matrix(rows, fitter.options["propensity_columns"])
    steps = fitter.options["em_steps"]
    folds = 3
    total = folds + steps
    labels = rows.is_labeled.astype(np.float64)
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    held_out = fitter.out_of_fold(rows, labels, folds=folds, of=total)
    belief = hidden_positive(rows.is_labeled, held_out, label_frequency(rows, held_out))
    for step in range(1, steps + 1):
        model = fitter.fit(rows.features, belief, rows.weight, stage=folds + step, of=total)
        coef, intercept = fit_logistic(columns, labels, weight * np.maximum(belief, 1e-9), 1.0, 100)
        propensity = expit(columns @ coef + intercept)
        if step < steps:
            belief = e_step(rows.is_labeled, model.score_rows(rows.features), propensity)
    return model


def e_step(is_labeled: np.ndarray, score: np.ndarray, propensity: np.ndarray) -> np.ndarray:
    """P(positive | x, not labelled) = f(1−e) / (1 − f e); 1 for labelled rows.

    >>> e_step(np.array([True, False]), np.array([0.3, 0.5]), np.array([0.5, 0.5])).round(3).tolist()
    [1.0, 0.333]
    """
    return np.where(is_labeled, 1.0, score * (1.0 - propensity) / np.maximum(1.0 - score * propensity, 1e-12))


def _propensity_matrix(rows: TrainingRows, names: tuple[str, ...]) -> np.ndarray:
    """The linear form of the columns that decide who gets a label; all columns when none is named."""
    features = rows.features
    for name in names:
        if name not in features.names:
            raise TrainingError(f"Propensity column {name!r} is not a feature. {nearest_hint(name, features.names)}")
    if names:
        features = features.without([name for name in features.names if name not in names])
    return features.linear_view().transform_rows(features)


PU = (
    Method(
        key="elkan_noto",
        title="Elkan–Noto",
        group="baseline",
        description="P(labelled | x) over the label frequency, which is measured on held-out labelled rows; at most 1.",
        needs=(Need.LABELS,),
        keeps_rule_columns=True,
        learners=TREES_FIRST,
        source=scaled_by_label_frequency,
        own_settings=(FOLDS,),
    ),
    Method(
        key="weighted_elkan_noto",
        title="Elkan–Noto, weighted",
        group="baseline",
        description="Unlabelled rows get their chance of being hidden positives as soft label, then one soft fit.",
        needs=(Need.LABELS,),
        keeps_rule_columns=True,
        learners=TREES_FIRST,
        source=weighted_by_hidden_positives,
        own_settings=(FOLDS,),
    ),
    Method(
        key="bagging_pu",
        title="Bagging PU",
        group="baseline",
        description="Labelled rows against many bootstraps of the unlabelled ones, averaged (Mordelet and Vert).",
        needs=(Need.LABELS,),
        keeps_rule_columns=True,
        learners=TREES_FIRST,
        source=bagging_pu,
        own_settings=(BAGS, BAG_RATIO),
        learner_defaults=SMALL_BAGS,
    ),
    Method(
        key="nnpu",
        title="nnPU",
        group="baseline",
        description="A neural network under the non-negative PU risk (Kiryo and others), with equal weight for both "
        "classes; needs the class prior.",
        needs=(Need.LABELS, Need.PRIOR),
        keeps_rule_columns=True,
        learners=("nnpu_net",),
        source=nnpu,
        own_settings=(
            Setting(
                name="prior",
                default=None,
                low=1e-6,
                high=1 - 1e-6,
                kind="number",
                optional=True,
                help="Share of positives among all rows; None takes an upper estimate from held-out scores. The risk "
                "uses the share among unlabelled rows that follows from it.",
            ),
        ),
    ),
    Method(
        key="sar_em",
        title="SAR-EM",
        group="baseline",
        description="Labels depend on known columns: class and propensity are learnt in turns (Bekker and others).",
        needs=(Need.LABELS,),
        keeps_rule_columns=True,
        learners=("logistic", "lightgbm", "xgboost", "neural_net", "extra_trees"),
        source=sar_em,
        own_settings=(
            Setting(
                name="propensity_columns",
                default=(),
                help="Columns that decide who gets a label; none named means all.",
            ),
            Setting(name="em_steps", default=50, low=1, high=200, help="Turns of expectation and maximisation."),
        ),
    ),
)


def labeled(rows: TrainingRows, options: Options) -> np.ndarray:
    """1 for confirmed cases, 0 for the rest."""
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
        description="Takes every unlabelled row for a negative (the paper's baseline BL0).",
        needs=(Need.LABELS,),
        keeps_rule_columns=True,
        learners=(*TREES_FIRST, "cnn"),
        target=labeled,
    ),
    Method(
        key="soft_as_positive",
        title="Soft label as positive",
        group="baseline",
        description="Takes every row with a soft label above 0 for a positive (the paper's baseline BL1).",
        needs=(Need.SOFT_LABELS,),
        keeps_rule_columns=True,
        learners=(*TREES_FIRST, "cnn"),
        target=any_belief,
    ),
    Method(
        key="soft_as_feature",
        title="Rule score as a feature",
        group="baseline",
        description="Labelled against the rest, with the rule score as one more column (not S, which holds the label).",
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
        description="Takes rows whose soft label reaches a threshold for positives, the others for negatives.",
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
        description="No model: the combined rule score itself, before labels override it.",
        needs=(Need.RULE_SCORE,),
        keeps_rule_columns=True,
        source=rule_score_itself,
        scores_with_rules=True,
    ),
    Method(
        key="oracle",
        title="Oracle",
        group="baseline",
        description="Learns from the truth where it is known: what could be reached, never a model to use.",
        needs=(Need.TRUTH,),
        keeps_rule_columns=True,
        learners=(*TREES_FIRST, "cnn"),
        target=truth,
    ),
)
