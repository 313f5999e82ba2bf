"""Appendix A.1 from a log of checks to soft labels of users."""

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import AssumptionError, SoftLabelError, TableError
from spu_core.labels.check_ratio_labels import check_ratio_labels

LOG = pd.DataFrame(
    [
        ("ann", "random", 1, "pass"),
        ("ben", "random", 1, "fail"),
        ("cat", "random", 2, "pass"),
        ("dan", "random", 2, "pass"),
        ("eve", "aim", 1, "skip"),
        ("eve", "speed", 1, "skip"),
        ("fay", "aim", 2, "fail"),
        ("gus", "aim", 3, "fail"),
        ("hal", "aim", 3, "admit"),
        ("ida", "speed", 4, "fail"),
        ("jon", "speed", 4, "pass"),
        ("kim", "slow", 5, "pass"),
    ],
    columns=["user", "rule", "day", "outcome"],
)
# Failure ratios: random 1/4, aim 3/4, speed 2/3, slow 0.
AIM, SPEED = 1 - (1 / 4) / (3 / 4), 1 - (1 / 4) / (2 / 3)


def label_of(result, user):
    return result.labels.value[list(result.users).index(user)]


def codes(result):
    return [finding.code for finding in result.findings]


def test_each_user_gets_the_soft_label_of_the_strongest_rule_whose_check_failed():
    result = check_ratio_labels(LOG, random_rule="random")

    assert label_of(result, "fay") == pytest.approx(AIM)
    assert label_of(result, "ida") == pytest.approx(SPEED)
    assert label_of(result, "eve") == pytest.approx(max(AIM, SPEED))


def test_admitted_users_get_one_and_their_rule_score_does_not_know_it():
    result = check_ratio_labels(LOG, random_rule="random")
    hal = list(result.users).index("hal")

    assert (result.labels.value[hal], result.labels.rule_score[hal]) == (1.0, 0.0)
    assert result.labels.is_labeled[hal]


@pytest.mark.parametrize("user", ["ann", "ben", "jon", "kim"])
def test_users_who_passed_or_failed_only_a_random_check_get_the_floor(user):
    assert label_of(check_ratio_labels(LOG, random_rule="random"), user) == 0.0
    assert label_of(check_ratio_labels(LOG, random_rule="random", floor=0.02), user) == 0.02


def test_soft_labels_come_in_the_order_of_the_users_asked_for_and_strangers_get_the_floor():
    result = check_ratio_labels(LOG, random_rule="random", users=["zoe", "ida", "hal", "ida"])

    assert result.labels.value == pytest.approx([0.0, SPEED, 1.0, SPEED])
    assert "unlisted_users" in codes(result)


def test_a_rule_that_fails_less_often_than_random_gets_zero_and_a_finding():
    result = check_ratio_labels(LOG, random_rule="random")
    finding = next(finding for finding in result.findings if finding.code == "weaker_than_random")

    assert result.rules.set_index("rule").loc["slow", "soft_label"] == 0.0
    assert "0.0% of the checks of rule 'slow' fail, fewer than of random checks (25.0%)" in finding.message


def test_soft_labels_that_do_not_exceed_a_known_prior_are_named():
    result = check_ratio_labels(LOG, random_rule="random", prior=0.63)
    messages = [finding.message for finding in result.findings if finding.code == "not_above_prior"]

    assert len(messages) == 1
    assert "Rule 'speed' gives S = 0.625, which is not above the class prior 0.630" in messages[0]
    assert "not_above_prior" not in codes(check_ratio_labels(LOG, random_rule="random", prior=0.5))


def test_few_failed_random_checks_are_a_finding_with_their_interval():
    result = check_ratio_labels(LOG, random_rule="random")
    finding = next(finding for finding in result.findings if finding.code == "few_random_failures")

    assert finding.message.startswith("Only 1 of 4 random checks failed")


def test_other_combiners_say_that_the_lower_bound_is_not_promised():
    strongest = check_ratio_labels(LOG, random_rule="random")
    noisy_or = check_ratio_labels(LOG, random_rule="random", combine="noisy_or")

    assert label_of(noisy_or, "eve") == pytest.approx(1 - (1 - AIM) * (1 - SPEED))
    assert "bound_not_kept" in codes(noisy_or)
    assert "bound_not_kept" not in codes(strongest)


def test_the_reading_states_the_lower_bound_and_what_it_needs():
    reading = check_ratio_labels(LOG, random_rule="random").reading

    assert "P(Y=1|S=s) ≥ s" in reading
    assert "if innocent users fail the checks of every rule equally often" in reading


