"""Learn from the outcomes of checks: a new dataset and new rules, the next training, and what changed.

For the anti-cheat sample, outcomes can be simulated, to try all steps without reviewers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from spu_core.engines.jobs import Job, JobLimits
from spu_core.engines.outcome_loop import LoopChecks, arm_names, checks_of
from spu_core.engines.stored_runs import left_out_of, soft_labels_by, stored_runs
from spu_core.errors import WorkspaceError
from spu_core.labels.check_log import ADMITTED
from spu_core.metrics import Difference, auc_spu_ceiling, auc_spu_score, compare_auc_spu
from spu_core.rules import RuleSet
from spu_core.tables import Table
from spu_core.tables.simulators import AntiCheatWorld
from spu_core.tables.simulators.anti_cheat import Players
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.trust.outcomes.arms import HoldoutReport, measure_on_holdout
from spu_core.trust.outcomes.feedback import Feedback, FeedbackPlan, feed_back
from spu_core.trust.outcomes.ratios import RANDOM, LabelDelay, label_delay
from spu_core.trust.outcomes.review_queue import OutcomeLine
from spu_core.workspace import DatasetRecord, FeedbackRecord, RuleSetVersion, RunRecord, Workspace

TOP = 0.05
# Columns that identify the anti-cheat sample.
SAMPLE_COLUMNS = ("account_age_days", "headshot_rate", "reaction_ms", "devices")
# The outcomes of its simulation as reviewers write them.
OUTCOME_CODES = {"pass": "passed", "fail": "failed", "admit": "admitted"}


@dataclass(frozen=True, eq=False)
class Learnt:
    """What was stored: the new dataset, the rules (a new version if they changed) and the lineage."""

    feedback: Feedback
    dataset: DatasetRecord
    rules: RuleSetVersion | None
    record: FeedbackRecord


def propose_feedback(
    workspace: Workspace, dataset: str, rules: RuleSetVersion | None, plan: FeedbackPlan | None = None
) -> Feedback:
    """What the recorded outcomes would change. Stores nothing.

    All latest outcomes are applied to the table that this dataset was first made from, so corrections count, and no
    check counts twice.
    """
    now, base = workspace.datasets.load(dataset), _base(workspace, dataset)
    known = None if rules is None else RuleSet.from_json(rules.text)
    found = feed_back(base, known, checks_of(workspace, dataset).by_row, plan)
    return replace(found, before=now)


def learn_from_outcomes(
    workspace: Workspace, dataset: str, rules: RuleSetVersion | None, plan: FeedbackPlan | None = None
) -> Learnt:
    """Apply the recorded outcomes: store a new dataset, a new version of the rules if they change, and the lineage."""
    plan = plan or FeedbackPlan()
    feedback = propose_feedback(workspace, dataset, rules, plan)
    old = workspace.datasets.get(dataset)
    if feedback.table.fingerprint == old.fingerprint:
        raise WorkspaceError(f"{old.name!r} already contains all recorded outcomes; record new ones first.")
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
    """The job that trains the candidate of a run again, on the dataset and rules that were made from outcomes."""
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


def confirmation_delay(workspace: Workspace, dataset: str, today: str) -> LabelDelay:
    """The time from the date of a row to its confirmation by a check. The table needs a column with the role time."""
    table, found = workspace.datasets.load(dataset), checks_of(workspace, dataset)
    times = table.times
    if times is None or not np.issubdtype(times.dtype, np.datetime64):
        raise WorkspaceError("The rows have no dates; give the column with the date of the features the role time.")
    confirmed = np.full(len(table), np.datetime64("NaT", "D"))
    admitted = found.only(found.checks.outcome == ADMITTED)
    confirmed[admitted.row] = admitted.checks.day
    return label_delay(times, confirmed, today)


def leave_out_recent_rows(workspace: Workspace, dataset: str, delay: LabelDelay) -> DatasetRecord:
    """Store a new dataset without rows that are too young to be confirmed, with its lineage."""
    table, old = workspace.datasets.load(dataset), workspace.datasets.get(dataset)
    keep = ~delay.is_recent
    if keep.all() or not keep.any():
        raise WorkspaceError(f"{int(keep.sum()):,} of {keep.size:,} rows are old enough, so there is nothing to cut.")
    older = table.only(keep)
    made = workspace.datasets.save(older, f"{old.name}, rows of at least {delay.cut_off} days")
    detail = {"rows_left_out": int((~keep).sum()), "cut_off_days": delay.cut_off, "wanted": delay.wanted}
    workspace.feedbacks.save(dataset, made.id, detail)
    return made


@dataclass(frozen=True, eq=False)
class WhatChanged:
    """The old and the new model compared: on the old soft labels, on the new ones, and on the random holdout.

    Both have out-of-fold scores of the same rows. Each model has an advantage on the soft labels that it was trained
    on. The holdout favours neither, but has few checks.
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
        """The differences in AUC_SPU with their intervals."""
        return (
            f"{self.new!r} against {self.old!r}: AUC_SPU {self.by_old.estimate:+.4f} ({self.by_old.low:+.4f} to "
            f"{self.by_old.high:+.4f}) by the old soft labels, {self.by_new.estimate:+.4f} ({self.by_new.low:+.4f} to "
            f"{self.by_new.high:+.4f}) by the new ones."
        )


def what_changed(workspace: Workspace, old: str, new: str) -> WhatChanged:
    """Compare a run with one that was trained later on outcomes."""
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
    """The oldest stored table of the family, with the current roles."""
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
        # The rules were edited meanwhile; do not overwrite those edits.
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
    """Only the checks of randomly chosen rows."""
    return found.only(found.checks.arm == RANDOM)


def holdout_report(found: LoopChecks, score: np.ndarray, threshold: float | None = None) -> HoldoutReport | None:
    """Figures of a score on the random checks, flagged above the threshold or in the top share; None without any."""
    chance = random_checks(found)
    if not len(chance):
        return None
    cut = float(np.quantile(score, 1.0 - TOP)) if threshold is None else threshold
    return measure_on_holdout(score[chance.row], chance.checks, cut)


def sample_players(table: Table) -> Players | None:
    """The players of the anti-cheat sample, if this table is that sample or made from it; else None."""
    if not set(SAMPLE_COLUMNS) <= set(table.frame.columns):
        return None
    players = AntiCheatWorld().draw()
    if len(players) != len(table):
        return None
    same = all(
        np.array_equal(table.frame[name].to_numpy(), players.features[name].to_numpy()) for name in SAMPLE_COLUMNS
    )
    return players if same else None


def simulated_outcomes(workspace: Workspace, queue: str, players: Players) -> tuple[OutcomeLine, ...]:
    """Simulated outcomes of the checks of a queue, on the day of the queue."""
    entries, record = workspace.queues.entries(queue), workspace.queues.get(queue)
    rows = np.array([entry.row for entry in entries])
    turn = int(record.plan.get("turn", 1))
    found = AntiCheatWorld().check(players, rows, seed=turn)
    day = record.made.date().isoformat()
    return tuple(
        OutcomeLine(entry.row, entry.user, OUTCOME_CODES[str(outcome)], day)
        for entry, outcome in zip(entries, found, strict=True)
    )


def simulated_csv(lines: tuple[OutcomeLine, ...]) -> str:
    """These outcomes as the CSV file that a reviewer would return."""
    frame = pd.DataFrame([(line.user, line.outcome, line.day) for line in lines], columns=["user", "outcome", "day"])
    return frame.to_csv(index=False)
