"""Fused: labels and rules together. A stack weighs scores from both by how well they predict the labels.

Where something besides being positive decided which rows are labelled (age, a branch office), the stack learns that as
well and ranks by it. The labels alone cannot show this, but two figures together hint at it: scores learnt from the
labels predict who is labelled far better than scores learnt from the rules, although those, too, rank labelled rows
above the others (`LabelSelection`). The score of the rules then gets extra weight, the hedge. A wrong rule fails the
second condition, and labels drawn at random from the positives mostly fail the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit

from spu_core.metrics import known_positive_auc_score
from spu_core.models.features import Features
from spu_core.models.fit_inputs import TrainingRows
from spu_core.models.learners import LEARNERS, SoftLearner
from spu_core.models.method import FOLDS, LearnerFitter, Method, Need, inner_splits
from spu_core.models.methods.pu import hidden_positive, label_frequency
from spu_core.models.model import ComposedModel, LabelSelection, Model, State, need_rule_score, pack
from spu_core.models.settings import THREADS, Setting

INGREDIENTS = ("label trees", "label linear", "rule trees", "rule linear", "rule score")
# Prior mean of the weight of each ingredient (label trees, label linear, rule trees, rule linear, rule score) and its
# precision. `trust_rules` raises both for the three that come from rules.
PRIOR_WEIGHT = np.array([0.5, 0.5, 0.2, 0.2, 0.2])
PRECISION = 8.0
TRUSTED_WEIGHT = 0.5
TRUSTED_PRECISION = 100.0
EDGE = 1e-6
SMALLEST_SPREAD = 1e-3
# 80 trees of 8 leaves split 560 times at most: offering each tree all of ten thousand columns would take minutes.
COLUMNS_PER_TREE = 500
_NUMBERS = ("center", "scale", "weight", "ends")


@dataclass(frozen=True, eq=False)
class FusedModel(ComposedModel):
    """logistic(z(stack) + z(refit) + `hedge` · rule line); the hedge is above 0 where the labels look selected.

    `parts` holds one model per learnt ingredient and inner fold, and last the refit. `center` and `scale` standardise
    the ingredients, `ends` the stack and the refit. All are stored from training, so that the score of a row does not
    depend on the other rows. `refined_soft_label` is the posterior q of the training rows, and `selection` decided the
    hedge; neither is stored.
    """

    parts: tuple[Model, ...]
    folds: int
    center: np.ndarray
    scale: np.ndarray
    weight: np.ndarray
    ends: np.ndarray
    hedge: float = 0.0
    refined_soft_label: np.ndarray | None = field(default=None, repr=False)
    selection: LabelSelection | None = None

    kind = "fused"

    @property
    def uses_rules(self) -> bool:
        return self.center.size == PRIOR_WEIGHT.size

    @property
    def stack_weights(self) -> dict[str, float]:
        """The weight of each ingredient in the stack, all standardised; 0 means that it is switched off."""
        return dict(zip(INGREDIENTS, self.weight[1:].tolist(), strict=False))

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        columns = [
            margin(self.parts[at : at + self.folds], features) for at in range(0, len(self.parts) - 1, self.folds)
        ]
        if self.uses_rules:
            columns.append(need_rule_score(rule_score, len(features)))
        z = (np.column_stack(columns) - self.center) / self.scale
        tilt = self.hedge * rule_line(z)
        return expit(blend(stack_margin(z, self.weight), margin(self.parts[-1:], features), tilt, self.ends))

    def to_state(self) -> State:
        numbers = {name: getattr(self, name).tolist() for name in _NUMBERS}
        return pack(self.kind, self.parts, folds=self.folds, hedge=self.hedge, **numbers)

    @classmethod
    def from_parts(cls, description: Mapping[str, Any], parts: Sequence[Model]) -> FusedModel:
        numbers: dict[str, Any] = {name: np.array(description[name]) for name in _NUMBERS}
        hedge = float(description.get("hedge", 0.0))
        return cls(parts=tuple(parts), folds=description["folds"], hedge=hedge, **numbers)


@dataclass(frozen=True, eq=False)
class Ingredient:
    """One learnt score of the stack: the learner with its settings, its target and the rows it learns from."""

    learner: str
    settings: Mapping[str, Any]
    target: np.ndarray
    rows: TrainingRows


def fused(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """Cross-fit the ingredients, stack them to predict the label, refit on the posterior, and keep both."""
    parts, table, folds = _cross_fitted(rows, fitter)
    center, scale = table.mean(axis=0), np.maximum(table.std(axis=0), EDGE)
    z = (table - center) / scale
    weight = fit_stack(z, rows, trust_rules=fitter.options["trust_rules"])
    stack = stack_margin(z, weight)
    g = expit(stack)
    posterior = hidden_positive(rows.is_labeled, g, label_frequency(rows, g))
    refit = Ingredient("lightgbm", small_trees(rows, fitter), posterior, rows)
    everything = np.ones(len(rows), dtype=bool)
    parts.append(_fit(refit, everything, fitter, stage=len(parts) + 1, of=len(parts) + 1))
    refitted = margin(parts[-1:], rows.features)
    selection = selection_of(z, rows) if _has_rules(rows) else None
    hedge = 0.0 if selection is None else selection.share * _spread(stack, refitted) / max(rule_line(z).std(), EDGE)
    ends = _ends(stack, refitted, hedge * rule_line(z), posterior)
    numbers: dict[str, Any] = {"center": center, "scale": scale, "weight": weight, "ends": ends, "hedge": hedge}
    return FusedModel(tuple(parts), folds, **numbers, refined_soft_label=posterior, selection=selection)


def fit_stack(z: np.ndarray, rows: TrainingRows, *, trust_rules: bool) -> np.ndarray:
    """(intercept, weights ≥ 0) of a logistic regression of the label with a Gaussian prior on the weights.

    With few labels the prior decides, with many the data. The weight of a wrong rule falls to 0, never below.
    """
    prior, precision = PRIOR_WEIGHT[: z.shape[1]].copy(), np.full(z.shape[1], PRECISION)
    if trust_rules:
        prior[2:], precision[2:] = TRUSTED_WEIGHT, TRUSTED_PRECISION
    target = rows.is_labeled.astype(np.float64)
    row_weight = np.ones(len(rows)) if rows.weight is None else rows.weight / rows.weight.mean()

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        line, off = z @ point[1:] + point[0], point[1:] - prior
        value = np.sum(row_weight * (np.logaddexp(0.0, line) - target * line)) + 0.5 * np.sum(precision * off**2)
        pull = row_weight * (expit(line) - target)
        return float(value), np.concatenate([[pull.sum()], pull @ z + precision * off])

    start = np.concatenate([[logit(np.clip(target.mean(), EDGE, 1 - EDGE))], prior])
    bounds = [(None, None)] + [(0.0, None)] * z.shape[1]
    return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).x


def stack_margin(z: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The line of the stack for standardised ingredients."""
    return np.einsum("ij,j->i", z, weight[1:]) + weight[0]


