"""A histogram as bars to draw: the outer bins may reach far out, but are drawn as wide as the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.words import compact, label
from spu_core.tables import Histogram
from spu_core.tables.reading.values import day_of

NANOSECONDS_PER_MILLISECOND = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """`edges` are those to draw; `least` and `most` the true ends of the outer bins.

    >>> bars = Bars.of(Histogram(np.array([-50.0, 1.0, 2.0, 999.0]), np.array([3, 4, 2]), np.array([0, 1, 0])))
    >>> bars.edges.tolist(), bars.range_words(2), bars.range_words(0)
    ([0.0, 1.0, 2.0, 3.0], '2 to 999', '−50 to 1')
    """

    edges: np.ndarray
    positives: np.ndarray
    rest: np.ndarray
    least: float
    most: float
    dates: bool = False

    @classmethod
    def of(cls, histogram: Histogram, dates: bool = False) -> Bars:
        edges = np.array(histogram.edge, dtype=np.float64)
        if edges.size > 3:
            width = float(edges[2] - edges[1])
            edges[0], edges[-1] = max(edges[0], edges[1] - width), min(edges[-1], edges[-2] + width)
        rest = histogram.count - histogram.labeled
        return cls(edges, histogram.labeled, rest, float(histogram.edge[0]), float(histogram.edge[-1]), dates)

    @property
    def rows(self) -> np.ndarray:
        return self.positives + self.rest

    @property
    def total(self) -> int:
        return int(self.rows.sum())

    @property
    def middles(self) -> np.ndarray:
        return 0.5 * (self.edges[1:] + self.edges[:-1])

    def merged(self, fewest: int) -> Bars:
        """The same rows in fewer bins: neighbours join until each has at least `fewest` rows (the last may not)."""
        starts, waiting = [0], 0
        for place, rows in enumerate(self.rows.tolist()):
            waiting += rows
            if waiting >= fewest and place + 1 < self.rows.size:
                starts.append(place + 1)
                waiting = 0
        if waiting < fewest and len(starts) > 1:
            starts.pop()
        edges = self.edges[[*starts, self.rows.size]]
        positives, rest = np.add.reduceat(self.positives, starts), np.add.reduceat(self.rest, starts)
        return Bars(edges, positives, rest, self.least, self.most, self.dates)

    def drawn(self, values: Any) -> Any:
        """Where values lie on the axis: Plotly counts dates in milliseconds."""
        return values / NANOSECONDS_PER_MILLISECOND if self.dates else values

    def range_words(self, place: int) -> str:
        """The true range of a bin."""
        low = self.least if place == 0 else self.edges[place]
        high = self.most if place == self.rows.size - 1 else self.edges[place + 1]
        return f"{self._words(low)} to {self._words(high)}"

    def _words(self, value: float) -> str:
        return day_of(value) if self.dates else compact(value)


def set_value_axis(figure: go.Figure, bars: Bars, column: str) -> None:
    """The column along the bottom."""
    figure.update_xaxes(
        title_text=label(column),
        range=[float(bars.drawn(bars.edges[0])), float(bars.drawn(bars.edges[-1]))],
        type="date" if bars.dates else "linear",
        showgrid=False,
        fixedrange=True,
        nticks=5 if bars.dates else 8,
        tickangle=0,
    )


def rows_axis(figure: go.Figure, limits: list[float] | None = None, **axis: Any) -> None:
    """Row counts up the left side: 1.5k rather than 1500, so that the axis stays narrow."""
    figure.update_yaxes(
        title_text="rows", fixedrange=True, rangemode="tozero", range=limits, nticks=6, tickformat="~s", **axis
    )
