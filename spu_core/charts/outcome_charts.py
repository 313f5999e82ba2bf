"""Charts of checks and their outcomes: ratios by arm and over time, delay of confirmations, Appendix A."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
import plotly.graph_objects as go

from spu_core.charts.canvas import (
    Line,
    canvas,
    light,
    nothing_to_show,
    reference_line,
    top_legend,
    value_heading,
    whisker_chart,
)
from spu_core.charts.text_format import count, decimals, interval, label, listed, one_line, percent, plain
from spu_core.charts.theme import LIGHT, Theme, see_through
from spu_core.theory.check_prior import CheckPrior
from spu_core.theory.check_ratio import CheckRatios

if TYPE_CHECKING:
    from spu_core.trust.outcomes.ratios import ArmRatios, LabelDelay


RATIOS = {"surrender": "confirmed share", "pass_": "cleared share", "failure": "failure ratio"}
COUNTED = {"surrender": "admitted", "pass_": "passed", "failure": "failed"}
WORDS = {"surrender": "confirmed", "pass_": "cleared", "failure": "failed"}


def outcome_ratio_chart(ratios: Sequence[ArmRatios], *, which: str = "surrender", theme: Theme = LIGHT) -> go.Figure:
    """One ratio of each arm with its interval; the dashed line is the ratio of random checks."""
    if not ratios:
        return nothing_to_show(theme, "No outcome was recorded yet.")
    lines = [_ratio_line(each, which, theme) for each in ratios]
    shown = listed(f"{each.arm} {percent(getattr(each, which).estimate)}" for each in ratios)
    alt = f"{RATIOS[which].capitalize()} with its 95% interval: {shown}."
    figure = whisker_chart(lines, theme, alt, f"{RATIOS[which]} of checks, 95% limits")
    chance = next((each for each in ratios if each.is_random), None)
    if chance is not None:
        at = getattr(chance, which).estimate
        reference_line(figure, at, f"by chance {percent(at)}", theme.muted)
    figure.update_xaxes(tickformat=".1~%", rangemode="tozero")
    return figure


def outcome_time_chart(table: pd.DataFrame, *, which: str = "surrender", theme: Theme = LIGHT) -> go.Figure:
    """One ratio of each arm over time, with the band of its intervals; `table` comes from `ratios_over_time`."""
    column = {"surrender": "surrender_ratio", "pass_": "pass_ratio"}[which]
    if table.empty:
        return nothing_to_show(theme, "No check has a day, so nothing can be shown over time.")
    periods = table["period"].nunique()
    if periods == 1:
        first = f"{table['period'].iloc[0]:%d %b %Y}"
        return nothing_to_show(
            theme, f"All checks fall into the period that began on {first}; a course over time needs a second."
        )
    arms = list(dict.fromkeys(table["arm"]))
    last = [f"{arm} {percent(table.loc[table['arm'] == arm, column].iloc[-1])}" for arm in arms]
    many = f"{count(periods)} periods"
    figure = canvas(theme, f"{RATIOS[which].capitalize()} over {many}; in the last one: {listed(last)}.", height=300)
    for place, arm in enumerate(arms):
        _add_arm(figure, table[table["arm"] == arm], column, (arm, theme.color(place)))
    figure.update_yaxes(title_text=RATIOS[which], tickformat=".1~%", rangemode="tozero", fixedrange=True, nticks=6)
    figure.update_xaxes(type="date", fixedrange=True, nticks=6, tickangle=0, showgrid=False)
    top_legend(figure)
    return figure


def label_delay_chart(delay: LabelDelay, *, theme: Theme = LIGHT) -> go.Figure:
    """The share of confirmations that are known by days after the date of a row, and the suggested cut."""
    figure = canvas(theme, delay.sentence, height=260)
    figure.add_scatter(
        x=light([0, *delay.days.tolist()]),
        y=light([0.0, *delay.share.tolist()]),
        mode="lines",
        line={"color": theme.model, "width": 2, "shape": "hv"},
        fill="tozeroy",
        fillcolor=see_through(theme.model, 0.12),
        hovertemplate="after %{x} days<br>%{y:.0%} known<extra></extra>",
        showlegend=False,
    )
    reference_line(
        figure, delay.cut_off, f"{percent(delay.wanted, 0)} after {delay.cut_off} days", theme.text, dash="dot"
    )
    figure.update_xaxes(title_text="days", rangemode="tozero", fixedrange=True, nticks=8)
    figure.update_yaxes(title_text=f"{delay.what} known", tickformat=".0%", range=[0, 1.02], fixedrange=True, nticks=5)
    return figure


def _ratio_line(each: ArmRatios, which: str, theme: Theme) -> Line:
    found = getattr(each, which)
    hits = getattr(each, COUNTED[which])
    hover = (
        f"<b>{plain(each.arm)}</b><br>{count(hits)} of {count(each.checks)} checks {WORDS[which]}: "
        f"{percent(found.estimate)} ({interval(found.low, found.high, percent)})<br>{count(each.users)} rows"
    )
    color = theme.unsure if each.is_random else theme.model
    return Line(each.arm, found.estimate, hover, percent(found.estimate), color, found.low, found.high)


def _add_arm(figure: go.Figure, table: pd.DataFrame, column: str, look: tuple[str, str]) -> None:
    arm, color = look
    days = [period.strftime("%Y-%m-%d") for period in table["period"]]
    figure.add_scatter(
        x=[*days, *reversed(days)],
        y=light([*table[f"{column}_high"], *reversed(table[f"{column}_low"].tolist())]),
        mode="lines",
        line={"width": 0, "color": color},
        fill="toself",
        fillcolor=see_through(color, 0.1),
        hoverinfo="skip",
        legendgroup=f"{label(arm)} {color}",
        showlegend=False,
    )
    figure.add_scatter(
        x=days,
        y=light(table[column]),
        mode="lines+markers",
        name=label(arm),
        legendgroup=f"{label(arm)} {color}",
        line={"color": color, "width": 2},
        marker={"color": color, "size": 7},
        customdata=table["checks"].to_numpy(),
        hovertemplate=f"<b>{plain(arm)}</b><br>%{{x}}: %{{y:.1%}} of %{{customdata}} checks<extra></extra>",
    )


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
