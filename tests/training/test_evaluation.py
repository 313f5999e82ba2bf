"""Standard errors of means over folds, and what holds for the best of several candidates."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from spu_core.metrics import Interval, auc_spu_interval
from spu_core.training import Candidate, EvaluationData, Run, TrainConfig, compare_runs, segment_intervals
from spu_core.training.evaluation import (
    compare_pairs,
    folded_auc,
    folded_interval,
    interval_of,
    share_of,
    simultaneous_intervals,
)


def hard(labels, fold, **more):
    """Evaluation data in which only confirmed cases are believed."""
    labels = np.asarray(labels, dtype=bool)
    value = labels.astype(float)
    return EvaluationData(
        value, labels, np.zeros(labels.size), np.asarray(fold), np.ones(labels.size, dtype=bool), **more
    )


def drawn(rng, labels, rows, folds, signal=0.0):
    """Labels dealt evenly to folds, and a score whose labelled rows are shifted by `signal`."""
    is_labeled = np.arange(rows) < labels
    evaluation = hard(is_labeled, np.arange(rows) % folds)
    return evaluation, rng.normal(size=rows) + signal * is_labeled


def placements(evaluation, score):
    """Share of the rest of the same fold that each labelled row outranks, and that each of the rest is outranked by."""
    labeled, rest = [], []
    for k in np.unique(evaluation.fold):
        rows = evaluation.fold == k
        high, low = score[rows & evaluation.is_labeled], score[rows & ~evaluation.is_labeled]
        labeled.append((high[:, None] > low).mean(axis=1))
        rest.append((high[:, None] > low).mean(axis=0))
    return np.concatenate(labeled), np.concatenate(rest)


def independent_variance(evaluation, score):
    """DeLong's variance with m − 1 and n − 1, all placements around the one mean over folds."""
    labeled, rest = placements(evaluation, score)
    mean = labeled.mean()
    m, n = labeled.size, rest.size
    return ((labeled - mean) ** 2).sum() / (m * (m - 1)) + ((rest - mean) ** 2).sum() / (n * (n - 1))


def test_on_noise_the_variance_is_twice_that_of_independent_folds():
    evaluation, score = drawn(np.random.default_rng(0), 20, 400, 5)

    found = folded_interval(evaluation.soft_label, score, evaluation)

    assert found.standard_error**2 == pytest.approx(2 * independent_variance(evaluation, score))


def test_a_fold_with_one_positive_adds_its_spread():
    evaluation, score = drawn(np.random.default_rng(1), 5, 400, 5)

    found = folded_interval(evaluation.soft_label, score, evaluation)

    assert found.standard_error > 0.1
    assert found.high - found.low > 0.5


def test_one_fold_has_nothing_to_share():
    evaluation, score = drawn(np.random.default_rng(2), 30, 400, 1)
    plain = auc_spu_interval(evaluation.soft_label, score)

    found = folded_interval(evaluation.soft_label, score, evaluation)

    assert found.standard_error**2 == pytest.approx(independent_variance(evaluation, score))
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high))


@pytest.mark.parametrize(("signal", "least", "most"), [(0.0, 1.414, 1.415), (0.6, 1.1, 1.41), (2.5, 1.0, 1.15)])
def test_the_factor_for_shared_training_falls_as_the_signal_grows(signal, least, most):
    evaluation, score = drawn(np.random.default_rng(3), 200, 4000, 5, signal)

    found = folded_interval(evaluation.soft_label, score, evaluation)

    assert least <= found.standard_error / np.sqrt(independent_variance(evaluation, score)) <= most


def test_a_difference_carries_the_full_factor_whatever_both_have_found():
    rng = np.random.default_rng(4)
    evaluation, one = drawn(rng, 200, 4000, 5, 2.5)
    two = one + 0.3 * rng.normal(size=one.size)
    together, parted = (
        compared(evaluation, one, two),
        compared(replace(evaluation, fold=np.zeros(4000, dtype=int)), one, two),
    )

    assert together.standard_error == pytest.approx(np.sqrt(2) * parted.standard_error, rel=0.03)
    assert together.p_value > parted.p_value


def compared(evaluation, one, two):
    aucs = {name: folded_auc(evaluation.soft_label, score, evaluation) for name, score in (("one", one), ("two", two))}
    return compare_pairs(aucs)[0].difference


def test_the_share_of_the_ceiling_knows_that_the_ceiling_is_estimated_too():
    """Resampling rows moves AUC and ceiling together; the spread of their ratio is what the interval must show."""
    rng = np.random.default_rng(5)
    belief = np.where(rng.random(500) < 0.3, rng.random(500), 0.0)
    score = belief + 0.1 * rng.normal(size=500)
    evaluation = EvaluationData(
        belief, np.zeros(500, dtype=bool), belief, np.zeros(500, dtype=int), np.ones(500, dtype=bool)
    )
    found = share_of(folded_auc(belief, score, evaluation), 0.95)

    again = []
    for _ in range(400):
        rows = rng.integers(0, 500, 500)
        part = replace(evaluation, soft_label=belief[rows])
        again.append(share_of(folded_auc(belief[rows], score[rows], part), 0.95).estimate)

    assert found.standard_error == pytest.approx(np.std(again), rel=0.15)


