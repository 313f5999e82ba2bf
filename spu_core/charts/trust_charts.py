"""Charts of the Trust page: audits, checks and their outcomes, selection bias, echo, prior, beliefs of rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from spu_core.charts.canvas import (
    LIGHT,
    MOST_LINES,
    TEXT_SIZE,
    Line,
    Theme,
    canvas,
    compact,
    count,
    decimals,
    interval,
    label,
    light,
    lines_height,
    listed,
    name_axis,
    nothing_to_show,
    one_line,
    percent,
    plain,
    reference_line,
    see_through,
    times,
    top_legend,
    value_heading,
    whisker_chart,
    wrapped,
)
from spu_core.charts.what_if_charts import map_color_bar
from spu_core.metrics.intervals import p_value_text
from spu_core.theory.check_prior import CheckPrior
from spu_core.theory.check_ratio import CheckRatios

if TYPE_CHECKING:
    from spu_core.metrics import Interval
    from spu_core.trust.assumptions import PriorReport, Source
    from spu_core.trust.audit.checked import AuditReport
    from spu_core.trust.audit.plan import AuditPlan
    from spu_core.trust.audit.questions import Forecast
    from spu_core.trust.bias import BiasMap
    from spu_core.trust.echo import EchoReport
    from spu_core.trust.outcomes.ratios import ArmRatios, LabelDelay
    from spu_core.trust.sensitivity import GammaPair, RuleInfluence, Sensitivity


def strata_chart(plan: AuditPlan, *, theme: Theme = LIGHT) -> go.Figure:
    """The share of rows and of checks in each stratum, low scores first."""
    names = [plain(name, 40) for name in plan.stratum_names]
    rows, drawn = sum(plan.sizes), sum(plan.drawn)
    most = max(range(len(names)), key=lambda h: plan.drawn[h] / max(plan.sizes[h], 1))
    alt = (
        f"{count(drawn)} checks over {len(names)} strata; most densely in {plan.stratum_names[most]}, where "
        f"{percent(plan.drawn[most] / max(plan.sizes[most], 1))} of {count(plan.sizes[most])} rows are drawn."
    )
    figure = canvas(theme, alt, height=lines_height(len(names), 110), bargap=0.3, bargroupgap=0.08)
    for name, values, total, color in (
        ("checks", plan.drawn, drawn, theme.model),
        ("rows", plan.sizes, rows, theme.rest),
    ):
        figure.add_bar(
            x=[value / total for value in values],
            y=list(range(len(names))),
            orientation="h",
            name=f"share of the {name}",
            marker={"color": color, "line": {"width": 0}, "cornerradius": 2},
            hovertext=[f"{plain(s)}<br>{count(v)} {name}" for s, v in zip(plan.stratum_names, values, strict=True)],
            hoverinfo="text",
        )
    name_axis(figure, names, theme)
    top_legend(figure)
    figure.update_xaxes(tickformat=".0%", fixedrange=True, nticks=6)
    return figure


MOST_ROWS = 15
# Colours end at a quarter and at four times the expected number.
RATIO_END = 4.0


def bias_chart(bias: BiasMap, *, theme: Theme = LIGHT) -> go.Figure:
    """Confirmed over expected positives by column and part, the column with the strongest difference first.

    Cells whose difference may be due to chance are pale; the others show their ratio.
    """
    cells = bias.cells[bias.cells["ratio"].notna()]
    if cells.empty:
        return nothing_to_show(theme, bias.sentence)
    columns = _strongest_first(cells)
    shown = columns[:MOST_ROWS]
    figure = canvas(theme, bias.sentence, height=lines_height(len(shown), 110))
    grids = {name: _grid(cells, shown, name) for name in ("ratio", "holm")}
    surely = grids["holm"] < 1.0 - bias.level
    power = np.log(np.clip(grids["ratio"], 1.0 / RATIO_END, RATIO_END)) / np.log(RATIO_END)
    figure.add_heatmap(
        # Differences that may be due to chance get a third of the colour.
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
    strength = np.log(cells["ratio"].clip(1.0 / RATIO_END, RATIO_END)).abs() * (1.0 + 9.0 * (cells["holm"] < 0.05))
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
            f"{p_value_text(cell['holm'])} after looking at all cells"
        )
    return texts


def _color_bar(theme: Theme) -> dict[str, object]:
    ticks = {"tickvals": [-1.0, -0.5, 0.0, 0.5, 1.0], "ticktext": ["¼", "½", "as expected", "2×", "4×"]}
    return map_color_bar(theme, "confirmed cases, found over expected") | ticks


def echo_chart(report: EchoReport, *, theme: Theme = LIGHT) -> go.Figure:
    """Two pairs of lines, with and without the rule columns: the share repeated, and the AUC beyond the rules."""
    pairs = [
        ("repeats, columns kept", report.reproduced, theme.belief, percent),
        ("repeats, columns dropped", report.reproduced_without, theme.belief, percent),
        ("beyond, columns kept", report.beyond, theme.model, decimals),
        ("beyond, columns dropped", report.beyond_without, theme.model, decimals),
    ]
    lines = [_echo_line(name, found, color, write) for name, found, color, write in pairs if found is not None]
    figure = whisker_chart(lines, theme, report.sentence, "share repeated · AUC beyond")
    reference_line(figure, 0.5, "½: knows nothing beyond", theme.muted)
    lowest = min(0.0, *(found.estimate for _, found, _, _ in pairs if found is not None))
    figure.update_xaxes(range=[lowest, 1.02], tickformat=".1f")
    return figure


def _echo_line(name: str, found: Interval, color: str, write: object) -> Line:
    value = write(found.estimate)  # type: ignore[operator]
    hover = f"<b>{plain(name)}</b><br>{value} ({interval(found.low, found.high, write)})"
    return Line(name, found.estimate, hover, value, color, found.low, found.high, is_safe=True)


# What a chart calls a source: the names of the estimators say nothing to a reader.
_SOURCES = {"BBE": "Confirmed cases", "Elkan–Noto": "The same, Elkan–Noto", "E[S]": "Your rules"}
_COLORS = {"BBE": "model", "Elkan–Noto": "model", "E[S]": "belief", "Audit": "text", "Truth": "text"}


def prior_chart(report: PriorReport, *, theme: Theme = LIGHT) -> go.Figure:
    """One line per source: a dot for an estimate, a line for a range, both for an estimate with bounds."""
    lines = [_prior_line(source, theme) for source in report.sources]
    said = listed((f"{_SOURCES.get(source.name, source.name)} {source.text}" for source in report.sources), 6)
    figure = whisker_chart(lines, theme, f"Share of positives by source: {said}.", "share of positives")
    figure.update_xaxes(tickformat=".0%", rangemode="tozero")
    return figure


def _prior_line(source: Source, theme: Theme) -> Line:
    bounds = "" if source.low is None or source.prior is None else f" ({interval(source.low, source.high, percent)})"
    name = _SOURCES.get(source.name, source.name)
    hover = f"<b>{plain(name)}</b><br>{source.text}{bounds}<br>{plain(source.note)}"
    color = getattr(theme, _COLORS.get(source.name, "text"))
    return Line(name, source.prior, hover, source.text, color, source.low, source.high)


def sensitivity_chart(sensitivity: Sensitivity, *, theme: Theme = LIGHT) -> go.Figure:
    """The range that holds 90% of each run's AUC_SPU over the draws; at the right in how many draws it is best."""
    table = sensitivity.table
    best = table["stays_best"].max()
    lines = [
        Line(
            line["name"],
            line["median"],
            f"<b>{plain(line['name'])}</b><br>AUC_SPU {decimals(line['median'])} "
            f"({interval(line['low'], line['high'])})<br>"
            f"best in {percent(line['stays_best'], 0)} of the draws",
            percent(line["stays_best"], 0),
            theme.model if line["stays_best"] == best else theme.unsure,
            line["low"],
            line["high"],
        )
        for line in table.to_dict("records")
    ]
    said = listed(f"{line['name']} best in {percent(line['stays_best'], 0)}" for line in table.to_dict("records"))
    alt = f"AUC_SPU of each run under {len(sensitivity.auc)} draws of the beliefs: {said}."
    figure = whisker_chart(lines, theme, alt, "AUC_SPU, 90% of the draws")
    value_heading(figure, "best in", theme)
    figure.update_layout(margin={"t": 28, "r": 64})
    return figure


