"""Cached calls of the engine: rules and soft labels.

The text of a rule set is its key: equal texts give equal soft labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.table_cached import profile_of_all, table_of
from spu_core.errors import RuleError
from spu_core.labels import (
    PreviewBase,
    RuleLift,
    RulePreview,
    SoftLabelAudit,
    SoftLabels,
    assign_soft_labels,
    audit_soft_labels,
    leave_one_rule_out,
    preview_base,
    rank_rules,
)
from spu_core.labels.belief_suggestions import Prior
from spu_core.rules import CheckRatio, CheckRecord, ColumnChoices, Rule, RuleMatrix, RuleSet, from_checks
from spu_core.rules import column_choices as choices_of_column
from spu_core.rules.checking import refuse_errors
from spu_core.rules.choices import with_bars_of_all
from spu_core.rules.matrix import findings_in
from spu_core.tables import Finding
from spu_core.theory.check_prior import CheckPrior
from spu_core.theory.check_ratio import CheckRatios
from spu_core.theory.prior import PriorEstimate
from spu_core.workspace import DatasetRecord, Workspace


def rule_problems(workspace: Workspace, dataset: DatasetRecord, text: str) -> dict[str, str]:
    """Rules that cannot be applied to this dataset: rule id → why."""
    return _rule_problems(str(workspace.folder), dataset.id, dataset.version, text, workspace)


def rule_matrix(workspace: Workspace, dataset: DatasetRecord, text: str) -> RuleMatrix:
    """What the active rules say about every row."""
    return _rule_matrix(str(workspace.folder), dataset.id, dataset.version, text, workspace)


def soft_labels(workspace: Workspace, dataset: DatasetRecord, text: str) -> SoftLabels:
    """The soft labels of a dataset under a rule set, combined as the set says."""
    return _soft_labels(str(workspace.folder), dataset.id, dataset.version, text, workspace)


def telling_row(workspace: Workspace, dataset: DatasetRecord, text: str) -> int:
    """The first row that a rule suspects and nobody has confirmed; the first of all where there is none."""
    return _telling_row(str(workspace.folder), dataset.id, dataset.version, text, workspace)


def soft_label_audit(
    workspace: Workspace, dataset: DatasetRecord, text: str, prior: Prior | None = None
) -> SoftLabelAudit:
    """The audit of these soft labels, beside the share of positives or a range of it where one is known."""
    return _soft_label_audit(str(workspace.folder), dataset.id, dataset.version, text, prior, workspace)


def rule_ranking(workspace: Workspace, dataset: DatasetRecord, text: str) -> tuple[RuleLift, ...]:
    """The active rules by their lift among confirmed positives."""
    return _rule_ranking(str(workspace.folder), dataset.id, dataset.version, text, workspace)


def rule_analysis(workspace: Workspace, dataset: DatasetRecord, text: str) -> RuleAnalysis:
    """Coverage, lift, overlap, leave-one-out and findings of the active rules."""
    return _rule_analysis(str(workspace.folder), dataset.id, dataset.version, text, workspace)


def column_choices(workspace: Workspace, dataset: DatasetRecord, column: str) -> ColumnChoices:
    """The histogram or the levels of one column; of a folder the histogram of all rows, once a job has made it."""
    known = profile_of_all(workspace, dataset) if dataset.folder is not None else None
    made = _column_choices(str(workspace.folder), dataset.id, dataset.version, column, workspace)
    return made if known is None else with_bars_of_all(made, known.column(column))


def rule_preview(
    workspace: Workspace, dataset: DatasetRecord, text: str, draft: Rule | None, prior: Prior | None
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
    """A range for the share of positives."""
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


def _rule_problems(folder: str, dataset: str, version: int, text: str, _workspace: Workspace) -> dict[str, str]:
    # One by one, so that a change of one rule does not try all the others again.
    alone = {rule.id: RuleSet((rule,)).to_json() for rule in _rule_set(text)}
    found = {token: _rule_problem(folder, dataset, version, text, _workspace) for token, text in alone.items()}
    return {token: problem for token, problem in found.items() if problem}


@st.cache_resource(max_entries=512, show_spinner="Reading the rules …")
def _rule_problem(folder: str, dataset: str, version: int, text: str, _workspace: Workspace) -> str:
    table = table_of(folder, dataset, version, _workspace)
    [rule] = _rule_set(text)
    alone = RuleSet((rule.switched(True),))
    try:
        # What is off is only compared with the columns; learning its numbers can take a while.
        refuse_errors(alone.check(table)) if not rule.on else alone.fit(table)
    except RuleError as problem:
        return str(problem)
    return ""


@st.cache_resource(max_entries=6, show_spinner="Applying the rules …")
def _rule_matrix(folder: str, dataset: str, version: int, text: str, _workspace: Workspace) -> RuleMatrix:
    table = table_of(folder, dataset, version, _workspace)
    return _rule_set(text).fit(table).apply(table.frame)


@st.cache_resource(max_entries=6, show_spinner="Making soft labels …")
def _soft_labels(folder: str, dataset: str, version: int, text: str, _workspace: Workspace) -> SoftLabels:
    table, rules = table_of(folder, dataset, version, _workspace), _rule_set(text)
    matrix = _rule_matrix(folder, dataset, version, text, _workspace)
    return assign_soft_labels(matrix, table.is_labeled, rules.combine, rules.floor)


@st.cache_resource(max_entries=64, show_spinner=False)
def _telling_row(folder: str, dataset: str, version: int, text: str, _workspace: Workspace) -> int:
    labels = _soft_labels(folder, dataset, version, text, _workspace)
    suspected = (labels.rule_score > _rule_set(text).floor) & ~labels.is_labeled
    return int(suspected.argmax()) if len(suspected) else 0


@st.cache_resource(max_entries=64, show_spinner=False)
def _soft_label_audit(
    folder: str, dataset: str, version: int, text: str, prior: Prior | None, _workspace: Workspace
) -> SoftLabelAudit:
    return audit_soft_labels(_soft_labels(folder, dataset, version, text, _workspace), prior=prior)


@st.cache_resource(max_entries=32, show_spinner=False)
def _rule_ranking(folder: str, dataset: str, version: int, text: str, _workspace: Workspace) -> tuple[RuleLift, ...]:
    matrix = _rule_matrix(folder, dataset, version, text, _workspace)
    return rank_rules(matrix, table_of(folder, dataset, version, _workspace).is_labeled)


@st.cache_resource(max_entries=32, show_spinner="Comparing the rules …")
def _rule_analysis(folder: str, dataset: str, version: int, text: str, _workspace: Workspace) -> RuleAnalysis:
    labels = _soft_labels(folder, dataset, version, text, _workspace)
    matrix, rules = _rule_matrix(folder, dataset, version, text, _workspace), _rule_set(text)
    summary = matrix.summary(labels.is_labeled)
    without = leave_one_rule_out(matrix, labels.is_labeled, rules.combine, rules.floor)
    return RuleAnalysis(summary, matrix.overlaps(), without, findings_in(summary, matrix))


@st.cache_resource(max_entries=256, show_spinner="Looking at the column …")
def _column_choices(folder: str, dataset: str, version: int, column: str, _workspace: Workspace) -> ColumnChoices:
    return choices_of_column(table_of(folder, dataset, version, _workspace), column)


@st.cache_resource(max_entries=6, show_spinner=False)
def _preview_base(
    folder: str, dataset: str, version: int, text: str, instead_of: str | None, _workspace: Workspace
) -> PreviewBase:
    table = table_of(folder, dataset, version, _workspace)
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
    prior: Prior | None,
    _workspace: Workspace,
) -> RulePreview:
    base = _preview_base(folder, dataset, version, text, instead_of, _workspace)
    rule = RuleSet.from_json(draft).rules[0] if draft else None
    return base.preview(rule, prior=prior)


@st.cache_resource(max_entries=32, show_spinner="Estimating the share of positives …")
def _class_prior(folder: str, dataset: str, version: int, _workspace: Workspace) -> PriorEstimate:
    # Training brings its libraries along; only who asks for it should wait for them.
    from spu_core.training.class_prior import estimate_class_prior

    return estimate_class_prior(table_of(folder, dataset, version, _workspace))


@st.cache_resource(max_entries=32, show_spinner="Counting checks …")
def _from_checks(
    folder: str, dataset: str, version: int, words: str, _belief: CheckRatio | CheckRecord, _workspace: Workspace
) -> Any:
    return from_checks(_belief, table_of(folder, dataset, version, _workspace))
