import numpy as np
import pytest
from scipy.stats import spearmanr

from spu_core.labels import COMBINERS, assign_soft_labels, leave_one_rule_out
from spu_core.metrics.auc import auc_spu_ceiling
from spu_core.rules import RuleMatrix


@pytest.mark.parametrize("combine", COMBINERS)
def test_effects_equal_those_of_soft_labels_made_again_without_the_rule(combine):
    rng = np.random.default_rng(0)
    belief, fired = rng.random((300, 4)).round(1), rng.random((300, 4)) < 0.3
    is_labeled = rng.random(300) < 0.1
    table = leave_one_rule_out(RuleMatrix.from_arrays(list("abcd"), belief, fired), is_labeled, combine, 0.01)
    whole = assign_soft_labels(RuleMatrix.from_arrays(list("abcd"), belief, fired), is_labeled, combine, 0.01).value
    for place, name in enumerate("abcd"):
        keep = [j for j in range(4) if j != place]
        rest = RuleMatrix.from_arrays([f"{j}" for j in keep], belief[:, keep], fired[:, keep])
        value = assign_soft_labels(rest, is_labeled, combine, 0.01).value
        assert table.loc[name].to_dict() == pytest.approx(
            {
                "mean_change": value.mean() - whole.mean(),
                "ceiling_change": auc_spu_ceiling(value) - auc_spu_ceiling(whole),
                "rows_changed": np.mean(value != whole),
                "rank_correlation": spearmanr(value, whole).statistic,
            }
        )


def test_removing_the_only_rule_leaves_an_undefined_ceiling():
    table = leave_one_rule_out(RuleMatrix.from_arrays(["a"], [[0.5], [0.0]]), [0, 0])

    assert table.loc["a", "mean_change"] == -0.25
    assert np.isnan(table.loc["a", ["ceiling_change", "rank_correlation"]].to_numpy(dtype=float)).all()


def test_a_rule_that_never_fires_changes_nothing():
    matrix = RuleMatrix.from_arrays(["a", "never"], [[0.5, 0.0], [0.0, 0.0], [0.2, 0.0]])

    assert leave_one_rule_out(matrix, [0, 0, 0]).loc["never"].tolist() == pytest.approx([0, 0, 0, 1])


def test_many_rows_are_counted_on_a_grid_that_does_not_show(monkeypatch):
    rng = np.random.default_rng(0)
    belief, fired = rng.random((5_000, 3)), rng.random((5_000, 3)) < 0.3
    matrix = RuleMatrix.from_arrays(list("abc"), belief, fired)
    exact = leave_one_rule_out(matrix, np.arange(5_000) % 40 == 0)
    monkeypatch.setattr("spu_core.labels.soft_label_audit.MANY_ROWS", 100)

    np.testing.assert_allclose(leave_one_rule_out(matrix, np.arange(5_000) % 40 == 0), exact, atol=1e-5)
