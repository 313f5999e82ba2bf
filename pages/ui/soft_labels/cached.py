"""Cached calls of the Soft labels page. The text of a rule set is part of the key: equal texts give equal results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from pages.ui.shared.cached import (
    apply_rules,
    cache_result,
    load_full_profile,
    load_table,
    make_soft_labels,
    parse_rules,
)
from spu_core.errors import RuleError
from spu_core.labels import (
    PreviewBase,
    RuleLift,
    RulePreview,
    SoftLabelAudit,
    audit_soft_labels,
    leave_one_rule_out,
    preview_base,
    rank_rules,
)
from spu_core.labels.belief_suggestions import Prior
from spu_core.rules import CheckRatio, CheckRecord, ColumnChoices, Rule, RuleSet, from_checks
from spu_core.rules import column_choices as choices_of_column
from spu_core.rules.checking import refuse_errors
from spu_core.rules.draft import with_bars_of_all
from spu_core.rules.matrix import findings_in
from spu_core.tables import Finding
from spu_core.theory.prior import PriorEstimate
from spu_core.training.cross_fitting import estimate_class_prior
from spu_core.workspace import DatasetRecord, Workspace


@dataclass(frozen=True)
class RuleAnalysis:
    """The results that the analysis of rules shows."""

    summary: pd.DataFrame
    overlap: pd.DataFrame
    without: pd.DataFrame
    findings: tuple[Finding, ...]


def rule_problems(workspace: Workspace, dataset: DatasetRecord, rules: RuleSet) -> dict[str, str]:
    """Rules that cannot be applied to this dataset: rule id → reason."""
    # Cached one by one, so that a change of one rule does not check all the others again.
    found = {rule.id: rule_problem(workspace, dataset, rule) for rule in rules}
    return {token: problem for token, problem in found.items() if problem}


@cache_result(512, "Reading the rules …")
def rule_problem(workspace: Workspace, dataset: DatasetRecord, rule: Rule) -> str:
    """Why a rule cannot be applied to this dataset; empty where it can."""
    table, alone = load_table(workspace, dataset), RuleSet((rule.switched(True),))
    try:
        if rule.on:
            alone.fit(table)
        else:
            refuse_errors(alone.check(table))  # fitting the parameters of a rule can take a while
    except RuleError as problem:
        return str(problem)
    return ""


@cache_result(64)
def soft_label_audit(
    workspace: Workspace, dataset: DatasetRecord, text: str, prior: Prior | None = None
) -> SoftLabelAudit:
    """The audit of these soft labels, with the share of positives or its range where it is known."""
    return audit_soft_labels(make_soft_labels(workspace, dataset, text), prior=prior)


@cache_result(32)
def rule_ranking(workspace: Workspace, dataset: DatasetRecord, text: str) -> tuple[RuleLift, ...]:
    """The active rules by their lift among confirmed positives."""
    return rank_rules(apply_rules(workspace, dataset, text), load_table(workspace, dataset).is_labeled)


@cache_result(32, "Comparing the rules …")
def rule_analysis(workspace: Workspace, dataset: DatasetRecord, text: str) -> RuleAnalysis:
    """Coverage, lift, overlap, leave-one-out and findings of the active rules."""
    is_labeled = make_soft_labels(workspace, dataset, text).is_labeled
    matrix, rules = apply_rules(workspace, dataset, text), parse_rules(text)
    summary = matrix.summary(is_labeled)
    without = leave_one_rule_out(matrix, is_labeled, rules.combine, rules.floor)
    return RuleAnalysis(summary, matrix.overlaps(), without, findings_in(summary, matrix))


def column_choices(workspace: Workspace, dataset: DatasetRecord, column: str) -> ColumnChoices:
    """The histogram or the categories of one column; for a folder the histogram of all rows, once a job has made it."""
    profile = load_full_profile(workspace, dataset) if dataset.folder is not None else None
    choices = _column_choices(workspace, dataset, column)
    return choices if profile is None else with_bars_of_all(choices, profile.column(column))


@cache_result(256, "Looking at the column …")
def _column_choices(workspace: Workspace, dataset: DatasetRecord, column: str) -> ColumnChoices:
    return choices_of_column(load_table(workspace, dataset), column)


@cache_result(256)
def rule_preview(
    workspace: Workspace, dataset: DatasetRecord, text: str, draft: Rule | None, prior: Prior | None
) -> RulePreview:
    """The soft labels with an unsaved rule included, in place of the saved rule with the same id if there is one."""
    saved = {rule.id for rule in parse_rules(text)}
    instead_of = draft.id if draft is not None and draft.id in saved else None
    base = _preview_base(workspace, dataset, text, instead_of)
    return base.preview(None if draft is None else draft.switched(True), prior=prior)


@cache_result(6)
def _preview_base(workspace: Workspace, dataset: DatasetRecord, text: str, instead_of: str | None) -> PreviewBase:
    matrix = apply_rules(workspace, dataset, text)
    return preview_base(load_table(workspace, dataset), parse_rules(text), matrix=matrix, instead_of=instead_of)


@cache_result(32, "Counting checks …")
def check_statistics(workspace: Workspace, dataset: DatasetRecord, belief: CheckRatio | CheckRecord) -> Any:
    """How often the checks of each rule fail (Appendix A.1), or the distribution of the chance to pass (A.2)."""
    return from_checks(belief, load_table(workspace, dataset))


@cache_result(32)
def estimate_prior(workspace: Workspace, dataset: DatasetRecord) -> PriorEstimate:
    """A range for the share of positives; trains a small model."""
    return estimate_class_prior(load_table(workspace, dataset))
