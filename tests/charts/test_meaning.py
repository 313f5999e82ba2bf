"""What the charts draw is what the results say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core import charts
from spu_core.charts import DARK, LIGHT, alt_text
from spu_core.charts.column_charts import Bars
from spu_core.errors import SpuError
from spu_core.metrics import Difference, Interval, roc_spu, roc_spu_band
from spu_core.tables import Histogram
from spu_core.theory import PriorEstimate, ScarLink
from spu_core.training.evaluation import PairedDifference
from spu_core.trust import compare_priors
from tests.charts import gallery
from tests.charts.gallery import CEILING, CHAMPION, CURVES, POINT
from tests.charts.gallery_trust import WHAT_IF


def trace(figure, start):
    return next(t for t in figure.data if (t.name or "").startswith(start))


# ------------------------------------------------------------------ ROC_SPU


def test_each_line_carries_its_name_and_area_instead_of_a_legend():
    figure = charts.roc_chart(CURVES, CEILING, selected="MLP", perfect=gallery.LINK)
    labels = {note.text: note for note in figure.layout.annotations}
    written = {f"{curve.auc:.3f} {name}" for name, curve in CURVES.items() if name != "MLP"}
    written |= {f"<b>{CURVES['MLP'].auc:.3f} MLP</b>", f"{gallery.LINK.perfect_level:.3f} perfect classifier"}

    assert figure.layout.showlegend is False
    assert written | {f"Ceiling {CEILING.auc:.3f}"} <= set(labels)
    for name, curve in CURVES.items():
        note = next(labels[text] for text in written if name in text)
        assert note.y == pytest.approx(np.interp(note.x, curve.fpr, curve.tpr))


@pytest.mark.parametrize("zoom", ["full", "low", "log"])
def test_labels_stand_apart_and_their_leaders_do_not_cross(zoom):
    names = [f"candidate {place}" for place in range(12)]
    figure = charts.roc_chart(dict.fromkeys(names, CURVES["MLP"]), CEILING, zoom=zoom)
    notes = [note for note in figure.layout.annotations if "candidate" in note.text]
    top = figure.layout.yaxis.range[1]

    assert min(-np.diff([note.ay for note in notes])) >= 0.035 * top
    assert (np.diff([note.x for note in notes]) < 0).all()
    assert 0 < notes[-1].ay < notes[0].ay < top


def test_the_selected_line_is_thick_and_its_operating_point_has_its_colour():
    figure = charts.roc_chart(CURVES, CEILING, selected="MLP", references=["Naive Bayes"], operating_point=POINT)
    drawn = {t.name: t.line for t in figure.data if t.customdata is not None}

    assert max(drawn, key=lambda name: drawn[name].width) == "MLP"
    assert figure.data[-1].marker.color == drawn["MLP"].color
    assert drawn["Naive Bayes"].dash == "dot"
    assert drawn["Naive Bayes"].color == LIGHT.muted


def test_the_shaded_region_lies_above_the_ceiling():
    figure = charts.roc_chart(CURVES, CEILING)
    shade, ceiling = figure.data[0], trace(figure, "Ceiling")
    assert (np.asarray(shade.y) >= np.interp(shade.x, ceiling.x, ceiling.y) - 1e-6).all()
    assert any("unattainable" in note.text for note in figure.layout.annotations)


@pytest.mark.parametrize("zoom", ["full", "low", "log"])
def test_a_clicked_point_gives_a_threshold_with_the_rates_drawn_there(zoom):
    curve = CURVES[CHAMPION]
    drawn = trace(charts.roc_chart({CHAMPION: curve}, CEILING, zoom=zoom), "Gradient")
    for place in range(0, len(drawn.x), 25):
        threshold = charts.clicked_threshold({"customdata": drawn.customdata[place].tolist()})
        point = curve.at_threshold(threshold)
        assert point.tpr == pytest.approx(drawn.y[place], abs=5e-3)
        assert point.flagged_share == pytest.approx(drawn.customdata[place][1])


def test_the_ends_of_the_curve_flag_nothing_and_everything():
    curve = roc_spu([1.0, 0.5, 0.0], [3.0, 2.0, 1.0])
    data = charts.roc_chart({"a": curve}, curve).data[-1].customdata
    assert curve.at_threshold(data[0][0]).flagged == 0
    assert curve.at_threshold(data[-1][0]).flagged == 3


def test_the_perfect_classifier_passes_through_c_and_a():
    link = ScarLink(0.25, 0.7, 0.2)
    drawn = trace(charts.roc_chart(CURVES, CEILING, perfect=link), "Perfect")
    assert (drawn.x[1], drawn.y[1]) == pytest.approx((link.c, link.a))
    assert np.trapezoid(drawn.y, drawn.x) == pytest.approx(link.perfect_level)


def test_a_band_that_does_not_hold_is_not_drawn():
    missing = roc_spu_band([1.0, 0.5, 0.0], [3.0, 2.0, 1.0])
    plain = charts.roc_chart(CURVES, CEILING)
    assert missing.missing_because is not None
    assert len(charts.roc_chart(CURVES, CEILING, band=missing).data) == len(plain.data)
    assert len(charts.roc_chart(CURVES, CEILING, band=gallery.BAND).data) == len(plain.data) + 1


def test_the_operating_point_is_marked_and_told():
    figure = charts.roc_chart(CURVES, CEILING, operating_point=POINT)
    assert (figure.data[-1].x[0], figure.data[-1].y[0]) == (POINT.fpr, POINT.tpr)
    assert f"TPR_SPU {100 * POINT.tpr:.1f}%" in alt_text(figure)


def test_an_unknown_zoom_is_refused_in_words():
    with pytest.raises(SpuError, match="zoom must be one of 'full', 'low', 'log', got 'wide'"):
        charts.roc_chart(CURVES, CEILING, zoom="wide")


# ------------------------------------------------------------------ brush


def test_the_brush_selects_horizontally_and_stacks_positives_on_the_rest():
    figure = charts.brush_chart(gallery.DAYS, "days")
    assert (figure.layout.dragmode, figure.layout.selectdirection) == ("select", "h")
    assert figure.layout.barmode == "stack"
    rest, positives, shares = figure.data
    assert shares.yaxis == "y2"
    assert (np.asarray(rest.y) + np.asarray(positives.y)).tolist() == gallery.DAYS.count.tolist()
    assert np.asarray(positives.y).tolist() == gallery.DAYS.labeled.tolist()


def test_far_outliers_do_not_stretch_the_axis_but_are_selected_with_the_last_bar():
    histogram = Histogram(np.array([-9e9, 1.0, 2.0, 3.0, 9e9]), np.array([1, 5, 5, 1]), np.zeros(4, int))
    figure = charts.brush_chart(histogram, "x")
    assert list(figure.layout.xaxis.range) == [0.0, 4.0]
    assert charts.selected_range({"box": [{"x": [2.5, 4.2]}]}, histogram) == (2.5, 9e9)
    assert charts.selected_range({"box": [{"x": [-1.0, 2.5]}]}, histogram) == (-9e9, 2.5)


def test_a_brush_over_dates_gives_nanoseconds():
    low, high = charts.selected_range({"box": [{"x": ["2025-03-01 12:00", "2025-04-01"]}]}, gallery.SEEN)
    assert low == pd.Timestamp("2025-03-01 12:00").as_unit("ns").value
    assert high == pd.Timestamp("2025-04-01").as_unit("ns").value


def test_bands_of_rules_are_clipped_to_the_column():
    figure = charts.brush_chart(
        gallery.DAYS, "days", rules=[charts.RuleBand("all", None, None), charts.RuleBand("x", 9e9, None)]
    )
    first, last = figure.layout.xaxis.range
    assert (figure.layout.shapes[0].x0, figure.layout.shapes[0].x1) == (first, last)
    assert figure.layout.shapes[1].x0 == figure.layout.shapes[1].x1 == last


def test_a_clicked_bar_names_its_level_whatever_the_order_of_the_bars():
    figure = charts.category_chart(["rare", "common"], [0, 3], [1, 9], "kind")
    first_bar = {"customdata": int(figure.data[0].customdata[0])}
    assert charts.selected_levels({"points": [first_bar]}, ["rare", "common"]) == ["common"]
    assert charts.selected_levels({}, ["rare", "common"]) == []


def test_merged_bins_keep_every_row():
    bars = Bars.of(Histogram(np.arange(7.0), np.array([30, 1, 2, 40, 3, 1]), np.array([3, 0, 1, 4, 1, 0])))
    merged = bars.merged(20)
    assert merged.rows.tolist() == [30, 47]
    assert merged.edges.tolist() == [0.0, 1.0, 6.0]
    assert merged.positives.sum() == bars.positives.sum()


# ------------------------------------------------------------------ comparison


def difference(p):
    return Difference(0.02, 0.01, 0.03, 0.005, 0.95, None, p)


def test_pairs_that_cannot_be_told_apart_are_grey():
    pairs = [PairedDifference("a", "b", difference(0.001), 0.003), PairedDifference("a", "c", difference(0.04), 0.08)]
    figure = charts.difference_chart(pairs)
    assert [t.marker.color for t in figure.data] == [LIGHT.model, LIGHT.unsure]
    assert "p = 0.080 after Holm's correction: no clear difference" in figure.data[1].hovertext[0]
    assert alt_text(figure) == "Differences in AUC_SPU of 2 pairs: 1 with a clear difference, 1 without."


def test_whiskers_reach_from_low_to_high():
    figure = charts.leaderboard_chart({"AUC_SPU": {"a": Interval(0.8, 0.75, 0.83, 0.02)}}, ceiling=0.9)
    dot = figure.data[0]
    assert dot.x[0] - dot.error_x.arrayminus[0] == pytest.approx(0.75)
    assert dot.x[0] + dot.error_x.array[0] == pytest.approx(0.83)
    assert figure.layout.shapes[0].x0 == 0.9


def test_weights_of_a_stack_are_drawn_as_shares_and_an_unused_ingredient_is_named():
    figure = charts.stack_weights_chart({"label trees": 0.6, "rule score": 0.2, "rule trees": 0.0})

    assert list(figure.data[0].x) == pytest.approx([0.75, 0.25, 0.0])
    assert list(figure.data[0].marker.color) == [LIGHT.model, LIGHT.belief, LIGHT.belief]
    assert "not used" in figure.to_json()


def test_figures_of_a_candidate_share_its_line_in_the_given_order():
    one, other = Interval(0.8, 0.75, 0.83, 0.02), Interval(0.7, 0.6, 0.8, 0.05)
    figures = {"AUC_SPU": {"b": one, "a": other, "rules": one}, "true AUC": {"a": one}}
    figure = charts.leaderboard_chart(figures, selected="a", references=["rules"])
    places = {(t.name, t.marker.line.color): [round(y) for y in t.y] for t in figure.data}

    assert list(figure.layout.yaxis.ticktext) == ["b", "<b>a</b>", "rules"]
    assert places == {
        ("AUC_SPU", LIGHT.text): [0],
        ("AUC_SPU", LIGHT.color(1)): [1],
        ("AUC_SPU", LIGHT.unsure): [2],
        ("true AUC", LIGHT.color(1)): [1],
    }
    assert alt_text(figure) == "AUC_SPU: b 0.800, a 0.700, rules 0.800. true AUC: a 0.800."


def test_segments_clearly_below_all_rows_are_marked():
    figure = charts.segment_chart(
        {"low": Interval(0.6, 0.55, 0.65, 0.02), "usual": Interval(0.7, 0.6, 0.8, 0.05)}, overall=0.72
    )
    assert [t.marker.color for t in figure.data] == [LIGHT.warn, LIGHT.model]


# ------------------------------------------------------------------ operating point


def test_the_cheapest_point_has_the_lowest_cost():
    curve, costs = CURVES[CHAMPION], gallery.COSTS
    point = costs.cheapest(curve)
    cost = costs.review * point.flagged + costs.miss * costs.positives * (1 - point.tpr)
    assert cost == pytest.approx(costs.along(curve).min())


def test_costs_must_not_be_negative():
    with pytest.raises(SpuError, match="miss must not be negative, got -1"):
        charts.ReviewCosts(review=1, miss=-1, positives=3)


# ------------------------------------------------------------------ rules, effects, implied AUC


def test_tables_without_their_columns_are_refused_in_words():
    with pytest.raises(SpuError, match="lacks the column 'lift'"):
        charts.rule_lift_chart(gallery.SUMMARY[["coverage"]])
    with pytest.raises(SpuError, match="'importance' or 'gain', but has"):
        charts.feature_effect_chart(pd.DataFrame({"name": ["a"]}))
    with pytest.raises(SpuError, match="change must be one of 'ceiling_change', 'mean_change', got 'rank'"):
        charts.leave_one_out_chart(gallery.LEFT_OUT, change="rank")


def test_a_lift_that_may_be_one_is_grey():
    summary = pd.DataFrame(
        {"lift": [1.1, 3.0], "lift_low": [0.8, 2.0], "lift_high": [1.4, 4.0], "labeled_rows": [5, 9]}, index=["a", "b"]
    )
    assert [t.marker.color for t in charts.rule_lift_chart(summary).data] == [LIGHT.unsure, LIGHT.model]


def test_the_map_of_a_what_if_is_empty_outside_the_admissible_region():
    region = WHAT_IF.region
    heat = charts.what_if_chart(WHAT_IF).data[0]
    inside = np.array([[region.contains(float(x), float(y)) for x in heat.x] for y in heat.y])
    assert (np.isnan(heat.z) == ~inside).mean() > 0.99


def test_numbers_in_cells_contrast_with_their_colour():
    for theme in (LIGHT, DARK):
        assert theme.text_on(0.0) == theme.text
        assert theme.text_on(1.0) == theme.background


def test_a_budget_is_a_share_of_rows():
    with pytest.raises(SpuError, match=r"budget must lie in \[0, 1\], got 500"):
        charts.gains_chart(gallery.GAINS, budget=500)


def test_charts_without_data_say_why():
    assert alt_text(charts.brush_chart(None, "name")) == "Column name holds no numbers."
    assert alt_text(charts.label_rate_chart(None, "name")) == "Column name holds no numbers."
    empty = pd.DataFrame({"coverage": [], "overlap": [], "mean_belief": []})
    assert alt_text(charts.coverage_chart(empty)) == "There are no rules yet."
    assert alt_text(charts.difference_chart([])).startswith("There is only one candidate")
    assert alt_text(charts.learning_curve_chart({"a": [[]]})) == "No losses have been reported yet."


# ------------------------------------------------------------------ the class prior, and Theorem 3


def test_a_range_of_the_prior_is_a_line_without_a_dot():
    report = compare_priors(PriorEstimate(0.3, 0.27, 0.33, 0.25, 0.1, 0.36), 0.2)
    figure = charts.prior_chart(report)
    lines = [(t.mode, tuple(t.x), tuple(t.y)) for t in figure.data]

    assert ("lines", (0.1, 0.33), (0, 0)) in lines
    assert ("lines", (0.1, 0.36), (1, 1)) in lines
    assert [mode for mode, _, _ in lines].count("markers") == 1  # E[S]
    assert "Confirmed cases 10.0% to 33.0%" in alt_text(figure)


def test_a_flat_link_shows_every_true_auc_that_goes_with_the_best_roc_spu():
    series = {"auc_spu": [0.7, 0.9], "auc": [0.6, 0.8], "pair": []}
    flat = charts.ordering_chart({**series, "best": [0.98, 0.35, 0.83]}, "one rule")
    strict = charts.ordering_chart({**series, "best": [0.98, 0.83, 0.83]}, "linear")

    assert "scores with the best AUC_SPU have true AUCs from 0.350 to 0.830" in alt_text(flat)
    assert [tuple(t.y) for t in flat.data][-1] == (0.35, 0.83)
    assert len(strict.data) == 1


def test_a_waterfall_leads_from_the_usual_row_to_this_row():
    figure = charts.waterfall_chart([("a = 1", 0.5), ("b = 2", -0.1)], start=0.1, end=0.6, rest=0.1, unit="score")
    [bars] = figure.data

    assert list(bars.x) == [0.1, 0.5, -0.1, 0.1, 0.6]
    assert sum(bars.x[:-1]) == pytest.approx(bars.x[-1])
    assert list(bars.measure) == ["absolute", "relative", "relative", "relative", "total"]
    assert figure.layout.yaxis.ticktext == ("usual row", "a = 1", "b = 2", "all other columns", "this row")


def test_a_log_scale_of_soft_labels_begins_at_one_row_so_that_no_bar_looks_empty():
    """Left alone, Plotly begins near the lowest bar: 1,900 of 7,000 rows looked like none."""
    axis = charts.soft_label_chart(gallery.AUDIT, log_rows=True).layout.yaxis

    assert axis.range[0] == 0.0
    assert 10 ** axis.range[1] > gallery.AUDIT.bin_rows.max()
