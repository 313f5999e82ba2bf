"""The recommendation: the default wins ties, valid yardsticks come first, and doubts are said instead of Yes or No."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm, t

from spu_core.errors import TrainingError
from spu_core.metrics import Difference
from spu_core.training import Candidate, EvaluationData, Run, TrainConfig, compare_runs, recommend, with_twins
from spu_core.training.comparison import AuditEvidence
from spu_core.training.evaluation import PairedDifference, joint_covariance
from spu_core.training.recommendation import _Answer
from spu_core.training.record import Posterior, rank_distance, stored_record

ROWS = 3000


def evaluation(labels=200, seed=0, **more):
    """Confirmed cases drawn at random from a third of positives, and rules that know a little."""
    rng = np.random.default_rng(seed)
    truth = rng.random(ROWS) < 0.33
    flags = np.zeros(ROWS, dtype=bool)
    flags[rng.choice(np.flatnonzero(truth), labels, replace=False)] = True
    rule = np.where(rng.random(ROWS) < 0.2 + 0.3 * truth, 0.6, 0.1)
    data = EvaluationData(
        np.where(flags, 1.0, rule), flags, rule, np.arange(ROWS) % 5, np.ones(ROWS, dtype=bool), **more
    )
    return data, truth


def compared(data, truth, signals, seed=1):
    """Runs whose scores follow the truth with these strengths, the rules alone among them."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=ROWS)
    runs = []
    for name, strength in signals.items():
        method, blind = name.removesuffix(" without rules"), name.endswith(" without rules")
        score = data.rule_score if method == "rule_score" else strength * truth + shared + 0.3 * rng.normal(size=ROWS)
        candidate = Candidate(method, name=name, without_rules=blind)
        runs.append(Run(name, candidate, TrainConfig(), data, score=score).judged_by(data))
    return compare_runs(runs)


EQUAL = {"labeled_vs_rest": 1.0, "fused": 1.0, "fused without rules": 1.0, "rule_score": 0.0}
RULES_HELP = {"labeled_vs_rest": 0.8, "fused": 1.6, "fused without rules": 0.9, "rule_score": 0.0}
RULES_HURT = {"labeled_vs_rest": 0.8, "fused": 0.5, "fused without rules": 1.6, "rule_score": 0.0}


def test_the_default_wins_a_tie_and_references_come_last():
    found = recommend(compared(*evaluation(), EQUAL))

    assert (found.model, found.confidence, found.yardstick) == ("fused", "tie", "known_positive_auc")
    assert set(found.among_best) >= {"fused", "fused without rules"}
    assert found.order[0] == "fused"
    assert found.order[-1] == "rule_score"
    assert found.help_of_rules == "no clear difference"
    assert "rule_score" not in found.among_best


def test_rules_that_help_are_seen_by_the_twin():
    found = recommend(compared(*evaluation(600), RULES_HELP))

    assert (found.model, found.confidence, found.help_of_rules) == ("fused", "clear", "yes")
    assert found.among_best == ("fused",)
    assert found.next_step.action == "export"
    assert found.help_sentence.startswith("Yes, the rules help ('fused' against 'fused without rules': +0.")


def test_the_default_is_left_only_where_cases_were_found_by_chance_and_the_difference_is_clear():
    comparison = compared(*evaluation(600), RULES_HURT)
    by_chance, not_known = (recommend(comparison, origin=origin) for origin in ("chance", "unknown"))

    assert (by_chance.model, by_chance.help_of_rules) == ("fused without rules", "no")
    assert by_chance.order[0] == "fused without rules"
    # Selected cases look as if rules hurt, so an analyst who does not know gets a weaker answer, never a stronger one.
    assert not_known.model in (*by_chance.among_best, "fused")
    few = recommend(compared(*evaluation(15), RULES_HURT))
    assert few.model == "fused"


def test_the_truth_comes_before_confirmed_cases():
    data, truth = evaluation(600)
    comparison = compared(replace(data, truth=truth), truth, RULES_HURT)
    found = recommend(comparison, origin="rules")

    assert (found.yardstick, found.model, found.confidence) == ("true_auc", "fused without rules", "clear")
    assert found.help_of_rules == "no"


