"""One audit for every score: coverage and width of the true AUC, beside plain random checks with DeLong's method.

A population is drawn once; then rows are drawn and classes revealed many times. An audit has two batches, as the
planner proposes: the first at random, the second directed by its verdicts.
"""

import os

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit

from spu_core.metrics import Interval
from spu_core.trust import Population, Verdict, combine_audits, draw_audit, first_batch, judge_scores
from spu_core.trust.audit.inference import LINEARISED

N = 3_000
POPULATION = 5
KINDS = ("right", "reversed", "uninformative")


def chance_of(signal, prevalence):
    level = brentq(lambda level: expit(3.0 * signal + level).mean() - prevalence, -30.0, 30.0)
    return expit(3.0 * signal + level)


def population(kind, prevalence, ties=False, seed=POPULATION):
    """Scores, soft labels and truth. right: S is P(Y=1). reversed: the same values in reverse order.

    uninformative: S is shuffled, and the score hardly ranks.
    """
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=N)
    chance = chance_of(signal, prevalence)
    truth = rng.random(N) < chance
    soft_label, noise = chance.copy(), 0.8
    if kind == "reversed":
        soft_label[np.argsort(chance)] = np.sort(chance)[::-1]
    if kind == "uninformative":
        soft_label, noise = rng.permutation(chance), 3.0
    score, other = (signal + rng.normal(0.0, noise, N) for _ in range(2))
    if ties:
        score, other = (np.digitize(each, np.quantile(each, [0.5, 0.75, 0.9, 0.97])) * 1.0 for each in (score, other))
    rows = [
        Population.of(each, soft_label.round(2), threshold=float(np.quantile(each, 0.9))) for each in (score, other)
    ]
    return *rows, truth


def delong(score, truth, level=0.95):
    """DeLong with m−1, n−1 and Student's t on the logit scale; None with fewer than two of a class."""
    positive, negative = score[truth], score[~truth]
    if min(positive.size, negative.size) < 2:
        return None
    wins = (positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)
    error = np.sqrt(wins.mean(1).var(ddof=1) / positive.size + wins.mean(0).var(ddof=1) / negative.size)
    fewest = min(positive.size, negative.size)
    return Interval.on_logit(float(wins.mean()), float(error), level, degrees=fewest - 1.0, rows=fewest)


def auc_of(score, truth):
    order = np.sort(score[~truth])
    places = [np.searchsorted(order, score[truth], side=side).mean() for side in ("left", "right")]
    return 0.5 * sum(places) / order.size


def best_width(rows, chance, checks, random_share=0.0):
    """The mean width of an interval that knows P(Y=1) of each row, with the best allocation of the checks.

    With a random share, no row has a larger weight than one over this share. Normal quantiles: no fit, no estimated
    error. For shuffled soft labels give the P(Y=1) that the score alone can tell.
    """
    sums = LINEARISED["true_auc"](rows, np.arange(rows.size), chance, 1.0 - chance)
    doubt = sums.doubt(chance)
    wanted = random_share + (1.0 - random_share) * doubt / doubt.mean()
    drawn = np.minimum(wanted * brentq(lambda c: np.minimum(c * wanted, 1.0).sum() - checks, 0.0, 1e6), 1.0)
    error = np.sqrt(((1.0 / drawn - 1.0) * doubt**2).sum()) / rows.size
    found = Interval.on_logit(sums.value, error, 0.95)
    return found.high - found.low


def told_by_score(rows, chance, bands=60):
    band = np.argsort(np.argsort(rows.score)) * bands // rows.size
    return (np.bincount(band, chance) / np.bincount(band))[band]


def answers(plan, truth):
    return [Verdict(row, "positive" if truth[row] else "negative") for row in plan.rows]


