"""Runs back from the workspace: their bundles, names that tell them apart, and one S to judge them by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from spu_core.engines.study import soft_labels_of
from spu_core.export import Bundle, FlagPoint, load_bundle
from spu_core.labels import SoftLabels
from spu_core.rules import RuleSet
from spu_core.tables import Table, TableFolder
from spu_core.training import Comparison, FoldAssignment, Run, compare_runs, permutation_importance, runs_on
from spu_core.training.judging import DECIDING
from spu_core.training.rows import prepare_rows
from spu_core.training.views import NOT_MODELS
from spu_core.workspace import RuleSetVersion, RunRecord, Workspace


def stored_bundle(workspace: Workspace, token: str) -> Bundle:
    """The bundle of a run, flagging where its current operating point says."""
    bundle = load_bundle(workspace.runs.path(token), known_hash=workspace.runs.sha256(token))
    points = workspace.thresholds.list(token)
    if not points:
        return bundle
    return bundle.with_point(FlagPoint(threshold=points[0].threshold, share=points[0].flagged_share))


def stored_runs(workspace: Workspace, tokens: Iterable[str]) -> list[Run]:
    """Runs with their out-of-fold scores, named as the workspace names them."""
    records = [workspace.runs.get(token) for token in tokens]
    names = names_apart(workspace.runs.list(records[0].dataset)) if records else {}
    return [replace(_bundle_of(workspace, record.id).run, name=names.get(record.id, record.name)) for record in records]


def names_apart(records: Sequence[RunRecord]) -> dict[str, str]:
    """A name for each run of a list (newest first): the second of two equal names gets a number, the oldest none."""
    taken: set[str] = set()
    names: dict[str, str] = {}
    for record in reversed(records):
        name, number = record.name, 2
        while name in taken:
            name, number = f"{record.name} {number}", number + 1
        taken.add(name)
        names[record.id] = name
    return names


def model_to_show(records: Sequence[RunRecord]) -> RunRecord:
    """The run to look at before anybody has chosen: of the newest training, the model with the highest AUC_SPU.

    Runs of one training share their S, so their figures may be ranked. The rules alone are no model to use, nor is a
    model that is worse than chance.
    """
    newest = [record for record in records if record.job == records[0].job]
    models = [record for record in newest if record.candidate.get("method") not in NOT_MODELS]
    fit = [record for record in models if not _is_below_chance(record)]
    return max(fit or models or newest, key=_stored_auc)


def _is_below_chance(record: RunRecord) -> bool:
    metrics = record.summary.get("metrics") or {}
    deciding: dict[str, float] = next((metrics[name] for name in DECIDING if metrics.get(name)), {})
    return float(deciding.get("high", 1.0)) < 0.5


def _stored_auc(record: RunRecord) -> float:
    metrics = record.summary.get("metrics") or {}
    return float((metrics.get("auc_spu") or {}).get("estimate", 0.0))


def left_out_of(workspace: Workspace, record: RunRecord) -> tuple[str, ...]:
    """The columns that models of this run's training must not see; whoever trains it again keeps them out."""
    job = None if record.job is None else workspace.jobs.find(record.job)
    return () if job is None else tuple(job.parameters.get("left_out", ()))


def soft_labels_by(table: Table | TableFolder, version: RuleSetVersion | None) -> SoftLabels:
    """The soft labels that a version of a rule set gives a table; without rules, those of the table itself."""
    return soft_labels_of(table, None if version is None else RuleSet.from_json(version.text))


def compare_on(runs: Sequence[Run], soft_labels: SoftLabels) -> Comparison:
    """Runs side by side on one S, whatever S each was trained on.

    Refined S counts only where it was refined from this S: another one's would judge by rules nobody chose here.
    """
    value = np.asarray(soft_labels.value, dtype=np.float64)
    own = next((run.evaluation.refined for run in runs if np.array_equal(run.evaluation.soft_label, value)), None)
    judged = runs_on([replace(run, evaluation=replace(run.evaluation, refined=own)) for run in runs], soft_labels)
    # One evaluation for all: every chart and figure then counts the same rows by the same S.
    return compare_runs(
        [
            replace(run, evaluation=judged[0].evaluation) if run.evaluation.same_as(judged[0].evaluation) else run
            for run in judged
        ]
    )


def shuffled_columns(run: Run, table: Table | TableFolder, soft_labels: SoftLabels) -> pd.DataFrame:
    """Permutation importance of a stored run: one of its folds is trained again, on the rows that it left out."""
    split = FoldAssignment(np.asarray(run.fold), bool(run.config.out_of_time), run.evaluation.groups)
    data = prepare_rows(table, soft_labels, run.config, split)
    return permutation_importance(replace(run, data=data), repeats=3)


def column_values(table: Table | TableFolder, name: str) -> pd.Series:
    """One column of all rows."""
    return table.values(name) if isinstance(table, TableFolder) else table.frame[name]


def _bundle_of(workspace: Workspace, token: str) -> Bundle:
    return load_bundle(workspace.runs.path(token), known_hash=workspace.runs.sha256(token))