def margin(models: Any, features: Features) -> np.ndarray:
    """Mean log-odds over models."""
    odds = [logit(np.clip(model.score_rows(features), EDGE, 1 - EDGE)) for model in models]
    return np.mean(odds, axis=0)


def blend(stack: np.ndarray, refit: np.ndarray, tilt: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """z(stack) + z(refit) + tilt, stretched and shifted by the stored numbers."""
    stack_mean, stack_sd, refit_mean, refit_sd, stretch, shift = ends
    return stretch * ((stack - stack_mean) / stack_sd + (refit - refit_mean) / refit_sd + tilt) + shift


def small_trees(rows: TrainingRows, fitter: LearnerFitter) -> dict[str, Any]:
    """Trees small enough for few labels."""
    return {
        "rounds": fitter.options["rounds"],
        "learning_rate": 0.05,
        "num_leaves": 8 if rows.is_labeled.sum() >= 100 else 4,
        "reg_lambda": 1.0,
        "colsample_bytree": min(0.7, COLUMNS_PER_TREE / rows.features.active.size),
        "subsample": 0.7,
        "max_bin": 63,
        "seed": fitter.seed,
        "threads": fitter.options["threads"],
    }


def _cross_fitted(rows: TrainingRows, fitter: LearnerFitter) -> tuple[list[Model], np.ndarray, int]:
    """(a model for each ingredient and inner fold, their out-of-fold scores with the rules last, inner folds)."""
    ingredients = _ingredients(rows, fitter)
    fold_list = list(inner_splits(rows, fitter.options["folds"], fitter.seed))
    total = len(ingredients) * len(fold_list) + 1
    parts: list[Model] = []
    columns = []
    for ingredient in ingredients:
        score = np.empty(len(rows))
        for _, inside, outside in fold_list:
            model = _fit(ingredient, inside, fitter, stage=len(parts) + 1, of=total)
            score[outside] = margin([model], ingredient.rows.features.take(outside))
            parts.append(model)
        columns.append(score)
    if _has_rules(rows):
        columns.append(need_rule_score(rows.rule_score, len(rows)))
    return parts, np.column_stack(columns), len(fold_list)


def _ingredients(rows: TrainingRows, fitter: LearnerFitter) -> list[Ingredient]:
    labels, trees = rows.is_labeled.astype(np.float64), small_trees(rows, fitter)
    from_labels = [
        Ingredient("lightgbm", trees, labels, rows),
        Ingredient("logistic", {"ridge": 1.0 + 100.0 / labels.sum()}, labels, rows),
    ]
    if not _has_rules(rows):
        return from_labels
    assert rows.rule_score is not None
    # Without the columns that rules read, the model cannot repeat the rules: it must find what goes with them.
    blind = rows.without_rule_columns()
    return [
        *from_labels,
        Ingredient("lightgbm", trees, rows.rule_score, blind),
        Ingredient("logistic", {"ridge": 0.1 + 50.0 / len(rows)}, rows.rule_score, blind),
    ]


def _has_rules(rows: TrainingRows) -> bool:
    return rows.rule_score is not None and bool(np.ptp(rows.rule_score) > 0)


def _fit(ingredient: Ingredient, inside: np.ndarray, fitter: LearnerFitter, *, stage: int, of: int) -> SoftLearner:
    weight = None if ingredient.rows.weight is None else ingredient.rows.weight[inside]
    learner = LEARNERS[ingredient.learner](**ingredient.settings)
    monitor = fitter.monitor.at(stage, of)
    return learner.fit_rows(ingredient.rows.features.take(inside), ingredient.target[inside], weight, monitor)


def _spread(stack: np.ndarray, refit: np.ndarray) -> float:
    """The standard deviation of z(stack) + z(refit): a hedge of share 1 has the weight of both together."""
    return float((stack / max(stack.std(), EDGE) + refit / max(refit.std(), EDGE)).std())


def _usable(spread: float) -> float:
    """A constant component gets (nearly) zero weight; divided by its tiny spread, it would outweigh the other."""
    return float(spread) if spread > SMALLEST_SPREAD else 1.0 / EDGE


def _ends(stack: np.ndarray, refit: np.ndarray, tilt: np.ndarray, posterior: np.ndarray) -> np.ndarray:
    """Mean and sd of stack and refit, a stretch that keeps the stack's spread, a shift to the mean of q."""
    parts = [stack.mean(), _usable(stack.std()), refit.mean(), _usable(refit.std())]
    stretch = 0.5 * max(float(stack.std()), EDGE)
    line = blend(stack, refit, tilt, np.array([*parts, stretch, 0.0]))
    wanted = float(np.clip(posterior.mean(), EDGE, 1 - EDGE))
    shift = brentq(lambda move: expit(line + move).mean() - wanted, -50 - line.max(), 50 - line.min())
    return np.array([*parts, stretch, shift])


def selection_of(z: np.ndarray, rows: TrainingRows) -> LabelSelection:
    """From the standardised ingredients: two learnt from the labels, two from the rules, and the rule score."""
    label_auc, rule_auc = (
        known_positive_auc_score(rows.is_labeled, z[:, start] + z[:, start + 1], sample_weight=rows.weight)
        for start in (0, 2)
    )
    return LabelSelection(label_auc, rule_auc, int(rows.is_labeled.sum()))


def rule_line(z: np.ndarray) -> np.ndarray:
    """The sum of the three standardised ingredients that come from the rules."""
    return np.einsum("ij->i", z[:, 2:])


FUSED = Method(
    key="fused",
    title="Fused",
    group="ours",
    words="Labels and rules together: five cross-fitted scores are stacked on the labels, and small trees are "
    "refitted on the posterior. The recommended default; without rules it is a good label-only method.",
    needs=(Need.LABELS,),
    keeps_rule_columns=True,
    source=fused,
    own_settings=(
        FOLDS,
        Setting(
            name="trust_rules",
            default=False,
            help="I am sure of my rules: they keep their weight whatever the labels say; costly if wrong.",
        ),
        Setting(name="rounds", default=80, low=1, high=5_000, log=True, help="Trees of each small booster."),
        THREADS,
    ),
    scores_with_rules=True,
)
