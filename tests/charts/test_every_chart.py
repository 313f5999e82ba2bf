"""Laws that hold for every chart of the gallery; a new chart inherits them by being added there."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import plotly.graph_objects as go
import pytest

from spu_core import charts
from spu_core.charts import DARK, LIGHT, alt_text
from tests.charts import gallery
from tests.charts.gallery import EXAMPLES

LARGEST_PAYLOAD = 150_000

every_chart = pytest.mark.parametrize("name", list(EXAMPLES))


@cache
def drawn(name: str) -> go.Figure:
    """A chart in the light theme, drawn once for all tests that only look at it."""
    return EXAMPLES[name](LIGHT)


def frozen_inputs():
    """All arrays and tables that the examples read, as bytes."""
    parts = []
    for value in (gallery.DATA, gallery.SUMMARY, gallery.LEFT_OUT, gallery.EFFECTS, *gallery.CALIBRATION.values()):
        parts.append(value.to_csv())
    for curve in (*gallery.CURVES.values(), gallery.CEILING):
        parts += [curve.fpr.tobytes(), curve.tpr.tobytes(), curve.score.tobytes()]
    return [*parts, gallery.DAYS.edge.tobytes(), gallery.DAYS.count.tobytes(), gallery.MATRIX.fired.tobytes()]


def test_every_chart_function_is_in_the_gallery():
    functions = {name.removesuffix("_chart") for name in charts.__all__ if name.endswith("_chart")}
    assert functions <= set(EXAMPLES)


@every_chart
def test_equal_results_give_equal_figures(name):
    assert EXAMPLES[name](LIGHT).to_json() == drawn(name).to_json()


def test_charts_leave_their_input_as_it_was():
    before = frozen_inputs()
    for example in EXAMPLES.values():
        example(LIGHT)
    assert frozen_inputs() == before


@every_chart
def test_light_and_dark_differ_in_colours_only(name):
    light, dark = drawn(name), EXAMPLES[name](DARK)

    assert light.to_json() != dark.to_json()
    assert alt_text(light) == alt_text(dark)
    assert [trace.type for trace in light.data] == [trace.type for trace in dark.data]
    assert light.layout.height == dark.layout.height
    assert not {LIGHT.text, LIGHT.model, LIGHT.background} & colours_of(dark)


def colours_of(figure: go.Figure) -> set[str]:
    return {text for text in strings_of(json.loads(figure.to_json())) if text.startswith("#")}


def strings_of(value) -> list[str]:
    if isinstance(value, dict):
        return [text for part in value.values() for text in strings_of(part)]
    if isinstance(value, list):
        return [text for part in value for text in strings_of(part)]
    return [value] if isinstance(value, str) else []


@every_chart
def test_every_chart_says_in_a_sentence_what_it_shows(name):
    alt = alt_text(drawn(name))
    assert len(alt) > 20
    assert alt.endswith(".")
    assert "&lt;" not in alt
    assert "nan" not in alt.lower().split()


@every_chart
def test_backgrounds_are_transparent_and_axes_cannot_be_dragged_away(name):
    figure = drawn(name)
    layout = figure.layout.template.layout

    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"
    if figure.data:
        assert figure.layout.xaxis.fixedrange is True
        assert figure.layout.yaxis.fixedrange is True


@every_chart
def test_small_examples_are_small_on_the_wire(name):
    assert len(drawn(name).to_json()) <= LARGEST_PAYLOAD


@every_chart
def test_json_knows_no_infinity(name):
    figure = drawn(name)
    for trace in figure.data:
        for key in ("x", "y", "customdata"):
            values = getattr(trace, key, None)
            if values is not None and np.asarray(values).dtype.kind == "f":
                assert np.isfinite(np.asarray(values)).all(), key


def test_the_gallery_writes_a_page_for_each_chart(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "EXAMPLES", {"roc": EXAMPLES["roc"]})
    (page,) = gallery.write_pages(tmp_path, DARK)
    assert page.name == "roc-dark.html"
    assert "Plotly.newPlot" in page.read_text(encoding="utf-8")
