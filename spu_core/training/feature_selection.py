"""Feature selection by metrics that need no truth (Section 8 of the paper proposes it).

Every set of columns is cross-fitted on the same folds and compared with all columns, row by row. First each column is
left out (or used) alone, which gives an order; then columns are dropped (or added) in that order. The recommended set
is the smallest one that is shown to lose less than a margin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice, check_share
from spu_core.codec import JsonFields
from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.metrics import Difference, Interval
from spu_core.models.features import Features, FeatureStore
from spu_core.tables import Table
from spu_core.training.config import Candidate, TrainConfig
from spu_core.training.cross_fitting import (
    executor_for,
    fit_for_refining,
    iter_cross_fit,
    refined_value,
    refining_reporter,
)
from spu_core.training.evaluation import EvaluationData, FoldedAuc, folded_auc, interval_of, paired_difference
from spu_core.training.fitting import TrainProgress, settings_from
from spu_core.training.rows import prepare_rows

METRICS = {
    "auc_spu": "AUC_SPU",
    "known_positive_auc": "known-positive AUC",
    "refined_auc_spu": "AUC_SPU on refined soft labels",
}
# Direction → what `single` shows.
DIRECTIONS = {"drop": "Each column left out", "add": "Each column alone"}
MOST_COLUMNS = 200
# Sizes that the path visits: all of few columns, else so many, closer together where there are few columns left.
MOST_STEPS = 12
CAVEAT = (
    "The set was chosen on the rows that it is measured on, so its figures are a little too good. AUC_SPU also rewards "
    "columns that only repeat the rules; known-positive AUC does not."
)

OnShare = Callable[[float, str], None]


@dataclass(frozen=True, eq=False)
class ColumnSet:
    """A model that saw only these columns: its figures, and each minus that of all columns.

    `changed` is the column that was left out, or used alone; None for a set with several changes.
    """

    columns: tuple[str, ...]
    figures: Mapping[str, Interval]
    differences: Mapping[str, Difference]
    changed: str | None = None

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={found.estimate:.3f}" for name, found in self.figures.items())
        return f"ColumnSet({len(self.columns)} columns, {shown})"


@dataclass(frozen=True, eq=False)
class FeatureSelection(JsonFields):
    """Which columns a model needs.

    Attributes
    ----------
    metric : str
        The figure that decides.
    direction : {"drop", "add"}
        Whether columns were dropped from all of them, or added to none.
    margin : float
        The loss of the metric that is accepted.
    all_columns : ColumnSet
        The model with every column.
    single : tuple of ColumnSet
        Each column left out (or used) alone, the least useful first when dropping, the most useful first when adding.
    path : tuple of ColumnSet
        Sets of decreasing (or increasing) size, in the order of `single`.
    """

    json_form = "The selection", TrainingError, {}

    metric: str
    direction: str
    margin: float
    all_columns: ColumnSet
    single: tuple[ColumnSet, ...]
    path: tuple[ColumnSet, ...]

    @property
    def chosen(self) -> ColumnSet:
        """The smallest set whose loss is below the margin with confidence; all columns if there is none."""
        good = [each for each in self.path if each.differences[self.metric].low > -self.margin]
        return min(good, key=lambda each: len(each.columns), default=self.all_columns)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The columns that the recommended set does without."""
        kept = set(self.chosen.columns)
        return tuple(name for name in self.all_columns.columns if name not in kept)

    @property
    def sentence(self) -> str:
        """The recommendation."""
        chosen, whole = self.chosen, self.all_columns
        if chosen is whole:
            return (
                f"Keep all {len(whole.columns)} columns: no smaller set is shown to lose less than {self.margin:g} in "
                f"{METRICS[self.metric]}."
            )
        change = chosen.differences[self.metric]
        words = (
            f"{len(chosen.columns)} of {len(whole.columns)} columns are enough: {METRICS[self.metric]} changes by "
            f"{change.estimate:+.3f} (from {change.low:+.3f} to {change.high:+.3f})."
        )
        labels = chosen.differences.get("known_positive_auc")
        if self.metric != "known_positive_auc" and labels is not None and labels.high < 0:
            words += f" But confirmed cases are ranked worse ({labels.estimate:+.3f}), so check the dropped columns."
        return words

    def table(self, part: str = "path") -> pd.DataFrame:
        """One row per set of `single` or `path`: its columns, figures, differences and their intervals."""
        check_choice(part, ("single", "path"), "part", TrainingError)
        return pd.DataFrame([_row(each) for each in getattr(self, part)])


