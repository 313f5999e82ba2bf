"""Estimates from verdicts: exact where all rows are seen, unbiased else, conservative where positives are few."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from spu_core.errors import AssumptionError
from spu_core.trust import TARGETS, Population, Verdict, estimate_audit, plan_audit, read_verdicts
from spu_core.trust.audit.estimate import figure_of
from spu_core.trust.audit.totals import Audited, count_limits
from spu_core.trust.audit.verdicts import agree


def world(size=1500, seed=0):
    rng = np.random.default_rng(seed)
    score = rng.random(size)
    truth = rng.random(size) < 0.7 * score
    known = truth & (rng.random(size) < 0.1)
    soft_label = np.where(known, 1.0, (0.6 * score).round(2))
    return Population.of(score, soft_label, threshold=0.85, is_known=known), truth


def verdicts_of(plan, truth, reviewer="ann"):
    return [Verdict(row, "positive" if truth[row] else "negative", reviewer) for row in plan.rows]


def test_when_every_row_is_checked_nothing_is_left_to_chance():
    population, truth = world(200)
    plan = plan_audit(population, int(population.is_open.sum()))
    found = estimate_audit(population, plan, verdicts_of(plan, truth))
    for key, figure in found.figures.items():
        exact = TARGETS[key].of_truth(population, truth)
        assert (figure.estimate, figure.low, figure.high) == pytest.approx((exact, exact, exact), abs=1e-9)
        assert not figure.is_exact


@pytest.mark.parametrize("method", ["assisted", "horvitz_thompson"])
def test_estimates_are_right_on_average(method):
    population, truth = world()
    found = {key: [] for key in TARGETS}
    for seed in range(60):
        plan = plan_audit(population, 200, "prior", seed=seed)
        estimate = estimate_audit(population, plan, verdicts_of(plan, truth), method=method)
        for key, figure in estimate.figures.items():
            found[key].append(figure.estimate)
    for key, values in found.items():
        error = np.std(values) / np.sqrt(len(values))
        assert np.mean(values) == pytest.approx(TARGETS[key].of_truth(population, truth), abs=4 * error + 0.005), key


def test_count_limits_are_those_of_clopper_and_pearson():
    low, high = beta.ppf(0.025, 3, 18), beta.ppf(0.975, 4, 17)
    assert count_limits(3, 20, 10_000, 0.95) == (int(np.floor(10_000 * low)), int(np.ceil(10_000 * high)))
    assert count_limits(0, 20, 10_000, 0.95)[0] == 0
    assert count_limits(20, 20, 10_000, 0.95)[1] == 10_000
    # What was seen limits what is left: 5 found and 15 not found among 22 leave 5 to 7.
    assert count_limits(5, 20, 22, 0.95) == (5, 7)


def test_bounds_hold_the_worst_case_by_brute_force():
    """Few rows and nothing found: the true AUC may be anything that some placing of allowed positives gives."""
    score = np.arange(40.0)
    population = Population.of(score, score / 50, threshold=34.0)
    stratum = np.where(score > 34, 1, 0)
    place = np.array([1, 5, 9, 13, 35, 36, 37, 38, 39])
    verdict = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1.0])
    audited = Audited(population, stratum, place, verdict)
    figure = figure_of(audited, "true_auc", level=0.9)
    _, most = count_limits(0, 4, 35, 0.9)
    unseen = np.setdiff1d(np.arange(35), place)
    values = []
    for count in range(min(most, unseen.size) + 1):
        for chosen in (unseen[:count], unseen[::-1][:count]):
            truth = np.zeros(40)
            truth[[35, 36, 37, 38, 39, *chosen]] = 1
            values.append(TARGETS["true_auc"].of_truth(population, truth))
    assert figure.is_exact
    assert figure.low == pytest.approx(min(values), abs=1e-6)
    assert figure.high == pytest.approx(max(values), abs=1e-6)


def test_finding_nothing_proves_little_where_few_were_checked():
    population, _ = world()
    plan = plan_audit(population, 40, "prior")
    found = estimate_audit(population, plan, [Verdict(row, "negative") for row in plan.rows])
    assert found.figures["prior"].is_exact
    assert found.figures["prior"].high > 0.1


def test_precision_asks_only_about_flagged_rows():
    population, truth = world()
    plan = plan_audit(population, 300, "precision")
    found = estimate_audit(population, plan, verdicts_of(plan, truth))
    assert not found.figures["precision"].is_exact
    assert found.figures["prior"].is_exact


@pytest.mark.parametrize("treatment", ["mean", "agreed", "worst_case"])
def test_two_reviewers_are_both_heard_and_the_treatment_is_said(treatment):
    population, truth = world()
    plan = plan_audit(population, 200, "prior")
    both = verdicts_of(plan, truth) + verdicts_of(plan, truth, "bob")
    split = [Verdict(each.row, "unsure", "bob") if at % 10 == 0 else each for at, each in enumerate(both)]
    found = estimate_audit(population, plan, split, treatment=treatment)

    assert "200" in found.agreement.sentence or "180" in found.agreement.sentence
    assert "split or unsure" in found.agreement.sentence
    assert found.missing == (found.agreement.split if treatment == "agreed" else 0)
    if treatment == "worst_case":
        plain = estimate_audit(population, plan, split)
        assert found.figures["prior"].estimate == pytest.approx(plain.figures["prior"].estimate, abs=0.02)
        assert found.figures["prior"].low < plain.figures["prior"].low
        assert found.figures["prior"].high > plain.figures["prior"].high


def test_agree_counts_shares_of_reviewers():
    said = [Verdict(1, "positive", "a"), Verdict(1, "positive", "b"), Verdict(1, "negative", "c"), Verdict(2, "unsure")]
    assert agree(said).low.tolist() == pytest.approx([2 / 3, 0.5])
    assert (agree(said).split, agree(said).twice, agree(said).agreed) == (2, 1, 0)
    with pytest.raises(AssumptionError, match="No row has a verdict yet"):
        agree([])
    with pytest.raises(AssumptionError, match="treatment must be one of"):
        agree(said, "median")


def test_a_stratum_with_hardly_any_verdict_is_named():
    population, truth = world()
    plan = plan_audit(population, 60)
    first = [each for each in verdicts_of(plan, truth) if plan.row_stratum[plan.rows.index(each.row)] != 0]
    with pytest.raises(AssumptionError, match=r"Too few verdicts in stratum 1 \(0 of .* rows\)"):
        estimate_audit(population, plan, first)


def test_a_verdict_on_a_row_that_was_not_drawn_is_refused():
    population, truth = world()
    plan = plan_audit(population, 60)
    other = next(row for row in range(1500) if row not in plan.rows)
    with pytest.raises(AssumptionError, match="this audit did not draw it"):
        estimate_audit(population, plan, [*verdicts_of(plan, truth), Verdict(other, "positive")])


@pytest.fixture
def plan():
    return plan_audit(world()[0], 20)


def test_a_filled_list_is_read_with_any_spelling(plan):
    words = ["Yes", "no", "1", "0", "positive", "NEGATIVE", "unsure", "?", True, 0.0, None, ""]
    frame = pd.DataFrame({"Row": plan.rows[:12], "Verdict": words, "reviewer": "ann", "note": "x"})
    reading = read_verdicts(frame, plan)
    assert [each.verdict for each in reading.verdicts] == (
        ["positive", "negative"] * 3 + ["unsure"] * 2 + ["positive", "negative"]
    )
    assert reading.empty == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f, p: f.drop(columns="verdict"), "no column 'verdict'"),
        (lambda f, p: f.assign(verdict="guilty"), "Line 2: unknown verdict 'guilty'"),
        (lambda f, p: f.assign(row=999_999), "row 999999 was not drawn in this audit"),
        (lambda f, p: f.assign(row="x"), "'x' is not a row number"),
        (lambda f, p: f.assign(row=p.rows[0], verdict=["yes", "no"]), "Line 3: 'reviewer' has two verdicts on row"),
        (lambda f, p: f.assign(audit="deadbeef"), "belongs to audit deadbeef, but this is audit"),
    ],
)
def test_a_list_with_a_fault_is_refused_with_its_line(plan, change, words):
    frame = change(pd.DataFrame({"row": plan.rows[:2], "verdict": ["yes", "no"]}), plan)
    with pytest.raises(AssumptionError, match=words):
        read_verdicts(frame, plan)


def test_where_no_row_is_flagged_there_is_every_figure_but_the_precision():
    population, truth = world()
    unflagged = Population.of(population.score, population.soft_label, threshold=9.0, is_known=population.is_known)
    plan = plan_audit(unflagged, 200, "prior")
    found = estimate_audit(unflagged, plan, verdicts_of(plan, truth))

    assert set(found.figures) == set(TARGETS) - {"precision"}
    figure = found.figures["prior"]
    assert figure.low in figure
    assert figure.high in figure
    assert figure_of(found.audited, "prior") == figure
