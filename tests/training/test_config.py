"""The values that decide a training: checked when made, equal after a trip through JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spu_core.errors import TrainingError
from spu_core.training import Candidate, EarlyStopping, TrainConfig, TrainPlan, Tuning

configs = st.builds(
    TrainConfig,
    folds=st.integers(2, 20),
    seed=st.integers(0, 2**31),
    hold_out=st.sampled_from([0.0, 0.2]),
    early_stopping=st.none() | st.builds(EarlyStopping, on=st.sampled_from(["soft_log_loss", "auc_spu"])),
    rule_columns=st.sampled_from(["by method", "dropped", "kept"]),
    threads=st.integers(1, 8),
    review_budget=st.integers(1, 500) | st.floats(0.001, 1.0),
    group_column=st.none() | st.text(min_size=1, max_size=5),
    rules_chose_checks=st.booleans(),
)


@given(configs)
def test_a_config_survives_json(config):
    assert TrainConfig.from_json(config.to_json()) == config


def test_a_plan_survives_json_with_tuning_and_settings():
    tuned = Candidate("lightgbm", {"rounds": 30}, "mine", Tuning(trials=3, ranges={"num_leaves": (4, 16)}))
    plan = TrainPlan(TrainConfig(folds=3), (tuned, Candidate("fused", without_rules=True)))

    assert TrainPlan.from_json(plan.to_json()) == plan
    assert hash(TrainPlan.from_json(plan.to_json())) == hash(plan)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"folds": 1}, "folds must be a whole number of at least 2, got 1."),
        ({"folds": True}, "folds must be a whole number, got True."),
        ({"folds": 2.5}, "folds must be a whole number, got 2.5."),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1."),
        ({"threads": 0}, "threads must be a whole number of at least 1, got 0."),
        ({"hold_out": 1.0}, "hold_out must be at most 0.8, got 1; models need rows to learn from."),
        ({"hold_out": 0.2, "out_of_time": 0.2}, "hold_out and out_of_time exclude each other"),
        ({"rule_columns": "gone"}, "rule_columns must be one of 'by method', 'dropped', 'kept', got 'gone'."),
        ({"review_budget": 0}, "review_budget must be a whole number of rows or a share of them in (0, 1], got 0."),
        ({"review_budget": 1.5}, "review_budget must be a whole number of rows"),
        ({"group_column": 3}, "group_column must be text, got 3."),
        ({"rules_chose_checks": "yes"}, "rules_chose_checks must be true or false, got 'yes'."),
        ({"fold": 3}, "The training config has an unknown field 'fold'. Did you mean 'folds'?"),
        ({"early_stopping": {"on": "auc"}}, "early_stopping.on must be one of 'soft_log_loss', 'auc_spu', got 'auc'."),
        ({"early_stopping": {"share": 0.7}}, "early_stopping.share must be at most 0.5"),
        ({"early_stopping": 3}, "early_stopping must be an object, got 3."),
    ],
)
def test_a_bad_field_gets_a_sentence(fields, sentence):
    with pytest.raises(TrainingError) as problem:
        TrainConfig.from_json(json.dumps(fields))

    assert sentence in str(problem.value)


@pytest.mark.parametrize(
    "text",
    ['{"folds": 2, "folds": 3}', '{"level": NaN}', "[" * 100, "[]", "{", '{"level": 1e999}', b"\xff\xfe"],
)
def test_hostile_json_is_refused_in_words(text):
    with pytest.raises(TrainingError):
        TrainConfig.from_json(text)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"method": "fussed"}, "There is no method 'fussed'. Did you mean 'fused'?"),
        ({"method": "lightgbm", "settings": {"round": 3}}, "Method 'lightgbm' has no setting 'round'."),
        ({"method": "lightgbm", "settings": [1]}, "settings must be an object, got a list of 1."),
        ({"method": "lightgbm", "colour": 1}, "The candidate has an unknown field 'colour'."),
        ({"name": "x"}, "The candidate lacks the field 'method'."),
        ({"method": "lightgbm", "name": 3}, "name must be text, got 3."),
        ({"method": "lightgbm", "tuning": {"trials": 0}}, "tuning.trials must be a whole number of at least 1"),
        ({"method": "lightgbm", "tuning": {"ranges": {"rounds": [9, 3]}}}, "must rise from low to high"),
        ({"method": "lightgbm", "tuning": {"seconds": -1}}, "tuning.seconds must be above 0 or None, got -1."),
    ],
)
def test_a_bad_candidate_gets_a_sentence(fields, sentence):
    with pytest.raises(TrainingError) as problem:
        Candidate.from_dict(fields)

    assert sentence in str(problem.value)


def test_candidates_of_one_name_are_numbered():
    plan = TrainPlan(TrainConfig(), (Candidate("lightgbm"), Candidate("lightgbm", {"rounds": 3})))

    assert [candidate.name for candidate in plan.candidates] == ["lightgbm", "lightgbm 2"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"candidates": []}', "The training plan lacks the field 'schema'."),
        ('{"schema": 1}', "The training plan lacks the field 'candidates'."),
        ('{"schema": 1, "candidates": []}', "There is no candidate to train"),
        (
            '{"schema": 1, "candidates": [{"method": "lightgbm"}], "more": 1}',
            "The training plan has an unknown field 'more'.",
        ),
    ],
)
def test_a_bad_plan_gets_a_sentence(text, sentence):
    with pytest.raises(TrainingError) as problem:
        TrainPlan.from_json(text)

    assert sentence in str(problem.value)


def test_a_candidate_can_travel_to_a_worker():
    import copy
    import pickle

    tuned = Candidate("lightgbm", {"rounds": 30}, "mine", Tuning(trials=3, ranges={"num_leaves": (4, 16)}))

    assert pickle.loads(pickle.dumps(tuned)) == tuned == copy.deepcopy(tuned)


@pytest.mark.parametrize("value", [2.5, True, "3", 1])
def test_a_number_that_is_not_whole_or_too_small_is_refused(value):
    with pytest.raises(TrainingError, match="folds must be a whole number of at least 2, got"):
        TrainConfig(folds=value)
