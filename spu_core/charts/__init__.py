"""Results as Plotly figures: pure functions, for notebooks and the dashboard alike.

Every chart is a function `…_chart(result, *, theme=LIGHT)`; it changes nothing, sends no rows, shows user text as text,
and says in words what it shows: `alt_text(figure)`.
"""

from spu_core.charts.brush import (
    ColumnBins,
    RuleBand,
    brush_chart,
    category_chart,
    selected_levels,
    selected_range,
)
from spu_core.charts.canvas import alt_text
from spu_core.charts.roc import clicked_threshold, roc_chart
from spu_core.charts.theme import DARK, LIGHT, Theme

__all__ = [
    "DARK",
    "LIGHT",
    "ColumnBins",
    "RuleBand",
    "Theme",
    "alt_text",
    "brush_chart",
    "category_chart",
    "clicked_threshold",
    "roc_chart",
    "selected_levels",
    "selected_range",
]
