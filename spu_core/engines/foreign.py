"""What comes from elsewhere: rules become a rule set, bundles that were made of the same table become runs."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

from spu_core.errors import RuleError, WorkspaceError
from spu_core.export import Bundle
from spu_core.rules import RuleSet
from spu_core.workspace import DatasetRecord, RuleSetVersion, RunDraft, RunRecord, Threshold, Workspace

NOTE = "came from elsewhere"


def refusal_to_keep(bundle: Bundle, dataset: DatasetRecord) -> str | None:
    """Why a bundle cannot become a run of a dataset; None where it can."""
    if not bundle.rows:
        return "The bundle was exported without its training rows, so it cannot be compared here; it can score."
    if bundle.details.fingerprint != dataset.fingerprint:
        return (
            f"The bundle was not trained on {dataset.name!r} (their fingerprints differ), so it cannot stand beside "
            "the runs of this dataset; it can score."
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
    """Rules as a rule set of the workspace; one whose active rules say the same is taken as it is."""
    text = rules.active.to_json()
    same = (known for known in workspace.rule_sets.list() if _active_text(known) == text)
    return next(same, None) or workspace.rule_sets.create(name, rules.to_json(), NOTE)


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
    """A bundle holds active rules only; a set that cannot be read equals none."""
    try:
        return RuleSet.from_json(version.text).active.to_json()
    except RuleError:
        return None
