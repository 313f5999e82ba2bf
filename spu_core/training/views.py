"""What can be shown of a run: curve, band, agreement with S, segments, reviews, and which columns move the scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pandas as pd

from spu_core.errors import AssumptionError, TrainingError
from spu_core.metrics import (
    Interval,
    OperatingPoint,
    RocBand,
    RocSpu,
    auc_spu_score,
    calibration_to_soft_label,
    roc_spu,
    roc_spu_band,
    roc_spu_ceiling,
)
from spu_core.models import Features, Model, SoftLightGBM, SoftXGBoost
from spu_core.models.model import WithRuleScoreModel
from spu_core.theory import ScarLink
from spu_core.theory.check_ratio import wilson_interval
from spu_core.training.comparison import Comparison
from spu_core.training.config import check_whole
from spu_core.training.evaluation import folded_interval
from spu_core.training.fitting import CandidateFitter, ProgressRange, Reporter, TrainProgress
from spu_core.training.rows import Fold
from spu_core.training.run import FittedCandidate, Run

MOST_SEGMENTS = 12
NEARLY = 0.005


@dataclass(frozen=True, slots=True)
class ReviewPoint:
    """What a review of the highest scores finds.

    Attributes
    ----------
    point : OperatingPoint
        Threshold, flagged rows, TPR_SPU and FPR_SPU; the threshold is finite, so that it can be stored.
    soft_sum, soft_total : float
        Sum of soft labels of the flagged rows and of all rows. They count expected cases only if soft labels are right
        on average.
    found, confirmed : int
        Confirmed cases among the flagged rows and in all; each was scored by a model that had not seen it.
    recall : tuple of float or None
        Limits of found / confirmed for further cases like these (Wilson); None without confirmed cases.
    tied : int or None
        The number of rows that share the highest score, where they are more than the budget.
    """

    point: OperatingPoint
    soft_sum: float
    soft_total: float
    found: int
    confirmed: int
    recall: tuple[float, float] | None
    tied: int | None = None

    @property
    def sentence(self) -> str:
        """What the review finds of the confirmed cases."""
        rows = f"Reviewing the top {self.point.flagged:,.0f} rows ({_percent(self.point.flagged_share)})"
        if self.recall is None:
            return f"{rows} cannot be judged by confirmed cases: there are none."
        low, high = self.recall
        share = f"{_percent(self.found / self.confirmed)}, {100 * low:.0f} to {_percent(high)}"
        return f"{rows} finds {self.found:,} of the {self.confirmed:,} confirmed cases ({share})."

    @property
    def tie_sentence(self) -> str | None:
        """Why more rows are flagged than the budget; None where they are not."""
        if self.tied is None:
            return None
        return f"The {self.tied:,} highest scores are equal, so these rows are flagged together, above the budget."


@dataclass(frozen=True, eq=False)
class ReviewCurve:
    """What reviewing the highest scores of a run finds, for every threshold; made by `review_curve`."""

    curve: RocSpu
    by_case: RocSpu | None
    soft_total: float
    confirmed: int
    budget: float

    def at_threshold(self, threshold: float) -> ReviewPoint:
        """Flag the rows with a score above the threshold."""
        return self._of(self.curve.at_threshold(threshold))

    def at_rows(self, rows: int) -> ReviewPoint:
        """Flag this number of rows, or fewer where equal scores would exceed it."""
        return self._of(self.curve.at_budget(rows))

    def at_budget(self) -> ReviewPoint:
        """Use the review budget of the run, and never flag nobody: of tied highest scores all are flagged."""
        point = self.curve.at_budget(self.budget)
        if point.flagged > 0.0:
            return self._of(point)
        tied = self.curve.at_budget(float(self.curve.flagged[1] / self.curve.flagged[-1]))
        return replace(self._of(tied), tied=int(tied.flagged))

    def _of(self, point: OperatingPoint) -> ReviewPoint:
        # The highest score flags nothing too, and just below the lowest everything is flagged.
        lowest = float(np.nextafter(self.curve.score[-1], -np.inf))
        point = self.curve.at_threshold(float(np.clip(point.threshold, lowest, self.curve.score[0])))
        found, recall = 0, None
        if self.by_case is not None:
            found = round(self.by_case.at_threshold(point.threshold).tpr * self.confirmed)
            low, high = wilson_interval(found, self.confirmed)
            recall = float(low), float(high)
        return ReviewPoint(point, point.tpr * self.soft_total, self.soft_total, found, self.confirmed, recall)


def review_curve(run: Run) -> ReviewCurve:
    """What reviewing the highest out-of-fold scores of a run finds.

    Parameters
    ----------
    run : Run
        A finished run.

    Returns
    -------
    ReviewCurve
        `.at_budget()`, `.at_rows(n)` and `.at_threshold(t)` give a `ReviewPoint`.

    Examples
    --------
    >>> from spu_core.training import Candidate, EvaluationData, TrainConfig
    >>> belief = np.linspace(0.0, 1.0, 200)
    >>> data = EvaluationData(belief, belief > 0.9, belief, np.arange(200) % 2, np.ones(200, dtype=bool))
    >>> run = Run("a", Candidate("lightgbm"), TrainConfig(), data, score=belief).judged_by(data)
    >>> review_curve(run).at_rows(10).sentence
    'Reviewing the top 10 rows (5.0%) finds 10 of the 20 confirmed cases (50%, 30 to 70%).'
    """
    data, score = run.evaluation, run.judged_score
    labels, weight = data.judged_is_labeled, data.judged_weight
    soft_label = data.judged_soft_label
    return ReviewCurve(
        curve=run_curve(run),
        by_case=roc_spu(labels.astype(np.float64), score) if 0 < labels.sum() < labels.size else None,
        soft_total=float(soft_label.sum() if weight is None else (soft_label * weight).sum()),
        confirmed=int(labels.sum()),
        budget=run.config.review_budget,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.1 else f"{100 * share:.1f}%"


def auc_figures(comparison: Comparison, order: Sequence[str]) -> dict[str, dict[str, Interval]]:
    """The AUCs of each run in a given order, by the words for the reader: AUC_SPU, on confirmed cases, and true AUC."""
    metrics = {run.name: run.metrics for run in comparison.runs if run.metrics is not None}
    known = {name: metrics[name] for name in order if name in metrics}
    found: dict[str, dict[str, Interval | None]] = {
        "AUC_SPU": {name: comparison.auc_spu.get(name, each.auc_spu) for name, each in known.items()},
        "AUC on confirmed cases": {name: each.known_positive_auc for name, each in known.items()},
        "true AUC": {name: each.true_auc for name, each in known.items()},
    }
    return {
        title: {name: interval for name, interval in values.items() if interval is not None}
        for title, values in found.items()
    }


def true_aucs(runs: Sequence[Run], truth: np.ndarray) -> dict[str, Interval]:
    """True AUC of finished runs by a truth that none of them was judged by, such as `sample_truth`."""
    target = np.asarray(truth, dtype=np.float64)
    found = {
        run.name: folded_interval(target, run.need_score(), run.evaluation) for run in runs if run.score is not None
    }
    return {name: interval for name, interval in found.items() if interval is not None}


def hindsight(model: str, aucs: Mapping[str, Interval]) -> str:
    """Whether a recommendation was right, once the true AUC of each model is known.

    >>> hindsight("a", {"a": Interval(0.8, 0.7, 0.9, 0.05), "b": Interval(0.9, 0.8, 1.0, 0.05)})
    "No: 'b' has the highest true AUC (0.900), 'a' has 0.800."
    """
    best = max(aucs, key=lambda name: aucs[name].estimate)
    highest, own = aucs[best].estimate, aucs[model].estimate
    if best == model:
        return f"Yes: {model!r} has the highest true AUC of these models ({own:.3f})."
    answer = "Nearly" if highest - own <= NEARLY else "No"
    return f"{answer}: {best!r} has the highest true AUC ({highest:.3f}), {model!r} has {own:.3f}."


def run_curve(run: Run) -> RocSpu:
    """ROC_SPU of the out-of-fold scores on the judged rows."""
    return roc_spu(
        run.evaluation.judged_soft_label,
        run.judged_score,
        sample_weight=run.evaluation.judged_weight,
    )


def ceiling_curve(run: Run) -> RocSpu:
    """The curve that no score can rise above on the rows this run is judged by."""
    return roc_spu_ceiling(run.evaluation.judged_soft_label, sample_weight=run.evaluation.judged_weight)


def sketch(curve: RocSpu, points: int = 1000) -> RocSpu:
    """A curve of few of its points, for charts of many rows: evenly spread, and once more where few are flagged.

    Its area differs from that of the whole curve by less than 1e-5; thresholds are exact only on the whole curve.

    >>> rng = np.random.default_rng(0)
    >>> whole = roc_spu(rng.random(50_000), rng.random(50_000))
    >>> few = sketch(whole)
    >>> few.fpr.size < 2_000, abs(few.auc - whole.auc) < 1e-5
    (True, True)
    """
    last = curve.fpr.size - 1
    if last <= 2 * points:
        return curve
    kept = np.concatenate([np.linspace(0, last, points), np.geomspace(1, last, points)]).round().astype(int)
    kept = np.unique(np.append(kept, 0))
    return RocSpu(curve.fpr[kept], curve.tpr[kept], curve.flagged[kept], curve.score[kept[1:] - 1])


def perfect_link(run: Run) -> ScarLink | None:
    """How S follows the true class on the judged rows; None where the truth is unknown, of one class only, or S does
    not point to the positives."""
    truth = run.evaluation.judged_truth
    if truth is None:
        return None
    try:
        return ScarLink.from_truth(run.evaluation.judged_soft_label, truth)
    except AssumptionError:
        return None


def run_band(run: Run) -> RocBand:
    """The confidence band of the curve; empty with a reason where too few positives or groups were judged."""
    data = run.evaluation
    return roc_spu_band(
        data.judged_soft_label,
        run.judged_score,
        level=data.level,
        sample_weight=data.judged_weight,
        groups=data.judged_groups,
    )


def run_calibration(run: Run) -> pd.DataFrame | None:
    """Mean score beside mean soft label in groups of equal size; None where scores are not between 0 and 1."""
    score = run.judged_score
    if score.min() < 0.0 or score.max() > 1.0:
        return None
    return calibration_to_soft_label(run.evaluation.judged_soft_label, score)


def mean_soft_label(run: Run) -> float:
    """E[S] over the judged rows."""
    return float(np.average(run.evaluation.judged_soft_label, weights=run.evaluation.judged_weight))


def segment_values(values: pd.Series) -> pd.Series:
    """The segment of each row by one column: quarters of a number, else the most frequent levels.

    >>> segment_values(pd.Series([1.0, 2.0, 3.0, 4.0, None])).tolist()
    ['1 to 1.75', '1.75 to 2.5', '2.5 to 3.25', '3.25 to 4', 'missing']
    """
    missing = values.isna()
    numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if numeric and values.nunique() > 3:
        named = _quarters(values)
    else:
        text = values.astype(str)
        frequent = text[~missing].value_counts().index[:MOST_SEGMENTS]
        named = text.where(text.isin(frequent), "other")
    return named.mask(missing, "missing")


def segment_intervals(run: Run, segments: pd.Series) -> dict[str, Interval | None]:
    """AUC_SPU within each part of the table, as a mean over folds; None where a part lacks one kind of mass."""
    names, judged = segments.to_numpy(), run.evaluation.judged
    found: dict[str, Interval | None] = {}
    for name in pd.unique(names[judged]):
        rows = judged & (names == name)
        found[str(name)] = folded_interval(run.evaluation.soft_label, run.need_score(), run.evaluation.only(rows))
    return dict(sorted(found.items(), key=lambda entry: _first_number(entry[0])))


def segment_table(run: Run, segments: pd.Series, threshold: float) -> pd.DataFrame:
    """A row for each part: rows, mean soft label, AUC_SPU with bounds, and the share that a threshold flags."""
    names, evaluation = segments.to_numpy(), run.evaluation
    lines = []
    for name, interval in segment_intervals(run, segments).items():
        rows = evaluation.judged & (names == name)
        lines.append(
            {
                "segment": name,
                "rows": int(rows.sum()),
                "mean_soft_label": float(evaluation.soft_label[rows].mean()),
                "auc_spu": np.nan if interval is None else interval.estimate,
                "low": np.nan if interval is None else interval.low,
                "high": np.nan if interval is None else interval.high,
                "warning": None if interval is None else interval.warning,
                "flagged_share": float((run.need_score()[rows] > threshold).mean()),
            }
        )
    return pd.DataFrame(lines)


def _quarters(values: pd.Series) -> pd.Series:
    edges = np.unique(np.nanquantile(values.to_numpy(dtype=np.float64), [0.0, 0.25, 0.5, 0.75, 1.0]))
    place = np.searchsorted(edges[1:-1], values.to_numpy(dtype=np.float64), side="left")
    names = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)] or ["all"]
    return pd.Series([names[min(at, len(names) - 1)] for at in place], index=values.index)


def _first_number(name: str) -> tuple[int, float, str]:
    """Ranges in the order of their numbers, other names after them by the alphabet."""
    try:
        return 0, float(name.split(" to ")[0]), name
    except ValueError:
        return 1, 0.0, name


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
