"""Audits of a workspace: store a plan, store verdicts, and compute what all audits of a dataset say of every run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from spu_core.errors import AssumptionError, SpuError
from spu_core.export import load_bundle
from spu_core.html_table import Tabular, short_repr
from spu_core.tables import Table
from spu_core.training import Comparison, Run
from spu_core.trust import (
    TARGETS,
    AssumptionReport,
    AuditEstimate,
    AuditPlan,
    Marker,
    Population,
    check_assumptions,
    estimate_audit,
)
from spu_core.trust.audit.checked import CheckedRows, combine_audits, judge_runs
from spu_core.trust.audit.questions import QUESTIONS
from spu_core.trust.audit.totals import Method
from spu_core.trust.audit.verdicts import Treatment, VerdictFile
from spu_core.trust.outcomes.ratios import RANDOM
from spu_core.workspace import AuditRecord, DatasetRecord, RuleSetVersion, RunRecord, VerdictRecord, Workspace

MOST_TESTED_COLUMNS = 20
# What the outcome of a check proves: a case, or none.
PROVEN = {"admitted": 1.0, "passed": 0.0}


@dataclass(frozen=True, eq=False)
class AuditResult(Tabular):
    """Estimates of an audit with tests of the assumptions; `truth` has the true figures if they are known."""

    estimate: AuditEstimate
    assumptions: AssumptionReport
    truth: dict[str, float]

    def __repr__(self) -> str:
        return short_repr("AuditResult", None, repr(self.estimate))

    def to_frame(self) -> pd.DataFrame:
        """A line for each figure, with its bounds."""
        return self.estimate.to_frame()

    @property
    def marker(self) -> Marker:
        """The audit as a point of the what-if map."""
        figures = self.estimate.figures
        return Marker("audit", figures["prior"].estimate, figures["positive_mean"].estimate)


def save_audit(workspace: Workspace, run: RunRecord, plan: AuditPlan, rules: RuleSetVersion | None) -> AuditRecord:
    """Store a plan with its run and the rules of its soft labels."""
    asked = TARGETS[plan.target].title if plan.question is None else QUESTIONS[plan.question].title
    title = f"{plan.checks} checks {'for' if plan.question is None else '·'} {asked}"
    version = None if rules is None else (rules.id, rules.number)
    return workspace.audits.save(run.id, plan.to_json(), name=title, rules=version)


def keep_verdicts(workspace: Workspace, audit: AuditRecord, reading: VerdictFile) -> int:
    """Store verdicts that are new, differ from the stored ones, or add a note. Returns how many."""
    standing = {(item.row, item.reviewer): (item.verdict, item.note) for item in workspace.audits.verdicts(audit.id)}
    new = []
    for item in reading.verdicts:
        verdict, note = standing.get((item.row, item.reviewer), ("", ""))
        # An empty note does not delete a stored note.
        if item.verdict != verdict or item.note not in ("", note):
            new.append((item.row, item.reviewer, item.verdict, item.note))
    return workspace.audits.add_verdicts(audit.id, new) if new else 0


def audit_result(
    run: Run,
    table: Table,
    plan: AuditPlan,
    verdicts: tuple[VerdictRecord, ...],
    *,
    treatment: Treatment = "mean",
    method: Method = "assisted",
) -> AuditResult:
    """Estimates from the verdicts. The columns that models see are tested for dependence on the soft labels."""
    population = population_of(run, plan)
    estimate = estimate_audit(population, plan, verdicts, treatment=treatment, method=method)
    columns = table.frame[list(table.features[:MOST_TESTED_COLUMNS])].iloc[population.row]
    report = check_assumptions(estimate, {str(name): columns[name] for name in columns})
    return AuditResult(estimate, report, truth_of(run, population))


def checked_rows(workspace: Workspace, dataset: DatasetRecord, *, treatment: Treatment = "mean") -> CheckedRows:
    """The checked rows of all audits of a dataset; an error if nothing was checked yet."""
    audits = workspace.audits.of_dataset(dataset.id)
    plans = [(_whole_plan(workspace, dataset, each), workspace.audits.verdicts(each.id)) for each in audits]
    return combine_audits(plans, treatment=treatment)


def with_audit(workspace: Workspace, dataset: DatasetRecord, comparison: Comparison) -> Comparison:
    """The comparison with what all audits of the dataset say of its runs, where enough rows were checked.

    Outcomes of random checks of the same rows are added, too.
    """
    outcomes = random_outcomes(workspace, dataset)
    if outcomes is not None and outcomes.size == comparison.runs[0].fold.size:
        data = replace(comparison.runs[0].evaluation, random_outcomes=outcomes)
        comparison = replace(comparison, runs=tuple(replace(run, evaluation=data) for run in comparison.runs))
    try:
        report = judge_runs(comparison.runs, checked_rows(workspace, dataset))
    except AssumptionError:
        return comparison
    return comparison.with_audit(report.evidence)


def random_outcomes(workspace: Workspace, dataset: DatasetRecord) -> np.ndarray | None:
    """By row: 1 where a random check of the outcome loop found a case, 0 where it was passed, else NaN.

    Failed and skipped checks prove nothing, so they count as not checked. None where no random check proved anything.
    """
    sizes = {record.id: record.n_rows for record in workspace.datasets.list()}
    found = np.full(dataset.n_rows, np.nan)
    for queue in reversed(workspace.queues.list(*workspace.feedbacks.family(dataset.id))):
        # Ancestors with more rows have other row numbers.
        if sizes.get(queue.dataset) == found.size:
            chance = {entry.row for entry in workspace.queues.entries(queue.id) if entry.arm == RANDOM}
            for record in workspace.queues.outcomes(queue.id):
                if record.row in chance:
                    found[record.row] = PROVEN.get(record.detail["outcome"], np.nan)
    return found if np.isfinite(found).any() else None


def verdict_state(workspace: Workspace, dataset: DatasetRecord) -> str:
    """A text that changes with every stored verdict and outcome; results from them are cached by it."""
    return f"{workspace.audits.state(dataset.id)} {workspace.queues.state()}"


def _whole_plan(workspace: Workspace, dataset: DatasetRecord, audit: AuditRecord) -> AuditPlan:
    """The plan of an audit; an older one gets the stratum of every row from its run, if that still exists."""
    plan = AuditPlan.from_json(audit.plan)
    if plan.membership is not None or audit.run is None:
        return plan
    try:
        run = load_bundle(workspace.runs.path(audit.run), known_hash=workspace.runs.sha256(audit.run)).run
        return plan.with_strata(population_of(run, plan), dataset.n_rows)
    except SpuError:
        return plan


def population_of(run: Run, plan: AuditPlan) -> Population:
    """The population of a plan."""
    return Population.of_run(run, plan.threshold, prior=plan.prior)


def truth_of(run: Run, population: Population) -> dict[str, float]:
    """Every figure from the truth column; empty if there is none or it has one class only."""
    truth = run.evaluation.judged_truth
    if truth is None or truth.all() or not truth.any():
        return {}
    keys = [key for key in TARGETS if key != "precision" or population.is_flagged.any()]
    return {key: TARGETS[key].of_truth(population, np.asarray(truth)) for key in keys}