def audit(rows, truth, checks, seed, question="how_good", rival=None):
    """Two batches, the second directed by the verdicts on the first."""
    first = first_batch(checks)
    plans = [draw_audit(rows, first, question, rival=rival, seed=seed)]
    done = [(plans[0], answers(plans[0], truth))]
    if first < checks:
        seen = combine_audits(done)
        plan = draw_audit(rows, checks - first, question, rival=rival, checked=seen, seed=seed + 10**6)
        done.append((plan, answers(plan, truth)))
    return combine_audits(done)


def cell(kind, prevalence, ties, checks, replicates):
    """Coverage and mean width of the audit and of plain random checks, and how often each gives an interval."""
    rows, _, truth = population(kind, prevalence, ties)
    target, plain, ours = auc_of(rows.score, truth), [], []
    for seed in range(replicates):
        drawn = np.random.default_rng([seed, 3]).choice(N, checks, replace=False)
        plain.append(delong(rows.score[drawn], truth[drawn]))
        report = judge_scores({"a": rows}, audit(rows, truth, checks, seed))
        ours.append((report.figures["a"]["true_auc"], report.missing))
    chance = chance_of(np.random.default_rng(POPULATION).normal(size=N), prevalence)
    chance = told_by_score(rows, chance) if kind == "uninformative" else chance
    whole = [each if each is not None else Interval(0.5, 0.0, 1.0, np.nan) for each in plain]
    return {
        "cover": np.mean([target in each for each, _ in ours]),
        "width": np.mean([each.high - each.low for each, _ in ours]),
        "enough": np.mean([missing == 0 for _, missing in ours]),
        "plain_cover": np.mean([target in each for each in whole]),
        "plain_width": np.mean([each.high - each.low for each in whole]),
        "plain_works": np.mean([each is not None for each in plain]),
        "best": best_width(rows, chance, checks),
        "best_half_random": best_width(rows, chance, checks, 0.5),
    }


@pytest.mark.slow
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("prevalence", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_an_audit_covers_the_true_auc_and_is_not_wider_than_random_checks(kind, prevalence, ties, replicates):
    """At 1,000 audits the Monte-Carlo error of a coverage of .95 is .007, at 8 it is .08."""
    runs = replicates(8, 1_000)
    for checks in (30, 60, 100, 200, 400) if os.environ.get("SPU_SLOW") else (100,):
        found = cell(kind, prevalence, ties, checks, runs)
        ratio = found["width"] / found["plain_width"]
        print(
            kind, prevalence, "ties" if ties else "-", checks, {k: round(float(v), 3) for k, v in found.items()}, ratio
        )
        assert found["best"] <= found["best_half_random"]
        assert found["best"] < found["width"]
        slack = 3.0 * np.sqrt(0.93 * 0.07 / runs)
        assert found["cover"] >= 0.93 - slack
        if runs >= 1_000 and found["plain_works"] >= 0.95 and found["plain_cover"] >= 0.93:
            assert ratio <= 1.02 + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("prevalence", [0.1, 0.3])
def test_two_equally_good_scores_are_told_apart_in_at_most_six_per_cent(prevalence, replicates):
    """Both scores have the same noise, and the class is drawn anew each time, so neither is better."""
    runs, checks = replicates(10, 1_000), 150
    wrong = 0
    for seed in range(runs):
        first, second, truth = population("right", prevalence, seed=seed % 20)
        # Which of the two is which is a coin for every row, so that the true AUCs are nearly equal.
        swap = np.random.default_rng([seed % 20, 9]).random(N) < 0.5
        a = Population.of(np.where(swap, first.score, second.score), first.soft_label, threshold=1.0)
        b = Population.of(np.where(swap, second.score, first.score), first.soft_label, threshold=1.0)
        gap = auc_of(a.score, truth) - auc_of(b.score, truth)
        pair = judge_scores({"a": a, "b": b}, audit(a, truth, checks, seed, "which_better", b)).pairs
        if pair:
            found = pair[0].difference
            truly = gap if pair[0].first == "a" else -gap
            wrong += not found.low <= truly <= found.high
    print("type I", prevalence, wrong / runs)
    assert wrong / runs <= 0.06 + 3.0 * np.sqrt(0.05 * 0.95 / runs)
