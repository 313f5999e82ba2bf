import numpy as np
import pytest

from spu_core.rules import RuleMatrix, rule_findings

ROWS = np.arange(1_000)


def matrix_of(belief=0.8, **fired):
    return RuleMatrix.from_arrays(list(fired), np.column_stack(list(fired.values())) * belief)


@pytest.mark.parametrize(
    ("matrix", "is_labeled", "code", "message"),
    [
        (matrix_of(a=ROWS < 0), None, "rule_never_fires", "Rule 'a' fires on no row."),
        (
            matrix_of(a=ROWS >= 0),
            None,
            "rule_fires_always",
            "Rule 'a' fires on every row with a mean belief of 0.80.",
        ),
        (
            matrix_of(a=ROWS < 500),
            ROWS >= 900,
            "rule_against_labels",
            "Rule 'a' fires 0.00 times as often on confirmed cases as on all rows (0.00–0.07): "
            "the labels contradict it.",
        ),
        (
            matrix_of(a=ROWS % 2 == 0),
            ROWS < 40,
            "rule_not_confirmed",
            "Rule 'a' has a belief of 0.80, but the labels do not clearly support it (lift 0.71–1.29).",
        ),
        (
            matrix_of(a=ROWS < 100, b=ROWS < 98),
            None,
            "rules_are_twins",
            "Rules 'a' and 'b' fire on the same rows (98% in common).",
        ),
    ],
)
def test_rules_that_deserve_a_second_look_are_found(matrix, is_labeled, code, message):
    assert [(finding.code, finding.message) for finding in matrix.findings(is_labeled)] == [(code, message)]


def test_a_rule_that_the_labels_confirm_has_no_findings():
    assert rule_findings(matrix_of(a=ROWS < 100, b=(ROWS > 50) & (ROWS < 150)), ROWS < 80) == ()


def test_weak_rules_need_no_confirmation():
    assert rule_findings(matrix_of(0.1, a=ROWS % 2 == 0), ROWS < 40) == ()
