"""Refined soft labels: what labels and rules together believe, as a second S to judge by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.training.candidate import Candidate
from spu_core.training.config import TrainConfig
from spu_core.training.fitting import CandidateFitter, Fit, fit_all_rows
from spu_core.training.progress import Reporter, TrainProgress
from spu_core.training.rows import PreparedData, prepare_rows
from spu_core.training.run import Run

REFINER = Candidate("fused")


def refine_soft_labels(
    table: Table,
    soft_labels: SoftLabels,
    config: TrainConfig | None = None,
    *,
    on_progress: Callable[[TrainProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> SoftLabels:
    """The posterior q of the fused method in place of S: 1 for confirmed positives, else labels and rules decide.

    The fused method is fitted once on all rows; the scores behind q are cross-fitted inside it. Nothing that was built
    from q may be judged by it.
    """
    config = config or TrainConfig()
    refuse_refined(soft_labels)
    data = prepare_rows(table, soft_labels, config)
    value = refined_value(data, fit_for_refining(data, config, refining_reporter(on_progress, should_stop)))
    return SoftLabels(
        value,
        soft_labels.rule_score,
        soft_labels.is_labeled,
        tuple(soft_labels.rule_columns),
        refined_from=np.asarray(soft_labels.value, dtype=np.float64),
    )


def refuse_refined(soft_labels: SoftLabels) -> None:
    if soft_labels.is_refined:
        raise TrainingError("These soft labels are refined already; refine the analyst's own.")


def refining_reporter(
    on_progress: Callable[[TrainProgress], None] | None, should_stop: Callable[[], bool] | None
) -> Reporter:
    return Reporter(["refined soft labels"], 1, on_progress, should_stop)


def fit_for_refining(data: PreparedData, config: TrainConfig, reporter: Reporter) -> Fit:
    """The fused method on all rows."""
    return fit_all_rows(CandidateFitter(REFINER, config, reporter), data.rows, step="refining")[0]


def refined_value(data: PreparedData, fit: Fit) -> np.ndarray:
    """The refined soft label of each row."""
    posterior = fit.model.refined_soft_label
    assert posterior is not None, "a fused model that was just fitted has its posterior"
    return np.where(data.rows.is_labeled, 1.0, np.clip(posterior, 0.0, 1.0))


def with_refined(runs: Sequence[Run], refined: SoftLabels) -> list[Run]:
    """The same runs with AUC_SPU on refined S among their figures, except for runs that were built from it."""
    if not refined.is_refined:
        raise TrainingError("with_refined needs the result of refine_soft_labels; use runs_on for other soft labels.")
    for run in runs:
        if run.fold.size != refined.value.size:
            raise TrainingError(
                f"{run.name!r} has scores of {run.fold.size:,} rows, "
                f"but there are {refined.value.size:,} refined labels."
            )
    return [run.judged_by(replace(run.evaluation, refined=refined.value)) for run in runs]
