"""One audit judges every score: against textbook survey formulas, several batches, older plans, and few positives."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats import rankdata

from spu_core.errors import AssumptionError
from spu_core.metrics import known_positive_auc_interval
from spu_core.trust import (
    AuditPlan,
    Population,
    Verdict,
    check_assumptions,
    combine_audits,
    draw_audit,
    estimate_audit,
    first_batch,
    forecast,
    judge_scores,
    plan_audit,
)
from spu_core.trust.audit.inference import Sampled, corrected


def answers(rows, truth, reviewer="ann"):
    return [Verdict(int(row), "positive" if truth[row] else "negative", reviewer) for row in rows]


@pytest.fixture(scope="module")
def table():
    """2,000 rows: a good score, a poor one, soft labels that are right on average, and the truth."""
    rng = np.random.default_rng(0)
    signal = rng.normal(size=2_000)
    chance = 1.0 / (1.0 + np.exp(1.5 - 2.0 * signal))
    truth = rng.random(2_000) < chance
    rows = {
        name: Population.of(signal + noise * rng.normal(size=2_000), chance.round(2), threshold=1.0)
        for name, noise in (("good", 0.3), ("poor", 3.0))
    }
    return rows, truth


def test_all_rows_checked_give_the_true_figures_without_error(table):
    rows, truth = table
    plan = draw_audit(rows["good"], 2_000)
    report = judge_scores(rows, combine_audits([(plan, answers(plan.rows, truth))]))
    figures = report.figures["good"]
    flagged = rows["good"].is_flagged

    assert figures["true_auc"].estimate == pytest.approx(
        known_positive_auc_interval(truth, rows["good"].score).estimate
    )
    assert figures["prior"].estimate == pytest.approx(truth.mean())
    assert figures["precision"].estimate == pytest.approx(truth[flagged].mean())
    assert figures["recall"].estimate == pytest.approx(flagged[truth].mean())
    assert figures["positive_mean"].estimate == pytest.approx(rows["good"].soft_label[truth].mean())
    assert figures["negative_mean"].estimate == pytest.approx(rows["good"].soft_label[~truth].mean())
    assert all((each.low, each.high) == (each.estimate, each.estimate) for each in figures.values())
    assert report.pairs[0].difference.low == report.pairs[0].difference.high > 0.0


def test_without_assistance_the_share_and_its_error_are_those_of_the_survey_textbook(table):
    """Cochran, Sampling Techniques, 3.2: p and √((1 − f) p q / (n − 1)); ours has n/(n−1) within each class."""
    rows, truth = table
    plan = draw_audit(rows["good"], 400)
    checked = combine_audits([(plan, answers(plan.rows, truth))])
    found = judge_scores(rows, checked, method="horvitz_thompson").figures["good"]["prior"]
    share = truth[list(plan.rows)].mean()

    assert found.estimate == pytest.approx(share)
    assert found.standard_error == pytest.approx(np.sqrt((1 - 0.2) * share * (1 - share) / 399), rel=0.05)


def test_with_a_good_guess_the_share_is_the_regression_estimate_of_the_survey_textbook(table):
    """Cochran 7.1: ȳ − b (x̄ − X̄) with the slope b of y on x in the sample; x is the guess of the class."""
    rows, truth = table
    place = np.random.default_rng(2).choice(2_000, 300, replace=False)
    y, x = truth[place].astype(float), rows["good"].soft_label
    sampled = Sampled.of(rows["good"], place, np.full(300, 0.15), y)
    found = corrected(sampled, sampled.sums("prior"), x)
    slope = np.cov(y, x[place])[0, 1] / x[place].var(ddof=1)
    plain = corrected(sampled, sampled.sums("prior"), None)

    assert found.power == pytest.approx(min(slope, 1.0))
    assert found.value == pytest.approx(y.mean() - found.power * (x[place].mean() - x.mean()))
    rest = y - found.power * x[place]
    assert found.standard_error == pytest.approx(rest.std() * np.sqrt(0.85 / 300), rel=0.05)
    assert found.standard_error < 0.9 * plain.standard_error


def test_a_directed_batch_is_weighted_by_one_over_the_probability(table):
    """Horvitz and Thompson, divided by the sum of the weights, by hand; a row of both batches counts once."""
    rows, truth = table
    first = draw_audit(rows["good"], 100)
    done = [(first, answers(first.rows, truth))]
    second = draw_audit(rows["good"], 150, checked=combine_audits(done), seed=1)
    checked = combine_audits([*done, (second, answers(second.rows, truth))])
    stratum = np.array(second.row_stratum)
    chance = {row: 1.0 - (1.0 - 100 / 2_000) * (1.0 - second.drawn[h] / second.sizes[h])
              for row, h in zip(second.rows, stratum, strict=True)}  # fmt: skip
    weight = 1.0 / checked.probability
    found = judge_scores(rows, checked, method="horvitz_thompson").figures["good"]["prior"].estimate

    assert not second.is_random
    assert sorted(checked.row.tolist()) == sorted(set(first.rows) | set(second.rows))
    assert all(checked.probability[checked.row == row] == pytest.approx(p) for row, p in chance.items())
    assert found == pytest.approx(np.average(truth[checked.row], weights=weight))


def test_a_later_batch_draws_about_as_many_new_rows_as_asked(table):
    rows, truth = table
    first = draw_audit(rows["good"], 1_000)
    checked = combine_audits([(first, answers(first.rows, truth))])
    none = combine_audits([(first, answers(first.rows, np.zeros(2_000, bool)))])

    assert draw_audit(rows["good"], 300, checked=none, seed=1).checks == 600
    assert len(set(draw_audit(rows["good"], 300, checked=none, seed=1).rows) - set(first.rows)) == pytest.approx(
        300, abs=40
    )
    assert draw_audit(rows["good"], 900, checked=checked, seed=1).checks > 900


def test_no_row_has_more_than_about_twice_the_weight_of_random_checks_however_wrong_the_verdicts_are(table):
    rows, truth = table
    wrong = ~truth if truth.mean() > 0.5 else rows["good"].score < np.quantile(rows["good"].score, 0.3)
    done = []
    for seed, checks in enumerate((60, 60, 80)):
        checked = combine_audits(done) if done else None
        plan = draw_audit(rows["good"], checks, checked=checked, seed=seed)
        done.append((plan, answers(plan.rows, wrong)))
    checked = combine_audits(done)

    assert not done[-1][0].is_random
    assert (checked.chance > 0.45 * 200 / 2_000).all()
    assert checked.chance[list(checked.row)] == pytest.approx(checked.probability)


@pytest.mark.parametrize("checks", [40, 400])
def test_plausible_beliefs_have_the_mean_and_variance_of_the_posterior_of_a_logistic_regression(table, checks):
    rows, truth = table
    plan = draw_audit(rows["good"], checks)
    place = np.array(plan.rows)
    sample = Sampled.of(rows["good"], place, np.full(checks, checks / 2_000), truth[place].astype(float))
    middle = logit(sample.fitted_belief())
    beliefs = logit(np.array(sample.plausible_beliefs()))
    inside = (np.abs(beliefs) < 9).all(axis=0)  # beliefs are kept away from 0 and 1

    columns = [logit(rows["good"].belief.clip(1e-3, 1 - 1e-3)), rankdata(rows["good"].score)]
    design = np.stack([np.ones(2_000), *((each - each.mean()) / each.std() for each in columns)], axis=1)
    fitted = expit(middle[place])
    information = design[place].T @ (design[place] * (fitted * (1 - fitted))[:, None]) + np.diag([1e-3, 1.0, 1.0])
    variance = np.einsum("ij,jk,ik->i", design, np.linalg.inv(information), design)

    assert inside.mean() > 0.5
    assert beliefs.mean(axis=0)[inside] == pytest.approx(middle[inside])
    assert beliefs.var(axis=0)[inside] == pytest.approx(variance[inside], rel=1e-3)


def test_over_many_audits_two_batches_have_no_bias(table):
    rows, truth = table
    errors = []
    for seed in range(60):
        first = draw_audit(rows["good"], 80, seed=seed)
        done = [(first, answers(first.rows, truth))]
        second = draw_audit(rows["good"], 80, checked=combine_audits(done), seed=1_000 + seed)
        report = judge_scores(rows, combine_audits([*done, (second, answers(second.rows, truth))]))
        errors.append(report.figures["good"]["prior"].estimate - truth.mean())

    assert abs(np.mean(errors)) < 3.0 * np.std(errors) / np.sqrt(60)


def test_the_assisted_interval_is_never_wider_than_the_classical_one(table):
    rows, truth = table
    for seed in range(5):
        plan = draw_audit(rows["good"], 150, seed=seed)
        checked = combine_audits([(plan, answers(plan.rows, truth))])
        ours, plain = (
            judge_scores(rows, checked, method=how).figures["good"]["true_auc"]
            for how in ("assisted", "horvitz_thompson")
        )

        assert ours.high - ours.low <= 1.02 * (plain.high - plain.low)


def test_scores_that_differ_are_told_apart_and_a_score_does_not_differ_from_itself(table):
    rows, truth = table
    plan = draw_audit(rows["good"], 200)
    checked = combine_audits([(plan, answers(plan.rows, truth))])
    report = judge_scores({**rows, "twin": rows["good"]}, checked)
    pair = report.pair("poor", "good")

    assert (pair.first, pair.second) == ("good", "poor")
    assert pair.is_clear
    assert report.pair("good", "twin").difference.estimate == 0.0
    assert report.pair("good", "twin").difference.p_value == 1.0
    assert "clearly better than 1 of 2 others" in report.sentence.lower()


def test_the_sentence_names_a_model_to_use_and_never_a_reference(table):
    rows, truth = table
    plan = draw_audit(rows["good"], 400)
    report = judge_scores(rows, combine_audits([(plan, answers(plan.rows, truth))]))

    assert report.sentence.startswith("'good': true AUC")
    without = replace(report, references=frozenset({"good"})).sentence
    assert "'good'" not in without
    assert without.startswith("'poor': true AUC")


def test_the_assumptions_can_be_tested_on_an_audit_for_every_score(table):
    rows, truth = table
    plan = draw_audit(rows["good"], 300)
    report = check_assumptions(estimate_audit(rows["good"], plan, answers(plan.rows, truth)))

    assert report.separation.is_shown
    assert report.is_score_refuted  # the soft label is a function of the signal behind the score


def test_precision_is_unknown_if_no_checked_row_is_flagged(table):
    rows, truth = table
    high = Population.of(rows["good"].score, rows["good"].soft_label, threshold=float(np.sort(rows["good"].score)[-2]))
    plan = draw_audit(high, 60)
    found = judge_scores({"a": high}, combine_audits([(plan, answers(plan.rows, truth))])).figures["a"]["precision"]

    assert (found.low, found.high) == (0.0, 1.0)


def test_with_few_positives_the_interval_holds_every_auc_that_its_own_error_does_not_reject(table):
    """Newcombe 2006, method 5, checked at the ends: the distance is 1.96 standard errors at the end itself."""
    rows, truth = table
    few = truth & (np.arange(2_000) % 4 == 0)
    plan = draw_audit(rows["good"], 80)
    verdicts = answers(plan.rows, few)
    m = int(few[list(plan.rows)].sum())
    found = judge_scores(rows, combine_audits([(plan, verdicts)])).figures["good"]["true_auc"]
    n, end = 80 - m, found.low
    rest = 0.5 * (m + n) - 1
    error = np.sqrt(end * (1 - end) * (1 + rest * (1 - end) / (2 - end) + rest * end / (1 + end)) / (m * n))

    assert 2 <= m < 10
    assert found.estimate - end >= 1.95 * error
    assert found.estimate - end == pytest.approx(1.96 * error, rel=0.25)


def test_few_positives_give_the_number_of_missing_checks_and_no_pairs(table):
    rows, _ = table
    plan = draw_audit(rows["good"], 30)
    none = combine_audits([(plan, answers(plan.rows, np.zeros(2_000, bool)))])
    report = judge_scores(rows, none)
    auc = report.figures["good"]["true_auc"]

    assert (auc.low, auc.high) == (0.0, 1.0)
    assert auc.missing == report.missing > 100
    assert report.pairs == ()
    assert report.sentence.startswith("Too few cases")
    assert report.figures["good"]["prior"].high == pytest.approx(1 - 0.025 ** (1 / 30), abs=1e-3)


def test_rows_checked_so_far_count_as_a_random_part_of_the_list(table):
    rows, truth = table
    plan = draw_audit(rows["good"], 100)
    checked = combine_audits([(plan, answers(plan.rows[:40], truth))])

    assert checked.probability == pytest.approx(np.full(40, 40 / 2_000))
    assert checked.waiting == 60


def test_rows_that_were_skipped_are_a_warning_until_they_are_checked(table):
    rows, truth = table
    plan = draw_audit(rows["good"], 100)
    notes = [
        combine_audits([(plan, answers(listed, truth))]).notes
        for listed in (plan.rows[:50], plan.rows[1:50], [*plan.rows[:20], *plan.rows[23:50]], plan.rows)
    ]

    assert notes[0] == notes[1] == notes[3] == ()  # one row may be open while a reviewer works
    assert notes[2][0].startswith("3 rows of the list were skipped")


def test_a_stratum_without_a_verdict_is_an_error_that_names_it(table):
    rows, truth = table
    first = draw_audit(rows["good"], 200)
    done = [(first, answers(first.rows, truth))]
    second = draw_audit(rows["good"], 100, checked=combine_audits(done), seed=1)
    last = [row for row, h in zip(second.rows, second.row_stratum, strict=True) if h == max(second.row_stratum)]

    with pytest.raises(AssumptionError, match="Check more rows of the list"):
        combine_audits([(second, answers(last, truth))])


def test_an_older_plan_of_one_run_judges_other_scores_too(table):
    rows, truth = table
    old = AuditPlan.from_json(plan_audit(rows["good"], 300).to_json())
    report = judge_scores(rows, combine_audits([(old, answers(old.rows, truth))]))
    true_auc = known_positive_auc_interval(truth, rows["poor"].score).estimate

    assert old.frame is None
    assert true_auc in report.figures["poor"]["true_auc"]


def test_older_plans_combine_once_the_strata_of_all_rows_are_known(table):
    rows, truth = table
    old, new = plan_audit(rows["good"], 100), draw_audit(rows["good"], 100, seed=3)
    given = [(plan, answers(plan.rows, truth)) for plan in (old, new)]
    alone = combine_audits(given)
    both = combine_audits([(old.with_strata(rows["good"], 2_000), given[0][1]), given[1]])

    assert alone.row.size == 100
    assert "not used" in alone.notes[0]
    assert both.row.size == len({*old.rows, *new.rows})
    assert (1.0 / both.probability).sum() == pytest.approx(2_000, rel=0.25)


def test_known_positives_count_without_a_check(table):
    rows, truth = table
    known = truth & (np.arange(2_000) % 5 == 0)
    base = rows["good"]
    population = Population.of(base.score, np.where(known, 1.0, base.soft_label), threshold=1.0, is_known=known)
    plan = draw_audit(population, int((~known).sum()))
    report = judge_scores({"a": population}, combine_audits([(plan, answers(plan.rows, truth))]))

    assert not known[list(plan.rows)].any()
    assert report.figures["a"]["prior"].estimate == pytest.approx(truth.mean())


def test_more_looks_widen_the_interval_so_that_stopping_at_any_is_valid(table):
    rows, truth = table
    one, four = (draw_audit(rows["good"], 150, looks=looks) for looks in (1, 4))
    widths = []
    for plan in (one, four):
        auc = judge_scores(rows, combine_audits([(plan, answers(plan.rows, truth))])).figures["good"]["true_auc"]
        widths.append(auc.high - auc.low)

    assert four.level_of_a_look == pytest.approx(1 - 0.05 / 4)
    assert widths[1] > 1.2 * widths[0]


def test_which_of_two_is_better_draws_rows_on_which_they_disagree(table):
    rows, truth = table
    first = draw_audit(rows["good"], 200)
    checked = combine_audits([(first, answers(first.rows, truth))])
    plan = draw_audit(rows["good"], 200, "which_better", rival=rows["poor"], checked=checked, seed=1)
    gap = np.abs(pd.Series(rows["good"].score).rank() - pd.Series(rows["poor"].score).rank()).to_numpy()

    assert gap[list(plan.rows)].mean() > 1.1 * gap.mean()
    with pytest.raises(AssumptionError, match="scores of both"):
        draw_audit(rows["good"], 50, "which_better")


def test_split_verdicts_in_the_worst_case_cover_both_answers(table):
    rows, truth = table
    plan = draw_audit(rows["good"], 100)
    verdicts = [*answers(plan.rows, truth), *answers(plan.rows[:5], ~truth, "bob")]
    mean, worst = (
        judge_scores(rows, combine_audits([(plan, verdicts)], treatment=how)).figures["good"]["prior"]
        for how in ("mean", "worst_case")
    )

    assert worst.low < mean.low
    assert worst.high > mean.high


def test_a_forecast_says_where_simple_random_checking_is_as_good():
    rng = np.random.default_rng(1)
    flat = Population.of(rng.random(1_000), np.full(1_000, 0.3), threshold=0.5)
    found = forecast(flat, "how_many")

    assert found.sentence(100) == (
        "100 checks tell the share of cases within ±8.8%. "
        "Simple random checking is as good as any other choice of rows here."
    )


def test_a_forecast_for_two_models_tells_the_difference_that_can_be_seen(table):
    rows, _ = table
    found = forecast(rows["good"], "which_better", rival=rows["poor"])

    assert found.table["detectable"].is_monotonic_decreasing
    assert "tell the two models apart with 80% power" in found.sentence(100)


def test_half_of_the_checks_come_first():
    assert [first_batch(checks) for checks in (30, 49, 60, 200)] == [30, 49, 30, 100]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"membership": "AAAA"}, "cannot be read"),
        ({"sizes": [7]}, "do not have the sizes"),
        ({"looks": 0}, "once or more"),
    ],
)
def test_a_damaged_plan_is_refused(table, change, message):
    stored = json.loads(draw_audit(table[0]["good"], 30).to_json())
    with pytest.raises(AssumptionError, match=message):
        AuditPlan.from_json(json.dumps({**stored, **change}))


@pytest.mark.filterwarnings("error")
def test_a_half_done_review_without_a_checked_positive_gives_the_whole_range_and_no_warning():
    """Confirmed cases alone give no error of their figures: no positive was drawn by chance yet."""
    rng = np.random.default_rng(0)
    score, known = rng.random(500), np.arange(500) < 20
    rows = Population.of(score, score.round(1), threshold=0.8, is_known=known)
    plan = draw_audit(rows, 40)
    checked = combine_audits([(plan, [Verdict(row, "negative") for row in plan.rows[:15]])])
    report = judge_scores({"one": rows}, checked)
    found = report.figures["one"]["true_auc"]

    assert 0.0 < found.estimate < 1.0
    assert (found.low, found.high) == (0.0, 1.0)
    assert report.missing > 0