def test_random_checks_come_before_cases_that_were_found_otherwise():
    data, truth = evaluation(600, labels_note="The rules decided who was checked.")
    checked = np.random.default_rng(0).random(ROWS) < 0.5
    found = recommend(compared(replace(data, randomly_checked=checked), truth, RULES_HELP))

    assert (found.yardstick, found.confidence) == ("random_checks", "clear")


def test_outcomes_of_random_checks_come_before_cases_that_were_found_otherwise():
    data, truth = evaluation(200)
    checked = np.random.default_rng(0).random(ROWS) < 0.4
    outcomes = np.where(checked, truth, np.nan).astype(float)
    found = recommend(compared(replace(data, random_outcomes=outcomes), truth, RULES_HURT), origin="rules")

    assert (found.yardstick, found.model, found.help_of_rules) == ("random_outcomes", "fused without rules", "no")
    assert "outcomes of random checks" in found.sentence


def test_too_few_cases_among_random_checks_decide_nothing():
    data, truth = evaluation(200)
    outcomes = np.where(np.arange(ROWS) < 20, truth, np.nan).astype(float)
    found = recommend(compared(replace(data, random_outcomes=outcomes), truth, RULES_HURT), origin="rules")

    assert found.yardstick == "provisional"


@pytest.mark.parametrize(
    ("labels", "more", "origin", "reason"),
    [
        (7, {}, "chance", "Too few confirmed cases"),
        (200, {"labels_note": "The rules decided who was checked."}, "chance", "The rules decided"),
        (200, {}, "rules", "found because of these rules"),
    ],
)
@pytest.mark.parametrize("signals", [RULES_HELP, RULES_HURT])
def test_without_a_valid_yardstick_there_is_neither_yes_nor_no(labels, more, origin, reason, signals):
    found = recommend(compared(*evaluation(labels, **more), signals), origin=origin)

    assert (found.model, found.yardstick, found.confidence) == ("fused", "provisional", "provisional")
    assert found.help_of_rules == "cannot tell"
    assert reason in found.sentence
    assert reason in found.help_sentence
    assert (found.next_step.action == "get more confirmed cases") == (labels < 10)


def test_where_yardsticks_disagree_both_contenders_and_the_number_of_checks_are_named():
    data, truth = evaluation(600)
    comparison = compared(data, truth, {"fused": 1.6, "fused without rules": 1.5, "rule_score": 0.0})
    follower = Candidate("lightgbm")
    score = data.rule_score + 0.2 * np.random.default_rng(3).random(ROWS)
    echo = Run("lightgbm", follower, TrainConfig(), data, score=score).judged_by(data)
    found = recommend(compare_runs([*comparison.runs, echo]))

    [warning] = found.warnings
    assert found.model == "fused"
    assert "your soft labels favour 'lightgbm'" in warning
    assert "confirmed cases 'fused'" in warning
    assert "random rows would settle it" in warning
    assert "(AUC_SPU follows your rules)" in warning  # both models use them


def test_two_models_are_judged_by_their_figures_and_not_by_their_record_alone():
    data, truth = evaluation()
    found = recommend(compared(replace(data, truth=truth), truth, {"fused": 0.3, "labeled_vs_rest": 2.0}))

    assert (found.model, found.yardstick) == ("labeled_vs_rest", "true_auc")


def test_rules_that_hurt_are_to_be_revised_where_the_recommended_model_uses_them():
    data, truth = evaluation()
    signals = {"lightgbm": 2.5, "fused": 0.5, "fused without rules": 1.6}
    found = recommend(compared(replace(data, truth=truth), truth, signals))

    assert (found.model, found.help_of_rules) == ("lightgbm", "no")
    assert found.next_step.action == "revise rules"


