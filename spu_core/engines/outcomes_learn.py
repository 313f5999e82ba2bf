"""Learning from outcomes: a new dataset and rules with their lineage, the next training, and what changed by it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from spu_core.engines.jobs import Job, JobLimits
from spu_core.engines.outcomes import arm_names
from spu_core.engines.outcomes_record import LoopChecks, checks_of
from spu_core.engines.stored import left_out_of, soft_labels_by, stored_runs
from spu_core.errors import WorkspaceError
from spu_core.labels.check_log import ADMITTED
from spu_core.metrics import Difference, auc_spu_ceiling, auc_spu_score, compare_auc_spu
from spu_core.rules import RuleSet
from spu_core.tables import Table
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.trust.outcomes.arms import HoldoutReport, measure_on_holdout
from spu_core.trust.outcomes.feedback import Feedback, FeedbackPlan, feed_back
from spu_core.trust.outcomes.ratios import RANDOM, LabelDelay, label_delay
from spu_core.workspace import DatasetRecord, FeedbackRecord, RuleSetVersion, RunRecord, Workspace

TOP = 0.05


@dataclass(frozen=True, eq=False)
class Learnt:
    """What was kept: the new dataset, the rules (a new version where they changed) and the lineage."""

    feedback: Feedback
    dataset: DatasetRecord
    rules: RuleSetVersion | None
    record: FeedbackRecord


def propose_feedback(
    workspace: Workspace, dataset: str, rules: RuleSetVersion | None, plan: FeedbackPlan | None = None
) -> Feedback:
    """What the recorded outcomes would change, with nothing kept.

    All standing outcomes are put into the table that this dataset was first made from, so a corrected outcome counts
    as corrected, and no check counts twice.
    """
    now, base = workspace.datasets.load(dataset), _base(workspace, dataset)
    known = None if rules is None else RuleSet.from_json(rules.text)
    found = feed_back(base, known, checks_of(workspace, dataset).by_row, plan)
    return replace(found, before=now)


def learn_from_outcomes(
    workspace: Workspace, dataset: str, rules: RuleSetVersion | None, plan: FeedbackPlan | None = None
) -> Learnt:
    """Keep the proposal: a new dataset, a new version of the rules where they change, and where both came from."""
    plan = plan or FeedbackPlan()
    feedback = propose_feedback(workspace, dataset, rules, plan)
    old = workspace.datasets.get(dataset)
    if feedback.table.fingerprint == old.fingerprint:
        raise WorkspaceError(f"{old.name!r} knows all recorded outcomes already; record new ones first.")
    name = f"{_base_name(workspace, dataset)}, after {len(feedback.checks):,} checks"
    made = workspace.datasets.save(feedback.table, name)
    kept = _keep_rules(workspace, feedback, rules, name)
    detail = {
        "queues": sorted({str(token) for token in checks_of(workspace, dataset).queue}),
        "plan": {"until": plan.until, "use_holdout": plan.use_holdout, "raise_beliefs": plan.raise_beliefs},
        "fingerprint_before": old.fingerprint,
        "fingerprint_after": made.fingerprint,
        "rules_before": None if rules is None else [rules.id, rules.number],
        "rules_after": None if kept is None else [kept.id, kept.number],
        **feedback.summary,
    }
    return Learnt(feedback, made, kept, workspace.feedbacks.save(dataset, made.id, detail))


def retraining_job(workspace: Workspace, run: str, learnt: FeedbackRecord) -> Job:
    """The job that trains the candidate of a run again, on the dataset and by the rules that came from outcomes."""
    record = workspace.runs.get(run)
    config = replace(TrainConfig.from_dict(dict(record.config)), beliefs_from_labels=True)
    plan = TrainPlan(config, (Candidate.from_dict(dict(record.candidate)),))
    rules = learnt.detail.get("rules_after") or [None, None]
    parameters = {
        "dataset": learnt.target,
        "rule_set": rules[0],
        "rule_set_version": rules[1],
        "plan": plan.to_json(),
        "refine": False,
        "left_out": list(left_out_of(workspace, record)),
    }
    limits = JobLimits(threads=config.threads)
    return Job(kind="train", parameters=parameters, title=f"{record.name}, trained again", limits=limits)


def confirmation_delay(workspace: Workspace, dataset: str, today: str, *, wanted: float = 0.9) -> LabelDelay:
    """How long after the date of its features a row was confirmed by a check; the table needs a column of dates."""
    table, found = workspace.datasets.load(dataset), checks_of(workspace, dataset)
    times = table.times
    if times is None or not np.issubdtype(times.dtype, np.datetime64):
        raise WorkspaceError("The rows have no dates; give the column with the date of the features the role time.")
    confirmed = np.full(len(table), np.datetime64("NaT", "D"))
    admitted = found.only(found.checks.outcome == ADMITTED)
    confirmed[admitted.row] = admitted.checks.day
    return label_delay(times, confirmed, today, wanted=wanted)


def leave_out_young_rows(workspace: Workspace, dataset: str, delay: LabelDelay) -> DatasetRecord:
    """A new dataset without the rows that have had too little time to be confirmed, with its lineage."""
    table, old = workspace.datasets.load(dataset), workspace.datasets.get(dataset)
    keep = ~delay.is_young
    if keep.all() or not keep.any():
        raise WorkspaceError(f"{int(keep.sum()):,} of {keep.size:,} rows are old enough, so there is nothing to cut.")
    older = table.only(keep)
    made = workspace.datasets.save(older, f"{old.name}, rows of at least {delay.cut_off} days")
    detail = {"rows_left_out": int((~keep).sum()), "cut_off_days": delay.cut_off, "wanted": delay.wanted}
    workspace.feedbacks.save(dataset, made.id, detail)
    return made


@dataclass(frozen=True, eq=False)
class WhatChanged:
    """The old and the new model side by side: by the old S, by the new S, and on the random holdout.

    Both are judged by out-of-fold scores of the same rows. The S that a model learnt from flatters it; the holdout
    flatters nobody, but has few checks.
    """

    old: str
    new: str
    by_old: Difference
    by_new: Difference
    figures: pd.DataFrame
    holdout_old: HoldoutReport | None
    holdout_new: HoldoutReport | None

    @property
    def sentence(self) -> str:
        return (
            f"{self.new!r} against {self.old!r}: AUC_SPU {self.by_old.estimate:+.4f} ({self.by_old.low:+.4f} to "
            f"{self.by_old.high:+.4f}) by the old soft labels, {self.by_new.estimate:+.4f} ({self.by_new.low:+.4f} to "
            f"{self.by_new.high:+.4f}) by the new ones."
        )


def what_changed(workspace: Workspace, old: str, new: str) -> WhatChanged:
    """Compare a run with the one that was trained after outcomes had been fed back, on one S at a time."""
    records = [workspace.runs.get(token) for token in (old, new)]
    if records[0].dataset not in workspace.feedbacks.family(records[1].dataset):
        raise WorkspaceError(f"{records[1].name!r} was not trained on what came from the data of {records[0].name!r}.")
    names = arm_names(workspace, records[1].dataset, records)
    scores = [run.need_score() for run in stored_runs(workspace, (old, new))]
    tables = [workspace.datasets.load(record.dataset) for record in records]
    labels = [_soft_label(workspace, record, table) for record, table in zip(records, tables, strict=True)]
    differences = [compare_auc_spu(label, scores[1], scores[0], groups=tables[1].groups) for label in labels]
    found = checks_of(workspace, records[1].dataset)
    reports = [holdout_report(found, score) for score in scores]
    return WhatChanged(
        names[old], names[new], differences[0], differences[1], _figures(names, records, scores, labels), *reports
    )


def _base(workspace: Workspace, dataset: str) -> Table:
    """The oldest table of the family that is still there, with the roles of today."""
    now = workspace.datasets.load(dataset)
    there = {record.id for record in workspace.datasets.list()}
    oldest = [token for token in workspace.feedbacks.family(dataset) if token in there][-1]
    if oldest == dataset:
        return now
    base = workspace.datasets.load(oldest)
    return base.with_roles({name: role for name, role in now.roles.items() if base.roles.get(name, role) != role})


def _base_name(workspace: Workspace, dataset: str) -> str:
    there = {record.id: record for record in workspace.datasets.list()}
    return [there[token].name for token in workspace.feedbacks.family(dataset) if token in there][-1]


def _keep_rules(
    workspace: Workspace, feedback: Feedback, rules: RuleSetVersion | None, name: str
) -> RuleSetVersion | None:
    if rules is None:
        return workspace.rule_sets.create("Checks", feedback.rules.to_json(), "from outcomes of checks")
    if not feedback.rules_changed:
        return rules
    text, note = feedback.rules.to_json(), f"from outcomes: {name}"
    if workspace.rule_sets.get(rules.id).number != rules.number:
        # Somebody has edited these rules since; their edits must not be lost under ours.
        return workspace.rule_sets.create(f"{rules.name}, after checks", text, note)
    return workspace.rule_sets.save(rules, text, note)


def _soft_label(workspace: Workspace, record: RunRecord, table: Table) -> np.ndarray:
    version = None
    if record.rule_set is not None:
        version = workspace.rule_sets.get(record.rule_set, record.rule_set_version)
    return soft_labels_by(table, version).value


def _figures(
    names: dict[str, str], records: list[RunRecord], scores: list[np.ndarray], labels: list[np.ndarray]
) -> pd.DataFrame:
    lines = []
    for which, label in zip(("old soft labels", "new soft labels"), labels, strict=True):
        found = [float(auc_spu_score(label, score)) for score in scores]
        lines.append((which, *found, float(auc_spu_ceiling(label)), float(np.mean(label))))
    columns = ["judged by", *(names[record.id] for record in records), "ceiling", "mean soft label"]
    return pd.DataFrame(lines, columns=columns)


def random_checks(found: LoopChecks) -> LoopChecks:
    """Only the checks that chance asked for."""
    return found.only(found.checks.arm == RANDOM)


def holdout_report(
    found: LoopChecks, score: np.ndarray, threshold: float | None = None, share: float = TOP
) -> HoldoutReport | None:
    """A score on the random checks alone, flagged above the threshold or the top share of all rows; None without."""
    chance = random_checks(found)
    if not len(chance):
        return None
    cut = float(np.quantile(score, 1.0 - share)) if threshold is None else threshold
    return measure_on_holdout(score[chance.row], chance.checks, cut)
