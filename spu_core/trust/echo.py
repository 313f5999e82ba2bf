"""Echo check: does a model add information, or does it only repeat the rules?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spu_core.codec import JsonFields
from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.metrics import Interval
from spu_core.metrics.intervals import few_units_warning
from spu_core.tables import Table
from spu_core.training import Candidate, Run, TrainConfig, TrainProgress, cross_fit
from spu_core.training.evaluation import SHARED_TRAINING, folded_auc, share_of

# A model is an echo only if it reproduces at least this share of the rules' ranking.
ECHO_SHARE = 0.9
RULE_LEVELS = 20


@dataclass(frozen=True, slots=True)
class EchoReport(JsonFields):
    """Results of one candidate trained with and without the columns that rules read.

    `reproduced` is the share of the rule score's ranking that the scores repeat (1: all of it, 0: none), with the rule
    columns and without. `beyond` is the known-positive AUC among rows with equal rule scores: ½ means that the model
    adds nothing to the rules; None means that there are too few rows.
    """

    json_form = "The echo check", TrainingError, {}

    name: str
    rows: int
    auc_spu: Interval
    auc_spu_without: Interval
    reproduced: Interval
    reproduced_without: Interval
    beyond: Interval | None
    beyond_without: Interval | None

    @property
    def is_echo(self) -> bool:
        """Whether the scores repeat the rules and add no information among rows with equal rule scores."""
        adds_nothing = self.beyond is None or self.beyond.low <= 0.5
        return self.reproduced.estimate >= ECHO_SHARE and adds_nothing

    @property
    def lost(self) -> float:
        """Loss of AUC_SPU without the rule columns."""
        return self.auc_spu.estimate - self.auc_spu_without.estimate

    @property
    def sentence(self) -> str:
        repeated = f"{self.reproduced.estimate:.0%} of the rules' ranking"
        share = f"{self.name!r} with the rule columns repeats {repeated}"
        without = f"{self.reproduced_without.estimate:.0%} without them; dropping them costs {self.lost:.3f} AUC_SPU"
        if self.is_echo:
            return f"{share} ({without}). Confirmed cases do not show that it adds anything: it is an echo."
        if self.beyond is None:
            return f"{share} ({without}). There are too few confirmed cases to see whether it adds anything."
        adds = "It adds information" if self.beyond.low > 0.5 else "It does not clearly add information"
        figure = f"known-positive AUC {self.beyond.estimate:.3f} among rows with equal rule scores"
        return f"{share} ({without}). {adds} to the rules ({figure})."


def echo_check(
    table: Table,
    soft_labels: SoftLabels,
    candidate: Candidate | str,
    config: TrainConfig | None = None,
    *,
    on_progress: Callable[[TrainProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> EchoReport:
    """Check whether a model adds information, or only repeats the rules.

    The candidate is cross-fitted with and without the columns that the rules read, on the same folds.

    Parameters
    ----------
    table : Table
        The rows.
    soft_labels : SoftLabels
        Soft labels from rules that read columns of the table.
    candidate : Candidate or str
        The method to check.
    config : TrainConfig, optional
        How to train. Default: `TrainConfig()`.
    on_progress : callable, optional
        Called regularly with a `TrainProgress`.
    should_stop : callable, optional
        Called regularly; the check ends if it returns True.

    Returns
    -------
    EchoReport

    Raises
    ------
    TrainingError
        If no rule column is a feature of the table.
    """
    candidate = Candidate(candidate) if isinstance(candidate, str) else candidate
    kept, dropped = train_pair(table, soft_labels, candidate, config, on_progress=on_progress, should_stop=should_stop)
    return EchoReport(
        candidate.name,
        len(table),
        _auc_spu(kept),
        _auc_spu(dropped),
        _reproduced(kept),
        _reproduced(dropped),
        beyond_rules(kept),
        beyond_rules(dropped),
    )


def train_pair(
    table: Table, soft_labels: SoftLabels, candidate: Candidate, config: TrainConfig | None = None, **callbacks: Any
) -> tuple[Run, Run]:
    """The same candidate with the rule columns and without them, on the same folds."""
    refuse_without_rule_columns(table, soft_labels)
    pair = [_with_columns(candidate, True), _with_columns(candidate, False)]
    kept, dropped = cross_fit(table, soft_labels, pair, config, **callbacks)
    for run in (kept, dropped):
        run.need_score()
    return kept, dropped


def beyond_rules(run: Run) -> Interval | None:
    """Known-positive AUC among rows with equal rule scores (in one bin, if there are many scores), within folds.

    None if no such set of rows has both a confirmed case and another row.
    """
    evaluation, score = run.evaluation, run.need_score()
    # Each fold has its own model, so rows are compared only within a bin of the rule score and a fold.
    cell = _level_of(evaluation.rule_score) * (int(evaluation.fold.max()) + 2) + evaluation.fold + 1
    outranking, spread_of_rest = [], []
    for number in np.unique(cell[evaluation.judged & evaluation.is_labeled]):
        rows = evaluation.judged & (cell == number)
        labeled, rest = score[rows & evaluation.is_labeled], score[rows & ~evaluation.is_labeled]
        if rest.size:
            outranking.append(_share_below(labeled, rest))
            outranked = 1.0 - _share_below(rest, labeled)
            spread_of_rest.append(labeled.size**2 * outranked.var() / rest.size)
    if not outranking:
        return None
    folds = np.unique(evaluation.fold[evaluation.judged]).size
    return _mean_with_interval(np.concatenate(outranking), sum(spread_of_rest), evaluation.level, folds)


def _mean_with_interval(outranking: np.ndarray, spread_of_rest: float, level: float, folds: int) -> Interval:
    """Mean with an interval; the variance has DeLong's two parts, of the confirmed cases and of the other rows.

    The full correction for training rows that folds share is used, since under the null hypothesis the model adds
    nothing to the rules.
    """
    count = outranking.size
    own = outranking.var(ddof=1) / count if count > 1 else np.nan
    estimate, error = float(outranking.mean()), float(np.sqrt(own + spread_of_rest / count**2))
    error *= float(np.sqrt(SHARED_TRAINING)) if folds > 1 else 1.0
    warning = few_units_warning(count, np.inf)
    return Interval.symmetric(estimate, error, level, degrees=max(1, count - 1), limits=(0.0, 1.0), warning=warning)


def _share_below(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Share of the others that each value outranks; equal scores count half."""
    others = np.sort(others)
    below, upto = (np.searchsorted(others, values, side=side) for side in ("left", "right"))
    return 0.5 * (below + upto) / others.size