def test_rules_that_rank_backwards_are_to_be_revised_and_favour_no_model():
    data, truth = evaluation(600)
    belief = np.where(truth, 0.1, 0.6)
    wrong = replace(data, rule_score=belief, soft_label=np.where(data.is_labeled, 1.0, belief))
    comparison = compared(wrong, truth, EQUAL)
    noise = np.random.default_rng(3).random(ROWS)
    follower = Run("knn", Candidate("labeled_vs_rest"), TrainConfig(), wrong, score=noise - 0.1 * truth)
    found = recommend(compare_runs([*comparison.runs, follower.judged_by(wrong)]))

    assert found.model == "fused"
    assert found.next_step.action == "revise rules"
    assert found.warnings[0].startswith("Your rules rank cases below other rows")
    assert not any("yardsticks disagree" in warning for warning in found.warnings)


def test_figures_on_few_cases_are_believed_as_students_t_says(monkeypatch):
    seen = []
    after = Posterior.after
    monkeypatch.setattr(
        Posterior, "after", lambda self, value, *more: seen.append(more[0]) or after(self, value, *more)
    )
    comparison = compared(*evaluation(40), {"fused": 1.0, "labeled_vs_rest": 1.0})
    recommend(comparison, origin="chance")
    covariance, degrees = joint_covariance(list(comparison.figures["known_positive_auc"].aucs.values()))

    wider = t.ppf(0.975, degrees) / norm.ppf(0.975)
    assert wider > 1.02
    assert np.trace(seen[0]) == pytest.approx(np.trace(covariance) * wider**2)


def answer(error: float, expected: float, **more) -> _Answer:
    """The answer where two models differ by so much, measured with this error on 200 checked rows."""
    pair = SimpleNamespace(difference=SimpleNamespace(standard_error=error))
    auc = SimpleNamespace(effective_numbers=(50.0, 500.0), shares_training=False)
    figure = SimpleNamespace(pair=lambda *_: pair, aucs={"a": auc}, value={"a": 0.8}, too_few=False)
    belief = SimpleNamespace(difference=lambda *_: (expected, 0.0))
    labels = np.arange(1000) < 100
    judged = SimpleNamespace(judged_soft_label=np.where(labels, 1.0, 0.4), judged_is_labeled=labels)
    evidence = SimpleNamespace(**{"figure": figure, "belief": belief, "is_audit": True, "is_valid": True, **more})
    comparison = SimpleNamespace(
        audit=SimpleNamespace(checks=200),
        below_chance=(),
        runs=[SimpleNamespace(name=name, evaluation=judged) for name in "ab"],
        figures={"known_positive_auc": figure},
    )
    return _Answer(comparison, evidence, ())


@pytest.mark.parametrize(("error", "expected"), [(0.02, 0.04), (0.03, 0.05), (0.01, 0.04)])
def test_more_checks_give_a_power_of_80_percent(error, expected):
    """The error falls with the root of the rows; a test at 5 % with this power needs 2.8 errors."""
    needed = 200 * ((norm.ppf(0.975) + norm.ppf(0.8)) * error / expected) ** 2

    assert answer(error, expected).checks("a", "b") == pytest.approx(max(needed - 200, 10), abs=10)
    assert answer(0.01, 0.04).checks("a", "b") == 10
    assert answer(0.2, 0.04).checks("a", "b") is None


def test_first_checks_find_as_many_cases_as_a_power_of_80_percent_needs():
    needed = ((norm.ppf(0.975) + norm.ppf(0.8)) * 0.02 / 0.04) ** 2 * 50
    found = answer(0.02, 0.04, is_audit=False).checks("a", "b")

    assert found == pytest.approx(needed / (0.5 * 0.4), abs=10)  # half of what the soft labels promise


@pytest.mark.parametrize(("chance", "action"), [(0.5, "check rows"), (0.05, "export")])
def test_rows_are_to_be_checked_where_another_model_may_well_be_better(monkeypatch, chance, action):
    monkeypatch.setattr(_Answer, "contender", lambda *_: "b")
    model = SimpleNamespace(name="a")
    belief = SimpleNamespace(difference=lambda *_: (0.04, 0.0), chance=lambda *_: chance)
    found = answer(0.02, 0.04, models=(model,), belief=belief).next_step("a", ("a",), "clear", "yes")

    assert found.action == action


