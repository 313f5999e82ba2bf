from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import ScoreError, SoftLabelError
from spu_core.labels import COMBINERS, SoftLabels, assign_soft_labels
from spu_core.rules import RuleMatrix

MATRIX = RuleMatrix.from_arrays(["aim", "speed"], [[0.8, 0.5], [0.0, 0.5], [0.0, 0.0], [0.0, 0.0]], columns=["x", "y"])
LABELED = np.array([False, True, False, True])


def test_labelled_rows_are_one_and_the_rule_score_forgets_labels():
    soft_labels = assign_soft_labels(MATRIX, LABELED, "strongest", floor=0.1)

    assert soft_labels.value.tolist() == [0.8, 1.0, 0.1, 1.0]
    assert soft_labels.rule_score.tolist() == [0.8, 0.5, 0.1, 0.1]
    assert soft_labels.is_labeled.tolist() == LABELED.tolist()
    assert soft_labels.rule_columns == ("x", "y")
    assert (soft_labels.combine, soft_labels.floor, len(soft_labels)) == ("strongest", 0.1, 4)


def test_changing_labels_does_not_change_the_rule_score():
    first, second = assign_soft_labels(MATRIX, LABELED), assign_soft_labels(MATRIX, ~LABELED)

    assert first.rule_score.tobytes() == second.rule_score.tobytes()


def test_a_belief_below_the_floor_is_raised_to_it():
    assert assign_soft_labels(MATRIX, [0, 0, 0, 0], "strongest", floor=0.6).value.tolist() == [
        0.8,
        0.6,
        0.6,
        0.6,
    ]


def test_no_rules_give_the_floor():
    matrix = RuleMatrix.from_arrays([], np.empty((3, 0)))

    assert assign_soft_labels(matrix, [0, 1, 0], floor=0.02).value.tolist() == [0.02, 1.0, 0.02]


@pytest.mark.parametrize("combine", COMBINERS)
def test_chunks_give_what_the_whole_gives_bit_for_bit(combine):
    rng = np.random.default_rng(0)
    matrix = RuleMatrix.from_arrays(list("abcdefg"), rng.random((501, 7)), rng.random((501, 7)) < 0.4)
    is_labeled = rng.random(501) < 0.1
    whole = assign_soft_labels(matrix, is_labeled, combine).value
    chunks = np.array_split(np.arange(501), 7)
    parts = [assign_soft_labels(matrix.take(rows), is_labeled[rows], combine).value for rows in chunks]

    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_ready_made_values_keep_what_they_were_before_labels():
    soft_labels = SoftLabels.from_values([0.2, 0.7], [True, False], ["x"])

    assert soft_labels.value.tolist() == [1.0, 0.7]
    assert soft_labels.rule_score.tolist() == [0.2, 0.7]
    assert soft_labels.rule_columns == ("x",)


def test_taking_rows_keeps_everything_in_step():
    part = assign_soft_labels(MATRIX, LABELED).take([1, 0])

    assert part.value.tolist() == [1.0, 0.9]
    assert part.is_labeled.tolist() == [True, False]
    assert part.explain(1).value == 0.9


def test_soft_labels_are_frozen_and_do_not_follow_the_callers_arrays():
    value = np.array([0.2, 0.7])
    soft_labels = SoftLabels.from_values(value, [False, False])
    value[0] = 0.9

    assert soft_labels.value.tolist() == [0.2, 0.7]
    with pytest.raises(ValueError, match="read-only"):
        soft_labels.value[0] = 0.5
    with pytest.raises(FrozenInstanceError):
        soft_labels.floor = 0.5


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: assign_soft_labels(MATRIX, [0, 1]), ScoreError, "is_labeled has 2 rows"),
        (lambda: assign_soft_labels(MATRIX, [0, 1, 2, 0]), ScoreError, "is_labeled must be true or false"),
        (
            lambda: assign_soft_labels(MATRIX, LABELED, floor=1.5),
            SoftLabelError,
            r"floor must lie in \[0, 1\], got 1.5",
        ),
        (lambda: assign_soft_labels(MATRIX, LABELED, "vote"), SoftLabelError, "combine must be one of"),
        (
            lambda: assign_soft_labels(MATRIX.belief, LABELED),
            SoftLabelError,
            "needs a RuleMatrix .*, got ndarray",
        ),
        (
            lambda: SoftLabels.from_values([0.5, 2], [0, 0]),
            SoftLabelError,
            r"value must lie in \[0, 1\], but row 1 holds 2",
        ),
        (
            lambda: SoftLabels([0.5], [0.5], [True]),
            SoftLabelError,
            "Row 0 is a confirmed case, so .* must be 1, got 0.5",
        ),
        (
            lambda: SoftLabels([0.5], [0.5, 0.5], [False]),
            SoftLabelError,
            "rule_score has 2 rows, but value has 1",
        ),
        (
            lambda: assign_soft_labels(MATRIX, LABELED).explain(4),
            SoftLabelError,
            "There is no row 4; rows are counted from 0 to 3",
        ),
        (lambda: assign_soft_labels(MATRIX, LABELED).explain(-1), SoftLabelError, "There is no row -1"),
    ],
)
def test_what_cannot_be_is_refused_in_words(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("combine", COMBINERS)
@given(st.data())
@settings(max_examples=50)
def test_an_explanation_adds_up_to_s(combine, data):
    belief = data.draw(st.lists(st.floats(0, 1), min_size=0, max_size=5))
    fired = data.draw(st.lists(st.booleans(), min_size=len(belief), max_size=len(belief)))
    floor, labeled = data.draw(st.sampled_from([0.0, 0.3])), data.draw(st.booleans())
    names = [f"r{j}" for j in range(len(belief))]
    matrix = RuleMatrix.from_arrays(
        names, np.array([belief]).reshape(1, -1), np.array([fired], dtype=bool).reshape(1, -1)
    )
    soft_labels = assign_soft_labels(matrix, [labeled], combine, floor)
    why = soft_labels.explain(0)

    total = sum(c.amount for c in why.contributions) + why.floor_lift + why.label_lift + why.ready_made
    assert total == pytest.approx(soft_labels.value[0])
    assert all(c.amount >= 0 for c in why.contributions)
    assert min(why.floor_lift, why.label_lift) >= 0


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (0, "Soft label 0.90: 'aim' (belief 0.80) gives 0.63; 'speed' (belief 0.50) gives 0.27."),
        (1, "Soft label 1.00: 'speed' (belief 0.50) gives 0.50; being a confirmed case adds 0.50."),
        (2, "Soft label 0.00: no rule fired, and the floor is 0."),
        (3, "Soft label 1.00: being a confirmed case adds 1.00."),
    ],
)
def test_an_explanation_reads_as_a_sentence(row, text):
    assert assign_soft_labels(MATRIX, LABELED).explain(row).text == text


def test_the_floor_and_ready_made_values_are_explained():
    assert assign_soft_labels(MATRIX, LABELED, floor=0.1).explain(2).text == "Soft label 0.10: the floor adds 0.10."
    assert SoftLabels.from_values([0.3], [False]).explain(0).text == "Soft label 0.30: the ready-made value gives 0.30."


def test_an_explanation_is_also_a_table():
    table = assign_soft_labels(MATRIX, LABELED, "strongest").explain(0).table()

    assert table.loc["aim"].tolist() == [True, 0.8, 0.8]
    assert table.loc["speed"].tolist() == [True, 0.5, 0.0]
