"""Cached calls of the Trust page.

The key of a model consists of the workspace, the data, the run and the rules and, where the result depends on them,
of the threshold or the number of recorded outcomes.
"""

from __future__ import annotations

import pandas as pd

from pages.ui.compare.cached import compare_stored_runs
from pages.ui.shared.cached import Keys, cache_result, load_table
from pages.ui.trust.evaluated_model import EvaluatedModel
from spu_core.engines.audit_results import AuditResult, audit_result, audits_of, truth_of
from spu_core.engines.outcome_learning import WhatChanged, propose_feedback, sample_players
from spu_core.engines.outcome_learning import what_changed as changed_between
from spu_core.engines.outcome_loop import (
    LoopChecks,
    QueueCandidates,
    checks_in_loop,
    checks_of,
    loop_queues,
    populations,
)
from spu_core.engines.stored_runs import models_of_same_rules, names_apart
from spu_core.errors import SpuError
from spu_core.tables.simulators.anti_cheat import Players
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
from spu_core.trust.audit.outlook import quick_outlook
from spu_core.trust.outcomes.feedback import Feedback, FeedbackPlan
from spu_core.trust.outcomes.review_queue import Queue, QueuePlan, fill_queue
from spu_core.trust.sensitivity import affordable_draws
from spu_core.workspace import AuditRecord, DatasetRecord, QueueRecord, Workspace

MOST_RUNS = 8
BY_MODEL: Keys = {EvaluatedModel: lambda model: model.key}
BY_THRESHOLD: Keys = {EvaluatedModel: lambda model: (*model.key, model.threshold)}
BY_OUTCOMES: Keys = {EvaluatedModel: lambda model: (*model.key, model.workspace.queues.state())}
BY_DATASETS: Keys = {
    EvaluatedModel: lambda model: (*model.key, [(each.id, each.version) for each in model.workspace.datasets.list()])
}


@cache_result(32, keys=BY_THRESHOLD)
def implied_figures(model: EvaluatedModel) -> WhatIf:
    """AUC_SPU and the rates at the operating point of the model."""
    return WhatIf.of_run(model.run, model.threshold)


@cache_result(8, keys=BY_THRESHOLD)
def audit_population(model: EvaluatedModel, prior: float | None = None) -> Population:
    """The rows that an audit of this model would draw from."""
    return Population.of_run(model.run, model.threshold, prior=prior)


@cache_result(64, "Simulating audits of every size …", keys=BY_THRESHOLD)
def audit_outlook(model: EvaluatedModel, target: str, prior: float | None) -> pd.DataFrame:
    """The expected results of audits of different sizes."""
    return outlook_table(audit_population(model, prior), target)


@cache_result(256, "Simulating audits of this size …", keys=BY_THRESHOLD)
def expected_audit(
    model: EvaluatedModel, checks: int, target: str, prior: float | None
) -> tuple[Outlook, tuple[float, float]]:
    """The expected result of this number of checks: the standard error by normal theory, and the bounds."""
    return quick_outlook(audit_population(model, prior), checks, target)


def draw_audit(model: EvaluatedModel, checks: int, target: str, prior: float | None, seed: int) -> AuditPlan:
    """A plan; not cached, since it is drawn once and then kept in the workspace."""
    return plan_audit(audit_population(model, prior), checks, target, seed=seed, prior=prior)


def estimate_audit(model: EvaluatedModel, audit: AuditRecord, treatment: str, method: str) -> AuditResult:
    """The estimates from the current verdicts of an audit."""
    recorded = model.workspace.reviews.version(audit.id)
    return _estimate_audit(model, audit, recorded, treatment, method)


@cache_result(32, "Counting verdicts …", keys=BY_MODEL)
def _estimate_audit(
    model: EvaluatedModel, audit: AuditRecord, recorded: int, treatment: str, method: str
) -> AuditResult:
    verdicts = model.workspace.audits.verdicts(audit.id)
    plan = AuditPlan.from_json(audit.plan)
    return audit_result(model.run, model.table, plan, verdicts, treatment=treatment, method=method)  # type: ignore[arg-type]


def newest_audit(model: EvaluatedModel) -> AuditResult | None:
    """The estimates of the newest audit with enough verdicts; None where there is none."""
    for audit in audits_of(model.workspace, model.record, model.rules):
        if model.workspace.audits.verdicts(audit.id):
            try:
                return estimate_audit(model, audit, "mean", "assisted")
            except SpuError:
                continue  # an audit without enough verdicts; its section shows what is missing
    return None


def true_figures(model: EvaluatedModel) -> dict[str, float]:
    """Every figure from the truth column, where there is one."""
    return truth_of(model.run, audit_population(model))


