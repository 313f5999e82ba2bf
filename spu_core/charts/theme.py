"""Colours and fonts of charts on the light and the dark page, as a Plotly template."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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