def candidates(signals, labels=200, rows=2000, seed=6):
    rng = np.random.default_rng(seed)
    evaluation, _ = drawn(rng, labels, rows, 5)
    scores = {name: rng.normal(size=rows) + signal * evaluation.is_labeled for name, signal in signals.items()}
    return {name: folded_auc(evaluation.soft_label, score, evaluation) for name, score in scores.items()}


def test_the_interval_of_a_winner_is_wider_the_more_it_has_beaten():
    aucs = candidates({f"candidate {k}": 0.0 for k in range(20)})
    name = max(aucs, key=lambda name: aucs[name].value)
    widths = []
    for others in (1, 5, 20):
        chosen = {name: aucs[name], **dict(list(aucs.items())[: others - 1])}
        found = simultaneous_intervals(chosen)[name]
        widths.append(found.high - found.low)

    alone = interval_of(aucs[name], 0.95)
    assert widths[0] == alone.high - alone.low
    assert widths[0] < widths[1] < widths[2]
    # Twenty independent intervals hold at once if each has level 0.95 ** (1 / 20): 3.02 standard errors, not 1.96.
    assert widths[2] / widths[0] == pytest.approx(3.02 / 1.96, rel=0.05)


def few_labels(count, **more):
    """A comparison of two candidates with so many confirmed cases."""
    rng = np.random.default_rng(7)
    labels = np.arange(600) < count
    rule = np.where(rng.random(600) < 0.01, 0.3, 0.0)
    evaluation = EvaluationData(
        np.where(labels, 1.0, rule), labels, rule, np.arange(600) % 5, np.ones(600, dtype=bool), budget=0.02, **more
    )
    runs = [
        Run(
            method, Candidate(method), TrainConfig(), evaluation, score=strength * labels + rng.normal(size=600)
        ).judged_by(evaluation)
        for method, strength in (("lightgbm", 3.0), ("labeled_vs_rest", 0.0))
    ]
    return compare_runs(runs)


@pytest.mark.parametrize("labels", [7, 9])
def test_below_ten_confirmed_positives_nothing_is_compared_by_them(labels):
    figure = few_labels(labels).figures["known_positive_auc"]

    assert figure.too_few.startswith(f"Too few confirmed cases to compare: they count as {labels} ")
    assert not any(pair.is_clear for pair in figure.pairs)
    for pair in figure.pairs:
        assert np.isnan([pair.p_holm, pair.difference.p_value]).all()


def test_ten_and_more_are_compared():
    figure = few_labels(40).figures["known_positive_auc"]

    assert figure.too_few is None
    assert figure.pairs[0].is_clear


def test_confirmed_positives_of_few_groups_count_as_few():
    groups = np.arange(600)
    groups[:40] = np.arange(40) % 6

    found = few_labels(40, groups=groups).figures["known_positive_auc"]

    assert "they count as 5.97 independent ones" in found.too_few


def intervals_in(value, path="comparison"):
    """Every interval that a result holds, however deep, with the way to it."""
    if isinstance(value, Interval):
        yield path, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from intervals_in(part, f"{path}[{key!r}]")
    elif isinstance(value, tuple | list):
        for at, part in enumerate(value):
            yield from intervals_in(part, f"{path}[{at}]")
    elif is_dataclass(value):
        for part in fields(value):
            yield from intervals_in(getattr(value, part.name), f"{path}.{part.name}")


def test_every_figure_of_few_confirmed_positives_carries_a_warning():
    comparison = few_labels(7)
    segments = segment_intervals(comparison.runs[0], named_segments())
    found = list(intervals_in(comparison)) + list(intervals_in(segments, "segments"))

    assert len(found) >= 12
    assert [path for path, interval in found if interval.warning is None] == []
    assert any("auc on confirmed cases" in note.lower() for note in comparison.notes)
    table = comparison.leaderboard
    assert table["known_positive_auc_warning"].notna().all()
    assert comparison.pairs_table["warning"].notna().all()


def named_segments():
    import pandas as pd

    return pd.Series(np.where(np.arange(600) % 2 == 0, "even", "odd"))


def test_every_interval_speaks_of_the_fold_models_and_says_so():
    assert any("are about the models of the folds" in note for note in few_labels(40).notes)


def test_differences_have_the_level_of_95_percent_unless_said_otherwise():
    aucs = candidates({"one": 1.0, "two": 0.5})

    assert compare_pairs(aucs)[0].difference.level == 0.95
    assert compare_pairs(aucs, 0.8)[0].difference.level == 0.8


def test_a_perfect_ranking_is_only_as_sure_as_the_rarer_side_allows():
    """Five positives among many are as uncertain as five negatives among many."""
    few = np.arange(300) < 5
    intervals = []
    for labels in (few, ~few):
        evaluation = hard(labels, np.zeros(300, dtype=int))
        intervals.append(folded_interval(evaluation.soft_label, evaluation.soft_label, evaluation))

    assert intervals[0].low == pytest.approx(intervals[1].low)
    assert intervals[0].low < 0.8
