"""Appendix A.1: failure ratios per rule and the soft label of a failed check."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from spu_core.errors import AssumptionError, ScoreError
from spu_core.theory.check_ratio import check_ratios_of_counts, fit_check_ratios, wilson_interval

CHECKS = st.lists(
    st.tuples(st.sampled_from(["aim", "speed", "wall"]), st.sampled_from(["pass", "fail", "admit"])),
    max_size=40,
)


def columns(checks):
    rule, outcome = zip(*checks, strict=True)
    return list(rule), [word == "fail" for word in outcome], [word == "admit" for word in outcome]


def soft_label_by_counting(checks, rule, random_rule):
    """The formula of the paper, one check at a time."""

    def ratio(name):
        outcomes = [outcome for owner, outcome in checks if owner == name]
        return sum(outcome == "fail" for outcome in outcomes) / len(outcomes)

    if ratio(rule) == 0:
        return 0.0
    return min(max(1 - ratio(random_rule) / ratio(rule), 0.0), 1.0)


@given(CHECKS)
def test_the_soft_label_of_each_rule_is_the_papers_formula(checks):
    checks = [*checks, ("random", "fail"), ("random", "pass"), ("random", "pass")]
    ratios = fit_check_ratios(*columns(checks), "random")

    expected = [soft_label_by_counting(checks, name, "random") for name in ratios.names]
    assert ratios.value == pytest.approx(expected)


@given(CHECKS)
def test_every_interval_holds_its_estimate_and_stays_in_the_unit_interval(checks):
    checks = [*checks, ("random", "fail"), ("random", "pass")]
    ratios = fit_check_ratios(*columns(checks), "random")

    assert (ratios.value_low >= 0).all()
    assert (ratios.value_low <= ratios.value + 1e-12).all()
    assert (ratios.value <= ratios.value_high + 1e-12).all()
    assert (ratios.value_high <= 1).all()
    assert (ratios.failure_low <= ratios.failure_ratio).all()
    assert (ratios.failure_ratio <= ratios.failure_high).all()


def test_admitted_users_count_in_the_denominator_and_not_as_failures():
    checks = [("random", "fail"), ("random", "pass"), ("aim", "fail"), ("aim", "admit"), ("aim", "admit")]
    ratios = fit_check_ratios(*columns(checks), "random")

    assert ratios.failure_ratio[ratios.names.index("aim")] == pytest.approx(1 / 3)
    assert ratios.admissions[ratios.names.index("aim")] == 2


def test_a_rule_that_fails_less_often_than_the_random_one_gets_zero_and_is_named():
    checks = [("random", "fail"), ("random", "pass"), ("aim", "pass"), ("aim", "pass")]
    ratios = fit_check_ratios(*columns(checks), "random")

    assert dict(zip(ratios.names, ratios.value.tolist(), strict=True))["aim"] == 0.0
    assert ratios.weaker_than_random == ("aim",)


def test_no_failure_among_few_random_checks_leaves_the_soft_label_uncertain():
    """The formula says 1, but three random checks without a failure prove little: the interval says so."""
    checks = [("random", "pass")] * 3 + [("aim", "fail")] * 8 + [("aim", "pass")] * 2
    ratios = fit_check_ratios(*columns(checks), "random")

    assert ratios.value[0] == 1.0
    assert ratios.value_low[0] < 0.5


def test_wilson_limits_equal_those_of_scipy():
    low, high = wilson_interval([0, 3, 17, 20], [20, 20, 20, 20], level=0.9)

    for position, successes in enumerate([0, 3, 17, 20]):
        scipy_limits = binomtest(successes, 20).proportion_ci(0.9, method="wilson")
        assert (low[position], high[position]) == pytest.approx((scipy_limits.low, scipy_limits.high), abs=1e-12)


def test_the_limits_of_the_soft_label_are_those_of_donner_and_zou():
    """MOVER-R, as printed: limits of p0 / p1 from the Wilson limits (l0, u0) and (l1, u1)."""
    checks = {"random": 40, "aim": 50, "wall": 30}
    failures = {"random": 8, "aim": 35, "wall": 12}
    ratios = check_ratios_of_counts(checks, failures, {}, "random", level=0.9)

    def wilson(name):
        limits = binomtest(failures[name], checks[name]).proportion_ci(0.9, method="wilson")
        return failures[name] / checks[name], limits.low, limits.high

    p0, l0, u0 = wilson("random")
    for name in ("aim", "wall"):
        p1, l1, u1 = wilson(name)
        product = p0 * p1
        low = (product - np.sqrt(product**2 - l0 * u1 * (2 * p0 - l0) * (2 * p1 - u1))) / (u1 * (2 * p1 - u1))
        high = (product + np.sqrt(product**2 - u0 * l1 * (2 * p0 - u0) * (2 * p1 - l1))) / (l1 * (2 * p1 - l1))
        place = ratios.names.index(name)
        assert ratios.value_low[place] == pytest.approx(max(0.0, 1 - high))
        assert ratios.value_high[place] == pytest.approx(1 - low)
    assert ratios.value_low[ratios.names.index("aim")] > 0


def test_numbers_as_rule_names_keep_their_form_beside_missing_ones_and_fractions():
    ratios = fit_check_ratios([0, 0, 7, 2.5], [1, 0, 1, 1], [0, 0, 0, 0], 0)

    assert ratios.names == ("0", "2.5", "7")
    assert ratios.value.tolist() == [0.0, 0.5, 0.5]


def test_checks_without_the_random_rule_are_refused():
    with pytest.raises(AssumptionError, match=r"There is no check of the random rule 'randon'.*Did you mean 'random'"):
        fit_check_ratios(["random", "aim"], [0, 1], [0, 0], "randon")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((["random", None], [0, 1], [0, 0]), AssumptionError, "rule_name is missing in row 1"),
        (([], [], []), AssumptionError, "at least one check is needed"),
        (([["random"]], [1], [0]), AssumptionError, "rule_name must be one row per check"),
        ((["random"], [1], [1]), AssumptionError, "Row 0 is both failed and admitted"),
        ((["random"], [1, 0], [0]), AssumptionError, "failed has 2 rows, but rule_name has 1"),
        ((["random"], [2], [0]), ScoreError, "failed must be true or false"),
        ((["random"], [np.nan], [0]), ScoreError, "failed must be true or false"),
    ],
    ids=["missing rule", "empty", "a table", "two endings", "lengths", "not a flag", "NaN"],
)
def test_checks_that_make_no_sense_get_a_clear_sentence(arguments, error, message):
    with pytest.raises(error, match=message):
        fit_check_ratios(*arguments, "random")


def test_the_random_rule_has_no_soft_label_and_no_error_against_itself():
    ratios = check_ratios_of_counts({"random": 40, "aim": 30}, {"random": 8, "aim": 15}, {}, "random")
    base = ratios.names.index("random")

    assert (ratios.value_low[base], ratios.value[base], ratios.value_high[base]) == (0.0, 0.0, 0.0)
    assert ratios.value_high[1 - base] > 0.5


def test_rules_without_a_check_have_no_ratio():
    ratios = check_ratios_of_counts({"random": 40, "aim": 30, "wall": 0}, {"random": 8, "aim": 15}, {}, "random")

    assert set(ratios.names) == {"random", "aim"}
