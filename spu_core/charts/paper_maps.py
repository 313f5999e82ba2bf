"""Discussion 7.2 as a map: where the soft label serves better as a target, and where as a feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, nothing_to_show
from spu_core.charts.theme import LIGHT, Theme
from spu_core.charts.words import signed

WINNERS = {"target": "target wins", "feature": "feature wins", "undecided": "undecided"}


def winner_map_chart(cells: Sequence[Mapping[str, Any]], *, theme: Theme = LIGHT) -> go.Figure:
    """One tile per number of labels and bias, coloured by the difference, with the winner in words.

    Each cell has `labels`, `bias`, `target − feature` and `winner`.
    """
    if not cells:
        return nothing_to_show(theme, "There is no map yet.")
    labels, biases = (sorted({cell[name] for cell in cells}) for name in ("labels", "bias"))
    found = {(cell["bias"], cell["labels"]): cell for cell in cells}
    tiles = [[found.get((bias, label)) for label in labels] for bias in biases]
    figure = canvas(theme, _alt(cells), height=110 + 74 * len(biases))
    largest = max(abs(cell["target − feature"]) for cell in cells) or 1.0
    figure.add_heatmap(
        z=[[None if tile is None else tile["target − feature"] for tile in row] for row in tiles],
        x=[f"{label:,}" for label in labels],
        y=[f"{bias:g}" for bias in biases],
        zmin=-largest,
        zmax=largest,
        colorscale=[(0.0, theme.categorical[1]), (0.5, theme.panel), (1.0, theme.model)],
        showscale=False,
        xgap=3,
        ygap=3,
        text=[["" if tile is None else _tile(tile) for tile in row] for row in tiles],
        texttemplate="%{text}",
        hovertemplate="%{x} labels, bias %{y}: %{text}<extra></extra>",
    )
    figure.update_xaxes(title_text="labels", type="category", fixedrange=True, showgrid=False)
    figure.update_yaxes(title_text="bias of labels", type="category", fixedrange=True, showgrid=False)
    return figure


def _tile(cell: Mapping[str, Any]) -> str:
    return f"{signed(cell['target − feature'])}<br>{WINNERS[cell['winner']]}"


def _alt(cells: Sequence[Mapping[str, Any]]) -> str:
    count = {winner: sum(cell["winner"] == winner for cell in cells) for winner in WINNERS}
    return (
        f"Over seeds, on these rows, the soft label is better as target in {count['target']} of {len(cells)} settings, "
        f"better as feature in {count['feature']}, and {count['undecided']} are undecided."
    )
