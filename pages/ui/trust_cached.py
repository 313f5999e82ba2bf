"""Cached calls of the engine for the Trust page; the key of the case names workspace, data, run and rules."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui import cached
from pages.ui.trust_case import TrustCase
from spu_core.engines.audits import AuditResult, audit_result, audits_of, truth_of
from spu_core.engines.stored import names_apart
from spu_core.errors import SpuError
from spu_core.theory import PriorEstimate
from spu_core.training.views import NOT_MODELS
from spu_core.trust import (
    AuditPlan,
    BiasMap,
    Outlook,
    Population,
    RuleInfluence,
    Sensitivity,
    WhatIf,
    belief_sensitivity,
    outlook_table,
    plan_audit,
    rule_influence,
    selection_bias,
)
from spu_core.trust import outlook as outlook_of
from spu_core.trust.audit.outlook import expected_bounds
from spu_core.workspace import AuditRecord, RunRecord

Key = tuple[str, str, int, str, str]
MOST_RUNS = 8
PLANNED_ROWS = 20_000
# So many rows times draws are judged in a few seconds.
SENSITIVITY_WORK = 4_000_000


def threshold_of(case: TrustCase) -> float | None:
    return None if case.point is None else case.point.threshold


def what_if(case: TrustCase) -> WhatIf:
    """AUC_SPU and the rates at the operating point of the case."""
    return _what_if(case.key, threshold_of(case), case)


def population(case: TrustCase, prior: float | None = None) -> Population:
    """The rows that an audit of this case would draw from."""
    return _population(case.key, threshold_of(case), prior, case)


def outlook(case: TrustCase, target: str, prior: float | None) -> pd.DataFrame:
    """What n checks would be worth."""
    return _outlook(case.key, threshold_of(case), target, prior, case)


def promise(case: TrustCase, checks: int, target: str, prior: float | None) -> tuple[Outlook, tuple[float, float]]:
    """What this number of checks would be worth: by normal theory, and the bounds to expect."""
    return _promise(case.key, threshold_of(case), (checks, target, prior), case)


def draw(case: TrustCase, checks: int, target: str, prior: float | None, seed: int) -> AuditPlan:
    """A plan; not cached, since it is drawn once and then kept in the workspace."""
    return plan_audit(population(case, prior), checks, target, seed=seed, prior=prior)


def result(case: TrustCase, audit: AuditRecord, treatment: str, method: str) -> AuditResult:
    """What the standing verdicts of an audit say."""
    workspace = case.page.workspace
    seen = len(workspace.audits.history(audit.id))
    return _result(case.key, (audit.id, seen), (treatment, method), case, audit)


def newest_result(case: TrustCase) -> AuditResult | None:
    """What the newest audit with enough verdicts says; None where there is none."""
    for audit in audits_of(case.page.workspace, case.record, case.rules):
        if case.page.workspace.audits.verdicts(audit.id):
            try:
                return result(case, audit, "mean", "assisted")
            except SpuError:
                continue  # an unfinished audit says nothing yet; its own section says why
    return None


def truth(case: TrustCase) -> dict[str, float]:
    """Every figure from the truth column, where there is one."""
    return truth_of(case.run, population(case))


def class_prior(case: TrustCase) -> PriorEstimate:
    """BBE and Elkan–Noto."""
    return cached.class_prior(case.page.workspace, case.dataset)


def judged_runs(case: TrustCase) -> tuple[RunRecord, ...]:
    """The case's run and the others of its dataset that share its rules, the newest first."""
    records = case.page.workspace.runs.list(case.dataset.id)
    same = (case.record.rule_set, case.record.rule_set_version)
    # The rules lead on the S that they made, and an oracle has seen the truth: neither is a model to choose.
    models = [each for each in records if each.candidate.get("method") not in NOT_MODELS]
    alike = [each for each in models if (each.rule_set, each.rule_set_version) == same and each.id != case.record.id]
    return (case.record, *alike)[:MOST_RUNS]


def sensitivity(case: TrustCase, spread: float) -> tuple[Sensitivity, RuleInfluence]:
    """Stored scores judged by shifted beliefs."""
    names = names_apart(case.page.workspace.runs.list(case.dataset.id))
    runs = tuple((record.id, names[record.id]) for record in judged_runs(case))
    return _sensitivity(case.key, runs, spread, case)


def bias(case: TrustCase) -> BiasMap:
    """Where confirmed positives are over-represented."""
    return _bias(case.key, case)


@st.cache_resource(max_entries=32, show_spinner=False)
def _what_if(key: Key, threshold: float | None, _case: TrustCase) -> WhatIf:
    return WhatIf.of_run(_case.run, threshold)


@st.cache_resource(max_entries=8, show_spinner=False)
def _population(key: Key, threshold: float | None, prior: float | None, _case: TrustCase) -> Population:
    return Population.of_run(_case.run, threshold, prior=prior)


@st.cache_resource(max_entries=64, show_spinner="Imagining audits of every size …")
def _outlook(key: Key, threshold: float | None, target: str, prior: float | None, _case: TrustCase) -> pd.DataFrame:
    return outlook_table(_population(key, threshold, prior, _case), target)


@st.cache_resource(max_entries=256, show_spinner="Imagining audits of this size …")
def _promise(
    key: Key, threshold: float | None, wanted: tuple[int, str, float | None], _case: TrustCase
) -> tuple[Outlook, tuple[float, float]]:
    checks, target, prior = wanted
    rows = _population(key, threshold, prior, _case)
    # A field must not sort a million rows; on a sample ten times the audit the error differs by 5 % at most.
    planned = rows.sample(PLANNED_ROWS) if 10 * checks <= PLANNED_ROWS else rows
    return outlook_of(planned, checks, target), expected_bounds(rows, checks, target)


@st.cache_resource(max_entries=32, show_spinner="Counting verdicts …")
def _result(
    key: Key, seen: tuple[str, int], how: tuple[str, str], _case: TrustCase, _audit: AuditRecord
) -> AuditResult:
    verdicts = _case.page.workspace.audits.verdicts(_audit.id)
    plan = AuditPlan.from_json(_audit.plan)
    treatment, method = how
    return audit_result(_case.run, _case.table, plan, verdicts, treatment=treatment, method=method)  # type: ignore[arg-type]


@st.cache_resource(max_entries=32, show_spinner="Shifting the beliefs …")
def _sensitivity(
    key: Key, runs: tuple[tuple[str, str], ...], spread: float, _case: TrustCase
) -> tuple[Sensitivity, RuleInfluence]:
    found = cached.comparison(_case.page.workspace, _case.dataset, runs, _case.rules).runs
    draws = max(20, min(200, SENSITIVITY_WORK // max(_case.dataset.n_rows, 1)))
    labels = _case.soft_labels
    return belief_sensitivity(found, labels, draws=draws, spread=spread), rule_influence(found, labels, shift=spread)


@st.cache_resource(max_entries=32, show_spinner="Comparing confirmed with expected positives …")
def _bias(key: Key, _case: TrustCase) -> BiasMap:
    return selection_bias(_case.table, _case.soft_labels)
