import numpy as np
import pytest

from spu_core.errors import SoftLabelError
from spu_core.labels import rank_rules, suggest_belief, suggest_beliefs
from spu_core.labels.belief_suggestions import CHOSEN_BY_RULES
from spu_core.rules import RuleMatrix
from spu_core.theory import estimate_prior


def flags(n, *where):
    return np.isin(np.arange(n), np.concatenate([np.atleast_1d(rows) for rows in where]))


FIRED = flags(1_000, np.arange(100))
LABELED = flags(1_000, np.arange(30), np.arange(500, 520))


def test_the_suggestion_is_the_prior_times_the_lift():
    """30 of 50 labelled rows carry the rule, 100 of 1,000 rows do: 0.1 · 0.6 / 0.1."""
    suggestion = suggest_belief(FIRED, LABELED, prior=0.1)

    assert suggestion.estimate == pytest.approx(0.6)
    assert 0.4 < suggestion.low < 0.6 < suggestion.high < 0.8


@pytest.mark.parametrize(
    ("belief", "text", "disagrees"),
    [
        (0.9, "your belief is 0.90; the labels suggest 0.46–0.74", True),
        (0.6, "your belief is 0.60; the labels suggest 0.46–0.74", False),
        (None, "the labels suggest 0.46–0.74", False),
    ],
)
def test_the_suggestion_stands_beside_the_belief_of_the_analyst(belief, text, disagrees):
    suggestion = suggest_belief(FIRED, LABELED, prior=0.1, belief=belief)

    assert (suggestion.text, suggestion.disagrees, suggestion.warnings) == (text, disagrees, ())


def test_more_than_certain_is_cut_to_one_and_doubted():
    suggestion = suggest_belief(FIRED, LABELED, prior=0.5)

    assert (suggestion.estimate, suggestion.low, suggestion.high) == (1.0, 1.0, 1.0)
    assert suggestion.text == "the labels suggest 1.00"
    assert suggestion.warnings == (
        "The estimate is above 1: the prior is too high, or positives were not labelled at random.",
    )


@pytest.mark.parametrize(
    ("fired", "is_labeled", "warning"),
    [
        (FIRED, flags(1_000, []), "No row is labelled, so no belief can be estimated."),
        (flags(1_000, []), LABELED, "The rule never fires, so no belief can be estimated."),
    ],
)
def test_where_the_labels_say_nothing_the_suggestion_says_so(fired, is_labeled, warning):
    suggestion = suggest_belief(fired, is_labeled, prior=0.1, belief=0.8)

    assert suggestion.warnings == (warning,)
    assert suggestion.text == "your belief is 0.80; the labels give no estimate for this rule"
    assert not suggestion.disagrees


def test_few_hits_are_mentioned():
    suggestion = suggest_belief(FIRED, flags(1_000, [0, 1], np.arange(500, 550)), prior=0.1)

    assert suggestion.warnings == ("The rule fires on too few labelled rows (2); the interval is wide.",)
    assert suggestion.low > 0


def matrix_with(*columns):
    fired = np.column_stack(columns)
    return RuleMatrix.from_arrays([f"r{j}" for j in range(len(columns))], fired * 0.8)


def test_every_rule_gets_a_suggestion_beside_its_own_belief():
    suggestions = suggest_beliefs(matrix_with(FIRED, ~FIRED), LABELED, prior=0.1)

    assert [(s.rule, s.belief) for s in suggestions] == [("r0", pytest.approx(0.8)), ("r1", pytest.approx(0.8))]
    assert suggestions[0].estimate == pytest.approx(0.6)


def test_labels_that_all_carry_a_rule_warn_that_rules_chose_who_was_checked():
    is_labeled = flags(1_000, np.arange(30))

    assert CHOSEN_BY_RULES in suggest_beliefs(matrix_with(FIRED), is_labeled, prior=0.1)[0].warnings
    assert CHOSEN_BY_RULES not in suggest_beliefs(matrix_with(FIRED), LABELED, prior=0.1)[0].warnings


def test_whoever_knows_how_rows_were_chosen_is_believed():
    matrix = matrix_with(FIRED)

    assert CHOSEN_BY_RULES in suggest_beliefs(matrix, LABELED, prior=0.1, rules_chose_checks=True)[0].warnings
    only_rules = flags(1_000, np.arange(30))
    assert CHOSEN_BY_RULES not in suggest_beliefs(matrix, only_rules, prior=0.1, rules_chose_checks=False)[0].warnings


def test_a_range_of_the_prior_widens_the_limits_and_leaves_no_number_to_take_over():
    known, ranged = (suggest_belief(FIRED, LABELED, prior=prior) for prior in (0.1, (0.05, 0.1)))

    assert np.isnan(ranged.estimate)
    assert ranged.is_known
    assert (ranged.low, ranged.high) == (pytest.approx(known.low / 2), known.high)
    assert ranged.text == "the labels suggest 0.23–0.74"


def test_the_range_of_an_estimated_prior_keeps_the_truth_inside_where_the_point_does_not():
    """Scores that overlap: BBE is far above the prior of 10 %, and the belief of the rule is .5."""
    rng = np.random.default_rng(0)
    truth = rng.random(20_000) < 0.1
    is_labeled = truth & (rng.random(20_000) < 0.2)
    fired = rng.random(20_000) < np.where(truth, 0.45, 0.05)
    estimate = estimate_prior(is_labeled, truth + rng.normal(size=20_000), replicates=20)
    point, ranged = (suggest_belief(fired, is_labeled, prior=prior) for prior in (estimate.prior, estimate.range))

    assert estimate.prior > 0.2
    assert point.low > truth[fired].mean()
    assert ranged.low < truth[fired].mean() < ranged.high


def test_rules_are_ranked_by_lift_without_a_prior():
    ranking = rank_rules(matrix_with(~FIRED, FIRED, flags(1_000, [])), LABELED)

    assert [each.rule for each in ranking] == ["r1", "r0"]
    assert ranking[0].lift == pytest.approx(6.0)
    assert ranking[0].low < 6.0 < ranking[0].high
    assert ranking[0].text == "r1 6.0× (4.6 to 7.4)"


@pytest.mark.parametrize("prior", [(0.3, 0.1), (0.0, 0.5), (0.1, 1.1), (0.1, 0.2, 0.3)])
def test_an_impossible_range_is_refused(prior):
    with pytest.raises(SoftLabelError, match="prior must"):
        suggest_belief(FIRED, LABELED, prior=prior)


@pytest.mark.parametrize("prior", [0, 1, -0.1, float("nan"), "0.1"])
def test_an_impossible_prior_is_refused(prior):
    with pytest.raises(SoftLabelError, match="prior must"):
        suggest_belief(FIRED, LABELED, prior=prior)
