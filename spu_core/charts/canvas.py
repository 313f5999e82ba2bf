"""What all charts share: colours and fonts, text and numbers, the empty figure, axes, legends, one line per name.

Text of users is escaped; numbers are rounded for reading.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np
import plotly.graph_objects as go

# The first names are those under which Streamlit ships its fonts; the last ones exist in every browser.
SANS = '"Source Sans", "Source Sans 3", "Source Sans Pro", "Helvetica Neue", Arial, sans-serif'
SERIF = '"Source Serif", "Source Serif 4", "Source Serif Pro", Georgia, serif'
TEXT_SIZE = 12


@dataclass(frozen=True)
class Theme:
    """Colours by meaning. Backgrounds are transparent, so that a chart fits on any page.

    `model` marks what a model or rule does, `belief` what soft labels allow (the ceiling, S itself), `rest` everything
    of less importance, `confirmed` confirmed cases, `unsure` what shows no clear difference, and `warn` warnings.
    """

    name: str
    text: str
    muted: str
    grid: str
    border: str
    background: str
    panel: str
    model: str
    belief: str
    rest: str
    confirmed: str
    unsure: str
    warn: str
    categorical: tuple[str, ...]
    sequential: tuple[str, ...]

    def color(self, place: int) -> str:
        """The colour of the series at this place; they repeat when there are more series than colours."""
        return self.categorical[place % len(self.categorical)]

    def text_on(self, share: float) -> str:
        """The colour of text on the sequential colour at `share` of the scale: whichever contrasts more."""
        behind = _luminance(self.sequential[round(share * (len(self.sequential) - 1))])
        return max(self.text, self.background, key=lambda color: _contrast(_luminance(color), behind))

    @property
    def scale(self) -> list[tuple[float, str]]:
        """The sequential colours from 0 to 1, for heat maps."""
        last = len(self.sequential) - 1
        return [(place / last, color) for place, color in enumerate(self.sequential)]

    @cached_property
    def template(self) -> go.layout.Template:
        """The look as a Plotly template: `figure.update_layout(template=DARK.template)`."""
        axis = {
            "gridcolor": self.grid,
            "gridwidth": 1,
            "zeroline": False,
            "showline": False,
            "ticks": "outside",
            "ticklen": 5,
            "tickcolor": "rgba(0,0,0,0)",
            "tickfont": {"color": self.muted, "size": TEXT_SIZE - 1},
            "title": {"font": {"color": self.text, "size": TEXT_SIZE + 1}, "standoff": 10},
            "automargin": True,
        }
        return go.layout.Template(
            layout={
                "font": {"family": SANS, "size": TEXT_SIZE, "color": self.text},
                "title": {
                    "font": {"family": SERIF, "size": 18, "color": self.text},
                    "x": 0.0,
                    "xref": "container",
                    "automargin": True,
                },
                "paper_bgcolor": "rgba(0,0,0,0)",
                "plot_bgcolor": "rgba(0,0,0,0)",
                "colorway": self.categorical,
                "margin": {"l": 8, "r": 16, "t": 14, "b": 8},
                "xaxis": axis,
                "yaxis": axis,
                "legend": {"font": {"size": TEXT_SIZE, "color": self.text}, "bgcolor": "rgba(0,0,0,0)"},
                "hoverlabel": {
                    "bgcolor": self.panel,
                    "bordercolor": self.border,
                    "font": {"family": SANS, "size": TEXT_SIZE + 1, "color": self.text},
                    "align": "left",
                    "namelength": -1,
                },
                "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": self.muted, "activecolor": self.model},
                "hovermode": "closest",
                "dragmode": False,
                "bargap": 0.02,
            }
        )


def see_through(color: str, opacity: float) -> str:
    """A hex colour with an opacity.

    >>> see_through("#0F766E", 0.1)
    'rgba(15,118,110,0.1)'
    """
    red, green, blue = _channels(color)
    return f"rgba({red},{green},{blue},{opacity:g})"


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _luminance(color: str) -> float:
    """Relative luminance as WCAG defines it."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _channels(color))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


LIGHT = Theme(
    name="light",
    text="#1B2733",
    muted="#6B7280",
    grid="#E4DECF",
    border="#DDD6C6",
    background="#FBFAF6",
    panel="#F2EFE6",
    model="#0F766E",
    belief="#C2701C",
    rest="#B9C9DA",
    confirmed="#6B4E9B",
    unsure="#9AA5B1",
    warn="#B4432F",
    categorical=("#0F766E", "#1F5F99", "#B4432F", "#6B4E9B", "#B7891A", "#5B7083"),
    sequential=(
        "#EAF4F2",
        "#CFE6E2",
        "#AED5CE",
        "#8AC2B8",
        "#65ADA1",
        "#43968A",
        "#2A8075",
        "#176A60",
        "#0D544C",
        "#083F39",
    ),
)

