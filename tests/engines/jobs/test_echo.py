"""The job of an echo check: it trains as the run was trained, keeps its figures, and is found again by its question."""

from __future__ import annotations

import pytest

from spu_core.engines import run_in_process
from spu_core.engines.jobs.retraining_checks import echo_job, echo_result
from spu_core.engines.outcome_learning import retraining_job
from spu_core.engines.processes import latest_job
from spu_core.engines.stored_runs import left_out_of, soft_labels_by, stored_bundle
from spu_core.errors import TrainingError
from spu_core.training import Candidate, TrainConfig
from spu_core.trust import echo_check
from tests.dashboard.trained import bring_sample, train_quickly


@pytest.fixture
def stored(workspace):
    address = bring_sample(workspace)
    table = workspace.datasets.load(address["dataset"])
    rules = workspace.rule_sets.get(address["rules"], 1)
    hidden = next(name for name in table.features if name not in soft_labels_by(table, rules).rule_columns)
    [run] = train_quickly(workspace, address, (Candidate("logistic", name="soft"),), left_out=[hidden])
    return workspace.runs.get(run), workspace.datasets.get(address["dataset"]), rules, hidden


def test_the_job_finds_what_the_check_finds_on_the_columns_of_the_training(workspace, stored):
    run, dataset, rules, hidden = stored
    job = echo_job(run, dataset, rules)
    assert latest_job(workspace, job) is None
    done = run_in_process(workspace, job)

    table = workspace.datasets.load(dataset.id).with_roles({hidden: "ignore"})
    config = TrainConfig.from_dict(dict(run.config))
    expected = echo_check(table, soft_labels_by(table, rules), Candidate.from_dict(dict(run.candidate)), config)
    assert echo_result(latest_job(workspace, job)) == echo_result(done) == expected
    assert expected.rows == dataset.n_rows


def test_another_question_is_another_job(workspace, stored):
    run, dataset, rules, hidden = stored
    run_in_process(workspace, echo_job(run, dataset, rules))
    table = workspace.datasets.load(dataset.id).with_roles({hidden: "ignore"})
    changed = workspace.datasets.save_roles(table, dataset)

    assert changed.version == dataset.version + 1
    assert latest_job(workspace, echo_job(run, changed, rules)) is None
    assert latest_job(workspace, echo_job(run, dataset, rules)) is not None


def test_a_training_again_keeps_out_what_was_left_out(workspace, stored):
    run, dataset, rules, hidden = stored
    assert left_out_of(workspace, run) == (hidden,)

    again = workspace.datasets.save(workspace.datasets.load(dataset.id), "after checks")
    learnt = workspace.feedbacks.save(dataset.id, again.id, {"rules_after": [rules.id, rules.number]})
    done = run_in_process(workspace, retraining_job(workspace, run.id, learnt))
    [new] = done.result["runs"]
    assert hidden not in stored_bundle(workspace, new).columns


def test_rules_that_read_no_feature_are_said(workspace, stored):
    run, dataset, _, _ = stored
    with pytest.raises(TrainingError, match="read no feature column"):
        run_in_process(workspace, echo_job(run, dataset, None))