def rule_influence_chart(influence: RuleInfluence, *, theme: Theme = LIGHT) -> go.Figure:
    """How far the leader's AUC_SPU moves when one rule is believed less or more, the most influential rule on top."""
    table = influence.table.head(MOST_LINES)
    if table.empty:
        return nothing_to_show(theme, influence.sentence)
    figure = canvas(theme, influence.sentence, height=lines_height(len(table), 90), bargap=0.42, barmode="overlay")
    now = float(table["now"].iloc[0])
    for column, change, color in (("down", "believed less", theme.rest), ("up", "believed more", theme.belief)):
        figure.add_bar(
            x=(table[column] - now).tolist(),
            y=list(range(len(table))),
            base=now,
            orientation="h",
            name=change,
            marker={"color": color, "line": {"width": 0}, "cornerradius": 3},
            hovertext=[
                f"<b>{plain(line['rule'])}</b> {change}<br>AUC_SPU {decimals(line[column])} instead of "
                f"{decimals(now)}<br>then {plain(line[f'leads_{column}'])} leads"
                for line in table.to_dict("records")
            ],
            hoverinfo="text",
        )
    name_axis(figure, [wrapped(rule) for rule in table["rule"]], theme)
    reference_line(figure, now, f"now {decimals(now)}", theme.text, dash="dot")
    # Over the full width, so that the legend fits in one row on a narrow page.
    place = {"x": 0, "xref": "container", "y": 0.99, "yref": "container", "yanchor": "top"}
    figure.update_layout(legend={"orientation": "h", **place}, margin_t=64)
    figure.update_xaxes(title_text=f"AUC_SPU of {label(influence.leader)}", fixedrange=True, nticks=6)
    return figure


