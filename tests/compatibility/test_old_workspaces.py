"""Workspaces and bundles that three earlier commits made: they open, score as they did, and are written as before.

A zip file holds a workspace (`home`), an exported bundle, and `expected.json`: what its commit said about them.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from spu_core.engines.audit_results import audit_result, checked_rows
from spu_core.engines.jobs.retraining_checks import echo_result
from spu_core.engines.outcome_loop import checks_of
from spu_core.engines.stored_runs import soft_labels_by, stored_bundle, stored_runs
from spu_core.engines.study import Study
from spu_core.export import ScoreReport, bundle_bytes, load_bundle
from spu_core.export.archive import digest, unpack_archive
from spu_core.rules import FittedRules, RuleSet
from spu_core.tables.profiles import profile_from_json, profile_to_json
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.trust import AuditPlan, judge_runs
from spu_core.workspace import Workspace

OLD = Path(__file__).parent / "old"
COMMITS = ("8013c2b", "77f60a2", "56fa3a3")
WITH_AUDITS = COMMITS[1:]


class OldWork:
    """What one commit left behind, opened by this version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        self.workspace = Workspace.open(folder / "home")
        ids = self.expected["ids"]
        self.dataset, self.rule_set, self.runs = (
            ids["dataset"],
            ids["rule_set"],
            dict(zip(ids["names"], ids["runs"], strict=True)),
        )

    @property
    def table(self):
        return self.workspace.datasets.load(self.dataset)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Opens the work of a commit, each once."""
    made: dict[str, OldWork] = {}

    def open_work(commit: str) -> OldWork:
        if commit not in made:
            folder = tmp_path_factory.mktemp(commit)
            with zipfile.ZipFile(OLD / f"{commit}.zip") as archive:
                archive.extractall(folder)
            made[commit] = OldWork(folder)
        return made[commit]

    yield open_work
    for work in made.values():
        work.workspace.close()


@pytest.mark.parametrize("commit", COMMITS)
def test_an_old_dataset_opens_with_its_roles_and_values(opened, commit):
    work = opened(commit)

    assert work.table.fingerprint == work.expected["fingerprint"]
    assert work.table.roles["claim"] == "id"
    assert work.table.reading.dialect.separator == ";"


@pytest.mark.parametrize("commit", COMMITS)
def test_old_models_score_as_they_did(opened, commit):
    work = opened(commit)

    for name, token in work.runs.items():
        score = stored_bundle(work.workspace, token).predict(work.table.frame)
        np.testing.assert_allclose(score, work.expected["scores"][name], rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("commit", COMMITS)
def test_old_runs_keep_scores_figures_and_settings(opened, commit):
    work = opened(commit)

    for name, token in work.runs.items():
        [run], record = stored_runs(work.workspace, [token]), work.workspace.runs.get(token)
        np.testing.assert_array_equal(run.need_score(), work.expected["out_of_fold"][name])
        figure = work.expected["metrics"][name]["auc_spu"]
        assert run.metrics.auc_spu.estimate == pytest.approx(figure["estimate"], abs=1e-12)
        assert Candidate.from_dict(record.candidate) == run.candidate
        assert TrainConfig.from_dict(record.config) == run.config
        assert run.config.early_stopping.patience == 3
        assert bool(run.tunings) is (name == "tuned")


@pytest.mark.parametrize("commit", COMMITS)
def test_old_rules_give_the_same_soft_labels_and_the_same_text(opened, commit):
    work = opened(commit)
    version = work.workspace.rule_sets.get(work.rule_set, 2)

    assert version.text == work.expected["rules"]
    assert RuleSet.from_json(version.text).to_json() == version.text
    np.testing.assert_array_equal(soft_labels_by(work.table, version).value, work.expected["soft_label"])
    fitted = FittedRules.from_json(work.expected["fitted_rules"])
    assert fitted.to_json() == work.expected["fitted_rules"]
    assert RuleSet.from_json(version.text).fit(work.table).to_json() == work.expected["fitted_rules"]


@pytest.mark.parametrize("commit", COMMITS)
def test_an_old_plan_and_study_are_written_as_before(opened, commit):
    work = opened(commit)
    study = Study.from_json(work.expected["study"])

    assert study.plan == TrainPlan.from_json(work.expected["plan"])
    assert study.to_json() == work.expected["study"]
    assert study.plan.to_json() == work.expected["plan"]


@pytest.mark.parametrize("commit", COMMITS)
def test_an_old_bundle_opens_and_is_written_again_with_the_same_members(opened, commit):
    work = opened(commit)
    data = (work.folder / "model.spu").read_bytes()
    bundle = load_bundle(data, known_hash=digest(data))

    np.testing.assert_allclose(bundle.predict(work.table.frame), work.expected["scores"]["boosted"], rtol=0, atol=1e-12)
    before, after = unpack_archive(data), unpack_archive(bundle_bytes(bundle))
    # The manifest tells its own version and has got more fields since.
    assert {name for name in before if before[name] != after[name]} == {"manifest.json"}


@pytest.mark.parametrize("commit", COMMITS)
def test_old_jobs_and_scored_rows_can_be_read(opened, commit):
    work = opened(commit)

    assert [[job.kind, str(job.status)] for job in work.workspace.jobs.list()] == work.expected["jobs"]
    [export] = work.workspace.exports.list(work.runs["boosted"])
    if "report" in export.detail:  # the first of the commits did not keep it
        report = ScoreReport.from_dict(export.detail["report"])
        assert [report.rows, report.flagged] == [work.expected["scored"][name] for name in ("rows", "flagged")]
        before = work.expected["scored"]["notes"][0]
        assert before.startswith(report.notes[0].removesuffix("."))
        # The old work scored its own training rows, which is no longer called a difference.
        assert (report.flags_differ or report.are_training_rows) == ("differs from training" in before)
    assert work.workspace.thresholds.champion(work.dataset).threshold == 0.4
    assert {(3, True), (5, False)} <= {
        (each.row, each.is_positive) for each in work.workspace.outcomes.list(work.dataset)
    }


@pytest.mark.parametrize("commit", WITH_AUDITS)
def test_an_old_audit_gives_the_same_estimate_and_the_same_text(opened, commit):
    work = opened(commit)
    [audit] = work.workspace.audits.list(work.runs["boosted"])
    plan = AuditPlan.from_json(audit.plan)
    [run] = stored_runs(work.workspace, [work.runs["boosted"]])
    found = audit_result(run, work.table, plan, work.workspace.audits.verdicts(audit.id)).estimate.figures["precision"]

    assert plan.to_json() == audit.plan == work.expected["audit"]["plan"]
    assert plan.code == work.expected["audit"]["code"]
    assert [found.estimate, found.low, found.high] == pytest.approx(work.expected["audit"]["precision"])


@pytest.mark.parametrize("commit", WITH_AUDITS)
def test_the_verdicts_of_an_old_audit_judge_every_run(opened, commit):
    work = opened(commit)
    [audit] = work.workspace.audits.of_dataset(work.dataset)
    checked = checked_rows(work.workspace, work.workspace.datasets.get(work.dataset))
    report = judge_runs(stored_runs(work.workspace, list(work.runs.values())), checked)

    assert checked.chance is not None
    assert checked.row.size == len({each.row for each in work.workspace.audits.verdicts(audit.id)})
    assert set(report.figures) == set(work.runs)


@pytest.mark.parametrize("commit", WITH_AUDITS)
def test_an_old_queue_keeps_its_users_and_outcomes(opened, commit):
    work = opened(commit)
    [queue] = work.workspace.queues.list(work.dataset)

    assert [entry.user for entry in work.workspace.queues.entries(queue.id)] == work.expected["queue"]["users"]
    assert dict(queue.plan) == work.expected["queue"]["plan"]
    assert checks_of(work.workspace, work.dataset).checks.outcome.tolist() == work.expected["queue"]["outcomes"]


@pytest.mark.parametrize("commit", WITH_AUDITS)
def test_an_old_echo_check_and_profile_can_be_read(opened, commit):
    work = opened(commit)
    job = next(job for job in work.workspace.jobs.list() if job.kind == "echo")

    assert echo_result(job).to_dict() == work.expected["echo"]
    assert profile_to_json(profile_from_json(work.expected["profile"])) == work.expected["profile"]