def select_features(
    table: Table,
    soft_labels: SoftLabels,
    candidate: Candidate | str = "lightgbm",
    config: TrainConfig | None = None,
    *,
    metric: str = "auc_spu",
    direction: str = "drop",
    margin: float = 0.005,
    n_jobs: int = 1,
    on_progress: OnShare | None = None,
) -> FeatureSelection:
    """Find the columns that a model needs, by figures that need no truth.

    Parameters
    ----------
    table : Table
        The rows.
    soft_labels : SoftLabels
        A soft label for each row.
    candidate : Candidate or str, default "lightgbm"
        The model. Only columns that it sees take part: by default a soft-label method does not see those of the rules.
    config : TrainConfig, optional
        How to train; the defaults of `TrainConfig` if not given.
    metric : {"auc_spu", "known_positive_auc", "refined_auc_spu"}
        The figure that decides; the others are reported beside it.
    direction : {"drop", "add"}
        Drop columns from all of them, or add them to none.
    margin : float, default 0.005
        The loss of the metric that is accepted.
    n_jobs : int, default 1
        How many processes do the fits; −1 for all processors.
    on_progress : callable, optional
        Called often with the share that is done and a text. An exception that it raises ends the selection.

    Returns
    -------
    FeatureSelection

    Raises
    ------
    TrainingError
        If the candidate sees fewer than two columns or more than 200, cannot be trained, or the metric does not exist
        for it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(rng.random((600, 3)), columns=["useful", "noise", "more noise"])
    >>> soft_labels = SoftLabels.from_values(np.clip(frame["useful"], 0, 1), np.zeros(600, dtype=bool))
    >>> table = Table.from_frame(frame, roles=dict.fromkeys(frame, "feature"))
    >>> select_features(table, soft_labels, Candidate("logistic"), margin=0.02).chosen.columns
    ('useful',)
    """
    candidate = Candidate(candidate) if isinstance(candidate, str) else candidate
    check_choice(metric, METRICS, "metric", TrainingError)
    check_choice(direction, DIRECTIONS, "direction", TrainingError)
    check_share(margin, "margin", TrainingError, closed=True)
    sets = ColumnSets(table, soft_labels, candidate, config or TrainConfig(), n_jobs, on_progress or (lambda *_: None))
    return sets.selection(metric, direction, margin)