def belief_bands(model: EvaluatedModel, spread: float) -> tuple[Sensitivity, RuleInfluence]:
    """Stored scores of this model and the other models, evaluated by shifted beliefs."""
    records = model.workspace.runs.list(model.dataset.id)
    names = names_apart(records)
    runs = tuple((each.id, names[each.id]) for each in models_of_same_rules(records, model.record, MOST_RUNS))
    return _belief_bands(model, runs, spread)


@cache_result(32, "Shifting the beliefs …", keys=BY_MODEL)
def _belief_bands(
    model: EvaluatedModel, runs: tuple[tuple[str, str], ...], spread: float
) -> tuple[Sensitivity, RuleInfluence]:
    judged = compare_stored_runs(model.workspace, model.dataset, runs, model.rules).runs
    draws, labels = affordable_draws(model.dataset.n_rows), model.soft_labels
    return belief_sensitivity(judged, labels, draws=draws, spread=spread), rule_influence(judged, labels, shift=spread)


@cache_result(32, "Comparing confirmed with expected positives …", keys=BY_MODEL)
def bias_map(model: EvaluatedModel) -> BiasMap:
    """Where confirmed positives are over-represented."""
    return selection_bias(model.table, model.soft_labels)


@cache_result(16, keys=BY_DATASETS)
def tables_to_flag(model: EvaluatedModel) -> tuple[DatasetRecord, ...]:
    """The stored tables from which the model can flag rows, its own first."""
    return populations(model.workspace, model.dataset.id, model.record.id)


def queues(model: EvaluatedModel) -> tuple[QueueRecord, ...]:
    """All review queues of this dataset and those made from it, the newest first."""
    return loop_queues(model.workspace, model.dataset.id)


def dataset_names(model: EvaluatedModel) -> dict[str, str]:
    """The names of all stored tables by their ids."""
    return {each.id: each.name for each in model.workspace.datasets.list()}


@cache_result(4, "Scoring the users …")
def queue_population(workspace: Workspace, rows: DatasetRecord, runs: tuple[str, ...]) -> QueueCandidates:
    """The rows that may be checked, scored by these runs."""
    return QueueCandidates.of(workspace, rows.id, runs)


@cache_result(16, "Filling the queue …", keys=BY_OUTCOMES)
def preview_queue(
    model: EvaluatedModel, rows: DatasetRecord, runs: tuple[str, ...], plan: QueuePlan, again: bool
) -> tuple[Queue, str]:
    """The users whom this plan would check, and whether the split of the users looks random."""
    found = queue_population(model.workspace, rows, runs)
    is_open = found.is_open(model.workspace, again)
    return fill_queue(found.users, found.scores, plan, is_open=is_open), found.balance(plan).sentence


@cache_result(16, "Looking for disagreements …", keys=BY_OUTCOMES)
def disagreements(model: EvaluatedModel, budget: int, side: str) -> pd.DataFrame:
    """The rows where the model and the rules disagree most, with the reasons of both."""
    found = queue_population(model.workspace, model.dataset, (model.record.id,))
    return found.explained(found.disagreement(model.workspace, budget, side))


@cache_result(8, "Counting outcomes …", keys=BY_OUTCOMES)
def all_checks(model: EvaluatedModel) -> LoopChecks | None:
    """All finished checks that models of this dataset asked for, from all tables; None before the first."""
    try:
        return checks_in_loop(model.workspace, model.dataset.id)
    except SpuError:
        return None


@cache_result(8, "Counting outcomes …", keys=BY_OUTCOMES)
def own_checks(model: EvaluatedModel, dataset: str) -> LoopChecks | None:
    """The finished checks of the rows of one dataset; None before the first."""
    try:
        return checks_of(model.workspace, dataset)
    except SpuError:
        return None


@cache_result(8, "Computing what the outcomes change …", keys=BY_OUTCOMES)
def proposed_feedback(model: EvaluatedModel, rows: DatasetRecord, plan: FeedbackPlan) -> Feedback:
    """What the outcomes of the rows of a dataset would change in it."""
    return propose_feedback(model.workspace, rows.id, model.rules, plan)


@cache_result(8, "Comparing before and after …", keys=BY_OUTCOMES)
def what_changed(model: EvaluatedModel, old: str, new: str) -> WhatChanged:
    """Two runs side by side, before and after outcomes were fed back."""
    return changed_between(model.workspace, old, new)


@cache_result(4)
def simulated_players(workspace: Workspace, dataset: DatasetRecord) -> Players | None:
    """The simulated players where the dataset is the anti-cheat sample."""
    return sample_players(load_table(workspace, dataset))
