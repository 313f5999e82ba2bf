"""No chart grows with the rows: at a million of them each stays below 150 kB on the wire."""

from __future__ import annotations

import numpy as np
import pytest

from spu_core import charts
from spu_core.metrics import gains_spu, roc_spu, roc_spu_ceiling
from spu_core.tables.profiles import histogram
from tests.charts.test_every_chart import LARGEST_PAYLOAD

ROWS = 1_000_000


@pytest.fixture(scope="module")
def million():
    rng = np.random.default_rng(0)
    soft_label = rng.beta(0.3, 3.0, ROWS)
    score = soft_label + rng.normal(0, 0.3, ROWS)
    return soft_label, score, rng.random(ROWS) < soft_label / 10


@pytest.fixture(scope="module")
def curve(million):
    return roc_spu(*million[:2])


def size(figure):
    return len(figure.to_json())


@pytest.mark.parametrize("zoom", ["full", "low", "log"])
@pytest.mark.parametrize("candidates", [1, 20])
def test_roc_curves_of_a_million_rows_are_thinned(million, curve, zoom, candidates):
    curves = {f"candidate {i}": curve for i in range(candidates)}
    figure = charts.roc_chart(curves, roc_spu_ceiling(million[0]), zoom=zoom)
    assert size(figure) <= LARGEST_PAYLOAD


def test_a_thinned_curve_stays_within_its_error(million, curve):
    drawn = charts.roc_chart({"one": curve}, curve).data[-1]
    exact = np.interp(drawn.x, curve.fpr, curve.tpr)
    grid = np.linspace(0, 1, 5000)
    assert np.abs(np.interp(grid, drawn.x, drawn.y) - np.interp(grid, curve.fpr, curve.tpr)).max() < 3e-3
    assert np.abs(exact - drawn.y).max() < 3e-3


@pytest.mark.parametrize(("zoom", "right"), [("full", 1.0), ("low", 0.1)])
def test_a_smooth_curve_still_has_many_points_to_click(curve, zoom, right):
    drawn = charts.roc_chart({"one": curve}, curve, zoom=zoom).data[-1]
    inside = np.asarray(drawn.x)[np.asarray(drawn.x) <= right]
    assert np.diff(inside).max() <= 0.01 * right + 1e-6


def test_histograms_gains_costs_and_scores_do_not_send_rows(million, curve):
    soft_label, score, is_labeled = million
    gains = gains_spu(soft_label, score)
    costs = charts.ReviewCosts(review=1, miss=20, positives=float(soft_label.sum()))
    figures = [
        charts.brush_chart(histogram(score, is_labeled), "score"),
        charts.label_rate_chart(histogram(score, is_labeled), "score"),
        charts.score_chart(score, is_labeled),
        charts.gains_chart({"one": gains}),
        charts.gains_lift_chart({"one": gains}),
        charts.cost_chart(curve, costs),
    ]
    assert max(map(size, figures)) <= 40_000


def test_many_levels_rules_and_rounds_are_bounded():
    rng = np.random.default_rng(1)
    levels = [f"level {i} " + "x" * 200 for i in range(100_000)]
    counts = rng.integers(0, 1000, len(levels))
    rules = [charts.RuleBand(f"rule {i}", i, i + 1) for i in range(60)]
    number = histogram(np.arange(1000.0), np.zeros(1000, bool))
    long = {f"candidate {i}": [rng.random(5000).tolist()] * 5 for i in range(12)}
    assert size(charts.category_chart(levels, counts, counts, "column")) <= LARGEST_PAYLOAD
    assert size(charts.brush_chart(number, "column", rules=rules)) <= LARGEST_PAYLOAD
    assert size(charts.learning_curve_chart(long)) <= LARGEST_PAYLOAD
