"""The training job: every finished run is kept as a bundle with its lineage; a failing candidate is a row."""

from __future__ import annotations

import numpy as np
import psutil
import pytest

from spu_core.engines import Job, cancel, run_in_process, start_worker, wait_for
from spu_core.engines.processes.os_processes import find_process, wait_until
from spu_core.engines.study import Study, soft_labels_of
from spu_core.errors import SpuError, WorkspaceError
from spu_core.rules import Rule, RuleSet
from spu_core.rules.suggest import suggest_rules
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import Candidate, TrainConfig, TrainPlan, cross_fit
from spu_core.training.evaluation import FROM_LABELS
from spu_core.workspace import Workspace
from tests.export.examples import known


@pytest.fixture
def workspace(tmp_path):
    with Workspace.open(tmp_path / "home") as opened:
        yield opened


def training(workspace, *candidates, **parameters):
    dataset = workspace.datasets.save(load_sample("breast_cancer", truth=True))
    rules = workspace.rule_sets.create("cancer", load_sample_rules("breast_cancer"))
    plan = TrainPlan(TrainConfig(folds=3), candidates)
    parameters = {
        "dataset": dataset.id,
        "rule_set": rules.id,
        "rule_set_version": 1,
        "plan": plan.to_json(),
    } | parameters
    return Job(kind="train", parameters=parameters, title="training")


def test_runs_are_kept_as_bundles_with_their_lineage(workspace):
    done = run_in_process(
        workspace, training(workspace, Candidate("lightgbm", {"rounds": 20}), Candidate("labeled_vs_rest"))
    )

    assert done.status == "finished", done.error
    records = workspace.runs.list()
    assert {record.name for record in records} == {"lightgbm", "labeled_vs_rest"}
    assert [record.id for record in reversed(records)] == done.result["runs"]
    lineage = workspace.lineage(records[0].id)
    assert lineage.rule_set_name == "cancer"
    assert records[0].summary["metrics"]["refined_auc_spu"] is not None


def test_a_stored_run_scores_like_the_same_training_in_this_process(workspace):
    done = run_in_process(workspace, training(workspace, Candidate("lightgbm", {"rounds": 20}), refine=False))
    table = load_sample("breast_cancer", truth=True)
    fitted = RuleSet.from_json(load_sample_rules("breast_cancer")).fit(table)
    [run] = cross_fit(
        table, soft_labels_of(table, fitted), [Candidate("lightgbm", {"rounds": 20})], TrainConfig(folds=3)
    )

    bundle = known(workspace.runs.path(done.result["runs"][0]))

    np.testing.assert_array_equal(bundle.run.score, run.score)
    np.testing.assert_array_equal(bundle.predict(table.frame), run.fit_all().score(table.frame))


def test_a_failing_candidate_is_a_row_and_the_others_go_on(workspace):
    table = load_sample("breast_cancer", truth=True).with_roles({"malignant": "ignore"})
    dataset = workspace.datasets.save(table, "no truth")
    plan = TrainPlan(TrainConfig(folds=3), (Candidate("oracle"), Candidate("labeled_vs_rest")))
    done = run_in_process(workspace, Job(kind="train", parameters={"dataset": dataset.id, "plan": plan.to_json()}))

    assert done.status == "finished"
    assert [error["name"] for error in done.result["errors"]] == ["oracle"]
    assert len(done.result["runs"]) == 1


def test_a_worker_trains_and_tells_how_far_it_is(workspace):
    job = start_worker(workspace, training(workspace, Candidate("lightgbm", {"rounds": 20}), refine=False))

    done = wait_for(workspace, job.id, 600)

    assert done.status == "finished", (done.error, workspace.jobs.log(done.id))
    assert done.detail["candidate"] == "lightgbm"
    assert len(workspace.runs.list()) == 1


def forking(workspace):
    """A training that would last for hours, once its two processes have begun; all its processes."""
    job = start_worker(
        workspace, training(workspace, Candidate("lightgbm", {"rounds": 20_000}), refine=False, processes=2)
    )

    def tree():
        supervisor = find_process(workspace.jobs.get(job.id).worker)
        return [] if supervisor is None else [supervisor, *supervisor.children(recursive=True)]

    assert wait_until(lambda: len(tree()) == 4, 300), workspace.jobs.log(job.id)
    assert wait_until(lambda: workspace.jobs.get(job.id).detail.get("iteration", 0) > 0, 300)
    return job, tree()


def is_gone(process):
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.xdist_group("processes")
def test_a_cancelled_training_leaves_no_process_behind(workspace):
    job, tree = forking(workspace)

    cancel(workspace, job.id)

    assert wait_for(workspace, job.id, 300).status == "cancelled"
    assert wait_until(lambda: all(map(is_gone, tree)), 300)


@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("victim", [1, 3], ids=["worker", "second process"])
def test_a_training_that_loses_a_process_ends_with_all_others(workspace, victim):
    job, tree = forking(workspace)

    tree[victim].kill()

    assert wait_for(workspace, job.id, 300).status == "interrupted"
    assert "was killed (SIGKILL)" in workspace.jobs.get(job.id).error
    assert wait_until(lambda: all(map(is_gone, tree)), 300)


def test_a_training_in_two_processes_stores_the_same_scores(workspace):
    candidates = (Candidate("lightgbm", {"rounds": 20}), Candidate("fused", {"rounds": 10}))
    alone = run_in_process(workspace, training(workspace, *candidates))
    together = run_in_process(workspace, training(workspace, *candidates, processes=2))

    for one, other in zip(alone.result["runs"], together.result["runs"], strict=True):
        first, second = (known(workspace.runs.path(token)) for token in (one, other))
        np.testing.assert_array_equal(first.run.score, second.run.score)
        assert first.run.metrics.to_dict() == second.run.metrics.to_dict()
    assert alone.result["losses"] == together.result["losses"]


def test_parameters_that_name_nothing_are_refused_in_words(workspace):
    with pytest.raises(WorkspaceError, match="must name its dataset"):
        run_in_process(workspace, Job(kind="train", parameters={"plan": "{}"}))


def test_a_study_goes_through_json_and_refuses_what_it_does_not_know():
    table = load_sample("breast_cancer", truth=True)
    rules = RuleSet.from_json(load_sample_rules("breast_cancer"))
    study = Study.of(table, rules, TrainPlan(TrainConfig(folds=3), (Candidate("logistic"),)))

    assert Study.from_json(study.to_json()) == study
    assert study.prepare(table.with_roles({"malignant": "ignore"})).column_with("truth") == "malignant"
    for hostile in (
        "[]",
        "{}",
        '{"schema": 1}',
        study.to_json().replace('"refine"', '"refyne"'),
        '{"schema": 1, "schema": 1}',
    ):
        with pytest.raises(SpuError):
            Study.from_json(hostile)


def test_confirmed_cases_do_not_judge_rules_that_were_made_from_them():
    table = load_sample("breast_cancer")
    suggested = suggest_rules(table, table.features)[0].draft.rule()
    plan = TrainPlan(TrainConfig(folds=2, threads=1), (Candidate("logistic"),))

    notes = []
    for rule in (suggested, Rule(suggested.name, suggested.belief, suggested.when)):
        [(run, _)] = Study.of(table, RuleSet((rule,)), plan, refine=False).run(table)
        notes.append(run.metrics.known_positive_note)

    assert notes == [FROM_LABELS, None]
