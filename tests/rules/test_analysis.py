"""Rule statistics against their plain definitions, row by row."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spu_core.errors import RuleError
from spu_core.rules import RuleMatrix, overlap_table, summarize_rules
from spu_core.rules.matrix import CONFLICT_GAP, lift_interval

LEVELS = st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
BELIEFS = hnp.arrays(float, st.tuples(st.integers(1, 8), st.integers(1, 5)), elements=LEVELS)


def matrix_of(belief, fired):
    return RuleMatrix.from_arrays([f"r{j}" for j in range(belief.shape[1])], belief, fired)


@st.composite
def matrices(draw):
    belief = draw(BELIEFS)
    return matrix_of(belief, draw(hnp.arrays(bool, belief.shape)))


def by_definition(matrix, rule):
    """Coverage, overlap, conflict and redundancy of one rule, straight from their definitions."""
    own = overlap = conflict = redundant = 0
    for row in range(len(matrix)):
        if not matrix.fired[row, rule]:
            continue
        mine = matrix.belief[row, rule]
        others = [matrix.belief[row, j] for j in range(matrix.n_rules) if j != rule and matrix.fired[row, j]]
        own += 1
        overlap += bool(others)
        conflict += any(abs(other - mine) > CONFLICT_GAP for other in others)
        redundant += any(other >= mine for other in others)
    n = len(matrix)
    return own / n, overlap / n, conflict / n, redundant / own if own else np.nan


@given(matrices())
@settings(max_examples=150)
def test_summary_equals_the_definitions(matrix):
    summary = summarize_rules(matrix)
    for rule, name in enumerate(matrix.names):
        found = summary.loc[name, ["coverage", "overlap", "conflict", "redundancy"]].to_numpy(dtype=float)
        assert found == pytest.approx(np.array(by_definition(matrix, rule)), nan_ok=True)


@given(matrices())
@settings(max_examples=100)
def test_overlap_tables_equal_the_definitions(matrix):
    rows, share, jaccard = (overlap_table(matrix, how).to_numpy() for how in ("rows", "share", "jaccard"))
    for i in range(matrix.n_rules):
        for j in range(matrix.n_rules):
            first, second = matrix.fired[:, i], matrix.fired[:, j]
            both, either = (first & second).sum(), (first | second).sum()
            assert rows[i, j] == both
            assert share[i, j] == pytest.approx(both / first.sum() if first.any() else np.nan, nan_ok=True)
            assert jaccard[i, j] == pytest.approx(both / either if either else np.nan, nan_ok=True)


def test_lift_compares_labelled_rows_with_all_rows():
    """The rule fires on 2 of 3 labelled rows and on 4 of 12 rows: lift 2."""
    fired = np.array([1, 1, 0, 1, 1] + [0] * 7, dtype=bool)[:, None]
    is_labeled = np.arange(12) < 3
    line = matrix_of(fired * 0.5, fired).summary(is_labeled).loc["r0"]

    assert (line["labeled_rows"], line["lift"]) == (2, pytest.approx(2.0))
    assert line["lift_low"] < 2 < line["lift_high"]


def test_precision_is_added_where_the_truth_is_known():
    fired = np.array([1, 1, 1, 1, 0], dtype=bool)[:, None]
    line = matrix_of(fired * 0.5, fired).summary(truth=[1, 1, 1, 0, 1]).loc["r0"]

    assert line["precision"] == 0.75
    assert 0 < line["precision_low"] < 0.75 < line["precision_high"] < 1


def test_a_rule_that_never_fires_has_unknown_shares_and_no_warning(recwarn):
    line = matrix_of(np.zeros((4, 1)), np.zeros((4, 1), dtype=bool)).summary([1, 0, 0, 0], [1, 0, 0, 0]).loc["r0"]

    assert line["coverage"] == 0
    assert line[["mean_belief", "redundancy", "lift", "precision", "precision_low"]].isna().all()
    assert not recwarn.list


def test_without_labels_the_lift_is_unknown():
    assert np.isnan(lift_interval(0, 0, 5, 10)).all()


@given(st.integers(1, 200), st.integers(1, 200), st.data())
@settings(max_examples=100)
def test_the_lift_lies_within_its_limits(n_labeled, hits, data):
    labeled_hits = data.draw(st.integers(0, min(n_labeled, hits)))
    lift, low, high = lift_interval(labeled_hits, n_labeled, hits, n_labeled + hits + 100)

    assert 0 <= low <= lift + 1e-12
    assert lift <= high + 1e-12


def test_summary_is_a_table_with_one_line_per_rule():
    matrix = matrix_of(np.full((3, 2), 0.5), np.ones((3, 2), dtype=bool))

    assert isinstance(matrix.summary(), pd.DataFrame)
    assert list(matrix.summary([0, 0, 1]).columns) == [
        "rows", "coverage", "mean_belief", "overlap", "conflict", "redundancy",
        "labeled_rows", "lift", "lift_low", "lift_high",
    ]  # fmt: skip


def test_an_unknown_overlap_is_refused():
    with pytest.raises(RuleError, match="how must be one of 'share', 'jaccard', 'rows', got 'cosine'"):
        matrix_of(np.zeros((1, 1)), None).overlaps("cosine")


def test_matrix_parts():
    matrix = RuleMatrix.from_arrays(["a", "b"], [[0.5, 0.0], [0.2, 0.8]], columns=["x"])

    assert matrix.without("a").belief.tolist() == [[0.0], [0.8]]
    assert matrix.take(np.array([1])).belief.tolist() == [[0.2, 0.8]]
    assert matrix.take(np.array([True, False])).fired.tolist() == [[True, False]]
    with pytest.raises(RuleError, match=r"There is no rule named 'aa'\. Did you mean 'a'\?"):
        matrix.without("aa")


@pytest.mark.parametrize("belief", [[[1.5]], [[-0.1]], [[np.nan]]])
def test_beliefs_outside_the_unit_interval_are_refused(belief):
    with pytest.raises(RuleError, match=r"belief must lie in \[0, 1\] in every row and rule"):
        RuleMatrix.from_arrays(["a"], belief)


def test_a_matrix_needs_one_column_per_rule():
    with pytest.raises(RuleError, match=r"one column for each of 2 rules, got shape \(1, 1\)"):
        RuleMatrix.from_arrays(["a", "b"], [[0.5]])


def test_a_matrix_cannot_be_written_through_and_leaves_the_callers_arrays_alone():
    fired = np.ones((2, 1), dtype=bool, order="F")
    matrix = RuleMatrix(("a",), ("a",), fired, (0.5,))

    with pytest.raises(ValueError, match="read-only"):
        matrix.fired[0, 0] = False
    fired[0, 0] = True


def test_no_rows_cannot_be_summarized():
    with pytest.raises(RuleError, match="The rule matrix has no rows, so there is nothing to summarize"):
        RuleMatrix.from_arrays(["a"], np.empty((0, 1))).summary()