DARK = Theme(
    name="dark",
    text="#E6E2D6",
    muted="#9AA7B0",
    grid="#24333E",
    border="#2C3D4A",
    background="#10181F",
    panel="#1A2630",
    model="#5FC2B3",
    belief="#E59A4A",
    rest="#3E5467",
    confirmed="#B79AE0",
    unsure="#6F8292",
    warn="#E58A74",
    categorical=("#5FC2B3", "#7FB2E5", "#E58A74", "#B79AE0", "#E3BC5A", "#9FB3C2"),
    sequential=(
        "#16232C",
        "#183039",
        "#1B3E46",
        "#1F4E54",
        "#256063",
        "#2F7572",
        "#3C8B83",
        "#4AA396",
        "#5FC2B3",
        "#9BE0D4",
    ),
)


LONGEST_LABEL = 22

# Plotly reads a subset of HTML, LaTeX between dollar signs and %{…} in templates; entities are decoded only after all
# three were looked for, so they stay text.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;", "%{": "&#37;{"}
_SPECIAL = re.compile("|".join(map(re.escape, _ENTITIES)))
# Control characters, line breaks, and the marks that reverse the direction of the text after them.
_INVISIBLE = re.compile("[\\s\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def plain(text: Any, longest: int | None = None) -> str:
    """User text that Plotly shows as it was typed, on one line, cut to `longest` characters where one is given.

    >>> plain("<b>bold</b> costs $5$")
    '&lt;b&gt;bold&lt;/b&gt; costs &#36;5&#36;'
    >>> plain("a very long column name", longest=10)
    'a very lo…'
    """
    line = one_line(text)
    if longest is not None and len(line) > longest:
        line = line[: longest - 1].rstrip() + "…"
    return _SPECIAL.sub(lambda match: _ENTITIES[match.group()], line)


def one_line(text: Any) -> str:
    """Text without line breaks, control characters and direction marks; for alt texts, which are never read as HTML."""
    return _INVISIBLE.sub(" ", str(text)).strip()


def label(text: Any) -> str:
    """User text short enough for an axis or a legend."""
    return plain(text, LONGEST_LABEL)


def wrapped(text: Any) -> str:
    """User text beside the lines of a chart: at most two lines, broken at a blank or an underscore.

    >>> wrapped("Soft labels, logistic regression")
    'Soft labels, logistic<br>regression'
    >>> wrapped("last_check_of_the_month_outcome")
    'last_check_of_the_<br>month_outcome'
    """
    line = one_line(text)
    if len(line) <= LONGEST_LABEL:
        return plain(line)
    end = max(line.rfind(mark, 0, LONGEST_LABEL) for mark in " _-") + 1 or LONGEST_LABEL
    return f"{plain(line[:end])}<br>{label(line[end:])}"


def decimals(value: float | None, digits: int = 3) -> str:
    """An AUC, a loss, a soft label.

    >>> decimals(0.8146), decimals(float("nan")), decimals(-0.0001)
    ('0.815', '–', '0.000')
    """
    if not _is_number(value):
        return "–"
    rounded = round(float(value), digits) + 0.0  # avoids −0.000
    return f"{rounded:.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 3) -> str:
    """A change or a difference, always with its sign.

    >>> signed(0.0312), signed(-0.2, 1), signed(0.0)
    ('+0.031', '−0.2', '0.000')
    """
    written = decimals(value, digits)
    return f"+{written}" if _is_number(value) and round(float(value), digits) > 0 else written


def percent(value: float | None, digits: int = 1) -> str:
    """A share.

    >>> percent(0.12), percent(1.0), percent(0.00004), percent(None)
    ('12.0%', '100%', '<0.1%', '–')
    """
    if not _is_number(value):
        return "–"
    share = 100.0 * float(value)
    if 0.0 < share < 0.5 * 10.0**-digits:
        return f"<{10.0**-digits:.{digits}f}%"
    # All shares of a column have the same decimals, except 0 % and 100 %.
    digits = 0 if share in (0.0, 100.0) else digits
    return f"{share:.{digits}f}%".replace("-", "−")


def count(value: float | None) -> str:
    """A number of rows.

    >>> count(1234567), count(12.5)
    ('1,234,567', '12.5')
    """
    if not _is_number(value):
        return "–"
    number = float(value)
    return f"{number:,.0f}" if number.is_integer() or abs(number) >= 1000 else f"{number:,.1f}"


def compact(value: float | None) -> str:
    """Any number of a table: four significant digits, thousands separated.

    >>> compact(28.9583), compact(1250000.0), compact(0.000012)
    ('28.96', '1,250,000', '1.2e-05')
    """
    if not _is_number(value):
        return "–"
    number = float(value)
    written = f"{number:,.0f}" if 1000 <= abs(number) < 1e12 else f"{number:.4g}"
    return written.replace("-", "−") if "e" not in written else written


def times(value: float | None) -> str:
    """A lift.

    >>> times(2.44), times(None)
    ('2.4×', '–')
    """
    return f"{value:.1f}×" if _is_number(value) else "–"


def interval(low: float | None, high: float | None, write: Any = decimals) -> str:
    """Both limits.

    >>> interval(0.79, 0.834)
    '0.790 to 0.834'
    """
    return f"{write(low)} to {write(high)}"


def listed(names: Any, most: int = 3) -> str:
    """Names in a sentence; for alt texts.

    >>> listed(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    names = [one_line(name) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and not math.isnan(float(value))


# More lines are not readable, and each makes the figure larger.
MOST_LINES = 40
LINE_HEIGHT = 30
SECOND_LINE = 8
ENTRY_HEIGHT = 14


def canvas(theme: Theme, alt: str, *, height: int = 340, **layout: Any) -> go.Figure:
    """An empty figure with the look of the theme and its alt text."""
    figure = go.Figure()
    # A constant revision keeps the zoom when the data change.
    figure.update_layout(
        template=theme.template, height=height, meta={"alt": one_line(alt)}, uirevision="spu", **layout
    )
    return figure


def alt_text(figure: go.Figure) -> str:
    """The alternative text of a chart, one or two sentences; escape it before using it in HTML.

    >>> from spu_core.charts.canvas import LIGHT
    >>> alt_text(canvas(LIGHT, "Two curves."))
    'Two curves.'
    """
    return str((figure.layout.meta or {}).get("alt", ""))


def nothing_to_show(theme: Theme, sentence: str) -> go.Figure:
    """An empty chart with the reason why it is empty."""
    figure = canvas(theme, sentence, height=140)
    figure.update_xaxes(visible=False).update_yaxes(visible=False)
    figure.add_annotation(
        text=plain(sentence), x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, font={"color": theme.muted}
    )
    return figure


def lines_height(lines: int, extra: int = 64) -> int:
    """The height of a chart with one line per name."""
    return max(lines, 2) * LINE_HEIGHT + extra


def name_axis(figure: go.Figure, names: Sequence[str], theme: Theme, **axis: Any) -> None:
    """Names down the left side, first on top; `names` must be escaped already.

    Positions are numbers, so that names that are equal, look like dates or are cut to the same text stay separate
    lines. The chart grows where names take two lines.
    """
    if any("<br>" in name for name in names):
        figure.update_layout(height=figure.layout.height + SECOND_LINE * len(names))
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(range(len(names))),
        ticktext=list(names),
        range=[len(names) - 0.4, -0.6],
        tickfont={"color": theme.text, "size": TEXT_SIZE},
        showgrid=False,
        fixedrange=True,
        **axis,
    )


def value_column(figure: go.Figure, values: Sequence[str], theme: Theme) -> None:
    """A column of numbers to the right of the lines."""
    for place, value in enumerate(values):
        figure.add_annotation(
            text=value,
            x=1,
            xref="paper",
            xanchor="left",
            xshift=8,
            y=place,
            showarrow=False,
            font={"color": theme.text},
        )
    longest = max((len(value) for value in values), default=0)
    figure.update_layout(margin_r=20 + 7 * longest)


def value_heading(figure: go.Figure, text: str, theme: Theme) -> None:
    """A heading for the column of numbers to the right; `text` must be escaped already."""
    place = {"x": 1, "xref": "paper", "xanchor": "left", "xshift": 8, "y": 1, "yref": "paper", "yanchor": "bottom"}
    figure.add_annotation(text=text, showarrow=False, font={"color": theme.muted}, **place)


def reference_line(figure: go.Figure, at: float, text: str, color: str, *, dash: str = "dash") -> None:
    """A vertical line with its name above the plot; `text` must be escaped already."""
    figure.add_shape(
        type="line",
        x0=at,
        x1=at,
        y0=0,
        y1=1,
        yref="paper",
        line={"color": color, "width": 1.5, "dash": dash},
        layer="below",
    )
    figure.add_annotation(
        text=text,
        x=at,
        y=1,
        yref="paper",
        yanchor="bottom",
        showarrow=False,
        font={"color": color, "size": TEXT_SIZE - 1},
    )
    figure.update_layout(margin_t=28)


def light(values: Any) -> np.ndarray:
    """Numbers to draw, in half the bytes; the precision is still finer than a pixel."""
    return np.asarray(values, dtype=np.float32)


def top_legend(figure: go.Figure) -> None:
    """A legend above the plot; call it after all traces were added.

    The chart grows with the entries, since on a narrow page each takes a row of its own.
    """
    entries = sum(bool(trace.name) and trace.showlegend is not False for trace in figure.data)
    figure.update_layout(
        height=figure.layout.height + ENTRY_HEIGHT * max(0, entries - 2),
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "itemsizing": "constant",
        },
        margin_t=36,
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One name with its estimate, None where there is only a range; `hover` and `value` are escaped text.

    `name` is escaped when it is drawn, unless `is_safe`.
    """

    name: str
    estimate: float | None
    hover: str
    value: str
    color: str
    low: float | None = None
    high: float | None = None
    is_safe: bool = False

    @property
    def tick(self) -> str:
        return self.name if self.is_safe else wrapped(self.name)


def whisker_chart(lines: Sequence[Line], theme: Theme, alt: str, axis: str) -> go.Figure:
    """A dot with its interval on each line, or a thick line for a range without an estimate."""
    shown = lines[:MOST_LINES]
    figure = canvas(theme, alt, height=lines_height(len(shown), 72))
    for color in dict.fromkeys(line.color for line in shown):
        placed = [(y, line) for y, line in enumerate(shown) if line.color == color]
        _add_whiskers(figure, [(y, line) for y, line in placed if line.estimate is not None], color)
        _add_ranges(figure, [(y, line) for y, line in placed if line.estimate is None])
    return _finish(figure, shown, len(lines), theme, axis)


def bar_chart(lines: Sequence[Line], theme: Theme, alt: str, axis: str) -> go.Figure:
    """A bar on each line, with a thin whisker where there is an interval."""
    shown = lines[:MOST_LINES]
    figure = canvas(theme, alt, height=lines_height(len(shown), 72), bargap=0.42)
    figure.add_bar(
        x=[line.estimate for line in shown],
        y=list(range(len(shown))),
        orientation="h",
        marker={"color": [line.color for line in shown], "line": {"width": 0}, "cornerradius": 3},
        error_x=_errors(shown, theme.text, 1.2),
        hovertext=[line.hover for line in shown],
        hoverinfo="text",
        showlegend=False,
    )
    return _finish(figure, shown, len(lines), theme, axis)


def _add_whiskers(figure: go.Figure, placed: Sequence[tuple[int, Line]], color: str) -> None:
    lines = [line for _, line in placed]
    if not lines:
        return
    figure.add_scatter(
        x=[line.estimate for line in lines],
        y=[y for y, _ in placed],
        mode="markers",
        marker={"size": 10, "color": color},
        error_x=_errors(lines, color, 2.0),
        hovertext=[line.hover for line in lines],
        hoverinfo="text",
        showlegend=False,
    )


def _add_ranges(figure: go.Figure, placed: Sequence[tuple[int, Line]]) -> None:
    for y, line in placed:
        figure.add_scatter(
            x=[line.low, line.high],
            y=[y, y],
            mode="lines",
            line={"color": line.color, "width": 5},
            hovertext=line.hover,
            hoverinfo="text",
            showlegend=False,
        )


def _errors(lines: Sequence[Line], color: str, thickness: float) -> dict[str, Any] | None:
    if all(line.low is None for line in lines):
        return None
    return {
        "type": "data",
        "symmetric": False,
        "array": [_reach(line.estimate, line.high) for line in lines],
        "arrayminus": [_reach(line.low, line.estimate) for line in lines],
        "color": color,
        "thickness": thickness,
        "width": 0,
    }


def _reach(low: float | None, high: float | None) -> float:
    return 0.0 if low is None or high is None else high - low


def _finish(figure: go.Figure, shown: Sequence[Line], lines: int, theme: Theme, axis: str) -> go.Figure:
    name_axis(figure, [line.tick for line in shown], theme)
    value_column(figure, [line.value for line in shown], theme)
    more = f" ({count(lines - len(shown))} more not shown)" if lines > len(shown) else ""
    figure.update_xaxes(title_text=f"{axis}{more}", fixedrange=True, nticks=6)
    return figure