class ColumnSets:
    """Cross-fits a candidate on sets of columns, each set once."""

    def __init__(
        self,
        table: Table,
        soft_labels: SoftLabels,
        candidate: Candidate,
        config: TrainConfig,
        n_jobs: int,
        on_progress: OnShare,
    ) -> None:
        self.table, self.soft_labels, self.candidate, self.config = table, soft_labels, candidate, config
        self.n_jobs, self.on_progress = n_jobs, on_progress
        self.columns = _seen(table, soft_labels, candidate, config)
        self.data = prepare_rows(table, soft_labels, config)
        self.refined = self._refined()
        self._aucs: dict[frozenset[str], dict[str, FoldedAuc]] = {}
        # The first set of the path is one of those with a single change.
        self._steps = len(self.columns) + len(ladder(len(self.columns)))

    def selection(self, metric: str, direction: str, margin: float) -> FeatureSelection:
        """The selection by one metric; sets that were fitted before are not fitted again."""
        names = self.columns
        if metric not in self._fitted(names):
            raise TrainingError(
                f"There is no {METRICS[metric]} for {self.candidate.name!r}: it needs confirmed cases, and refined "
                "soft labels cannot judge the fused method, which they are built from."
            )
        if direction == "drop":
            single = [self._set([name for name in names if name != left_out], left_out) for left_out in names]
        else:
            single = [self._set([name], name) for name in names]
        single.sort(key=lambda each: -each.figures[metric].estimate)
        order = [each.changed for each in single]
        sizes = ladder(len(names))
        if direction == "drop":
            sizes = sizes[::-1]
            order = order[::-1]  # the most useful one first
        path = [self._set([name for name in names if name in order[:size]]) for size in sizes]
        return FeatureSelection(metric, direction, margin, self._set(names), tuple(single), tuple(path))

    def _set(self, columns: Sequence[str], changed: str | None = None) -> ColumnSet:
        own, whole, level = self._fitted(columns), self._fitted(self.columns), self.config.level
        figures = {name: interval_of(found, level) for name, found in own.items()}
        differences = {
            name: paired_difference(found, whole[name], level) for name, found in own.items() if name in whole
        }
        return ColumnSet(tuple(columns), figures, differences, changed)

    def _fitted(self, columns: Sequence[str]) -> dict[str, FoldedAuc]:
        key = frozenset(columns)
        if key not in self._aucs:
            done = len(self._aucs)
            words = f"{len(key)} of {len(self.columns)} columns"

            def tell(at: TrainProgress) -> None:
                self.on_progress(min((done + at.share) / self._steps, 1.0), words)

            self._aucs[key] = self._cross_fitted(key, tell)
        return self._aucs[key]

    def _cross_fitted(self, columns: frozenset[str], tell: Callable[[TrainProgress], None]) -> dict[str, FoldedAuc]:
        whole = self.data.rows.features
        kept = np.array([name in columns for name in whole.names], dtype=bool)
        # A store of its own: the bins of many sets would fill the memory.
        own = Features(FeatureStore(whole.store.matrix, whole.store.columns), whole.rows, whole.active[kept])
        data = replace(self.data, rows=replace(self.data.rows, features=own))
        given = (self.table, self.soft_labels, [self.candidate], self.config)
        with executor_for(self.n_jobs, self.config) as executor:
            (run,) = iter_cross_fit(*given, on_progress=tell, executor=executor, data=data)
        if run.error is not None:
            raise TrainingError(f"{run.name!r} cannot be trained on {', '.join(sorted(columns))}: {run.error}")
        return _aucs(run.need_score(), run.evaluation, self.refined)

    def _refined(self) -> np.ndarray | None:
        if self.candidate.method == "fused" or int(self.table.is_labeled.sum()) < 2:
            return None
        return refined_value(self.data, fit_for_refining(self.data, self.config, refining_reporter(None, None)))


def ladder(columns: int) -> list[int]:
    """The sizes of the sets on the path, from few columns to all but one.

    >>> ladder(5), ladder(100)
    ([1, 2, 3, 4], [1, 2, 4, 5, 8, 12, 19, 28, 43, 65, 99])
    """
    if columns <= MOST_STEPS + 1:
        return list(range(1, columns))
    return np.unique(np.geomspace(1, columns - 1, MOST_STEPS).round().astype(int)).tolist()


def _seen(table: Table, soft_labels: SoftLabels, candidate: Candidate, config: TrainConfig) -> tuple[str, ...]:
    """The columns that the candidate sees."""
    settings = candidate.entry.complete({**settings_from(config, candidate), **candidate.settings})
    hidden = () if settings["keep_rule_columns"] else soft_labels.rule_columns
    names = tuple(name for name in table.features if name not in hidden)
    if not 2 <= len(names) <= MOST_COLUMNS:
        raise TrainingError(
            f"{candidate.name!r} sees {len(names)} columns; features can be selected among 2 to {MOST_COLUMNS}."
        )
    return names


def _aucs(score: np.ndarray, evaluation: EvaluationData, refined: np.ndarray | None) -> dict[str, FoldedAuc]:
    labels = evaluation.is_labeled.astype(np.float64)
    found = {
        "auc_spu": folded_auc(evaluation.soft_label, score, evaluation),
        "known_positive_auc": folded_auc(labels, score, evaluation.only(evaluation.positives_rows)),
        "refined_auc_spu": None if refined is None else folded_auc(refined, score, evaluation),
    }
    return {name: value for name, value in found.items() if value is not None}


def _row(each: ColumnSet) -> dict[str, Any]:
    row: dict[str, Any] = {"column": each.changed, "columns": len(each.columns), "names": ", ".join(each.columns)}
    for name, found in each.figures.items():
        row[name] = found.estimate
        if name in each.differences:
            change = each.differences[name]
            row |= {f"{name}_change": change.estimate, f"{name}_low": change.low, f"{name}_high": change.high}
    return row
