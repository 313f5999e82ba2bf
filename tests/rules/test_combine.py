import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spu_core.errors import SoftLabelError
from spu_core.labels import COMBINERS, assign_soft_labels
from spu_core.rules import RuleMatrix
from spu_core.rules.combine import combiner_of

# The ends, their neighbours, and tiny values are where formulas break.
BELIEF = st.one_of(
    st.floats(0, 1),
    st.sampled_from([0.0, 1.0, 0.5, 5e-324, 1e-300, 1e-17, np.nextafter(1, 0), np.nextafter(0.5, 1)]),
)


@st.composite
def matrices(draw, fewest_rules=0):
    shape = (draw(st.integers(1, 4)), draw(st.integers(fewest_rules, 6)))
    belief = draw(hnp.arrays(float, shape, elements=BELIEF))
    return belief, draw(hnp.arrays(bool, shape))


def matrix_of(belief, fired):
    return RuleMatrix.from_arrays([f"r{j}" for j in range(belief.shape[1])], belief, fired)


def logit_sum(beliefs):
    evidence = [b for b in beliefs if b > 0.5]
    if len(evidence) < 2 or 1.0 in evidence:
        return max(beliefs, default=0.0)
    return 1 / (1 + math.exp(-sum(math.log(b / (1 - b)) for b in evidence)))


# Straight from the definitions, for the beliefs of the rules that fired on one row, in order.
BY_DEFINITION = {
    "strongest": lambda beliefs: max(beliefs, default=0.0),
    "noisy_or": lambda beliefs: 1 - math.prod(1 - b for b in beliefs),
    "mean_of_fired": lambda beliefs: sum(beliefs) / len(beliefs) if beliefs else 0.0,
    "first_match": lambda beliefs: beliefs[0] if beliefs else 0.0,
    "logit_sum": logit_sum,
}
MONOTONE = [name for name, combiner in COMBINERS.items() if combiner.is_monotone]


def test_every_combiner_has_a_plain_definition():
    assert set(BY_DEFINITION) == set(COMBINERS)


@pytest.mark.parametrize("name", COMBINERS)
@given(matrices())
@settings(max_examples=60)
def test_combiners_equal_their_definitions(name, drawn):
    belief, fired = drawn
    expected = [BY_DEFINITION[name](row[flags].tolist()) for row, flags in zip(belief, fired, strict=True)]

    assert combiner_of(name).combine(matrix_of(belief, fired)) == pytest.approx(np.array(expected), abs=1e-12)


@pytest.mark.parametrize("name", COMBINERS)
@given(matrices())
@settings(max_examples=60)
def test_combined_values_are_shares(name, drawn):
    value = combiner_of(name).combine(matrix_of(*drawn))

    assert ((value >= 0) & (value <= 1)).all()


@pytest.mark.parametrize("name", MONOTONE)
@given(matrices(), BELIEF, st.sampled_from([0.0, 0.05, 0.6]))
@settings(max_examples=100)
def test_one_more_fired_rule_never_lowers_s(name, drawn, more, floor):
    """Exactly, not only up to rounding."""
    belief, fired = drawn
    n = len(belief)
    longer = np.column_stack([belief, np.full(n, more)]), np.column_stack([fired, np.ones(n, dtype=bool)])
    nobody = np.zeros(n, dtype=bool)
    before = assign_soft_labels(matrix_of(belief, fired), nobody, name, floor).value
    after = assign_soft_labels(matrix_of(*longer), nobody, name, floor).value

    assert (after >= before).all()


@pytest.mark.parametrize("name", [name for name in MONOTONE if COMBINERS[name].ignores_order])
@given(matrices(fewest_rules=1), st.data())
@settings(max_examples=100)
def test_a_rule_anywhere_in_the_list_that_fires_too_never_lowers_s(name, drawn, data):
    belief, fired = drawn
    rule = data.draw(st.integers(0, belief.shape[1] - 1))
    also = fired.copy()
    also[:, rule] = True
    combine = combiner_of(name).combine

    assert (combine(matrix_of(belief, also)) >= combine(matrix_of(belief, fired))).all()


def test_the_mean_can_be_lowered():
    combine = combiner_of("mean_of_fired").combine

    assert (
        combine(RuleMatrix.from_arrays(["a"], [[0.9]]))[0]
        > combine(RuleMatrix.from_arrays(["a", "b"], [[0.9, 0.1]]))[0]
    )


@pytest.mark.parametrize("name", COMBINERS)
@given(BELIEF)
def test_a_rule_that_stands_alone_gives_exactly_its_belief(name, belief):
    matrix = matrix_of(np.array([[belief, 0.7]]), np.array([[True, False]]))

    assert combiner_of(name).combine(matrix)[0] == belief


@pytest.mark.parametrize("name", COMBINERS)
@given(matrices())
@settings(max_examples=60)
def test_shares_of_credit_add_up_where_there_is_anything_to_share(name, drawn):
    belief, fired = drawn
    matrix = matrix_of(belief, fired)
    value = combiner_of(name).combine(matrix)
    for row in range(len(belief)):
        share = combiner_of(name).shares(matrix.belief[row], fired[row])
        assert (share >= 0).all()
        assert (share[~fired[row]] == 0).all()
        if value[row] > 0:
            assert share.sum() == pytest.approx(1)


def test_certain_and_impossible_rules_together_are_certain():
    matrix = matrix_of(np.array([[1.0, 0.0, 0.5]]), np.ones((1, 3), dtype=bool))

    assert {name: COMBINERS[name].combine(matrix)[0] for name in MONOTONE} == dict.fromkeys(MONOTONE, 1.0)


def test_two_rules_of_four_fifths_by_log_odds():
    """Odds of 4 times 4 are 16: S = 16/17."""
    assert combiner_of("logit_sum").combine(RuleMatrix.from_arrays(["a", "b"], [[0.8, 0.8]]))[0] == pytest.approx(
        16 / 17
    )


def test_an_unknown_combiner_is_named():
    with pytest.raises(SoftLabelError, match=r"combine must be one of 'noisy_or', 'strongest', .*, got 'vote'"):
        combiner_of("vote")
