"""Methods that learn from soft labels: the paper's method with each learner, two stages, soft bagging, and fused.

Fused joins labels and rules: a stack weighs scores from both by how well they predict the labels. Three scores are
learnt from the labels and two from the rules; the rule score itself is the sixth. The recipe was chosen on eleven
tables by leaving tables out; docs/measurements.md has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit

from spu_core.errors import TrainingError
from spu_core.models.features import Features
from spu_core.models.learners import LEARNERS, SoftLearner
from spu_core.models.method import FOLDS, TREES_FIRST, LearnerFitter, Method, Need, Options, inner_splits
from spu_core.models.methods.baselines import (
    BAG_RATIO,
    BAGS,
    SMALL_BAGS,
    average_of_bags,
    hidden_positive,
    label_frequency,
)
from spu_core.models.model import ComposedModel, Model, State, TrainingRows, need_rule_score, pack
from spu_core.models.settings import THREADS, Setting


def soft_label(rows: TrainingRows, options: Options) -> np.ndarray:
    """The target of the paper's method: S itself."""
    if np.ptp(rows.soft_label) == 0:
        raise TrainingError(
            f"The soft label is {rows.soft_label[0]:g} in every row, so there is only one class; "
            "add labelled positives or a rule that fires on some rows."
        )
    return rows.soft_label


