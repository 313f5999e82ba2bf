"""What can be shown of a run: curve, band, gains, agreement with S, segments, and what a threshold means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from spu_core.errors import AssumptionError
from spu_core.metrics import (
    Interval,
    OperatingPoint,
    RocBand,
    RocSpu,
    calibration_to_soft_label,
    roc_spu,
    roc_spu_band,
    roc_spu_ceiling,
)
from spu_core.models.methods import FusedModel
from spu_core.theory import ScarLink
from spu_core.training.comparison import Comparison
from spu_core.training.evaluation import folded_interval
from spu_core.training.run import FittedCandidate, Run

MOST_SEGMENTS = 12
COMPONENTS = (
    "Learnt from confirmed cases, trees",
    "Learnt from confirmed cases, linear",
    "Learnt from the rules, trees",
    "Learnt from the rules, linear",
    "The rules themselves",
)


@dataclass(frozen=True, slots=True)
class ReviewPoint:
    """An operating point for a reviewer: `soft_sum` is the sum of S among the flagged rows.

    `soft_sum` counts expected positives only if S is right on average; `mean_soft_label` is its share of the flagged.
    """

    point: OperatingPoint
    soft_sum: float
    total: float

    @property
    def mean_soft_label(self) -> float:
        """Mean S of the flagged rows; NaN where none is flagged."""
        return self.soft_sum / self.point.flagged if self.point.flagged else float("nan")


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


def component_weights(fitted: FittedCandidate) -> pd.DataFrame | None:
    """The weight of each component in the stack of a fused model; None for other methods."""
    if not isinstance(fitted.model, FusedModel):
        return None
    weight = fitted.model.weight[1:]
    return pd.DataFrame({"component": COMPONENTS[: weight.size], "weight": weight})


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


def soft_sum(run: Run) -> float:
    """ΣS over the judged rows, weighted where rows have weights."""
    value, weight = run.evaluation.judged_soft_label, run.evaluation.judged_weight
    return float(value.sum() if weight is None else (value * weight).sum())


def mean_soft_label(run: Run) -> float:
    """E[S] over the judged rows."""
    return float(np.average(run.evaluation.judged_soft_label, weights=run.evaluation.judged_weight))


def review_point(total: float, point: OperatingPoint) -> ReviewPoint:
    """How many expected positives a reviewer finds at this point of a curve; `total` is ΣS of its rows.

    >>> curve = roc_spu([1.0, 0.5, 0.0], [0.9, 0.4, 0.1])
    >>> found = review_point(1.5, curve.at_budget(2))
    >>> found.soft_sum, found.mean_soft_label
    (1.5, 0.75)
    """
    return ReviewPoint(point, point.tpr * total, total)


def finite_point(curve: RocSpu, point: OperatingPoint) -> OperatingPoint:
    """The same point with a threshold that can be stored: the highest score flags nothing too, and just below the
    lowest everything is flagged.

    >>> curve = roc_spu([1.0, 0.5, 0.0], [0.9, 0.4, 0.1])
    >>> finite_point(curve, curve.at_budget(0)).threshold, finite_point(curve, curve.at_budget(3)).flagged
    (0.9, 3.0)
    """
    lowest = float(np.nextafter(curve.score[-1], -np.inf))
    return curve.at_threshold(float(np.clip(point.threshold, lowest, curve.score[0])))


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