def test_rows_are_to_be_checked_for_the_nearest_rival_where_the_favourite_of_the_soft_labels_is_out(monkeypatch):
    monkeypatch.setattr(_Answer, "contender", lambda *_: "c")
    belief = SimpleNamespace(difference=lambda *_: (0.04, 0.0), chance=lambda rival, *_: {"b": 0.6, "c": 0.01}[rival])
    found = answer(0.02, 0.04, models=(SimpleNamespace(name="a"),), belief=belief, yardstick="known_positive_auc")
    step = found.next_step("a", ("a", "b"), "tie", "no clear difference")

    assert (step.action, step.sentence.split()[-3:]) == ("check rows", ["'a'", "and", "'b'."])


def test_without_the_twin_nothing_is_said_about_the_rules():
    found = recommend(compared(*evaluation(600), {"fused": 1.5, "labeled_vs_rest": 0.5}))

    assert found.help_of_rules == "cannot tell"
    assert "with and without" in found.help_sentence


def test_one_model_alone_is_provisional_and_rules_alone_are_no_model():
    alone = recommend(compared(*evaluation(), {"lightgbm": 1.0, "rule_score": 0.0}))
    none = recommend(compared(*evaluation(), {"rule_score": 0.0}))

    assert (alone.model, alone.confidence, alone.among_best) == ("lightgbm", "provisional", ("lightgbm",))
    assert (none.model, none.confidence, none.order) == (None, "cannot tell", ("rule_score",))


def test_failed_runs_are_listed_last():
    comparison = compared(*evaluation(), EQUAL)
    failed = Run("oracle", Candidate("oracle"), TrainConfig(), comparison.runs[0].evaluation, error="no truth")
    found = recommend(compare_runs([*comparison.runs, failed]))

    assert found.order[-2:] == ("rule_score", "oracle")
    assert found.ranked(compare_runs([*comparison.runs, failed]).leaderboard)["name"].tolist() == list(found.order)


def test_an_unknown_origin_is_refused():
    with pytest.raises(TrainingError, match="origin must be one of 'chance', 'rules', 'other', 'unknown'"):
        recommend(compared(*evaluation(), EQUAL), origin="luck")


def test_the_belief_is_the_normal_posterior_by_definition():
    """Against the conditional distribution of a joint normal, written out for one rival."""
    comparison = compared(*evaluation(), {"fused": 1.0, "fused without rules": 0.8})
    runs = sorted(comparison.runs, key=lambda run: run.candidate.without_rules)
    record = stored_record()
    prior = Posterior.from_record(runs, record)
    [distance] = rank_distance(runs)
    mean, variance = record.mean[0] * distance, record.covariance[0, 0] * distance**2
    measured, error = np.array([0.80, 0.75]), np.diag([0.0, 0.02**2])

    found = prior.after(measured, error, [(1.0, np.array([0.01]), np.array([[0.03**2]]))])

    share = variance / (variance + 0.02**2 + 0.03**2)
    expected = mean + share * ((0.75 - 0.80) - 0.01 - mean)
    value, sd = found.difference("fused without rules", "fused")
    assert value == pytest.approx(expected, abs=1e-6)
    assert sd == pytest.approx(np.sqrt(variance * (1.0 - share)), abs=1e-6)


def test_models_that_rank_alike_have_no_distance():
    data, truth = evaluation()
    comparison = compared(data, truth, {"fused": 1.0})
    [one] = comparison.runs
    other = replace(one, name="other", score=3.0 * one.score + 1.0)
    backwards = replace(one, name="backwards", score=-one.score)

    same, reverse = rank_distance([one, other, backwards])
    assert same == pytest.approx(1e-4)
    assert reverse == pytest.approx(np.sqrt(1.0 / 3.0), rel=0.01)


def test_the_twin_follows_each_fused_and_is_not_added_twice():
    listed = with_twins(
        [Candidate("fused"), Candidate("fused", without_rules=True), Candidate("fused", {"rounds": 50}, "long")]
    )

    assert [each.name for each in listed] == ["fused", "fused without rules", "long", "long without rules"]


def audited(comparison, **values):
    """The comparison with true AUCs from 200 checked rows, each with a standard error of .02."""
    names = [run.name for run in comparison.runs]
    value = {name: values.get(name.replace(" ", "_"), 0.6) for name in names}
    pairs = tuple(
        PairedDifference(a, b, Difference.between(value[a] - value[b], 0.02, 0.95))
        for a, b in combinations(sorted(names, key=lambda name: -value[name]), 2)
    )
    return replace(comparison, audit=AuditEvidence(value, np.eye(len(names)) * 2e-4, 40.0, 200, pairs))


