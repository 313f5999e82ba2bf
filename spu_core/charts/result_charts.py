"""The figure of a result, for its method `plot()`. It imports the training, so `spu_core.charts` does not import it."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import plotly.graph_objects as go

from spu_core.charts.column_charts import soft_label_chart
from spu_core.charts.comparison_charts import leaderboard_chart
from spu_core.charts.roc_charts import roc_chart
from spu_core.labels import SoftLabels, audit_soft_labels
from spu_core.training import Comparison, Run, recommend
from spu_core.training.comparison import NOT_MODELS
from spu_core.training.views import auc_figures, ceiling_curve, run_band, run_curve, sketch


@singledispatch
def figure_of(result: Any) -> go.Figure:
    """The figure that tells most about a result."""
    raise TypeError(f"There is no figure of {type(result).__name__}; see spu_core.charts.")


@figure_of.register
def _(result: SoftLabels) -> go.Figure:
    return soft_label_chart(audit_soft_labels(result))


@figure_of.register
def _(result: Run) -> go.Figure:
    curve = run_curve(result)
    areas = None if result.metrics is None else {result.name: result.metrics.auc_spu.estimate}
    return roc_chart({result.name: sketch(curve)}, sketch(ceiling_curve(result)), areas=areas, band=run_band(result))


@figure_of.register
def _(result: Comparison) -> go.Figure:
    found = recommend(result)
    scored = next(run for run in result.runs if run.score is not None)
    references = [run.name for run in result.runs if run.candidate.method in NOT_MODELS]
    figures = auc_figures(result, found.order)
    return leaderboard_chart(figures, ceiling=ceiling_curve(scored).auc, selected=found.model, references=references)
