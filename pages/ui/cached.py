"""Cached engine calls: one line each. A key always names the workspace and the content, never the data itself.

Tables are shared and read-only (`cache_resource`); nothing is kept without a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import streamlit as st

from spu_core.engines.scoring_files import ScoredFile, score_upload
from spu_core.engines.stored import compare_on, shuffled_columns, soft_labels_by, stored_bundle, stored_runs
from spu_core.engines.stored_model import ExportWords, StoredModel
from spu_core.errors import BundleError, RuleError, TrainingError
from spu_core.export import Bundle, Scoring, load_bundle
from spu_core.labels import (
    PreviewBase,
    RulePreview,
    SoftLabelAudit,
    SoftLabels,
    assign_soft_labels,
    audit_soft_labels,
    leave_one_rule_out,
    preview_base,
)
from spu_core.metrics import Interval, RocBand, RocSpu
from spu_core.rules import CheckRatio, CheckRecord, ColumnChoices, Rule, RuleMatrix, RuleSet, from_checks
from spu_core.rules import column_choices as choices_of_column
from spu_core.rules.checking import refuse_errors
from spu_core.tables import Finding, Table, TableProfile
from spu_core.theory import ScarLink
from spu_core.theory.check_prior import CheckPrior
from spu_core.theory.check_ratio import CheckRatios
from spu_core.theory.prior import PriorEstimate
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
from spu_core.workspace import DatasetRecord, RuleSetVersion, RunRecord, Workspace


def table(workspace: Workspace, dataset: DatasetRecord) -> Table:
    """The table of a dataset with its current roles."""
    return _table(str(workspace.folder), dataset.id, dataset.version, workspace)


def profile(workspace: Workspace, dataset: DatasetRecord) -> TableProfile:
    """The profile of a dataset with its current roles."""
    return _profile(str(workspace.folder), dataset.id, dataset.version, workspace)


@st.cache_resource(max_entries=8, show_spinner="Loading the table …")
def _table(folder: str, dataset: str, version: int, _workspace: Workspace) -> Table:
    return _workspace.datasets.load(dataset)


@st.cache_resource(max_entries=32, show_spinner="Looking at every column …")
def _profile(folder: str, dataset: str, version: int, _workspace: Workspace) -> TableProfile:
    return _table(folder, dataset, version, _workspace).profile()


# Rules and soft labels. The text of a rule set is its key: equal texts give equal soft labels.


def rule_problems(workspace: Workspace, dataset: DatasetRecord, text: str) -> dict[str, str]:
    """Rules that cannot be applied to this dataset: rule id → why."""
    return _rule_problems(str(workspace.folder), dataset.id, dataset.version, text, workspace)


def rule_matrix(workspace: Workspace, dataset: DatasetRecord, text: str) -> RuleMatrix:
    """What the active rules say about every row."""
    return _rule_matrix(str(workspace.folder), dataset.id, dataset.version, text, workspace)


def soft_labels(workspace: Workspace, dataset: DatasetRecord, text: str) -> SoftLabels:
    """The soft labels of a dataset under a rule set, combined as the set says."""
    return _soft_labels(str(workspace.folder), dataset.id, dataset.version, text, workspace)


def soft_label_audit(
    workspace: Workspace, dataset: DatasetRecord, text: str, prior: float | None = None
) -> SoftLabelAudit:
    """The audit of these soft labels, against a class prior where there is one."""
    return _soft_label_audit(str(workspace.folder), dataset.id, dataset.version, text, prior, workspace)


def rule_analysis(workspace: Workspace, dataset: DatasetRecord, text: str) -> RuleAnalysis:
    """Coverage, lift, overlap, leave-one-out and findings of the active rules."""
    return _rule_analysis(str(workspace.folder), dataset.id, dataset.version, text, workspace)


def column_choices(workspace: Workspace, dataset: DatasetRecord, column: str) -> ColumnChoices:
    """The histogram or the levels of one column."""
    return _column_choices(str(workspace.folder), dataset.id, dataset.version, column, workspace)


def rule_preview(
    workspace: Workspace, dataset: DatasetRecord, text: str, draft: Rule | None, prior: float | None
) -> RulePreview:
    """S with an unsaved rule included, in the place of the saved rule with the same id if there is one."""
    written = "" if draft is None else RuleSet((draft.switched(True),)).to_json()
    instead_of = draft.id if draft is not None and draft.id in {rule.id for rule in _rule_set(text)} else None
    return _rule_preview(
        str(workspace.folder), dataset.id, dataset.version, text, written, instead_of, prior, workspace
    )


def check_ratios(workspace: Workspace, dataset: DatasetRecord, belief: CheckRatio) -> CheckRatios:
    """How often the checks of each rule fail (Appendix A.1)."""
    return _from_checks(str(workspace.folder), dataset.id, dataset.version, repr(belief), belief, workspace)


def check_prior(workspace: Workspace, dataset: DatasetRecord, belief: CheckRecord) -> CheckPrior:
    """How the chance to pass a check is spread (Appendix A.2)."""
    return _from_checks(str(workspace.folder), dataset.id, dataset.version, repr(belief), belief, workspace)


def class_prior(workspace: Workspace, dataset: DatasetRecord) -> PriorEstimate:
    """An upper estimate of the share of positives."""
    return _class_prior(str(workspace.folder), dataset.id, dataset.version, workspace)


@dataclass(frozen=True)
class RuleAnalysis:
    """Everything the analysis of rules shows."""

    summary: pd.DataFrame
    overlap: pd.DataFrame
    without: pd.DataFrame
    findings: tuple[Finding, ...]


@st.cache_resource(max_entries=64, show_spinner=False)
def _rule_set(text: str) -> RuleSet:
    return RuleSet.from_json(text)


@st.cache_resource(max_entries=64, show_spinner="Reading the rules …")
def _rule_problems(folder: str, dataset: str, version: int, text: str, _workspace: Workspace) -> dict[str, str]:
    table = _table(folder, dataset, version, _workspace)
    problems = {}
    for rule in _rule_set(text):
        try:
            # What is off is only compared with the columns; learning its numbers can take a while.
            alone = RuleSet((rule.switched(True),))
            refuse_errors(alone.check(table)) if not rule.on else alone.fit(table)
        except RuleError as problem:
            problems[rule.id] = str(problem)
    return problems


@st.cache_resource(max_entries=6, show_spinner="Applying the rules …")
def _rule_matrix(folder: str, dataset: str, version: int, text: str, _workspace: Workspace) -> RuleMatrix:
    table = _table(folder, dataset, version, _workspace)
    return _rule_set(text).fit(table).apply(table.frame)


@st.cache_resource(max_entries=6, show_spinner="Making soft labels …")
def _soft_labels(folder: str, dataset: str, version: int, text: str, _workspace: Workspace) -> SoftLabels:
    table, rules = _table(folder, dataset, version, _workspace), _rule_set(text)
    matrix = _rule_matrix(folder, dataset, version, text, _workspace)
    return assign_soft_labels(matrix, table.is_labeled, rules.combine, rules.floor)


@st.cache_resource(max_entries=64, show_spinner=False)
def _soft_label_audit(
    folder: str, dataset: str, version: int, text: str, prior: float | None, _workspace: Workspace
) -> SoftLabelAudit:
    return audit_soft_labels(_soft_labels(folder, dataset, version, text, _workspace), prior=prior)


@st.cache_resource(max_entries=32, show_spinner="Comparing the rules …")
def _rule_analysis(folder: str, dataset: str, version: int, text: str, _workspace: Workspace) -> RuleAnalysis:
    labels = _soft_labels(folder, dataset, version, text, _workspace)
    matrix, rules = _rule_matrix(folder, dataset, version, text, _workspace), _rule_set(text)
    return RuleAnalysis(
        matrix.summary(labels.is_labeled),
        matrix.overlaps(),
        leave_one_rule_out(matrix, labels.is_labeled, rules.combine, rules.floor),
        matrix.findings(labels.is_labeled),
    )


@st.cache_resource(max_entries=256, show_spinner="Looking at the column …")
def _column_choices(folder: str, dataset: str, version: int, column: str, _workspace: Workspace) -> ColumnChoices:
    return choices_of_column(_table(folder, dataset, version, _workspace), column)


@st.cache_resource(max_entries=6, show_spinner=False)
def _preview_base(
    folder: str, dataset: str, version: int, text: str, instead_of: str | None, _workspace: Workspace
) -> PreviewBase:
    table = _table(folder, dataset, version, _workspace)
    matrix = _rule_matrix(folder, dataset, version, text, _workspace)
    return preview_base(table, _rule_set(text), matrix=matrix, instead_of=instead_of)


@st.cache_resource(max_entries=256, show_spinner=False)
def _rule_preview(
    folder: str,
    dataset: str,
    version: int,
    text: str,
    draft: str,
    instead_of: str | None,
    prior: float | None,
    _workspace: Workspace,
) -> RulePreview:
    base = _preview_base(folder, dataset, version, text, instead_of, _workspace)
    rule = RuleSet.from_json(draft).rules[0] if draft else None
    return base.preview(rule, prior=prior)


@st.cache_resource(max_entries=32, show_spinner="Estimating the share of positives …")
def _class_prior(folder: str, dataset: str, version: int, _workspace: Workspace) -> PriorEstimate:
    # Training brings its libraries along; only who asks for it should wait for them.
    from spu_core.training.class_prior import estimate_class_prior

    return estimate_class_prior(_table(folder, dataset, version, _workspace))


@st.cache_resource(max_entries=32, show_spinner="Counting checks …")
def _from_checks(
    folder: str, dataset: str, version: int, words: str, _belief: CheckRatio | CheckRecord, _workspace: Workspace
) -> Any:
    return from_checks(_belief, _table(folder, dataset, version, _workspace))


# Runs. A stored run never changes, so its id is the key; the S it is judged by is a version of a rule set.


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
    if rules is not None:
        return soft_labels(workspace, dataset, rules.text)
    return soft_labels_by(table(workspace, dataset), None)


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
    values = segment_values(table(_workspace, _dataset).frame[part[1]])
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
    return shuffled_columns(_run, table(_workspace, _dataset), _judges(_workspace, _dataset, _rules))


# Exports. A run with its operating point and the analyst's words decides what its files hold.


def stored_model(workspace: Workspace, dataset: DatasetRecord, record: RunRecord, words: ExportWords) -> StoredModel:
    """A stored run, ready to be written in any form."""
    points = workspace.thresholds.list(record.id)
    others = tuple((run.id, run.name) for run in workspace.runs.list(dataset.id))
    key = (record.id, points[0].id if points else "", dataset.version)
    return _stored_model(str(workspace.folder), key, others, words, record, dataset, workspace)


def scored_file(workspace: Workspace, bundle: Bundle, token: str, uploaded: Any, flag_by: str) -> ScoredFile:
    """An uploaded file, scored; `token` names the bundle with its operating point."""
    return _scored_file(str(workspace.folder), token, uploaded.file_id, flag_by, bundle, uploaded)


def foreign_bundle(workspace: Workspace, uploaded: Any) -> Bundle | str:
    """An uploaded bundle that was checked and tried, or the sentence that refuses it."""
    return _foreign_bundle(str(workspace.folder), uploaded.file_id, uploaded)


@st.cache_resource(max_entries=8, show_spinner="Loading the model …")
def _stored_model(
    folder: str,
    key: tuple[str, str, int],
    others: tuple[tuple[str, str], ...],
    words: ExportWords,
    _record: RunRecord,
    _dataset: DatasetRecord,
    _workspace: Workspace,
) -> StoredModel:
    return StoredModel(_workspace, _record, table(_workspace, _dataset), words)


# Scored rows lie in a temporary file, which goes with the entry.
@st.cache_resource(max_entries=8, ttl=3600, show_spinner="Scoring …")
def _scored_file(folder: str, token: str, file: str, flag_by: str, _bundle: Bundle, _uploaded: Any) -> ScoredFile:
    _uploaded.seek(0)
    return score_upload(_bundle, _uploaded, Scoring(flag_by=flag_by))


@st.cache_resource(max_entries=8, ttl=3600, show_spinner="Checking the bundle, and trying it in a process apart …")
def _foreign_bundle(folder: str, file: str, _uploaded: Any) -> Bundle | str:
    try:
        return load_bundle(_uploaded.getvalue())
    except BundleError as refused:
        return str(refused)