def test_rows_checked_by_hand_decide_before_confirmed_cases():
    comparison = compared(*evaluation(600), RULES_HELP)
    found = recommend(audited(comparison, fused=0.6, fused_without_rules=0.9, labeled_vs_rest=0.6))

    assert recommend(comparison).model == "fused"
    assert (found.model, found.yardstick, found.confidence) == ("fused without rules", "audit", "clear")
    assert "rows checked by hand" in found.sentence


def test_a_record_alone_is_never_clear_against_rows_checked_by_hand():
    comparison = compared(*evaluation(600), RULES_HELP)
    found = recommend(audited(comparison, fused=0.75, fused_without_rules=0.7, labeled_vs_rest=0.76))

    assert (found.model, found.yardstick, found.confidence) == ("fused", "audit", "tie")
    assert found.among_best[:2] == ("fused", "labeled_vs_rest")
    assert "no other model ranks rows checked by hand clearly better" in found.sentence
    assert found.next_step.action == "check rows"
    assert "'labeled_vs_rest'" in found.next_step.sentence


def test_a_clear_answer_says_where_another_model_ranks_confirmed_cases_better():
    """Known-positive AUC is corrected for its bias, so the corrected answer can differ from the figure itself."""
    comparison = compared(*evaluation(600), RULES_HELP)
    figure = comparison.figures["known_positive_auc"]
    swapped = {**figure.value, "labeled_vs_rest": figure.value["fused"] + 0.01}
    changed = replace(comparison, figures={**comparison.figures, "known_positive_auc": replace(figure, value=swapped)})
    found = recommend(changed, origin="chance")

    assert (found.model, found.confidence) == ("fused", "clear")
    assert "although 'labeled_vs_rest' ranks confirmed cases better" in found.sentence
    assert "clearly better than the other models" not in found.sentence


def test_true_classes_of_all_rows_decide_before_an_audit():
    data, truth = evaluation()
    found = recommend(audited(compared(replace(data, truth=truth), truth, RULES_HELP), fused=0.5))

    assert (found.model, found.yardstick) == ("fused", "true_auc")


def test_an_audit_that_does_not_decide_asks_for_more_checks():
    found = recommend(audited(compared(*evaluation(600), EQUAL), fused=0.75, fused_without_rules=0.76))

    assert found.yardstick == "audit"
    assert found.next_step.action in ("check rows", "export")
    if found.next_step.action == "check rows":
        assert "more rows by hand" in found.next_step.sentence


def test_an_audit_in_which_no_model_beats_chance_is_provisional_and_asks_for_more_checks():
    low = dict.fromkeys(("fused", "fused_without_rules", "labeled_vs_rest"), 0.4)
    found = recommend(audited(compared(*evaluation(600), EQUAL), **low))

    assert (found.yardstick, found.confidence) == ("provisional", "provisional")
    assert "better than chance" in found.sentence
    assert found.next_step.action == "check rows"
    assert found.next_step.sentence.startswith("Check 200 more rows by hand.")


def test_an_audit_with_large_errors_in_which_no_model_beats_chance_never_leads_to_an_export():
    comparison = compared(*evaluation(600), EQUAL)
    low = audited(comparison, fused=0.4, fused_without_rules=0.3, labeled_vs_rest=0.35, rule_score=0.7).audit
    pairs = tuple(replace(pair, difference=Difference.between(0.1, 0.5, 0.95)) for pair in low.pairs)
    found = recommend(replace(comparison, audit=replace(low, pairs=pairs, checks=30)))

    assert (found.next_step.action, found.next_step.rows) == ("check rows", 30)


def test_an_audit_that_did_not_judge_all_models_does_not_decide():
    comparison = compared(*evaluation(600), RULES_HELP)
    whole = audited(comparison)
    part = replace(whole.audit, value={"fused": 0.7})

    assert recommend(replace(comparison, audit=part)).yardstick == "known_positive_auc"