def _auc_spu(run: Run) -> Interval:
    if run.metrics is None:
        raise TrainingError(f"{run.name!r} has no AUC_SPU, so it cannot be compared.")
    return run.metrics.auc_spu


def _reproduced(run: Run) -> Interval:
    """Share of the ceiling that is reached if the rule score is taken as the soft label."""
    folded = folded_auc(run.evaluation.rule_score, run.need_score(), run.evaluation)
    share = None if folded is None else share_of(folded, run.evaluation.level)
    if share is None:
        raise TrainingError("The rule score is the same in every row, so a model cannot repeat its ranking.")
    return share


def _level_of(rule_score: np.ndarray) -> np.ndarray:
    levels, code = np.unique(rule_score, return_inverse=True)
    if levels.size <= RULE_LEVELS:
        return code
    edges = np.unique(np.quantile(rule_score, np.linspace(0, 1, RULE_LEVELS + 1)[1:-1]))
    return np.searchsorted(edges, rule_score, side="right")


def _with_columns(candidate: Candidate, kept: bool) -> Candidate:
    name = f"{candidate.name}, rule columns {'kept' if kept else 'dropped'}"
    return replace(candidate, settings={**candidate.settings, "keep_rule_columns": kept}, name=name)


def refuse_without_rule_columns(table: Table, soft_labels: SoftLabels) -> None:
    """Raise an error unless the rules read some feature columns, but not all of them."""
    read = set(soft_labels.rule_columns) & set(table.features)
    if not read:
        raise TrainingError("The rules read no feature column, so no model can repeat them; the check is not needed.")
    if read == set(table.features):
        raise TrainingError(
            "The rules read every feature column, so no column is left to train without them; add other columns."
        )
