"""What moves the scores: gain of the trees, permutation importance on AUC_SPU, SHAP values of the boosters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pandas as pd

from spu_core.errors import TrainingError
from spu_core.metrics import auc_spu_score
from spu_core.models import Features, Model, SoftLightGBM, SoftXGBoost
from spu_core.models.model import WithRuleScoreModel
from spu_core.training.config import check_whole
from spu_core.training.fitting import CandidateFitter
from spu_core.training.folds import Fold
from spu_core.training.progress import ProgressRange, Reporter, TrainProgress
from spu_core.training.run import FittedCandidate, Run

RULE_SCORE = "rule score"
BoostedTrees: TypeAlias = SoftLightGBM | SoftXGBoost


def permutation_importance(
    run: Run,
    *,
    repeats: int = 5,
    folds: int | None = 1,
    on_progress: Callable[[TrainProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> pd.DataFrame:
    """How far AUC_SPU falls when a column is shuffled among rows the model has not seen.

    Columns that go together can stand in for each other, so each may look unimportant alone.

    Parameters
    ----------
    run : Run
        A run that was trained in this session.
    repeats : int
        How often each column is shuffled.
    folds : int or None
        How many folds are trained again as they were; None for all.
    on_progress, should_stop : callable, optional
        As for `cross_fit`.

    Returns
    -------
    DataFrame
        A row per column, the most important first: `column`, `importance` (mean fall) and `spread` (standard deviation
        over shuffles).
    """
    check_whole(repeats, "repeats", 1)
    judged, split = run.evaluation.judged, run.need_data().split
    chosen = [(place, fold) for place, fold in enumerate(split.folds()) if judged[fold.score].any()][:folds]
    reporter = Reporter([run.name], len(chosen), on_progress, should_stop)
    falls: dict[str, list[float]] = {}
    for step, (place, fold) in enumerate(chosen):
        reporter.fold = fold.number
        tuned = dict(run.tunings[place].settings) if run.tunings else {}
        fitter = CandidateFitter(run.candidate, run.config, reporter, tuned)
        for column, fall in _falls(run, fold, fitter, repeats, ProgressRange().part(step, len(chosen))):
            falls.setdefault(column, []).append(fall)
    table = pd.DataFrame(
        {
            "column": list(falls),
            "importance": [float(np.mean(values)) for values in falls.values()],
            "spread": [float(np.std(values)) for values in falls.values()],
        }
    )
    return table.sort_values("importance", ascending=False, kind="stable", ignore_index=True)


def gain_importance(fitted: FittedCandidate) -> pd.DataFrame:
    """Share of the total gain of the trees by column; an average over the parts of a composed model."""
    total: dict[str, float] = {}
    for learner in _boosters(fitted):
        own = learner.gains()
        whole = sum(own.values()) or 1.0
        for place, gain in own.items():
            name = _column_name(fitted, place)
            total[name] = total.get(name, 0.0) + gain / whole
    scale = sum(total.values()) or 1.0
    table = pd.DataFrame({"column": list(total), "gain": [gain / scale for gain in total.values()]})
    return table.sort_values("gain", ascending=False, kind="stable", ignore_index=True)


def shap_values(fitted: FittedCandidate, frame: pd.DataFrame, rule_score: np.ndarray | None = None) -> pd.DataFrame:
    """What each column adds to the log-odds of each row, and the `baseline`; together they are the row's log-odds.

    The values come from the booster itself. Only methods that end in one booster have them.
    """
    learner = _one_booster(fitted)
    features = fitted.encoder.transform(frame)
    if isinstance(fitted.model, WithRuleScoreModel):
        if rule_score is None:
            raise TrainingError(f"{fitted.candidate.name!r} reads the rule score of each row; pass rule_score=.")
        features = features.select(fitted.model.active).with_column(RULE_SCORE, np.asarray(rule_score))
    values = learner.contributions(features)
    names = [_column_name(fitted, int(place)) for place in learner.active_]
    return pd.DataFrame(values, columns=[*names, "baseline"], index=frame.index)


def _falls(
    run: Run, fold: Fold, fitter: CandidateFitter, repeats: int, span: ProgressRange
) -> Iterator[tuple[str, float]]:
    rows = run.need_data().rows_for(run.candidate)
    model = fitter.fit(rows.take(fold.train), span.part(0, 2)).model
    unseen = rows.take(fold.score)
    weight, target = unseen.weight, run.evaluation.soft_label[fold.score]
    base = auc_spu_score(target, model.score_rows(unseen.features, unseen.rule_score), sample_weight=weight)
    features = _own_copy(unseen.features)
    rng = np.random.default_rng(run.config.seed)
    columns = [*range(len(features.columns)), *([-1] if run.candidate.entry.scores_with_rules else [])]
    for number, column in enumerate(columns):
        fitter.reporter.report(span.part(1, 2).at(number / len(columns)), "permuting")
        name = RULE_SCORE if column < 0 else features.columns[column].name
        for _ in range(repeats):
            score = _shuffled_score(model, features, unseen.rule_score, (column, rng.permutation(len(features))))
            yield name, base - auc_spu_score(target, score, sample_weight=weight)


def _shuffled_score(
    model: Model, features: Features, rule_score: np.ndarray | None, shuffle: tuple[int, np.ndarray]
) -> np.ndarray:
    column, order = shuffle
    if column < 0:
        assert rule_score is not None
        return model.score_rows(features, rule_score[order])
    matrix = features.store.matrix
    kept = matrix[:, column].copy()
    matrix[:, column] = kept[order]
    try:
        return model.score_rows(features, rule_score)
    finally:
        matrix[:, column] = kept


def _own_copy(features: Features) -> Features:
    """The rows in a matrix of their own, which may be shuffled; the shared one stays as it is."""
    return Features.of(
        replace(features, active=np.arange(len(features.store.columns))).matrix.copy(), features.store.columns
    )


def _boosters(fitted: FittedCandidate) -> list[BoostedTrees]:
    found = [learner for learner in _learners(fitted.model) if isinstance(learner, BoostedTrees)]
    if not found:
        raise TrainingError(f"{fitted.candidate.name!r} has no boosted trees, so no gains; use permutation_importance.")
    return found


def _learners(model: Model) -> Iterator[Model]:
    """The models without parts that a model is made of."""
    if not model.parts:
        yield model
    for part in model.parts:
        yield from _learners(part)


def _one_booster(fitted: FittedCandidate) -> BoostedTrees:
    found = list(_learners(fitted.model))
    if len(found) != 1 or not isinstance(found[0], BoostedTrees):
        raise TrainingError(
            f"{fitted.candidate.name!r} does not end in one booster, so it has no SHAP values; "
            "use permutation_importance, which works for every method."
        )
    return found[0]


def _column_name(fitted: FittedCandidate, place: int) -> str:
    """The name of a column by its position; a model that reads the rule score has it after the columns it chose."""
    names, model = fitted.encoder.names, fitted.model
    if isinstance(model, WithRuleScoreModel):
        return names[model.active[place]] if place < len(model.active) else RULE_SCORE
    return names[place]
