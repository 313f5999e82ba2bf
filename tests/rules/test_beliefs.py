import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spu_core.errors import RuleError
from spu_core.rules import CheckRatio, CheckRecord, Compare, Constant, Ramp, ReadyMade, Rule, RuleSet
from spu_core.rules.beliefs import FrozenRatios
from spu_core.tables import Table
from spu_core.theory.check_prior import fit_check_prior


def beliefs_of(belief, frame, new=None):
    """Beliefs of each row, NaN where the rule is silent."""
    matrix = RuleSet((Rule("r", belief),)).fit(Table.from_frame(frame)).apply(frame if new is None else new)
    return np.where(matrix.fired[:, 0], matrix.belief[:, 0], np.nan)


@pytest.mark.parametrize(
    ("belief", "words"),
    [
        (Constant(0.5), "0.50"),
        (Constant(0.125), "0.125"),
        (Ramp(column="a", start=0, end=9), "0.00 to 1.00 as a goes from 0 to 9"),
        (ReadyMade("risk"), "the value of risk"),
        (
            CheckRatio(rule_column="by", outcome_column="how", random_rule="R0"),
            "check ratio of by against 'R0' where the check failed",
        ),
        (CheckRecord(checks_column="n", passes_column="k"), "check record of k out of n"),
    ],
)
def test_beliefs_read_as_a_few_words(belief, words):
    assert belief.text == words


def test_a_value_ramp_is_a_straight_line_and_flat_outside():
    frame = pd.DataFrame({"x": [-np.inf, 0.0, 10.0, 15.0, 20.0, 99.0, np.inf, np.nan]})
    ramp = Ramp(column="x", start=10, end=20, at_start=0.2, at_end=0.8)

    expected = [0.2, 0.2, 0.2, 0.5, 0.8, 0.8, 0.8, np.nan]
    assert beliefs_of(ramp, frame) == pytest.approx(np.array(expected), nan_ok=True)


def test_a_falling_ramp_goes_down():
    frame = pd.DataFrame({"x": [10.0, 15.0, 20.0]})

    assert beliefs_of(Ramp(column="x", start=10, end=20, at_start=1, at_end=0.2), frame) == pytest.approx(
        np.array([1.0, 0.6, 0.2])
    )


def test_a_quantile_ramp_is_linear_in_the_middle_rank():
    """The rank of a value is (rows below + rows up to it) / 2N; every value is a knot here."""
    x = np.array([1.0, 2.0, 2.0, 2.0, 5.0, 8.0, 9.0, 40.0])
    rank = np.array([(np.sum(x < value) + np.sum(x <= value)) / 2 / x.size for value in x])
    ramp = Ramp(column="x", start=0.25, end=0.75, at_start=0.1, at_end=0.9, scale="quantile")

    expected = np.interp(rank, (0.25, 0.75), (0.1, 0.9))
    assert beliefs_of(ramp, pd.DataFrame({"x": x})) == pytest.approx(expected)


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=50),
    st.lists(st.floats(-200, 200), min_size=2, max_size=20),
)
def test_a_quantile_ramp_never_falls_and_stays_in_its_ends(seen, asked):
    ramp = Ramp(column="x", start=0.1, end=0.9, at_start=0.3, at_end=0.7, scale="quantile")
    belief = beliefs_of(ramp, pd.DataFrame({"x": seen}), pd.DataFrame({"x": sorted(asked)}))

    assert (np.diff(belief) >= -1e-15).all()
    assert ((belief >= 0.3) & (belief <= 0.7)).all()


def test_a_quantile_ramp_on_many_rows_is_near_the_exact_rank():
    x = np.random.default_rng(0).lognormal(size=20_000)
    belief = beliefs_of(Ramp(column="x", start=0, end=1, scale="quantile"), pd.DataFrame({"x": x}))
    rank = (np.argsort(np.argsort(x)) + 0.5) / x.size

    assert np.abs(belief - rank).max() < 1 / 128


def test_a_ready_made_column_is_silent_where_it_is_missing_or_zero():
    assert beliefs_of(ReadyMade("s"), pd.DataFrame({"s": [0.0, 0.25, None]})) == pytest.approx(
        np.array([np.nan, 0.25, np.nan]), nan_ok=True
    )


def test_a_ready_made_column_out_of_range_names_the_row():
    with pytest.raises(RuleError, match=r"Column 's' is used as a belief and must lie in \[0, 1\], but row 1 holds 7"):
        beliefs_of(ReadyMade("s"), pd.DataFrame({"s": [0.5, 7.0]}))


def test_check_ratios_are_one_minus_random_over_rule():
    """Random checks fail in 1 of 4, checks by 'aim' in 2 of 3 (one admission): S = 1 − (1/4)/(2/3)."""
    frame = pd.DataFrame(
        {
            "by": ["R0"] * 4 + ["aim"] * 3 + [None],
            "how": ["fail", "pass", "pass", "pass", "skip", "fail", "admit", "fail"],
        }
    )
    belief = CheckRatio(rule_column="by", outcome_column="how", random_rule="R0")
    expected = [np.nan, np.nan, np.nan, np.nan, 0.625, 0.625, np.nan, np.nan]

    assert beliefs_of(belief, frame) == pytest.approx(np.array(expected), nan_ok=True)


def test_a_check_rule_never_seen_at_fitting_is_silent():
    frame = pd.DataFrame({"by": ["R0", "R0", "aim"], "how": ["fail", "pass", "fail"]})
    new = pd.DataFrame({"by": ["new", "aim"], "how": ["fail", "fail"]})
    belief = CheckRatio(rule_column="by", outcome_column="how", random_rule="R0")

    assert np.isnan(beliefs_of(belief, frame, new)).tolist() == [True, False]