def gamma_chart(pair: GammaPair, *, theme: Theme = LIGHT) -> go.Figure:
    """The lowest and highest difference of true AUC of two models for each Γ, and the Γ that can change their order."""
    figure = canvas(theme, pair.sentence, height=320)
    hover = [
        f"<b>Odds wrong by at most {decimals(g, 2)} times</b><br>difference {decimals(low)} to {decimals(high)}"
        for g, low, high in zip(pair.gamma, pair.low, pair.high, strict=True)
    ]
    line = {"color": theme.model, "width": 2}
    figure.add_scatter(
        x=light(pair.gamma), y=light(pair.high), mode="lines", line=line, showlegend=False, hoverinfo="skip"
    )
    figure.add_scatter(
        x=light(pair.gamma), y=light(pair.low), mode="lines", line=line, fill="tonexty", showlegend=False,
        fillcolor=see_through(theme.model, 0.14), hovertext=hover, hoverinfo="text",
    )  # fmt: skip
    figure.add_hline(y=0.0, line={"color": theme.muted, "width": 1, "dash": "dot"})
    if pair.tipping is not None and pair.gamma[0] <= pair.tipping <= pair.gamma[-1]:
        reference_line(figure, pair.tipping, f"can change at {pair.tipping:.2g}", theme.belief)
    ticks = [each for each in (1, 1.5, 2, 3, 5, 10) if pair.gamma[0] <= each <= pair.gamma[-1]]
    figure.update_xaxes(
        title_text="odds of the soft labels wrong by at most this factor", tickvals=ticks,
        ticktext=[f"{each:g}" for each in ticks], fixedrange=True,
    )  # fmt: skip
    figure.update_yaxes(title_text="difference of true AUC", fixedrange=True)
    return figure


def forecast_chart(found: Forecast, *, checks: int | None = None, theme: Theme = LIGHT) -> go.Figure:
    """The expected precision for each number of checks, of the proposed batches and of random checks alone."""
    table = found.table
    if table.empty:
        return nothing_to_show(theme, "There are too few rows to plan an audit.")
    figure = canvas(theme, found.sentence(int(table["checks"].iloc[-1])), height=320)
    pairs = found.question.needs_rival
    shown = [("random_half_width", "random checks only", {"color": theme.unsure, "dash": "dot", "width": 2})]
    if not pairs:
        shown.append(("half_width", "random first, then directed", {"color": theme.model, "width": 2}))
    else:
        shown = [("detectable", "difference seen with 80 % power", {"color": theme.model, "width": 2})]
    for column, name, line in shown:
        figure.add_scatter(
            x=light(table["checks"]), y=light(table[column]), mode="lines+markers", line=line, name=name,
            hovertemplate=f"<b>%{{x}} checks</b><br>{'' if pairs else '± '}%{{y:.3f}}<extra>{name}</extra>",
        )  # fmt: skip
    if checks is not None:
        figure.add_vline(x=checks, line={"color": theme.belief, "width": 1.5, "dash": "dash"})
    top_legend(figure)
    ticks = table["checks"].tolist()
    figure.update_xaxes(
        title_text="rows checked by hand", type="log", tickvals=ticks, ticktext=list(map(count, ticks)), fixedrange=True
    )
    figure.update_yaxes(
        title_text="difference seen with 80 % power" if pairs else "half-width of the interval", rangemode="tozero",
        fixedrange=True, nticks=6,
    )  # fmt: skip
    return figure


def audited_models_chart(
    report: AuditReport, *, key: str = "true_auc", references: Collection[str] = (), theme: Theme = LIGHT
) -> go.Figure:
    """One figure of every model with its interval from the checked rows, the best on top and `references` last."""
    names = {id(figures[key]): name for name, figures in report.figures.items()}
    found = sorted(
        (figures[key] for figures in report.figures.values()),
        key=lambda each: (names[id(each)] in references, -each.estimate),
    )
    lines = [
        Line(
            names[id(each)],
            each.estimate,
            f"<b>{plain(names[id(each)])}</b><br>{decimals(each.estimate)} ({interval(each.low, each.high)})",
            decimals(each.estimate),
            theme.model if place == 0 else theme.unsure,
            each.low,
            each.high,
        )
        for place, each in enumerate(found)
    ]
    title = found[0].title
    return whisker_chart(lines, theme, report.sentence, f"{title} with {percent(report.checked.level, 0)} interval")


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