def two_stage(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """Learn the cross-fitted E[S | X without rule columns] from all columns; labelled rows stay 1.

    The first stage cannot repeat the rules, since it does not see the columns that they read. The second stage may use
    those columns, but only as far as the other columns confirm them.
    """
    folds = fitter.options["folds"]
    smooth = fitter.out_of_fold(rows.without_rule_columns(), rows.soft_label, folds=folds, of=folds + 1)
    target = np.where(rows.is_labeled, 1.0, smooth)
    return fitter.fit(rows.features, target, rows.weight, stage=folds + 1, of=folds + 1)


def soft_bagging(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """Bagging in which the unlabelled rows of a bag keep their soft labels."""
    return average_of_bags(rows, np.where(rows.is_labeled, 1.0, rows.soft_label), fitter)


def _soft(learner: str, title: str, description: str) -> Method:
    """The paper's method with one of the learners."""
    return Method(
        key=learner,
        title=title,
        group="soft label",
        description=description,
        needs=(Need.SOFT_LABELS,),
        keeps_rule_columns=False,
        learners=(learner,),
        target=soft_label,
    )


SOFT_LABELS = (
    _soft(
        "lightgbm",
        "Soft labels, LightGBM",
        "The paper's method: boosted trees learn S by soft cross-entropy, without the columns the rules read.",
    ),
    _soft("xgboost", "Soft labels, XGBoost", "The paper's method with XGBoost's trees."),
    _soft("neural_net", "Soft labels, neural network", "The paper's method with a three-layer neural network."),
    _soft(
        "logistic",
        "Soft labels, logistic regression",
        "The paper's method with a linear score: smooth and readable.",
    ),
    _soft(
        "nearest_neighbors",
        "Soft labels, nearest neighbours",
        "The mean soft label of the most similar rows; nothing is assumed about its shape.",
    ),
    _soft("extra_trees", "Soft labels, extra trees", "The mean soft label in the leaves of a forest."),
    _soft(
        "cnn",
        "Soft labels, convolutional network",
        "The paper's method for pixel columns; needs the extra vision.",
    ),
)

OURS = (
    Method(
        key="two_stage",
        title="Two stages",
        group="ours",
        description="First E[S | columns the rules do not read], cross-fitted; then a refit of that with all columns.",
        needs=(Need.SOFT_LABELS,),
        keeps_rule_columns=True,
        learners=TREES_FIRST,
        source=two_stage,
        own_settings=(FOLDS,),
    ),
    Method(
        key="soft_bagging",
        title="Soft bagging",
        group="ours",
        description="Bags of all labelled rows and some unlabelled ones that keep their soft labels, averaged.",
        needs=(Need.LABELS, Need.SOFT_LABELS),
        keeps_rule_columns=False,
        learners=TREES_FIRST,
        source=soft_bagging,
        own_settings=(BAGS, BAG_RATIO),
        learner_defaults=SMALL_BAGS,
    ),
)


# Ingredient → prior mean of its weight. `trust_rules` raises mean and precision of those that come from rules.
FROM_LABELS = {"label trees": 0.5, "label linear": 0.5, "label forest": 0.5}
FROM_RULES = {"rule trees": 0.1, "rule linear": 0.1, "rule score": 0.1}
PRIOR_WEIGHT = {**FROM_LABELS, **FROM_RULES}
# Models that earlier versions stored have no forest and do not name their ingredients.
BEFORE_THE_FOREST = ("label trees", "label linear", "rule trees", "rule linear", "rule score")
PRECISION = 8.0
TRUSTED_WEIGHT = 0.5
TRUSTED_PRECISION = 100.0
# A forest smooths what few labels say. It learns from so many rows at most; more would make large, slow models.
FOREST_TREES = 16
FOREST = {"rounds": FOREST_TREES, "splits": "random"}
FOREST_ROWS = 20_000
FOREST_LEAVES = 1_000
# Without a rule score, what the rules say is learnt from rows that are not confirmed, if there are so many.
FEWEST_OTHERS = 20
EDGE = 1e-6
SMALLEST_SPREAD = 1e-3
# 80 trees of 8 leaves split 560 times at most: offering each tree all of ten thousand columns would take minutes.
COLUMNS_PER_TREE = 500
_NUMBERS = ("center", "scale", "weight", "ends")


@dataclass(frozen=True, eq=False)
class FusedModel(ComposedModel):
    """logistic(z(stack) + z(refit)).

    `parts` holds one model per learnt ingredient and inner fold, and last the refit. `center` and `scale` standardise
    the ingredients, `ends` the stack and the refit. All are stored from training, so that the score of a row does not
    depend on the other rows. `refined_soft_label` is the posterior q of the training rows; it is not stored. `hedge` is
    above 0 only in models that earlier versions stored: they added the ingredients from rules with this weight.
    """

    parts: tuple[Model, ...]
    folds: int
    center: np.ndarray
    scale: np.ndarray
    weight: np.ndarray
    ends: np.ndarray
    ingredients: tuple[str, ...] = tuple(PRIOR_WEIGHT)
    hedge: float = 0.0
    refined_soft_label: np.ndarray | None = field(default=None, repr=False)

    kind = "fused"

    @property
    def uses_rules(self) -> bool:
        return "rule score" in self.ingredients

    @property
    def stack_weights(self) -> dict[str, float]:
        """The weight of each ingredient in the stack, all standardised; 0 means that it is switched off."""
        return dict(zip(self.ingredients, self.weight[1:].tolist(), strict=True))

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        columns = [
            margin(self.parts[at : at + self.folds], features) for at in range(0, len(self.parts) - 1, self.folds)
        ]
        if self.uses_rules:
            columns.append(need_rule_score(rule_score, len(features)))
        z = (np.column_stack(columns) - self.center) / self.scale
        tilt = self.hedge * np.einsum("ij->i", z[:, 2:])
        return expit(blend(stack_margin(z, self.weight), margin(self.parts[-1:], features), tilt, self.ends))

    def to_state(self) -> State:
        numbers = {name: getattr(self, name).tolist() for name in _NUMBERS}
        is_old = self.ingredients == BEFORE_THE_FOREST[: len(self.ingredients)]
        form = {"hedge": self.hedge} if is_old else {"ingredients": list(self.ingredients)}
        return pack(self.kind, self.parts, folds=self.folds, **form, **numbers)

    @classmethod
    def from_parts(cls, description: Mapping[str, Any], parts: Sequence[Model]) -> FusedModel:
        numbers: dict[str, Any] = {name: np.array(description[name]) for name in _NUMBERS}
        names = description.get("ingredients", BEFORE_THE_FOREST[: numbers["center"].size])
        hedge = float(description.get("hedge", 0.0))
        return cls(parts=tuple(parts), folds=description["folds"], ingredients=tuple(names), hedge=hedge, **numbers)


@dataclass(frozen=True, eq=False)
class Ingredient:
    """One learnt score of the stack: the learner with its settings, its target and the rows it learns from.

    `most_rows` bounds the rows that it learns from: all positive targets and a random part of the others. `known` are
    the rows whose target is known, if it is not known for all of them.
    """

    name: str
    learner: str
    settings: Mapping[str, Any]
    target: np.ndarray
    rows: TrainingRows
    most_rows: int | None = None
    known: np.ndarray | None = None


def fused(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """Cross-fit the ingredients, stack them to predict the label, refit on the posterior, and keep both."""
    parts, scores, folds = _cross_fitted(rows, fitter)
    table = np.column_stack(list(scores.values()))
    center, scale = table.mean(axis=0), np.maximum(table.std(axis=0), EDGE)
    z = (table - center) / scale
    weight = fit_stack(z, tuple(scores), rows, trust_rules=fitter.options["trust_rules"])
    stack = stack_margin(z, weight)
    g = expit(stack)
    posterior = hidden_positive(rows.is_labeled, g, label_frequency(rows, g))
    refit = Ingredient("refit", "lightgbm", small_trees(rows, fitter), posterior, rows)
    everything = np.ones(len(rows), dtype=bool)
    parts.append(_fit(refit, everything, fitter, stage=len(parts) + 1, of=len(parts) + 1))
    ends = _ends(stack, margin(parts[-1:], rows.features), posterior)
    numbers: dict[str, Any] = {"center": center, "scale": scale, "weight": weight, "ends": ends}
    return FusedModel(tuple(parts), folds, **numbers, ingredients=tuple(scores), refined_soft_label=posterior)


def fit_stack(z: np.ndarray, names: Sequence[str], rows: TrainingRows, *, trust_rules: bool) -> np.ndarray:
    """(intercept, weights ≥ 0) of a logistic regression of the label with a Gaussian prior on the weights.

    With few labels the prior decides, with many the data. The weight of a wrong rule falls to 0, never below.
    """
    prior, precision = np.array([PRIOR_WEIGHT[name] for name in names]), np.full(len(names), PRECISION)
    if trust_rules:
        of_rules = np.isin(names, list(FROM_RULES))
        prior[of_rules], precision[of_rules] = TRUSTED_WEIGHT, TRUSTED_PRECISION
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


def blend(stack: np.ndarray, refit: np.ndarray, tilt: np.ndarray | float, ends: np.ndarray) -> np.ndarray:
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


def _cross_fitted(rows: TrainingRows, fitter: LearnerFitter) -> tuple[list[Model], dict[str, np.ndarray], int]:
    """(a model for each ingredient and inner fold, their out-of-fold scores with the rules last, inner folds)."""
    ingredients = _ingredients(rows, fitter)
    fold_list = list(inner_splits(rows, fitter.options["folds"], fitter.seed))
    total = len(ingredients) * len(fold_list) + 1
    parts: list[Model] = []
    scores = {}
    for ingredient in ingredients:
        score = np.empty(len(rows))
        for _, inside, outside in fold_list:
            model = _fit(ingredient, inside, fitter, stage=len(parts) + 1, of=total)
            score[outside] = margin([model], ingredient.rows.features.take(outside))
            parts.append(model)
        scores[ingredient.name] = score
    if rows.rule_score is not None and _has_rules(rows):
        scores["rule score"] = need_rule_score(rows.rule_score, len(rows))
    return parts, scores, len(fold_list)


def _ingredients(rows: TrainingRows, fitter: LearnerFitter) -> list[Ingredient]:
    labels, trees = rows.is_labeled.astype(np.float64), small_trees(rows, fitter)
    linear = {"ridge": 1.0 + 100.0 / labels.sum()}
    from_labels = [
        Ingredient("label trees", "lightgbm", trees, labels, rows),
        Ingredient("label linear", "logistic", linear, labels, rows),
        Ingredient("label forest", "extra_trees", label_forest(rows, fitter), labels, rows, FOREST_ROWS),
    ]
    if not _has_rules(rows):
        return from_labels
    # Confirmed rows have a soft label of 1, whatever the rules say of them.
    target, known = (rows.soft_label, ~rows.is_labeled) if rows.rule_score is None else (rows.rule_score, None)
    # Without the columns that rules read, the model cannot repeat the rules: it must find what goes with them.
    blind = rows.without_rule_columns()
    return [
        *from_labels,
        Ingredient("rule trees", "lightgbm", trees, target, blind, known=known),
        Ingredient("rule linear", "logistic", {"ridge": 0.1 + 50.0 / len(rows)}, target, blind, known=known),
    ]


def label_forest(rows: TrainingRows, fitter: LearnerFitter) -> dict[str, Any]:
    """A small forest of extremely randomised trees; leaves grow with the table, so that the model does not."""
    smallest = max(5, min(len(rows), FOREST_ROWS) // FOREST_LEAVES)
    return {**FOREST, "min_leaf_rows": smallest, "seed": fitter.seed, "threads": fitter.options["threads"]}


def _has_rules(rows: TrainingRows) -> bool:
    if rows.rule_score is not None:
        return bool(np.ptp(rows.rule_score) > 0)
    others = rows.soft_label[~rows.is_labeled]
    return others.size >= FEWEST_OTHERS and bool(np.ptp(others) > 0)


def _fit(ingredient: Ingredient, inside: np.ndarray, fitter: LearnerFitter, *, stage: int, of: int) -> SoftLearner:
    if ingredient.known is not None:
        inside = inside & ingredient.known
    if ingredient.most_rows is not None and int(inside.sum()) > ingredient.most_rows:
        inside = _some_of(inside, ingredient.target > 0, ingredient.most_rows, fitter.seed)
    weight = None if ingredient.rows.weight is None else ingredient.rows.weight[inside]
    learner = LEARNERS[ingredient.learner](**ingredient.settings)
    monitor = fitter.monitor.at(stage, of)
    return learner.fit_rows(ingredient.rows.features.take(inside), ingredient.target[inside], weight, monitor)


def _some_of(inside: np.ndarray, wanted: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most so many of the rows inside: the wanted ones first (half of the rows at most), the others at random."""
    rng = np.random.default_rng(seed)
    first, others = (rng.permutation(np.flatnonzero(inside & flag)) for flag in (wanted, ~wanted))
    first = first[: most // 2]
    chosen = np.zeros(inside.size, dtype=bool)
    chosen[np.concatenate([first, others[: most - first.size]])] = True
    return chosen


def _usable(spread: float) -> float:
    """A constant component gets (nearly) zero weight; divided by its tiny spread, it would outweigh the other."""
    return float(spread) if spread > SMALLEST_SPREAD else 1.0 / EDGE


def _ends(stack: np.ndarray, refit: np.ndarray, posterior: np.ndarray) -> np.ndarray:
    """Mean and sd of stack and refit, a stretch that keeps the stack's spread, a shift to the mean of q."""
    parts = [stack.mean(), _usable(stack.std()), refit.mean(), _usable(refit.std())]
    stretch = 0.5 * max(float(stack.std()), EDGE)
    line = blend(stack, refit, 0.0, np.array([*parts, stretch, 0.0]))
    wanted = float(np.clip(posterior.mean(), EDGE, 1 - EDGE))
    shift = brentq(lambda move: expit(line + move).mean() - wanted, -50 - line.max(), 50 - line.min())
    return np.array([*parts, stretch, shift])


FUSED = Method(
    key="fused",
    title="Fused",
    group="ours",
    description="Labels and rules together: six cross-fitted scores are stacked on the labels, and small trees are "
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
