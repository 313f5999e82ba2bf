"""What comes from elsewhere: bundles that were made of the same table become runs of this workspace."""

from __future__ import annotations

import math
from pathlib import Path

from spu_core.errors import RuleError, WorkspaceError
from spu_core.export import Bundle
from spu_core.rules import RuleSet
from spu_core.workspace import DatasetRecord, RuleSetVersion, RunDraft, RunRecord, Threshold, Workspace

NOTE = "came with a bundle"


def refusal_to_keep(bundle: Bundle, dataset: DatasetRecord) -> str | None:
    """Why a bundle cannot become a run of a dataset; None where it can."""
    if not bundle.rows:
        return "The bundle was exported without its training rows, so it cannot be compared here; it can score."
    if bundle.passport.fingerprint != dataset.fingerprint:
        return (
            f"The bundle was not trained on {dataset.name!r} (their fingerprints differ), so it cannot stand beside "
            "the runs of this dataset; it can score."
        )
    return None


def keep_as_run(workspace: Workspace, dataset: DatasetRecord, bundle: Bundle, data: bytes) -> RunRecord:
    """Store a bundle that was loaded from `data` as a run, with its rules and its operating point."""
    refused = refusal_to_keep(bundle, dataset)
    if refused is not None:
        raise WorkspaceError(refused)
    rules = keep_rules(workspace, bundle)
    run = bundle.run
    draft = RunDraft(
        name=bundle.name,
        dataset=dataset.id,
        candidate=run.candidate.to_dict(),
        rule_set=None if rules is None else rules.id,
        rule_set_version=None if rules is None else rules.number,
        config=run.config.to_dict(),
        summary=run.to_dict(),
        versions=dict(bundle.facts.versions),
    )
    record = workspace.runs.save(draft, lambda path: _write(path, data))
    if math.isfinite(bundle.point.threshold):
        point = Threshold("from the bundle", float(bundle.point.threshold), float(bundle.point.share))
        workspace.thresholds.save(record.id, point, {"by": bundle.point.chosen_by})
    return record


def keep_rules(workspace: Workspace, bundle: Bundle) -> RuleSetVersion | None:
    """The rules of a bundle as a rule set; one that says the same is taken as it is. None without rules."""
    if bundle.recipe is None:
        return None
    text = bundle.recipe.rules.rules.to_json()
    same = (known for known in workspace.rule_sets.list() if _active_text(known) == text)
    return next(same, None) or workspace.rule_sets.create(f"Rules of {bundle.name}", text, NOTE)


def _active_text(version: RuleSetVersion) -> str | None:
    """A bundle holds active rules only; a set that cannot be read is like none."""
    try:
        return RuleSet.from_json(version.text).active.to_json()
    except RuleError:
        return None


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
