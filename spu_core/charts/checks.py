"""Charts of Appendix A: failure ratios of the checks of each rule (A.1), and the prior of passing (A.2)."""

from __future__ import annotations

import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light, reference_line, value_heading
from spu_core.charts.lines import Line, whisker_chart
from spu_core.charts.theme import LIGHT, Theme, see_through
from spu_core.charts.words import count, decimals, interval, listed, one_line, percent, plain
from spu_core.theory.check_prior import CheckPrior
from spu_core.theory.check_ratio import CheckRatios


def failure_ratio_chart(ratios: CheckRatios, *, theme: Theme = LIGHT) -> go.Figure:
    """The failure ratio of each rule's checks with its interval, and the soft label it gives, against random checks."""
    order = sorted(range(len(ratios.names)), key=lambda i: -ratios.failure_ratio[i])
    lines = [_failure_line(ratios, place, theme) for place in order]
    shown = listed(f"{ratios.names[i]} {percent(ratios.failure_ratio[i])}" for i in order)
    random = ratios.random_ratio
    alt = f"Failure ratio of the checks of each rule: {shown}. Random checks fail in {percent(random)}."
    figure = whisker_chart(lines, theme, alt, "failure ratio of checks")
    reference_line(figure, random, f"{plain(ratios.random_rule, 18)} {percent(random)}", theme.muted)
    figure.update_xaxes(tickformat=".0%", rangemode="tozero")
    value_heading(figure, "S", theme)
    return figure


def check_prior_chart(prior: CheckPrior, *, theme: Theme = LIGHT) -> go.Figure:
    """The fitted density f(θ) of the users' chances to pass a check; users who pass less are more likely positive."""
    alt = (
        f"Fitted density of the chance to pass a check: mean {decimals(prior.mean, 2)}, highest at "
        f"{decimals(float(prior.grid[prior.density.argmax()]), 2)}."
    )
    figure = canvas(theme, alt, height=280)
    figure.add_scatter(
        x=light(prior.grid),
        y=light(prior.density),
        mode="lines",
        line={"color": theme.belief, "width": 2},
        fill="tozeroy",
        fillcolor=see_through(theme.belief, 0.14),
        hovertemplate="chance to pass %{x:.2f}<br>density %{y:.2f}<extra></extra>",
        showlegend=False,
    )
    reference_line(figure, prior.mean, f"mean {decimals(prior.mean, 2)}", theme.text, dash="dot")
    figure.update_xaxes(title_text="chance θ to pass a check", range=[0, 1], tickformat=".1f", fixedrange=True)
    figure.update_yaxes(title_text="density f(θ)", rangemode="tozero", fixedrange=True, nticks=5)
    return figure


def _failure_line(ratios: CheckRatios, place: int, theme: Theme) -> Line:
    name, ratio = ratios.names[place], float(ratios.failure_ratio[place])
    low, high = float(ratios.failure_low[place]), float(ratios.failure_high[place])
    hover = (
        f"<b>{plain(name)}</b><br>{count(ratios.failures[place])} of {count(ratios.checks[place])} checks failed: "
        f"{percent(ratio)} ({interval(low, high, percent)})<br>soft label {decimals(ratios.value[place], 2)} "
        f"({interval(ratios.value_low[place], ratios.value_high[place], lambda v: decimals(v, 2))})"
    )
    is_random = one_line(name) == one_line(ratios.random_rule)
    if is_random or low <= ratios.random_ratio <= high:
        color = theme.unsure
    else:
        color = theme.model if ratio > ratios.random_ratio else theme.warn
    return Line(name, ratio, hover, decimals(ratios.value[place], 2), color, low, high)