def test_check_rules_and_outcomes_may_be_numbers():
    frame = pd.DataFrame({"by": [0, 0, 1, 1], "how": [1, 2, 1, 1]})
    belief = CheckRatio(rule_column="by", outcome_column="how", random_rule="0", failed=("1",), admitted=())
    fitted = RuleSet((Rule("r", belief),)).fit(Table.from_frame(frame))

    assert isinstance(fitted.beliefs[0], FrozenRatios)
    assert fitted.beliefs[0].values == {"0": 0.0, "1": 0.5}
    assert fitted.apply(frame).belief[:, 0].tolist() == [0.0, 0.0, 0.5, 0.5]


def test_a_missing_random_rule_is_named_with_the_rule_that_needs_it():
    frame = pd.DataFrame({"by": ["aim"], "how": ["fail"]})

    with pytest.raises(RuleError, match="Rule 'r' cannot be fitted: There is no check of the random rule 'R0'"):
        beliefs_of(CheckRatio(rule_column="by", outcome_column="how", random_rule="R0"), frame)


def test_no_check_at_all_is_an_error_in_words():
    frame = pd.DataFrame({"by": ["aim", None], "how": [None, "fail"]})

    with pytest.raises(RuleError, match="No row has both 'by' and 'how', so no check can be counted"):
        beliefs_of(CheckRatio(rule_column="by", outcome_column="how", random_rule="aim"), frame)


def test_check_records_give_one_minus_the_expected_chance_to_pass():
    checks, passes = np.array([10, 10, 10, 0, 4, 3]), np.array([9, 1, 10, 0, 2, 0])
    frame = pd.DataFrame({"n": checks, "k": passes})
    prior = fit_check_prior(checks, passes, penalty=0.01)
    expected = np.where(passes < checks, 1 - prior.posterior_mean(checks, passes), np.nan)

    found = beliefs_of(CheckRecord(checks_column="n", passes_column="k", penalty=0.01), frame)
    assert found == pytest.approx(expected, nan_ok=True)
    assert np.isnan(found).tolist() == [False, False, True, True, False, False]


@pytest.mark.parametrize(("n", "k"), [(3.0, 4.0), (3.0, -1.0), (2.5, 1.0), (3.0, 0.5), (1e12, 1.0)])
def test_impossible_records_name_the_row(n, k):
    frame = pd.DataFrame({"n": [5.0, n], "k": [2.0, k]})

    with pytest.raises(RuleError, match=r"must be whole numbers with 0 ≤ passes ≤ checks, but row 1 holds"):
        beliefs_of(CheckRecord(checks_column="n", passes_column="k"), frame)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(float("nan")), "A belief must be one finite number, got nan"),
        (
            lambda: Ramp(column="x", start=1, end=1),
            "A ramp must start before it ends, got 1 and 1; for a decreasing ramp",
        ),
        (
            lambda: Ramp(column="x", start=0, end=2, scale="quantile"),
            r"start and end of a quantile ramp must lie in \[0, 1\], got 0 and 2",
        ),
        (
            lambda: Ramp(column="x", start=0, end=2, scale="log"),
            "scale of a ramp must be 'value' or 'quantile', got 'log'",
        ),
        (lambda: Ramp(column="x", start=0, end=2, at_end=3), r"at_end of a ramp must lie in \[0, 1\], got 3"),
        (
            lambda: Ramp(column="x", start=0, end=float("inf")),
            "end of a ramp must be one finite number, got inf",
        ),
        (
            lambda: CheckRatio(rule_column="a", outcome_column="b", random_rule="c", failed=("x",), admitted=("x",)),
            "A check has one outcome",
        ),
        (
            lambda: CheckRatio(rule_column="a", outcome_column="b", random_rule="c", failed=(1,)),
            "failed of a check ratio must list outcomes as texts",
        ),
        (
            lambda: CheckRecord(checks_column="a", passes_column="b", penalty=-1),
            "penalty must not be negative, got -1",
        ),
    ],
)
def test_impossible_beliefs_are_refused_in_words(make, message):
    with pytest.raises(RuleError, match=message):
        make()


def test_a_quantile_ramp_needs_at_least_one_value():
    frame = pd.DataFrame({"x": [np.nan, np.inf]})

    with pytest.raises(RuleError, match="Rule 'r' cannot be fitted: Column 'x' has no finite value"):
        beliefs_of(Ramp(column="x", start=0, end=1, scale="quantile"), frame)


def test_a_condition_limits_where_a_graded_belief_speaks():
    frame = pd.DataFrame({"x": [1.0, 2.0], "s": [0.4, 0.6]})
    rule = Rule("r", ReadyMade("s"), Compare("x", ">", 1))
    matrix = RuleSet((rule,)).fit(Table.from_frame(frame)).apply(frame)

    assert matrix.fired.tolist() == [[False], [True]]
    assert matrix.belief.tolist() == [[0.0], [0.6]]


def test_a_constant_of_zero_fires_and_a_graded_zero_does_not():
    """ "Known to be clean" is something to say first; the low end of a ramp is not."""
    frame = pd.DataFrame({"x": [0.0, 1.0]})
    rules = RuleSet((Rule("clean", 0.0), Rule("ramp", Ramp(column="x", start=0, end=1))))

    assert rules.fit(Table.from_frame(frame)).apply(frame).fired.tolist() == [[True, False], [True, True]]