def test_where_users_were_checked_again_the_bound_is_stated_for_checks_and_a_finding_says_why():
    log = pd.concat([LOG, pd.DataFrame({"user": ["fay"], "rule": ["aim"], "day": [9], "outcome": ["pass"]})])
    result = check_ratio_labels(log, random_rule="random")

    assert "repeated_checks" in codes(result)
    assert "P(Y=1|F,R) ≥ s" in result.reading


def test_only_the_first_check_of_a_user_under_a_rule_counts_if_asked():
    later = pd.DataFrame({"user": ["jon"] * 2, "rule": ["speed"] * 2, "day": [9, 8], "outcome": ["fail", "pass"]})
    log = pd.concat([later, LOG])
    first, every = (check_ratio_labels(log, random_rule="random", repeats=name) for name in ("first", "every"))

    assert label_of(first, "jon") == 0.0
    assert label_of(every, "jon") > 0.0
    assert first.ratios.checks.tolist() == check_ratio_labels(LOG, random_rule="random").ratios.checks.tolist()
    assert "repeated_checks" not in codes(first)


def test_an_admission_counts_as_a_label_even_if_it_came_after_the_first_check():
    log = pd.concat([LOG, pd.DataFrame({"user": ["ann"], "rule": ["random"], "day": [9], "outcome": ["admit"]})])

    assert label_of(check_ratio_labels(log, random_rule="random", repeats="first"), "ann") == 1.0


def test_rows_that_repeat_user_rule_and_day_are_a_finding():
    result = check_ratio_labels(pd.concat([LOG, LOG.iloc[:2]]), random_rule="random")

    assert "2 rows repeat the user, rule and day" in next(
        finding.message for finding in result.findings if finding.code == "duplicate_checks"
    )


def test_a_mapping_of_arrays_and_any_spelling_of_outcomes_will_do():
    plain = {name: LOG[name].tolist() for name in ("user", "rule", "outcome")}
    plain["outcome"] = [{"skip": " Fail-or-Skip", "admit": "ADMITTED"}.get(word, word) for word in plain["outcome"]]

    expected = check_ratio_labels(LOG, random_rule="random").labels.value
    assert check_ratio_labels(plain, random_rule="random").labels.value.tolist() == expected.tolist()


def test_the_order_of_the_checks_does_not_matter():
    users = sorted(LOG["user"].unique())
    expected = check_ratio_labels(LOG, random_rule="random", users=users).labels.value
    for seed in range(5):
        shuffled = LOG.sample(frac=1, random_state=seed)
        assert check_ratio_labels(shuffled, random_rule="random", users=users).labels.value.tolist() == list(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": "maybe"}, "Row 0 of checks has the unknown outcome 'maybe'; use one of 'pass'"),
        ({"outcome": None}, "Column 'outcome' of checks is missing in row 0"),
        ({"user": None}, "Column 'user' of checks is missing in row 0"),
        ({"rule": np.nan}, "Column 'rule' of checks is missing in row 0"),
    ],
)
def test_checks_that_make_no_sense_get_a_clear_sentence(change, message):
    with pytest.raises(TableError, match=message):
        check_ratio_labels(LOG.assign(**change), random_rule="random")


@pytest.mark.parametrize(
    ("checks", "options", "error", "message"),
    [
        ([1, 2], {}, TableError, "checks must be a data frame or a mapping"),
        (LOG.rename(columns={"rule": "rules"}), {}, TableError, r"no column 'rule'.*Did you mean 'rules'"),
        (LOG.iloc[:0], {}, TableError, "checks is empty"),
        ({"user": [1], "rule": ["a", "b"], "outcome": ["pass"]}, {}, TableError, "different lengths"),
        (LOG, {"random_rule": "rnd"}, AssumptionError, "There is no check of the random rule 'rnd'"),
        (LOG, {"repeats": "last"}, SoftLabelError, "repeats must be one of 'every', 'first', got 'last'"),
        (LOG, {"combine": "max"}, SoftLabelError, "combine must be one of 'noisy_or'"),
        (LOG, {"prior": 1.5}, AssumptionError, "prior must lie strictly between 0 and 1, got 1.5"),
        (LOG, {"users": []}, TableError, "users must list at least one user"),
        (LOG, {"users": ["ann", None]}, TableError, "users is missing in row 1"),
        (LOG.drop(columns="day"), {"repeats": "first"}, TableError, "needs the column 'day'"),
    ],
)
def test_calls_that_make_no_sense_get_a_clear_sentence(checks, options, error, message):
    with pytest.raises(error, match=message):
        check_ratio_labels(checks, **{"random_rule": "random", **options})
