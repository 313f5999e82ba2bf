"""Runs of a workspace: load them, name them, compare them on the same soft labels, and import bundles and rules.

Runs come from training jobs, or from bundles that were made elsewhere of the same table.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spu_core.engines.audit_results import with_audit
from spu_core.engines.study import soft_labels_of
from spu_core.errors import RuleError, WorkspaceError
from spu_core.export import Bundle, FlagPoint, load_bundle
from spu_core.labels import SoftLabels
from spu_core.rules import RuleSet
from spu_core.tables import Table
from spu_core.training import (
    Comparison,
    FoldAssignment,
    Recommendation,
    Run,
    compare_runs,
    permutation_importance,
    recommend,
    runs_on,
)
from spu_core.training.comparison import NOT_MODELS
from spu_core.training.rows import prepare_rows
from spu_core.workspace import DatasetRecord, RuleSetVersion, RunDraft, RunRecord, Threshold, Workspace

NOTE = "came from elsewhere"
# At most this many runs are compared at once.
MOST_COMPARED = 12
_SUMMARY = ("name", "auc_spu", "low", "high", "share_of_ceiling", "known_positive_auc", "true_auc", "seconds")


def stored_bundle(workspace: Workspace, token: str) -> Bundle:
    """The bundle of a run, with its current operating point."""
    bundle = _bundle_of(workspace, token)
    points = workspace.thresholds.list(token)
    if not points:
        return bundle
    return bundle.with_point(FlagPoint(threshold=points[0].threshold, share=points[0].flagged_share))


def stored_runs(workspace: Workspace, tokens: Iterable[str]) -> list[Run]:
    """Runs with their out-of-fold scores, under names that differ within their dataset."""
    records = [workspace.runs.get(token) for token in tokens]
    names = distinct_names(workspace.runs.list(records[0].dataset)) if records else {}
    return [
        replace(
            _bundle_of(workspace, record.id).run,
            name=names.get(record.id, record.name),
            seconds=float(record.summary.get("seconds") or 0.0),
        )
        for record in records
    ]


def distinct_names(records: Sequence[RunRecord]) -> dict[str, str]:
    """Id → name, different for each run. Of equal names the oldest stays as it is, later ones get a number."""
    taken: set[str] = set()
    names: dict[str, str] = {}
    for record in reversed(records):
        name, number = record.name, 2
        while name in taken:
            name, number = f"{record.name} {number}", number + 1
        taken.add(name)
        names[record.id] = name
    return names


def displayed_names(records: Sequence[RunRecord]) -> dict[str, str]:
    """Id → name on pages and in exports: of equal names the newest stays as it is, since it replaces the older ones."""
    return distinct_names(records[::-1])


def recommended_run(workspace: Workspace, records: Sequence[RunRecord], origin: str) -> RunRecord:
    """The run to show before the user has chosen one: the recommended one of the newest comparable runs.

    Where no model can be recommended, it is the first in the order of the recommendation.
    """
    return recommended_run_and_why(workspace, records, origin)[0]


def recommended_run_and_why(
    workspace: Workspace, records: Sequence[RunRecord], origin: str
) -> tuple[RunRecord, Recommendation]:
    """The same with the recommendation."""
    tokens = comparable_runs(records, MOST_COMPARED)
    runs = stored_runs(workspace, tokens)
    alike = [at for at, run in enumerate(runs) if run.evaluation.same_as(runs[0].evaluation)]
    comparison = compare_runs([runs[at] for at in alike])
    comparison = with_audit(workspace, workspace.datasets.get(records[0].dataset), comparison)
    found = recommend(comparison, origin=origin)
    names = {runs[at].name: tokens[at] for at in alike}
    return workspace.runs.get(names[found.model or found.order[0]]), found


def comparable_runs(records: Sequence[RunRecord], most: int) -> list[str]:
    """Ids of the newest run and of those with the same rules and folds; the newest run of each name.

    Parameters
    ----------
    records
        Runs of one dataset, the newest first.
    most
        How many ids to return at most.
    """
    if not records:
        return []
    alike = [record for record in records if folds_and_rules(record) == folds_and_rules(records[0])]
    newest: dict[str, str] = {}
    for record in alike:
        newest.setdefault(record.name, record.id)
    return list(newest.values())[:most]


def models_of_same_rules(records: Sequence[RunRecord], chosen: RunRecord, most: int) -> tuple[RunRecord, ...]:
    """The chosen run and the other models that were trained with the same rules, in the order of `records`.

    The rules themselves and an oracle are left out: rules are best on their own soft labels, an oracle knows the truth.
    """
    same = (chosen.rule_set, chosen.rule_set_version)
    others = [
        record
        for record in records
        if record.id != chosen.id
        and record.candidate.get("method") not in NOT_MODELS
        and (record.rule_set, record.rule_set_version) == same
    ]
    return (chosen, *others)[:most]


def folds_and_rules(record: RunRecord) -> tuple[object, ...]:
    """Rules and split settings of a run; runs that share them can be compared."""
    folds = tuple(dict(record.config).get(name) for name in ("folds", "seed", "hold_out", "out_of_time"))
    return (record.rule_set, record.rule_set_version, *folds)


def left_out_of(workspace: Workspace, record: RunRecord) -> tuple[str, ...]:
    """The columns that were hidden from the models in the training of this run."""
    job = None if record.job is None else workspace.jobs.find(record.job)
    return () if job is None else tuple(job.parameters.get("left_out", ()))


def soft_labels_by(table: Table, version: RuleSetVersion | None) -> SoftLabels:
    """The soft labels of a table by a version of a rule set; without rules, those of the table itself."""
    return soft_labels_of(table, None if version is None else RuleSet.from_json(version.text))


def compare_on(runs: Sequence[Run], soft_labels: SoftLabels) -> Comparison:
    """Compare runs on the same soft labels, whatever soft labels each was trained on.

    Refined soft labels are used only if they were refined from these soft labels.
    """
    value = np.asarray(soft_labels.value, dtype=np.float64)
    own = next((run.evaluation.refined for run in runs if np.array_equal(run.evaluation.soft_label, value)), None)
    judged = runs_on([replace(run, evaluation=replace(run.evaluation, refined=own)) for run in runs], soft_labels)
    # The same evaluation data for all, so that every figure counts the same rows with the same soft labels.
    return compare_runs(
        [
            replace(run, evaluation=judged[0].evaluation) if run.evaluation.same_as(judged[0].evaluation) else run
            for run in judged
        ]
    )


def shuffled_columns(run: Run, table: Table, soft_labels: SoftLabels) -> pd.DataFrame:
    """Permutation importance of a stored run. One of its folds is trained again, and its left-out rows are used."""
    split = FoldAssignment(np.asarray(run.fold), bool(run.config.out_of_time), run.evaluation.groups)
    data = prepare_rows(table, soft_labels, run.config, split)
    return permutation_importance(replace(run, data=data), repeats=3)


def summary_table(records: Sequence[RunRecord]) -> pd.DataFrame:
    """Stored runs with their figures from the summaries in the catalogue, in the order of `records`."""
    return pd.DataFrame([_summary_row(record) for record in records], columns=list(_SUMMARY))


def refusal_to_keep(bundle: Bundle, dataset: DatasetRecord) -> str | None:
    """Why a bundle cannot become a run of a dataset; None if it can."""
    if not bundle.rows:
        return "The bundle was exported without its training rows, so it cannot be compared here; it can score."
    if bundle.details.fingerprint != dataset.fingerprint:
        return (
            f"The bundle was not trained on {dataset.name!r} (their fingerprints differ), so it cannot be compared "
            "with the runs of this dataset; it can score."
        )
    return None


def kept_before(workspace: Workspace, dataset: DatasetRecord, data: bytes) -> RunRecord | None:
    """The run of a dataset whose file has exactly these bytes."""
    digest = hashlib.sha256(data).hexdigest()
    return next((run for run in workspace.runs.list(dataset.id) if workspace.runs.sha256(run.id) == digest), None)


def keep_as_run(workspace: Workspace, dataset: DatasetRecord, bundle: Bundle, data: bytes) -> RunRecord:
    """Store a bundle that was loaded from `data` as a run, with its rules and its operating point."""
    refused, known = refusal_to_keep(bundle, dataset), kept_before(workspace, dataset, data)
    if refused is not None:
        raise WorkspaceError(refused)
    if known is not None:
        return known

    def write(path: Path) -> None:
        path.write_bytes(data)

    record = workspace.runs.save(_draft(workspace, dataset, bundle), write)
    if math.isfinite(bundle.point.threshold):
        point = Threshold("from the bundle", float(bundle.point.threshold), float(bundle.point.share))
        workspace.thresholds.save(record.id, point, {"by": bundle.point.chosen_by})
    return record


def keep_rules(workspace: Workspace, name: str, rules: RuleSet) -> RuleSetVersion:
    """Store rules as a rule set. If a stored rule set has the same active rules, that one is returned."""
    text = rules.active.to_json()
    same = (known for known in workspace.rule_sets.list() if _active_text(known) == text)
    return next(same, None) or workspace.rule_sets.create(name, rules.to_json(), NOTE)


def _bundle_of(workspace: Workspace, token: str) -> Bundle:
    return load_bundle(workspace.runs.path(token), known_hash=workspace.runs.sha256(token))


def _summary_row(record: RunRecord) -> tuple[Any, ...]:
    metrics = record.summary.get("metrics") or {}
    auc = metrics.get("auc_spu") or {}
    others = (_estimate(metrics, name) for name in ("share_of_ceiling", "known_positive_auc", "true_auc"))
    bounds = (auc.get(name, math.nan) for name in ("estimate", "low", "high"))
    return (record.name, *bounds, *others, float(record.summary.get("seconds") or 0.0))


def _estimate(metrics: Mapping[str, Any], name: str) -> float:
    found = metrics.get(name)
    return math.nan if not found or found.get("estimate") is None else float(found["estimate"])


def _draft(workspace: Workspace, dataset: DatasetRecord, bundle: Bundle) -> RunDraft:
    label_rules, run = bundle.label_rules, bundle.run
    rules = None if label_rules is None else keep_rules(workspace, f"Rules of {bundle.name}", label_rules.rules.rules)
    return RunDraft(
        name=bundle.name,
        dataset=dataset.id,
        candidate=run.candidate.to_dict(),
        rule_set=None if rules is None else rules.id,
        rule_set_version=None if rules is None else rules.number,
        config=run.config.to_dict(),
        summary=run.to_dict(),
        versions=dict(bundle.facts.versions),
    )


def _active_text(version: RuleSetVersion) -> str | None:
    """The active rules as JSON, as in a bundle; None if the rule set cannot be read."""
    try:
        return RuleSet.from_json(version.text).active.to_json()
    except RuleError:
        return None
