"""Cached calls about stored runs: their comparison, curves and details.

A stored run never changes, so its id is its key. The soft labels that evaluate it come from a version of a rule set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from pages.ui.shared.cached import cache_result, load_all_rows, make_soft_labels
from spu_core.engines.audit_results import verdict_state, with_audit
from spu_core.engines.stored_runs import (
    compare_on,
    shuffled_columns,
    soft_labels_by,
    stored_bundle,
    stored_runs,
)
from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.metrics import Interval, RocBand, RocSpu
from spu_core.models.methods import FusedModel
from spu_core.tables.samples import sample_of, sample_truth
from spu_core.theory import ScarLink
from spu_core.training import (
    Comparison,
    Recommendation,
    ReviewCurve,
    Run,
    auc_figures,
    ceiling_curve,
    gain_importance,
    mean_soft_label,
    perfect_link,
    recommend,
    review_curve,
    segment_intervals,
    segment_table,
    segment_values,
    sketch,
    true_aucs,
)
from spu_core.training import run_band as band_of_run
from spu_core.training import run_calibration as calibration_of_run
from spu_core.workspace import DatasetRecord, RuleSetVersion, Workspace


@dataclass(frozen=True, eq=False)
class RunViews:
    """What the charts of a comparison need: reviews, thinned curves to draw, the ceiling, and AUCs by their titles."""

    reviews: dict[str, ReviewCurve]
    curves: dict[str, RocSpu]
    ceiling: RocSpu
    figures: dict[str, dict[str, Interval]]
    mean_soft_label: float
    perfect: ScarLink | None


@dataclass(frozen=True, eq=False)
class SegmentView:
    """AUC_SPU within parts of the table, as intervals and as a table."""

    intervals: dict[str, Interval | None]
    table: pd.DataFrame


@cache_result(24, "Loading the runs …")
def load_run(workspace: Workspace, token: str) -> Run:
    """A stored run with its out-of-fold scores."""
    return stored_runs(workspace, [token])[0]


def judging_soft_labels(workspace: Workspace, dataset: DatasetRecord, rules: RuleSetVersion | None) -> SoftLabels:
    """The soft labels that evaluate runs: those of the rules, or of the table itself where there are no rules."""
    if rules is not None and dataset.folder is None:
        return make_soft_labels(workspace, dataset, rules.text)
    return soft_labels_by(load_all_rows(workspace, dataset), rules)


@cache_result(8, "Comparing the runs …")
def compare_stored_runs(
    workspace: Workspace, dataset: DatasetRecord, runs: tuple[tuple[str, str], ...], rules: RuleSetVersion | None
) -> Comparison:
    """Runs compared by the same soft labels; `runs` are pairs of id and displayed name."""
    named = [replace(load_run(workspace, token), name=name) for token, name in runs]
    return compare_on(named, judging_soft_labels(workspace, dataset, rules))


def recommendation_of(
    workspace: Workspace,
    dataset: DatasetRecord,
    runs: tuple[tuple[str, str], ...],
    rules: RuleSetVersion | None,
    origin: str,
) -> Recommendation:
    """Which of the same runs to use; `origin` says how the confirmed cases were found."""
    return _recommendation(workspace, dataset, runs, rules, origin, verdict_state(workspace, dataset))


@cache_result(16, "Comparing the runs …")
def _recommendation(
    workspace: Workspace,
    dataset: DatasetRecord,
    runs: tuple[tuple[str, str], ...],
    rules: RuleSetVersion | None,
    origin: str,
    verdicts: str,
) -> Recommendation:
    comparison = compare_stored_runs(workspace, dataset, runs, rules)
    return recommend(with_audit(workspace, dataset, comparison), origin=origin)


@cache_result(8, "Drawing the curves …")
def run_views(
    workspace: Workspace,
    dataset: DatasetRecord,
    runs: tuple[tuple[str, str], ...],
    rules: RuleSetVersion | None,
    order: tuple[str, ...],
) -> RunViews:
    """The curves and figures of the same runs, in the order of the recommendation."""
    compared = compare_stored_runs(workspace, dataset, runs, rules)
    scored = [run for run in compared.runs if run.score is not None]
    reviews = {run.name: review_curve(run) for run in scored}
    return RunViews(
        reviews=reviews,
        curves={name: sketch(review.curve) for name, review in reviews.items()},
        ceiling=sketch(ceiling_curve(scored[0])),
        figures=auc_figures(compared, order),
        mean_soft_label=mean_soft_label(scored[0]),
        perfect=perfect_link(scored[0]),
    )


@cache_result(32)
def sample_name(workspace: Workspace, dataset: DatasetRecord) -> str | None:
    """The sample that a dataset is; None for other data."""
    return sample_of(load_all_rows(workspace, dataset))


@cache_result(8, "Revealing the truth …")
def revealed_aucs(
    workspace: Workspace,
    dataset: DatasetRecord,
    runs: tuple[tuple[str, str], ...],
    rules: RuleSetVersion | None,
    sample: str,
) -> dict[str, Interval]:
    """True AUC of the same runs by the truth of a sample."""
    return true_aucs(compare_stored_runs(workspace, dataset, runs, rules).runs, sample_truth(sample))


@cache_result(32)
def run_band(
    workspace: Workspace, dataset: DatasetRecord, _run: Run, token: str, rules: RuleSetVersion | None
) -> RocBand:
    """The confidence band of the curve of a run; `token` is its id."""
    return band_of_run(_run)


@cache_result(64)
def run_calibration(
    workspace: Workspace, dataset: DatasetRecord, _run: Run, token: str, rules: RuleSetVersion | None
) -> pd.DataFrame | None:
    """Mean score and mean soft label of a run, by bins of the score."""
    return calibration_of_run(_run)


@cache_result(32, "Looking at the segments …")
def run_segments(
    workspace: Workspace,
    dataset: DatasetRecord,
    _run: Run,
    token: str,
    rules: RuleSetVersion | None,
    column: str,
    threshold: float,
) -> SegmentView:
    """AUC_SPU of a run by the values of a column, and the share of each segment above the threshold."""
    values = segment_values(load_all_rows(workspace, dataset).values(column))
    return SegmentView(segment_intervals(_run, values), segment_table(_run, values, threshold))


@cache_result(32, "Reading the trees …")
def tree_gains(workspace: Workspace, token: str) -> pd.DataFrame | None:
    """The gain of each column in the trees of a run; None where it has no trees."""
    try:
        return gain_importance(stored_bundle(workspace, token).fitted)
    except TrainingError:
        return None


@cache_result(32)
def stack_weights(workspace: Workspace, token: str) -> dict[str, float] | None:
    """The weights of the ingredients of a fused run; None for other methods."""
    model = stored_bundle(workspace, token).fitted.model
    return model.stack_weights if isinstance(model, FusedModel) else None


@cache_result(16, "Training one fold again, then shuffling …")
def shuffle_columns(
    workspace: Workspace, dataset: DatasetRecord, _run: Run, token: str, rules: RuleSetVersion | None
) -> pd.DataFrame:
    """How far AUC_SPU falls when a column is shuffled; trains one fold again."""
    labels = judging_soft_labels(workspace, dataset, rules)
    return shuffled_columns(_run, load_all_rows(workspace, dataset), labels)
