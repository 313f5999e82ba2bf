"""The paper's assumptions on audited rows: seen where they are broken, left alone where they hold."""

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from spu_core.training.evaluation import holm
from spu_core.trust import Population, Verdict, check_assumptions, estimate_audit, plan_audit
from spu_core.trust.assumptions import SCORE

SIZE = 4000


def audited(seed, *, dependent=False, useless=False):
    """A world in which S follows the class alone, or the score too, or nothing."""
    rng = np.random.default_rng(seed)
    truth = rng.random(SIZE) < 0.3
    score = truth + rng.normal(size=SIZE)
    soft_label = np.where(truth, 0.6, 0.2) + rng.normal(0, 0.08, SIZE)
    if dependent:
        soft_label += 0.08 * (score - score.mean())
    if useless:
        soft_label = 0.4 + rng.normal(0, 0.1, SIZE)
    population = Population.of(score, soft_label.clip(0, 1), threshold=1.5)
    plan = plan_audit(population, 500, "prior", seed=seed)
    verdicts = [Verdict(row, "positive" if truth[row] else "negative") for row in plan.rows]
    columns = {"noise": rng.normal(size=SIZE), "level": rng.choice(["a", "b"], SIZE), "gone": np.full(SIZE, np.nan)}
    return check_assumptions(estimate_audit(population, plan, verdicts), columns)


def test_soft_labels_that_follow_the_class_alone_pass():
    found = [audited(seed) for seed in range(10)]
    assert all(report.separation.is_shown for report in found)
    refuted = sum(report.is_independence_refuted for report in found)
    assert refuted <= 3  # at level .05 with Holm; 4 or more of 10 has a chance of .001


def test_soft_labels_that_follow_the_score_are_refuted_and_the_sentence_says_what_that_means():
    report = audited(1, dependent=True)
    assert report.is_score_refuted
    assert report.is_independence_refuted
    assert "Do not use the implied true AUC" in report.sentences[1]
    assert set(report.dependence["with"]) == {SCORE, "noise", "level"}


def test_soft_labels_that_know_nothing_do_not_show_assumption_one():
    report = audited(2, useless=True)
    assert not report.separation.is_shown
    assert "Assumption 1 is not confirmed" in report.sentences[0]


def test_where_positives_are_few_the_gap_is_as_unsure_as_its_two_means():
    rng = np.random.default_rng(5)
    score = rng.random(500)
    truth = rng.random(500) < 0.25 * score
    population = Population.of(score, (0.3 * truth + 0.4 * score).clip(0, 1), threshold=0.9)
    plan = plan_audit(population, 60)
    verdicts = [Verdict(row, "positive" if truth[row] else "negative") for row in plan.rows]
    found = estimate_audit(population, plan, verdicts)
    gap, one, two = check_assumptions(found).separation, found.figures["positive_mean"], found.figures["negative_mean"]

    assert one.is_exact
    assert gap.high - gap.low >= one.high - one.low
    assert gap.low <= one.low - two.high
    assert gap.is_shown == (gap.low > 0)


def test_the_link_has_a_bound_and_says_that_it_is_an_illustration():
    report = audited(3)
    assert report.bound.auc_loss >= 0
    assert report.link.slope > 0
    assert "ε = " in report.sentences[2]


def test_few_of_a_class_say_nothing():
    population = Population.of(np.linspace(0, 1, 100), np.linspace(0, 1, 100), threshold=0.5)
    plan = plan_audit(population, 20)
    report = check_assumptions(estimate_audit(population, plan, [Verdict(row, "negative") for row in plan.rows]))
    assert all("not tested" in words or "too few" in words for words in report.sentences)
    assert report.dependence.empty


def test_holm_never_falls_below_and_never_reorders():
    values = np.array([0.2, 0.001, 0.03, 0.9])
    adjusted = np.array(holm(values))
    assert (adjusted >= values).all()
    assert np.argsort(adjusted, kind="stable").tolist() == np.argsort(values, kind="stable").tolist()
    assert adjusted[1] == pytest.approx(0.004)


def test_where_all_rows_are_checked_the_correlation_is_that_of_the_ranks_and_the_gap_has_no_error():
    rng = np.random.default_rng(7)
    truth, known = np.arange(60) % 3 == 0, np.arange(60) % 15 == 0  # four of twenty positives were known before
    score, soft_label = truth + rng.normal(size=60), np.where(known, 1.0, rng.random(60))
    population = Population.of(score, soft_label, threshold=1.0, is_known=known)
    plan = plan_audit(population, 56)
    verdicts = [Verdict(row, "positive" if truth[row] else "negative") for row in plan.rows]
    report = check_assumptions(estimate_audit(population, plan, verdicts))

    ranks = rankdata(score)
    found = report.dependence.set_index("class")["correlation"]
    for name, rows in (("positive", truth), ("negative", ~truth)):
        assert found[name] == pytest.approx(np.corrcoef(soft_label[rows], ranks[rows])[0, 1])
    gap = soft_label[truth].mean() - soft_label[~truth].mean()
    assert (report.separation.low, report.separation.high) == pytest.approx((gap, gap))


def test_the_p_value_of_the_gap_is_that_of_its_standard_error():
    clear, none = audited(4).separation, audited(2, useless=True).separation

    assert clear.p_value < 1e-6 < 0.01 < none.p_value
    assert none.p_value == pytest.approx(norm.sf(none.estimate / none.standard_error))


def test_positives_that_were_known_before_count_among_those_of_their_class():
    known = np.arange(200) % 25 == 0
    population = Population.of(np.linspace(0, 1, 200), np.where(known, 1.0, 0.3), threshold=0.5, is_known=known)
    plan = plan_audit(population, 40)
    few = [Verdict(row, "positive" if at < 2 else "negative") for at, row in enumerate(plan.rows)]

    assert check_assumptions(estimate_audit(population, plan, few)).separation is not None
