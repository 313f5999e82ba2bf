"""What moves the scores: gain of the trees, permutation importance on AUC_SPU, SHAP values of the boosters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import TrainingError
from spu_core.metrics import auc_spu_score
from spu_core.models import Features, Model, SoftLearner
from spu_core.training.config import check_whole
from spu_core.training.fitting import Fitter
from spu_core.training.folds import Part
from spu_core.training.progress import Reporter, Span, TrainProgress
from spu_core.training.run import FittedCandidate, Run, evidence_for

RULE_SCORE = "rule score"


def permutation_importance(
    run: Run,
    *,
    repeats: int = 5,
    folds: int | None = 1,
    on_progress: Callable[[TrainProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> pd.DataFrame:
    """How far AUC_SPU falls when a column is shuffled among rows the model has not seen.

    Some `folds` (None: all) are trained again as they were. Columns: `column`, `importance` (mean fall), `spread`
    (standard deviation over shuffles), largest first. Columns that go together can stand in for each other, so each
    may look unimportant alone.
    """
    check_whole(repeats, "repeats", 1)
    rows = run.need_rows()
    parts = [(at, part) for at, part in enumerate(rows.split.parts()) if run.basis.judged[part.score].any()][:folds]
    reporter = Reporter([run.name], len(parts), on_progress, should_stop)
    falls: dict[str, list[float]] = {}
    for place, (at, part) in enumerate(parts):
        reporter.fold = part.number
        tuned = dict(run.tunings[at].settings) if run.tunings else {}
        fitter = Fitter(run.candidate, run.config, reporter, tuned)
        for column, fall in _falls(run, part, fitter, repeats, Span().part(place, len(parts))):
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
    """Share of the trees' total gain that each column earned; an average over the parts of a composed model."""
    total: dict[str, float] = {}
    for learner in _boosters(fitted):
        own = _gains(learner)
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
    if _reads_rule_score(fitted, learner):
        if rule_score is None:
            raise TrainingError(f"{fitted.candidate.name!r} reads the rule score of each row; pass rule_score=.")
        features = features.select(getattr(fitted.model, "active", features.active)).with_column(
            RULE_SCORE, np.asarray(rule_score)
        )
    values = learner.contributions(features)
    names = [_column_name(fitted, int(place)) for place in learner.active_]
    return pd.DataFrame(values, columns=[*names, "baseline"], index=frame.index)


def _falls(run: Run, part: Part, fitter: Fitter, repeats: int, span: Span) -> Iterator[tuple[str, float]]:
    evidence = evidence_for(run.candidate, run.need_rows())
    model = fitter.fit(evidence.take(part.train), span.part(0, 2)).model
    unseen = evidence.take(part.score)
    weight, target = unseen.weight, run.basis.soft_label[part.score]
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
    """The rows in a matrix of their own, which may be shuffled; the shared one is never touched."""
    return Features.of(
        replace(features, active=np.arange(len(features.store.columns))).matrix.copy(), features.store.columns
    )


def _boosters(fitted: FittedCandidate) -> list[SoftLearner]:
    found = list(_learners(fitted.model))
    found = [learner for learner in found if hasattr(learner, "booster_")]
    if not found:
        raise TrainingError(
            f"{fitted.candidate.name!r} has no trees that could tell gains; use permutation_importance instead."
        )
    return found


def _learners(model: Any) -> Iterator[SoftLearner]:
    """The learners a model is made of."""
    if isinstance(model, SoftLearner):
        yield model
    for part in (*getattr(model, "parts", ()), *([model.part] if hasattr(model, "part") else [])):
        yield from _learners(part)


def _one_booster(fitted: FittedCandidate) -> SoftLearner:
    found = list(_learners(fitted.model))
    if len(found) != 1 or not hasattr(found[0], "booster_"):
        raise TrainingError(
            f"{fitted.candidate.name!r} does not end in one booster, so it has no SHAP values; "
            "use permutation_importance, which works for every method."
        )
    return found[0]


def _gains(learner: Any) -> dict[int, float]:
    """Total gain by position of the column in the encoded matrix."""
    if learner.key == "lightgbm":
        gains = learner.booster_.feature_importance("gain")
        return {int(place): float(gain) for place, gain in zip(learner.active_, gains, strict=True)}
    by_name = learner.booster_.get_score(importance_type="total_gain")
    return {int(place): float(by_name.get(f"f{place}", 0.0)) for place in learner.active_}


def _column_name(fitted: FittedCandidate, place: int) -> str:
    """A model that reads the rule score has it as one more column after those it chose."""
    names, chosen = fitted.encoder.names, getattr(fitted.model, "active", None)
    if chosen is not None:
        return names[chosen[place]] if place < len(chosen) else RULE_SCORE
    return names[place]


def _reads_rule_score(fitted: FittedCandidate, learner: SoftLearner) -> bool:
    return fitted.needs_rule_score and fitted.model is not learner
