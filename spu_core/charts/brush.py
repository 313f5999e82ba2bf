"""Charts to make a rule with: drag across the histogram of a number column, or click the bars of a category."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light, lines_height, name_axis, nothing_to_show, top_legend
from spu_core.charts.theme import LIGHT, TEXT_SIZE, Theme, see_through
from spu_core.charts.words import compact, count, label, one_line, percent, plain
from spu_core.errors import SpuError

BINS = 60
MOST_LEVELS = 30
# Names of neighbouring bands take turns on so many lines.
BAND_LINES = 3


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBins:
    """Rows of a number column by bin: known positives, the rest, and how many rows have no value.

    >>> bins = ColumnBins.of([1.0, 2.0, 2.5, None], [False, True, False, False], bins=2)
    >>> bins.edges.tolist(), bins.positives.tolist(), bins.rest.tolist(), bins.missing
    ([1.0, 1.75, 2.5], [0, 1], [1, 1], 1)
    """

    edges: np.ndarray
    positives: np.ndarray
    rest: np.ndarray
    missing: int = 0

    def __post_init__(self) -> None:
        if self.edges.size != self.positives.size + 1 or self.positives.size != self.rest.size:
            raise SpuError(
                f"{self.edges.size} edges make {self.edges.size - 1} bins, but there are {self.positives.size} counts "
                f"of positives and {self.rest.size} of the rest."
            )

    @classmethod
    def of(cls, values: Any, is_labeled: Any, bins: int = BINS) -> ColumnBins:
        """Count the rows of a column; infinite values count as missing."""
        values = np.asarray(values, dtype=np.float64)
        is_labeled = np.asarray(is_labeled, dtype=bool)
        present = np.isfinite(values)
        edges = np.histogram_bin_edges(values[present], bins=_useful_bins(values[present], bins))
        positives, _ = np.histogram(values[present & is_labeled], bins=edges)
        rest, _ = np.histogram(values[present & ~is_labeled], bins=edges)
        return cls(edges, positives, rest, int(np.count_nonzero(~present)))

    @property
    def rows(self) -> np.ndarray:
        return self.positives + self.rest

    @property
    def total(self) -> int:
        """All rows, those without a value too."""
        return int(self.rows.sum()) + self.missing

    @property
    def middles(self) -> np.ndarray:
        return 0.5 * (self.edges[1:] + self.edges[:-1])


@dataclass(frozen=True, slots=True)
class RuleBand:
    """The range of a column that a saved rule covers; None means no limit on that side."""

    name: str
    low: float | None
    high: float | None
    belief: float | None = None


def brush_chart(bins: ColumnBins, column: str, *, rules: Iterable[RuleBand] = (), theme: Theme = LIGHT) -> go.Figure:
    """The histogram to drag across: known positives on top of the rest, saved rules as bands behind.

    The figure depends on saved things only: Plotly forgets a selection when the figure changes, so what the analyst is
    just choosing must stay out of it.
    """
    if not bins.rows.any():
        return nothing_to_show(theme, f"Column {column} holds no numbers.")
    figure = canvas(theme, _brush_alt(bins, column), height=320, barmode="stack", bargap=0)
    hover = [_bin_words(bins, place) for place in range(bins.rows.size)]
    _add_bars(figure, bins, "the rest", bins.rest, hover, theme.rest, theme.model)
    _add_bars(figure, bins, "known positives", bins.positives, hover, theme.belief, theme.belief)
    rules = list(rules)
    for place, rule in enumerate(rules):
        _add_rule_band(figure, bins, rule, place % BAND_LINES, theme)
    figure.update_layout(dragmode="select", selectdirection="h", newselection_line={"color": theme.model, "width": 2})
    figure.update_layout(activeselection={"fillcolor": theme.model, "opacity": 0.08})
    figure.update_xaxes(
        title_text=label(column), range=[bins.edges[0], bins.edges[-1]], showgrid=False, fixedrange=True, nticks=8
    )
    # Room for the names of the bands above the highest bar.
    top = 1.03 + 0.08 * min(len(rules), BAND_LINES)
    figure.update_yaxes(title_text="rows", fixedrange=True, range=[0, top * bins.rows.max()], nticks=6, tickformat="~s")
    top_legend(figure)
    return figure


def category_chart(levels: Sequence[Any], positives: Any, rest: Any, column: str, *, theme: Theme = LIGHT) -> go.Figure:
    """Bars of a category column, largest first, to click on; the level number is in `customdata`.

    `customdata` is the place in `levels`, so that a level never travels through the browser as text. Beyond the
    30 largest, levels are left out and counted in the axis title.
    """
    positives, rest = np.asarray(positives), np.asarray(rest)
    order = np.argsort(-(positives + rest), kind="stable")[:MOST_LEVELS]
    if not order.size:
        return nothing_to_show(theme, f"Column {column} holds no values.")
    total = int((positives + rest).sum())
    figure = canvas(
        theme,
        _category_alt(levels, positives, rest, column),
        height=lines_height(order.size),
        barmode="stack",
        bargap=0.25,
    )
    hover = [_level_words(levels[i], positives[i], rest[i], total) for i in order]
    for name, values, color in (("the rest", rest, theme.rest), ("known positives", positives, theme.belief)):
        figure.add_bar(
            x=light(values[order]),
            y=list(range(order.size)),
            orientation="h",
            customdata=order,
            hovertext=hover,
            hoverinfo="text",
            name=name,
            marker={"color": color, "line": {"width": 0}},
            unselected={"marker": {"opacity": 0.45}},
        )
    name_axis(figure, [label(levels[i]) for i in order], theme)
    left_out = len(levels) - order.size
    more = f" ({count(left_out)} smaller levels not shown)" if left_out else ""
    figure.update_xaxes(title_text=f"rows{more}", fixedrange=True, rangemode="tozero", tickformat="~s", nticks=6)
    figure.update_layout(dragmode=False, clickmode="event+select")
    top_legend(figure)
    return figure


def selected_range(selection: Mapping[str, Any], bins: ColumnBins) -> tuple[float, float] | None:
    """The range of a box selection on `brush_chart`, in order and inside the column; None when it was cleared.

    >>> bins = ColumnBins.of([0.0, 10.0], [False, True], bins=2)
    >>> selected_range({"box": [{"x": [12.5, 3.5]}]}, bins)
    (3.5, 10.0)
    >>> selected_range({"box": []}, bins)
    """
    boxes = selection.get("box") or []
    if not boxes:
        return None
    low, high = np.clip(np.sort(np.asarray(boxes[0]["x"], dtype=np.float64)), bins.edges[0], bins.edges[-1])
    return float(low), float(high)


def selected_levels(selection: Mapping[str, Any], levels: Sequence[Any]) -> list[Any]:
    """The levels of the bars clicked on `category_chart`, in the order of `levels`.

    >>> selected_levels({"points": [{"customdata": 1}, {"customdata": [0]}, {"customdata": 7}]}, ["a", "b"])
    ['a', 'b']
    """
    places = {_place(point.get("customdata")) for point in selection.get("points") or []}
    return [level for place, level in enumerate(levels) if place in places]


def _place(data: Any) -> int | None:
    """Plotly sends a number as it is, in a list, or in a dict, depending on who asks."""
    if isinstance(data, Mapping):
        data = data.get("0")
    elif isinstance(data, list | tuple) and data:
        data = data[0]
    return int(data) if isinstance(data, int | float) else None


def _useful_bins(values: np.ndarray, bins: int) -> int:
    """Whole numbers with few distinct values get one bar each, or the histogram would show gaps that are not there."""
    if not values.size or values.min() == values.max():
        return 1
    spread = values.max() - values.min()
    whole = spread < bins and bool((values == np.round(values)).all())
    return int(spread) + 1 if whole else bins


def _add_bars(
    figure: go.Figure,
    bins: ColumnBins,
    name: str,
    values: np.ndarray,
    hover: list[str],
    color: str,
    chosen: str,
) -> None:
    figure.add_bar(
        x=bins.middles,
        y=light(values),
        width=np.diff(bins.edges),
        name=name,
        hovertext=hover,
        hoverinfo="text",
        marker={"color": color, "line": {"width": 0}},
        selected={"marker": {"color": chosen, "opacity": 1.0}},
        unselected={"marker": {"opacity": 0.55}},
    )


def _add_rule_band(figure: go.Figure, bins: ColumnBins, rule: RuleBand, line: int, theme: Theme) -> None:
    first, last = float(bins.edges[0]), float(bins.edges[-1])
    low = first if rule.low is None else max(rule.low, first)
    high = last if rule.high is None else min(rule.high, last)
    figure.add_shape(
        type="rect",
        x0=low,
        x1=high,
        y0=0,
        y1=1,
        yref="paper",
        line={"width": 0},
        fillcolor=see_through(theme.belief, 0.16),
        layer="below",
    )
    belief = "" if rule.belief is None else f"  {rule.belief:.2f}"
    middle = 0.5 * (low + high)
    figure.add_annotation(
        text=f"{plain(rule.name, 18)}{belief}",
        x=middle,
        xanchor=_anchor((middle - first) / (last - first)),
        y=1,
        yref="paper",
        yanchor="top",
        yshift=-15 * line,
        showarrow=False,
        font={"color": theme.belief, "size": TEXT_SIZE - 1},
    )


def _anchor(place: float) -> str:
    """Near the edges a centred name would leave the plot."""
    return "left" if place < 0.15 else "right" if place > 0.85 else "center"


def _bin_words(bins: ColumnBins, place: int) -> str:
    low, high = compact(bins.edges[place]), compact(bins.edges[place + 1])
    return f"<b>{low} to {high}</b><br>{_share_words(bins.positives[place], bins.rest[place], bins.total)}"


def _level_words(level: Any, positives: float, rest: float, total: int) -> str:
    return f"<b>{plain(level, 60)}</b><br>{_share_words(positives, rest, total)}"


def _share_words(positives: float, rest: float, total: int) -> str:
    rows = positives + rest
    known = f"{count(positives)} known positives"
    rate = f" ({percent(positives / rows)})" if rows else ""
    return f"{count(rows)} rows, {percent(rows / total)} of all<br>{known}{rate}"


def _brush_alt(bins: ColumnBins, column: str) -> str:
    highest = int(np.argmax(bins.rows))
    where = f"{compact(bins.edges[highest])} to {compact(bins.edges[highest + 1])}"
    return (
        f"Histogram of {one_line(column)} from {compact(bins.edges[0])} to {compact(bins.edges[-1])}: "
        f"{count(bins.rows.sum())} rows, {count(bins.positives.sum())} of them known positives; most lie in {where}."
    )


def _category_alt(levels: Sequence[Any], positives: np.ndarray, rest: np.ndarray, column: str) -> str:
    largest = int(np.argmax(positives + rest))
    return (
        f"Rows of {one_line(column)} by value: {count(len(levels))} values, "
        f"the most frequent is {one_line(levels[largest])} with {count((positives + rest)[largest])} rows."
    )
