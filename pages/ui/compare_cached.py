"""Cached calls of the engine: runs and how they compare.

A stored run never changes, so its id is the key; the S it is judged by is a version of a rule set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from pages.ui.soft_label_cached import soft_labels
from pages.ui.table_cached import whole
from spu_core.engines.stored_runs import (
    column_values,
    compare_on,
    shuffled_columns,
    soft_labels_by,
    stored_bundle,
    stored_runs,
)
from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.metrics import Interval, RocBand, RocSpu
from spu_core.theory import ScarLink
from spu_core.training import (
    Comparison,
    Run,
    ceiling_curve,
    gain_importance,
    mean_soft_label,
    perfect_link,
    run_curve,
    segment_intervals,
    segment_table,
    segment_values,
    sketch,
    soft_sum,
)
from spu_core.training import run_band as band_of_run
from spu_core.training import run_calibration as calibration_of_run
from spu_core.workspace import DatasetRecord, RuleSetVersion, Workspace


@dataclass(frozen=True, eq=False)
class RunViews:
    """What the charts of a comparison need: whole curves, sketches of them to draw, and the ceiling."""

    whole: dict[str, RocSpu]
    curves: dict[str, RocSpu]
    ceiling: RocSpu
    soft_sum: float
    mean_soft_label: float
    perfect: ScarLink | None


@dataclass(frozen=True, eq=False)
class SegmentView:
    """AUC_SPU within parts of the table, as intervals and as a table."""

    intervals: dict[str, Interval | None]
    table: pd.DataFrame


def comparison(
    workspace: Workspace, dataset: DatasetRecord, runs: tuple[tuple[str, str], ...], rules: RuleSetVersion | None
) -> Comparison:
    """Runs side by side on one S; `runs` are pairs of id and the name to show."""
    return _comparison(*_judged_key(workspace, dataset, rules), runs, dataset, rules, workspace)


def run_views(
    workspace: Workspace, dataset: DatasetRecord, runs: tuple[tuple[str, str], ...], rules: RuleSetVersion | None
) -> RunViews:
    """The curves of the same runs."""
    return _run_views(*_judged_key(workspace, dataset, rules), runs, dataset, rules, workspace)


def run_band(
    workspace: Workspace, dataset: DatasetRecord, run: Run, token: str, rules: RuleSetVersion | None
) -> RocBand:
    """The confidence band of the curve of a judged run."""
    return _run_band(*_judged_key(workspace, dataset, rules), token, run)


def run_calibration(
    workspace: Workspace, dataset: DatasetRecord, run: Run, token: str, rules: RuleSetVersion | None
) -> pd.DataFrame | None:
    """Mean score beside mean soft label of a judged run."""
    return _run_calibration(*_judged_key(workspace, dataset, rules), token, run)


def segments(
    workspace: Workspace,
    dataset: DatasetRecord,
    run: Run,
    part: tuple[str, str, float],
    rules: RuleSetVersion | None,
) -> SegmentView:
    """AUC_SPU by the values of a column; `part` is (id of the run, column, threshold)."""
    return _segments(*_judged_key(workspace, dataset, rules), part, dataset, run, workspace)


def gains(workspace: Workspace, token: str) -> pd.DataFrame | None:
    """The gain of each column in the trees of a run; None where it has no trees."""
    return _gains(str(workspace.folder), token, workspace)


def shuffled(
    workspace: Workspace, dataset: DatasetRecord, run: Run, token: str, rules: RuleSetVersion | None
) -> pd.DataFrame:
    """How far AUC_SPU falls when a column is shuffled; trains one fold again."""
    return _shuffled(*_judged_key(workspace, dataset, rules), token, dataset, run, rules, workspace)


def _judged_key(
    workspace: Workspace, dataset: DatasetRecord, rules: RuleSetVersion | None
) -> tuple[str, str, int, str]:
    return str(workspace.folder), dataset.id, dataset.version, "" if rules is None else rules.sha256


@st.cache_resource(max_entries=24, show_spinner="Loading the runs …")
def _run(folder: str, token: str, _workspace: Workspace) -> Run:
    return stored_runs(_workspace, [token])[0]


@st.cache_resource(max_entries=8, show_spinner="Comparing the runs …")
def _comparison(
    folder: str,
    dataset: str,
    version: int,
    sha256: str,
    runs: tuple[tuple[str, str], ...],
    _dataset: DatasetRecord,
    _rules: RuleSetVersion | None,
    _workspace: Workspace,
) -> Comparison:
    named = [replace(_run(folder, token, _workspace), name=name) for token, name in runs]
    return compare_on(named, _judges(_workspace, _dataset, _rules))


def _judges(workspace: Workspace, dataset: DatasetRecord, rules: RuleSetVersion | None) -> SoftLabels:
    if rules is not None and dataset.folder is None:
        return soft_labels(workspace, dataset, rules.text)
    return soft_labels_by(whole(workspace, dataset), rules)


@st.cache_resource(max_entries=8, show_spinner="Drawing the curves …")
def _run_views(
    folder: str,
    dataset: str,
    version: int,
    sha256: str,
    runs: tuple[tuple[str, str], ...],
    _dataset: DatasetRecord,
    _rules: RuleSetVersion | None,
    _workspace: Workspace,
) -> RunViews:
    compared = _comparison(folder, dataset, version, sha256, runs, _dataset, _rules, _workspace)
    scored = [run for run in compared.runs if run.score is not None]
    whole = {run.name: run_curve(run) for run in scored}
    return RunViews(
        whole=whole,
        curves={name: sketch(curve) for name, curve in whole.items()},
        ceiling=sketch(ceiling_curve(scored[0])),
        soft_sum=soft_sum(scored[0]),
        mean_soft_label=mean_soft_label(scored[0]),
        perfect=perfect_link(scored[0]),
    )


@st.cache_resource(max_entries=32, show_spinner=False)
def _run_band(folder: str, dataset: str, version: int, sha256: str, token: str, _run: Run) -> RocBand:
    return band_of_run(_run)


@st.cache_resource(max_entries=64, show_spinner=False)
def _run_calibration(
    folder: str, dataset: str, version: int, sha256: str, token: str, _run: Run
) -> pd.DataFrame | None:
    return calibration_of_run(_run)


@st.cache_resource(max_entries=32, show_spinner="Looking at the segments …")
def _segments(
    folder: str,
    dataset: str,
    version: int,
    sha256: str,
    part: tuple[str, str, float],
    _dataset: DatasetRecord,
    _run: Run,
    _workspace: Workspace,
) -> SegmentView:
    values = segment_values(column_values(whole(_workspace, _dataset), part[1]))
    return SegmentView(segment_intervals(_run, values), segment_table(_run, values, part[2]))


@st.cache_resource(max_entries=32, show_spinner="Reading the trees …")
def _gains(folder: str, token: str, _workspace: Workspace) -> pd.DataFrame | None:
    try:
        return gain_importance(stored_bundle(_workspace, token).fitted)
    except TrainingError:
        return None


@st.cache_resource(max_entries=16, show_spinner="Training one fold again, then shuffling …")
def _shuffled(
    folder: str,
    dataset: str,
    version: int,
    sha256: str,
    token: str,
    _dataset: DatasetRecord,
    _run: Run,
    _rules: RuleSetVersion | None,
    _workspace: Workspace,
) -> pd.DataFrame:
    return shuffled_columns(_run, whole(_workspace, _dataset), _judges(_workspace, _dataset, _rules))
