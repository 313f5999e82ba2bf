"""User text in charts stays text: no tag, link, formula or template placeholder of it is ever interpreted."""

from __future__ import annotations

import html
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spu_core import charts
from spu_core.charts import RuleBand, alt_text, leaderboard_chart, learning_curve_chart
from spu_core.charts.canvas import ENTRY_HEIGHT, label, plain, wrapped
from spu_core.metrics import Interval
from spu_core.tables import Histogram
from spu_core.training.evaluation import PairedDifference
from tests.charts import gallery
from tests.charts.test_every_chart import strings_of

HOSTILE = '<a href="javascript:alert(1)">x</a><b>$\\frac{1}{2}$ %{x} &lt;'
# The only tags that charts write themselves.
OWN_TAGS = {"<b>", "</b>", "<br>", "<i>", "</i>", "<extra>", "</extra>"}


def named(result):
    return {HOSTILE: result}


def hostile_table(table):
    return table.set_axis([HOSTILE, *table.index[1:]], axis=0)


SPOILED = {
    "roc": lambda: charts.roc_chart(named(gallery.CURVES["MLP"]), gallery.CEILING),
    "leaderboard": lambda: charts.leaderboard_chart({"AUC_SPU": named(gallery.INTERVALS["MLP"])}),
    "share_of_ceiling": lambda: charts.share_of_ceiling_chart(named(gallery.SHARES["MLP"])),
    "difference": lambda: charts.difference_chart(
        [PairedDifference(HOSTILE, HOSTILE, gallery.PAIRS[0].difference, 0.01)]
    ),
    "stack_weights": lambda: charts.stack_weights_chart({HOSTILE: 1.0}),
    "waterfall": lambda: charts.waterfall_chart([(HOSTILE, 0.5)], start=0.1, end=0.6, rest=0.0, unit="score"),
    "segment": lambda: charts.segment_chart(named(gallery.INTERVALS["MLP"])),
    "calibration": lambda: charts.calibration_chart(named(gallery.CALIBRATION["MLP"])),
    "gains": lambda: charts.gains_chart(named(gallery.GAINS["MLP"])),
    "gains_lift": lambda: charts.gains_lift_chart(named(gallery.GAINS["MLP"])),
    "feature_effect": lambda: charts.feature_effect_chart(pd.DataFrame({"column": [HOSTILE], "gain": [1.0]})),
    "brush": lambda: charts.brush_chart(gallery.DAYS, HOSTILE, rules=[RuleBand(HOSTILE, 10, 20)]),
    "category": lambda: charts.category_chart([HOSTILE], [1], [2], HOSTILE),
    "label_rate": lambda: charts.label_rate_chart(gallery.DAYS, HOSTILE),
    "overlap": lambda: charts.overlap_chart(hostile_table(gallery.MATRIX.overlaps())),
    "coverage": lambda: charts.coverage_chart(hostile_table(gallery.SUMMARY)),
    "rule_lift": lambda: charts.rule_lift_chart(hostile_table(gallery.SUMMARY)),
    "leave_one_out": lambda: charts.leave_one_out_chart(hostile_table(gallery.LEFT_OUT)),
    "learning_curve": lambda: charts.learning_curve_chart({HOSTILE: [[0.5, 0.4]]}),
    "nothing": lambda: charts.category_chart([], [], [], HOSTILE),
}


def shown_strings(figure):
    """Every string of a figure that Plotly may interpret: all but the alt text, which it never shows."""
    layout = figure.layout.to_plotly_json()
    layout.pop("meta")
    return strings_of([trace.to_plotly_json() for trace in figure.data]) + strings_of(layout)


@pytest.mark.parametrize("name", list(SPOILED))
def test_hostile_names_stay_text(name):
    for text in shown_strings(SPOILED[name]()):
        assert set(re.findall("<[^<>]*>", text)) <= OWN_TAGS, text
        assert "$" not in text
        assert "href" not in text or "&lt;a" in text


@pytest.mark.parametrize("name", ["roc", "learning_curve", "gains", "gains_lift"])
def test_names_cannot_smuggle_placeholders_into_hover_templates(name):
    templates = [trace.hovertemplate for trace in SPOILED[name]().data if trace.hovertemplate]
    assert templates
    assert all("&#37;{x} &amp;lt;" in text for text in templates if "frac" in text)
    assert any("frac" in text for text in templates)


def test_alt_texts_hold_names_as_they_are():
    figure = charts.leaderboard_chart({"AUC_SPU": {"<b>A&B</b>\n\u202etxt": gallery.INTERVALS["MLP"]}})
    assert "<b>A&B</b> txt 0." in alt_text(figure)


@given(st.text())
def test_plain_text_has_no_markup_and_decodes_to_the_same_characters(text):
    written = plain(text)

    assert not re.search(r"[<>$\n\r]|%\{", written)
    assert (
        html.unescape(written).split()
        == re.sub("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", " ", text).split()
    )


def test_long_names_are_cut_before_they_are_escaped():
    assert label("<" * 30) == "&lt;" * 21 + "…"


def test_equal_labels_stay_separate_lines():
    interval = gallery.INTERVALS["MLP"]
    names = ("a name that is cut here 1", "a name that is cut here 2")
    figure = charts.leaderboard_chart({"AUC_SPU": dict.fromkeys(names, interval)})
    assert [y for trace in figure.data for y in trace.y] == [0, 1]


def test_names_that_look_like_dates_or_numbers_do_not_become_positions():
    figure = charts.category_chart(["2024-01-01", "7"], [1, 2], [5, 3], "when")
    assert list(figure.layout.yaxis.ticktext) == ["2024-01-01", "7"]
    assert list(figure.data[0].y) == [0, 1]


def test_an_empty_histogram_bin_is_no_problem():
    histogram = Histogram(np.array([0.0, 1.0]), np.array([0]), np.array([0]))
    assert alt_text(charts.brush_chart(histogram, "x")).startswith("Histogram of x: 0 rows")


def test_many_entries_of_a_legend_do_not_squeeze_the_plot():
    """On a narrow page each takes a row of its own."""
    few, many = ({f"run {place}": [[0.5, 0.4]] for place in range(names)} for names in (2, 6))

    extra = learning_curve_chart(many).layout.height - learning_curve_chart(few).layout.height

    assert extra == 4 * ENTRY_HEIGHT


def test_long_names_beside_the_lines_take_two_lines_and_get_the_room():
    short, long = Interval(0.8, 0.7, 0.9, 0.05), "Soft labels, logistic regression"
    plain_chart = leaderboard_chart({"AUC_SPU": {"Fused": short, "Rules": short}})
    figure = leaderboard_chart({"AUC_SPU": {"Fused": short, long: short}})

    assert list(figure.layout.yaxis.ticktext) == ["<b>Fused</b>", "Soft labels, logistic<br>regression"]
    assert figure.layout.height > plain_chart.layout.height
    assert wrapped("x" * 60) == f"{'x' * 22}<br>{'x' * 21}…"
