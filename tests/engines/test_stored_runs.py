"""Runs back from the workspace: names apart, one S for runs of different rules, operating points in their bundles."""

from __future__ import annotations

import numpy as np
import pytest

from spu_core.engines import Job, run_in_process
from spu_core.engines.stored_runs import (
    compare_on,
    distinct_names,
    recommended_run,
    shuffled_columns,
    soft_labels_by,
    stored_bundle,
    stored_runs,
    summary_table,
)
from spu_core.errors import TrainingError
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import Candidate, TrainConfig, TrainPlan, compare_runs
from spu_core.workspace import Threshold, Workspace

LINEAR = Candidate("logistic", name="linear")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """One dataset, two versions of its rules, and runs under both."""
    with Workspace.open(tmp_path_factory.mktemp("stored") / "home") as opened:
        dataset = opened.datasets.save(load_sample("breast_cancer", truth=True))
        first = opened.rule_sets.create("cancer", load_sample_rules("breast_cancer"))
        opened.rule_sets.save(first, first.text.replace('"at_end": 0.8', '"at_end": 0.6'))
        _train(opened, dataset.id, first.id, 1, LINEAR, Candidate("rule_score"))
        _train(opened, dataset.id, first.id, 2, LINEAR)
        yield opened


def _train(workspace, dataset, rules, version, *candidates, **more):
    plan = TrainPlan(TrainConfig(folds=3, threads=1), candidates)
    named = {"dataset": dataset, "rule_set": rules, "rule_set_version": version, "plan": plan.to_json()}
    done = run_in_process(workspace, Job(kind="train", parameters={**named, "refine": False, **more}))
    assert done.status == "finished", done.error
    return done


def test_equal_names_get_numbers_and_the_oldest_keeps_its_own(workspace):
    records = workspace.runs.list()

    assert [distinct_names(records)[record.id] for record in records] == ["linear 2", "rule_score", "linear"]
    assert [run.name for run in stored_runs(workspace, [records[0].id])] == ["linear 2"]


def test_runs_under_other_rules_share_the_folds_and_are_judged_by_one_s(workspace):
    records = workspace.runs.list()
    runs = stored_runs(workspace, [record.id for record in records])
    table = workspace.datasets.load(records[0].dataset)
    with pytest.raises(TrainingError, match="different soft labels"):
        compare_runs(runs)

    for version in (1, 2):
        soft_labels = soft_labels_by(table, workspace.rule_sets.get(records[0].rule_set, version))
        compared = compare_on(runs, soft_labels)
        assert {run.name for run in compared.runs} == {"linear", "linear 2", "rule_score"}
        assert len({run.metrics.ceiling for run in compared.runs}) == 1
    assert all(np.array_equal(run.fold, runs[0].fold) for run in runs)


def test_a_bundle_flags_where_its_run_was_last_told_to(workspace):
    token = workspace.runs.list()[0].id
    before = stored_bundle(workspace, token).point
    workspace.thresholds.save(token, Threshold("ten percent", 0.4321, 0.1))

    after = stored_bundle(workspace, token).point

    assert (after.threshold, after.share) == (0.4321, 0.1)
    assert before.threshold != after.threshold


def test_a_column_that_models_must_not_see_is_left_out_but_rules_may_read_it(workspace):
    dataset, rules = workspace.datasets.list()[0].id, workspace.rule_sets.list()[0].id
    done = _train(workspace, dataset, rules, 1, Candidate("logistic", name="blind"), left_out=["worst_area"])

    bundle = stored_bundle(workspace, done.result["runs"][0])

    assert "worst_area" not in bundle.fitted.encoder.names
    assert "worst_texture" in bundle.fitted.encoder.names
    workspace.delete(workspace.plan_deletion("run", done.result["runs"][0]))


def test_shuffling_trains_a_fold_of_a_stored_run_again(workspace):
    record = next(each for each in workspace.runs.list() if each.name == "linear")
    table = workspace.datasets.load(record.dataset)
    soft_labels = soft_labels_by(table, workspace.rule_sets.get(record.rule_set, record.rule_set_version))
    [run] = stored_runs(workspace, [record.id])

    effects = shuffled_columns(run, table, soft_labels)

    assert effects["importance"].iloc[0] > 0
    assert set(effects["column"]) <= {*table.features, "rule score"}


def test_the_summary_keeps_the_order_of_the_runs(workspace):
    records = workspace.runs.list()
    board = summary_table(records)

    assert board["name"].tolist() == [record.name for record in records]
    assert (board["low"] <= board["auc_spu"]).all()
    assert board["true_auc"].notna().all()
    assert summary_table([]).empty


def test_before_anybody_has_chosen_the_recommended_model_of_the_newest_runs_is_shown(workspace):
    """The rules alone were trained under the older rules, and are never the model to show."""
    records = workspace.runs.list()
    older = [record for record in records if record.rule_set_version == 1]

    assert recommended_run(workspace, records, "unknown").id == records[0].id
    assert recommended_run(workspace, older, "unknown").name == "linear"
    assert {record.name for record in older} == {"linear", "rule_score"}
