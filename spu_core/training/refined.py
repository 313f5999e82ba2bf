"""Refined soft labels: what labels and rules together believe, as a second S to judge by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.tables import Table, TableFolder
from spu_core.training.candidate import Candidate
from spu_core.training.config import TrainConfig
from spu_core.training.fitting import Fitter
from spu_core.training.progress import Reporter, Span, TrainProgress
from spu_core.training.rows import prepare_rows
from spu_core.training.run import Run


@dataclass(frozen=True, eq=False)
class RefinedLabels(SoftLabels):
    """The fused posterior q in place of S: 1 for confirmed positives, else how likely labels and rules together think.

    The scores behind q are cross-fitted inside the fused method. Nothing that was built from q may be judged by it.
    """

    is_refined: ClassVar[bool] = True


def refine_soft_labels(
    table: Table | TableFolder,
    soft_labels: SoftLabels,
    config: TrainConfig | None = None,
    *,
    on_progress: Callable[[TrainProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> RefinedLabels:
    """Fit the fused method once on all rows and keep its posterior."""
    config, fused = config or TrainConfig(), Candidate("fused")
    if getattr(soft_labels, "is_refined", False):
        raise TrainingError("These soft labels are refined already; refine the analyst's own.")
    rows = prepare_rows(table, soft_labels, config)
    reporter = Reporter(["refined soft labels"], 1, on_progress, should_stop)
    fit = Fitter(fused, config, reporter).fit_as_is(rows.evidence, Span(), "refining")
    posterior = getattr(fit.model, "refined_soft_label", None)
    assert posterior is not None, "a fused model that was just fitted knows its posterior"
    value = np.where(rows.evidence.is_labeled, 1.0, np.clip(posterior, 0.0, 1.0))
    return RefinedLabels(value, soft_labels.rule_score, soft_labels.is_labeled, tuple(soft_labels.rule_columns))


def with_refined(runs: Sequence[Run], refined: RefinedLabels) -> list[Run]:
    """The same runs with AUC_SPU on refined S among their figures, but for what was built from it."""
    if not getattr(refined, "is_refined", False):
        raise TrainingError("with_refined wants what refine_soft_labels returned; use runs_on for other soft labels.")
    for run in runs:
        if run.fold.size != refined.value.size:
            raise TrainingError(
                f"{run.name!r} has scores of {run.fold.size:,} rows, "
                f"but there are {refined.value.size:,} refined labels."
            )
    return [run.judged_by(replace(run.basis, refined=refined.value)) for run in runs]
