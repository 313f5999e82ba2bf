"""The selection-bias map: columns down, their parts across, coloured by confirmed over expected positives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light, lines_height, name_axis, nothing_to_show
from spu_core.charts.implied import map_color_bar
from spu_core.charts.theme import LIGHT, TEXT_SIZE, Theme
from spu_core.charts.words import compact, count, interval, plain, times, wrapped
from spu_core.metrics.intervals import p_value_words

if TYPE_CHECKING:
    from spu_core.trust.bias import BiasMap

MOST_ROWS = 15
# Colours end at a quarter and at four times the expected number.
END = 4.0


def bias_chart(bias: BiasMap, *, theme: Theme = LIGHT) -> go.Figure:
    """Columns with the strongest difference first. Cells that chance explains are pale; those that it does not have a
    mark."""
    cells = bias.cells[bias.cells["ratio"].notna()]
    if cells.empty:
        return nothing_to_show(theme, bias.sentence)
    columns = _strongest_first(cells)
    shown = columns[:MOST_ROWS]
    figure = canvas(theme, bias.sentence, height=lines_height(len(shown), 110))
    grids = {name: _grid(cells, shown, name) for name in ("ratio", "holm")}
    surely = grids["holm"] < 1.0 - bias.level
    power = np.log(np.clip(grids["ratio"], 1.0 / END, END)) / np.log(END)
    figure.add_heatmap(
        # What chance explains keeps a third of its colour: visible, but never louder than a finding.
        z=light(np.where(surely, power, power / 3.0)),
        zmin=-1.0,
        zmax=1.0,
        colorscale=[(0.0, theme.categorical[1]), (0.5, theme.panel), (1.0, theme.warn)],
        xgap=3,
        ygap=3,
        hoverongaps=False,
        hovertext=_hover(cells, shown),
        hoverinfo="text",
        colorbar=_color_bar(theme),
    )
    for row, column in np.argwhere(surely):
        figure.add_annotation(
            x=int(column), y=int(row), text=times(float(grids["ratio"][row, column])), showarrow=False,
            font={"color": theme.background if abs(power[row, column]) > 0.5 else theme.text, "size": TEXT_SIZE},
        )  # fmt: skip
    name_axis(figure, [wrapped(name) for name in shown], theme)
    more = f" ({count(len(columns) - len(shown))} more columns not shown)" if len(columns) > len(shown) else ""
    figure.update_xaxes(showticklabels=False, showgrid=False, fixedrange=True)
    # With a horizontal colour bar Plotly misplaces the title of the axis below, so the title is a note of its own.
    note = {"text": f"parts of the column, low to high{more}", "showarrow": False, "yshift": -8}
    figure.add_annotation(x=0.5, y=0, xref="paper", yref="paper", xanchor="center", yanchor="top", **note)
    figure.update_layout(margin={"t": 58, "b": 36})
    return figure


def _strongest_first(cells: pd.DataFrame) -> list[str]:
    strength = np.log(cells["ratio"].clip(1.0 / END, END)).abs() * (1.0 + 9.0 * (cells["holm"] < 0.05))
    return strength.groupby(cells["column"]).max().sort_values(ascending=False, kind="stable").index.tolist()


def _places(cells: pd.DataFrame, columns: list[str]) -> list[tuple[int, int, dict[Any, Any]]]:
    found = []
    for row, column in enumerate(columns):
        for place, cell in enumerate(cells[cells["column"] == column].to_dict("records")):
            found.append((row, place, cell))
    return found


def _grid(cells: pd.DataFrame, columns: list[str], name: str) -> np.ndarray:
    width = int(cells.groupby("column").size().max())
    grid = np.full((len(columns), width), np.nan)
    for row, place, cell in _places(cells, columns):
        grid[row, place] = cell[name]
    return grid


def _hover(cells: pd.DataFrame, columns: list[str]) -> list[list[str]]:
    width = int(cells.groupby("column").size().max())
    texts = [[""] * width for _ in columns]
    for row, place, cell in _places(cells, columns):
        texts[row][place] = (
            f"<b>{plain(cell['column'], 40)}</b> {plain(cell['part'], 40)}<br>{count(cell['found'])} confirmed, "
            f"{compact(cell['expected'])} expected: {times(cell['ratio'])} "
            f"({interval(cell['low'], cell['high'], times)})<br>"
            f"{p_value_words(cell['holm'])} after looking at all cells"
        )
    return texts


def _color_bar(theme: Theme) -> dict[str, object]:
    ticks = {"tickvals": [-1.0, -0.5, 0.0, 0.5, 1.0], "ticktext": ["¼", "½", "as expected", "2×", "4×"]}
    return map_color_bar(theme, "confirmed positives, found over expected") | ticks
